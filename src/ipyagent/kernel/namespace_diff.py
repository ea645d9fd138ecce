"""Detection of changed variables without running code of the user's classes."""

from __future__ import annotations

import re
import weakref
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import islice
from typing import Any

from ipyagent.kernel.describe import describe, kind
from ipyagent.kernel.describe.safe_inspect import type_name
from ipyagent.schema import ToolResult, VariableChange

MOST = 50
"""Changes that are reported, and variables that are inspected."""

_PLAIN = frozenset(
    id(cls) for cls in (bool, int, float, complex, str, bytes, list, dict, tuple, type(None))
)
"""Types whose objects have no weak references: only their address is known."""

_WORD = re.compile(r"[^\W\d]\w*")


class NamespaceDiff:
    """The variables before `code` ran.

    A name that holds another object is changed; so is one whose object is described differently,
    which is checked for the names in the code.
    """

    def __init__(self, variables: Mapping[str, object], code: str) -> None:
        self._ids = dict(zip(variables, map(id, variables.values()), strict=True))
        self._types = dict(zip(variables, map(type, variables.values()), strict=True))
        self._identities = {
            name: ObjectIdentity(value)
            for name, value in variables.items()
            if id(type(value)) not in _PLAIN
        }
        mentioned = (name for name in dict.fromkeys(_WORD.findall(code)) if name in variables)
        self._descriptions = {
            name: describe(name, variables[name], detail=False) for name in islice(mentioned, MOST)
        }

    def annotate(self, result: ToolResult, after: Mapping[str, object]) -> ToolResult:
        """Return the result with the changes since then."""
        changes = tuple(islice(self._changes(after), MOST))
        return result.model_copy(update={"variables": changes}) if changes else result

    def _changes(self, after: Mapping[str, object]) -> Iterator[VariableChange]:
        for name, value in self._candidates(after):
            if name not in self._ids:
                yield VariableChange(name=name, change="created", type=kind(value))
            elif self._is_changed(name, value):
                yield VariableChange(name=name, change="changed", type=kind(value))
        for name, cls in self._types.items():
            if name not in after:
                yield VariableChange(name=name, change="deleted", type=type_name(cls))

    def _candidates(self, after: Mapping[str, object]) -> Iterator[tuple[str, object]]:
        """Yield all variables but those that surely are as they were: most of a large namespace."""
        ids, watched = self._ids, self._identities.keys() | self._descriptions.keys()
        for name, value in after.items():
            if ids.get(name) != id(value) or name in watched:
                yield name, value

    def _is_changed(self, name: str, value: object) -> bool:
        if self._ids[name] != id(value):
            return True
        identity = self._identities.get(name)
        if identity is not None and not identity.is_same(value):
            return True
        description = self._descriptions.get(name)
        return description is not None and description != describe(name, value, detail=False)


class ObjectIdentity:
    """An object's identity, without keeping it alive: memory that code frees is freed."""

    def __init__(self, value: object) -> None:
        self._id = id(value)
        self._weak: Any = None
        with suppress(TypeError):  # numbers, text and plain containers: only their address is known
            self._weak = weakref.ref(value)

    def is_same(self, value: object) -> bool:
        """Return whether this is the very object."""
        return value is self._weak() if self._weak is not None else id(value) == self._id
