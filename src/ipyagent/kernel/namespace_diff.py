"""Detection of changed variables without running code of the user's classes."""

from __future__ import annotations

import re
import weakref
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import islice
from typing import Any

from ipyagent.kernel.describe import describe, kind
from ipyagent.schema import ToolResult, VariableChange

MOST = 50
"""Changes that are reported, and variables that are inspected."""

_WORD = re.compile(r"[^\W\d]\w*")


class NamespaceDiff:
    """The variables before `code` ran.

    A name that holds another object is changed; so is one whose object is described differently,
    which is checked for the names in the code.
    """

    def __init__(self, variables: Mapping[str, object], code: str) -> None:
        self._identities = {name: ObjectIdentity(value) for name, value in variables.items()}
        mentioned = (name for name in dict.fromkeys(_WORD.findall(code)) if name in variables)
        self._descriptions = {
            name: describe(name, variables[name], detail=False) for name in islice(mentioned, MOST)
        }

    def annotate(self, result: ToolResult, after: Mapping[str, object]) -> ToolResult:
        """Return the result with the changes since then."""
        changes = tuple(islice(self._changes(after), MOST))
        return result.model_copy(update={"variables": changes}) if changes else result

    def _changes(self, after: Mapping[str, object]) -> Iterator[VariableChange]:
        for name, value in after.items():
            if name not in self._identities:
                yield VariableChange(name=name, change="created", type=kind(value))
            elif self._is_changed(name, value):
                yield VariableChange(name=name, change="changed", type=kind(value))
        for name, identity in self._identities.items():
            if name not in after:
                yield VariableChange(name=name, change="deleted", type=identity.type)

    def _is_changed(self, name: str, value: object) -> bool:
        if not self._identities[name].is_same(value):
            return True
        description = self._descriptions.get(name)
        return description is not None and description != describe(name, value, detail=False)


class ObjectIdentity:
    """An object's identity, without keeping it alive: memory that code frees is freed."""

    def __init__(self, value: object) -> None:
        self.type = type(value).__name__
        self._id = id(value)
        self._weak: Any = None
        with suppress(TypeError):  # numbers, text and plain containers: only their address is known
            self._weak = weakref.ref(value)

    def is_same(self, value: object) -> bool:
        """Return whether this is the very object."""
        return value is self._weak() if self._weak is not None else id(value) == self._id
