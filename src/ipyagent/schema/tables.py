"""Tables among results, and what is known of the tables in a workspace."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Literal

_TABLES = frozenset({"DataFrame", "LazyFrame", "Series", "Table"})
_LIBRARIES = frozenset({"pandas", "polars", "pyarrow", "geopandas", "modin", "cudf", "dask"})
_STYLER = "pandas.io.formats.style", "Styler"


def table_in(value: object) -> object:
    """Return the table that a value is, or that it styles; None for anything else."""
    kinds = [(getattr(each, "__module__", ""), each.__name__) for each in type(value).__mro__]
    if any(name in _TABLES and home.partition(".")[0] in _LIBRARIES for home, name in kinds):
        return value
    return getattr(value, "data", None) if _STYLER in kinds else None


def distinct(tables: Iterable[object]) -> tuple[object, ...]:
    """Return the tables in order, each object once."""
    return tuple({id(each): each for each in tables}.values())


Kind = Literal["number", "date", "text", "bool", "other"]


@dataclass(frozen=True)
class ColumnFacts:
    """A column: `choices` are values of text, as far as known; a key differs in each row.

    The kind is what it holds: a column of text may be of the kind "date".
    """

    name: str
    dtype: str
    kind: Kind = "other"
    choices: tuple[str, ...] = ()
    is_key: bool = False


@dataclass(frozen=True)
class TableFacts:
    """A table in a variable, or in the file at `path`, which `call` loads.

    `columns` is None if nobody has looked at them, `call` is "" then. `changed` is when the file
    was changed last, in seconds since 1970, if it is known.
    """

    variable: str = ""
    path: str = ""
    call: str = ""
    library: Literal["pandas", "polars"] = "pandas"
    columns: tuple[ColumnFacts, ...] | None = None
    changed: float = inf


@dataclass(frozen=True)
class WorkspaceFacts:
    """The tables; all variables with the names of their types, or of the modules that they are."""

    tables: tuple[TableFacts, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    files: tuple[str, ...] = ()
