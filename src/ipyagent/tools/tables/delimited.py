"""CSV files and their kin: encoding, separator, quotes and number of rows are found out."""

from __future__ import annotations

import codecs
import csv
import io
import re
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import IO, Any

from ipyagent.errors import PathValidationError
from ipyagent.phrases import ellipsize
from ipyagent.tools.tables.cells import is_value
from ipyagent.tools.tables.grid import arrange, count_repeated, width_and_share
from ipyagent.tools.tables.row_kinds import Row, list_values_below
from ipyagent.tools.tables.sample import (
    DAMAGED,
    NotTableError,
    Sample,
    Source,
    open_archive,
    open_packed,
)
from ipyagent.tools.text_encoding import BOM, TextFile, decode_file, detect_line_ending

Dialect = dict[str, Any]
"""Options of the csv module."""

_UNQUOTED: Dialect = {"quoting": int(csv.QUOTE_NONE)}
_TABBED = ("tsv", "tab")
ENDINGS = {"csv": "CSV file", "tsv": "TSV file", "tab": "TSV file", "psv": "PSV file"}
_SEPARATORS = ("\t", ";", "|", ",")
"""From the rarest within cells to the most common."""
_RARE_SEPARATORS = ("^", "~", "\x1f", "\x01", ":")
_BLANKS = (r"\s+", r"\s{2,}")
"""Separators as pandas takes them: of columns that are apart, or aligned, by blanks."""
_HEAD_BYTES = 200_000
"""Bytes from which types are inferred."""
_SMALL_BYTES = 500_000
"""Bytes of the largest file that is looked at as a whole."""
CELL = 60
"""Characters of a cell where lines are shown as they are."""
_PROBE = 16_000
_TAIL = 16_000
"""Bytes at the end of a larger file, in which totals and notes are looked for."""
_ROWS_JUDGED = 50
_LONG_LINE = 4_000_000
"""Bytes that are read of a file whose first line is longer than the usual sample."""
_MOST_CELLS = 300_000
_MOST_COLUMNS = 1_000_000
_CHUNK = 1 << 20
_LINES_IN_CELL = 100
"""Lines in one cell from which a quote may never have been closed."""
_QUOTED = re.compile(r' +"')
_MIXED = "not all of its bytes are UTF-8"
_BREAKS = re.compile(r"\r\n|\r|\n")
_OTHER_CONTENT = {
    "an HTML page": re.compile(r"\s*<(?:!doctype|html|head|body|table)\b", re.I),
    "XML": re.compile(r"\s*<\?xml"),
    "a Git LFS pointer, not the data": re.compile(r"version https://git-lfs"),
    "JSON": re.compile(r"\s*(?:\{\s*\"|\[\s*[\[{])"),
}
_WHOLE_QUOTED = re.compile(r'(?:"[^"\r\n]*"[ \t]*(?:[\r\n]+|\Z)){2,}')
_FAR_MARKS = (b"999", b"-99", b"-32768", b"-2147483648")
_MOST_FAR = 5_000
_SINGLE_QUOTED = re.compile(r"\s*'[^'\n]*'(?:[,;|\t]'[^'\n]*')+\s*[\r\n]")
_ONE_COLUMN = re.compile(r"[^\d,;\r\n]+[\r\n]+(?:[+-]?\d+,\d+[\r\n]+)+")
"""A name above numbers with decimal commas, which separate nothing."""


@dataclass(frozen=True)
class Head:
    """The beginning of a text file: whole lines, and whether they are all of it."""

    text: str
    encoding: str
    note: str
    size: int
    """The bytes of `text` in the file."""
    whole: bool

    @property
    def is_wide(self) -> bool:
        """True if each character takes several bytes, so that lines cannot be found in them."""
        return self.encoding.startswith(("utf-16", "utf-32"))


@dataclass(frozen=True)
class _Layout:
    separator: str
    rows: list[Row]
    dialect: Dialect = field(default_factory=dict)
    """Options about quotes, by the names that both `csv` and pandas give them."""


def read_delimited(source: Source) -> Sample:
    """Return the table in a delimited file; raises NotTableError for other content."""
    head = read_head(source)
    if not head.text.strip():
        raise NotTableError("it is empty")
    for content, pattern in _OTHER_CONTENT.items():
        if pattern.match(head.text):
            raise NotTableError(f"it holds {content}")
    inner = _WHOLE_QUOTED.fullmatch(head.text) and _unquote_lines(head.text)
    layout, notes = _parse(replace(head, text=inner or head.text), source.ending)
    grid = arrange(layout.rows, whole=head.whole, last=_read_last_rows(source, head, layout))
    grid = replace(grid, far=_find_far_marks(source, head, layout))
    if not grid.names:
        raise NotTableError("its cells are empty")
    columns, reading = grid.describe(commas=layout.separator == ",")
    encoding, remark = _check_rest(source, head)
    options = {
        "sep": (layout.separator != "," or source.ending in _TABBED) and layout.separator,
        "engine": layout.separator == _BLANKS[1] and "python",
        "encoding": encoding != "utf-8" and encoding,
        "encoding_errors": remark == _MIXED and "replace",
        **layout.dialect,
    }
    if inner:
        cut = f'^"|{re.escape(layout.separator)}|"$'
        names = [*map(str, grid.names)]
        options |= {"sep": cut, "engine": "python", "quoting": csv.QUOTE_NONE, "usecols": names}
        notes.append("each of its lines is quoted as a whole")
    reading = reading.with_options("read_csv", {k: v for k, v in options.items() if v})
    repeated = count_repeated(grid, whole=head.whole)
    noted = (*reading.facts(source.path), head.note, remark, *notes, *grid.facts, repeated)
    total, exact = _count_rows(source, head, len(grid.rows), grid.top)
    kind, facts = ENDINGS.get(source.ending, "CSV file"), tuple(filter(None, noted))
    index, columns = columns[: grid.has_index], columns[grid.has_index :]
    return Sample(kind, columns, grid.width, total, len(grid.rows), exact, facts, index=index)


def read_head(source: Source) -> Head:
    """Return the first whole lines of a text file; raises NotTableError if it is binary."""
    is_small = source.size <= _SMALL_BYTES and not source.is_packed
    count = source.size if is_small else _HEAD_BYTES
    data, whole = _read_start(source, count)
    if not whole and not re.search(rb"[\r\n]", data):
        data, whole = _read_start(source, _LONG_LINE)
    file, nulls = _decode(data, source.path, whole)
    text = file.text.removeprefix(BOM)
    if not whole:
        breaks = max(text.rfind("\n"), text.rfind("\r"))
        text = text[: breaks + 1] if breaks >= 0 else text
    notes = [f"encoding {file.encoding_note}"] if file.encoding_note else []
    notes += ["has NUL bytes, left out here"] if nulls else []
    size = len(text.encode(file.encoding, "replace")) if not whole else len(data)
    return Head(text, file.encoding, "; ".join(notes), size, whole)


def _read_start(source: Source, count: int) -> tuple[bytes, bool]:
    """Return the first bytes, unpacked if they are packed, and whether they are all."""
    data = source.read_at(0, count + 1)
    if not source.is_packed:
        return data[:count], len(data) <= count
    try:
        with _unpack(source) as unpacked:
            data = unpacked.read(count + 1)
    except (*DAMAGED, zipfile.BadZipFile, ValueError, RuntimeError) as error:
        raise NotTableError(f"it cannot be unpacked: {error}") from None
    return data[:count], len(data) <= count


def _unpack(source: Source) -> IO[bytes]:
    if not source.path.lower().endswith(".zip"):
        return open_packed(source)
    archive = open_archive(source.file, source.size)
    names = archive.namelist()
    if len(names) != 1:
        raise NotTableError(f"the archive holds {len(names)} files, not one")
    return archive.open(names[0])


def _decode(data: bytes, path: str, whole: bool) -> tuple[TextFile, bool]:
    """Return the text of a file's start, and whether NUL bytes were left out of it."""
    if not whole:
        data = data[: len(data) // 4 * 4]
    try:
        if b"\0" not in data[:8192]:
            return _decode_bytes(data, path, whole), False
        return decode_file(data, path), False
    except PathValidationError:
        if data.count(0) > max(4, len(data) // 20):
            raise NotTableError("it is not text") from None
    return _decode_bytes(data.replace(b"\0", b""), path, whole), True


def _decode_bytes(data: bytes, path: str, whole: bool) -> TextFile:
    """Decode UTF-8, else guess the encoding from a part: that costs far more than decoding."""
    try:
        return TextFile(data.decode(), "utf-8")
    except UnicodeDecodeError as error:
        if not whole and error.start > len(data) - 4:  # the last character is cut
            return TextFile(data[: error.start].decode(), "utf-8")
    try:
        found = decode_file(_pick_probe(data), path)
    except PathValidationError:
        raise NotTableError("it is not text") from None
    return TextFile(data.decode(found.encoding, "replace"), found.encoding, found.guessed)


def _pick_probe(data: bytes) -> bytes:
    """Return a few lines with bytes beyond ASCII."""
    probe = bytearray()
    for line in re.finditer(rb"[^\r\n]*[\x80-\xff][^\r\n]*[\r\n]*", data):
        probe += line[0]
        if len(probe) > _PROBE:
            break
    return bytes(probe)


def _check_rest(source: Source, head: Head) -> tuple[str, str]:
    """Return the encoding of the whole file, and a remark on bytes far below that are no UTF-8.

    What begins as ASCII may go on in any encoding, and a file may be joined from several.
    """
    is_known = head.whole or head.encoding != "utf-8" or source.is_packed
    if is_known or source.size > source.effort.count_bytes:
        return head.encoding, ""
    decoder, is_ascii = codecs.getincrementaldecoder("utf-8")(), True
    source.file.seek(0)
    while chunk := source.file.read(_CHUNK):
        try:
            decoder.decode(chunk)
        except UnicodeDecodeError as error:
            before, after = error.object[: error.start], error.object[error.start :]
            if is_ascii and before.isascii():
                with suppress(PathValidationError):
                    found = decode_file(_pick_probe(before[-CELL:] + after), source.path)
                    return found.encoding, f"encoding {found.encoding_note}"
            return head.encoding, _MIXED
        is_ascii = is_ascii and chunk.isascii()
    return head.encoding, ""


def _parse(head: Head, ending: str) -> tuple[_Layout, list[str]]:
    separator = "\t" if ending in _TABBED and "\t" in head.text else _sniff(head.text)
    dialect: Dialect = {}
    if '"' not in head.text and _SINGLE_QUOTED.match(head.text):
        dialect["quotechar"] = "'"
    if '\\"' in head.text and '\\""' not in head.text:
        dialect["escapechar"] = "\\"
    rows, closed = _read_rows(head.text, separator, dialect)
    notes = []
    if ' "' in head.text and any(_QUOTED.match(cell) for row in rows for cell in row):
        dialect["skipinitialspace"] = True
        rows, closed = _read_rows(head.text, separator, dialect)
    # Only within quotes may a cell end in a line end; those of the last cell are closed last.
    ends_open = rows and rows[-1] and rows[-1][-1].endswith(("\n", "\r"))
    if head.whole and ends_open and not head.text.rstrip("\r\n").endswith('"'):
        closed = False
    if not closed:
        dialect = dict(_UNQUOTED)
        rows, _ = _read_rows(head.text, separator, dialect)
        notes.append("a quote is not closed, so quotes were taken as ordinary characters")
    if not head.whole and len(rows) > 1:
        rows.pop()  # its last cell may go on behind a line end
    return _Layout(separator, rows, dialect), notes


def _unquote_lines(text: str) -> str | None:
    """Return lines that are quoted as a whole without quotes; None if their cells are texts."""
    inner = text.replace('"', "")
    rows = list(_cut(inner, _sniff(inner)))
    is_table = len(rows) > 1 and len(rows[0]) > 1 and len({len(row) for row in rows if row}) == 1
    is_prose = any(cell[:1].isspace() for row in rows for cell in row)
    return inner if is_table and not is_prose and not any(map(is_value, rows[0])) else None


def _find_far_marks(source: Source, head: Head, layout: _Layout) -> list[Row]:
    """Return rows below the sample that may hold marks of missing values, and their neighbours."""
    is_unread = head.whole or source.is_packed or head.is_wide
    if is_unread or source.size > source.effort.count_bytes:
        return []
    rows: list[Row] = []
    source.file.seek(head.size)
    source.file.readline()  # its beginning may be in the sample
    while (chunk := source.file.read(_CHUNK) + source.file.readline()) and len(rows) < _MOST_FAR:
        for mark in _FAR_MARKS:
            at = chunk.find(mark)
            while at >= 0 and len(rows) < _MOST_FAR:
                start = chunk.rfind(b"\n", 0, max(chunk.rfind(b"\n", 0, at), 0)) + 1
                end = chunk.find(b"\n", chunk.find(b"\n", at) + 1)
                lines = chunk[start : end if end > at else None].decode(head.encoding, "replace")
                rows += _cut("\n".join(_BREAKS.split(lines)), layout.separator)
                at = chunk.find(mark, end) if end > at else -1
    return rows


def _read_last_rows(source: Source, head: Head, layout: _Layout) -> list[Row]:
    """Return the last rows of a file that is not read as a whole; none if they may be quoted."""
    if head.whole or source.is_packed or head.is_wide:
        return []
    data = source.read_at(source.size - _TAIL, _TAIL)
    text = data.decode(head.encoding, "replace")
    if '"' in text:
        return []
    lines = _BREAKS.split(text)[1:]
    return list(_cut("\n".join(lines), layout.separator))


def _cut(text: str, separator: str, dialect: Dialect = _UNQUOTED) -> Iterator[Row]:
    """Return a reader of the rows."""
    if separator in _BLANKS:
        return (re.split(separator, line.strip()) for line in text.splitlines())
    return csv.reader(io.StringIO(text, newline=""), delimiter=separator, **dialect)


def _read_rows(text: str, separator: str, dialect: Dialect) -> tuple[list[Row], bool]:
    """Return the rows, and whether all quotes were closed."""
    reader = _cut(text, separator, dialect)
    rows: list[Row] = []
    cells = 0
    try:
        for row in reader:
            rows.append(row)
            cells += len(row) + 1
            if len(row) > _MOST_COLUMNS:
                raise NotTableError(f"one of its lines has {len(row):,} cells")
            if cells > _MOST_CELLS:
                break
    except csv.Error:  # a cell is longer than the module takes
        if dialect == _UNQUOTED:
            raise NotTableError("one of its cells is longer than 131,072 characters") from None
        return rows, False
    may_break = dialect.get("quotechar", '"') in text
    if may_break and any(map(_is_lengthy, rows)):
        return rows, _closes_quotes(text, separator, dialect)
    return rows, True


def _is_lengthy(row: Row) -> bool:
    return any(len(_BREAKS.findall(cell)) > _LINES_IN_CELL for cell in row)


def _closes_quotes(text: str, separator: str, dialect: Dialect) -> bool:
    """Return whether the quotes that open a long cell are closed where a cell ends.

    A last one may be cut with the text, if one before is closed.
    """
    unread = io.StringIO(text, newline="")
    found = False
    try:
        for row in csv.reader(unread, delimiter=separator, strict=True, **dialect):
            found = found or _is_lengthy(row)
    except csv.Error:
        return found and not unread.read(1)
    return True


def _sniff(text: str) -> str:
    """Return the separator that cuts most rows into the same number of cells."""
    best, best_share = ",", 0.0
    start = text[:50_000]
    if _ONE_COLUMN.fullmatch("".join(start.splitlines(keepends=True)[:_ROWS_JUDGED])):
        return ";"
    for separator in _SEPARATORS:
        if separator not in start:
            continue
        try:
            reader = _cut(start, separator, {"skipinitialspace": f'{separator} "' in start})
            width, share = width_and_share(list(islice(reader, _ROWS_JUDGED)))
        except csv.Error:
            continue
        if width > 1 and share > best_share + 0.05:
            best, best_share = separator, share
    return best if best_share else _sniff_rare(start)


def _sniff_rare(text: str) -> str:
    """Return an unusual separator that cuts all rows alike, below names; else the usual one."""
    lines = [line for line in text.splitlines()[:_ROWS_JUDGED] if line.strip()]
    if len(lines) < 2 or '"' in text or all(map(is_value, lines)):
        return ","
    for separator in (*_RARE_SEPARATORS, *_BLANKS):
        rows = list(_cut("\n".join(lines), separator))
        is_even = len(rows[0]) > 1 and len({len(row) for row in rows}) == 1
        if is_even and not any(map(is_value, rows[0])) and any(list_values_below(rows)):
            return separator
    return ","


def _count_rows(source: Source, head: Head, sampled: int, top: int) -> tuple[int | None, bool]:
    """Return the number of rows, and whether it is exact."""
    if head.whole:
        return sampled, True
    if source.is_packed or not sampled:
        return None, False
    if source.size <= source.effort.count_bytes and not head.is_wide:
        counted = count_lines(source, head)
        if counted is not None:
            return max(counted - top, sampled), True
    return max(round(source.size / head.size * sampled), sampled), False


def count_lines(source: Source, head: Head, *, quotes: bool = True) -> int | None:
    """Return the number of lines, or None if lines are not rows: quoted, empty or comments."""
    byte, ending = (b"\r", "\r") if detect_line_ending(head.text) == "\r" else (b"\n", "\n")
    if detect_line_ending(head.text) == "mixed" or ending not in head.text:
        return None
    source.file.seek(0)
    count, last, left = 0, b"", source.size  # what is written meanwhile is not counted
    chunk = source.file.read(min(_CHUNK, left))
    while chunk:
        left -= len(chunk)
        following = source.file.read(min(_CHUNK, left))
        lines = chunk if following else chunk.rstrip(b"\r\n")
        empty = byte * 2 in lines or b"\n\r" in lines or (last == byte and lines[:1] in (byte, b""))
        if empty or byte + b"#" in lines or (quotes and b'"' in lines):
            return None
        count += lines.count(byte)
        chunk, last = following, chunk[-1:]
    return count + 1


def shorten_cells(text: str, path: str) -> str:
    """Return the lines of a table with its long cells cut."""
    ending = path.lower().rpartition(".")[2]
    sniffed = "\t" if ending in _TABBED else _sniff(text)
    separator = "," if sniffed in _BLANKS else re.escape(sniffed)
    long_cell = re.compile(rf'"(?:[^"\n]|""){{{CELL},}}"|[^\n"{separator}]{{{CELL + 1},}}')
    return long_cell.sub(lambda match: ellipsize(match[0], CELL), text)
