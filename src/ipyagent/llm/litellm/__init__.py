"""Models that only LiteLLM reaches. It is an extra: nothing else here needs it."""
