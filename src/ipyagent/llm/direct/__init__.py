"""Requests to models over our own HTTP client: OpenAI's two formats and Anthropic's."""
