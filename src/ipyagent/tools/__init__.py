"""What the agent can do. `base` says what a tool is; every other file holds one family of them."""
