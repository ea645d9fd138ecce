"""Scalars and arrays as nodes of JSON and raw bytes."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from typing import Any

Node = list[Any]
"""A value as JSON: its kind, then its parts."""

_MOST_BYTES = 48 << 20

_DTYPE = re.compile(r"[<>|][biufcSUmM]\d{1,5}(\[\d{0,4}[a-zA-Z]{1,2}\])?")


class NotPlainError(Exception):
    """Raised for a value that is not plain data."""


class BadDataError(Exception):
    """Raised for a node that makes no sense."""


def write_scalar(value: Any, buffers: list[memoryview]) -> Node | None:
    """Return the node of a number, text or bytes; None if it is neither."""
    kind = type(value)
    if value is None:
        return ["none"]
    if kind is bool:
        return ["bool", value]
    if kind is int:
        return ["int", hex(value)]
    if kind is float:
        return ["float", _bits(value)]
    if kind is complex:
        return ["complex", _bits(value.real), _bits(value.imag)]
    if kind is str:
        return ["str", value]
    if kind is bytes:
        return ["bytes", _add_buffer(memoryview(value), buffers)]
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.generic) and _DTYPE.fullmatch(value.dtype.str):
        if kind is not value.dtype.type:
            return None
        return ["scalar", value.dtype.str, value.tobytes().hex()]
    return None


def read_scalar(node: Node, buffers: Sequence[memoryview]) -> Any:
    """Return the value of a scalar's node; NotImplemented if it is another node."""
    match node:
        case ["none"]:
            return None
        case ["bool", bool(value)] | ["str", str(value)]:
            return value
        case ["int", str(text)] if len(text) < 100_000:
            return int(text, 16)
        case ["float", str(text)]:
            return _from_bits(text)
        case ["complex", str(real), str(imaginary)]:
            return complex(_from_bits(real), _from_bits(imaginary))
        case ["bytes", int(number)]:
            return bytes(_take_buffer(buffers, number))
        case ["scalar", str(name), str(text)]:
            return _numpy().frombuffer(bytes.fromhex(text), _read_dtype(name))[0]
    return NotImplemented


def write_array(
    value: Any, buffers: list[memoryview], is_old: Callable[[object], bool]
) -> Node | None:
    """Return the node of a numpy array; None if it is none. Raises NotPlainError."""
    numpy = sys.modules.get("numpy")
    if numpy is None or type(value) is not numpy.ndarray:
        return None
    if not value.flags.writeable:
        raise NotPlainError("it is a view that cannot be written")
    base = value.base
    if base is not None and (type(base) is not numpy.ndarray or is_old(base)):
        raise NotPlainError("it is a part of what is there")
    return array_node(value, buffers)


def array_node(value: Any, buffers: list[memoryview]) -> Node:
    """Return the node of an array's content, wherever it lies; raises NotPlainError."""
    numpy = sys.modules["numpy"]
    if not _DTYPE.fullmatch(value.dtype.str):
        raise NotPlainError(f"it is an array of {value.dtype}")
    order = "F" if value.flags.f_contiguous and not value.flags.c_contiguous else "C"
    data = numpy.ascontiguousarray(value.T if order == "F" else value)
    raw = memoryview(data.reshape(-1).view("u1")) if data.nbytes else memoryview(b"")
    return ["array", value.dtype.str, list(value.shape), order, _add_buffer(raw, buffers)]


def read_array(node: Node, buffers: Sequence[memoryview]) -> Any:
    """Return the array of a node."""
    match node:
        case ["array", str(name), list(shape), ("C" | "F") as order, int(number)]:
            if len(shape) > 32 or any(type(each) is not int or each < 0 for each in shape):
                raise BadDataError
            dtype, raw = _read_dtype(name), _take_buffer(buffers, number)
            size = dtype.itemsize
            for each in shape:
                size *= each
            if size != raw.nbytes:
                raise BadDataError
            if not size:
                return _numpy().empty(shape, dtype, order=order)
            return _numpy().frombuffer(bytearray(raw), dtype).reshape(shape, order=order)
    raise BadDataError


def _add_buffer(view: memoryview, buffers: list[memoryview]) -> int:
    """Add a buffer; return its number. Raises NotPlainError if it is too much."""
    if sum(each.nbytes for each in buffers) + view.nbytes > _MOST_BYTES:
        raise NotPlainError("it is too large")
    buffers.append(view)
    return len(buffers) - 1


def _take_buffer(buffers: Sequence[memoryview], number: int) -> memoryview:
    """Return the buffer of that number."""
    if type(number) is not int or not 0 <= number < len(buffers):
        raise BadDataError
    return buffers[number]


def _read_dtype(name: str) -> Any:
    """Return a type of plain numbers, text or times; no other can be asked for."""
    if not _DTYPE.fullmatch(name):
        raise BadDataError
    return _numpy().dtype(name)


def _numpy() -> Any:
    return get_library("numpy")


def get_library(name: str) -> Any:
    """Return a library that is loaded; data that needs another one makes no sense."""
    library = sys.modules.get(name)
    if library is None:
        raise BadDataError
    return library


def _bits(value: float) -> str:
    return value.hex() if value == value else "nan"


def _from_bits(text: str) -> float:
    return float.fromhex(text)
