"""Token counts of services, in all the shapes in which they are sent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ipyagent.schema import TokenUsage

_READ = ("cache_read_input_tokens", "prompt_cache_hit_tokens", "cached_tokens")
"""Anthropic's name for tokens read from a cache, DeepSeek's, and Moonshot's."""


def count_tokens(usage: Any) -> TokenUsage:
    """Return a service's count in ours: prompts include cached tokens, totals are recomputed.

    `usage` has OpenAI's names, as a mapping or as an object of LiteLLM's; its prompt tokens include
    the cached ones.
    """
    details = _field(usage, "prompt_tokens_details") or _field(usage, "input_tokens_details")
    read = _count(details, "cached_tokens")
    read = read or next((count for name in _READ if (count := _count(usage, name))), 0)
    created = _count(details, "cache_creation_tokens")
    created = created or _count(usage, "cache_creation_input_tokens")
    prompt = _count(usage, "prompt_tokens") or _count(usage, "input_tokens")
    return TokenUsage(
        prompt_tokens=max(prompt, read + created),
        completion_tokens=_count(usage, "completion_tokens") or _count(usage, "output_tokens"),
        cache_read_tokens=read,
        cache_creation_tokens=created,
    )


def update_tokens(known: TokenUsage | None, usage: Any) -> TokenUsage | None:
    """Return the counts after another report: a later one may leave some out, or send zeroes."""
    counts = {name: n for name, n in count_tokens(usage).model_dump().items() if n}
    return TokenUsage(**{**(known.model_dump() if known else {}), **counts}) if counts else known


def _field(source: Any, name: str) -> Any:
    return source.get(name) if isinstance(source, Mapping) else getattr(source, name, None)


def _count(source: Any, name: str) -> int:
    return to_count(_field(source, name))


def to_count(value: object) -> int:
    """Return a number, also of one that is sent as a text; 0 for anything that is no count."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return 0
    try:
        return max(0, value if isinstance(value, int) else int(float(value)))
    except (ValueError, OverflowError):
        return 0
