"""Tables as live objects: DataFrames and Series of any library, without importing one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

_TABLES = frozenset({"DataFrame", "LazyFrame", "Series", "Table"})
_LIBRARIES = frozenset({"pandas", "polars", "pyarrow", "geopandas", "modin", "cudf", "dask"})
_STYLER = "pandas.io.formats.style", "Styler"

GONE = (
    "{} of this run's tables {} gone: tables are kept as objects only while the kernel lives, and "
    "for its newest runs. What they looked like is still in the results' `displays` and `output`; "
    "for the objects run the code again."
)


def table_in(value: object) -> Any:
    """Return the table that a value is, or that it styles; None for anything else."""
    kinds = [(each.__module__, each.__name__) for each in type(value).__mro__]
    if any(name in _TABLES and home.partition(".")[0] in _LIBRARIES for home, name in kinds):
        return value
    return getattr(value, "data", None) if _STYLER in kinds else None


def distinct(tables: Iterable[object]) -> tuple[Any, ...]:
    """Return the tables in order, each object once."""
    return tuple({id(each): each for each in tables}.values())
