"""Types of columns whose cells are text."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ipyagent.kernel.describe.preview import text as preview_text
from ipyagent.redaction import Secrecy, secrecy
from ipyagent.tools.tables.reading import PLAIN, Signs, find_signs

MISSING = frozenset(
    {"", "NA", "N/A", "n/a", "<NA>", "NaN", "nan", "-NaN", "-nan", "NULL", "null", "None", "#N/A"}
)
"""Cells that table libraries take as missing."""
_ALSO_MISSING = frozenset({"-", "--", "?", ".", "…", "na", "none", "missing", "NaT"})
"""Cells that probably mean the same, but that no library takes so by itself."""
_MOST = 0.8
"""Share of cells from which a column is of a type with exceptions."""
_FIRST = 20
"""Distinct cells that show which types are worth a full comparison."""
_INTEGER = re.compile(r"[+-]?(?:0|[1-9][0-9]{0,17})")
_DIGITS = re.compile(r"[+-]?([0-9]+)")
_ANY_NUMBER = re.compile(
    rf"{PLAIN.single_pattern.pattern}|[+-]?[0-9]+,[0-9]+"
    r"|[+-]?[0-9]{1,3}(?:[., '\u2019\xa0\u202f\u2009][0-9]{3})*(?:[.,][0-9]+)?"
)
_OTHERS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("number with %", re.compile(r"[+-]?[0-9]+(?:[.,][0-9]+)?\s?%")),
    ("number with a currency", re.compile(r"-?[$€£¥]\s?-?[0-9.,]+|-?[0-9.,]+\s?[$€£¥]")),
    ("bool", re.compile("true|false", re.IGNORECASE)),
    ("date", re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")),
    (
        "datetime",
        re.compile(
            r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]+)?)?"
            r"\s?(?:Z|UTC|[+-][0-9]{2}:?[0-9]{2})?)?"
        ),
    ),
    ("time", re.compile(r"[0-9]{1,2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]+)?)?")),
)
_DAY = re.compile(r"([0-9]{1,2})([./-])([0-9]{1,2})\2(?:[0-9]{4}|[0-9]{2})(?: [0-9:]+)?")
_YEAR = re.compile(r"(?:1[5-9]|20|21)[0-9]{2}")


@dataclass(frozen=True)
class CellType:
    """The type of a column in words, the number of its missing cells, and how they are written.

    `odd` are the cells that no library takes as missing by itself.
    """

    dtype: str
    nulls: int
    odd: tuple[str, ...] = ()

    @property
    def is_number(self) -> bool:
        """True for numbers that a library reads as such."""
        return self.dtype.startswith(("int", "float"))


def is_missing(cell: str) -> bool:
    """Return whether a cell means that there is no value."""
    stripped = cell.strip()
    return stripped in MISSING or stripped in _ALSO_MISSING


def is_value(cell: str) -> bool:
    """Return whether a cell is a number, a date or the like, so hardly the name of a column."""
    cell = cell.strip()
    patterns = (_DAY, _ANY_NUMBER, *(pattern for _, pattern in _OTHERS))
    return any(pattern.fullmatch(cell) for pattern in patterns)


def is_date(cell: str) -> bool:
    """Return whether a cell is a day, in any order of its parts."""
    cell = cell.strip()
    return any(each.fullmatch(cell) for each in (_DAY, dict(_OTHERS)["date"]))


def is_year(cell: str) -> bool:
    """Return whether a cell looks like a year, which often names a column."""
    return _YEAR.fullmatch(cell.strip()) is not None


def infer_type(cells: Iterable[str], label: str = "", signs: Signs | None = None) -> CellType:
    """Return the type of a column whose numbers have these signs, by default those that fit."""
    counts = Counter(cells)
    present = {cell: n for cell, n in counts.items() if not is_missing(cell)}
    odd = tuple(sorted(cell for cell in counts if is_missing(cell) and cell not in MISSING))
    missing = counts.total() - sum(present.values())
    if not present:
        return CellType("empty", missing, odd)
    signs = signs or find_signs([list(present)], commas=True)[0]
    dtype = _name_type(present, secrecy(label), signs)
    if dtype.startswith("text"):  # where a dash is a value like others
        return CellType(dtype, sum(counts[cell] for cell in MISSING))
    named = next((cell.strip() for cell in odd if cell.strip() in _ALSO_MISSING), "")
    return CellType(dtype + f", {named!r} for missing" * bool(named), missing, odd)


def _types(signs: Signs) -> list[tuple[str, re.Pattern[str]]]:
    """Return the patterns of the types, numbers first."""
    decimal = f" (decimal {signs.decimal!r})" if signs.decimal != "." else ""
    types = [("int", _INTEGER), (f"float{decimal}", signs.single_pattern)]
    if signs.thousands:
        thousands = f" (thousands {signs.thousands!r})"
        whole = Signs("", signs.thousands).group_pattern
        types += [(f"int{thousands}", whole), (f"float{decimal or thousands}", signs.group_pattern)]
    return [*types, *_OTHERS]


def _name_type(present: dict[str, int], secret: Secrecy, signs: Signs) -> str:
    plain = [cell.strip() for cell in present]
    digits = [found[1] for found in map(_DIGITS.fullmatch, plain) if found]
    if len(digits) == len(plain):
        if any(each[0] == "0" and len(each) > 1 for each in digits):
            return "text (digits, leading zeros)"
        if any(len(each) > 18 for each in digits):
            return "text (digits, too long for int64)"
    total, first = sum(present.values()), plain[:_FIRST]
    best, share, types = "", 0.0, _types(signs)
    for name, pattern in types:
        if sum(map(bool, map(pattern.fullmatch, first))) < len(first) / 2:
            continue
        fitting = sum(n for cell, n in present.items() if pattern.fullmatch(cell.strip()))
        if fitting == total:
            # No library strips the blanks of these.
            return "text" if name == "bool" and plain != list(present) else name
        if fitting / total > share:
            best, share = name, fitting / total
    if all(map(_DAY.fullmatch, plain)):
        return _name_day_order(plain)
    if share < _MOST:
        return "text"
    pattern = dict(types)[best]
    others = [cell for cell in present if not pattern.fullmatch(cell.strip())]
    example = preview_text(others[0], secret=secret, limit=20)
    return f"text ({best}, except {example!r}{', …' if len(others) > 1 else ''})"


def _name_day_order(cells: Sequence[str]) -> str:
    matches = [match for match in map(_DAY.fullmatch, cells) if match]
    sign = matches[0][2]
    if any(int(match[1]) > 12 for match in matches):
        return f"date (day{sign}month{sign}year)"
    if any(int(match[3]) > 12 for match in matches):
        return f"date (month{sign}day{sign}year)"
    return f"date (day and month in doubt, with {sign!r})"
