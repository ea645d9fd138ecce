"""Grids of text cells, as in CSV files and sheets: titles, header, and the types of columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from ipyagent.kernel.describe.table import COLUMNS
from ipyagent.plaintext import excerpt
from ipyagent.tools.tables.cells import infer_type, is_missing, is_value, is_year
from ipyagent.tools.tables.sample import SampleColumn

Row = Sequence[str]

_TITLES = 20
"""Rows above a header that are looked at."""
_LOOKED_AT = 200
"""Rows by which the width of a grid is judged."""


@dataclass(frozen=True)
class Grid:
    """A grid without its titles: names of columns, the rows below, and remarks.

    `top` is the number of rows above the data.
    """

    names: Sequence[str]
    rows: Sequence[Row]
    width: int
    top: int
    facts: tuple[str, ...]

    def columns(self, decimal: str = ".") -> list[SampleColumn]:
        """Return the first columns with their types."""
        return [
            _describe_column(name, [row[n] if n < len(row) else "" for row in self.rows], decimal)
            for n, name in enumerate(islice(self.names, COLUMNS))
        ]


def _describe_column(name: str, cells: Sequence[str], decimal: str) -> SampleColumn:
    found = infer_type(cells, name, decimal)
    present = {cell for cell in cells if not is_missing(cell)}
    values = [None if is_missing(cell) else cell for cell in cells[:COLUMNS]]
    return SampleColumn(name, found.dtype, values, found.nulls, len(present))


def common_width(rows: Sequence[Row]) -> int:
    """Return the most common number of cells; the larger of two."""
    widths = Counter(len(row) for row in rows[:_LOOKED_AT] if row)
    return max(widths, key=lambda width: (widths[width], width), default=0)


def arrange(rows: Sequence[Row]) -> Grid:
    """Find titles, header and columns in the rows of a file."""
    width = common_width(rows)
    top = _find_top(rows, width)
    titles = [row for row in rows[:top] if any(cell.strip() for cell in row)]
    facts = _describe_titles(titles, top)
    body = rows[top:]
    if not body:
        return Grid((), (), 0, top, facts)
    header, data = body[0], body[1:]
    if not _is_header(header, data):
        names = [str(n) for n in range(width)]
        facts = (*facts, "no header: the columns are numbered here")
        data, start = body, top
    else:
        names, notes = _name_columns(header, width)
        facts, start = (*facts, *notes), top + 1
    data = [row for row in data if row]
    odd = sum(len(row) != width for row in data)
    if odd:
        facts = (*facts, f"{odd:,} of these rows have more or fewer cells than the others")
    return Grid(names, data, max(width, len(names)), start, facts)


def _find_top(rows: Sequence[Row], width: int) -> int:
    """Return the number of rows above the header: titles are narrower than the table."""
    if width < 2:
        return next((n for n, row in enumerate(rows) if any(map(str.strip, row))), 0)
    needed = min(width - 1, max(2, width // 2))  # an index has no name, other columns have one
    top = next(
        (
            n
            for n, row in enumerate(rows[: _TITLES + 1])
            if len(row) >= width and sum(bool(cell.strip()) for cell in row) >= needed
        ),
        0,
    )
    # R writes no name for its row names.
    if top == 1 and len(rows[0]) == width - 1 > 1 and any(map(is_value, rows[1])):
        return 0
    return top


def _describe_titles(titles: Sequence[Row], top: int) -> tuple[str, ...]:
    if not top:
        return ()
    text = " ".join(cell for row in titles for cell in row if cell.strip())
    rows = "1 row" if top == 1 else f"{top} rows"
    return (f"{rows} above the header: {excerpt(text, 80)}" if text else f"{rows} empty on top",)


def _is_header(header: Row, data: Sequence[Row]) -> bool:
    """Return whether a row names the columns rather than being the first of the data."""
    filled = [cell for cell in header if cell.strip()]
    values = [cell for cell in filled if is_value(cell)]
    if not values:
        # Cells that repeat below, in a grid of text only, are data rather than names.
        below = {tuple(row) for row in data}
        return bool(filled) and tuple(header) not in below
    years = [cell for cell in values if is_year(cell)]
    return len(years) == len(values) > 1 and len(set(years)) == len(years) < len(filled)


def _name_columns(header: Row, width: int) -> tuple[list[str], list[str]]:
    """Return distinct names of columns as table libraries make them, and remarks."""
    notes: list[str] = []
    cells = list(header)
    if len(cells) == width - 1:
        cells.insert(0, "")
        notes.append("the header has one cell less than the rows: the first column is an index")
    elif cells and not cells[0].strip():
        notes.append("the first column has no name (an index?)")
    used: Counter[str] = Counter()
    names = []
    for n, cell in enumerate(cells):
        name = cell.strip() or f"Unnamed: {n}"
        names.append(f"{name}.{used[name]}" if used[name] else name)
        used[name] += 1
    repeated = [excerpt(name, 30) for name, count in used.items() if count > 1]
    if repeated:
        notes.append(f"names used twice: {', '.join(repeated[:5])}")
    return names, notes
