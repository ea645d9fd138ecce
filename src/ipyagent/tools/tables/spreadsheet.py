"""Sheets of .xlsx files, read from their XML in bounded memory, without formulas or macros."""

from __future__ import annotations

import datetime
import re
import zipfile
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from xml.parsers import expat

from ipyagent.kernel.describe.safe_inspect import one_line
from ipyagent.tools.tables.cells import Reading, in_columns, is_date
from ipyagent.tools.tables.grid import EITHER, arrange, count_repeated
from ipyagent.tools.tables.row_kinds import count_filled
from ipyagent.tools.tables.sample import NotTableError, Sample, SampleColumn, Source, open_archive

ENDINGS = ("xlsx", "xlsm")
_MOST_XML = 3_000_000
"""Unpacked bytes that are read of one part: a few kilobytes can unpack to gigabytes."""
_MOST_ROWS = 1_000
_MOST_COLUMNS = 16_384
_MOST_CELLS = 30_000
_SHEETS = 20
_GAP = 20
"""Empty rows that are kept between two others."""
_BUILT_IN_DATES = {*range(14, 23), *range(27, 37), *range(45, 48), *range(50, 59)}
_DATE_CODE = re.compile(r"[dmyhs]", re.IGNORECASE)
_LITERALS = re.compile(r'"[^"]*"|\[[^\]]*\]|[\\_*].')
_DURATION = re.compile(r"\[[hms]+\]", re.IGNORECASE)
_REFERENCE = re.compile(r"([A-Z]{1,3})([0-9]{1,7})")
_EPOCH, _EPOCH_1904 = datetime.datetime(1899, 12, 30), datetime.datetime(1904, 1, 1)
_ELEMENT = Callable[[str, dict[str, str]], object]


class _EnoughError(Exception):
    """Enough of a part was read."""


def read_workbook(source: Source) -> list[Sample]:
    """Return the sheets of a workbook in their order; raises NotTableError."""
    with open_archive(source.file, source.size) as archive:
        book = _Workbook(archive)
        sheets = book.sheets()
        found = [each for name, part in sheets[:_SHEETS] if (each := _read_sheet(book, name, part))]
    if not found:
        raise NotTableError("its sheets are empty")
    found.sort(key=lambda each: each.is_cover)
    first, *further = found
    reading = first.reading
    others, doubt = first.list_rivals(further)
    if others:
        options = {"sheet_name": others[0].name, **others[0].reading.options}
        reading = replace(reading.with_doubt(doubt), others=options, after="")
    has_more = len(found) > 1 and not found[1].is_cover
    is_named = has_more or first.name != book.first_sheet
    reading = reading.with_options("read_excel", {"sheet_name": first.name} if is_named else {})
    hidden = ", ".join(map(repr, map(one_line, book.hidden[:_SHEETS])))
    facts = [*reading.facts(source.path), *first.sample.facts]
    facts += [f"hidden sheets, not shown here: {hidden}"] if hidden else []
    return [replace(first.sample, facts=tuple(facts)), *(each.sample for each in further)]


@dataclass(frozen=True)
class _ReadSheet:
    """A sheet as a sample, and its reading; a cover has a title, notes or pairs, but no table."""

    name: str
    sample: Sample
    reading: Reading
    is_cover: bool
    has_header: bool

    def list_rivals(self, further: Sequence[_ReadSheet]) -> tuple[list[_ReadSheet], str]:
        """Return the sheets that may be meant instead, and the words for the doubt."""
        if alike := [each for each in further if self.has_columns_of(each)]:
            names = ", ".join(repr(one_line(each.name)) for each in (self, *alike))
            return alike, f"{len(alike) + 1} sheets have the same columns: {names}"
        headed = [each for each in further if each.has_header and not each.is_cover]
        if not headed or self.has_header or self.is_cover:
            return [], ""
        names = f"{one_line(self.name)!r} has none, {one_line(headed[0].name)!r} has one"
        return headed, f"the table may be in the sheet that has a header, {names}"

    def has_columns_of(self, other: _ReadSheet) -> bool:
        """Return whether the columns of one sheet are all in the other."""
        mine, theirs = (
            {str(each.label).strip().casefold() for each in sheet.sample.columns}
            for sheet in (self, other)
        )
        return mine == theirs or (len(mine & theirs) > 1 and (mine <= theirs or theirs <= mine))


def _read_sheet(book: _Workbook, name: str, part: str) -> _ReadSheet | None:
    sheet = _Sheet(book.strings(), book.date_styles(), book.epoch)
    whole = book.parse(part, sheet.start, sheet.end, sheet.text)
    rows = sheet.rows if whole else sheet.rows[:-1]
    while rows and not any(rows[-1]):
        rows.pop()
    width = max((len(row) for row in rows), default=0)
    grid = arrange([[*map(str, row), *[""] * (width - len(row))] for row in rows], whole=whole)
    if not grid.names:
        return None
    if "header" not in grid.options:
        header = rows[grid.top - 1]
        labels = [
            cell.label() if isinstance(cell, _NumberText) and cell == name else name
            for name, cell in zip(grid.names, header, strict=False)
        ]
        grid = replace(grid, names=[*labels, *grid.names[len(labels) :]])
    total = len(grid.rows)
    if not whole:
        total = max(total, sheet.last_row - grid.top)
    kind = f"Excel sheet {one_line(name)!r}"
    columns, reading = grid.describe(commas=True)
    if names := sheet.doubt_formulas(columns, grid.top, trusted=book.keeps_results):
        why = "formulas have no results (a spreadsheet program has to save the file)"
        reading = reading.with_doubt(in_columns(why, names), f".drop(columns={names})")
    merged = dict.fromkeys(at for at, row in sheet.merged if row > grid.top)
    if names := [columns[at].label for at in merged if at < len(columns)]:
        filled = ", ".join(f"{name!r}: lambda t: t[{name!r}].ffill()" for name in names)
        why = in_columns("merged cells may stand for each of their rows", names)
        reading = reading.with_doubt(why, f".assign(**{{{filled}}})")
    facts = tuple(filter(None, (*grid.facts, count_repeated(grid, whole=whole))))
    has_numbers = any(each.dtype.startswith(("int", "float", "number")) for each in columns)
    is_short = len(grid.rows) < 2 or "header" in grid.options
    is_cover = max(map(count_filled, grid.rows), default=0) < 3 and (is_short or not has_numbers)
    sample = Sample(kind, columns, grid.width, total, len(grid.rows), whole, facts)
    return _ReadSheet(name, sample, reading, is_cover, "header" not in grid.options)


@dataclass
class _Workbook:
    """The parts of a workbook; each is read in bounded memory."""

    archive: zipfile.ZipFile
    epoch: datetime.datetime = _EPOCH
    keeps_results: bool = True
    """False if formulas are to be computed when the file is opened: a result of 0 may be none."""
    first_sheet: str | None = None
    hidden: list[str] = field(default_factory=list)
    _strings: list[str] | None = None
    _dates: dict[int, bool] | None = None

    def parse(
        self, part: str, start: _ELEMENT, end: _ELEMENT | None = None, text: object = None
    ) -> bool:
        """Parse a part of XML; return whether it was read as a whole."""
        parser = expat.ParserCreate()
        parser.buffer_text = True
        parser.StartDoctypeDeclHandler = _refuse_doctype
        parser.StartElementHandler = lambda name, given: start(name.rpartition(":")[2], given)
        if end is not None:
            parser.EndElementHandler = lambda name: end(name.rpartition(":")[2], {})
        if callable(text):
            parser.CharacterDataHandler = text
        try:
            with self.archive.open(part) as file:
                data = file.read(_MOST_XML + 1)
            parser.Parse(data[:_MOST_XML], len(data) <= _MOST_XML)
        except _EnoughError:
            return False
        except KeyError:
            raise NotTableError(f"its part {one_line(part)} is missing") from None
        except (expat.ExpatError, zipfile.BadZipFile, zlib.error, OSError, EOFError) as error:
            raise NotTableError(f"it is damaged: {error}") from None
        except (RuntimeError, NotImplementedError, ValueError) as error:  # encrypted, for example
            raise NotTableError(f"it cannot be unpacked: {error}") from None
        return len(data) <= _MOST_XML

    def sheets(self) -> list[tuple[str, str]]:
        """Return the names of the visible sheets and of the parts that hold them."""
        targets: dict[str, str] = {}
        listed: list[tuple[str, str]] = []

        def add_target(name: str, given: dict[str, str]) -> None:
            if name == "Relationship":
                target = given.get("Target", "")
                path = target.lstrip("/") if target.startswith("/") else f"xl/{target}"
                targets[given.get("Id", "")] = path

        def add_sheet(name: str, given: dict[str, str]) -> None:
            if name == "workbookPr" and given.get("date1904", "").strip() in ("1", "true"):
                self.epoch = _EPOCH_1904
            if name == "calcPr" and given.get("fullCalcOnLoad", "").strip() in ("1", "true"):
                self.keeps_results = False
            if name != "sheet":
                return
            title = given.get("name", "")
            self.first_sheet = title if self.first_sheet is None else self.first_sheet
            if given.get("state", "visible") != "visible":
                self.hidden.append(title)
                return
            key = next((v for k, v in given.items() if k.endswith(":id")), "")
            listed.append((title, key))

        self.parse("xl/_rels/workbook.xml.rels", add_target)
        self.parse("xl/workbook.xml", add_sheet)
        return [(name, targets[key]) for name, key in listed if key in targets]

    def strings(self) -> list[str]:
        """Return the shared strings, as many as are read."""
        if self._strings is None:
            self._strings = []
            if "xl/sharedStrings.xml" in self.archive.namelist():
                reader = _Strings(self._strings)
                self.parse("xl/sharedStrings.xml", reader.start, reader.end, reader.text)
        return self._strings

    def date_styles(self) -> dict[int, bool]:
        """Return the numbers of the styles that show dates, and whether these are durations."""
        if self._dates is None:
            styles = _Styles()
            if "xl/styles.xml" in self.archive.namelist():
                self.parse("xl/styles.xml", styles.start, styles.end)
            self._dates = styles.dates
        return self._dates


def _refuse_doctype(*_: object) -> None:
    raise NotTableError("its XML declares a document type, which sheets do not")


class _Strings:
    """The shared strings: each is the text within one element, phonetic hints left out."""

    def __init__(self, found: list[str]) -> None:
        self._found, self._parts, self._inside, self._hint = found, [""], False, False

    def start(self, name: str, given: dict[str, str]) -> None:
        if name == "si":
            self._parts = []
        self._hint = self._hint or name == "rPh"
        self._inside = name == "t" and not self._hint

    def end(self, name: str, given: dict[str, str]) -> None:
        self._inside = False
        if name == "rPh":
            self._hint = False
        if name == "si":
            self._found.append("".join(self._parts))

    def text(self, data: str) -> None:
        if self._inside:
            self._parts.append(data)


class _Styles:
    """The styles of cells, by number: which of them show dates, or durations."""

    def __init__(self) -> None:
        self.dates: dict[int, bool] = {}  # whether they show durations
        self._codes: dict[str, bool] = {str(code): code == 46 for code in _BUILT_IN_DATES}
        self._inside, self._number = False, 0

    def start(self, name: str, given: dict[str, str]) -> None:
        if name == "numFmt" and given.get("numFmtId", "").isdecimal():
            written = given.get("formatCode", "")
            code, lasts = _LITERALS.sub("", written), _DURATION.search(written) is not None
            if lasts or (_DATE_CODE.search(code) and "0" not in code.split(".")[0]):
                self._codes[given["numFmtId"]] = lasts
        elif name == "cellXfs":
            self._inside = True
        elif name == "xf" and self._inside:
            if (code := given.get("numFmtId", "")) in self._codes:
                self.dates[self._number] = self._codes[code]
            self._number += 1

    def end(self, name: str, given: dict[str, str]) -> None:
        if name == "cellXfs":
            self._inside = False


@dataclass
class _Sheet:
    """The first rows of a sheet as text."""

    strings: list[str]
    date_styles: dict[int, bool]
    epoch: datetime.datetime = _EPOCH
    rows: list[list[str]] = field(default_factory=list)
    last_row: int = 0
    """The last row by the sheet's own account."""
    merged: list[tuple[int, int]] = field(default_factory=list)
    """The column and the first row of cells that are one over several rows."""
    _formulas: list[tuple[int, int, str]] = field(default_factory=list)
    """Rows and columns of formulas, with the numbers that are their results."""
    _is_formula: bool = False
    _kind: str = ""
    _style: int = 0
    _column: int = 0
    _cells: int = 0
    _parts: list[str] | None = None

    def start(self, name: str, given: dict[str, str]) -> None:
        match name:
            case "dimension":
                ends = _REFERENCE.findall(given.get("ref", ""))
                self.last_row = int(ends[-1][1]) if ends else 0
            case "row":
                self._start_row(given.get("r", ""))
            case "c":
                reference = _REFERENCE.fullmatch(given.get("r", ""))
                self._column = _column_number(reference[1]) if reference else self._column + 1
                self._kind, style = given.get("t", "n"), given.get("s", "0")
                self._style = int(style) if style.isdecimal() and len(style) < 8 else 0
                self._is_formula = False
            case "f":
                self._is_formula = True
                self._formulas.append((len(self.rows) - 1, self._column, ""))
            case "v" | "t":
                self._parts = []
            case "mergeCell":
                ends = _REFERENCE.findall(given.get("ref", ""))
                if len(ends) == 2 and ends[0][1] != ends[1][1]:
                    self.merged.append((_column_number(ends[0][0]), int(ends[0][1])))

    def _start_row(self, number: str) -> None:
        wanted = int(number) if number.isdecimal() and len(number) < 8 else len(self.rows) + 1
        if len(self.rows) >= _MOST_ROWS or self._cells > _MOST_CELLS:
            raise _EnoughError
        # Empty rows are left out of the file; a table that begins far below is not looked for.
        self.rows += [[] for _ in range(max(1, min(wanted - len(self.rows), _GAP)))]
        self._column = -1

    def text(self, data: str) -> None:
        if self._parts is not None:
            self._parts.append(data)

    def end(self, name: str, given: dict[str, str]) -> None:
        if name in ("v", "t") and self._parts is not None and self.rows:
            self._add_cell("".join(self._parts))
            self._parts = None

    def _add_cell(self, raw: str) -> None:
        if not 0 <= self._column < _MOST_COLUMNS:
            return
        if self._is_formula and (raw or self._kind != "n"):
            self._formulas[-1] = (*self._formulas[-1][:2], raw or "text")
        row = self.rows[-1]
        missing = max(1, self._column + 1 - len(row))
        row.extend([""] * (self._column + 1 - len(row)))
        self._cells += missing
        text = self._convert(raw)
        row[self._column] = row[self._column] + text if row[self._column] else text

    def doubt_formulas(
        self, columns: list[SampleColumn], top: int, *, trusted: bool
    ) -> list[object]:
        """Mark the columns with formulas that have no results; return their names."""
        names = []
        for n, column in enumerate(columns):
            results = {text for row, at, text in self._formulas if at == n and row >= top}
            if "" in results or (not trusted and results == {"0"}):
                columns[n] = replace(column, dtype=EITHER, ends=(), choices=())
                names.append(column.label)
        return names

    def _convert(self, raw: str) -> str:
        match self._kind:
            case "s":
                at = int(raw) if raw.isdecimal() and len(raw) < 9 else -1
                return self.strings[at] if 0 <= at < len(self.strings) else "…"
            case "b":
                return "True" if raw == "1" else "False"
            case "e":  # a division by zero, for example
                return ""
            case "n" if self._style in self.date_styles:
                lasts = self.date_styles[self._style]
                return _NumberText(_date_text(raw, self.epoch, lasts=lasts))
            case "n":
                return _NumberText(raw)
        return raw


class _NumberText(str):
    """The text of a cell that holds a number or a date."""

    def label(self) -> object:
        """Return it as libraries label a column: text stays text, but numbers are numbers."""
        try:
            return int(self) if float(self).is_integer() else float(self)
        except (ValueError, OverflowError):
            return datetime.datetime.fromisoformat(self) if is_date(self) else str(self)


def _column_number(letters: str) -> int:
    number = 0
    for letter in letters:
        number = 26 * number + ord(letter) - 64
    return number - 1


def _date_text(raw: str, epoch: datetime.datetime, *, lasts: bool) -> str:
    """Return the date, time or duration of a number in a sheet as text; other text as it is."""
    try:
        days = float(raw)
        seconds = round(days * 86_400)
        early = 0 < days < 60 and epoch == _EPOCH  # before a leap day that never was
        moment = epoch + datetime.timedelta(days=early, seconds=seconds)
    except (ValueError, OverflowError):
        return raw
    if lasts:
        return f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    if 0 <= days < 1:
        return moment.time().isoformat()
    if moment.time() == datetime.time():
        return moment.date().isoformat()
    return moment.isoformat(" ")
