"""Judge the rows of a grid of text: header, units, totals, notes, comments, a second table."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import chain, islice, zip_longest

from ipyagent.tools.tables.cells import is_date, is_missing, is_value, is_year

Row = Sequence[str]

TITLES = 20
"""Rows above a header that are looked at."""
LOOKED_AT = 200
"""Rows by which a grid is judged."""
_HASH_NAME = re.compile(r"#(?:\w+[!?]?|N/A|DIV/0!)?")
_TOTAL = re.compile(
    r"\W*(?:(?:sub|zwischen|end)?(?:totale?s?|totaux|sum|summen?|somme|suma)|(?:ins)?gesamt\w*)\W*"
    r"|\W*(?:grand |sub-?)total\b.*|total (?:genera.*|of .*|[\W\d]+)|summe (?:aller|der) .*"
    r"|.+ sub-?totals?|\S+ total",
    re.I,
)
_TOTAL_STEMS = ("tot", "sum", "som", "gesamt")
"""Parts of these words: most tables have none, which is quick to see."""
_STATISTIC = re.compile(
    r"\W*(?:averages?|avg|mean|median|std(?: ?dev)?|min|max|all|overall|mittelwert|durchschnitt"
    r"|moyenne|media|promedio)\W*",
    re.I,
)
_MOST_TOTALS = 20
"""Rows of totals that are named."""
_UNIT = re.compile(r"[\[(](?![\d.,]+[\])]).*[\])]|.{0,2}[%°/].{0,4}")
_NOTE = re.compile(
    r"\W*(?:sources?|notes?|quelle|hinweis|anmerkung|fuente|nota|bron|stand|printed|generated"
    r"|exported|erstellt|copyright|end of|eof|records?|\d+ rows?|rows?)\b.*|[*†¹©].*",
    re.I | re.S,
)
_RULE = re.compile(r"\s*[-=+:_|]{2,}\s*")
_MADE_NAME = re.compile(r"^Unnamed: \d+$|\.\d+$")


def is_filled(row: Row) -> bool:
    """Return whether a row has a cell with more than blanks."""
    return any(map(str.strip, row))


def count_filled(row: Iterable[str]) -> int:
    """Return the number of cells with more than blanks."""
    return sum(bool(cell.strip()) for cell in row)


def filled_width(row: Row) -> int:
    """Return the number of cells up to the last one that is filled."""
    width = len(row)
    while width and not row[width - 1].strip():
        width -= 1
    return width


def is_comment(row: Row) -> bool:
    """Return whether a row is a comment; `#` and `#chrom` may be names, `#REF!` is an error."""
    starts = bool(row) and row[0].startswith(("#", "//"))
    return starts and (len(row) == 1 or _HASH_NAME.fullmatch(row[0]) is None)


def is_rule(row: Row) -> bool:
    """Return whether a row only draws a line below the header."""
    return all(_RULE.fullmatch(cell) for cell in row if cell.strip()) and is_filled(row)


def list_values_below(data: Sequence[Row]) -> list[bool]:
    """Return for each column whether it has values below the first row, and nothing else."""
    columns = zip_longest(*data[1:LOOKED_AT], fillvalue="")
    present = ([cell for cell in column if not is_missing(cell)] for column in columns)
    return [bool(cells) and all(map(is_value, cells)) for cells in present]


def count_units(data: Sequence[Row]) -> int:
    """Return how many rows, at most two, have text above columns of nothing but values."""
    for count in (2, 1):
        if len(data) < count + 2:
            continue
        columns = list_values_below(data[count - 1 :])
        if all(_holds_units(row, columns) for row in data[:count]):
            return count
    return 0


def _holds_units(row: Row, columns: Sequence[bool]) -> bool:
    above = [cell.strip() for cell, holds_values in zip(row, columns, strict=False) if holds_values]
    units = [cell for cell in above if not is_missing(cell)]
    others = [cell for cell, values in zip(row, columns, strict=False) if not values]
    if not units or any(map(is_value, units)):
        return False
    return len(units) > 1 or not is_filled(others) or _UNIT.fullmatch(units[0]) is not None


_PERIOD = re.compile(
    r"(?i)years?|quarters?|months?|weeks?|days?|jahre?|quartale?|monate?|wochen?|tage?|année|mois|"
    r"trimestre|semaine|año|mes|semana"
)


def _names_below(header: Row, data: Sequence[Row]) -> bool:
    """Return whether a header has gaps, as merged cells leave them, above names of columns."""
    gap = next((n for n, cell in enumerate(header) if n and not cell.strip()), len(header))
    if not any(map(str.strip, header[gap:])) or not data or len(data[0]) < len(header):
        return False
    is_text = not any(not cell.strip() or is_value(cell) for cell in data[0])
    return is_text and any(list_values_below(data))


def continues_header(names: Sequence[object], header: Row, data: Sequence[Row]) -> bool:
    """Return whether the first row is a second header: years below repeated names, and the like."""
    row = data[0]
    if _names_below(header, data):
        return True
    if names and row and all(_PERIOD.fullmatch(str(each).strip()) for each in (names[0], row[0])):
        return True
    years = [is_year(cell) for cell in row if is_value(cell)]
    return len(years) > 1 and all(years) and any(map(_MADE_NAME.search, map(str, names[1:])))


def find_totals(data: Sequence[Row]) -> list[int]:
    """Return the numbers of rows that may be totals; statistics may stand at the end."""
    cells = set(chain.from_iterable(data))
    text = "\n".join(cells).casefold()
    may_be = any(stem in text for stem in _TOTAL_STEMS)
    words = set(filter(_TOTAL.fullmatch, cells)) if may_be else set()
    found = {n for n, row in enumerate(data) if words and not words.isdisjoint(row)}
    labels = [next(filter(str.strip, row), "") for row in data]
    for n in reversed(range(len(data))):
        is_statistic = _STATISTIC.fullmatch(labels[n]) and labels.count(labels[n]) == 1
        if not is_statistic and n not in found:
            break
        found.add(n)
    return sorted(found) if len(found) <= min(_MOST_TOTALS, len(data) - 1) else []


def find_second_table(rows: Sequence[Row]) -> int:
    """Return the number of the row where a second table begins below an empty row; 0 for none."""
    starts: list[int] = []
    for n, row in enumerate(rows):
        is_first = is_filled(row) and (n == 0 or not is_filled(rows[n - 1]))
        if is_first and _begins_table(rows[n : n + 3]):
            starts.append(n)
            if len(starts) > 1:
                return n
    return 0


def _begins_table(rows: Sequence[Row]) -> bool:
    """Return whether a header and values stand here, with or without a title above."""
    title = len(rows) > 1 and count_filled(rows[0]) == 1
    header, *below = rows[title:] or [[]]
    wide = 1 < count_filled(header) == len(header[: filled_width(header)])
    is_wide = count_filled(header) > 2  # a title may name a year
    names = wide and not any(is_value(cell) and not (is_wide and is_year(cell)) for cell in header)
    return names and any(
        count_filled(row) <= count_filled(header) and any(map(is_value, row)) for row in below[:1]
    )


def count_footer(rows: Sequence[Row], width: int) -> int:
    """Return the number of rows below the table: notes, and what follows an empty row."""
    first = max(0, len(rows) - TITLES)
    last = len(rows)
    while last > first and (not is_filled(rows[last - 1]) or _is_note(rows[last - 1], width)):
        last -= 1
    empty = [n for n in range(first, last) if not is_filled(rows[n])]
    for n in empty:
        notes = [row for row in rows[n:] if is_filled(row)]
        if notes and all(
            count_filled(row) < width and not any(map(is_value, row)) for row in notes
        ):
            return len(rows) - n
    return len(rows) - last if any(map(is_filled, rows[last:])) else 0


def _is_note(row: Row, width: int) -> bool:
    """Return whether a row has nothing but a note in its first cell."""
    if width < 2 or not row or not row[0].strip() or count_filled(row) > 1:
        return False
    is_short = len(row) == 1 and " " in row[0].strip()
    return is_short or _NOTE.fullmatch(row[0].strip()) is not None


def find_header_below(rows: Sequence[Row]) -> int:
    """Return the number of a row that may be the header though rows as wide stand above it.

    Below it are only values in a column that has also text above; 0 for none.
    """
    for n, row in enumerate(islice(rows, 1, min(TITLES, len(rows) - 1)), 1):
        is_full = 1 < count_filled(row) == len(set(row)) and not any(map(is_value, row))
        if is_full and any(
            holds_values and not all(is_value(above[at]) for above in rows[:n] if at < len(above))
            for at, holds_values in enumerate(list_values_below(rows[n:]))
        ):
            return n
    return 0


def is_header(header: Row, data: Sequence[Row]) -> bool:
    """Return whether a row names the columns rather than being the first of the data."""
    filled = [cell for cell in header if cell.strip()]
    values = [cell for cell in filled if is_value(cell)]
    if not values:
        # Cells that repeat below, in a grid of text only, are data rather than names.
        repeats = [row for row in data if row == header]
        others = [row for row in data if row != header]
        return bool(filled) and (not repeats or any(list_values_below([header, *others])))
    unnamed = not header[0].strip()
    if values == [str(n) for n in range(len(header) - unnamed)] and (unnamed or len(values) > 2):
        return True  # the numbers that a library gives to columns without names
    dated = [n for n, cell in enumerate(header) if is_date(cell)]
    if any(is_date(row[n]) for row in data[:TITLES] for n in dated if n < len(row)):
        return False
    periods = [cell for cell in values if is_year(cell) or is_date(cell)]
    if len(periods) == len(filled) and _names_below(header, data):
        return True
    return len(periods) == len(values) > 1 and len(set(periods)) == len(periods) < len(filled)
