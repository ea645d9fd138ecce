"""Convert other formats' token counts into ours."""

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
    "reasoning_tokens",  # part of the output tokens
)


def convert_usage(data: object) -> Any:
    """Convert OpenAI's, Anthropic's and LiteLLM's counts; a total must be the sum of its parts.

    Anthropic's `input_tokens` exclude cached tokens; all others' prompt tokens include them.
    """
    if not isinstance(data, Mapping) or data.keys() <= _OURS:
        return data
    data = dict(data)
    details = [data.pop(key, None) for key in _DETAILS]
    cached = (
        _take_count(data, "cached_tokens")
        or _cached_tokens(details[0])
        or _cached_tokens(details[1])
    )
    read = _take_count(data, "cache_read_input_tokens")
    created = _take_count(data, "cache_creation_input_tokens")
    anthropic = not _OURS & data.keys()
    if anthropic:
        uncounted = 0 if cached else read + created
        data["prompt_tokens"] = _take_count(data, "input_tokens") + uncounted
        data["completion_tokens"] = _take_count(data, "output_tokens")
    if read or cached:
        data.setdefault("cache_read_tokens", read or cached)
    if created:
        data.setdefault("cache_creation_tokens", created)
    if problem := _take_total(data, check_zero=not anthropic):
        raise ValueError(problem)
    return data


def _take_count(data: JsonDict, key: str) -> int:
    """Remove a count from the data and return it; None counts as 0."""
    return _check_count(data.pop(key, None), key)


def _cached_tokens(details: object) -> int:
    if isinstance(details, Mapping):
        return _check_count(details.get("cached_tokens"), "cached_tokens")
    return 0


def _check_count(value: object, key: str) -> int:
    if value is None:
        return 0
    if type(value) is not int or value < 0:
        raise ValueError(f"{key} must be a whole number and not negative, not {value!r}")
    return value


def _take_total(data: JsonDict, *, check_zero: bool) -> str | None:
    """Remove the total from the data; return an error message if it is wrong."""
    if data.get("total_tokens") is None:
        data.pop("total_tokens", None)
        return None
    total = _take_count(data, "total_tokens")
    prompt, completion = data.get("prompt_tokens", 0), data.get("completion_tokens", 0)
    if type(prompt) is not int or type(completion) is not int:
        return None  # the validation of the fields reports it
    if total == prompt + completion or not (total or check_zero):
        return None
    return (
        f"total_tokens ({total}) must equal prompt_tokens ({prompt}) + "
        f"completion_tokens ({completion}) = {prompt + completion}"
    )
