"""An agent that lives in your notebook's kernel."""

__version__ = "0.1.0"
