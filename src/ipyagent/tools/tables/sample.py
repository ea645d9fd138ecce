"""A sample of a table in a file, and its description in the form that variables have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ipyagent.phrases import word_set
from ipyagent.values.describe.table import COLUMNS, Column, Table

KINDS: Mapping[str, tuple[str, str]] = {
    "csv": ("CSV file", "delimited"),
    **dict.fromkeys(("tsv", "tab"), ("TSV file", "delimited")),
    "psv": ("PSV file", "delimited"),
    "json": ("JSON file", "json"),
    **dict.fromkeys(("jsonl", "ndjson"), ("JSON Lines file", "json")),
    **dict.fromkeys(("xlsx", "xlsm", "xlsb", "xls"), ("Excel file", "sheets")),
    "ods": ("OpenDocument sheet", "sheets"),
    **dict.fromkeys(("parquet", "pq"), ("Parquet file", "columnar")),
    **dict.fromkeys(("feather", "arrow", "ipc"), ("Arrow file", "columnar")),
    "orc": ("ORC file", "columnar"),
    "dta": ("Stata file", "statistics"),
    **dict.fromkeys(("sas7bdat", "xpt"), ("SAS file", "statistics")),
    **dict.fromkeys(("sav", "zsav", "por"), ("SPSS file", "statistics")),
    **dict.fromkeys(("geojson", "gpkg"), ("geo file", "geometry")),
    **dict.fromkeys(("npy", "npz"), ("NumPy file", "arrays")),
    **dict.fromkeys(("nc", "nc4"), ("NetCDF file", "arrays")),
    **dict.fromkeys(("h5", "hdf5"), ("HDF5 file", "arrays")),
    **dict.fromkeys(("sqlite", "sqlite3", "db", "db3"), ("SQLite database", "sqlite")),
}
"""Kinds of files by the endings of their names, each with its family of formats."""
TEXTS = ("delimited", "json")
_PACKINGS = word_set("gz bz2 xz zip")


class NotTableError(Exception):
    """The file holds no table, or none that can be read here; the text says why."""


class UnreadTableError(NotTableError):
    """The file may hold a table, which no library here reads."""


def split_ending(path: str) -> tuple[str, str]:
    """Return how a file is packed, and the ending of its format; "" for none."""
    parts = path.lower().rpartition("/")[2].split(".")
    packing = parts.pop() if len(parts) > 2 and parts[-1] in _PACKINGS else ""
    ending = parts[-1] if len(parts) > 1 else ""
    kind = KINDS.get(ending)
    if kind is None or (packing and kind[1] not in TEXTS):
        return "", ""
    return packing, ending


@dataclass(frozen=True)
class SampleColumn:
    """A column: None in `values` is missing; `nulls` and `unique` are None if not counted.

    `ends` are the smallest and the largest value.
    """

    label: object
    dtype: str
    values: Sequence[object] = ()
    nulls: int | None = None
    unique: int | None = None
    ends: Sequence[object] = ()


@dataclass(frozen=True)
class Sample:
    """Rows of a table, at most COLUMNS of its columns, and what is known of the rest.

    `total` is the number of all rows, None if unknown; `sampled` of them were looked at.
    """

    kind: str
    columns: Sequence[SampleColumn]
    width: int
    total: int | None
    sampled: int
    exact: bool = True
    facts: Sequence[str] = ()
    declared: bool = False
    """True if the file itself declares the types."""
    index: Sequence[SampleColumn] = ()
    """The labels of the rows, unless they are only numbered."""
    levels: Sequence[object] = ()
    call: str = ""
    """The call that loads the file."""
    lines: Sequence[str] = ()
    """The first lines of the file as they stand, and the last one."""

    @property
    def row_count(self) -> str:
        """The number of rows in words."""
        if self.total is None:
            return "rows not counted"
        return f"{self.total:,} rows" if self.exact else f"{approximate(self.total)} rows"

    def table(self) -> Table:
        """Return it in the form of tables among the variables."""
        in_part = bool(self.sampled) and self.total != self.sampled and not self.declared
        facts = (*([f"read with: {self.call}"] if self.call else []), *self.facts)
        if in_part:
            facts = (*facts, f"types, nulls, unique: from {self.sampled:,} of these rows")
        return Table(
            self.kind,
            max((len(each.values) for each in self.columns), default=0),
            self.width,
            [_describe_column(each) for each in self.columns[:COLUMNS]],
            memory=lambda: 0,
            row_count=self.row_count,
            facts=facts,
            index=[_describe_column(each, is_index=True) for each in self.index],
            levels=self.levels,
            counted_of=f" of {self.sampled:,}" if in_part else "",
            lines=self.lines,
        )


def _describe_column(column: SampleColumn, *, is_index: bool = False) -> Column:
    nulls, unique = column.nulls, column.unique
    return Column(
        column.label,
        column.dtype,
        None if nulls is None else lambda: nulls,
        None if unique is None else lambda: unique,
        lambda rows: column.values[rows],
        ends=lambda: column.ends,
        is_text=False,
        is_index=is_index,
    )


def approximate(count: int) -> str:
    """Return a number in words with two digits: about 1.2 M, about 34,000."""
    for size, unit in ((1e9, " G"), (1e6, " M")):
        if count >= 0.995 * size:
            amount = count / size
            return f"about {amount:.1f}{unit}" if amount < 9.95 else f"about {amount:,.0f}{unit}"
    digits = len(str(count))
    return f"about {round(count, 2 - digits) if digits > 2 else count:,}"
