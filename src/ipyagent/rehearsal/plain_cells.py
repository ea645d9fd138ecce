"""Cells: arrays, views of the memory of other arrays, texts, and columns of polars.

To put columns of polars together starts none of its threads: those do not survive a fork, so that
there would be no rehearsal with polars any more. To take them apart, on the copy, may.
"""

from __future__ import annotations

import re
import sys
from array import array as packed
from collections.abc import Mapping
from itertools import accumulate
from math import prod
from types import ModuleType
from typing import Any

from ipyagent.values.variables.arrays import is_array
from ipyagent.values.variables.tables import kind_of


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


_CELLS: Mapping[str, str] = {
    **{f"{sign}Int{8 * size}": f"{code}{size}" for sign, code in (("", "i"), ("U", "u"))
       for size in (1, 2, 4, 8)},
    "Float32": "f4", "Float64": "f8", "Boolean": "b1",
    "Date": "i4", "Time": "i8",
}  # fmt: skip
"""The types of columns of numbers, days and times of day, and of the numbers that they are."""
_UNITS = ("ms", "us", "ns")


def take_polars(value: object) -> tuple[object, ...]:
    """Return the kind of a table or column, and its parts; raises NotPlainError."""
    polars = sys.modules["polars"]
    if kind_of(value) is None:
        raise NotPlainError
    match value:
        case polars.DataFrame() as table if table.width or not table.height:
            return "polars table", [_take_column(each, polars) for each in table.get_columns()]
        case polars.Series():
            return "polars column", _take_column(value, polars)
    raise NotPlainError


def _take_column(column: object, polars: ModuleType) -> tuple[object, ...]:
    """Return name, type and cells, and where they are missing."""
    values = polars.Series(column)
    name = type(values.dtype).__name__
    keys = [each for each in ("time_unit", "time_zone") if hasattr(values.dtype, each)]
    details = [getattr(values.dtype, each) for each in keys]
    if name in ("String", "Enum"):
        categories = values.dtype.categories.to_list() if name == "Enum" else None
        return values.name, name, categories, *pack_texts(values.to_list())
    if name not in _CELLS and not details:
        raise NotPlainError
    numbers = values.to_physical()
    missing = numbers.is_null().to_numpy().copy() if values.null_count() else None
    cells = numbers.fill_null(False if name == "Boolean" else 0).to_numpy().copy()
    return values.name, name, details, cells, missing


def make_polars(kind: str, parts: list[object]) -> object:
    """Return the table or column of parts that may be anything.

    Raises NotPlainError, or what polars raises.
    """
    polars, numpy = sys.modules["polars"], sys.modules["numpy"]
    match kind, parts:
        case "polars table", [list(columns)]:
            return polars.DataFrame([_make_column(each, polars, numpy) for each in columns])
        case "polars column", [column]:
            return _make_column(column, polars, numpy)
    raise NotPlainError


def _make_column(column: object, polars: ModuleType, numpy: ModuleType) -> object:
    match column:
        case (str(name), "String", None, bytes() as sizes, bytes() as data):
            return polars.Series(name, unpack_texts(sizes, data), dtype=polars.String)
        case (str(name), "Enum", list(categories), bytes() as sizes, bytes() as data):
            if all(type(each) is str for each in categories):
                dtype = polars.Enum(categories)
                return polars.Series(name, unpack_texts(sizes, data), dtype=dtype)
        case (str(name), str(kind), list(details), numpy.ndarray() as cells, missing):
            dtype = _make_type(kind, details, polars)
            if cells.ndim != 1 or cells.dtype != numpy.dtype(_CELLS.get(kind, "i8")):
                raise NotPlainError
            match missing:
                case None:
                    return polars.Series(name, cells, dtype=dtype)
                case numpy.ndarray() as gone if gone.dtype == bool and gone.shape == cells.shape:
                    pairs = zip(cells.tolist(), gone.tolist(), strict=True)
                    kept = [None if is_gone else cell for cell, is_gone in pairs]
                    return polars.Series(name, kept, dtype=dtype)
    raise NotPlainError


def _make_type(name: str, details: list[object], polars: ModuleType) -> object:
    match name, details:
        case "Datetime", [str(unit), (None | str()) as zone] if unit in _UNITS:
            return polars.Datetime(unit, zone)
        case "Duration", [str(unit)] if unit in _UNITS:
            return polars.Duration(unit)
        case _, [] if name in _CELLS:
            return getattr(polars, name)
    raise NotPlainError
