"""The model that answers, its route and destination, and the key that may be sent there.

Order: the chosen model; then OPENAI_MODEL, if its key is there; then an API key in the environment,
in the order of the table of providers; then `offline/explorer`. Model servers on this machine are
offered in the notes, never used without asking: notebook data would go to whatever listens on that
port.

A provider's key is sent to the provider's own address. It is sent elsewhere only if `llm.api_base`
says so, or a base-URL variable that existed when the process started: a later one was set by the
author of a `.env` file, who could be after the key.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from urllib.parse import urlsplit, urlunsplit

from ipyagent import llm
from ipyagent.config import LLMConfig
from ipyagent.errors import ConfigError, ModelRefusedError
from ipyagent.json_types import object_of
from ipyagent.llm.modelmap import Facts, ask_ollama, ask_server, facts_of
from ipyagent.providers import ALIASES, PROVIDERS, PROXY, Provider, default_models

BUILT_IN = "offline/"
OFFLINE = f"{BUILT_IN}explorer"
SCRIPTED = "scripted/"

ANSWER_SECONDS = 0.3

MOST_MODELS = 50
"""Models of one server that are listed."""

Probe = Callable[[str], object]
"""Returns the JSON at a URL, or None if there is no useful answer soon."""


@dataclass(frozen=True)
class Resolved:
    """The model that answers, why this one, and notes for the user.

    `others` are other possible models: a user who can be asked should choose.
    """

    model: str
    why: str
    notes: tuple[str, ...] = ()
    others: tuple[str, ...] = ()


def resolve(
    config: LLMConfig, environ: Mapping[str, str], *, probe: Probe | None = None
) -> Resolved:
    """Return the model to use. `probe` asks servers on this machine (None: not asked)."""
    if config.model_id:
        return Resolved(config.model_id, "it was chosen explicitly")
    if setting := _of_a_service(config):
        raise ConfigError(
            f"llm.{setting} is set, but no model: set llm.model too (IPYAGENT_LLM__MODEL, or "
            "`%agent model ID`), for instance to openai/NAME for a server that speaks "
            "OpenAI's format."
        )
    set_keys = [name for name in default_models() if environ.get(name, "").strip()]
    openai_model = environ.get("OPENAI_MODEL", "").strip()
    if openai_model and "OPENAI_API_KEY" in set_keys:
        model = f"openai/{openai_model.removeprefix('openai/')}"
        return Resolved(model, "the environment variables OPENAI_MODEL and OPENAI_API_KEY are set")
    if set_keys:
        return _by_key(set_keys)
    return _offline(offers(probe) if probe else [])


def offers(probe: Probe) -> list[str]:
    """Return one line for each model server on this machine: how to use it."""
    return [_describe_server(server) for server in _find_servers(probe)]


def list_models(
    *configs: LLMConfig, environ: Mapping[str, str], probe: Probe | None = None
) -> dict[str, str]:
    """Return the models that can answer, and why; those of `configs` come first, in their order.

    Where the first names a service, every model would be asked there: others are not listed.
    """
    found: dict[str, str] = {}
    for config in configs:
        with suppress(ConfigError):  # a service without a model, until one was chosen
            resolved = resolve(config, environ)
            found.setdefault(resolved.model, resolved.why)
    if not _of_a_service(configs[0]):
        for name, model in default_models().items():
            if environ.get(name, "").strip():
                found.setdefault(model, f"{name} is set")
        for server in _find_servers(probe) if probe else ():
            for each in server.models[:MOST_MODELS]:
                found.setdefault(f"{server.provider}/{each}", f"{server.name} on this machine")
    found[OFFLINE] = "follows fixed rules, not a language model"
    return found


def fetch(url: str) -> object:
    """Return the JSON at an http URL on this machine, or None; takes at most half a second."""
    answer = ask_server(url, seconds=ANSWER_SECONDS, most_bytes=1_000_000)
    return None if answer is None else answer[1]


def _of_a_service(config: LLMConfig) -> str | None:
    """Return the setting that makes sense for one service only, if there is one."""
    given = {
        "api_base": config.api_base,
        "api_key": config.api_key,
        "api_key_env": config.api_key_env != ANY_KEY,
        "mode": config.mode == "proxy",
        "provider": config.provider != "litellm",
    }
    return next((name for name, value in given.items() if value), None)


def _by_key(set_keys: list[str]) -> Resolved:
    first, *others = set_keys
    models = default_models()
    notes: tuple[str, ...] = ()
    if others:
        notes = (
            f"{', '.join(others)} {'is' if len(others) == 1 else 'are'} set too; {first} comes "
            f"first in the order {', '.join(models)}. "
            f"To choose: `%agent model {models[others[0]]}`.",
        )
    why = f"the environment variable {first} is set"
    return Resolved(models[first], why, notes, tuple(models[name] for name in others))


def _offline(offered: list[str]) -> Resolved:
    what = (
        f"{OFFLINE} answers: a data explorer that follows fixed rules, not a language model. "
        "It needs no key and no network."
    )
    keys = f"an API key ({', '.join(list(default_models())[:2])}, …)"
    if offered:
        return Resolved(OFFLINE, f"{keys} was looked for and not found", (what, *offered))
    sought = f"{keys} and a model server here (Ollama, LM Studio, llama.cpp)"
    way = (
        f"Looked for {sought} and found neither. For a language model, set a key before the kernel "
        "starts, or install Ollama and run `%agent model ollama/qwen3`."
    )
    return Resolved(OFFLINE, "no model was chosen, no key and no server found", (what, way))


@dataclass(frozen=True)
class _Server:
    """A model server on this machine, and its models."""

    name: str
    provider: str
    models: list[str]
    warning: str = ""


def _find_servers(probe: Probe) -> list[_Server]:
    found = []
    if (names := _list_names(probe, f"{_OLLAMA}/api/tags", "models", "name")) is not None:
        found.append(_Server("Ollama", "ollama", names))
    if (names := _list_names(probe, "http://127.0.0.1:1234/v1/models", "data", "id")) is not None:
        found.append(_Server("LM Studio", "lm_studio", names))
    # Port 8080 is anybody's: /props tells that it is llama.cpp.
    props = object_of(probe("http://127.0.0.1:8080/props"))
    if "chat_template" not in props:
        return found
    if (names := _list_names(probe, "http://127.0.0.1:8080/v1/models", "data", "id")) is not None:
        drops_tools = object_of(props.get("chat_template_caps")).get("supports_tools") is False
        found.append(_Server("llama.cpp", "llamafile", names, _DROPS_TOOLS if drops_tools else ""))
    return found


_DROPS_TOOLS = (
    " Its chat template drops tools, so it cannot work on your data: start it with "
    "another template (--jinja --chat-template-file)."
)


def _describe_server(server: _Server) -> str:
    if not server.models:
        return f"{server.name} is running here, but has no model yet.{server.warning}"
    model = f"{server.provider}/{server.models[0]}"
    return f"{server.name} is running here: use it with `%agent model {model}`.{server.warning}"


_OLLAMA = "http://127.0.0.1:11434"


def list_able(address: str = _OLLAMA) -> list[str]:
    """Return the names of the models of an Ollama that can call tools. May block."""
    root = address.rstrip("/").removesuffix("/v1")
    names = _list_names(fetch, f"{root}/api/tags", "models", "name") or []
    sizes = {name: ask_ollama(root, name) for name in names[:MOST_MODELS]}
    return [name for name, size in sizes.items() if size and size.calls_tools]


def _list_names(probe: Probe, url: str, key: str, field: str) -> list[str] | None:
    """Return the names of a server's models; None if nothing there lists them."""
    entries = object_of(probe(url)).get(key)
    if not isinstance(entries, list):
        return None
    names = (entry.get(field) for entry in entries if isinstance(entry, dict))
    return [name for name in names if isinstance(name, str) and name]


ANY_KEY = "LITELLM_API_KEY"  # the default of llm.api_key_env
NO_KEY = "not-needed"  # servers that check no key still want the header


@dataclass(frozen=True)
class Destination:
    """The address and credentials of a request."""

    base: str | None
    key: str | None = field(repr=False)
    compatible: bool
    provider: str = ""
    key_from: str | None = None
    """The variable or setting that holds the key; None without a key."""
    keys: tuple[str, ...] = ()
    """Variables that may hold it."""


def destination(
    provider: str, config: LLMConfig, environ: Mapping[str, str], start: Mapping[str, str]
) -> Destination:
    """Return where requests to `provider` go; raises ModelRefusedError for a missing setting."""
    provider = ALIASES.get(provider, provider)
    known = PROVIDERS.get(provider)
    if provider == PROXY and not config.api_base:
        raise ModelRefusedError(
            "llm.mode is proxy, but llm.api_base (IPYAGENT_LLM__API_BASE) is not set."
        )
    base = config.api_base or (_base(known, environ, start) if known else None)
    if known is None and base is None:
        raise ModelRefusedError(
            f"The address of {provider} is not known here. Set llm.api_base "
            "(IPYAGENT_LLM__API_BASE) to the base URL of the service."
        )
    if base and provider == "ollama" and not base.rstrip("/").endswith("/v1"):
        base = base.rstrip("/") + "/v1"  # LiteLLM's settings for Ollama name its root
    source, key = _find_key(known, config, environ)
    return Destination(
        base,
        key if source else _without_key(provider, known, config),
        compatible=known is not None and known.compatible,
        provider=provider,
        key_from=source,
        keys=_names(known, config),
    )


def late_bases(environ: Mapping[str, str], start: Mapping[str, str]) -> dict[str, str]:
    """Return the base-URL variables that were set or changed after the process started."""
    names = (name for provider in PROVIDERS.values() for name in provider.base_variables)
    return {
        name: environ[name] for name in names if environ.get(name) and _late(name, environ, start)
    }


def _late(name: str, environ: Mapping[str, str], start: Mapping[str, str]) -> bool:
    return environ.get(name) != start.get(name)


def _base(provider: Provider, environ: Mapping[str, str], start: Mapping[str, str]) -> str | None:
    for name in provider.base_variables:
        if not environ.get(name):
            continue
        if _late(name, environ, start):
            raise ModelRefusedError(
                f"{name} was set to {environ[name]} after this process started, perhaps by a .env "
                "file, so nothing was sent there. To use that address, set llm.api_base "
                f"(IPYAGENT_LLM__API_BASE); otherwise remove {name}."
            )
        return environ[name]
    return provider.base


def _find_key(
    known: Provider | None, config: LLMConfig, environ: Mapping[str, str]
) -> tuple[str | None, str]:
    """Return the setting or variable that holds a key, and the key."""
    if config.api_key and (key := config.api_key.get_secret_value().strip()):
        return "llm.api_key", key
    keys = ((name, environ.get(name, "").strip()) for name in _names(known, config))
    return next((each for each in keys if each[1]), (None, ""))


def _without_key(provider: str, known: Provider | None, config: LLMConfig) -> str | None:
    """Return what is sent in the place of a key; raises ModelRefusedError if one is needed."""
    names = _names(known, config)
    if config.api_key_env != ANY_KEY:
        raise ModelRefusedError(
            f"The environment variable {config.api_key_env}, named by llm.api_key_env, is not set. "
            "Set it to the key and try again."
        )
    if known is not None and known.base is None and not known.compatible:
        return None  # LiteLLM finds credentials of its own
    if names and not config.api_base:
        raise ModelRefusedError(
            f"No key for {provider}: set the environment variable {names[0]}, "
            "or choose another model with `%agent model`."
        )
    return NO_KEY


def _names(known: Provider | None, config: LLMConfig) -> tuple[str, ...]:
    """Return the variables that may hold the key.

    The one for all services is no provider's: it is sent only to the configured address.
    """
    if config.api_key_env != ANY_KEY:
        return (config.api_key_env,)
    own = known.keys if known else ()
    return (ANY_KEY, *own) if config.api_base else own


def dotenv_warning() -> str | None:
    """Return a warning if the user's own import of litellm let a `.env` choose a base URL."""
    if not llm.was_imported:
        return None
    late = late_bases(os.environ, llm.start_environ())
    if not late:
        return None
    names = ", ".join(f"{name}={value}" for name, value in late.items())
    return (
        f"litellm was imported before ipyagent, and {names} was not set when this process started "
        "(litellm reads the .env file of the working folder). ipyagent sends no key there; to use "
        "that address on purpose, set llm.api_base."
    )


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
        return replace(self.provider, length="max_tokens", call_ids=ids, structured=False)


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
