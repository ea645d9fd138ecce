"""Arrays of plain cells, and views of the memory of others, made of checked parts."""

from __future__ import annotations

import re
import sys
from math import prod
from typing import Any

from ipyagent.kernel.rehearsal.plain_parts import NotPlainError
from ipyagent.kernel.variables.arrays import is_array

PLAIN_TYPE = re.compile(r"[<>|][biufcSUmM]\d{1,5}(\[\d{0,4}[a-zA-Z]{1,2}\])?")
"""Types of plain numbers, text and times; no other can be asked for."""

Joint = frozenset[int]
"""The ids of arrays of which several others are views."""

_LARGEST = 128 << 20
"""Bytes of a view, which repeats cells where it does not step on."""


def make_array(dtype: str, shape: list[int], order: str, raw: bytes | memoryview) -> Any:
    """Return an array of all of these bytes; raises NotPlainError, or what numpy raises."""
    _check_type(dtype, shape)
    numpy = sys.modules["numpy"]
    cells = numpy.frombuffer(raw, dtype) if raw else numpy.empty(0, dtype)
    # A copy has its own memory, as what code makes: it can be resized.
    return cells.reshape(shape, order="F" if order == "F" else "C").copy(order="K")


def describe_view(array: Any, owner: Any, *, is_writeable: bool | None = None) -> list[object]:
    """Return type, shape, strides and offset of a view, and whether it can be written."""
    start, origin = (each.__array_interface__["data"][0] for each in (array, owner))
    fixed = array.flags.writeable if is_writeable is None else is_writeable
    return [array.dtype.str, [*array.shape], [*array.strides], start - origin, bool(fixed)]


def make_view(
    owner: Any, dtype: str, shape: list[int], strides: list[int], offset: int, is_writeable: bool
) -> Any:
    """Return a view of an array's memory; raises NotPlainError for one beyond it."""
    _check_type(dtype, shape)
    flags = owner.flags if is_array(owner) else None
    if flags is None or not (flags.c_contiguous or flags.f_contiguous):
        raise NotPlainError
    numpy = sys.modules["numpy"]
    if prod(shape) * numpy.dtype(dtype).itemsize > _LARGEST or owner.dtype.hasobject:
        raise NotPlainError
    cells = owner.reshape(-1, order="A").view("u1")
    view = numpy.ndarray(shape, dtype, cells, offset, strides)
    view.flags.writeable = view.flags.writeable and is_writeable is True
    return view


def _check_type(dtype: str, shape: list[int]) -> None:
    if not PLAIN_TYPE.fullmatch(dtype) or any(type(e) is not int or e < 0 for e in shape):
        raise NotPlainError
