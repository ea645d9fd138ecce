"""What LiteLLM's map knows of a model: its price, its window, whether it sees. No network.

LiteLLM's own look-ups ask a model's server, or Hugging Face, about some models.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def sees(litellm: Any, model: str) -> bool:
    """Whether the map says that the model takes images."""
    return bool(_entry(litellm, model).get("supports_vision"))


def window(litellm: Any, model: str) -> int | None:
    """How many tokens the model takes in; None where the map doesn't tell."""
    tokens = _entry(litellm, model).get("max_input_tokens")
    return tokens if isinstance(tokens, int) and tokens > 0 else None


def longest(litellm: Any, model: str) -> int | None:
    """Return how many tokens a reply of the model can have; None where the map doesn't tell."""
    tokens = _entry(litellm, model).get("max_output_tokens")
    return tokens if isinstance(tokens, int) and tokens > 0 else None


def price(litellm: Any, model: str, usage: Any) -> float | None:
    """US dollars for LiteLLM's count of tokens; None for a model without a price."""
    try:
        cost = float(sum(litellm.cost_per_token(model=model, usage_object=usage)))
    except Exception:  # it raises a different one for each way of not knowing
        return None
    return cost if cost > 0 else None


def _entry(litellm: Any, model: str) -> Mapping[str, Any]:
    """The map's entry. Some models stand there without their provider, which is then a field."""
    known: Mapping[str, Mapping[str, Any]] = litellm.model_cost
    provider, _, name = model.partition("/")
    if model in known:
        return known[model]
    entry = known.get(name, {})
    return entry if str(entry.get("litellm_provider", "")).startswith(provider) else {}
