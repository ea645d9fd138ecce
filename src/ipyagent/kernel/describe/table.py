"""A table in a line, or in a page: whichever library it is from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ipyagent.kernel.describe.inert import one_line
from ipyagent.kernel.describe.preview import key_is_secret, preview, text
from ipyagent.kernel.describe.secrets import HIDDEN

COLUMNS = 30
"""How many columns are named."""
HEAD = 5
COUNTED_CELLS = 5_000_000
"""Missing values are counted up to this size; above it, looking takes too long to be unasked."""
_TIMES = "\N{MULTIPLICATION SIGN}"
_UNIQUE_ROWS = 100_000
_NULLS = {"nan", "NaN", "NaT", "None", "<NA>"}


@dataclass(frozen=True)
class Column:
    """A column: its label, its type's name, and how to look at it when that is wanted."""

    label: Any
    dtype: str
    nulls: Callable[[], int] | None
    unique: Callable[[], int] | None
    head: Callable[[], Sequence[Any]]

    @property
    def name(self) -> str:
        """The label as text; quoted where it could be misread."""
        label = self.label
        if type(label) is not str:
            return preview(label, limit=60)
        plain = one_line(label, 60)
        misread = not plain or plain != plain.strip() or any(c in plain for c in "\"',:()")
        return repr(plain) if misread else plain


@dataclass(frozen=True)
class Table:
    """A table of either library."""

    kind: str
    rows: int
    width: int
    columns: Sequence[Column]
    memory: Callable[[], int]
    suffix: str = ""
    secret: bool = False

    @property
    def size(self) -> str:
        """Type and shape."""
        size = f"{self.kind}, {self.rows:,} rows"
        return size if self.kind == "Series" else f"{size} {_TIMES} {self.width:,} columns"

    def line(self) -> str:
        """Size, columns and their types, in one line."""
        if self.kind == "Series":
            return f"{self.size} ({self.columns[0].dtype}){self.suffix}"
        named = [f"{column.name}: {column.dtype}" for column in self.columns]
        if self.width > len(named):
            named.append(f"… {self.width - len(named):,} more")
        return f"{self.size} ({', '.join(named)}){self.suffix}"

    def detail(self) -> str:
        """Size, memory, what is in each column, and the first rows."""
        blocks = [f"{self.size}{self.suffix}", f"memory: {_bytes(self.memory())}"]
        if self.rows * self.width > COUNTED_CELLS:
            blocks.append("nulls: not counted (large)")
        return "\n".join(blocks) + f"\n\n{self._profile()}\n\n{self._first_rows()}"

    def _profile(self) -> str:
        counted = self.rows * self.width <= COUNTED_CELLS
        header = ["column", "dtype", *(["nulls", "unique"] if counted else []), "example"]
        rows = []
        for column in self.columns:
            counts = self._counts(column) if counted else []
            example = next((v for v in self._cells(column) if v not in _NULLS), "")
            rows.append([column.name, column.dtype, *counts, example])
        more = [[f"… {self.width - len(rows):,} more"]] if self.width > len(rows) else []
        return aligned([header, *rows, *more])

    def _counts(self, column: Column) -> list[str]:
        unique = column.unique if self.rows <= _UNIQUE_ROWS else None
        return [f"{count():,}" if count else "-" for count in (column.nulls, unique)]

    def _cells(self, column: Column) -> list[str]:
        values = column.head()
        if self.secret or key_is_secret(column.label):
            return [HIDDEN] * len(values)
        return [text(v, limit=40) if type(v) is str else preview(v, limit=40) for v in values]

    def _first_rows(self) -> str:
        shown = self.columns[:12]
        cells = [self._cells(column) for column in shown]
        rows = [list(row) for row in zip(*cells, strict=False)]
        title = f"first {min(HEAD, self.rows)} rows" + (
            f", first {len(shown)} columns" if self.width > len(shown) else ""
        )
        return f"{title}:\n" + aligned([[column.name for column in shown], *rows])


def _bytes(count: float) -> str:
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Rows of cells as columns of text."""
    width = max(len(row) for row in rows)
    widths = [max(len(row[i]) for row in rows if i < len(row)) for i in range(width)]
    return "\n".join(
        "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=False)).rstrip()
        for row in rows
    )
