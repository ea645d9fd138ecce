"""A snapshot of the variables before a call, and what the call changed."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from types import FunctionType, ModuleType

from ipyagent.redaction import Secrecy, secrecy
from ipyagent.schema import ToolResult, VariableChange
from ipyagent.values.describe import kind
from ipyagent.values.describe.python_values import key_secrecy
from ipyagent.values.describe.safe_inspect import (
    is_a,
    is_of_library,
    module_dict,
    one_line,
    type_name,
)
from ipyagent.values.variables.arrays import views_of_same_memory
from ipyagent.values.variables.checkpoint import COPIED, Allowance, Capture, VariableCheckpoint
from ipyagent.values.variables.parts import (
    PLAIN,
    VALUE,
    Fixed,
    Part,
    explain_type,
    is_atom,
    is_plain,
    summarize_types,
)
from ipyagent.values.variables.reach import list_changed_inside, reachable_names
from ipyagent.values.variables.tables import (
    Column,
    Table,
    TablePart,
    align_rows,
    find_differences,
    has_safe_labels,
    is_same,
    is_same_type,
    is_table,
    key_columns,
)

MOST = 50
"""Changes that are reported, and variables whose inside is looked at."""

_PAST_PANDAS = re.compile(
    r"\.array\b(?!\()|\b(_values|_mgr|_ndarray|_data|_mask|_codes|setflags|writeable|memset|memmove)\b"
)
"""Signs in code that it may write past pandas, for code that was not rehearsed."""

UNNAMED = "the code does not name it, so what it held was not kept"


def find_lasting(
    code: str, variables: Mapping[str, object], memory: int | None = None
) -> dict[str, str]:
    """Return the variables inside of which code may change what cannot be taken back, and why.

    `memory` is how many bytes may be kept; None: a part of this machine's.
    """
    limit, found = default_memory() if memory is None else memory, dict[str, str]()
    for name, is_stored in list_changed_inside(code).items():
        value = variables.get(name)
        if type(value) is ModuleType or is_a(value, type):
            found[name] = explain_type(type(value)) if is_stored and value is not os else ""
        elif not is_atom(value):
            state = Capture(value, Allowance(min(COPIED, limit), limit).admit)
            found[name] = state.root.kept or state.problem
    return {name: why for name, why in found.items() if why}


class Snapshot:
    """The variables before code runs: those that it, or one of `functions`, may reach."""

    def __init__(
        self,
        variables: Mapping[str, object],
        code: str,
        memory: int | None = None,
        functions: Iterable[object] = (),
        written: Collection[str] = (),
    ) -> None:
        """Note the state of the variables.

        `memory` is how many bytes may be kept; None: a part of this machine's. `written` are the
        variables that code writes past pandas, as far as that is known.
        """
        limit = default_memory() if memory is None else memory
        allowance = Allowance(min(limit, COPIED), limit)
        by_id: dict[int, Capture] = {}
        named = list(islice(reachable_names(code, variables, functions), MOST))
        views = views_of_same_memory([variables[name] for name in named], variables.items())
        past = {id(variables[name]): name for name in written if name in variables}
        for value in map(variables.__getitem__, dict.fromkeys([*past.values(), *named, *views])):
            if id(value) not in by_id:
                allowance.copies_all = id(value) in past or _PAST_PANDAS.search(code) is not None
                by_id[id(value)] = Capture(value, allowance.copy)
        self._captures = {n: by_id[id(each)] for n, each in variables.items() if id(each) in by_id}
        self._parts: dict[str, Part] = {}
        for name, value in variables.items():
            if name in self._captures:
                self._parts[name] = self._captures[name].root
            else:
                self._parts[name] = Fixed(value) if is_plain(value) else Part(value, held=False)

    def annotate(self, result: ToolResult, variables: Mapping[str, object]) -> ToolResult:
        """Return the result with the changes since then, and what takes them back."""
        if (undo := self.checkpoint(variables)) is None:
            return result
        return result.model_copy(update={"variables": undo.changes[:MOST], "undo": undo})

    def checkpoint(self, variables: Mapping[str, object]) -> VariableCheckpoint | None:
        """Return what takes the changes since then back; None if there are none."""
        changes = tuple(self._changes(variables))
        return VariableCheckpoint(changes, self.before, variables) if changes else None

    def before(self, name: str) -> Capture | None:
        """Return what a variable held; None if there was none, or it was not looked at."""
        part = self._parts.get(name)
        if name not in self._captures and isinstance(part, Fixed):
            return Capture(part.value)
        return self._captures.get(name)

    def _changes(self, after: Mapping[str, object]) -> Iterator[VariableChange]:
        """Yield what is different now, without running code of the user's classes."""
        for name, value in after.items():
            if name not in self._parts:
                if not _is_imported(name, value):
                    yield VariableChange(name=name, change="created", type=kind(value))
            elif (text := self._compare(name, value)) is not None:
                kept, cells = self._explain(name, value), self._show_cells(name, value)
                yield VariableChange(
                    name=name,
                    change="changed",
                    type=kind(value),
                    summary=text,
                    kept=kept,
                    cells=cells,
                )
        for name, part in self._parts.items():
            if name not in after:
                kept, cls = self._explain(name, None), type_name(part.type)
                yield VariableChange(name=name, change="deleted", type=cls, kept=kept)

    def _compare(self, name: str, value: object) -> str | None:
        """Return what is different in a variable; None if nothing is."""
        is_same = self._parts[name].identity.is_same(value)
        with suppress(Exception):  # a table library's own object can be broken
            if is_same:
                captured = self._captures.get(name)
                return captured.compare(value, secrecy(name)) if captured else None
            text = summarize_types(self._parts[name].type, type(value))
            before = self.before(name)
            return text or (before.summarize(value, secrecy(name)) if before else "")
        return None if is_same else ""

    def _show_cells(self, name: str, value: object) -> str:
        """Return the first changed cells of a table; "" for others, and if the name is secret."""
        captured = self._captures.get(name)
        if captured is None or secrecy(name) is not Secrecy.NONE:
            return ""
        root = captured.root
        with suppress(Exception):  # a table library's own object can be broken
            if isinstance(root, TablePart) and is_table(value):
                return _diff_cells(root.state, Table.read(value))
        return ""

    def _explain(self, name: str, value: object) -> str:
        """Return why the change cannot be taken back; "" if it can."""
        part = self._parts[name]
        if name in self._captures and part.identity.is_same(value):
            return part.kept
        is_known = name in self._captures or isinstance(part, Fixed)
        is_there = is_known and (part.is_value or part.find({}) is not None)
        return "" if is_there else part.kept or UNNAMED


def _is_imported(name: str, value: object) -> bool:
    """Return whether a name is bound to a module, or to its own class or function."""
    if type(value) is ModuleType:
        return True
    if isinstance(value, type) and is_a(value, type):
        return type_name(value) == name and is_of_library(value)
    if type(value) is not FunctionType or value.__name__ != name or value.__module__ == "__main__":
        return False
    module = sys.modules.get(value.__module__)
    return module is not None and module_dict(module) is value.__globals__


def default_memory() -> int:
    """Return the smaller of 1 GB and a tenth of this machine's memory, in bytes."""
    try:
        whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # Windows has no sysconf
        whole = 2 * 10**9
    return min(10**9, whole // 10)


_CELLS = 3
"""Cells of a table that are shown, of those that differ."""

_UNREAD = ("category", "interval", "period", "sparse")
"""Types whose values may be objects of the user's, or have no plain form."""


def _diff_cells(before: Table, after: Table) -> str:
    """Return the first cells of a table of pandas that differ: "-qty[3]  4", "+qty[3]  5"."""
    lines: list[str] = []
    with suppress(Exception):  # a table library's own object can be broken
        for line in _list_cells(before, after):
            lines.append(line)
            if len(lines) == 2 * _CELLS:
                break
    return "\n".join(lines[: len(lines) // 2 * 2])


def _list_cells(before: Table, after: Table) -> Iterator[str]:
    if before.index is None:
        return
    stays, stayed, _ = align_rows(before, after)
    old, new = key_columns(before, after)
    for key in old if stays is not None else ():
        one, other = old[key], new.get(key)
        if other is None or one.label is None or is_same(one.data, other.data):
            continue
        if key_secrecy(one.label) is not Secrecy.NONE or not is_same_type(one.data, other.data):
            continue
        if _has_plain_form(one) and _has_plain_form(other):
            labels = before.index[stays] if has_safe_labels(before.index) else range(before.height)
            was, now = Column(one.label, one.data[stays]), Column(one.label, other.data[stayed])
            for at in map(int, find_differences(was, now)[:_CELLS]):
                for sign, column in ("-", was), ("+", now):
                    value = one_line(str(column.data[at]), VALUE)
                    yield f"{sign}{one.name}[{one_line(str(labels[at]), VALUE)}]  {value}"


def _has_plain_form(column: Column) -> bool:
    """Return whether its values have a plain form, and comparing them runs no other code."""
    if column.dtype == "object":  # texts, before pandas 3
        return PLAIN.issuperset(map(id, map(type, column.data)))
    return not column.dtype.startswith(_UNREAD)
