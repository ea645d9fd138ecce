"""What can be used of the settings of a folder that nobody trusts yet.

A setting there that is wrong is left out and reported: a stranger's file must not be able to switch
everything off. In the user's own settings, and in those that they trust, the same is an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import replace
from typing import Any

from pydantic import ValidationError

from ipyagent.config.keys import ELSEWHERE, Key, elsewhere, explain, leaves
from ipyagent.config.kinds import PARTIAL
from ipyagent.config.sections import Config
from ipyagent.config.sources import Layer

_MOST_KEYS = 50
_ROUNDS = 10
"""How often what is left is checked again; after that nothing of it is used."""


def usable(layer: Layer) -> Layer:
    """Return the layer without what is wrong in it, with a notice that names this."""
    values: Any = _plain(layer.values)
    problems: list[str] = []
    for _ in range(_ROUNDS):
        try:
            config = Config.model_validate(values, context=PARTIAL)
        except ValidationError as error:
            problems.append(explain(error))
            values = _without(values, error)
            continue
        except (ValueError, RecursionError):
            problems.append("it cannot be read")
            values = {}
            continue
        misplaced = [key for key, _ in leaves(config, given=True) if key in ELSEWHERE]
        problems += map(elsewhere, misplaced)
        for key in misplaced:
            values = _removed(values, key)
        break
    else:
        values = {}
        problems.append("so much is wrong that nothing of it is used")
    if not problems:
        return layer
    notice = f"{layer.source}: what is wrong there is ignored: {'; '.join(problems)}."
    return replace(layer, values=values, notices=(*layer.notices, notice))


def _plain(values: Mapping[str, object]) -> Any:
    try:
        return deepcopy(dict(values))
    except RecursionError:
        return {}


def _without(values: object, error: ValidationError) -> Any:
    """Remove what the errors are about; the last of a list first, so that places stay right."""
    keys: set[tuple[Any, ...]] = set()
    for each in error.errors(include_input=False, include_url=False, include_context=False):
        found = _nearest(values, each["loc"])
        found = _item(found)
        is_of_whole = len(found) == len(each["loc"]) and each["type"] == "value_error"
        keys.update((is_of_whole and _at_fault(values, found)) or {found})
    for key in sorted(keys, key=lambda key: [str(part).rjust(9) for part in key], reverse=True):
        values = _removed(values, key)
    return values


def _item(key: tuple[object, ...]) -> tuple[Any, ...]:
    """Return the way to the whole item of a list: half of a rule may mean something else."""
    return next((key[: at + 1] for at, part in enumerate(key) if isinstance(part, int)), key)


def _nearest(values: object, location: Iterable[object]) -> tuple[Any, ...]:
    """Return as much of a way into the values as is there."""
    way: list[Any] = []
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


def _at_fault(values: Any, section: tuple[Any, ...]) -> set[tuple[Any, ...]]:
    """Return those keys of a section without any one of which it is right: two that clash."""
    before = _errors(values, section)

    def below(key: tuple[Any, ...]) -> set[tuple[Any, ...]]:
        inner = values
        for part in key:
            inner = inner[part]
        if not isinstance(inner, dict) or len(inner) > _MOST_KEYS or _in_list(key):
            return set()
        found: set[tuple[Any, ...]] = set()
        for name in inner:
            if _errors(_removed(values, (*key, name)), section) < before:
                found |= below((*key, name)) or {(*key, name)}
        return found

    return below(section)


def _in_list(key: tuple[object, ...]) -> bool:
    return any(isinstance(part, int) for part in key)


def _errors(values: object, section: tuple[object, ...]) -> int:
    """Count what is wrong with a section as a whole."""
    try:
        Config.model_validate(values, context=PARTIAL)
    except ValidationError as error:
        locations = (_nearest(values, each["loc"]) for each in error.errors(include_context=False))
        return sum(each == section for each in locations)
    return 0


def _removed(values: Any, key: tuple[Any, ...] | Key) -> Any:
    """Return the values without one key; all of them are gone without a key."""
    if not key:
        return {}
    copy = deepcopy(values)
    inner = copy
    try:
        for part in key[:-1]:
            inner = inner[part]
        del inner[key[-1]]
    except (LookupError, TypeError):  # gone with what it was in
        return copy
    if inner == []:  # set by nobody then
        return _removed(copy, key[:-1])
    return copy
