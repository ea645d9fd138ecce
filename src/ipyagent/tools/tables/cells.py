"""Types of columns whose cells are text, and the call by which a library loads them so."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property

from ipyagent.kernel.describe.preview import text as preview_text
from ipyagent.redaction import Secrecy, secrecy

_MARKS = ",.'\N{RIGHT SINGLE QUOTATION MARK} \N{NO-BREAK SPACE}\u202f\u2009"
"""Signs in numbers: of decimals, and between thousands."""
_ONE_CELL = 40
"""Characters of a cell that may be a number."""


@dataclass(frozen=True)
class Signs:
    """The signs within numbers; `thousands` is empty if digits stand together."""

    decimal: str = "."
    thousands: str = ""

    @cached_property
    def single_pattern(self) -> re.Pattern[str]:
        """The pattern of numbers whose digits stand together."""
        sign = re.escape(self.decimal)
        digits = rf"(?:[0-9]+{sign}?[0-9]*|{sign}[0-9]+)(?:[eE][+-]?[0-9]+)?"
        return re.compile(rf"[+-]?(?:{digits}|inf|Inf|Infinity)")

    @cached_property
    def group_pattern(self) -> re.Pattern[str]:
        """The pattern of numbers whose thousands are apart."""
        whole = rf"(?:[1-9][0-9]{{0,2}}(?:{re.escape(self.thousands)}[0-9]{{3}})+|[0-9]{{1,3}})"
        part = rf"(?:{re.escape(self.decimal)}[0-9]+)?" if self.decimal else ""
        return re.compile(rf"[+-]?{whole}{part}")

    @property
    def pattern(self) -> re.Pattern[str]:
        """The pattern of the numbers in a column with these signs."""
        return self.group_pattern if self.thousands else self.single_pattern

    def includes(self, other: Signs) -> bool:
        """Return whether numbers with the other signs are numbers with these."""
        same_decimal = other.decimal in ("", self.decimal)
        return same_decimal and other.thousands in ("", self.thousands)

    def normalize(self, cell: str) -> str:
        """Return a number as Python writes it."""
        bare = cell.strip()
        if self.thousands:
            bare = bare.replace(self.thousands, "")
        return bare if self.decimal == "." else bare.replace(self.decimal, ".")

    def would_convert(self, cell: str) -> bool:
        """Return whether a library takes the cell for a number: it does not look at groups."""
        return any(map(PLAIN.single_pattern.fullmatch, (cell.strip(), self.normalize(cell))))


PLAIN = Signs()
_SIGNS = [Signs(one, other) for other in ("", *_MARKS) for one in (".", ",", "") if one != other]
"""From the simplest; without a sign of decimals, if none occurs."""


@dataclass(frozen=True)
class Reading:
    """A call of pandas that reads a file: arguments beside the path, if not the usual ones.

    If it is in doubt, `doubt` says why, and `others` are the options of the other reading.
    """

    options: Mapping[str, object] = field(default_factory=dict)
    function: str = "read_csv"
    doubt: str = ""
    others: Mapping[str, object] = field(default_factory=dict)
    after: str = ""
    """Code behind the call of the other reading."""

    def with_doubt(self, doubt: str, after: str = "") -> Reading:
        """Return it with one more doubt, and code behind the call of the other reading."""
        doubts = "; ".join(filter(None, (self.doubt, doubt)))
        return replace(self, doubt=doubts, after=self.after + after)

    def with_options(self, function: str, options: Mapping[str, object]) -> Reading:
        """Return it as a call of this function, with more options."""
        given, others = {**options, **self.options}, {**options, **self.others}
        if function == "read_excel":  # its engines are others
            given.pop("engine", None)
            others.pop("engine", None)
        return replace(self, function=function, options=given, others=others)

    def facts(self, path: str) -> tuple[str, ...]:
        """Return the line of the description, if the file needs one."""
        code = self.write(path, self.options)
        if self.doubt:
            other = self.write(path, self.others) + self.after
            return (f"in doubt: {self.doubt}: {code} or {other}",)
        return (f"read with: {code}",) if self.options else ()

    def write(self, path: str, options: Mapping[str, object] | None = None) -> str:
        """Return the code of the call, with other options if they are given."""
        chosen = self.options if options is None else options
        given = [f"{name}={_write(value)}" for name, value in chosen.items()]
        return f"pd.{self.function}({', '.join([repr(path), *given])})"


def _write(value: object) -> str:
    if value is str:
        return "str"
    if isinstance(value, datetime):
        return f"pd.Timestamp({str(value)!r})"
    if isinstance(value, range):
        return f"range({len(value)})"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_write(key)}: {_write(each)}' for key, each in value.items())}}}"
    return repr(value)


def in_columns(doubt: str, names: Iterable[object]) -> str:
    """Return a doubt that touches no other columns: a reader of the line knows it by its end."""
    return f"{doubt} in {', '.join(map(repr, names))}"


def sign_options(signs: Signs) -> dict[str, object]:
    """Return the options of these signs; the fast parser knows only ASCII."""
    options: dict[str, object] = {"decimal": signs.decimal} if signs.decimal != "." else {}
    if signs.thousands:
        options["thousands"] = signs.thousands
        if not signs.thousands.isascii():
            options["engine"] = "python"
    return options


def find_signs(columns: Iterable[Sequence[str]], *, commas: bool) -> list[Signs]:
    """Return the signs of the numbers in columns; two if either may be meant.

    With `commas`, commas separate cells, or numbers need no signs: a point is a decimal sign.
    """
    evidence = [found for cells in columns if (found := _possible_signs(cells))]
    fitting: dict[tuple[Signs | None, ...], Signs] = {}
    most = 0
    for signs in (each for each in _SIGNS if each.decimal):
        meaning = tuple(next(filter(signs.includes, found), None) for found in evidence)
        fits = len(evidence) - meaning.count(None)
        if fits > most:
            fitting, most = {}, fits
        if fits == most:
            fitting.setdefault(meaning, signs)
    best = sorted(fitting.values(), key=lambda signs: commas and signs.decimal != ".")
    if most < len(evidence):  # no signs are those of all columns
        best = [best[0], Signs("," if best[0].decimal == "." else ".")]
    return best[:1] if commas else best[:2]


def find_sentinels(cells: Sequence[str]) -> list[float]:
    """Return the numbers of a column that probably mean a missing value: far from all others."""
    marks = {cell for cell in cells if _SENTINEL.fullmatch(cell)}
    numbers = [float(cell) for cell in cells if cell not in marks] if marks else []
    if not numbers:
        return []
    low, high = min(numbers), max(numbers)
    found = []
    for number in sorted(map(float, marks)):
        distance = max(low - number, number - high)
        if distance > high - low or low >= 0 > number:
            found.append(int(number) if number.is_integer() and number < _LARGE else number)
    return found[:_MOST_SENTINELS]


def _possible_signs(cells: Sequence[str]) -> list[Signs]:
    """Return the signs by which all cells are numbers, without those that do not occur."""
    plain = [cell.strip() for cell in cells]
    if any(len(cell) > _ONE_CELL for cell in plain):
        return []
    marks = set("".join(plain)).intersection(_MARKS)
    fitting = [each for each in _SIGNS if {each.decimal, each.thousands} - {""} == marks]
    return [each for each in fitting if all(map(each.pattern.fullmatch, plain))]


_SENTINEL = re.compile(
    r"-99(?:\.0*)?|[+-]?9{3,}(?:\.(?:9*|0*))?|-999\.25|-32768(?:\.0*)?|-2147483648"
    r"|[+-]?(?:9\.96[0-9]*|1(?:\.0*)?|3\.4[0-9]*)[eE]\+?(?:20|30|35|36|38)"
)
_MOST_SENTINELS, _LARGE = 3, 1e15
MISSING = frozenset({
    *("", "NA", "N/A", "n/a", "<NA>", "NaN", "nan", "-NaN", "-nan", "NULL", "null", "None"),
    *("#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "1.#IND", "1.#QNAN"),
})  # fmt: skip
"""Cells that table libraries take as missing."""
_ALSO_MISSING = frozenset({
    *("-", "--", "\u2013", "\u2014", "?", ":", ".", "..", "...", "…", "*", "/"),
    *("na", "none", "nil", "missing", "NaT"),
    *("NAN", "n.a.", "N.A.", "k.A.", "k. A.", "n.d.", "N.D.", "ND", "n/d", "\\N"),
    *("#REF!", "#VALUE!", "#DIV/0!", "#NAME?", "#NUM!"),
})  # fmt: skip
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
    odd = tuple(sorted(counts.keys() - present.keys() - MISSING))
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
    if sign == "." or any(int(match[1]) > 12 for match in matches):
        return f"date (day{sign}month{sign}year)"
    if any(int(match[3]) > 12 for match in matches):
        return f"date (month{sign}day{sign}year)"
    return f"date (day and month in doubt, with {sign!r})"


def write_day_format(cell: str, *, month_first: bool) -> str:
    """Return the format of a day, and of a time behind it, with the year last."""
    time = ("", " %H:%M", " %H:%M:%S")[min(cell.count(":"), 2)]
    parts = re.split(r"[./-]", cell.strip().partition(" ")[0])
    sign, year = cell.strip()[len(parts[0])], "%Y" if len(parts[2]) > 2 else "%y"
    order = ["%m", "%d", year] if month_first else ["%d", "%m", year]
    return sign.join(order) + time
