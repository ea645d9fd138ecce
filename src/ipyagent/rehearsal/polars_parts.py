"""Tables and columns of polars taken apart into plain parts, and put together again.

To put them together starts none of polars' threads: those do not survive a fork, so that there
would be no rehearsal with polars any more. To take them apart, on the copy, may.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import ModuleType

from ipyagent.rehearsal.plain_cells import NotPlainError, pack_texts, unpack_texts
from ipyagent.values.variables.tables import kind_of

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
