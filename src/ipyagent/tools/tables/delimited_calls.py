"""Choose the call of pandas that loads a text of rows: a heuristic proposes, the frame decides.

Runs in the reader's process only. Each proposal is tried; it is kept if more columns are numbers,
and no row, column or number is lost.
"""

from __future__ import annotations

import contextlib
import csv
import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from io import StringIO
from itertools import pairwise
from typing import Any

Options = Mapping[str, object]
Foreign = Any
"""A frame, or another object of a library."""
Row = tuple[int, list[str]]

ROWS = 2_000
"""Lines at the start of a text on which calls are tried."""
_WIDEST = 300
"""Columns above which nothing but the separator is tried."""
_MOST_ABOVE = 50
"""Lines above a header, at most."""
_BLANKS = r"\s+"
_SEPARATORS = (",", ";", "\t", "|", "^", "~", "\x01", "\x1f", _BLANKS)
_NUMBER = re.compile(r"\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*")
_CODE, _LONG = re.compile(r"0\d+"), re.compile(r"\d{16,}")
_REMARK = re.compile(r"(?m)^#[\s#]")
CODES = re.compile(r"(?m)(?:^|[,;\t| \"'])(?:0\d+|\d{16,})(?=$|[,;\t| \"'\r])")
"""Digits in a text that may be codes."""
_SIGN = re.compile(r"[^\w\s]{1,3}")
_MARKS = (
    *({"decimal": ","}, {"decimal": ",", "thousands": "."}, {"decimal": ",", "thousands": " "}),
    *({"thousands": each} for each in (",", " ", "'", ".")),
    *({"thousands": "\N{RIGHT SINGLE QUOTATION MARK}", "engine": "python"},),
    *({"decimal": ",", "thousands": each, "engine": "python"} for each in "\u00a0\u202f"),
)


@dataclass(frozen=True)
class Trial:
    """A call that was tried: its options, and the frame that came back."""

    options: Options
    frame: Foreign

    @cached_property
    def numbers(self) -> list[int]:
        """The positions of the columns that hold numbers."""
        kinds = [getattr(each, "kind", "O") for each in self.frame.dtypes]
        filled = self.frame.notna().any().to_numpy()
        return [i for i, kind in enumerate(kinds) if kind in "iufc" and filled[i]]

    @cached_property
    def texts(self) -> list[int]:
        """The positions of the columns that hold texts."""
        kinds = [getattr(each, "kind", "O") for each in self.frame.dtypes]
        return [i for i, kind in enumerate(kinds) if kind == "O"]

    @property
    def width(self) -> int:
        """The number of columns, levels of the index that are read from the text included."""
        return int(self.frame.shape[1]) + (self.frame.index.nlevels if self.has_index else 0)

    @property
    def has_index(self) -> bool:
        """True if the library took columns without a heading as labels of rows."""
        return type(self.frame.index).__name__ != "RangeIndex"

    @cached_property
    def cells(self) -> Sequence[list[str]]:
        """The texts in each column, once each, without missing ones; none for numbers."""
        return [
            [str(each) for each in self.frame.iloc[:, i].dropna().unique()[:ROWS].tolist()]
            if i in self.texts
            else []
            for i in range(self.frame.shape[1])
        ]

    def keeps(self, other: Trial) -> bool:
        """Return whether it has the shape of another one, and all of its numbers."""
        if self.frame.shape != other.frame.shape:
            return False
        columns = [(self.frame.iloc[:, i], other.frame.iloc[:, i]) for i in other.numbers]
        return all(one.dtype.kind in "iuf" and one.equals(each) for one, each in columns)

    def improves(self, other: Trial) -> bool:
        """Return whether it keeps another one, and more of its columns are numbers."""
        return self.keeps(other) and len(self.numbers) > len(other.numbers)


Proposal = tuple[Options, Callable[[Trial, Trial], bool]]
"""Options to add, and what decides between the new trial and the old one."""


class Text:
    """The beginning of a text of rows, on which calls are tried."""

    def __init__(self, text: str, read: Callable[..., Foreign]) -> None:
        self.text, self._read = text, read

    def attempt(self, options: Options) -> Trial | None:
        """Return what a call gives, or None if it fails."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                return Trial(options, self._read(StringIO(self.text), **options))
            except MemoryError:
                raise
            except Exception:  # the library has many ways to refuse
                return None

    def rows(self, options: Options) -> list[Row]:
        """Return the rows that are not blank, each with the number of lines before it."""
        text, separator = self.text, str(options.get("sep", ","))
        if "comment" in options:
            text = re.sub(r"#.*", "", text)
        if separator == _BLANKS:
            lines = enumerate(text.splitlines()[: ROWS + _MOST_ABOVE])
            return [(at, line.split()) for at, line in lines if line.strip()]
        quoting: Foreign = {k: v for k, v in options.items() if k in ("quoting", "escapechar")}
        reader = csv.reader(StringIO(text, newline=""), delimiter=separator, **quoting)
        found, before = list[Row](), 0
        with contextlib.suppress(csv.Error):
            for row in reader:
                found += [(before, row)] if row else []
                before = reader.line_num
        return found


def choose_call(text: Text, start: Options) -> Trial | None:
    """Return the best call, from the options that the file's name gives; None if all fail."""
    trial = _choose_shape(text, start)
    if trial is None:
        return None
    cells = (_propose_remarks, _propose_blanks, _propose_marks, _propose_missing)
    for propose in (_propose_header, *(cells if trial.width <= _WIDEST else ())):
        for options, judge in propose(text, trial):
            better = text.attempt({**trial.options, **options})
            if better is not None and judge(better, trial):
                trial = better
                break
    has_codes = trial.width <= _WIDEST and CODES.search(text.text)
    return keep_codes(text.attempt, trial) if has_codes else trial


# separator and first line -------------------------------------------------------------------------


def _choose_shape(text: Text, start: Options) -> Trial | None:
    best, rows = text.attempt(start), text.rows(start)
    is_open = text.text.count('"') % 2 == 1
    if best is not None and not is_open and not _is_doubtful(best, rows):
        return best
    best_score = _score(best, rows)
    usual = start.get("sep", ",")
    for variant in _list_variants(text.text):
        for separator in dict.fromkeys((usual, *_SEPARATORS)):
            given = {**start, **({} if separator == usual else {"sep": separator}), **variant}
            rows = text.rows(given)
            first = find_first(rows)
            if first is None or (separator == _BLANKS and not _are_numbers(rows[first + 1 :])):
                continue
            skipped = {"skiprows": rows[first][0]} if first and "comment" not in variant else {}
            trial = text.attempt({**given, **skipped})
            if trial is not None and (score := _score(trial, rows[first:])) > best_score:
                best, best_score = trial, score
    return best


def _list_variants(text: str) -> Iterator[Options]:
    if _REMARK.search(text):
        yield {"comment": "#"}
    yield {}
    if '\\"' in text:
        yield {"escapechar": "\\"}
    if text.count('"') % 2:  # one is never closed
        yield {"quoting": csv.QUOTE_NONE}


def _is_doubtful(trial: Trial, rows: Sequence[Row]) -> bool:
    is_joined = any(sign in str(label) for label in trial.frame.columns for sign in ";\t|")
    index = trial.frame.index
    is_odd = trial.has_index and (index.nlevels > 1 or index.dtype.kind == "O")
    return trial.width == 1 or is_joined or is_odd or find_first(rows) != 0 or _share(rows) < 0.9


def _score(trial: Trial | None, rows: Sequence[Row]) -> tuple[bool, float, int, int]:
    """Return how well rows are separated, how regular they are, and how many cells are numbers."""
    if trial is None or trial.width == 1:
        return False, 0.0, 0, 0
    others = {";", "\t", "|"} - {trial.options.get("sep")}
    joined = sum(any(sign in cell for cell in row for sign in others) for _, row in rows)
    return joined * 2 < len(rows), round(_share(rows), 1), len(trial.numbers), trial.width


def _share(rows: Sequence[Row]) -> float:
    widths = Counter(len(row) for _, row in rows)
    return widths.most_common(1)[0][1] / len(rows) if rows else 0.0


def find_first(rows: Sequence[Row]) -> int | None:
    """Return the first row from which nearly all have one width; None if there is none."""
    if not rows:
        return None
    usual = Counter(len(row) for _, row in rows[len(rows) // 3 :]).most_common(1)[0][0]
    if usual == 1:
        return None
    for first, (_, row) in enumerate(rows[: min(_MOST_ABOVE, len(rows) // 2 + 1)]):
        # R writes no heading above the labels of rows; some end the heading with a separator.
        if abs(len(row) - usual) <= 1 and sum(map(bool, row)) > usual // 2:
            below = rows[first + 1 : first + 21]
            if sum(len(each) == usual for _, each in below) >= 0.9 * len(below):
                return first
    return None


def _are_numbers(rows: Sequence[Row]) -> bool:
    cells = [cell for _, row in rows for cell in row]
    return 0 < len(cells) <= 2 * sum(_NUMBER.fullmatch(each) is not None for each in cells)


# what stands in the cells -------------------------------------------------------------------------


def _propose_header(text: Text, trial: Trial) -> Iterator[Proposal]:
    """Propose that there is no header, or that the separator ends each line."""
    at: Foreign = trial.options.get("skiprows", 0)
    rows = [(line, row) for line, row in text.rows(trial.options) if line >= at]
    for (line, _), (following, _) in pairwise(rows[:_MOST_ABOVE]):
        if following > line + 1 and "comment" not in trial.options:
            yield {"skiprows": following}, lambda new, old: len(new.numbers) > len(old.numbers)
    header = rows[0][1] if rows else []
    width = len(header)
    if trial.has_index and not any(any(row[width:]) for _, row in rows):
        yield {"usecols": range(width)}, lambda new, old: len(new.frame) == len(old.frame)
    numbers = [each for each in header if _NUMBER.fullmatch(each)]
    is_filled = bool(header) and all(map(str.strip, header))
    if is_filled and len(numbers) * 2 >= width and not _are_counted(numbers):
        shape = trial.frame.shape[0] + 1, trial.frame.shape[1]
        least = len(trial.numbers)
        yield (
            {"header": None},
            lambda new, old: len(new.numbers) >= least and new.frame.shape == shape,
        )


def _are_counted(numbers: Sequence[str]) -> bool:
    """Return whether numbers are names of columns: years, or months, one after the other."""
    steps = {float(each) - float(one) for one, each in pairwise(numbers)}
    return len(numbers) > 2 and len(steps) == 1 and steps != {0.0}


def _propose_remarks(text: Text, trial: Trial) -> Iterator[Proposal]:
    """Propose that lines which begin with a `#` are remarks, if no cell is lost."""
    remarks = len(_REMARK.findall(text.text))
    is_header = str(trial.frame.columns[0]).startswith("#") if trial.frame.shape[1] else True
    if not remarks or is_header or "comment" in trial.options:
        return

    def judge(new: Trial, old: Trial) -> bool:
        filled, before = (each.frame.iloc[:, 1:].count() for each in (new, old))
        is_better = len(new.numbers) > len(old.numbers) or filled.equals(before)
        return is_better and len(new.frame) == len(old.frame) - remarks

    yield {"comment": "#"}, judge


def _propose_blanks(text: Text, trial: Trial) -> Iterator[Proposal]:
    """Propose to leave out blanks behind separators."""
    labels = [str(each) for each in trial.frame.columns]
    texts = (cell for i in trial.texts for cell in trial.cells[i][:100])
    if any(each[:1] == " " for each in (*labels[1:], *texts)):
        yield {"skipinitialspace": True}, Trial.keeps


def _propose_marks(text: Text, trial: Trial) -> Iterator[Proposal]:
    """Propose signs of decimals and of thousands, if groups have three digits."""
    if not trial.texts:
        return
    is_comma = str(trial.options.get("sep", ",")) == ","
    for marks in _MARKS:
        signs = [marks[each] for each in ("decimal", "thousands") if each in marks]
        written = _write_pattern(marks)
        filled = [i for i in trial.texts if trial.cells[i]]
        columns = [i for i in filled if all(map(written.fullmatch, trial.cells[i]))]
        cells = [cell for i in columns for cell in trial.cells[i]]
        if not all(any(sign in cell for cell in cells) for sign in signs):
            continue
        may_group = len(signs) == 1 and all(map(_THREE.fullmatch, cells))
        is_grouped = is_comma or any(len(re.findall(r"[,.' ]", each)) > 1 for each in cells)
        if may_group and (marks == {"decimal": ","} or not is_grouped):
            continue
        others = {
            trial.frame.columns[i]: str
            for i in {*trial.texts} - {*columns}
            if any(sign in cell for cell in trial.cells[i] for sign in signs)
        }
        kept = {"dtype": others} if others else {}
        yield {**marks, **kept}, Trial.improves


_THREE = re.compile(r"\s*[-+]?(?:[1-9]\d{0,2}(?:[,.]\d{3})+|\d{1,3})\s*")
"""Numbers whose commas or points may separate thousands, or decimals."""


def _write_pattern(marks: Mapping[str, str]) -> re.Pattern[str]:
    point, group = re.escape(marks.get("decimal", ".")), re.escape(marks.get("thousands", ""))
    whole = rf"(?:\d+|\d{{1,3}}(?:{group}\d{{3}})+)" if group else r"\d+"
    return re.compile(rf"\s*[-+]?{whole}(?:{point}\d*)?(?:[eE][-+]?\d+)?\s*")


def _propose_missing(text: Text, trial: Trial) -> Iterator[Proposal]:
    """Propose a sign that is the only exception among numbers as a missing value."""
    signs: dict[object, list[str]] = {}
    for i in trial.texts:
        others = {each for each in trial.cells[i] if not _NUMBER.fullmatch(each)}
        if len(others) == 1 and _SIGN.fullmatch(next(iter(others)).strip()):
            signs[trial.frame.columns[i]] = sorted(each.strip() for each in others)
    if signs:
        marks = sorted({each for found in signs.values() for each in found})
        yield (
            {"na_values": marks},
            lambda new, old: (
                new.improves(old)
                and not (new.frame.isna() != old.frame.isna())
                .drop(columns=list(signs))
                .any(axis=None)
            ),
        )
        yield {"na_values": signs}, Trial.improves


def keep_codes(attempt: Callable[[Options], Trial | None], trial: Trial) -> Trial:
    """Return the call with `dtype=str` for whole numbers that are codes."""
    if not trial.numbers or not trial.frame.columns.is_unique:
        return trial
    known: Foreign = trial.options.get("dtype", {})
    raw = attempt({**trial.options, "dtype": str})
    if raw is None or raw.frame.shape != trial.frame.shape:
        return trial
    codes = dict(known)
    for i in trial.numbers:
        cells, has_gaps = raw.cells[i], trial.frame.iloc[:, i].dtype.kind == "f"
        code = _LONG if has_gaps else _CODE
        is_code = any(map(_CODE.fullmatch, cells)) or any(map(code.fullmatch, cells))
        if is_code and all(map(str.isdecimal, cells)):
            codes[trial.frame.columns[i]] = str
    return (attempt({**trial.options, "dtype": codes}) or trial) if codes != known else trial
