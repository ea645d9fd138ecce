"""Facts about models: price, window, vision. No network, and no LiteLLM.

They are in `models.json`, which `packaging/model_facts.py` writes from LiteLLM's public map. Where
LiteLLM is imported, its own map counts: it may be newer, and have models that were registered.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from ipyagent.json_types import JsonMapping
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
