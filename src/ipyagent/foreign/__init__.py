"""Other formats (OpenAI's, Anthropic's, older journals'), converted into ours.

From plain data to plain data: `schema` validates the result.
"""
