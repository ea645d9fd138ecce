"""Reading what a newer version wrote: keys that are unknown here are left out, and named."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from ipyagent.errors import SessionError

T = TypeVar("T")

Key = str | int


def lenient(adapter: TypeAdapter[T], data: object) -> tuple[T, list[str]]:
    """The value, and the unknown keys in `data`; raises ValidationError for all other faults."""
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
    what: str,
    complete: Callable[[Any], Any] = lambda data: data,
) -> T:
    """The value that a JSON text says, once it is completed; SessionError if it says none."""
    try:
        data = json.loads(text)
        return lenient(adapter, data if complete is None else complete(data))[0]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise SessionError(f"{what} cannot be read: {fault(error)}") from None


def fault(error: Exception) -> str:
    """What is wrong with data, and where, in a line."""
    if not isinstance(error, ValidationError):
        return str(error) or type(error).__name__
    first = error.errors(include_url=False, include_input=False)[0]
    return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"


def _unknown_keys(error: ValidationError) -> list[tuple[Key, ...]]:
    """Where nothing is wrong but the key: a union's other members complain of more."""
    faults = error.errors(include_url=False, include_context=False, include_input=False)
    wrong = {fault["loc"][:-1] for fault in faults if fault["type"] != "extra_forbidden"}
    return [
        fault["loc"]
        for fault in faults
        if fault["type"] == "extra_forbidden" and fault["loc"][:-1] not in wrong
    ]


def _remove(data: object, location: Sequence[Key]) -> bool:
    """Remove one key. A location names the members of unions too, which `data` doesn't have."""
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
