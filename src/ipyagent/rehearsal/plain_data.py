"""Plain data as JSON and raw bytes: tables, arrays, numbers, text, and containers of these.

The reader trusts nothing: it makes objects of Python, numpy and pandas from checked parts, and runs
no code but theirs. Nothing is unpickled, nothing is imported.
"""

from __future__ import annotations

import json
import re
import struct
import sys
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

from ipyagent.rehearsal.plain_parts import (
    HOLDERS,
    IN_CELLS,
    PLAIN_TYPE,
    NotPlainError,
    check_keys,
    make_array,
    make_view,
    put_together,
    take_apart,
)
from ipyagent.rehearsal.watched_values import is_own_module
from ipyagent.values.describe.safe_inspect import is_a, module_name
from ipyagent.values.variables.arrays import find_owner, is_array
from ipyagent.values.variables.parts import is_atom
from ipyagent.values.variables.reach import Adoption
from ipyagent.values.variables.tables import PANDAS, copies_on_write, kind_of, memory_owners

Node = list[object]
"""A value as JSON: its kind, then its parts."""
Joint = frozenset[int]
"""The ids of arrays of which several others are views."""
Existing = Mapping[str, object]
"""The variables as they are: their objects are referred to by name."""


_DEPTH, _MOST_NODES, _MOST_BYTES = 50, 300_000, 128 << 20
_MOST_VISITS = 1_000_000
"""Nodes that a reader reads, those of a value again each time that it is referred to."""
_VISIT = 512
"""Bytes of an array that count as one more."""
_NUMBERS: Mapping[str, Callable[[str], object]]
_NUMBERS = {"int": lambda text: int(text, 16), "float": float, "complex": complex}
_CONTAINERS: Mapping[str, Callable[[list[object]], object]] = {
    each.__name__: each for each in (list, tuple, set, frozenset)
}
_KINDS = {make: name for name, make in _CONTAINERS.items()}
_MISSING = (("math", "nan"), ("numpy", "nan"), ("pandas", "NaT"), ("pandas", "NA"))
"""Missing values, which code compares by identity, as `in` does."""
_MEMBERS = (FunctionType, BuiltinFunctionType, type)
"""Types of values that are referred to by the module that defines them."""
_NOTEBOOK = "__main__"
"""What it defines has another value on the copy as soon as code defines it anew."""


Test = Callable[[object], bool]


def _never(value: object) -> bool:
    return False


def write_all(
    values: Mapping[str, object], existing: Existing, is_old: Test, is_in_table: Test = _never
) -> tuple[dict[str, Node], list[memoryview]]:
    """Return the nodes of values, and the bytes in them.

    `is_old` tells whether an object was there before, so that a copy would not be the same, and
    `is_in_table` whether an array holds the cells of a table that was. Raises NotPlainError for
    anything that would not come back exactly as it is.
    """
    parts = _Parts(existing)
    nodes, buffers = _write(values, existing, is_old, is_in_table, parts)
    again = read_all(nodes, buffers, existing)
    if _write(again.values, existing, parts.is_used, parts=parts) != (nodes, buffers):
        raise NotPlainError
    return nodes, buffers


def _write(
    values: Mapping[str, object],
    existing: Existing,
    is_old: Test = _never,
    is_in_table: Test = _never,
    parts: _Parts | None = None,
) -> tuple[dict[str, Node], list[memoryview]]:
    """Return nodes and buffers; once more if arrays turn out to be views of the same memory."""
    joint: Joint = frozenset()
    while True:
        writer = _Writer(existing, is_old, is_in_table, joint, parts or _Parts({}))
        nodes = {name: writer.write(value) for name, value in values.items()}
        if writer.joint == joint:
            return nodes, writer.buffers
        joint = writer.joint


def read_all(
    nodes: Mapping[str, object], buffers: Sequence[memoryview], existing: Existing
) -> Adoption:
    """Return the values of nodes by name; raises NotPlainError, whatever is wrong."""
    reader = _Reader(buffers, existing)
    try:
        values = {name: reader.read_named(name, node) for name, node in nodes.items()}
        return Adoption(values, reader.shared)
    except Exception:
        raise NotPlainError from None


def is_same_data(one: object, other: object) -> bool:
    """Return whether two objects are the same plain data, and hold nothing that can be changed."""
    if type(one) is not type(other) or type(one) in {dict, *_KINDS, *HOLDERS}:
        return False
    with suppress(NotPlainError):
        return _write({"": one}, {}) == _write({"": other}, {})
    return False


def _list_held(value: Any) -> list[object]:
    """Return what a list, a tuple, the values of a dict or the cells of a table hold, in order.

    Of cells only the containers.
    """
    kind, pandas = type(value), sys.modules.get("pandas")
    if kind is list or kind is tuple:
        return [*value]
    if kind in (dict, Counter, OrderedDict, defaultdict):
        return [*dict.values(value)]
    if pandas is not None and kind is pandas.DataFrame:
        columns = (value.iloc[:, number] for number in range(value.shape[1]))
        return [cell for column in columns for cell in _list_held(column)]
    if pandas is not None and kind is pandas.Series and value.dtype == object:
        return [each for each in value.tolist() if type(each) in IN_CELLS]
    return []


class _Parts:
    """Objects that variables hold, in containers at any depth."""

    def __init__(self, existing: Existing) -> None:
        self._existing = existing
        self._used: set[int] = set()

    def is_used(self, value: object) -> bool:
        """Return whether a value was asked for."""
        return id(value) in self._used

    def find(self, value: object) -> Node:
        """Return the variable by which a value is reached, and the steps; raises NotPlainError."""
        if (path := self._paths.get(id(value))) is None:
            raise NotPlainError
        self._used.add(id(value))
        return ["part", *path]

    @cached_property
    def _paths(self) -> dict[int, list[object]]:
        # Names of the user's come before those that the shell gave.
        names = sorted(self._existing, key=lambda name: name[:1] == "_")
        waiting = deque[tuple[list[object], object]](
            ([name], self._existing[name]) for name in names
        )
        found: dict[int, list[object]] = {}
        while waiting and len(found) < _MOST_NODES:
            path, holder = waiting.popleft()
            for step, each in enumerate(_list_held(holder)):
                if id(each) not in found and not is_atom(each):
                    found[id(each)] = [*path, step]
                    waiting.append((found[id(each)], each))
        return found


class _Writer:
    """Writes values as nodes and buffers."""

    def __init__(
        self, existing: Existing, is_old: Test, is_in_table: Test, joint: Joint, parts: _Parts
    ) -> None:
        self.buffers: list[memoryview] = []
        self.joint = joint
        """The ids of the arrays of which several others are views."""
        self._size = 0
        self._is_old, self._is_in_table, self._parts = is_old, is_in_table, parts
        modules = ((n, each) for n, each in list(sys.modules.items()) if not is_own_module(each))
        self._known: dict[int, Node] = {id(module): ["module", name] for name, module in modules}
        self._known |= {id(value): ["variable", name] for name, value in existing.items()}
        self._written: dict[int, tuple[int, object]] = {}
        """The places of values, which are kept: no other gets their place in memory."""
        self._owners: dict[int, int] = {}
        """The ids of the arrays whose memory was written, and for whom."""
        self._existing = existing
        self._count = 0

    def write(self, value: Any, depth: int = _DEPTH, *, is_part: bool = False) -> Node:
        """Return the node of a value; raises NotPlainError.

        A part of a table is copied even if it was there before: others do not see it.
        """
        self._count += 1
        if self._count > _MOST_NODES or not depth:
            raise NotPlainError
        if (scalar := self._write_scalar(value)) is not None:
            return scalar
        if (node := self._known.get(id(value))) is not None and not is_part:
            return node
        if (place := _place_in_module(value)) is not None:
            return ["member", *place]
        if id(value) in self._written:
            return ["again", self._written[id(value)][0]]
        if not is_part and type(value) is not tuple and self._is_old(value):
            return self._parts.find(value)
        self._written[id(value)] = len(self._written), value
        kind = type(value)
        if kind is float:
            return ["missing", struct.pack("<d", value).hex()]
        if kind is dict:
            pairs = [[self.write(each, depth - 1) for each in pair] for pair in value.items()]
            return ["dict", pairs]
        if kind in _KINDS:
            nodes = [self.write(each, depth - 1, is_part=is_part) for each in value]
            if kind in (set, frozenset):  # scalars, and tuples of them: their order says nothing
                nodes.sort(key=json.dumps)
            return [_KINDS[kind], nodes]
        numpy = sys.modules.get("numpy")
        if numpy is not None and kind is numpy.ndarray:
            return self._write_array(value, numpy, is_part=is_part)
        name, *parts = take_apart(value)
        home = module_name(kind).partition(".")[0]
        if home == "pandas" and (not is_part or copies_on_write()):
            self._claim_memory(value)
        is_part = kind not in HOLDERS
        return [name, *(self.write(each, depth - 1, is_part=is_part) for each in parts)]

    def _write_scalar(self, value: Any) -> Node | None:
        kind, numpy = type(value), sys.modules.get("numpy")
        if value is None or kind is bool or kind is str:
            return ["plain", value]
        if kind is re.Pattern and type(value.pattern) is str and not value.flags & re.DEBUG:
            return ["pattern", value.pattern, value.flags]
        if kind in (int, complex) or (kind is float and value == value):
            return [kind.__name__, hex(value) if kind is int else repr(value)]
        if kind is bytes:
            return ["bytes", self._add_buffer(memoryview(value))]
        for home, name in _MISSING:
            if home in sys.modules and value is vars(sys.modules[home])[name]:
                return ["missing", home, name]
        if numpy is None or not isinstance(value, numpy.generic):
            return None
        is_plain = kind is value.dtype.type and PLAIN_TYPE.fullmatch(value.dtype.str)
        return ["scalar", value.dtype.str, value.tobytes().hex()] if is_plain else None

    def _write_array(self, array: Any, numpy: ModuleType, *, is_part: bool) -> Node:
        flags, owner = array.flags, find_owner(array)
        if not PLAIN_TYPE.fullmatch(array.dtype.str):
            raise NotPlainError
        is_fixed = not is_part and not flags.writeable
        if not is_part:
            if not is_array(owner) or (is_fixed and owner is array):
                raise NotPlainError
            if (place := self._memory.get(id(owner))) is not None:
                return ["view", ["memory", *place], *_describe_view(numpy, array, owner)]
            if self._is_in_table(owner):
                raise NotPlainError
            self._claim(owner, id(array))
        if array is not owner and (is_fixed or id(owner) in self.joint):
            *view, is_writeable = _describe_view(numpy, array, owner)
            # What pandas writes into is not read-only, though it shows it so.
            return ["view", self.write(owner), *view, is_part or is_writeable]
        order = "F" if flags.f_contiguous and not flags.c_contiguous else "C"
        data = numpy.ascontiguousarray(array.T if order == "F" else array)
        raw = memoryview(data.reshape(-1).view("u1")) if data.nbytes else memoryview(b"")
        return ["array", array.dtype.str, list(array.shape), order, self._add_buffer(raw)]

    @cached_property
    def _memory(self) -> dict[int, list[object]]:
        """By the id of an array: the variable whose memory it owns, and which part of it."""
        return {
            id(owner): [name, number]
            for name, value in reversed([*self._existing.items()])
            for number, owner in enumerate(memory_owners(value))
        }

    def _claim_memory(self, value: Any) -> None:
        """Claim the memory of a table: before pandas 3, what shares it sees it change."""
        is_seen = kind_of(value) in PANDAS and not copies_on_write()
        for owner in memory_owners(value):
            self._claim(owner, id(value) if is_seen else 0)

    def _claim(self, owner: object, holder: int) -> None:
        if self._is_old(owner):
            raise NotPlainError
        if self._owners.setdefault(id(owner), holder) != holder:
            self.joint |= {id(owner)}

    def _add_buffer(self, view: memoryview) -> int:
        self.buffers.append(view)
        self._size += view.nbytes
        if self._size > _MOST_BYTES:
            raise NotPlainError
        return len(self.buffers) - 1


@dataclass
class _Made:
    """A value that a reader made for a name, and how many nodes it read for that."""

    value: Any
    name: str
    visits: int = 0


class _Reader:
    """Makes values of nodes and buffers."""

    def __init__(self, buffers: Sequence[memoryview], existing: Existing) -> None:
        self._buffers, self._existing = dict(enumerate(buffers)), existing
        self._made: list[_Made] = []
        self._name = ""
        self.shared: set[str] = set()
        self._held: dict[int, Sequence[object]] = {}
        """By the ids of existing containers: what they hold."""
        self._count = 0

    def read_named(self, name: str, node: object) -> object:
        """Return the value of a name's node; raises what `read_all` does not let through."""
        self._name = name
        return self.read(node)

    def read(self, node: object, depth: int = _DEPTH) -> Any:
        """Return the value of a node; raises what `read_all` does not let through."""
        self._count += 1
        if self._count > _MOST_VISITS or not depth:
            raise NotPlainError
        match node:
            case ["plain", None | bool() | str() as value]:
                return value
            case [("int" | "float" | "complex") as kind, str(text)] if len(text) < 100_000:
                return _NUMBERS[kind](text)
            case ["missing", str(home), str(name)] if (home, name) in _MISSING:
                return getattr(sys.modules[home], name)
            case ["missing", str(text)]:
                return self._add(struct.unpack("<d", bytes.fromhex(text))[0]).value
            case ["pattern", str(text), int(flags)] if len(text) < 5_000:
                return re.compile(text, flags & ~re.DEBUG)
            case ["bytes", int(number)]:
                return bytes(self._take_buffer(number))
            case ["scalar", str(dtype), str(text)]:
                return make_array(dtype, [], "C", bytes.fromhex(text))[()]
            case [("again" | "variable") as kind, (int() | str()) as key]:
                return self._refer_to(kind, key)
            case ["part", str(name), *steps]:
                return self._find_part(name, steps)
            case ["module", str(name)]:
                return sys.modules[name]
            case ["member", str(name), str(member)]:
                found = vars(sys.modules[name])[member]
                if isinstance(found, _MEMBERS) and name != _NOTEBOOK:
                    return found
            case [str(kind), *parts]:
                return self._read_object(kind, parts, depth - 1)
        raise NotPlainError

    def _read_object(self, kind: str, parts: list[Any], depth: int) -> object:
        made: Any = {} if kind == "dict" else []
        record, before = self._add(made), self._count
        if kind == "dict":
            pairs = [(self.read(key, depth), self.read(each, depth)) for key, each in parts[0]]
            check_keys([key for key, _ in pairs])
            made.update(pairs)
        elif kind == "array":
            dtype, shape, order, number = parts
            made = make_array(dtype, shape, order, self._take_buffer(number))
            self._count += made.nbytes // _VISIT
        elif kind == "view":
            node, *view, is_writeable = parts
            owner, is_shown = self._find_owner(node, depth)
            made = make_view(owner, *view, is_writeable=is_writeable and not is_shown)
            self._count += made.nbytes // _VISIT
        else:
            listed = parts[0] if kind in _CONTAINERS else parts
            made.extend(self.read(each, depth) for each in listed)
            if kind in ("set", "frozenset"):
                check_keys(made)
            if kind != "list":
                make = _CONTAINERS.get(kind) or partial(put_together, kind)
                made = make(made)
        record.value, record.visits = made, self._count - before
        return made

    def _find_owner(self, node: object, depth: int) -> tuple[object, bool]:
        """Return the array of which another one is a view, and whether it is only to be read.

        That is the memory of a table of pandas, which would not notice that it was written.
        """
        match node:
            case ["memory", str(name), int(number)]:
                self.shared |= {name, self._name}
                value = self._existing[name]
                is_shown = not is_array(value) and copies_on_write()
                return [*memory_owners(value)][number], is_shown
        return self.read(node, depth), False

    def _take_buffer(self, number: int) -> memoryview:
        """Return a buffer, which is used once."""
        return self._buffers.pop(number)

    def _refer_to(self, kind: str, key: Any) -> object:
        """Return a value that was made before, or that of a variable."""
        if kind == "again":
            made = self._made[key]
            holder, value = made.name, made.value
            self._count += made.visits
            is_fixed = is_atom(value)
        else:
            holder, value = key, self._existing[key]
            is_index = "pandas" in sys.modules and is_a(value, sys.modules["pandas"].Index)
            leads_on = isinstance(value, _MEMBERS)  # to data, if it is the user's
            is_fixed = is_atom(value) and not (leads_on or is_index)  # of which the name can change
        if holder != self._name and not is_fixed:
            self.shared |= {holder, self._name}
        return value

    def _find_part(self, name: str, steps: Sequence[object]) -> object:
        """Return what a container holds that is held by a variable, at any depth."""
        if name != self._name:
            self.shared |= {name, self._name}
        value = self._existing[name]
        for step in steps:
            if id(value) not in self._held:
                self._held[id(value)] = _list_held(value)
            if type(step) is not int:
                raise NotPlainError
            value = self._held[id(value)][step]
        return value

    def _add(self, value: object) -> _Made:
        self._made.append(made := _Made(value, self._name))
        return made


def _describe_view(numpy: ModuleType, array: object, owner: object) -> list[object]:
    """Return type, shape, strides and offset of a view, and whether it can be written."""
    view, whole = numpy.asarray(array), numpy.asarray(owner)  # themselves
    start, origin = (each.__array_interface__["data"][0] for each in (view, whole))
    stretch = [[*view.shape], [*view.strides], start - origin]
    return [view.dtype.str, *stretch, bool(view.flags.writeable)]


def _place_in_module(value: object) -> tuple[str, str] | None:
    """Return the module and name of a function or class that a library's module defines."""
    if not isinstance(value, _MEMBERS):
        return None
    found = sys.modules.get(name := str(getattr(value, "__module__", "")))
    is_of_library = type(found) is ModuleType and not is_own_module(found)
    is_there = is_of_library and vars(found).get(value.__name__) is value
    return (name, value.__name__) if is_there else None
