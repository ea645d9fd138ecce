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
from ipyagent.kernel.rehearsal.plain_tables import BadDataError, NotPlainError

Node = list[Any]
"""A value as JSON: its kind, then its parts."""
Existing = Mapping[str, object]
"""The variables as they are: their objects are referred to by name."""

_DEPTH, _MOST_NODES, _MOST_BYTES = 50, 300_000, 48 << 20
_CONTAINERS: Mapping[str, Callable[[list[Any]], Any]] = {
    "list": list,
    "tuple": tuple,
    "set": set,
    "frozenset": frozenset,
}
_KINDS = {make: name for name, make in _CONTAINERS.items()}
_MEMBERS = (FunctionType, BuiltinFunctionType, type)
"""Types of values that are referred to by the module that defines them."""
_NAME = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")
_DTYPE = re.compile(r"[<>|][biufcSUmM]\d{1,5}(\[\d{0,4}[a-zA-Z]{1,2}\])?")
"""Types of plain numbers, text and times; no other can be asked for."""


def write_all(
    values: Mapping[str, object], existing: Existing, is_old: Callable[[object], bool]
) -> tuple[dict[str, Node], list[memoryview]]:
    """Return the nodes of values, and the bytes in them.

    `is_old` tells whether an object was there before, so that a copy would not be the same. Raises
    NotPlainError for anything that would not come back exactly as it is.
    """
    writer, checker = _Writer(existing, is_old), _Writer(existing, lambda value: False)
    nodes = {name: writer.write(value) for name, value in values.items()}
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
    reader = _Reader(buffers, existing)
    try:
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
        self._owners: set[int] = set()
        """The arrays whose memory was written: two that share it would be two copies."""
        self._count = 0

    def write(self, value: Any, depth: int = _DEPTH, *, is_part: bool = False) -> Node:
        """Return the node of a value; raises NotPlainError.

        A part of a table is copied even if it was there before: others do not see it.
        """
        self._count += 1
        if self._count > _MOST_NODES or not depth:
            raise NotPlainError("it is too large")
        if (scalar := self._write_scalar(value)) is not None:
            return scalar
        if (name := self._existing.get(id(value))) is not None and not is_part:
            return ["variable", name]
        if type(value) is ModuleType and id(value) in self._modules:
            return ["module", self._modules[id(value)]]
        if (place := _place_in_module(value)) is not None:
            return ["member", *place]
        if id(value) in self._written:
            return ["again", self._written[id(value)]]
        if not is_part and type(value) is not tuple and self._is_old(value):
            raise NotPlainError("it is a part of what is there")
        self._written[id(value)] = len(self._written)
        self._keep.append(value)
        kind = type(value)
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
        name, *parts = plain_tables.take_apart(value)
        return [name, *(self.write(each, depth - 1, is_part=True) for each in parts)]

    def _write_scalar(self, value: Any) -> Node | None:
        kind, numpy = type(value), sys.modules.get("numpy")
        if value is None or kind is bool or kind is str:
            return ["plain", value]
        if kind is int:
            return ["int", hex(value)]
        for home in ("math", "numpy"):  # which code compares by identity, as `in` does
            if kind is float and value is getattr(sys.modules.get(home), "nan", None):
                return ["missing", home]
        if kind in (float, complex):
            numbers = [value] if kind is float else [value.real, value.imag]
            return [kind.__name__, *(each.hex() if each == each else "nan" for each in numbers)]
        if kind is bytes:
            return ["bytes", self._add_buffer(memoryview(value))]
        if numpy is None or not isinstance(value, numpy.generic):
            return None
        is_plain = kind is value.dtype.type and _DTYPE.fullmatch(value.dtype.str)
        return ["scalar", value.dtype.str, value.tobytes().hex()] if is_plain else None

    def _write_array(self, array: Any, numpy: Any, *, is_part: bool) -> Node:
        base, flags = array.base, array.flags
        if not is_part and not flags.writeable:
            raise NotPlainError("it is a view that cannot be written")
        if (
            not is_part
            and base is not None
            and (type(base) is not type(array) or self._is_old(base))
        ):
            raise NotPlainError("it is a part of what is there")
        owner = id(array if base is None else base)
        if owner in self._owners and not is_part:
            raise NotPlainError("it shares its memory")
        self._owners.add(owner)
        if not _DTYPE.fullmatch(array.dtype.str):
            raise NotPlainError(f"it is an array of {array.dtype}")
        order = "F" if flags.f_contiguous and not flags.c_contiguous else "C"
        data = numpy.ascontiguousarray(array.T if order == "F" else array)
        raw = memoryview(data.reshape(-1).view("u1")) if data.nbytes else memoryview(b"")
        return ["array", array.dtype.str, list(array.shape), order, self._add_buffer(raw)]

    def _add_buffer(self, view: memoryview) -> int:
        self.buffers.append(view)
        if sum(each.nbytes for each in self.buffers) > _MOST_BYTES:
            raise NotPlainError("it is too large")
        return len(self.buffers) - 1


class _Reader:
    """Makes values of nodes and buffers."""

    def __init__(self, buffers: Sequence[memoryview], existing: Existing) -> None:
        self._buffers, self._existing = buffers, existing
        self._made: list[Any] = []
        self._count = 0

    def read(self, node: object, depth: int = _DEPTH) -> Any:
        """Return the value of a node; raises BadDataError."""
        self._count += 1
        if self._count > _MOST_NODES or not depth:
            raise BadDataError
        match node:
            case ["plain", None | bool() | str() as value]:
                return value
            case ["int", str(text)] if len(text) < 100_000:
                return int(text, 16)
            case ["missing", ("math" | "numpy") as home]:
                return sys.modules[home].nan
            case ["float", str(text)]:
                return float.fromhex(text)
            case ["complex", str(real), str(imaginary)]:
                return complex(float.fromhex(real), float.fromhex(imaginary))
            case ["bytes", int(number)]:
                return bytes(self._buffer(number))
            case ["scalar", str(dtype), str(text)]:
                return self._numbers(dtype, bytes.fromhex(text))[0]
            case ["again", int(number)] if 0 <= number < len(self._made):
                return self._made[number]
            case ["variable", str(name)] if name in self._existing:
                return self._existing[name]
            case ["module", str(name)] if _NAME.fullmatch(name):
                return sys.modules[name]
            case ["member", str(name), str(member)] if _NAME.fullmatch(name):
                found = vars(sys.modules[name])[member]
                if isinstance(found, _MEMBERS):
                    return found
            case [str(kind), *parts]:
                return self._read_object(kind, parts, depth - 1)
        raise BadDataError

    def _read_object(self, kind: str, parts: list[Any], depth: int) -> Any:
        place = len(self._made)
        made: Any = {} if kind == "dict" else []
        self._made.append(made)
        if kind == "dict":
            for key, value in parts[0]:
                made[self.read(key, depth)] = self.read(value, depth)
            return made
        if kind == "array":
            made = self._read_array(*parts)
        else:
            made.extend(
                self.read(each, depth) for each in (parts[0] if kind in _CONTAINERS else parts)
            )
            if kind != "list":
                make = _CONTAINERS.get(kind) or (lambda read: plain_tables.put_together(kind, read))
                made = make(made)
        self._made[place] = made
        return made

    def _read_array(self, dtype: str, shape: list[int], order: str, number: int) -> Any:
        if len(shape) > 32 or any(type(each) is not int or each < 0 for each in shape):
            raise BadDataError
        # Of the very length: numpy would take what it needs.
        return self._numbers(dtype, bytearray(self._buffer(number)), shape).reshape(
            shape, order="F" if order == "F" else "C"
        )

    def _numbers(self, dtype: str, raw: bytes | bytearray, shape: Sequence[int] = (1,)) -> Any:
        numpy = sys.modules["numpy"]
        if not _DTYPE.fullmatch(dtype):
            raise BadDataError
        kind, size = numpy.dtype(dtype), 1
        for each in shape:
            size *= each
        if size * kind.itemsize != len(raw):
            raise BadDataError
        return numpy.frombuffer(raw, kind) if raw else numpy.empty(size, kind)

    def _buffer(self, number: int) -> memoryview:
        if not 0 <= number < len(self._buffers):
            raise BadDataError
        return self._buffers[number]


def _place_in_module(value: object) -> tuple[str, str] | None:
    """Return the module and name of a function or class that a module defines."""
    module, name = (getattr(value, each, None) for each in ("__module__", "__name__"))
    if not isinstance(value, _MEMBERS) or type(module) is not str or type(name) is not str:
        return None
    found = sys.modules.get(module)
    if type(found) is not ModuleType or vars(found).get(name) is not value:
        return None
    return module, name
