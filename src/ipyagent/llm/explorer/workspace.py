"""What is known of the workspace: its tables, its other variables, its files."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Literal

Library = Literal["pandas", "polars"]

TABLE_ENDINGS = ("csv", "tsv", "parquet", "xlsx", "json", "jsonl")

_NUMBER = re.compile(r"u?int\d*|float\d*|decimal", re.IGNORECASE)
_DATE = re.compile(r"datetime|date\b", re.IGNORECASE)
_POLARS = re.compile(r"String|Utf8|Boolean|Date|Categorical|Enum|List|Struct|Null|Decimal")
_VARIABLE = re.compile(r"(?:- )?(?P<name>[^\W\d]\w*): (?P<rest>\S.*)")
_FRAME = re.compile(
    r"(?P<kind>[\w.]*)DataFrame, (?P<rows>[\d,]+) rows? [×x] (?P<width>[\d,]+) columns?"
    r"(?: \((?P<columns>.*)\))?"
)
_SIZE = re.compile(r"(?: \([^()]*\)|\s{2,}.*|\t.*)$")


@dataclass(frozen=True)
class Table:
    """A table in a variable. `columns` (name to dtype) is None until all of them are known.

    `values` are the (column, value) pairs of its text columns, None until they were looked up.
    """

    name: str
    library: Library = "pandas"
    columns: dict[str, str] | None = None
    values: tuple[tuple[str, str], ...] | None = None
    opaque: bool = False  # inspecting it did not tell its columns

    def kind(self, column: str) -> Literal["number", "date", "text", "bool", "other"]:
        """What a column holds, judged by its dtype."""
        dtype = (self.columns or {}).get(column, "")
        if dtype.lower().startswith("bool"):
            return "bool"
        if _DATE.match(dtype):
            return "date"
        if _NUMBER.match(dtype):
            return "number"
        text = r"str|string|object|category|utf8|categorical|enum"
        return "text" if re.match(text, dtype, re.IGNORECASE) else "other"

    def of_kind(self, kind: str) -> list[str]:
        """The columns of one kind, in order."""
        return [column for column in self.columns or {} if self.kind(column) == kind]


@dataclass(frozen=True)
class Workspace:
    """Tables and other variables by name, files by path, as far as they are known."""

    tables: dict[str, Table] = field(default_factory=dict)
    variables: frozenset[str] = frozenset()
    files: tuple[str, ...] = ()
    loaded: dict[str, str] = field(default_factory=dict)  # path to variable, in this very run

    def with_table(self, table: Table) -> Workspace:
        """The same workspace, knowing this table."""
        tables = {**self.tables, table.name: table}
        return replace(self, tables=tables, variables=self.variables | {table.name})

    @property
    def table_files(self) -> list[str]:
        """The files that can be loaded as tables."""
        return [path for path in self.files if is_table_file(path)]


def is_table_file(path: str) -> bool:
    """Whether a file of this name can be loaded as a table."""
    return path.lower().rsplit(".", 1)[-1] in TABLE_ENDINGS


def of_context(context: str) -> Workspace:
    """The workspace that a context block describes."""
    parts = re.split(r"^(Variables|Files|Mentioned with @):\n", context, flags=re.MULTILINE)
    sections = dict(zip(parts[1::2], parts[2::2], strict=True))
    workspace = with_variables(Workspace(), sections.get("Variables", ""))
    return with_files(workspace, sections.get("Files", ""))


def with_variables(workspace: Workspace, listing: str) -> Workspace:
    """The workspace with what a listing of variables tells."""
    for line in listing.splitlines():
        if not (found := _VARIABLE.fullmatch(line.strip())):
            continue
        if frame := _FRAME.match(found["rest"]):
            columns = _named_in_line(frame["columns"] or "", int(frame["width"].replace(",", "")))
            library = _library(frame["kind"], columns)
            workspace = workspace.with_table(Table(found["name"], library, columns))
        workspace = replace(workspace, variables=workspace.variables | {found["name"]})
    return workspace


def with_files(workspace: Workspace, listing: str) -> Workspace:
    """The workspace with what a listing of files tells."""
    lines = (_SIZE.sub("", line.strip().removeprefix("- ")) for line in listing.splitlines())
    files = tuple(line for line in lines if line and not line.startswith(("(", "…")))
    return replace(workspace, files=files)


def inspected(table: Table, output: str) -> Table | None:
    """The table with the columns that `inspect_variable` listed; None if that is unreadable."""
    first, *lines = output.strip().splitlines() or [""]
    found = _VARIABLE.fullmatch(first.strip())
    frame = _FRAME.match(found["rest"]) if found else None
    if frame is None:
        return None
    columns = _named_in_rows(lines, int(frame["width"].replace(",", "")))
    return columns and replace(table, columns=columns, library=_library(frame["kind"], columns))


def _named_in_line(text: str, width: int) -> dict[str, str] | None:
    """Columns of `name: dtype, name: dtype`; None unless all of them can be told apart."""
    parts = [part.rpartition(": ") for part in re.split(r", (?=[^,]+: )", text)]
    columns = {name: dtype for name, colon, dtype in parts if colon}
    return columns if len(columns) == width == len(parts) else None


def _named_in_rows(lines: list[str], width: int) -> dict[str, str] | None:
    columns: dict[str, str] = {}
    for line in lines:
        cells = [c.strip() for c in re.split(r"\s*\|\s*|\s{2,}|\t", line.strip().strip("|"))]
        if len(cells) >= 2 and re.match(r"[A-Za-z][\w\[\], ():='/]*$", cells[1]):
            columns[cells[0]] = cells[1]
    if len(columns) == width + 1:  # the heading looked like a column
        columns.pop(next(iter(columns)))
    return columns if len(columns) == width else None


def _library(kind: str, columns: dict[str, str] | None) -> Library:
    if "polars" in kind or kind == "pl.":
        return "polars"
    if "pandas" in kind or kind == "pd.":
        return "pandas"
    dtypes = list((columns or {}).values())
    plain = all(re.match(r"U?Int|Float", dtype) for dtype in dtypes)
    return "polars" if dtypes and (plain or any(map(_POLARS.match, dtypes))) else "pandas"
