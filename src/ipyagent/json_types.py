"""JSON: names for what is validated where it is read, and the arguments of a model's calls.

Arguments are accepted or refused, never repaired.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NoReturn, TypeAlias

JsonDict: TypeAlias = dict[str, Any]
"""A JSON object from `json.loads`, or one that is being built."""

JsonMapping: TypeAlias = Mapping[str, Any]
"""A JSON object that is only read."""


MAX_DEPTH = 100  # beyond it serializers give up


def well_formed(text: str) -> str:
    """Return the text with surrogate pairs joined and lone halves replaced, so it is encodable."""
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def parse_json(text: object) -> object:
    """Return the value of a JSON text; None for anything else."""
    if isinstance(text, str | bytes):
        with suppress(ValueError, RecursionError):
            return json.loads(text)
    return None


def object_of(value: object) -> JsonDict:
    """Return a JSON object, {} for anything that is none."""
    return value if isinstance(value, dict) else {}


def parse_arguments(text: str) -> tuple[JsonDict, str | None]:
    """Return a call's arguments, or {} and the problem with them; nothing is repaired."""
    if not text:
        return {}, None
    try:
        value = json.loads(text, parse_constant=_not_json, parse_float=_finite)
    except json.JSONDecodeError as error:
        return {}, _problem(text, f"{error.msg} at character {error.pos}", error.pos)
    except (ValueError, RecursionError) as error:
        reason = str(error) if isinstance(error, ValueError) else "nested too deeply"
        return {}, _problem(text, reason, 0)
    if not isinstance(value, dict):
        return {}, f"the arguments are not a JSON object but {_excerpt(text, 0)}"
    try:
        return as_json(value), None
    except ValueError as error:
        return {}, _problem(text, str(error), 0)


def as_json(value: object, depth: int = 0) -> Any:
    """Return a copy of the value with all its text well formed.

    Raises ValueError for what JSON cannot express: other types, NaN, infinity, endless nesting.
    """
    if depth > MAX_DEPTH:
        raise ValueError("nested too deeply")
    match value:
        case str():
            return well_formed(value)
        case list():
            return [as_json(item, depth + 1) for item in value]
        case dict():
            return {_key(key): as_json(item, depth + 1) for key, item in value.items()}
        case float() if not math.isfinite(value):
            raise ValueError(f"{value} is not a JSON number")
        case None | bool() | int() | float():
            return value
    raise ValueError(f"a {type(value).__name__} is not JSON")


def _key(key: object) -> str:
    if not isinstance(key, str):
        raise ValueError(f"{key!r} cannot be a key in JSON")
    return well_formed(key)


def _problem(text: str, reason: str, position: int) -> str:
    return f"the arguments are not valid JSON: {reason}, near {_excerpt(text, position)}"


def _excerpt(text: str, position: int) -> str:
    return ascii(text[max(0, position - 20) : position + 20])


def _not_json(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a JSON number")


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise ValueError(f"the number {digits[:20]} is too large")
    return number
