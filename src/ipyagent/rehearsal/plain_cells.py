"""Cells: arrays, views of the memory of other arrays, and texts, made of checked parts."""

from __future__ import annotations

import re
import sys
from array import array as packed
from itertools import accumulate
from math import prod
from typing import Any

from ipyagent.values.variables.arrays import is_array


class NotPlainError(Exception):
    """Raised for a value that is not plain data, and for data that makes no sense."""


PLAIN_TYPE = re.compile(r"[<>|][biufcSUmM]\d{1,5}(\[\d{0,4}[a-zA-Z]{1,2}\])?")
"""Types of plain numbers, text and times; no other can be asked for."""

Joint = frozenset[int]
"""The ids of arrays of which several others are views."""

_LARGEST = 128 << 20
"""Bytes of a view, which repeats cells where it does not step on."""


_MOST_TEXTS = 10_000_000
"""Texts in a column."""


def make_array(dtype: str, shape: list[int], order: str, raw: bytes | memoryview) -> Any:
    """Return an array of all of these bytes; raises NotPlainError, or what numpy raises."""
    _check_type(dtype, shape)
    numpy = sys.modules["numpy"]
    cells = numpy.frombuffer(raw, dtype) if raw else numpy.empty(0, dtype)
    # A copy has its own memory, as what code makes: it can be resized.
    return cells.reshape(shape, order="F" if order == "F" else "C").copy(order="K")


def make_view(
    owner: object,
    dtype: str,
    shape: list[int],
    strides: list[int],
    offset: int,
    *,
    is_writeable: bool,
) -> object:
    """Return a view of an array's memory; raises NotPlainError for one beyond it."""
    _check_type(dtype, shape)
    numpy = sys.modules["numpy"]
    if not is_array(owner) or prod(shape) * max(1, numpy.dtype(dtype).itemsize) > _LARGEST:
        raise NotPlainError
    memory = numpy.asarray(owner)  # itself
    if memory.dtype.hasobject or not (memory.flags.c_contiguous or memory.flags.f_contiguous):
        raise NotPlainError
    cells = memory.reshape(-1, order="A").view("u1")
    view = numpy.ndarray(shape, dtype, cells, offset, strides)
    view.flags.writeable = view.flags.writeable and is_writeable is True
    return view


def _check_type(dtype: str, shape: list[int]) -> None:
    if not PLAIN_TYPE.fullmatch(dtype) or any(type(e) is not int or e < 0 for e in shape):
        raise NotPlainError


def pack_texts(cells: list[str | None]) -> tuple[bytes, bytes]:
    """Return the lengths of texts in characters, -1 for None, and all of them in UTF-8."""
    lengths = packed("i", [-1 if each is None else len(each) for each in cells])
    text = "".join(each for each in cells if each is not None)
    return lengths.tobytes(), text.encode(errors="surrogatepass")


def unpack_texts(sizes: bytes, data: bytes) -> list[str | None]:
    """Return the texts that were packed; raises NotPlainError."""
    lengths = packed("i", sizes)
    if len(lengths) > _MOST_TEXTS:
        raise NotPlainError
    text = data.decode(errors="surrogatepass")
    ends = [*accumulate(max(size, 0) for size in lengths)]
    if (ends[-1] if ends else 0) != len(text):
        raise NotPlainError
    pairs = zip(ends, lengths, strict=True)
    return [None if size < 0 else text[end - size : end] for end, size in pairs]
