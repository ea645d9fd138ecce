"""Grids of text cells, as in CSV files and sheets: titles, header, and the types of columns."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, islice, zip_longest

from ipyagent.kernel.describe.table import CHOICES, COLUMNS
from ipyagent.phrases import plural
from ipyagent.plaintext import excerpt
from ipyagent.tools.tables.cells import (
    MISSING,
    CellType,
    Reading,
    Signs,
    find_signs,
    infer_type,
    is_date,
    is_missing,
    is_value,
    is_year,
    sign_options,
)
from ipyagent.tools.tables.sample import SampleColumn

Row = Sequence[str]

_UNIT = 12
"""Letters of a unit, at most."""
_TITLES = 20
"""Rows above a header that are looked at."""
_LOOKED_AT = 200
"""Rows by which the width of a grid is judged."""
_HASH_NAME = re.compile(r"#(?:\w+[!?]?|N/A|DIV/0!)?")
_TOTAL = re.compile(
    r"\W*(?:(?:grand |sub)?totals?|sum|summe|gesamt|insgesamt|totale?|somme)\W*"
    r"|\W*(?:grand |sub-?)total\b.*",
    re.I,
)
_TOTALS = 20
"""Rows of totals between others that are named."""
_MADE_NAME = re.compile(r"^Unnamed: \d+$|\.\d+$")
_SIGNED = ("float", "int (")


@dataclass(frozen=True)
class Grid:
    """A grid without its titles: names of columns, the rows below, and remarks.

    `top` is the number of rows above the data; `options` make a library find the same columns. If
    `doubt` says that other columns may be meant, `others` are the options for those.
    """

    names: Sequence[object]
    rows: Sequence[Row]
    top: int
    facts: tuple[str, ...]
    options: Mapping[str, object] = field(default_factory=dict)
    doubt: str = ""
    others: Mapping[str, object] = field(default_factory=dict)
    has_index: bool = False
    """True if the first cell of each row is its label."""

    @property
    def width(self) -> int:
        """The number of columns."""
        return len(self.names)

    def describe(self, *, commas: bool) -> tuple[list[SampleColumn], Reading]:
        """Return the first columns with their types, and the reading that loads them as such.

        The labels of the rows come first, if they have some. With `commas`, commas separate cells,
        or numbers need no signs.
        """
        labels = [None, *self.names] if self.has_index else self.names
        columns = [
            _Cells(name, [row[n] if n < len(row) else "" for row in self.rows])
            for n, name in enumerate(islice(labels, COLUMNS))
        ]
        signs, *doubtful = find_signs((each.present for each in columns), commas=commas)
        types = [infer_type(each.cells, str(each.name), signs) for each in columns]
        pairs = list(zip(columns, types, strict=True))
        described = [each.describe(signs, found) for each, found in pairs]
        by_column = _cell_options(pairs[self.has_index :], signs)
        usual = {**sign_options(signs), **self.options, **by_column}
        if not doubtful:
            others = {**sign_options(signs), **self.others, **by_column}
            return described, Reading(usual, doubt=self.doubt, others=others)
        described = [
            replace(each, dtype="number, in doubt", ends=())
            if each.dtype.startswith(_SIGNED)
            else each
            for each in described
        ]
        doubt = f"the decimal sign may be {signs.decimal!r} or {doubtful[0].decimal!r}"
        others = {**sign_options(doubtful[0]), **self.options, **by_column}
        return described, Reading(usual, doubt=doubt, others=others)


@dataclass(frozen=True)
class _Cells:
    """The cells of a column, and its name."""

    name: object
    cells: Sequence[str]

    @cached_property
    def present(self) -> list[str]:
        """The different values."""
        return [cell for cell in dict.fromkeys(self.cells) if not is_missing(cell)]

    def describe(self, signs: Signs, found: CellType) -> SampleColumn:
        """Return the description of a column of this type."""
        present = self.present
        if found.dtype.startswith("text"):
            present = [cell for cell in dict.fromkeys(self.cells) if cell not in MISSING]
        given = set(present)
        values = [cell if cell in given else None for cell in self.cells[:COLUMNS]]
        column = SampleColumn(self.name, found.dtype, values, found.nulls, len(present))
        if found.is_number:
            numbers = sorted(map(signs.normalize, self.present), key=float)
            return replace(column, ends=(numbers[0], numbers[-1]))
        if found.dtype in ("date", "datetime"):
            return replace(column, ends=(min(self.present), max(self.present)))
        few = len(present) <= CHOICES and len(present) < len(self.cells) - found.nulls
        return replace(column, choices=present) if few else column


def _cell_options(columns: Iterable[tuple[_Cells, CellType]], signs: Signs) -> dict[str, object]:
    """Return the options by which cells are missing, or stay text, as they are described."""
    missing: dict[object, object] = {}
    texts: dict[object, object] = {}
    for column, found in columns:
        if found.odd:
            missing[column.name] = list(found.odd)
        converts = map(signs.would_convert, column.present)
        if column.present and not found.is_number and all(converts):
            texts[column.name] = str
    options: dict[str, object] = {"na_values": missing, "dtype": texts}
    return {name: value for name, value in options.items() if value}


def count_repeated(grid: Grid, *, whole: bool) -> str:
    """Return how many rows are there already, in words; "" if none is."""
    repeated = len(grid.rows) - len(set(map(tuple, grid.rows)))
    part = "" if whole else f" among the first {len(grid.rows):,}"
    return f"{repeated:,} repeated rows{part}" if repeated else ""


def common_width(rows: Sequence[Row]) -> int:
    """Return the most common number of cells; the larger of two."""
    widths = Counter(len(row) for row in rows[:_LOOKED_AT] if row)
    return max(widths, key=lambda width: (widths[width], width), default=0)


def width_and_share(rows: Sequence[Row]) -> tuple[int, float]:
    """Return the common number of cells, and the share of rows that fill no more and have them."""
    rows = [row for row in rows if row and not _is_comment(row)]
    filled = [_filled_width(row) for row in rows]
    width = min(common_width(rows), max(filled, default=0))
    fitting = sum(len(row) >= width >= each for row, each in zip(rows, filled, strict=True))
    return width, fitting / max(len(rows), 1)


def arrange(rows: Sequence[Row], *, whole: bool = False, last: Sequence[Row] = ()) -> Grid:
    """Find titles, header, columns and notes below in the rows of a file.

    `whole` if these are all; else its `last` rows may be given.
    """
    width, _ = width_and_share(rows)
    top = _find_top(rows, width)
    below = _count_footer(rows[top + 2 :] if whole else last, width)
    rows = rows[: len(rows) - below] if whole else rows
    titles = [row for row in rows[:top] if any(cell.strip() for cell in row)]
    facts = _describe_titles(titles, top)
    body, comments = _drop_comments(rows[top:])
    if not body:
        return Grid((), (), top, facts)
    options = ({"skiprows": top} if any(rows[:top]) else {}) | comments
    if below:
        options |= {"skipfooter": below, "engine": "python"}
        facts = (*facts, f"{below} rows below the table are left out")
    header: Sequence[object] = body[0]
    names: Sequence[object]
    data = [row for row in body[1:] if len(row) > 1 or any(map(str.strip, row))]
    if not _is_header(body[0], data):
        facts = (*facts, "no header: the columns are numbered here")
        options |= {"header": None}
        data = [body[0], *data]
        header = names = range(max(map(_filled_width, data)))
    else:
        names, notes = _name_columns(body[0][: max(map(_filled_width, body))])
        facts = (*facts, *notes)
        top += 1
    odd = sum(len(row) < len(names) for row in data)
    if odd:
        facts = (*facts, f"{odd:,} of these rows have fewer cells than the others")
    grid = _fit_rows(Grid(names, data, top, facts, options), len(header))
    if grid.doubt or len(data) < 3:
        return grid
    if "header" not in options and _continues_header(names, data[0]):
        two = {**options, "header": [0, 1]}
        return replace(grid, doubt="the header may have two rows", others=two)
    if not {"header", "skiprows", "comment"} & options.keys() and _holds_units(data):
        without = {**grid.options, "skiprows": [top]}
        return replace(grid, doubt="the row below the header may hold units", others=without)
    end = data if whole else [row for row in last if any(map(str.strip, row))]
    is_last = bool(end) and not below and any(map(_TOTAL.fullmatch, end[-1]))
    if whole and not {"skiprows", "comment"} & grid.options.keys() and len(rows) == top + len(data):
        totals = [n for n, row in enumerate(data[:-1]) if _TOTAL.fullmatch(_label(row))]
        if 0 < len(totals) <= _TOTALS:
            totals += [len(data) - 1] * is_last
            without = {**grid.options, "skiprows": [top + n for n in totals]}
            return replace(
                grid, doubt=f"{plural(len(totals), 'row')} may be totals", others=without
            )
    if is_last:
        without = {**grid.options, "skipfooter": 1, "engine": "python"}
        return replace(grid, doubt="the last row may be a total", others=without)
    return grid


def _label(row: Row) -> str:
    """Return the first cell that is filled."""
    return next((cell for cell in row if cell.strip()), "")


def _continues_header(names: Sequence[object], row: Row) -> bool:
    """Return whether a row below repeated or missing names has only years and text."""
    years = [is_year(cell) for cell in row if is_value(cell)]
    return len(years) > 1 and all(years) and any(map(_MADE_NAME.search, map(str, names[1:])))


def _holds_units(data: Sequence[Row]) -> bool:
    """Return whether the first row has short text in all columns that have only values below."""
    columns = zip_longest(*data[1:_LOOKED_AT], fillvalue="")
    values = [[each for each in column if not is_missing(each)] for column in columns]
    units = [
        cell
        for cell, below in zip(data[0], values, strict=False)
        if below and all(map(is_value, below))
    ]
    return len(units) > 1 and not any(
        is_value(cell) or is_missing(cell) or len(cell) > _UNIT for cell in units
    )


def _count_footer(rows: Sequence[Row], width: int) -> int:
    """Return the number of rows from an empty one below the table, if only notes follow it."""
    first = max(0, len(rows) - _TITLES)
    empty = [n for n in range(first, len(rows)) if not any(map(str.strip, rows[n]))]
    for n in empty:
        notes = [row for row in rows[n:] if any(map(str.strip, row))]
        if notes and all(
            _count_filled(row) < width and not any(map(is_value, row)) for row in notes
        ):
            return len(rows) - n
    return 0


def _filled_width(row: Row) -> int:
    """Return the number of cells up to the last one that is filled."""
    width = len(row)
    while width and not row[width - 1].strip():
        width -= 1
    return width


def _fit_rows(grid: Grid, header: int) -> Grid:
    """Return the grid with what is right where rows have more cells than names; `header` has all.

    An empty cell behind the last name comes from a separator at the end of the line.
    """
    width = len(grid.names)
    longest = max(map(len, grid.rows), default=0)
    filled = [_filled_width(row) for row in grid.rows] or [0]
    only_named: dict[str, object] = {"usecols": range(width)}
    if longest > header and "header" not in grid.options:
        only_named["index_col"] = False
    if max(filled) <= width:
        if "index_col" in only_named and width == header == longest - 1 == len(grid.rows[0]) - 1:
            del only_named["usecols"]
        needed = only_named if max(longest, header) > width else {}
        return replace(grid, options={**grid.options, **needed})
    if min(filled) == max(filled) == longest == width + 1:
        note = "the header has one cell less than the rows: the first column is an index"
        return replace(grid, has_index=True, facts=(*grid.facts, note))
    more = sum(each > width for each in filled)
    labels = min(map(len, grid.rows)) == longest
    other = {} if labels else {"index_col": False, "on_bad_lines": "skip"}
    return replace(
        grid,
        doubt=f"{more:,} of {len(filled):,} rows have more cells than the header",
        options={**grid.options, **only_named},
        others={**grid.options, **other},
    )


def _drop_comments(rows: Sequence[Row]) -> tuple[Sequence[Row], dict[str, object]]:
    """Return the rows without comments, and the option for it; all if a value has the sign."""
    others = [row for row in rows if not _is_comment(row)]
    if len(others) == len(rows) or any("#" in cell for row in others for cell in row):
        return rows, {}
    return others, {"comment": "#"}


def _is_comment(row: Row) -> bool:
    """Return whether a row is a comment; `#` and `#chrom` may be names, `#REF!` is an error."""
    starts = bool(row) and row[0].startswith("#")
    return starts and (len(row) == 1 or _HASH_NAME.fullmatch(row[0]) is None)


def _find_top(rows: Sequence[Row], width: int) -> int:
    """Return the number of rows above the header: titles are narrower than the table."""
    start = next((n for n, row in enumerate(rows) if any(map(str.strip, row))), 0)
    if width < 2:
        return start
    first = rows[: start + _TITLES + 1]
    for n in range(1, len(first)):
        if not any(first[n - 1]) and _stands_apart(rows, n, width):
            return n
    wide = [n for n, row in enumerate(first) if len(row) >= width and _names_most(row, width)]
    top = next((n for n in wide if not _is_comment(first[n])), 0)
    # A header may have fewer cells than rows: R names no index, and separators may end lines.
    for n, row in enumerate(first[:top]):
        if 1 < len(row) == _count_filled(row) < width and _is_header(row, rows[n + 1 :]):
            below = rows[n + 1]
            if len(below) >= len(row) and any(map(is_value, below)):
                return n
    return top


def _names_most(row: Row, width: int) -> bool:
    """Return whether a row may name columns: an index may have no name, others have one."""
    return _count_filled(row) >= min(width - (not row[0].strip()), max(2, width // 2))


def _stands_apart(rows: Sequence[Row], n: int, width: int) -> bool:
    """Return whether a row below an empty one is a header, and no data stand above."""
    row, below, above = rows[n], rows[n + 1 : n + 2], rows[:n]
    return (
        len(row) >= width == _count_filled(row[:width])
        and not any(map(is_value, row))
        and any(map(is_value, chain(*below)))
        and any(map(any, above))
        and not any(
            _count_filled(each) >= width and any(is_value(c) and not is_year(c) for c in each)
            for each in above[1:]  # a year may stand in a title
        )
    )


def _count_filled(row: Iterable[str]) -> int:
    return sum(bool(cell.strip()) for cell in row)


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
    unnamed = not header[0].strip()
    if values == [str(n) for n in range(len(header) - unnamed)] and (unnamed or len(values) > 2):
        return True  # the numbers that a library gives to columns without names
    dated = [n for n, cell in enumerate(header) if is_date(cell)]
    if any(is_date(row[n]) for row in data[:_TITLES] for n in dated if n < len(row)):
        return False
    periods = [cell for cell in values if is_year(cell) or is_date(cell)]
    return len(periods) == len(values) > 1 and len(set(periods)) == len(periods) < len(filled)


def _name_columns(header: Row) -> tuple[list[str], list[str]]:
    """Return distinct names of columns as table libraries make them, and remarks."""
    notes = []
    if header and not header[0].strip():
        notes.append("the first column has no name (an index?)")
    cells = [cell or f"Unnamed: {n}" for n, cell in enumerate(header)]
    used: Counter[str] = Counter()
    names, given = list(cells), set(cells)
    for n, cell in enumerate(cells):
        count = used[cell]
        while count:
            used[cell] = count + 1
            names[n] = f"{cell}.{count}"
            count = count + 1 if names[n] in given else used[names[n]]
        used[names[n]] = count + 1
    repeated = [excerpt(name, 30) for name, count in Counter(cells).items() if count > 1]
    if repeated:
        notes.append(f"names used twice: {', '.join(repeated[:5])}")
    return names, notes
