"""Other formats' counts of tokens, turned into ours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ipyagent.json_types import JsonDict

_OURS = {"prompt_tokens", "completion_tokens", "cache_read_tokens", "cache_creation_tokens"}
_DETAILS = (
    "prompt_tokens_details",
    "input_tokens_details",
    "completion_tokens_details",
    "output_tokens_details",
    "reasoning_tokens",  # part of what was put out
)


def usage(data: object) -> Any:
    """OpenAI's, Anthropic's and LiteLLM's counts; a total must be the sum of its parts.

    Anthropic's `input_tokens` leave out what was cached, everybody else's prompt includes it.
    """
    if not isinstance(data, Mapping) or data.keys() <= _OURS:
        return data
    data = dict(data)
    details = [data.pop(key, None) for key in _DETAILS]
    reported = _taken(data, "cached_tokens") or _cached(details[0]) or _cached(details[1])
    read = _taken(data, "cache_read_input_tokens")
    created = _taken(data, "cache_creation_input_tokens")
    anthropic = not _OURS & data.keys()
    if anthropic:
        apart = 0 if reported else read + created
        data["prompt_tokens"] = _taken(data, "input_tokens") + apart
        data["completion_tokens"] = _taken(data, "output_tokens")
    if read or reported:
        data.setdefault("cache_read_tokens", read or reported)
    if created:
        data.setdefault("cache_creation_tokens", created)
    if total := _total(data, said_when_zero=not anthropic):
        raise ValueError(total)
    return data


def _taken(data: JsonDict, key: str) -> int:
    """Takes a count out of the data; None, as services say it, is none."""
    return _count(data.pop(key, None), key)


def _cached(details: object) -> int:
    if isinstance(details, Mapping):
        return _count(details.get("cached_tokens"), "cached_tokens")
    return 0


def _count(value: object, key: str) -> int:
    if value is None:
        return 0
    if type(value) is not int or value < 0:
        raise ValueError(f"{key} must be a whole number and not negative, not {value!r}")
    return value


def _total(data: JsonDict, *, said_when_zero: bool) -> str | None:
    """What is wrong with the total that was given, which is taken out of the data."""
    if data.get("total_tokens") is None:
        data.pop("total_tokens", None)
        return None
    total = _taken(data, "total_tokens")
    prompt, completion = data.get("prompt_tokens", 0), data.get("completion_tokens", 0)
    if type(prompt) is not int or type(completion) is not int:
        return None  # the fields' own checks will say so
    if total == prompt + completion or not (total or said_when_zero):
        return None
    return (
        f"total_tokens ({total}) must equal prompt_tokens ({prompt}) + "
        f"completion_tokens ({completion}) = {prompt + completion}"
    )
