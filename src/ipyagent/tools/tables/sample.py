"""A sample of a table in a file, and its description in the form that variables have."""

from __future__ import annotations

import bz2
import gzip
import lzma
import struct
import zipfile
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from typing import BinaryIO, cast

from ipyagent.kernel.describe.table import COLUMNS, Column, Table

_DIRECTORY = 2_000_000
"""Bytes of the longest list of contents that is read."""
MOST_BYTES = 1_500
"""Bytes of the description that goes with a prompt."""
OLD_OFFICE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_PACKED = (".gz", ".bz2", ".xz", ".zip")
_OPENERS: dict[bytes, Callable[[BinaryIO], BinaryIO]] = {
    b"\x1f": lambda file: cast(BinaryIO, gzip.GzipFile(fileobj=file)),
    b"B": lambda file: cast(BinaryIO, bz2.BZ2File(file)),
    b"\xfd": lambda file: cast(BinaryIO, lzma.LZMAFile(file)),  # noqa: SIM115 - closed by who reads
}
"""Functions that unpack a file, by its first byte."""
DAMAGED = (OSError, EOFError, zlib.error, lzma.LZMAError)
"""Errors of damaged files while they are unpacked."""


class NotTableError(Exception):
    """The file holds no table, or none that can be read here; the text says why."""


@dataclass(frozen=True)
class Effort:
    """The effort that a description is worth: bytes that are read to count rows, and libraries.

    A library's decoder runs native code on data that nobody has vouched for, and costs up to two
    seconds to import.
    """

    count_bytes: int
    decode: bool


GLANCE = Effort(16_000_000, decode=False)
"""For the context of a prompt, which waits for it."""
LOOK = Effort(2_000_000_000, decode=True)
"""For a call of a tool."""


@dataclass(frozen=True)
class Source:
    """An open file: its path in the workspace, its size, and the effort that it is worth."""

    path: str
    size: int
    file: BinaryIO
    effort: Effort

    @property
    def ending(self) -> str:
        """The lower-case ending of the name, without the dot and what says that it is packed."""
        names = self.path.lower().split(".")
        return names[-2 if self.is_packed and len(names) > 2 else -1]

    @property
    def is_packed(self) -> bool:
        """True for text that has to be unpacked."""
        return self.path.lower().endswith(_PACKED)

    def read_at(self, start: int, count: int) -> bytes:
        """Return up to `count` bytes from `start`."""
        self.file.seek(start)
        return self.file.read(count)


@dataclass(frozen=True)
class SampleColumn:
    """A column: None in `values` is missing; `nulls` and `unique` are None if not counted.

    `choices` are all its values, if they are few; `ends` the smallest and the largest one.
    """

    label: object
    dtype: str
    values: Sequence[object] = ()
    nulls: int | None = None
    unique: int | None = None
    choices: Sequence[object] = ()
    ends: Sequence[object] = ()


@dataclass(frozen=True)
class Sample:
    """The first rows of a table, at most COLUMNS of its columns, and what is known of the rest.

    `total` is the number of all rows, None if unknown; `sampled` of them were looked at.
    """

    kind: str
    columns: Sequence[SampleColumn]
    width: int
    total: int | None
    sampled: int
    exact: bool = True
    facts: tuple[str, ...] = ()
    declared: bool = False
    """True if the file itself declares the types."""
    index: Sequence[SampleColumn] = ()
    """The labels of the rows, unless they are only numbered."""

    @property
    def row_count(self) -> str:
        """The number of rows in words."""
        if self.total is None:
            return "rows not counted"
        return f"{self.total:,} rows" if self.exact else f"{approximate(self.total)} rows"

    def table(self) -> Table:
        """Return it in the form of tables among the variables."""
        facts = self.facts
        in_part = bool(self.sampled) and self.total != self.sampled and not self.declared
        if in_part:
            facts = (*facts, f"types, nulls, unique: from the first {self.sampled:,} rows")
        return Table(
            self.kind,
            self.sampled,
            self.width,
            [_describe_column(each) for each in self.columns[:COLUMNS]],
            memory=lambda: 0,
            row_count=self.row_count,
            facts=facts,
            index=[_describe_column(each) for each in self.index],
            counted_of=f" of {self.sampled:,}" if in_part else "",
        )


def open_packed(source: Source) -> BinaryIO:
    """Return what unpacks a file as it is read; raises OSError for one that is not packed."""
    opener = _OPENERS.get(source.read_at(0, 1))
    source.file.seek(0)
    if opener is None:
        raise OSError("it is not packed in a known way")
    return opener(source.file)


def open_archive(file: BinaryIO, size: int) -> zipfile.ZipFile:
    """Return a zip archive whose list of contents is not too long; raises NotTableError."""
    file.seek(max(0, size - 65_557))
    tail = file.read(65_557)
    at = tail.rfind(b"PK\5\6")
    if at < 0 or len(tail) < at + 22:
        file.seek(0)
        if file.read(len(OLD_OFFICE)) == OLD_OFFICE:
            raise NotTableError("it is protected by a password, or an .xls under another name")
        raise NotTableError("it is no zip archive, or is damaged")
    (directory,) = struct.unpack_from("<I", tail, at + 12)
    if directory > _DIRECTORY:
        raise NotTableError("it holds too many files to list")
    try:
        return zipfile.ZipFile(file)
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
        raise NotTableError(f"it is damaged: {error}") from None


def _describe_column(column: SampleColumn) -> Column:
    nulls, unique = column.nulls, column.unique
    return Column(
        column.label,
        column.dtype,
        None if nulls is None else lambda: nulls,
        None if unique is None else lambda: unique,
        lambda rows: [_plain(value) for value in column.values[rows]],
        lambda: column.choices,
        lambda: column.ends,
    )


def _plain(value: object) -> object:
    """Return a date as text; other values as they are."""
    return value.isoformat() if type(value) is date else value


def approximate(count: int) -> str:
    """Return a number in words with two digits: about 1.2 M, about 34,000."""
    for size, unit in ((1e9, " G"), (1e6, " M")):
        if count >= 0.995 * size:
            amount = count / size
            return f"about {amount:.1f}{unit}" if amount < 9.95 else f"about {amount:,.0f}{unit}"
    digits = len(str(count))
    return f"about {round(count, 2 - digits) if digits > 2 else count:,}"
