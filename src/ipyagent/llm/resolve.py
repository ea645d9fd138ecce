"""Which model answers, and why: decided from settings and environment, never by guessing silently.

Order: the chosen model; then OPENAI_MODEL, if its key is there; then an API key in the environment,
in the order of KEYS; then `offline/explorer`. Model servers on this machine are offered in the
notes, never used unasked: notebook data would go to whatever listens on that port.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from typing import Any
from urllib.parse import urlsplit

from ipyagent.config import LLMConfig
from ipyagent.errors import ConfigError
from ipyagent.llm.origins import ANY_KEY

BUILT_IN = "offline/"
OFFLINE = f"{BUILT_IN}explorer"
SCRIPTED = "scripted/"

KEYS = {
    "ANTHROPIC_API_KEY": "anthropic/claude-sonnet-5-5",
    "OPENAI_API_KEY": "openai/gpt-5.2",
    "GEMINI_API_KEY": "gemini/gemini-3.8-flash",
    "MISTRAL_API_KEY": "mistral/mistral-large-latest",
    "GROQ_API_KEY": "groq/openai/gpt-oss-120b",
    "DEEPSEEK_API_KEY": "deepseek/deepseek-chat",
    "OPENROUTER_API_KEY": "openrouter/openrouter/auto",
    "XAI_API_KEY": "xai/grok-4.7",
}
"""The variable that was found decides the provider; the first one counts.

OpenAI's newer models take tools only by its Responses API, to which LiteLLM needs the package mcp.
"""

CONNECT_SECONDS = 0.2
ANSWER_SECONDS = 0.3

Probe = Callable[[str], Any]
"""The JSON at a URL, or None if nothing useful answers there soon."""


@dataclass(frozen=True)
class Resolved:
    """The model that answers, why this one, and what the person should know about it.

    `others` are models that it could have been as well: a person who can be asked should choose.
    """

    model: str
    why: str
    notes: tuple[str, ...] = ()
    others: tuple[str, ...] = ()


def resolve(
    config: LLMConfig, environ: Mapping[str, str], *, probe: Probe | None = None
) -> Resolved:
    """The model to use. `probe` asks servers on this machine (None: not looked for)."""
    if config.model_id:
        return Resolved(config.model_id, "it was chosen explicitly")
    if setting := _of_a_service(config):
        raise ConfigError(
            f"llm.{setting} is set, but no model: set llm.model too (IPYAGENT_LLM__MODEL, or "
            "`%agent model ID`), for instance to openai/NAME for a server that speaks "
            "OpenAI's format."
        )
    found = [name for name in KEYS if environ.get(name, "").strip()]
    named = environ.get("OPENAI_MODEL", "").strip()
    if named and "OPENAI_API_KEY" in found:
        model = f"openai/{named.removeprefix('openai/')}"
        return Resolved(model, "the environment variables OPENAI_MODEL and OPENAI_API_KEY are set")
    if found:
        return _by_key(found)
    return _offline(offers(probe) if probe else [])


def offers(probe: Probe) -> list[str]:
    """One line for each model server that runs on this machine: how to use it."""
    return [line for ask in (_ollama, _lm_studio, _llama_cpp) if (line := ask(probe))]


def fetch(url: str) -> Any:
    """The JSON at an http URL on this machine, or None; takes half a second at most."""
    parts = urlsplit(url)
    connection = HTTPConnection(parts.netloc, timeout=CONNECT_SECONDS)
    try:
        connection.connect()
        connection.sock.settimeout(ANSWER_SECONDS)
        connection.request("GET", parts.path)
        return json.loads(connection.getresponse().read(1_000_000))
    except (OSError, HTTPException, ValueError, RecursionError):
        return None
    finally:
        connection.close()


def _of_a_service(config: LLMConfig) -> str | None:
    """The setting that makes sense for one service only, if there is one."""
    given = {
        "api_base": config.api_base,
        "api_key": config.api_key,
        "api_key_env": config.api_key_env != ANY_KEY,
        "mode": config.mode == "proxy",
        "provider": config.provider != "litellm",
    }
    return next((name for name, value in given.items() if value), None)


def _by_key(found: list[str]) -> Resolved:
    first, *others = found
    notes: tuple[str, ...] = ()
    if others:
        notes = (
            f"{', '.join(others)} {'is' if len(others) == 1 else 'are'} set too; {first} comes "
            f"first in the order {', '.join(KEYS)}. To choose: `%agent model {KEYS[others[0]]}`.",
        )
    why = f"the environment variable {first} is set"
    return Resolved(KEYS[first], why, notes, tuple(KEYS[name] for name in others))


def _offline(offered: list[str]) -> Resolved:
    what = (
        f"{OFFLINE} answers: a data explorer that follows fixed rules, not a language model. "
        "It needs no key and no network."
    )
    keys = f"an API key ({', '.join(list(KEYS)[:2])}, …)"
    if offered:
        return Resolved(OFFLINE, f"{keys} was looked for and not found", (what, *offered))
    sought = f"{keys} and a model server here (Ollama, LM Studio, llama.cpp)"
    way = (
        f"Looked for {sought} and found neither. For a language model, set a key before the kernel "
        "starts, or install Ollama and run `%agent model ollama/qwen3`."
    )
    return Resolved(OFFLINE, "no model was chosen, no key and no server found", (what, way))


def _ollama(probe: Probe) -> str | None:
    names = _names(probe("http://127.0.0.1:11434/api/tags"), "models", "name")
    return _offer("Ollama", "ollama", names)


def _lm_studio(probe: Probe) -> str | None:
    names = _names(probe("http://127.0.0.1:1234/v1/models"), "data", "id")
    return _offer("LM Studio", "lm_studio", names)


def _llama_cpp(probe: Probe) -> str | None:
    # Port 8080 is anybody's: /props tells that it is llama.cpp.
    props = probe("http://127.0.0.1:8080/props")
    if not isinstance(props, dict) or "chat_template" not in props:
        return None
    names = _names(probe("http://127.0.0.1:8080/v1/models"), "data", "id")
    offer = _offer("llama.cpp", "llamafile", names)
    caps = props.get("chat_template_caps")
    if offer and isinstance(caps, dict) and caps.get("supports_tools") is False:
        offer += " Its chat template drops tools, so it cannot work on your data: start it with "
        offer += "another template (--jinja --chat-template-file)."
    return offer


def _offer(server: str, provider: str, names: list[str] | None) -> str | None:
    if names is None:
        return None
    if not names:
        return f"{server} is running here, but has no model yet."
    return f"{server} is running here: use it with `%agent model {provider}/{names[0]}`."


def _names(listing: Any, key: str, field: str) -> list[str] | None:
    """The models' names in a listing; None if this is no such listing."""
    entries = listing.get(key) if isinstance(listing, dict) else None
    if not isinstance(entries, list):
        return None
    names = (entry.get(field) for entry in entries if isinstance(entry, dict))
    return [name for name in names if isinstance(name, str) and name]
