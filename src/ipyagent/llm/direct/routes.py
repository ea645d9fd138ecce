"""The choice of the models that are asked directly, and of their format."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from urllib.parse import urlsplit, urlunsplit

from ipyagent.config import LLMConfig
from ipyagent.llm.modelmap import Facts, facts_of
from ipyagent.providers import ALIASES, PROVIDERS, PROXY, Provider

_GPT = re.compile(r"gpt-(\d+)(?:\.(\d+))?")
_FIRST_WITH_RESPONSES = (5, 4)
_FORCED = "responses/"  # LiteLLM's prefix for models that are asked by that format
_OPENAI = "api.openai.com"


@dataclass(frozen=True)
class Route:
    """The provider of a model that can be asked directly, and the model's id there."""

    provider_name: str
    provider: Provider
    name: str

    @property
    def is_forced(self) -> bool:
        """True if the user's id says that the model is asked by Responses."""
        return self.provider.responses and self.name.startswith(_FORCED)

    @property
    def id(self) -> str:
        """The model's id at its service."""
        return self.name.removeprefix(_FORCED) if self.is_forced else self.name

    def provider_at(self, base: str | None) -> Provider:
        """Return the provider as it is at that address: another's may be any server.

        LiteLLM's proxy keeps a call's signature in its id, behind `__thought__`.
        """
        if not self.provider.base or _host(base) == _host(self.provider.base):
            return self.provider
        ids = self.provider.call_ids and f"{self.provider.call_ids}|.*__thought__.*"
        return replace(self.provider, length="max_tokens", call_ids=ids)


def find_route(model: str, config: LLMConfig, environ: Mapping[str, str]) -> Route | None:
    """Return how a model is asked directly; None if only LiteLLM can ask it."""
    name = PROXY if config.mode == "proxy" else _provider_name(model)
    provider = PROVIDERS.get(name)
    if provider is None or not provider.format:
        return None
    base = config.api_base or _first(provider.base_variables, environ) or provider.base
    if name != PROXY and (not base or provider.direct_at not in urlsplit(base).path):
        return None
    if not provider.base and name != PROXY and not _has_key(provider, config, environ):
        return None  # LiteLLM finds credentials of its own
    has_prefix = name != PROXY and _prefix(model) == name
    return Route(name, provider, model.partition("/")[2] if has_prefix else model)


def insists_on_responses(route: Route, base: str | None, facts: Facts) -> bool:
    """Return whether the model is asked by OpenAI's Responses.

    At OpenAI's own addresses, newer models refuse tools in chat completions; elsewhere, servers
    that call their models so need not speak Responses.
    """
    if not route.provider.responses:
        return False
    if route.is_forced:
        return True
    if not (_host(base).endswith(_OPENAI) or route.provider.direct_at):
        return False
    version = _GPT.search(route.name)
    is_new = version and (int(version[1]), int(version[2] or 0)) >= _FIRST_WITH_RESPONSES
    return bool(is_new) or facts.get("mode") == "responses"


def complete_address(base: str, middle: str, path: str) -> str:
    """Return the address of requests; a base may already hold the beginning of the path."""
    parts = urlsplit(base)
    start = parts.path.rstrip("/")
    if start.endswith(path):
        return base
    if middle and not start.endswith(middle):
        start += middle
    if start.endswith("/v1"):
        path = path.removeprefix("/v1")
    return urlunsplit(parts._replace(path=start + path))


def _provider_name(model: str) -> str:
    """Return the provider in the table; of a model without one, the map's."""
    prefix = _prefix(model)
    if prefix in PROVIDERS:
        return prefix
    return str(facts_of(model).get("litellm_provider", "")) if "/" not in model else ""


def _prefix(model: str) -> str:
    prefix, slash, _ = model.partition("/")
    return ALIASES.get(prefix, prefix) if slash else ""


def _first(names: tuple[str, ...], environ: Mapping[str, str]) -> str | None:
    return next((value for name in names if (value := environ.get(name))), None)


def _has_key(provider: Provider, config: LLMConfig, environ: Mapping[str, str]) -> bool:
    return bool(config.api_key or _first((config.api_key_env, *provider.keys), environ))


def _host(address: str | None) -> str:
    return urlsplit(address or "").hostname or ""
