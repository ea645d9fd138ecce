"""The client of each model. The module behind it is imported when a client is made."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from ipyagent.config import LLMConfig
from ipyagent.errors import ConfigError
from ipyagent.llm.client import Client
from ipyagent.llm.resolve import BUILT_IN, SCRIPTED, Resolved


def client_for(
    model: str | Resolved,
    config: LLMConfig,
    root: Path,
    environ: Mapping[str, str] | None = None,
) -> Client:
    """Return the client of a model; the path of a script is relative to `root`."""
    name = model.model if isinstance(model, Resolved) else model
    if name.startswith(SCRIPTED):
        from ipyagent.llm.scripted import Scripted

        return Scripted.from_file(root / name.removeprefix(SCRIPTED), model=name)
    if name.startswith(BUILT_IN):
        from ipyagent.explorer.client import ExplorerClient

        return ExplorerClient(name)
    return service_client(name, config, environ=environ)


def service_client(
    model: str,
    config: LLMConfig,
    *,
    environ: Mapping[str, str] | None = None,
    start: Mapping[str, str] | None = None,
) -> Client:
    """Return the client of a service's model; raises ConfigError if there is none here."""
    from ipyagent.llm.direct.routes import find_route

    variables = os.environ if environ is None else environ
    route = None if config.client == "litellm" else find_route(model, config, variables)
    if route is not None:
        from ipyagent.llm.direct.client import DirectClient

        return DirectClient(model, route, config, environ=environ, start=start)
    if config.client == "direct":
        raise ConfigError(
            f"llm.client is direct, but {model} is reached through LiteLLM only: set llm.client to "
            "auto, or choose a model whose service speaks OpenAI's or Anthropic's format."
        )
    if find_spec("litellm") is None:
        raise ConfigError(
            f"{model} is reached through LiteLLM, which is not installed: run `%pip install "
            "'ipyagent[litellm]'`, or choose a model whose service speaks OpenAI's or Anthropic's "
            "format."
        )
    from ipyagent.llm.litellm.gateway import LiteLLMClient

    return LiteLLMClient(model, config, environ=environ, start=start)


def warm_up(model: Resolved, config: LLMConfig) -> None:
    """Begin to import the dependencies of the model's client; returns at once."""
    if model.model.startswith((SCRIPTED, BUILT_IN)):
        return
    from ipyagent.llm.direct.routes import find_route

    if config.client != "litellm" and find_route(model.model, config, os.environ) is not None:
        threading.Thread(target=_prepare_direct, name="ipyagent-connect", daemon=True).start()
        return
    from ipyagent.llm.litellm import warmup

    warmup.warm_up()


def _prepare_direct() -> None:
    from ipyagent.llm.direct.client import prepare

    prepare()
