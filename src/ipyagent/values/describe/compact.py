"""The last value of code as a model reads it: tables as CSV, containers and arrays in brief.

The user sees what Jupyter draws. A table's text is wrapped, repeats its index, and tells neither
types nor missing values.
"""

from __future__ import annotations

import csv
import io
import re
import sys
from collections.abc import Iterable, Sequence

from ipyagent.redaction import HIDDEN
from ipyagent.values.describe import describe
from ipyagent.values.describe.libraries import table_of
from ipyagent.values.describe.preview import key_secrecy
from ipyagent.values.describe.table import NAMED, Column, Table, write_cell

ROWS = 60
"""Rows of a table that are given in full; of a longer one the first and last ones are."""
LONG = 4_000
"""Characters of a container's or an array's text above which it is summarised."""

_ENDS = 5
_CELL = 200  # characters
_COUNTED = 1_000_000  # cells up to which missing values are counted
_SCALAR = re.compile(
    r"(?<!['\"])\bnp\.(?:u?int|float|bool|str|bytes)_?\d*\(((?:[^()'\"]|'[^']*')*)\)"
)


def compact_value(value: object, plain: str) -> str | None:
    """Return a value in a form for the model; None if its plain text is right as it is."""
    table = table_of(value)
    if table is not None:
        return _format_table(table)
    if len(plain) > LONG and _is_container(value):
        _, _, description = describe("value", value, detail=True).partition(": ")
        return f"{description}\n[too long to print ({len(plain):,} characters): print a part]"
    short = _SCALAR.sub(r"\1", plain) if "np." in plain else plain
    return short if short != plain else None


def _is_container(value: object) -> bool:
    numpy = sys.modules.get("numpy")
    return type(value) in (dict, list, tuple, set, frozenset) or (
        numpy is not None and type(value) is getattr(numpy, "ndarray", None)
    )


def _format_table(table: Table) -> str | None:
    """Return the table as CSV below its facts; None if it holds objects of unknown classes."""
    columns = [*table.index, *table.columns[:NAMED]]
    whole = table.rows <= ROWS
    parts = [slice(None)] if whole else [slice(_ENDS), slice(table.rows - _ENDS, table.rows)]
    blocks = [
        [[_cell(v, column) for v in column.values(part)] for column in columns] for part in parts
    ]
    if any(cell is None for block in blocks for cells in block for cell in cells):
        return None
    rows = [_write(zip(*block, strict=True)) for block in blocks]
    header = _write([[_header(column) for column in columns]])
    return "\n".join([_facts(table), header, "\n…\n".join(rows)]).rstrip("\n")


def _facts(table: Table) -> str:
    kinds = {column.dtype for column in table.columns}
    same = len(kinds) == 1 < table.width
    facts = [f"{table.size}, all {kinds.pop()}{table.suffix}" if same else table.line()]
    if table.index:
        named = (_header(column) or "no name" for column in table.index)
        facts.append(f"index: {', '.join(named)}")
    facts += table.name_levels()
    if table.rows > ROWS:
        facts.append(f"first and last {_ENDS} rows")
    if table.width > NAMED:
        facts.append(f"first {NAMED} columns")
    return "; ".join([*facts, *_nulls(table)])


def _header(column: Column) -> str:
    return "" if column.label is None else column.name


def _nulls(table: Table) -> list[str]:
    """Return the columns with missing values, unless there are too many cells to count."""
    if table.rows * table.width > _COUNTED:
        return []
    counts = ((column.name, column.nulls()) for column in table.columns[:NAMED] if column.nulls)
    some = ", ".join(f"{name} {count:,}" for name, count in counts if count)
    return [f"nulls: {some}"] if some else []


def _cell(value: object, column: Column) -> str | None:
    """Return a cell's text; None for an object whose text only its own code could tell."""
    secret = key_secrecy(column.label)
    brief = write_cell(column, value, secret, _CELL)
    is_unknown = type(value) is not str and brief.startswith("<") and brief not in ("<NA>", HIDDEN)
    return None if is_unknown else brief


def _write(rows: Iterable[Sequence[str | None]]) -> str:
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerows(rows)
    return buffer.getvalue().rstrip("\n")
