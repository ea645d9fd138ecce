"""The built-in data explorer: deterministic, and answering over the same protocol as a model."""

from ipyagent.explorer.client import ExplorerClient, ExplorerReply, reply

__all__ = ["ExplorerClient", "ExplorerReply", "reply"]
