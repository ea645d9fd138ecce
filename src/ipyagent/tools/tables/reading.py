"""The reading of a file: the call by which a library loads what its description says."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property

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
        bare = cell.strip().replace(self.thousands, "") if self.thousands else cell.strip()
        return bare.replace(self.decimal, ".")

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

    def with_options(self, function: str, options: Mapping[str, object]) -> Reading:
        """Return it as a call of this function, with more options."""
        given, others = {**options, **self.options}, {**options, **self.others}
        if function == "read_excel":  # its engines are others
            given.pop("engine", None)
            others.pop("engine", None)
        return replace(self, function=function, options=given, others=others)

    def facts(self, path: str) -> tuple[str, ...]:
        """Return the line of the description, if the file needs one."""
        code = self._write_code(path, self.options)
        if self.doubt:
            return (f"in doubt: {self.doubt}: {code} or {self._write_code(path, self.others)}",)
        return (f"read with: {code}",) if self.options else ()

    def _write_code(self, path: str, options: Mapping[str, object]) -> str:
        given = [f"{name}={_write(value)}" for name, value in options.items()]
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


def _possible_signs(cells: Sequence[str]) -> list[Signs]:
    """Return the signs by which all cells are numbers, without those that do not occur."""
    plain = [cell.strip() for cell in cells]
    if any(len(cell) > _ONE_CELL for cell in plain):
        return []
    marks = {char for cell in plain for char in cell if char in _MARKS}
    fitting = [each for each in _SIGNS if {each.decimal, each.thousands} - {""} == marks]
    return [each for each in fitting if all(map(each.pattern.fullmatch, plain))]
