"""Sheets of .xlsx files, read from their XML in bounded memory, without formulas or macros."""

from __future__ import annotations

import datetime
import re
import zipfile
import zlib
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from xml.etree.ElementTree import Element, ParseError, TreeBuilder, XMLParser

from ipyagent.kernel.describe.safe_inspect import one_line
from ipyagent.tools.tables.cells import Reading, in_columns, is_date
from ipyagent.tools.tables.grid import EITHER, arrange, count_repeated
from ipyagent.tools.tables.row_kinds import count_filled
from ipyagent.tools.tables.sample import NotTableError, Sample, SampleColumn, Source, open_archive

ENDINGS = ("xlsx", "xlsm")
_MOST_XML = 3_000_000
"""Unpacked bytes that are read of one part: a few kilobytes can unpack to gigabytes."""
_CHUNK = 1 << 16
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
    sheet, whole = _Sheet(book.strings, book.date_styles, book.epoch), False
    with suppress(_EnoughError):
        for each in book.elements(part, "dimension", "row", "mergeCell"):
            sheet.add(each)
        whole = True
    rows = sheet.rows
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

    def elements(self, part: str, *names: str) -> Iterator[Element]:
        """Yield the elements of these names in a part; raises _EnoughError if it is too long."""
        target = _Elements(names)
        parser = XMLParser(target=target)  # noqa: S314 - entities need a document type
        try:
            with self.archive.open(part) as file:
                for _ in range(_MOST_XML // _CHUNK):
                    data = file.read(_CHUNK)
                    parser.feed(data) if data else parser.close()
                    yield from target.take()
                    if not data:
                        return
        except KeyError:
            raise NotTableError(f"its part {one_line(part)} is missing") from None
        except (ParseError, zipfile.BadZipFile, zlib.error, OSError, EOFError) as error:
            raise NotTableError(f"it is damaged: {error}") from None
        except (RuntimeError, NotImplementedError, ValueError) as error:  # encrypted, for example
            raise NotTableError(f"it cannot be unpacked: {error}") from None
        raise _EnoughError

    def sheets(self) -> list[tuple[str, str]]:
        """Return the names of the visible sheets and of the parts that hold them."""
        targets: dict[str, str] = {}
        listed: list[tuple[str, str]] = []
        with suppress(_EnoughError):
            for each in self.elements("xl/_rels/workbook.xml.rels", "Relationship"):
                target = each.get("Target", "")
                path = target.lstrip("/") if target.startswith("/") else f"xl/{target}"
                targets[each.get("Id", "")] = path
        with suppress(_EnoughError):
            for each in self.elements("xl/workbook.xml", "workbookPr", "calcPr", "sheet"):
                if each.get("date1904", "").strip() in ("1", "true"):
                    self.epoch = _EPOCH_1904
                if each.get("fullCalcOnLoad", "").strip() in ("1", "true"):
                    self.keeps_results = False
                if _name(each) == "sheet":
                    title = each.get("name", "")
                    self.first_sheet = title if self.first_sheet is None else self.first_sheet
                    if each.get("state", "visible") == "visible":
                        key = next((v for k, v in each.items() if k.endswith("}id")), "")
                        listed.append((title, key))
                    else:
                        self.hidden.append(title)
        return [(name, targets[key]) for name, key in listed if key in targets]

    @cached_property
    def strings(self) -> list[str]:
        """The shared strings, as many as are read, without phonetic hints."""
        found: list[str] = []
        if "xl/sharedStrings.xml" in self.archive.namelist():
            with suppress(_EnoughError):
                for each in self.elements("xl/sharedStrings.xml", "si"):
                    parts = (part for part in each if _name(part) != "rPh")
                    found.append("".join(text for part in parts for text in _texts(part)))
        return found

    @cached_property
    def date_styles(self) -> dict[int, bool]:
        """The numbers of the styles that show dates, and whether these are durations."""
        dates: dict[int, bool] = {}
        codes = {str(code): code == 46 for code in _BUILT_IN_DATES}
        if "xl/styles.xml" not in self.archive.namelist():
            return dates
        with suppress(_EnoughError):
            for each in self.elements("xl/styles.xml", "numFmt", "cellXfs"):
                written, number = each.get("formatCode", ""), each.get("numFmtId", "")
                code, lasts = _LITERALS.sub("", written), _DURATION.search(written) is not None
                if lasts or (_DATE_CODE.search(code) and "0" not in code.split(".")[0]):
                    codes[number] = lasts
                for style, used in enumerate(each):
                    if (number := used.get("numFmtId", "")) in codes:
                        dates[style] = codes[number]
        return dates


class _Elements(TreeBuilder):
    """Builds the elements of a part, and keeps those of some names as they end."""

    def __init__(self, names: Collection[str]) -> None:
        super().__init__()
        self._names = names
        self._ended: list[Element] = []

    def doctype(self, *_: object) -> None:
        raise NotTableError("its XML declares a document type, which sheets do not")

    def end(self, tag: str) -> Element:
        element = super().end(tag)
        if _name(element) in self._names:
            self._ended.append(element)
        return element

    def take(self) -> Iterator[Element]:
        """Yield the elements that have ended since last time; each is emptied after its use."""
        for each in self._ended:
            yield each
            each.clear()
        self._ended.clear()


def _name(element: Element) -> str:
    return element.tag.rpartition("}")[2]


def _texts(element: Element) -> Iterator[str]:
    """Yield the texts and values within an element."""
    return (each.text or "" for each in element.iter() if _name(each) in ("t", "v"))


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
    _cells: int = 0

    def add(self, element: Element) -> None:
        """Add an element of the sheet; raises _EnoughError after the first rows."""
        ends = _REFERENCE.findall(element.get("ref", ""))
        match _name(element):
            case "row":
                self._add_row(element)
            case "dimension":
                self.last_row = int(ends[-1][1]) if ends else 0
            case "mergeCell" if len(ends) == 2 and ends[0][1] != ends[1][1]:
                self.merged.append((_column_number(ends[0][0]), int(ends[0][1])))

    def _add_row(self, row: Element) -> None:
        number = row.get("r", "")
        wanted = int(number) if number.isdecimal() and len(number) < 8 else len(self.rows) + 1
        if len(self.rows) >= _MOST_ROWS or self._cells > _MOST_CELLS:
            raise _EnoughError
        # Empty rows are left out of the file; a table that begins far below is not looked for.
        self.rows += [[] for _ in range(max(1, min(wanted - len(self.rows), _GAP)))]
        column = -1
        for cell in (each for each in row if _name(each) == "c"):
            reference = _REFERENCE.fullmatch(cell.get("r", ""))
            column = _column_number(reference[1]) if reference else column + 1
            if 0 <= column < _MOST_COLUMNS:
                self._add_cell(cell, column)

    def _add_cell(self, cell: Element, column: int) -> None:
        kind, style, row = cell.get("t", "n"), cell.get("s", "0"), self.rows[-1]
        texts = [*_texts(cell)]
        if any(_name(each) == "f" for each in cell):
            result = "".join(texts) or ("text" if texts and kind != "n" else "")
            self._formulas.append((len(self.rows) - 1, column, result))
        if texts:
            self._cells += max(1, column + 1 - len(row))
            row.extend([""] * (column + 1 - len(row)))
            number = int(style) if style.isdecimal() and len(style) < 8 else 0
            converted = [self._convert(raw, kind, number) for raw in texts]
            row[column] = converted[0] if len(texts) == 1 else "".join(converted)

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

    def _convert(self, raw: str, kind: str, style: int) -> str:
        match kind:
            case "s":
                at = int(raw) if raw.isdecimal() and len(raw) < 9 else -1
                return self.strings[at] if 0 <= at < len(self.strings) else "…"
            case "b":
                return "True" if raw == "1" else "False"
            case "e":  # a division by zero, for example
                return ""
            case "n" if style in self.date_styles:
                lasts = self.date_styles[style]
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
