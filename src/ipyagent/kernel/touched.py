"""Which variables code touched: found without running any code of the person's own classes."""

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
"""How many changes are told, and how many variables are looked into."""

_WORD = re.compile(r"[^\W\d]\w*")


class Before:
    """The variables before `code` ran.

    A name that holds another object is changed; so is one whose object is described otherwise,
    which is looked at for the names that the code mentions.
    """

    def __init__(self, variables: Mapping[str, object], code: str) -> None:
        self._held = {name: Held(value) for name, value in variables.items()}
        named = (name for name in dict.fromkeys(_WORD.findall(code)) if name in variables)
        self._said = {
            name: describe(name, variables[name], detail=False) for name in islice(named, MOST)
        }

    def told(self, result: ToolResult, after: Mapping[str, object]) -> ToolResult:
        """The result, with what is different now."""
        changes = tuple(islice(self._changes(after), MOST))
        return result.model_copy(update={"variables": changes}) if changes else result

    def _changes(self, after: Mapping[str, object]) -> Iterator[VariableChange]:
        for name, value in after.items():
            if name not in self._held:
                yield VariableChange(name=name, change="created", type=kind(value))
            elif self._is_changed(name, value):
                yield VariableChange(name=name, change="changed", type=kind(value))
        for name, held in self._held.items():
            if name not in after:
                yield VariableChange(name=name, change="deleted", type=held.type)

    def _is_changed(self, name: str, value: object) -> bool:
        if not self._held[name].is_still(value):
            return True
        said = self._said.get(name)
        return said is not None and said != describe(name, value, detail=False)


class Held:
    """An object by its identity, without keeping it alive: memory that code frees is freed."""

    def __init__(self, value: object) -> None:
        self.type = type(value).__name__
        self._id = id(value)
        self._weak: Any = None
        with suppress(TypeError):  # numbers, text and plain containers: their address has to do
            self._weak = weakref.ref(value)

    def is_still(self, value: object) -> bool:
        """Return whether this is the very object."""
        return value is self._weak() if self._weak is not None else id(value) == self._id
