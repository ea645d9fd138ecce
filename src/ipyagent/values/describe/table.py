"""Descriptions of tables in one line or in detail, for any library, with what may mislead in them.

As kinds of text in one column, gaps, repeated rows, and a last row of sums.
"""

from __future__ import annotations

import contextlib
import csv
import io
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice, pairwise, zip_longest
from typing import Any

from ipyagent.plaintext import human_size
from ipyagent.redaction import Secrecy
from ipyagent.values.describe.python_values import (
    Description,
    is_comparable,
    key_secrecy,
    preview,
    text,
)
from ipyagent.values.describe.safe_inspect import one_line, type_name

NAMED = 30
"""Columns that are named in a line."""
COLUMNS = 100
"""Columns that are described in detail."""
HEAD = 5
FILE_HEAD = 2
"""Rows of a file that are shown: with ends and choices beside them, more say little."""
COUNTED_CELLS = 5_000_000
"""Cells up to which numbers and times are read as a whole; above that, it takes too long."""
_READ_CELLS, _SAMPLED_CELLS = 60_000, 20_000
"""Cells up to which all values are read and rows compared; and of a larger table."""
_FEWEST_ROWS = 100
"""Rows that are read of the widest table, at both ends and between."""
QUICK_ROWS = 20_000
"""Rows up to which missing texts are counted."""
_UNIQUE_CELLS = 200_000
TIMES = "\N{MULTIPLICATION SIGN}"
_CHOICES = 80
"""Characters of the values of a column, if they are few."""
_SHORTER = ((COLUMNS, 2), (COLUMNS, 0), (40, 0), (25, 0), (15, 0), (8, 0), (4, 0), (1, 0))
"""Columns and rows that are tried to shorten a description."""
_LINE = 200
"""Characters of a line of a file."""
_NAMES = 300
"""Bytes for the names of columns that are left out."""
_ODDITIES = 8
_Described = tuple[list[str], bool]
"""The row of a column in a profile, and whether it has values: computed once for all lengths."""
_NULLS = {"nan", "NaN", "NaT", "None", "<NA>"}


def label_text(label: object) -> str:
    """Return a column's label as text; quoted if it could be misread."""
    if type(label) is not str:
        return preview(label, limit=60)
    if len(label.splitlines()) > 1:
        return one_line(repr(label), 60)
    plain = one_line(label, 60)
    misread = plain != plain.strip() or not plain or any(c in "\"',:()[]=|" for c in plain)
    return repr(plain) if misread else plain


def _is_like_value(text: str) -> bool:
    """Return whether a text looks as another value does: `1`, `None`."""
    with contextlib.suppress(ValueError):
        return float(text) is not None
    return text in ("True", "False", "None", "<NA>", "NaT")


@dataclass(frozen=True)
class Column:
    """A column: its label, its type's name, and how to describe it on request."""

    label: object
    dtype: str
    nulls: Callable[[], int] | None
    unique: Callable[[], int] | None
    values: Callable[[slice], Sequence[object]]
    ends: Callable[[], Sequence[object]] = tuple
    """The smallest and the largest value, if that says more than an example; else none."""
    is_text: bool = True
    """False if labels may be of any type: then "1" is not 1."""
    is_index: bool = False

    @property
    def name(self) -> str:
        """The label as text; quoted if it could be misread."""
        name = label_text(self.label)
        is_other = type(self.label) is str and not self.is_text and _is_like_value(name)
        return repr(name) if is_other else name


@dataclass(frozen=True)
class Table:
    """A table of any library."""

    kind: str
    rows: int
    width: int
    columns: Sequence[Column]
    memory: Callable[[], int]
    suffix: str = ""
    secret: Secrecy = Secrecy.NONE
    row_count: str = ""
    """The number of rows in words, if `rows` are only the first of a table in a file."""
    facts: tuple[str, ...] | None = None
    """Lines below the size; None: how much memory it takes."""
    counted_of: str = ""
    """Words behind numbers of missing values, if they are those of a part: " of 4,000"."""
    index: Sequence[Column] = ()
    """The labels of the rows, unless they are only numbered."""
    levels: Sequence[object] = ()
    """The names of the levels of the columns' labels, if they have any."""
    lines: Sequence[str] = ()
    """Lines of a file as they stand, in place of its first rows."""

    @property
    def size(self) -> str:
        """Type and shape."""
        size = f"{self.kind}, {self.row_count or f'{self.rows:,} rows'}"
        return size if self.is_series else f"{size} {TIMES} {self.width:,} columns"

    @property
    def is_series(self) -> bool:
        """True for a column without a table around it."""
        return self.kind == "Series"

    def line(self) -> str:
        """Return size, columns and their types, in one line."""
        return self.summarize().text

    def summarize(self) -> Description:
        """Return the parts of the line."""
        index = [f"index {_name_of_index(c)}: {c.dtype}" for c in self.index]
        if self.is_series:
            labels = [self.columns[0].dtype, *index]
        else:
            labels = [*index, *(f"{c.name}: {c.dtype}" for c in self.columns[:NAMED])]
            if self.width > NAMED:
                labels.append(f"… {self.width - NAMED:,} more")
        return Description(self.size, f" ({', '.join(labels)})", self.suffix)

    def detail(self, limit: int | None = None) -> str:
        """Return size, memory, oddities, a description of each column, and the first rows.

        To stay within `limit` bytes, rows are left out first, then columns; the others are named.
        """
        samples = [self._sample(column) for column in self.columns]
        described = [*map(self._describe, self.columns, samples)]
        facts = "\n".join([*self._facts(), *self._list_oddities(samples)])
        is_brief = self.row_count or limit is not None
        full = self._render_detail(facts, described, FILE_HEAD if is_brief else HEAD)
        if limit is None or len(full.encode()) <= limit:
            return full
        for columns, rows in _SHORTER:
            table = replace(self, columns=self.columns[:columns])
            text = table._render_detail(facts, described[:columns], rows)
            room = limit - len(text.encode())
            if room >= (_NAMES if columns < len(self.columns) else 0):
                return text + _name_columns(self.columns[columns:], room)
        # No column fits: labels can be long in bytes.
        return facts.encode()[:limit].decode(errors="ignore")

    def _render_detail(self, facts: str, described: Sequence[_Described], rows: int) -> str:
        first_rows = [self._first_rows(rows)] if rows and (self.rows or not self.row_count) else []
        return "\n\n".join([facts, self._profile(described), *first_rows])

    def _facts(self) -> list[str]:
        facts = [self.size + self.suffix]
        facts += [f"memory: {human_size(self.memory())}"] if self.facts is None else self.facts
        if self.index:
            named = ", ".join(f"{_name_of_index(each)} ({each.dtype})" for each in self.index)
            facts.append(f"index, no column: {named}")
        facts += self.name_levels()
        if not self.row_count and self._read_rows < self.rows:
            what = "texts and repeated rows" if self._is_exact else "values and nulls"
            facts.append(f"{what}: from {self._read_rows:,} of these rows")
        return facts

    def name_levels(self) -> list[str]:
        """Return a line with the names of the levels of the columns, if they have any."""
        if all(level is None for level in self.levels):
            return []
        names = ("(no name)" if each is None else label_text(each) for each in self.levels)
        return [f"levels of the columns: {', '.join(names)}"]

    @property
    def _is_exact(self) -> bool:
        return self.rows * self.width <= COUNTED_CELLS

    @property
    def _read_rows(self) -> int:
        width = max(len(self.columns), 1)
        if self.rows * width <= _READ_CELLS:
            return self.rows
        return min(self.rows, 3 * max(_FEWEST_ROWS, _SAMPLED_CELLS // width // 3))

    def _sample(self, column: Column) -> list[Any] | None:
        """Return values that can be compared: all, or of rows at both ends and between.

        None if they are of unknown classes, or in a file.
        """
        third, rows = self._read_rows // 3, self.rows
        parts = [slice(rows)]
        if self._read_rows < rows:
            step = rows // third - 2
            middle = slice(third, third + step * third, step)
            parts = [slice(third), middle, slice(rows - third, rows)]
        with contextlib.suppress(Exception):  # some types of columns cannot do it
            values = [v for part in parts for v in column.values(part)]
            return _clear_missing(values) if values else None
        return None

    def _list_oddities(self, samples: Sequence[list[Any] | None]) -> list[str]:
        """Return lines on repeated rows, a row of sums, and texts that are nearly equal."""
        if self.is_series:
            return []
        found, columns = [], [*zip(self.columns, samples, strict=True)]
        known = [each for each in samples if each]
        is_numbered = all(each.label is None and "int" in each.dtype for each in self.index)
        is_whole = len(known) == self.width > 1 and is_numbered
        if is_whole and (count := _count_repeats(known)):
            found.append(f"{count:,} repeated rows")
        if self._read_rows == self.rows:
            named = ", ".join(
                each.name
                for each, sample in columns
                if _is_numeric(sample) and _ends_in_sum(sample or ())
            )
            found += [f"the last row is the sum of the rows above in {named}"] if named else []
        for column, sample in columns:
            texts = [each for each in sample or () if type(each) is str]
            for group in _find_spellings(texts)[:1]:
                spelled = " and ".join(self._write_texts(column, group[:3]))
                found.append(f"{column.name}: {spelled} differ only in case or blanks")
        return found[:_ODDITIES]

    def _profile(self, described: Sequence[_Described]) -> str:
        last = "values" if any(has_values for _, has_values in described) else "example"
        rows = [["column", "dtype", "nulls", "unique", last], *(row for row, _ in described)]
        if self.width > len(self.columns):
            rows.append([f"… {self.width - len(self.columns):,} more"])
        return align_columns(rows)

    def _describe(self, column: Column, sample: list[Any] | None) -> _Described:
        values = ""
        with contextlib.suppress(Exception):  # some types of columns cannot do it
            ends = column.ends() if self._is_exact else ()
            values = self._write_values(column, ends, sample)
        row = [column.name, column.dtype, *self._counts(column, sample)]
        return [*row, values or self._example(column)], bool(values)

    def _write_values(
        self, column: Column, ends: Sequence[object], sample: list[Any] | None
    ) -> str:
        """Return the ends of a column, its few values, or some; "" for none."""
        present = [each for each in sample or () if each is not None]
        numbers = [each for each in (*present, *ends) if type(each) in (int, float)]
        texts = [each for each in present if type(each) in (str, bool)]
        cells = [self._write_cells(column, part) for part in _split_range(numbers)]
        found = [" to ".join(dict.fromkeys(part)) for part in cells]
        if not numbers and ends:
            found = [" to ".join(dict.fromkeys(self._write_cells(column, ends)))]
        elif texts:
            picked, are_all = _pick_examples(texts)
            written = self._write_texts(column, picked, quote=bool(numbers))
            found += [*written, *([] if are_all else ["…"])]
        while found and sum(map(len, found)) > _CHOICES:
            found = found[:-1]
        return ", ".join(dict.fromkeys(found))

    def _example(self, column: Column) -> str:
        return next((v for v in self._cells(column) if v not in _NULLS), "")

    def _counts(self, column: Column, sample: list[Any] | None) -> list[str]:
        small = self.row_count or self.rows * self.width <= _UNIQUE_CELLS
        unique = _count(column.unique if small else None)
        if sample is not None and (column.nulls is None or not self._is_exact):
            part = f" of {len(sample):,}" if len(sample) < self.rows else ""
            return [f"{sample.count(None):,}{part}", unique]
        return [_count(column.nulls) + self.counted_of, unique]

    def _cells(self, column: Column, rows: slice = slice(HEAD)) -> list[str]:
        values: Sequence[object] = ()
        with contextlib.suppress(Exception):  # some types of columns cannot do it
            values = column.values(rows)
        return self._write_cells(column, values)

    def _write_cells(self, column: Column, values: Iterable[object]) -> list[str]:
        secret = max(self.secret, key_secrecy(column.label))
        return [write_cell(column, v, secret, 40) for v in values]

    def _write_texts(
        self, column: Column, texts: Sequence[object], *, quote: bool = False
    ) -> list[str]:
        """Return texts as cells, in quotes where blanks at their ends would be missed."""
        cells = self._write_cells(column, texts)
        return [repr(cell) if quote or cell != cell.strip() or not cell else cell for cell in cells]

    def _first_rows(self, most: int) -> str:
        columns = self.columns[:NAMED]
        is_open = not any(key_secrecy(each.label) for each in (*self.columns, *self.index))
        if self.lines and is_open:
            return write_lines(self.lines)
        shown = [*self.index, *columns]
        rows = [*islice(zip_longest(*map(self._cells, shown), fillvalue=""), most)]
        of = f", first {len(columns)} columns" if self.width > len(columns) else ""
        buffer = io.StringIO()
        writer = csv.writer(buffer, lineterminator="\n")
        names = [*map(_name_of_index, self.index), *(column.name for column in columns)]
        writer.writerows([names, *rows])
        last = ""
        if self.rows > most and not self.row_count:
            last = " and the last one"
            end = slice(self.rows - 1, self.rows)
            writer.writerows(zip_longest(*(self._cells(each, end) for each in shown), fillvalue=""))
        return f"first {min(most, self.rows)} rows{last}{of}:\n{buffer.getvalue().rstrip(chr(10))}"


def write_lines(lines: Sequence[str]) -> str:
    """Return lines of a file as they stand; none that may hold a secret."""
    labels = re.split(r"[,;|\t]", lines[0][:_LINE]) if lines else []
    if any(key_secrecy(each.strip("\"' ")) for each in labels):
        return ""
    # Indented: a line could look like a heading.
    shown = "".join(f"\n  {text(each, limit=_LINE)}" for each in lines)
    return f"first lines and the last one:{shown}"


def _is_numeric(values: Sequence[object] | None) -> bool:
    """Return whether there are numbers, and nothing else but missing ones."""
    return {*map(type, values or ())} - {type(None)} in ({int}, {float}, {int, float})


def write_cell(column: Column, value: object, secret: Secrecy, limit: int) -> str:
    """Return a value as a cell of CSV; a label is quoted if it could be misread as another one."""
    if type(value) is float and secret is Secrecy.NONE:
        return f"{value:.6g}" if 0 < abs(value) < 0.001 else repr(round(value, 6))
    if type(value) is not str:
        return preview(value, secret=secret, limit=limit)
    cell = text(value, secret=secret, limit=limit)
    return repr(cell) if column.is_index and _is_like_value(cell) else cell


def _name_of_index(level: Column) -> str:
    return "(no name)" if level.label is None else level.name


def _count(count: Callable[[], int] | None) -> str:
    """Return a count; "-" if there is none, or if a column's type cannot be counted."""
    with contextlib.suppress(Exception):
        return f"{count():,}" if count else "-"
    return "-"


def _name_columns(columns: Sequence[Column], room: int) -> str:
    """Return a line that names columns, in at most `room` bytes."""
    text = ", ".join(column.name for column in columns).encode()
    room -= len(b"\nalso: ,") + len("…".encode())
    if not text or room < 20:
        return ""
    if len(text) <= room:
        return f"\nalso: {text.decode()}"
    return f"\nalso: {text[:room].rpartition(b', ')[0].decode()}, …"


def align_columns(rows: Sequence[Sequence[str]]) -> str:
    """Return rows of cells as columns of text."""
    width = max(len(row) for row in rows)
    widths = [max(len(row[i]) for row in rows if i < len(row)) for i in range(width)]
    return "\n".join(
        "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=False)).rstrip()
        for row in rows
    )


# Oddities: what changes a result ------------------------------------------------------------------

_FEW = 6
"""Different values of a column that are named, at most."""
_FORMS = 12
"""Different forms of text that a column may have before letters are taken as equal."""
_COMPARED_TEXTS = 2_000
"""Different texts of a column that are compared."""
_FORMS_SHOWN = 4
_FEWEST_NUMBERS = 5
"""Different numbers from which a gap between them says something."""
_WORDS = re.compile(r"[^\W\d_]+(?: [^\W\d_]+)*")


def _clear_missing(values: Sequence[object]) -> list[Any] | None:
    """Return values that can be compared, with None where one is missing.

    None if some are of unknown classes: to compare them would run their code.
    """
    classes = {id(cls): cls for cls in map(type, values)}
    if not all(map(is_comparable, classes.values())):
        return None
    missing = {key for key, cls in classes.items() if type_name(cls) in ("NaTType", "NAType")}
    if missing or id(float) in classes:
        return [None if id(type(each)) in missing or each != each else each for each in values]
    return [*values]


def _pick_examples(texts: Sequence[str]) -> tuple[list[str], bool]:
    """Return texts that show how a column is written, and whether these are all.

    Of many, the first of the commonest form and of the rarest ones; of prose, one.
    """
    distinct = [*dict.fromkeys(texts)]
    if len(distinct) <= _FEW:
        return distinct, True
    forms = Counter[str]()
    examples: dict[str, str] = {}
    for generalize in (_generalize_digits, _generalize_words):
        forms, examples = Counter(), {}
        for each in distinct[:_COMPARED_TEXTS]:
            form = generalize(each[:80])
            forms[form] += 1
            examples.setdefault(form, each)
        if len(forms) <= _FORMS:
            break
    else:
        return distinct[:1], False
    common, *others = (form for form, _ in forms.most_common())
    return [examples[form] for form in (common, *others[1 - _FORMS_SHOWN :])], False


def _generalize_digits(text: str) -> str:
    return re.sub(r"\d+", "9", text)


def _generalize_words(text: str) -> str:
    def name_case(word: re.Match[str]) -> str:
        return "a" if word[0].islower() else "A" if word[0].isupper() else "Aa"

    return _WORDS.sub(name_case, _generalize_digits(text))


def _find_spellings(texts: Sequence[str]) -> list[list[str]]:
    """Return groups of texts that differ only in case or blanks."""
    groups: dict[str, list[str]] = {}
    for each in [*dict.fromkeys(texts)][:_COMPARED_TEXTS]:
        groups.setdefault(" ".join(each.split()).casefold(), []).append(each)
    return [group for group in groups.values() if len(group) > 1]


def _split_range(numbers: Sequence[float]) -> list[tuple[float, float]]:
    """Return the range of numbers, in two or three parts where a gap is wider than all the rest."""
    ordered = sorted(set(numbers))
    parts = [ordered]
    while len(ordered) >= _FEWEST_NUMBERS and len(parts) < 3:
        longest = max(parts, key=len)
        width, at = max((b - a, n) for n, (a, b) in enumerate(pairwise(longest), 1))
        if not math.isfinite(width) or width <= (longest[-1] - longest[0]) / 2:
            break
        place = parts.index(longest)
        parts[place : place + 1] = [longest[:at], longest[at:]]
        ordered = max(parts, key=len)
    return [(part[0], part[-1]) for part in parts if part]


def _count_repeats(columns: Sequence[Sequence[object]]) -> int:
    """Return how many rows are there already; the columns are as long as each other."""
    return len(columns[0]) - len(set(zip(*columns, strict=True))) if columns else 0


def _ends_in_sum(numbers: Sequence[float | None]) -> bool:
    """Return whether the last number is the sum of those above, which are several."""
    *above, last = numbers or [None]
    given = [each for each in above if each]
    total = math.fsum(given) if all(map(math.isfinite, given)) else math.nan
    return last is not None and len(given) > 2 and math.isclose(total, last) and last not in given
