"""The agent's tools. `base` defines a tool; every other file holds one family of them."""
