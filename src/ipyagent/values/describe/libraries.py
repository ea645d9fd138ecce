"""Descriptions of pandas and polars tables and numpy arrays; values only on request.

The libraries are used if the user has imported them, and never imported from here. A line for the
digest reads no cell, so its cost does not depend on the number of rows.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from ipyagent.redaction import Secrecy
from ipyagent.values.describe.python_values import Describer, Description, preview
from ipyagent.values.describe.safe_inspect import (
    is_a,
    module_name,
    one_line,
    overrides,
    own_attributes,
    type_name,
)
from ipyagent.values.describe.table import (
    COLUMNS,
    COUNTED_CELLS,
    HEAD,
    QUICK_ROWS,
    Column,
    Table,
    label_text,
)

_OWN = ("_mgr", "_df", "_s", "__getattribute__", "__class__")
"""The names that a subclass would have to define to run its own code while its data is read."""


# pandas ------------------------------------------------------------------------------------------


def pandas_frame(value: object) -> Table | None:
    """Return a DataFrame as a table, or None if its class guards its own data."""
    frame = to_base(value, sys.modules["pandas"].DataFrame)
    if frame is None:
        return None
    rows, width = frame.shape
    return Table(
        "DataFrame",
        rows,
        width,
        _pandas_columns(frame, _pandas_labels(frame)),
        lambda: _measure_pandas(frame),
        _name_projection(frame),
        index=_pandas_index(frame.index),
        levels=list(frame.columns.names),
    )


def _name_projection(frame: Any) -> str:
    """Return the projection of a column of geometry, from the dictionaries of its array."""
    for array in getattr(getattr(frame, "_mgr", None), "arrays", None) or ():
        text = own_attributes(own_attributes(array).get("_crs")).get("srs")
        if type(text) is str:
            return f" [geometry in {one_line(text)}]"
    return ""


def _pandas_index(index: Any) -> list[Column]:
    """Return the levels of an index; none if it only numbers the rows."""
    pandas = sys.modules["pandas"]
    names = list(index.names)
    is_range = type(index) is pandas.RangeIndex
    if names == [None] and is_range and (index.start, index.step) == (0, 1):
        return []
    is_multiple = is_a(index, pandas.MultiIndex)
    storages = [level.dtype for level in index.levels] if is_multiple else [index.dtype]
    return [
        _index_level(index, number, name, _Storage(dtype))
        for number, (name, dtype) in enumerate(zip(names, storages, strict=True))
    ]


def _index_level(index: Any, number: int, name: object, storage: _Storage) -> Column:
    def read(rows: slice) -> Sequence[object]:
        return index[rows].get_level_values(number).tolist() if storage.known else []

    return Column(name, storage.name, None, None, read, is_text=False, is_index=True)


def _pandas_columns(frame: Any, labels: list[object]) -> list[Column]:
    dtypes = list(frame.dtypes.array[:COLUMNS])
    # Most columns share a few types, and spelling one takes longer than all else in a line.
    storages = {id(each): each for each in dtypes}
    kinds = {key: _Storage(dtype) for key, dtype in storages.items()}
    reader = _FrameReader(frame, len(dtypes), all(kind.known for kind in kinds.values()))
    pairs = zip(labels, dtypes, strict=True)
    return [reader.column(i, label, kinds[id(dtype)]) for i, (label, dtype) in enumerate(pairs)]


class _Storage:
    """The kind of storage that columns of one type share."""

    def __init__(self, dtype: object) -> None:
        self.known = _is_library_storage(dtype)
        text = str(dtype) if self.known else ""
        self.hashable = self.known and text != "object"
        self.name = one_line(text) if self.known else type_name(type(dtype))
        self.is_numeric = self.known and getattr(dtype, "kind", "O") in "iufbmM"


class _FrameReader:
    """Reads the first columns of a frame: each is taken out of it once.

    If not `all_known`, one of them has a storage whose code must not run.
    """

    def __init__(self, frame: Any, width: int, all_known: bool) -> None:
        self._frame, self._width, self._all_known = frame, width, all_known
        self._rows = frame.shape[0]

    def column(self, i: int, label: object, storage: _Storage) -> Column:
        """Return a column; of one whose storage is unknown, no more than label and type."""
        if not storage.known:
            return Column(label, storage.name, None, None, lambda rows: [], is_text=False)
        is_quick = storage.is_numeric or self._rows <= QUICK_ROWS
        return Column(
            label,
            storage.name,
            (lambda: self._rows - int(self._at(i).count())) if is_quick else None,
            (lambda: int(self._at(i).nunique())) if storage.hashable else None,
            lambda rows: self._at(i).iloc[rows].tolist(),
            ends=lambda: _pandas_ends(self._at(i)),
            is_text=False,
        )

    def _at(self, i: int) -> Any:
        return self._series[i] if self._all_known else self._frame.iloc[:, i]

    @cached_property
    def _part(self) -> Any:
        return self._frame.iloc[:, : self._width]  # a slice is a view, a list of positions a copy

    @cached_property
    def _series(self) -> list[Any]:
        return [series for _, series in self._part.items()]


def _pandas_ends(series: Any) -> Sequence[object]:
    """Return the smallest and the largest value of numbers and times."""
    if series.dtype.kind not in "iufmM" or not series.notna().any():
        return ()
    return [series.min(), series.max()]


def _pandas_labels(frame: Any) -> list[object]:
    return frame.columns[:COLUMNS].tolist()  # type: ignore[no-any-return]


def _measure_pandas(frame: Any) -> int:
    """Return what `memory_usage` adds up column by column, from the arrays that hold them."""
    arrays = getattr(getattr(frame, "_mgr", None), "arrays", None)
    if arrays is None:  # it is no public name
        return int(frame.memory_usage().sum())
    return int(frame.index.memory_usage() + sum(array.nbytes for array in arrays))


def _is_library_storage(dtype: object) -> bool:
    """Return whether a column's storage is a library's own: reading others runs their code."""
    return module_name(type(dtype)).partition(".")[0] in {"numpy", "pandas"}


def to_base(value: Any, cls: Any) -> Any:
    """Return the same data as the library's own class: no copy, no methods of a subclass.

    Return None if the subclass guards its data.
    """
    if type(value) is cls:
        return value
    if overrides(type(value), cls, _OWN):
        return None
    if hasattr(cls, "_from_pydf"):  # of polars
        return cls._from_pydf(value._df)
    if hasattr(cls, "_from_pyseries"):
        return cls._from_pyseries(value._s)
    return cls(value, copy=False)


def pandas_series(value: object) -> Table | None:
    """Return a Series as a table of one column, or None if its class guards its own data."""
    series = to_base(value, sys.modules["pandas"].Series)
    if series is None:
        return None
    columns = _pandas_columns(series.to_frame(), [series.name])
    return Table(
        "Series",
        series.shape[0],
        1,
        columns,
        lambda: int(series.memory_usage()),
        index=_pandas_index(series.index),
    )


def _describe_index(value: Any, secret: Secrecy, detail: bool) -> Description | None:
    """Describe an Index in one line."""
    if module_name(type(value)).partition(".")[0] != "pandas":
        return None
    first = [preview(v, secret=secret, limit=30) for v in value[:HEAD].tolist()]
    more = ", …" if value.shape[0] > HEAD else ""
    names = "" if set(value.names) == {None} else f" {', '.join(map(label_text, value.names))}"
    entries = f", {value.shape[0]:,} entries ({value.dtype}): [{', '.join(first)}{more}]"
    return Description(type_name(type(value)), rest=names + entries)


# polars ------------------------------------------------------------------------------------------


def polars_frame(value: Any) -> Table | None:
    """Return a polars DataFrame as a table, or None if its class guards its own data."""
    frame = to_base(value, sys.modules["polars"].DataFrame)
    if frame is None:
        return None
    # Its whole schema would name the type of each of thousands of columns.
    first = frame[:, :COLUMNS].get_columns()
    columns = [_polars_column(series, series.dtype) for series in first]
    size = frame.estimated_size
    return Table("DataFrame", frame.height, frame.width, columns, size, " [polars]")


def polars_series(value: Any) -> Table | None:
    """Return a polars Series as a table of one column, or None if its class guards its data."""
    series = to_base(value, sys.modules["polars"].Series)
    if series is None:
        return None
    column = _polars_column(series, series.dtype)
    return Table("Series", series.len(), 1, [column], series.estimated_size, " [polars]")


def _polars_column(series: Any, dtype: Any) -> Column:
    has_ends = dtype.is_numeric() or dtype.is_temporal()

    def count_different() -> int:
        # A query would start threads, which do not survive a rehearsal's fork.
        return len({math.nan if each != each else each for each in series.to_list()})

    return Column(
        series.name,
        one_line(str(dtype)),
        series.null_count,
        None if dtype.is_nested() or dtype.is_object() else count_different,
        lambda rows: series[rows].to_list(),
        ends=lambda: [series.min(), series.max()] if has_ends and series.count() else (),
    )


# numpy -------------------------------------------------------------------------------------------


def _describe_array(value: Any, secret: Secrecy, detail: bool) -> Description:
    """Describe an array by shape and type; on request with range and first values, if small."""
    numpy = sys.modules["numpy"]
    shape = numpy.ndarray.shape.__get__(value)
    dtype = numpy.ndarray.dtype.__get__(value)
    kind, dtype_text = f"{type_name(type(value))}, shape {shape}", f", {one_line(str(dtype))}"
    small = type(value) is numpy.ndarray and 0 < value.size <= COUNTED_CELLS
    if not detail or not small or dtype.kind not in "biuf":
        return Description(kind, rest=dtype_text)
    first = ", ".join(preview(v) for v in value.flat[:10].tolist())
    more = ", …" if value.size > 10 else ""
    ends = f"\nmin {value.min()}, max {value.max()}\nfirst values: {first}{more}"
    return Description(kind, rest=dtype_text + ends)


_TABLES: list[tuple[str, str, Callable[[object], Table | None]]] = [
    ("pandas", "DataFrame", pandas_frame),
    ("pandas", "Series", pandas_series),
    ("polars", "DataFrame", polars_frame),
    ("polars", "Series", polars_series),
]


def table_reader(value: object) -> Callable[[object], Table | None] | None:
    """Return what reads objects of the value's class as tables, if they are tables."""
    for module, name, read in _TABLES:
        cls = getattr(sys.modules.get(module), name, None)
        if cls is not None and is_a(cls, type) and is_a(value, cls):
            return read
    return None


def table_of(value: object) -> Table | None:
    """Return the value as a table; None if it is none, or guards its own data."""
    read = table_reader(value)
    return read(value) if read else None


def column_labels(value: object) -> Sequence[object]:
    """Return the labels of the columns that `table_of` reads, without a look at their types."""
    module = sys.modules.get("pandas")
    if module is not None and type(value) is module.DataFrame:
        return _pandas_labels(value)
    table = table_of(value)
    return [column.label for column in table.columns] if table else ()


def _describe_table(value: object, secret: Secrecy, detail: bool) -> Description | None:
    table = table_of(value)
    if table is None or not detail:
        return table.summarize() if table else None
    return Description(replace(table, secret=secret).detail())


DESCRIBERS: tuple[tuple[str, str, Describer], ...] = (
    *((module, name, _describe_table) for module, name, _ in _TABLES),
    ("pandas", "Index", _describe_index),
    ("numpy", "ndarray", _describe_array),
)
"""Types of tables and arrays, by module and name."""
