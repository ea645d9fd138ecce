"""Facts about models: price, window, vision, size. No LiteLLM, and no network but this machine's.

They are in `models.json`, which `packaging/model_facts.py` writes from LiteLLM's public map. Where
LiteLLM is imported, its own map counts: it may be newer, and have models that were registered.

The size of a model decides how much it is given at once. The window is known from the map; the
parameters from the model's name, or from Ollama, which reports both for a model that it serves.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from functools import lru_cache
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from urllib.parse import urlsplit

from ipyagent.json_types import JsonDict, JsonMapping, object_of
from ipyagent.llm.client import Client, ModelSize, Sized
from ipyagent.schema import TokenUsage

Facts = JsonMapping
"""A model's entry in the map; empty for a model that the map does not know."""

_FILE = Path(__file__).with_name("models.json")
_ABOVE = re.compile(r"input_cost_per_token_above_(\d+)k_tokens")


def facts_of(model: str) -> Facts:
    """Return the map's entry for a model. Some are listed without their provider, as a field."""
    imported = getattr(sys.modules.get("litellm"), "model_cost", None)
    return _select(model, imported) if imported else _read(model)


def sees(facts: Facts) -> bool:
    """Return whether the model takes images."""
    return bool(facts.get("supports_vision"))


def window(facts: Facts) -> int | None:
    """Return the context window in tokens; None if the map does not tell."""
    return _positive(facts.get("max_input_tokens"))


def longest(facts: Facts) -> int | None:
    """Return the longest reply in tokens; None if the map does not tell."""
    return _positive(facts.get("max_output_tokens"))


def price(facts: Facts, usage: TokenUsage) -> float | None:
    """Return the price in US dollars; None for a model without a price.

    Cached tokens have prices of their own, and long prompts have others for all tokens.
    """
    suffix = _suffix(facts, usage.prompt_tokens)

    def rate(name: str, otherwise: float = 0.0) -> float:
        value = facts.get(f"{name}{suffix}", facts.get(name))
        return float(value) if isinstance(value, (int, float)) else otherwise

    plain = rate("input_cost_per_token")
    cached = usage.cache_read_tokens + usage.cache_creation_tokens
    cost = (
        (usage.prompt_tokens - cached) * plain
        + usage.cache_read_tokens * rate("cache_read_input_token_cost", plain)
        + usage.cache_creation_tokens * rate("cache_creation_input_token_cost", plain)
        + usage.completion_tokens * rate("output_cost_per_token")
    )
    return cost if cost > 0 else None


def _suffix(facts: Facts, prompt_tokens: int) -> str:
    """Return the ending of the names of prices for a prompt of that length."""
    limits = [int(match[1]) for name in facts if (match := _ABOVE.fullmatch(name))]
    passed = [limit for limit in limits if prompt_tokens > limit * 1000]
    return f"_above_{max(passed)}k_tokens" if passed else ""


def _positive(value: object) -> int | None:
    return value if isinstance(value, int) and value > 0 else None


def _select(model: str, known: Mapping[str, Facts]) -> Facts:
    provider, _, name = model.partition("/")
    if model in known:
        return known[model]
    facts = known.get(name, {})
    return facts if str(facts.get("litellm_provider", "")).startswith(provider) else {}


@lru_cache(maxsize=32)
def _read(model: str) -> Facts:
    """Return the facts in the file, of which only this model's line is parsed."""
    raw = _FILE.read_bytes()
    known = {}
    for name in (model, model.partition("/")[2]):
        if line := re.search(rb"^%s: (\{.*\})" % re.escape(json.dumps(name).encode()), raw, re.M):
            known[name] = json.loads(line[1])
    return _select(model, known)


CONNECT_SECONDS = 0.2


def ask_server(
    url: str, body: object = None, *, seconds: float, most_bytes: int
) -> tuple[int, object] | None:
    """Return the status and the JSON at an http URL; None without a useful answer.

    A body is sent as JSON in a POST. `seconds` limits each wait for the answer.
    """
    parts = urlsplit(url)
    method, data = ("GET", None) if body is None else ("POST", json.dumps(body).encode())
    connection = HTTPConnection(parts.netloc, timeout=CONNECT_SECONDS)
    try:
        connection.connect()
        connection.sock.settimeout(seconds)
        connection.request(method, parts.path, data)
        response = connection.getresponse()
        return response.status, json.loads(response.read(most_bytes))
    except (OSError, HTTPException, ValueError, RecursionError):
        return None
    finally:
        connection.close()


ANSWER_SECONDS = 1.0
_ANSWER_BYTES = 5_000_000

_IN_NAME = re.compile(r"(?<![\w.])(\d{1,3}(?:\.\d)?)b(?![a-z0-9])", re.IGNORECASE)
_EXPERTS = re.compile(r"\d+x\d", re.IGNORECASE)
_NUM_CTX = re.compile(r"^num_ctx\s+(\d+)", re.MULTILINE)


def size_of(client: Client) -> ModelSize:
    """Return the size of a client's model. May block."""
    return client.size() if isinstance(client, Sized) else ModelSize(window=client.context_window)


def size_in_name(model: str) -> float | None:
    """Return the billions of parameters that a model's id names, such as `qwen3:8b`."""
    name = model.rpartition("/")[2]
    found = None if _EXPERTS.search(name) else _IN_NAME.search(re.sub("[-:_]", " ", name))
    return float(found[1]) if found else None


@lru_cache(maxsize=64)
def ask_ollama(address: str, name: str) -> ModelSize | None:
    """Return what Ollama's `/api/show` tells of a model; None if it does not answer soon.

    Of failures nothing is remembered but for this kernel: the name decides then.
    """
    url, body = f"{address.rstrip('/').removesuffix('/v1')}/api/show", {"model": name}
    if urlsplit(url).scheme != "http":
        return None
    answer = ask_server(url, body, seconds=ANSWER_SECONDS, most_bytes=_ANSWER_BYTES)
    if answer is None or answer[0] != 200 or not isinstance(answer[1], dict):
        return None
    info = object_of(answer[1].get("model_info"))
    count = info.get("general.parameter_count")
    parameters = round(count / 1e9, 1) if isinstance(count, int | float) and count > 0 else None
    abilities = answer[1].get("capabilities")  # older versions do not tell
    calls_tools = not isinstance(abilities, list) or "tools" in abilities
    return ModelSize(parameters, _window(info, answer[1].get("parameters")), calls_tools)


def _window(info: JsonDict, settings: object) -> int | None:
    """Return the context that the model is run with, if it is set, or else could have."""
    if isinstance(settings, str) and (found := _NUM_CTX.search(settings)):
        return int(found[1])
    lengths = [value for key, value in info.items() if key.endswith(".context_length")]
    return next((value for value in lengths if isinstance(value, int) and value > 0), None)
