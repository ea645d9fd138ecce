"""CSV files and their kin: encoding, separator, quotes and number of rows are found out."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import re
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice

from ipyagent.errors import PathValidationError
from ipyagent.phrases import ellipsize
from ipyagent.tools.tables.grid import arrange, count_repeated, width_and_share
from ipyagent.tools.tables.rows import Row
from ipyagent.tools.tables.sample import NotTableError, Sample, Source
from ipyagent.tools.text_encoding import BOM, TextFile, decode_file, detect_line_ending

ENDINGS = {"csv": "CSV file", "tsv": "TSV file", "tab": "TSV file", "psv": "PSV file"}
_SEPARATORS = ("\t", ";", "|", ",")
"""From the rarest within cells to the most common."""
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
"""Lines in one cell from which a quote was probably never closed."""
_QUOTED = re.compile(r' +"')
_MIXED = "not all of its bytes are UTF-8"
_BREAKS = re.compile(r"\r\n|\r|\n")
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
    quoted: bool = True
    blanks: bool = False
    """True if a blank stands between separator and quote."""


def read_delimited(source: Source) -> Sample:
    """Return the table in a delimited file; raises NotTableError for other content."""
    head = read_head(source)
    if not head.text.strip():
        raise NotTableError("it is empty")
    layout, notes = _parse(head, source.ending)
    grid = arrange(layout.rows, whole=head.whole, last=_read_last_rows(source, head, layout))
    if not grid.names:
        raise NotTableError("its cells are empty")
    columns, reading = grid.describe(commas=layout.separator == ",")
    encoding, remark = _check_rest(source, head)
    options = {
        "sep": layout.separator != "," and layout.separator,
        "encoding": encoding != "utf-8" and encoding,
        "encoding_errors": remark == _MIXED and "replace",
        "quoting": not layout.quoted and int(csv.QUOTE_NONE),
        "skipinitialspace": layout.blanks,
    }
    reading = reading.with_options("read_csv", {k: v for k, v in options.items() if v})
    repeated = count_repeated(grid, whole=head.whole)
    noted = (*reading.facts(source.path), head.note, remark, *notes, *grid.facts, repeated)
    total, exact = _count_rows(source, head, len(grid.rows), grid.top)
    kind, labels, facts = (
        ENDINGS.get(source.ending, "CSV file"),
        grid.has_index,
        filter(None, noted),
    )
    columns, index, rows = columns[labels:], columns[:labels], len(grid.rows)
    return Sample(kind, columns, grid.width, total, rows, exact, tuple(facts), index=index)


def read_head(source: Source) -> Head:
    """Return the first whole lines of a text file; raises NotTableError if it is binary."""
    is_small = source.size <= _SMALL_BYTES and source.ending != "gz"
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
    if source.ending != "gz":
        return data[:count], len(data) <= count
    source.file.seek(0)
    try:
        with gzip.GzipFile(fileobj=source.file) as unpacked:
            data = unpacked.read(count + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise NotTableError(f"it cannot be unpacked: {error}") from None
    return data[:count], len(data) <= count


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
    is_known = head.whole or head.encoding != "utf-8" or source.ending == "gz"
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
    separator = "\t" if ending in ("tsv", "tab") and "\t" in head.text else _sniff(head.text)
    rows, closed = _read_rows(head.text, separator)
    notes = []
    blanks = any(_QUOTED.match(cell) for row in rows for cell in row)
    if blanks:
        rows, closed = _read_rows(head.text, separator, blanks=True)
    # Only within quotes may a cell end in a line end; those of the last cell are closed last.
    ends_open = rows and rows[-1] and rows[-1][-1].endswith(("\n", "\r"))
    if head.whole and ends_open and not head.text.rstrip("\r\n").endswith('"'):
        closed = False
    if not closed:
        blanks = False
        rows, _ = _read_rows(head.text, separator, quotes=False)
        notes.append("a quote is not closed, so quotes were taken as ordinary characters")
    if not head.whole and len(rows) > 1:
        rows.pop()  # its last cell may go on behind a line end
    return _Layout(separator, rows, closed, blanks), notes


def _read_last_rows(source: Source, head: Head, layout: _Layout) -> list[Row]:
    """Return the last rows of a file that is not read as a whole; none if they may be quoted."""
    if head.whole or source.ending == "gz" or head.is_wide:
        return []
    data = source.read_at(source.size - _TAIL, _TAIL)
    text = data.decode(head.encoding, "replace")
    if '"' in text:
        return []
    lines = _BREAKS.split(text)[1:]
    return list(_cut("\n".join(lines), layout.separator, quotes=False))


def _cut(text: str, separator: str, quotes: bool = True, blanks: bool = False) -> Iterator[Row]:
    """Return a reader of the rows; with `blanks`, those behind a separator are left out."""
    return csv.reader(
        io.StringIO(text, newline=""),
        delimiter=separator,
        quoting=csv.QUOTE_MINIMAL if quotes else csv.QUOTE_NONE,
        skipinitialspace=blanks,
    )


def _read_rows(
    text: str, separator: str, quotes: bool = True, blanks: bool = False
) -> tuple[list[Row], bool]:
    """Return the rows, and whether all quotes were closed."""
    reader = _cut(text, separator, quotes, blanks)
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
        if not quotes:
            raise NotTableError("one of its cells is longer than 131,072 characters") from None
        return rows, False
    lengthy = any(len(_BREAKS.findall(cell)) > _LINES_IN_CELL for row in rows for cell in row)
    return rows, not lengthy


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
            reader = _cut(start, separator, blanks=f'{separator} "' in start)
            width, share = width_and_share(list(islice(reader, _ROWS_JUDGED)))
        except csv.Error:
            continue
        if width > 1 and share > best_share + 0.05:
            best, best_share = separator, share
    return best


def _count_rows(source: Source, head: Head, sampled: int, top: int) -> tuple[int | None, bool]:
    """Return the number of rows, and whether it is exact."""
    if head.whole:
        return sampled, True
    if source.ending == "gz" or not sampled:
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


def shorten_cells(text: str, path: str, most: int = CELL) -> str:
    """Return the lines of a table with its long cells cut."""
    ending = path.lower().rpartition(".")[2]
    separator = re.escape("\t" if ending in ("tsv", "tab") else _sniff(text))
    long_cell = re.compile(rf'"(?:[^"\n]|""){{{most},}}"|[^\n"{separator}]{{{most + 1},}}')
    return long_cell.sub(lambda match: ellipsize(match[0], most), text)
