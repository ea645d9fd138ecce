"""Descriptions of pandas and polars tables and numpy arrays; values only on request.

The libraries are used if the user has imported them, and never imported from here. A line for the
digest reads no cell, so its cost does not depend on the number of rows.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from ipyagent.kernel.describe.preview import preview
from ipyagent.kernel.describe.safe_inspect import (
    ancestors,
    is_a,
    module_name,
    one_line,
    overrides,
    type_name,
)
from ipyagent.kernel.describe.table import COLUMNS, COUNTED_CELLS, HEAD, Column, Table
from ipyagent.redaction import Secrecy

_OWN = ("_mgr", "_df", "_s", "__getattribute__", "__class__")
"""The names that a subclass would have to define to run its own code while its data is read."""

Describer = Callable[[Any, Secrecy, bool], str | None]
"""Takes a value, its secrecy and whether to go into detail; returns None if it cannot."""


# pandas ------------------------------------------------------------------------------------------


def pandas_frame(value: object) -> Table | None:
    """Return a DataFrame as a table, or None if its class guards its own data."""
    frame = _plain(value, sys.modules["pandas"].DataFrame)
    if frame is None:
        return None
    labels = frame.columns[:COLUMNS].tolist()
    dtypes = list(frame.dtypes.array[:COLUMNS])
    columns = [
        _pandas_column(frame, i, *pair) for i, pair in enumerate(zip(labels, dtypes, strict=True))
    ]
    rows, width = frame.shape
    return Table("DataFrame", rows, width, columns, lambda: int(frame.memory_usage().sum()))


def _pandas_column(frame: Any, i: int, label: Any, dtype: Any) -> Column:
    known = _is_library_storage(dtype)
    hashable = known and str(dtype) != "object"
    return Column(
        label,
        one_line(str(dtype)) if known else type_name(type(dtype)),
        (lambda: int(frame.iloc[:, i].isna().sum())) if known else None,
        (lambda: int(frame.iloc[:, i].nunique())) if hashable else None,
        lambda rows: frame.iloc[rows, i].tolist() if known else [],
    )


def _is_library_storage(dtype: object) -> bool:
    """Return whether a column's storage is a library's own: reading others runs their code."""
    return module_name(type(dtype)).partition(".")[0] in {"numpy", "pandas"}


def _plain(value: Any, cls: Any) -> Any:
    """Return the same data as the library's own class: no copy, no methods of a subclass."""
    if type(value) is cls:
        return value
    return None if overrides(type(value), cls, _OWN) else cls(value, copy=False)


def pandas_series(value: object) -> Table | None:
    """Return a Series as a table of one column, or None if its class guards its own data."""
    series = _plain(value, sys.modules["pandas"].Series)
    if series is None:
        return None
    column = _pandas_column(series.to_frame(), 0, series.name, series.dtype)
    return Table("Series", series.shape[0], 1, [column], lambda: int(series.memory_usage()))


def pandas_index(value: Any, secret: Secrecy, detail: bool) -> str | None:
    """Describe an Index in one line."""
    if module_name(type(value)).partition(".")[0] != "pandas":
        return None
    first = [preview(v, secret=secret, limit=30) for v in value[:HEAD].tolist()]
    more = ", …" if value.shape[0] > HEAD else ""
    kind = type_name(type(value))
    return f"{kind}, {value.shape[0]:,} entries ({value.dtype}): [{', '.join(first)}{more}]"


# polars ------------------------------------------------------------------------------------------


def polars_frame(value: Any) -> Table | None:
    """Return a polars DataFrame as a table, or None if its class guards its own data."""
    cls = sys.modules["polars"].DataFrame
    if overrides(type(value), cls, _OWN):
        return None
    frame = value if type(value) is cls else cls._from_pydf(value._df)
    columns = [
        _polars_column(frame.get_column(name), dtype)
        for name, dtype in list(frame.schema.items())[:COLUMNS]
    ]
    size = frame.estimated_size
    return Table("DataFrame", frame.height, frame.width, columns, size, " [polars]")


def polars_series(value: Any) -> Table | None:
    """Return a polars Series as a table of one column, or None if its class guards its data."""
    cls = sys.modules["polars"].Series
    if overrides(type(value), cls, _OWN):
        return None
    series = value if type(value) is cls else cls._from_pyseries(value._s)
    column = _polars_column(series, series.dtype)
    return Table("Series", series.len(), 1, [column], series.estimated_size, " [polars]")


def _polars_column(series: Any, dtype: Any) -> Column:
    flat = not (dtype.is_nested() or dtype.is_object())
    return Column(
        series.name,
        one_line(str(dtype)),
        series.null_count,
        series.n_unique if flat else None,
        lambda rows: series[rows].to_list(),
    )


def polars_lazy(value: object, secret: Secrecy, detail: bool) -> str:
    """Describe a LazyFrame in one line: even its schema may have to be computed."""
    return "LazyFrame, not collected [polars]"


# numpy -------------------------------------------------------------------------------------------


def numpy_array(value: Any, secret: Secrecy, detail: bool) -> str:
    """Describe an array by shape and type; on request with range and first values, if small."""
    numpy = sys.modules["numpy"]
    shape = numpy.ndarray.shape.__get__(value)
    dtype = numpy.ndarray.dtype.__get__(value)
    line = f"{type_name(type(value))}, shape {shape}, {one_line(str(dtype))}"
    small = type(value) is numpy.ndarray and 0 < value.size <= COUNTED_CELLS
    if not detail or not small or dtype.kind not in "biuf":
        return line
    first = ", ".join(preview(v) for v in value.flat[:10].tolist())
    more = ", …" if value.size > 10 else ""
    return f"{line}\nmin {value.min()}, max {value.max()}\nfirst values: {first}{more}"


_TABLES: list[tuple[str, str, Callable[[Any], Table | None]]] = [
    ("pandas", "DataFrame", pandas_frame),
    ("pandas", "Series", pandas_series),
    ("polars", "DataFrame", polars_frame),
    ("polars", "Series", polars_series),
]


def table_of(value: object) -> Table | None:
    """Return the value as a table; None if it is none, or guards its own data."""
    for module, name, read in _TABLES:
        cls = getattr(sys.modules.get(module), name, None)
        if cls is not None and is_a(cls, type) and is_a(value, cls):
            return read(value)
    return None


def _table(read: Callable[[Any], Table | None]) -> Describer:
    def describe_table(value: object, secret: Secrecy, detail: bool) -> str | None:
        table = read(value)
        if table is None:
            return None
        return replace(table, secret=secret).detail() if detail else table.line()

    return describe_table


_LIBRARY: list[tuple[str, str, Describer]] = [
    *((module, name, _table(read)) for module, name, read in _TABLES),
    ("pandas", "Index", pandas_index),
    ("polars", "LazyFrame", polars_lazy),
    ("numpy", "ndarray", numpy_array),
]


def library_types() -> Iterator[tuple[type, Describer]]:
    """Yield the loaded types of tables and arrays, each with its describer."""
    for module, name, describer in _LIBRARY:
        cls = getattr(sys.modules.get(module), name, None)
        if cls is not None and is_a(cls, type):
            yield cls, describer


def is_table(cls: type) -> bool:
    """Return whether the class is a table library's, or the user's subclass of one."""
    tables = [
        known for known, _ in library_types() if type_name(known) in {"DataFrame", "LazyFrame"}
    ]
    return any(base is table for base in ancestors(cls) for table in tables)
