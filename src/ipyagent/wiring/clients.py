"""The client of each model. The module behind it is imported when a client is made.

Installed distributions add clients by entry points: `acme = "acme.client:Client"` in the group
`ipyagent.clients` answers for models that are called `acme/…`, and is called with that name.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path

from ipyagent.config import LLMConfig
from ipyagent.errors import ConfigError
from ipyagent.llm.client import Client
from ipyagent.llm.destinations import BUILT_IN, SCRIPTED, Resolved
from ipyagent.llm.service_client import ServiceClient
from ipyagent.providers import PROVIDERS

GROUP = "ipyagent.clients"
_EXPLORER = EntryPoint(BUILT_IN.rstrip("/"), "ipyagent.explorer.client:ExplorerClient", GROUP)
"""The built-in client, found without the metadata of an installation as well."""


def client_for(
    model: str | Resolved,
    config: LLMConfig,
    root: Path,
    environ: Mapping[str, str] | None = None,
    last: Client | None = None,
) -> Client:
    """Return the client of a model; the path of a script is relative to `root`.

    It is the `last` one if that asks the same model in the same way: it remembers the
    conversation as it was sent, and what the service refused.
    """
    name = model.model if isinstance(model, Resolved) else model
    if name.startswith(SCRIPTED):
        from ipyagent.llm.scripted import Scripted

        return Scripted.from_file(root / name.removeprefix(SCRIPTED), model=name)
    if (point := _find_entry_point(name)) is not None:
        client: Client = point.load()(name)
        return client
    new = service_client(name, config, environ=environ)
    return last if isinstance(last, ServiceClient) and last.is_like(new) else new


def _find_entry_point(model: str) -> EntryPoint | None:
    """Return the entry point that answers for a model's name; those of services have none."""
    prefix, slash, _ = model.partition("/")
    if not slash or prefix in PROVIDERS:
        return None
    found = [*entry_points(group=GROUP, name=prefix)]
    return found[0] if found else _EXPLORER if prefix == _EXPLORER.name else None


def service_client(
    model: str,
    config: LLMConfig,
    *,
    environ: Mapping[str, str] | None = None,
    start: Mapping[str, str] | None = None,
) -> Client:
    """Return the client of a service's model; raises ConfigError if there is none here."""
    from ipyagent.llm.destinations import find_route

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
    if model.model.startswith(SCRIPTED) or _find_entry_point(model.model) is not None:
        return
    from ipyagent.llm.destinations import find_route

    if config.client != "litellm" and find_route(model.model, config, os.environ) is not None:
        threading.Thread(target=_prepare_direct, name="ipyagent-connect", daemon=True).start()
        return
    from ipyagent.llm.litellm import warmup

    warmup.warm_up()


def _prepare_direct() -> None:
    from ipyagent.llm.direct.client import prepare

    prepare()
