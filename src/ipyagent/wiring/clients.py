"""The client of each model. The module behind it is imported when a client is made."""

from __future__ import annotations

from pathlib import Path

from ipyagent.config import LLMConfig
from ipyagent.llm.client import Client
from ipyagent.llm.resolve import BUILT_IN, SCRIPTED, Resolved


def client_for(model: str | Resolved, config: LLMConfig, root: Path) -> Client:
    """Return the client of a model; the path of a script is relative to `root`."""
    name = model.model if isinstance(model, Resolved) else model
    if name.startswith(SCRIPTED):
        from ipyagent.llm.scripted import Scripted

        return Scripted.from_file(root / name.removeprefix(SCRIPTED), model=name)
    if name.startswith(BUILT_IN):
        from ipyagent.explorer.client import ExplorerClient

        return ExplorerClient(name)
    from ipyagent.llm.gateway import LiteLLMClient

    return LiteLLMClient(name, config)


def warm_up(model: Resolved) -> None:
    """Begin to import LiteLLM if the model needs it; returns at once."""
    if not model.model.startswith((SCRIPTED, BUILT_IN)):
        from ipyagent.llm import warmup

        warmup.warm_up()
