"""Types of columns whose cells are text."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ipyagent.kernel.describe.preview import text as preview_text
from ipyagent.redaction import Secrecy, secrecy

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
_NUMBER = r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
_INTEGER = re.compile(r"[+-]?(?:0|[1-9][0-9]{0,17})")
_DIGITS = re.compile(r"[0-9]+")
_TYPES: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("int", _INTEGER),
    ("float", re.compile(rf"{_NUMBER}|[+-]?(?:inf|Inf|Infinity)")),
    ("int (thousands ',')", re.compile(r"[+-]?[0-9]{1,3}(?:,[0-9]{3})*")),
    ("float (thousands ',')", re.compile(r"[+-]?[0-9]{1,3}(?:,[0-9]{3})*(?:\.[0-9]+)?")),
    ("int (thousands '.')", re.compile(r"[+-]?[0-9]{1,3}(?:\.[0-9]{3})+|[+-]?[0-9]{1,3}")),
    (
        "float (decimal ',')",
        re.compile(r"[+-]?(?:[0-9]+|[0-9]{1,3}(?:[. ][0-9]{3})+)(?:,[0-9]+)?(?:[eE][+-]?[0-9]+)?"),
    ),
    ("number with %", re.compile(rf"{_NUMBER}\s?%")),
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
    """The type of a column in words, and the number of its missing cells."""

    dtype: str
    nulls: int


def is_missing(cell: str) -> bool:
    """Return whether a cell means that there is no value."""
    stripped = cell.strip()
    return stripped in MISSING or stripped in _ALSO_MISSING


def is_value(cell: str) -> bool:
    """Return whether a cell is a number, a date or the like, so hardly the name of a column."""
    cell = cell.strip()
    return _DAY.fullmatch(cell) is not None or any(kind.fullmatch(cell) for _, kind in _TYPES)


def is_year(cell: str) -> bool:
    """Return whether a cell looks like a year, which often names a column."""
    return _YEAR.fullmatch(cell.strip()) is not None


def infer_type(cells: Iterable[str], label: str = "", decimal: str = ".") -> CellType:
    """Return the type of a column; `decimal` is "," if commas do not separate the cells."""
    counts = Counter(cells)
    present = {cell: n for cell, n in counts.items() if not is_missing(cell)}
    missing = counts.total() - sum(present.values())
    if not present:
        return CellType("empty", missing)
    odd = sorted({cell.strip() for cell in counts} & _ALSO_MISSING)
    dtype = _name_type(present, secrecy(label), decimal)
    if odd and not dtype.startswith("text"):
        dtype += f", {odd[0]!r} for missing"
    elif odd:  # in text, a dash is a value like others
        missing -= sum(n for cell, n in counts.items() if cell.strip() in _ALSO_MISSING)
    return CellType(dtype, missing)


def _name_type(present: dict[str, int], secret: Secrecy, decimal: str) -> str:
    plain = [cell.strip() for cell in present]
    if all(map(_DIGITS.fullmatch, plain)):
        if any(cell[0] == "0" and len(cell) > 1 for cell in plain):
            return "text (digits, leading zeros)"
        if any(len(cell) > 18 for cell in plain):
            return "text (digits, too long for int64)"
    total, first = sum(present.values()), plain[:_FIRST]
    best, share = "", 0.0
    for name, pattern in _TYPES:
        if decimal == "," and "','" in name and "thousands" in name:
            continue
        if sum(map(bool, map(pattern.fullmatch, first))) < len(first) / 2:
            continue
        fitting = sum(n for cell, n in present.items() if pattern.fullmatch(cell.strip()))
        if fitting == total:
            return name
        if fitting / total > share:
            best, share = name, fitting / total
    if all(map(_DAY.fullmatch, plain)):
        return _name_day_order(plain)
    if share < _MOST:
        return "text"
    pattern = dict(_TYPES)[best]
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
