"""Invalid settings of an untrusted folder: dropped and reported.

A downloaded file must not be able to stop ipyagent from working. In the user's own settings, and in
trusted ones, the same mistake is an error. Keys that contradict each other take their section with
them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import replace
from typing import Any

from pydantic import ValidationError

from ipyagent.config.field_types import PARTIAL
from ipyagent.config.keys import Key, explain_error
from ipyagent.config.sections import Config
from ipyagent.config.sources import Layer

_MAX_ROUNDS = 10
"""Rounds of checking and dropping; then all invalid sections are dropped."""


def drop_invalid(layer: Layer) -> Layer:
    """Return the layer without its invalid values, with a notice that names them."""
    values: Any = _copy_values(layer.values)
    problems: list[str] = []
    for _ in range(_MAX_ROUNDS):
        try:
            Config.model_validate(values, context=PARTIAL)
        except ValidationError as error:
            problems.append(explain_error(error))
            values = _drop_errors(values, error)
            continue
        except (ValueError, RecursionError):
            problems.append("it cannot be read")
            values = {}
            continue
        break
    else:
        values = {}
        problems.append("so much is wrong that nothing of it is used")
    if not problems:
        return layer
    notice = f"{layer.source}: invalid settings there are ignored: {'; '.join(problems)}."
    return replace(layer, values=values, notices=(*layer.notices, notice))


def _copy_values(values: Mapping[str, object]) -> object:
    try:
        return deepcopy(dict(values))
    except RecursionError:
        return {}


def _drop_errors(values: object, error: ValidationError) -> object:
    """Remove the values with errors; the last of a list first, so that indexes stay right."""
    errors = error.errors(include_input=False, include_url=False, include_context=False)
    keys = {_whole_item(_existing_key(values, each["loc"])) for each in errors}
    for key in sorted(keys, key=lambda key: [str(part).rjust(9) for part in key], reverse=True):
        values = _drop_key(values, key)
    return values


def _whole_item(key: tuple[object, ...]) -> tuple[object, ...]:
    """Return the path of the whole list item: half of a rule may mean something else."""
    return next((key[: at + 1] for at, part in enumerate(key) if isinstance(part, int)), key)


def _existing_key(values: object, location: Iterable[object]) -> tuple[object, ...]:
    """Return as much of a path into the values as exists."""
    way: list[object] = []
    for part in location:
        if isinstance(values, dict):
            names = [name for name in values if str(name) == str(part)]
            if not names:
                break
            way.append(names[0])
            values = values[names[0]]
        elif isinstance(values, list) and isinstance(part, int) and part < len(values):
            way.append(part)
            values = values[part]
        else:
            break
    return tuple(way)


def _drop_key(values: Any, key: tuple[object, ...] | Key) -> object:
    """Return the values without one key; without a key, nothing."""
    if not key:
        return {}
    copy = deepcopy(values)
    inner = copy
    try:
        for part in key[:-1]:
            inner = inner[part]
        del inner[key[-1]]
    except (LookupError, TypeError):  # gone with its section
        return copy
    if inner == []:  # set by nobody then
        return _drop_key(copy, key[:-1])
    return copy
