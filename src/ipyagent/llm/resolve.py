"""Resolve the model from settings and environment, never by silent guessing.

Order: the chosen model; then OPENAI_MODEL, if its key is there; then an API key in the environment,
in the order of the table of providers; then `offline/explorer`. Model servers on this machine are
offered in the notes, never used without asking: notebook data would go to whatever listens on that
port.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from ipyagent.config import LLMConfig
from ipyagent.errors import ConfigError
from ipyagent.llm.destinations import ANY_KEY
from ipyagent.llm.modelmap import ask_server
from ipyagent.providers import default_models

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
    if (names := _names(probe("http://127.0.0.1:11434/api/tags"), "models", "name")) is not None:
        found.append(_Server("Ollama", "ollama", names))
    if (names := _names(probe("http://127.0.0.1:1234/v1/models"), "data", "id")) is not None:
        found.append(_Server("LM Studio", "lm_studio", names))
    # Port 8080 is anybody's: /props tells that it is llama.cpp.
    props = probe("http://127.0.0.1:8080/props")
    if not isinstance(props, dict) or "chat_template" not in props:
        return found
    if (names := _names(probe("http://127.0.0.1:8080/v1/models"), "data", "id")) is not None:
        caps = props.get("chat_template_caps")
        drops_tools = isinstance(caps, dict) and caps.get("supports_tools") is False
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


def _names(listing: object, key: str, field: str) -> list[str] | None:
    """Return the models' names in a listing; None if it is no such listing."""
    entries = listing.get(key) if isinstance(listing, dict) else None
    if not isinstance(entries, list):
        return None
    names = (entry.get(field) for entry in entries if isinstance(entry, dict))
    return [name for name in names if isinstance(name, str) and name]
