"""Plain data as JSON and raw bytes: tables, arrays, numbers, text, and containers of these.

The reader trusts nothing: it makes objects of Python, numpy and pandas from checked parts, and runs
no code but theirs. Nothing is unpickled, nothing is imported.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

from ipyagent.kernel.rehearsal import plain_tables
from ipyagent.kernel.rehearsal.plain_nodes import (
    BadDataError,
    Node,
    NotPlainError,
    read_array,
    read_scalar,
    write_array,
    write_scalar,
)

_DEPTH, _MOST_NODES = 50, 300_000
_MAKERS: Mapping[str, Callable[[list[Any]], Any]] = {
    "list": list,
    "tuple": tuple,
    "set": set,
    "frozenset": frozenset,
}
_KINDS = {make: name for name, make in _MAKERS.items()}
_MEMBERS = (FunctionType, BuiltinFunctionType, type)
"""Types of values that are referred to by the module that defines them."""
_NAME = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")

Existing = Mapping[str, object]
"""The variables as they are: their objects are referred to by name."""


def write_all(
    values: Mapping[str, object], existing: Existing, is_old: Callable[[object], bool]
) -> tuple[dict[str, Node], list[memoryview]]:
    """Return the nodes of values, and the bytes in them.

    `is_old` tells whether an object was there before, so that a copy would not be the same. Raises
    NotPlainError for anything that would not come back exactly as it is.
    """
    writer = _Writer(existing, is_old)
    nodes = {name: writer.write(value) for name, value in values.items()}
    checker = _Writer(existing, lambda value: False)
    try:
        again = read_all(nodes, writer.buffers, existing)
    except BadDataError as error:
        raise NotPlainError(str(error)) from None
    if {name: checker.write(value) for name, value in again.items()} != nodes:
        raise NotPlainError("it would be something else")
    if checker.buffers != writer.buffers:
        raise NotPlainError("it would hold something else")
    return nodes, writer.buffers


def read_all(
    nodes: Mapping[str, object], buffers: Sequence[memoryview], existing: Existing
) -> dict[str, Any]:
    """Return the values of nodes by name; raises BadDataError, whatever is wrong."""
    try:
        reader = _Reader(buffers, existing)
        return {name: reader.read(node) for name, node in nodes.items()}
    except BadDataError:
        raise
    except Exception as error:
        raise BadDataError(str(error)) from None


class _Writer:
    """Writes values as nodes and buffers."""

    def __init__(self, existing: Existing, is_old: Callable[[object], bool]) -> None:
        self.buffers: list[memoryview] = []
        self._existing = {id(value): name for name, value in existing.items()}
        self._is_old = is_old
        self._modules = {id(module): name for name, module in list(sys.modules.items())}
        self._written: dict[int, int] = {}
        self._keep: list[object] = []
        self._count = 0

    def write(self, value: object, depth: int = _DEPTH) -> Node:
        """Return the node of a value; raises NotPlainError."""
        self._count += 1
        if self._count > _MOST_NODES or not depth:
            raise NotPlainError("it is too large")
        if (scalar := write_scalar(value, self.buffers)) is not None:
            return scalar
        if (name := self._existing.get(id(value))) is not None:
            return ["variable", name]
        if type(value) is ModuleType and id(value) in self._modules:
            return ["module", self._modules[id(value)]]
        if (place := _place_in_module(value)) is not None:
            return ["member", *place]
        if id(value) in self._written:
            return ["again", self._written[id(value)]]
        if type(value) is not tuple and self._is_old(value):
            raise NotPlainError("it is a part of what is there")
        self._written[id(value)] = len(self._written)
        self._keep.append(value)
        return self._write_object(value, depth - 1)

    def _write_object(self, value: Any, depth: int) -> Node:
        kind = type(value)
        if kind is dict:
            return [
                "dict",
                [[self.write(k, depth), self.write(v, depth)] for k, v in value.items()],
            ]
        if kind in _KINDS:
            nodes = [self.write(each, depth) for each in value]
            if kind in (set, frozenset):  # scalars, and tuples of them: their order says nothing
                nodes.sort(key=json.dumps)
            return [_KINDS[kind], nodes]
        if (node := write_array(value, self.buffers, self._is_old)) is not None:
            return node
        if (node := plain_tables.write_table(value, self.buffers)) is not None:
            return node
        raise NotPlainError(f"it is no plain data ({kind.__name__})")


class _Reader:
    """Makes values of nodes and buffers."""

    def __init__(self, buffers: Sequence[memoryview], existing: Existing) -> None:
        self._buffers, self._existing = buffers, existing
        self._made: list[Any] = []
        self._count = 0

    def read(self, node: Any, depth: int = _DEPTH) -> Any:
        """Return the value of a node; raises BadDataError."""
        self._count += 1
        if self._count > _MOST_NODES or not depth or type(node) is not list or not node:
            raise BadDataError
        kind, *parts = node
        if kind in ("variable", "module", "member", "again"):
            return self._refer(kind, *parts)
        if kind != "dict" and kind not in _MAKERS:
            found = read_scalar(node, self._buffers)
            if found is NotImplemented:
                read = read_array if kind == "array" else plain_tables.read_table
                found = read(node, self._buffers)
                self._made.append(found)
            return found
        (parts,) = parts
        if type(parts) is not list:
            raise BadDataError
        place = len(self._made)
        if kind == "dict":
            pairs: dict[Any, Any] = {}
            self._made.append(pairs)
            for key, value in parts:
                pairs[self.read(key, depth - 1)] = self.read(value, depth - 1)
            return pairs
        made: list[Any] = []
        self._made.append(made)
        made.extend(self.read(each, depth - 1) for each in parts)
        if kind != "list":
            self._made[place] = _MAKERS[kind](made)
        return self._made[place]

    def _refer(self, kind: str, to: object, member: object = None) -> object:
        if kind == "again":
            if type(to) is not int or not 0 <= to < len(self._made):
                raise BadDataError
            return self._made[to]
        if type(to) is not str or not _NAME.fullmatch(to):
            raise BadDataError
        found: Any = self._existing.get(to) if kind == "variable" else sys.modules.get(to)
        if kind == "member" and found is not None:
            found = vars(found).get(member) if type(member) is str else None
            found = found if isinstance(found, _MEMBERS) else None
        if found is None:
            raise BadDataError
        return found


def _place_in_module(value: object) -> tuple[str, str] | None:
    """Return the module and name of a function or class that a module defines."""
    if not isinstance(value, _MEMBERS):
        return None
    module, name = getattr(value, "__module__", None), getattr(value, "__name__", None)
    if type(module) is not str or type(name) is not str:
        return None
    found = sys.modules.get(module)
    if type(found) is not ModuleType or vars(found).get(name) is not value:
        return None
    return module, name
