"""Facts about models from LiteLLM's map: price, window, vision. No network.

LiteLLM's own look-ups ask a model's server, or Hugging Face, about some models.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def sees(litellm: Any, model: str) -> bool:
    """Return whether the model takes images, according to the map."""
    return bool(_entry(litellm, model).get("supports_vision"))


def window(litellm: Any, model: str) -> int | None:
    """Return the context window in tokens; None if the map does not tell."""
    tokens = _entry(litellm, model).get("max_input_tokens")
    return tokens if isinstance(tokens, int) and tokens > 0 else None


def longest(litellm: Any, model: str) -> int | None:
    """Return the longest reply in tokens; None if the map does not tell."""
    tokens = _entry(litellm, model).get("max_output_tokens")
    return tokens if isinstance(tokens, int) and tokens > 0 else None


def price(litellm: Any, model: str, usage: Any) -> float | None:
    """Return the price of LiteLLM's count in US dollars; None for a model without a price."""
    try:
        cost = float(sum(litellm.cost_per_token(model=model, usage_object=usage)))
    except Exception:  # it raises a different one for each way of not knowing
        return None
    return cost if cost > 0 else None


def _entry(litellm: Any, model: str) -> Mapping[str, Any]:
    """Return the map's entry. Some models are listed without their provider, as a field."""
    known: Mapping[str, Mapping[str, Any]] = litellm.model_cost
    provider, _, name = model.partition("/")
    if model in known:
        return known[model]
    entry = known.get(name, {})
    return entry if str(entry.get("litellm_provider", "")).startswith(provider) else {}
