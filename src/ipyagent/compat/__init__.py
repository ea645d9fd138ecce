"""The vocabularies of other agent libraries, for code that was written for them."""
