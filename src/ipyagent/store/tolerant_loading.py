"""Tolerant loading of data from newer versions: unknown keys are dropped, and named."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from ipyagent.errors import SessionError

T = TypeVar("T")

Key = str | int


def load_tolerant(adapter: TypeAdapter[T], data: object) -> tuple[T, list[str]]:
    """Return the value, and its unknown keys; raises ValidationError for all other errors."""
    dropped: list[str] = []
    while True:
        try:
            return adapter.validate_python(data), dropped
        except ValidationError as error:
            unknown = _unknown_keys(error)
            # Each round removes something, or gives up.
            data = data if dropped else copy.deepcopy(data)
            if not unknown or not all(_remove(data, location) for location in unknown):
                raise
            dropped += [str(location[-1]) for location in unknown]


def read(
    adapter: TypeAdapter[T],
    text: str,
    label: str,
    complete: Callable[[Any], Any] = lambda data: data,
) -> T:
    """Parse a JSON text, after `complete`; raises SessionError if it is invalid."""
    try:
        data = json.loads(text)
        return load_tolerant(adapter, data if complete is None else complete(data))[0]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise SessionError(f"{label} cannot be read: {describe_error(error)}") from None


def describe_error(error: Exception) -> str:
    """Return the problem of invalid data, and its place, in one line."""
    if not isinstance(error, ValidationError):
        return str(error) or type(error).__name__
    first = error.errors(include_url=False, include_input=False)[0]
    return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"


def _unknown_keys(error: ValidationError) -> list[tuple[Key, ...]]:
    """Return locations whose only error is an unknown key; other members of unions report more."""
    faults = error.errors(include_url=False, include_context=False, include_input=False)
    wrong = {fault["loc"][:-1] for fault in faults if fault["type"] != "extra_forbidden"}
    return [
        fault["loc"]
        for fault in faults
        if fault["type"] == "extra_forbidden" and fault["loc"][:-1] not in wrong
    ]


def _remove(data: object, location: Sequence[Key]) -> bool:
    """Remove one key. A location also names the members of unions, which `data` does not have."""
    key, *rest = location
    inner = _at(data, key)
    if not rest:
        return isinstance(data, dict) and data.pop(key, data) is not data
    return (inner is not None and _remove(inner, rest)) or _remove(data, rest)


def _at(data: object, key: Key) -> Any:
    if isinstance(data, dict):
        return data.get(key)
    if isinstance(data, list) and isinstance(key, int) and key < len(data):
        return data[key]
    return None
