"""Grids of text cells, as in CSV files and sheets: titles, header, and the types of columns."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, islice

from ipyagent.kernel.describe.oddities import CHOICES
from ipyagent.kernel.describe.table import COLUMNS
from ipyagent.phrases import plural
from ipyagent.plaintext import excerpt
from ipyagent.tools.tables import row_kinds
from ipyagent.tools.tables.cells import (
    MISSING,
    PLAIN,
    CellType,
    Reading,
    Signs,
    find_sentinels,
    find_signs,
    in_columns,
    infer_type,
    is_missing,
    is_value,
    is_year,
    sign_options,
    write_day_format,
)
from ipyagent.tools.tables.row_kinds import Row, count_filled, filled_width, is_filled
from ipyagent.tools.tables.sample import SampleColumn

_MARKED = {"TOA5": 2, "EXTF": 0, "DTVF": 0}
"""Marks of data loggers and of DATEV in the first cell: a row above the header, some below it."""
_EXACT = 15
"""Digits of integers that a column with missing values keeps without a type for it."""
_LEFT_OUT = 20
"""Rows between others that are left out, at most."""
_MANY = 4
"""Rows from which it is no coincidence that the last one is their sum."""
_ALL = re.compile(r"\b(?:all|alle|overall|everything|total\w*|sum\w*|gesamt\w*|tot|ges)\b", re.I)
_WHOLE, _PART = re.compile(r"[+-]?\d{1,3}"), re.compile(r"\d{2,3}")
_CODED = re.compile("country|iso|code|region|nation|market|land|pa[ií]s|geo|^cc$", re.I)
"""Names of columns in which NA may be Namibia, or North America."""
_CODE = re.compile(r"[A-Z]{2,5}")
EITHER = "number, in doubt"
"""The type of a column of which no number is said."""


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
    last_row: Mapping[str, object] = field(default_factory=dict)
    """The options that leave out the last row, if all rows are here."""
    far: Sequence[Row] = ()
    """Rows below these that may hold marks of missing values, with those beside them."""

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
            _Cells(
                name,
                [row[n] if n < len(row) else "" for row in self.rows],
                [row[n] for row in self.far if n < len(row)],
            )
            for n, name in enumerate(islice(labels, COLUMNS))
        ]
        signs, *doubtful = find_signs((each.present for each in columns), commas=commas)
        for column in columns:
            column.signs = signs
        types = [infer_type(each.cells, str(each.name), signs) for each in columns]
        pairs = list(zip(columns, types, strict=True))
        described = [each.describe(found) for each, found in pairs]
        by_column = _cell_options(pairs[self.has_index :], signs)
        usual = {**sign_options(signs), **self.options, **by_column}
        reasons = [self.doubt] if self.doubt else []
        others = self.others if self.doubt else self.options
        if not self.doubt and self.last_row and _ends_in_sums(pairs):
            reasons, others = ["the last row may be a total"], {**others, **self.last_row}
        others = {**sign_options(doubtful[0] if doubtful else signs), **others, **by_column}
        for n, each in enumerate(columns):
            if doubtful and each.depends_on(doubtful[0]):
                described[n] = replace(described[n], dtype=EITHER, ends=())
        if mixed := [each.label for each in described if each.dtype == EITHER]:
            either = f"the decimal sign may be {signs.decimal!r} or {doubtful[0].decimal!r}"
            reasons.append(in_columns(either, mixed))
        doubtful_days = (each for each, found in pairs if "month in doubt" in found.dtype)
        if days := {each.name: each.present[0] for each in doubtful_days}:
            reasons.append(in_columns("day or month may come first", days))
            other = {n: write_day_format(day, month_first=False) for n, day in days.items()}
            known = by_column.get("date_format")
            others["date_format"] = {**(known if isinstance(known, dict) else {}), **other}
        doubts, after = _doubt_cells(pairs[self.has_index :])
        doubt = "; ".join([*reasons, *doubts])
        return described, Reading(usual, doubt=doubt, others=others, after=after)


@dataclass
class _Cells:
    """The cells of a column, its name, and the signs of its numbers."""

    name: object
    cells: Sequence[str]
    far: Sequence[str] = ()
    signs: Signs = PLAIN

    @cached_property
    def present(self) -> list[str]:
        """The different values."""
        return [cell for cell in dict.fromkeys(self.cells) if not is_missing(cell)]

    @cached_property
    def numbers(self) -> dict[str, float]:
        """The numbers by the cells that hold them, in a column of numbers."""
        return {cell: float(self.signs.normalize(cell)) for cell in self.present}

    def depends_on(self, other: Signs) -> bool:
        """Return whether these cells are other numbers, or none, with the other signs."""
        one, two = (infer_type(self.cells, str(self.name), each) for each in (self.signs, other))
        is_same = [*map(self.signs.normalize, self.present)] == [
            *map(other.normalize, self.present)
        ]
        return one.is_number != two.is_number or (one.is_number and not is_same)

    def describe(self, found: CellType) -> SampleColumn:
        """Return the description of a column of this type."""
        present = self.present
        if found.dtype.startswith("text"):
            present = [cell for cell in dict.fromkeys(self.cells) if cell not in MISSING]
        given = set(present)
        values = [cell if cell in given else None for cell in self.cells[:COLUMNS]]
        column = SampleColumn(self.name, found.dtype, values, found.nulls, len(present))
        if found.is_number:
            ends = (pick(self.numbers, key=self.numbers.__getitem__) for pick in (min, max))
            return replace(column, ends=[*map(self.signs.normalize, ends)])
        if found.dtype in ("date", "datetime"):
            return replace(column, ends=(min(self.present), max(self.present)))
        few = len(present) <= CHOICES and len(present) < len(self.cells) - found.nulls
        return replace(column, choices=present) if few else column


def _cell_options(columns: Iterable[tuple[_Cells, CellType]], signs: Signs) -> dict[str, object]:
    """Return the options by which cells are missing, or stay text, as they are described."""
    missing: dict[object, object] = {}
    texts: dict[object, object] = {}
    formats: dict[object, str] = {}
    for column, found in columns:
        if found.odd:
            missing[column.name] = list(found.odd)
        converts = map(signs.would_convert, column.present)
        if column.present and not found.is_number and all(converts):
            texts[column.name] = str
        elif found.dtype == "int" and found.nulls and any(len(c) > _EXACT for c in column.present):
            texts[column.name] = "Int64"
        if found.dtype.startswith("date (") and not found.dtype.startswith("date (month"):
            is_doubtful = "doubt" in found.dtype
            formats[column.name] = write_day_format(column.present[0], month_first=is_doubtful)
            texts.pop(column.name, None)
    options: dict[str, object] = {"na_values": missing, "dtype": texts}
    options |= {"parse_dates": [*formats], "date_format": formats}
    return {name: value for name, value in options.items() if value}


def _ends_in_sums(pairs: Iterable[tuple[_Cells, CellType]]) -> bool:
    """Return whether the last row without a label, or one of many, has the sums of those above."""
    labels, sums, many = [], [], False
    for column, found in pairs:
        if not found.is_number:
            labels.append(column.cells[-1].strip())
        elif not is_missing(column.cells[-1]):
            *above, last = (column.numbers[cell] for cell in column.cells if cell in column.numbers)
            many = many or len(above) > _MANY
            sums.append(len(above) > 2 and last != 0 and math.isclose(sum(above), last))
    is_named = not labels or (any(labels) and not any(map(_ALL.search, labels)))
    return any(sums) and (not is_named or (many and all(sums)))


def _holds_code(column: _Cells) -> bool:
    """Return whether a column is one of codes such as those of countries, with NA among them."""
    is_only = MISSING.intersection(column.cells) == {"NA"} and len(column.present) > 1
    is_named = _CODED.search(str(column.name)) is not None
    return is_only and is_named and all(map(_CODE.fullmatch, column.present))


def _doubt_cells(pairs: Iterable[tuple[_Cells, CellType]]) -> tuple[list[str], str]:
    """Return why cells may be missing, or may not, and the code of the other reading for that."""
    reasons, after = [], ""
    for column, found in pairs:
        if found.is_number:
            present = map(column.signs.normalize, column.present)
            far = filter(PLAIN.single_pattern.fullmatch, map(column.signs.normalize, column.far))
            numbers = find_sentinels([*present, *far])
            if numbers:
                reasons.append(in_columns(f"{str(numbers)[1:-1]} may mean missing", [column.name]))
                after += f".replace({{{column.name!r}: {numbers}}}, float('nan'))"
        elif _holds_code(column):
            reasons.append(in_columns("'NA' may be a code, not missing,", [column.name]))
            after += f".fillna({{{column.name!r}: 'NA'}})"
    return reasons, after


def count_repeated(grid: Grid, *, whole: bool) -> str:
    """Return how many rows are there already, in words; "" if none is."""
    repeated = len(grid.rows) - len(set(map(tuple, grid.rows)))
    part = "" if whole else f" among the first {len(grid.rows):,}"
    return f"{repeated:,} repeated rows{part}" if repeated else ""


def common_width(rows: Sequence[Row]) -> int:
    """Return the most common number of cells; the larger of two."""
    widths = Counter(len(row) for row in rows[: row_kinds.LOOKED_AT] if row)
    return max(widths, key=lambda width: (widths[width], width), default=0)


def width_and_share(rows: Sequence[Row]) -> tuple[int, float]:
    """Return the common number of cells, and the share of rows that fill no more and have them."""
    rows = [row for row in rows if row and not row_kinds.is_comment(row)]
    filled = [filled_width(row) for row in rows]
    width = min(common_width(rows), max(filled, default=0))
    fitting = sum(len(row) >= width >= each for row, each in zip(rows, filled, strict=True))
    return width, fitting / max(len(rows), 1)


def arrange(rows: Sequence[Row], *, whole: bool = False, last: Sequence[Row] = ()) -> Grid:
    """Find titles, header, columns and notes below in the rows of a file.

    `whole` if these are all; else its `last` rows may be given.
    """
    if whole and (second := row_kinds.find_second_table(rows)):
        return _choose_table(arrange(rows[:second], whole=True), rows, second)
    width, _ = width_and_share(rows)
    marked = _MARKED.get(rows[0][0]) if rows and rows[0] else None
    top = _find_top(rows, width) if marked is None else 1
    end = rows[top + 2 :] if whole else last
    below = row_kinds.count_footer(end, width)
    end = [row for row in end[: len(end) - below] if is_filled(row)]
    rows = rows[: len(rows) - below] if whole else rows
    place = {id(row): n for n, row in enumerate(rows)}
    titles = [row for row in rows[:top] if is_filled(row)]
    facts = _describe_titles(titles, top)
    body, comments = _drop_comments(rows[top:])
    if not body:
        return Grid((), (), top, facts)
    above = [*range(top)] if any(rows[:top]) else []
    options = ({"skiprows": top} if above else {}) | comments
    if below:
        options |= {"skipfooter": below, "engine": "python"}
        facts = (*facts, f"{below} rows below the table are left out")
    header: Sequence[object] = body[0]
    names: Sequence[object]
    data = [row for row in body[1:] if len(row) > 1 or is_filled(row)]
    left_out = _list_rules(body[0], data, marked or 0)
    lower = 0
    if not row_kinds.is_header(body[0], data):
        data = [body[0], *data]
        lower = row_kinds.find_header_below(data)
        options |= {"header": None}
        header = names = range(max(map(filled_width, data)))
        told = "no header: the columns are numbered here"
        if titles and row_kinds.is_comment(titles[-1]) and len(titles[-1]) == len(header):
            names = [cell.strip(" #/") for cell in titles[-1]]
            options |= {"names": names}
            told = "the header is a comment"
        facts = (*facts, told)
    else:
        if left_out:
            facts = (*facts, f"{len(left_out)} rows are no data: headers, units or lines")
            data = [row for row in data if not any(row is each for each in left_out)]
            above += sorted(place[id(each)] for each in left_out)
            options |= {"skiprows": above}
        names, notes = _name_columns(body[0][: max(map(filled_width, body))])
        facts = (*facts, *notes)
        top += 1
    odd = sum(len(row) < len(names) for row in data)
    if odd:
        facts = (*facts, f"{odd:,} of these rows have fewer cells than the others")
    grid = _fit_rows(Grid(names, data, top, facts, options), len(header))
    if grid.doubt:
        return grid
    if lower:
        other = {key: value for key, value in options.items() if key != "header"}
        other["skiprows"] = place[id(data[lower])]
        return replace(grid, doubt=f"the header may be row {lower + 1} of the table", others=other)
    is_named = "header" not in options and len(data) > 2
    if is_named and row_kinds.continues_header(names, body[0], data):
        two = {**options, "header": [0, 1]}
        return replace(grid, doubt="the header may have two rows", others=two)
    final = [] if whole or not end else end[-1:]
    numbers = [place[id(row)] for row in data]
    if whole and numbers:
        grid = replace(grid, last_row={"skiprows": [*above, numbers[-1]]})
    return _doubt_rows(grid, above, numbers, final)


def _list_rules(header: Row, data: Sequence[Row], marked: int) -> list[Row]:
    """Return the rows that are no data: the first ones, repeated headers, drawn lines."""
    found = [
        row for n, row in enumerate(data) if n < marked or row == header or row_kinds.is_rule(row)
    ]
    return found if len(found) <= _LEFT_OUT else []


def _doubt_rows(
    grid: Grid, above: Sequence[int], numbers: Sequence[int], final: Sequence[Row]
) -> Grid:
    """Return the grid in doubt if rows may be no data; `numbers` are those of its rows.

    The file's final row is given if it is not among them.
    """
    units = 0 if "header" in grid.options else row_kinds.count_units(grid.rows)
    totals = [] if final else row_kinds.find_totals(grid.rows)
    doubts = []
    if units:
        where = "row" if units == 1 else "two rows"
        doubts.append(f"the {where} below the header may hold units or labels")
    if totals == [len(grid.rows) - 1] or (final and row_kinds.find_totals([[], *final])):
        doubts.append("the last row may be a total")
    elif totals:
        doubts.append(f"{plural(len(totals), 'row')} may be totals")
    others = dict(grid.options)
    if units or totals:
        gone = [*numbers[:units], *(numbers[n] for n in totals)]
        others["skiprows"] = [*above, *sorted(set(gone))]
    elif doubts:
        below = grid.options.get("skipfooter", 0)
        others |= {"skipfooter": int(str(below)) + 1, "engine": "python"}
    return replace(grid, doubt="; ".join(doubts), others=others)


def _choose_table(first: Grid, rows: Sequence[Row], start: int) -> Grid:
    """Return the first of two tables, in doubt with the one that begins in a row below it."""
    one = {k: v for k, v in first.options.items() if k not in ("skipfooter", "engine")}
    other = dict(arrange(rows[start:], whole=True).options)
    skipped = other.get("skiprows", 0)
    if isinstance(skipped, list):
        other["skiprows"] = [*range(start), *(start + n for n in skipped)]
    else:
        other["skiprows"] = start + int(str(skipped))
    return replace(
        first,
        doubt=f"another table may begin in row {start + 1}",
        options={**one, "nrows": len(first.rows)},
        others=other,
    )


def _fit_rows(grid: Grid, header: int) -> Grid:
    """Return the grid with what is right where rows have more cells than names; `header` has all.

    An empty cell behind the last name comes from a separator at the end of the line.
    """
    width = len(grid.names)
    longest = max(map(len, grid.rows), default=0)
    filled = [filled_width(row) for row in grid.rows] or [0]
    only_named: dict[str, object] = {"usecols": range(width)}
    if longest > header and "header" not in grid.options:
        only_named["index_col"] = False
    if max(filled) <= width:
        if "index_col" in only_named and width == header == longest - 1 == len(grid.rows[0]) - 1:
            del only_named["usecols"]
        needed = only_named if max(longest, header) > width else {}
        return replace(grid, options={**grid.options, **needed})
    if min(filled) == max(filled) == longest == width + 1:
        if len({len(row[-1]) for row in grid.rows}) == 1 and all(map(_may_be_cut, grid.rows)):
            sign = "decimal" if len(grid.rows[0][-1]) < 3 else "thousands"
            cut = {**grid.options, "sep": r",(?!\d+$)", "engine": "python", sign: ","}
            doubt = "the rows have one cell more than the header: an index, or commas in numbers"
            return replace(grid, doubt=doubt, has_index=True, others=cut)
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


def _may_be_cut(row: Row) -> bool:
    """Return whether a comma in a number may have made the last two cells."""
    return _WHOLE.fullmatch(row[-2]) is not None and _PART.fullmatch(row[-1]) is not None


def _drop_comments(rows: Sequence[Row]) -> tuple[Sequence[Row], dict[str, object]]:
    """Return the rows without comments, and the option for it; all if a value has the sign."""
    others = [row for row in rows if not row_kinds.is_comment(row)]
    if len(others) == len(rows) or any("#" in cell for row in others for cell in row):
        return rows, {}
    return others, {"comment": "#"}


def _find_top(rows: Sequence[Row], width: int) -> int:
    """Return the number of rows above the header: titles are narrower than the table."""
    start = next((n for n, row in enumerate(rows) if is_filled(row)), 0)
    if width < 2:
        return start
    first = rows[: start + row_kinds.TITLES + 1]
    for n in range(1, len(first)):
        if not any(first[n - 1]) and _stands_apart(rows, n, width):
            return n
    wide = [n for n, row in enumerate(first) if len(row) >= width and _names_most(row, width)]
    top = next((n for n in wide if not row_kinds.is_comment(first[n])), 0)
    # A header may have fewer cells than rows: R names no index, and separators may end lines.
    for n, row in enumerate(first[:top]):
        if 1 < len(row) == count_filled(row) < width and row_kinds.is_header(row, rows[n + 1 :]):
            below = rows[n + 1]
            if len(below) >= len(row) and any(map(is_value, below)):
                return n
    return top


def _names_most(row: Row, width: int) -> bool:
    """Return whether a row may name columns: an index may have no name, others have one."""
    return count_filled(row) >= min(width - (not row[0].strip()), max(2, width // 2))


def _stands_apart(rows: Sequence[Row], n: int, width: int) -> bool:
    """Return whether a row below an empty one is a header, and no data stand above."""
    row, below, above = rows[n], rows[n + 1 : n + 2], rows[:n]
    return (
        len(row) >= width == count_filled(row[:width])
        and not any(map(is_value, row))
        and any(map(is_value, chain(*below)))
        and any(map(any, above))
        and not any(
            count_filled(each) >= width and any(is_value(c) and not is_year(c) for c in each)
            for each in above[1:]  # a year may stand in a title
        )
    )


def _describe_titles(titles: Sequence[Row], top: int) -> tuple[str, ...]:
    if not top:
        return ()
    text = " ".join(cell for row in titles for cell in row if cell.strip())
    rows = "1 row" if top == 1 else f"{top} rows"
    return (f"{rows} above the header: {excerpt(text, 80)}" if text else f"{rows} empty on top",)


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
