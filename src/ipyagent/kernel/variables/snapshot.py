"""A snapshot of the variables before a call, and what the call changed.

Code may reach its own names, and those that the user's functions in it use.
"""

from __future__ import annotations

import functools
import os
import re
import types
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from typing import Any

from ipyagent.kernel.describe import kind
from ipyagent.kernel.describe.safe_inspect import (
    ObjectIdentity,
    ancestors,
    class_dict,
    module_name,
    type_name,
)
from ipyagent.kernel.variables.arrays import views_of_same_memory
from ipyagent.kernel.variables.captures import (
    PLAIN,
    Allowance,
    Capture,
    Reference,
    summarize_types,
)
from ipyagent.kernel.variables.checkpoint import COPIED, VariableCheckpoint, capture
from ipyagent.redaction import secrecy
from ipyagent.schema import ToolResult, VariableChange

_WORD = re.compile(r"[^\W\d]\w*")

FUNCTIONS = 200
"""Functions that are followed."""


def reachable_names(
    code: str, variables: Mapping[str, object], functions: Iterable[object] = ()
) -> list[str]:
    """Return the variables that code and functions may change, those in the code's text first."""
    words = dict.fromkeys(_WORD.findall(code))
    found = {name: variables[name] for name in words if name in variables}
    waiting = [*functions, *found.values()]
    seen, followed = set(map(id, waiting)), 0
    while waiting and followed < FUNCTIONS:
        for function in _functions_of(waiting.pop()):
            followed += 1
            scope = function.__globals__
            for name in names_in(function.__code__):
                if name in variables and scope.get(name) is variables[name]:
                    value = found.setdefault(name, variables[name])
                    if id(value) not in seen:
                        seen.add(id(value))
                        waiting.append(value)
    return [*found]


_PARTS = {
    types.FunctionType: ("__closure__",),
    types.CellType: ("cell_contents",),
    types.MethodType: ("__func__", "__self__"),
    functools.partial: ("func",),
    staticmethod: ("__func__",),
    classmethod: ("__func__",),
    property: ("fget", "fset"),
}
_PARTS_BY_ID = {id(cls): names for cls, names in _PARTS.items()}
"""The parts of what can be called, by the ids of types: their hashes may be the user's code."""


def _functions_of(value: Any, depth: int = 5) -> Iterator[types.FunctionType]:
    """Yield the functions in Python that calling a value, or its methods, may run."""
    cls = type(value)
    if depth == 0:
        return
    if cls is types.FunctionType:
        yield value
    if cls is tuple:
        parts = list(value)
    elif (names := _PARTS_BY_ID.get(id(cls))) is not None:
        parts = []
        with suppress(ValueError):  # a cell that is not filled yet
            parts = [getattr(value, name) for name in names]
    else:
        parts = _methods_of(value if _is_class(value) else cls)
    for each in parts:
        yield from _functions_of(each, depth - 1)


def _methods_of(cls: type) -> list[object]:
    """Return the members, but for classes, of a class that was defined in the notebook."""
    own = [base for base in ancestors(cls) if module_name(base) in {"__main__", ""}]
    members = [each for base in own for each in list(class_dict(base).values())]
    return [each for each in members if not _is_class(each)]


def _is_class(value: object) -> bool:
    return any(base is type for base in ancestors(type(value)))


def names_in(code: types.CodeType) -> Iterator[str]:
    """Yield the names that code uses, and the code in it."""
    yield from code.co_names
    for each in code.co_consts:
        if type(each) is types.CodeType:
            yield from names_in(each)


MOST = 50
"""Changes that are reported, and variables whose inside is looked at."""

_PAST_PANDAS = re.compile(
    r"\.array\b(?!\()|\b(_values|_mgr|_ndarray|_data|_mask|_codes|setflags|writeable|memset|memmove)\b"
)
"""Signs in code that it may write past pandas, for code that was not rehearsed."""

UNNAMED = "the code does not name it, so what it held was not kept"


class Snapshot:
    """The variables before code ran. Make one with `take`."""

    def __init__(self, variables: Mapping[str, object], captures: Mapping[str, Capture]) -> None:
        self._ids = _ids_of(variables)
        self._types = dict(zip(variables, map(type, variables.values()), strict=True))
        self._captures = captures
        # Of a large namespace plain values are most: a reference is made of what is changed only.
        self._plain = dict(variables)
        self._identities: dict[str, ObjectIdentity] = {}
        for name in [name for name, cls in self._types.items() if id(cls) not in PLAIN]:
            value = self._plain.pop(name)
            if name not in captures:
                self._identities[name] = ObjectIdentity(value)

    @classmethod
    def take(
        cls,
        variables: Mapping[str, object],
        code: str,
        memory: int | None = None,
        functions: Iterable[object] = (),
        written: Collection[str] = (),
    ) -> Snapshot:
        """Return the state of the variables that `code`, or one of the functions, may reach.

        `memory` is how many bytes may be kept; None: a part of this machine's. `written` are the
        variables that code writes past pandas, as far as that is known.
        """
        limit = default_memory() if memory is None else memory
        allowance = Allowance(min(limit, COPIED), limit)
        by_id: dict[int, Capture] = {}
        named = list(islice(reachable_names(code, variables, functions), MOST))
        views = views_of_same_memory([variables[name] for name in named], variables.items())
        past = {id(variables[name]): name for name in written if name in variables}
        for name in dict.fromkeys([*past.values(), *named, *views]):
            value = variables[name]
            if id(value) not in by_id:
                allowance.copies_all = id(value) in past or _PAST_PANDAS.search(code) is not None
                by_id[id(value)] = capture(value, allowance)
        ids = _ids_of(variables) if by_id else {}
        return cls(variables, {name: by_id[each] for name, each in ids.items() if each in by_id})

    def annotate(self, result: ToolResult, variables: Mapping[str, object]) -> ToolResult:
        """Return the result with the changes since then, and what takes them back."""
        if (undo := self.checkpoint(variables)) is None:
            return result
        return result.model_copy(update={"variables": undo.changes, "undo": undo})

    def checkpoint(self, variables: Mapping[str, object]) -> VariableCheckpoint | None:
        """Return what takes the changes since then back; None if there are none."""
        changes = self.changes(variables)
        return VariableCheckpoint(changes, self.before, variables) if changes else None

    def changes(self, variables: Mapping[str, object]) -> tuple[VariableChange, ...]:
        """Return what is different now, without running code of the user's classes."""
        return tuple(islice(self._changes(variables), MOST))

    def before(self, name: str) -> Capture | None:
        """Return what a variable held; None if there was none, or it was not looked at."""
        if name in self._captures:
            return self._captures[name]
        return Reference(self._plain[name]) if name in self._plain else None

    def _changes(self, after: Mapping[str, object]) -> Iterator[VariableChange]:
        looked_at: dict[int, tuple[bool, str]] = {}
        for name, value in self._candidates(after):
            if name not in self._ids:
                yield VariableChange(name=name, change="created", type=kind(value))
                continue
            changed, summary = self._compare(name, value, looked_at)
            if changed:
                kept = self._explain(name, value)
                yield VariableChange(
                    name=name, change="changed", type=kind(value), summary=summary, kept=kept
                )
        for name, cls in self._types.items():
            if name not in after:
                kept = self._explain(name, None)
                yield VariableChange(name=name, change="deleted", type=type_name(cls), kept=kept)

    def _candidates(self, after: Mapping[str, object]) -> Iterator[tuple[str, object]]:
        """Yield all variables but those that surely are as they were: most of a large namespace."""
        before, now = self._ids, _ids_of(after)
        wanted = self._identities.keys() | self._captures.keys()
        if now != before:
            wanted |= {name for name, each in now.items() if before.get(name) != each}
        return ((name, after[name]) for name in after if name in wanted)

    def _compare(
        self, name: str, value: object, looked_at: dict[int, tuple[bool, str]]
    ) -> tuple[bool, str]:
        """Return whether a variable is changed, and what is different in it."""
        before = self.before(name)
        if not self._is_same(name, value):
            with suppress(Exception):  # a table library's own object can be broken
                types = summarize_types(self._types[name], value)
                return True, types or (before.summarize(value, secrecy(name)) if before else "")
            return True, ""
        if before is None:
            return False, ""
        if id(value) not in looked_at:
            looked_at[id(value)] = False, ""
            with suppress(Exception):
                changed = before.tells_all or before.is_changed(value)
                summary = before.summarize(value, secrecy(name)) if changed else ""
                looked_at[id(value)] = bool(summary) if before.tells_all else changed, summary
        return looked_at[id(value)]

    def _is_same(self, name: str, value: object) -> bool:
        """Return whether a variable holds the very object that it held."""
        identity = self._identities.get(name)
        if identity is None and name in self._captures:
            identity = self._captures[name].identity
        return self._ids[name] == id(value) and (identity is None or identity.is_same(value))

    def _explain(self, name: str, value: object) -> str:
        """Return why the change cannot be taken back; "" if it can."""
        before = self.before(name)
        if before is None:
            return UNNAMED
        if self._ids[name] == id(value):
            return before.kept
        return "" if before.can_rebind else before.kept or UNNAMED


def default_memory() -> int:
    """Return the smaller of 1 GB and a tenth of this machine's memory, in bytes."""
    try:
        whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # Windows has no sysconf
        whole = 2 * 10**9
    return min(10**9, whole // 10)


def _ids_of(variables: Mapping[str, object]) -> dict[str, int]:
    return dict(zip(variables, map(id, variables.values()), strict=True))
