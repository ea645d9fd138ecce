"""Binary files described: their kind, their size, and the contents of archives."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import mimetypes
import tarfile
import zlib
from collections.abc import Callable, Iterator
from itertools import islice
from typing import BinaryIO, cast

from ipyagent.phrases import limit_lines
from ipyagent.plaintext import spell
from ipyagent.tools.path_rules import human_size
from ipyagent.tools.tables import inspect, spreadsheet
from ipyagent.tools.tables.sample import LOOK, NotTableError, Source
from ipyagent.tools.workspace import Workspace

_MEMBERS = 100
_UNPACKED = 16_000_000
"""Bytes that are unpacked to list a packed archive."""
PROBE = 8192
"""Bytes by which a file is known to be binary."""
_KINDS: tuple[tuple[bytes, str], ...] = (
    (b"PK\3\4", "zip archive"),
    (b"PK\5\6", "empty zip archive"),
    (b"\x1f\x8b", "gzip file"),
    (b"BZh", "bzip2 file"),
    (b"\xfd7zXZ\0", "xz file"),
    (b"\x28\xb5\x2f\xfd", "Zstandard file"),
    (b"7z\xbc\xaf\x27\x1c", "7-Zip archive"),
    (b"%PDF-", "PDF document"),
    (b"SQLite format 3\0", "SQLite database"),
    (b"PAR1", "Parquet file"),
    (b"ARROW1", "Arrow file"),
    (b"\x89HDF\r\n\x1a\n", "HDF5 file"),
    (b"CDF", "NetCDF file"),
    (b"\x93NUMPY", "NumPy array"),
    (b"Obj\1", "Avro file"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "old Microsoft Office document"),
    (b"\x7fELF", "Linux program or library"),
    (b"MZ", "Windows program"),
    (b"II*\0", "TIFF image"),
    (b"MM\0*", "TIFF image"),
    (b"BM", "BMP image"),
    (b"OggS", "Ogg media"),
    (b"ID3", "MP3 audio"),
    (b"fLaC", "FLAC audio"),
    (b"\x80\4", "Python pickle"),
    (b"\x80\5", "Python pickle"),
)


def is_binary(data: bytes) -> bool:
    """Return whether a file that starts like this is binary, UTF-16 and UTF-32 apart."""
    start = data[:PROBE]
    if start.startswith((b"\xff\xfe", b"\xfe\xff", b"\0\0\xfe\xff")):
        return False
    if any(start.startswith(magic) for magic, _ in _KINDS if len(magic) > 2):
        return not start.startswith(b"CDF") or b"\0" in start
    if start.startswith(b"\x1f\x8b") or _is_tar(start):
        return True
    zeros = start[::2].count(0), start[1::2].count(0)
    # Text of 16-bit characters has its zeros on one side.
    return sum(zeros) > 0 and (min(zeros) > 0 or max(zeros) < len(start) // 8)


def _is_tar(start: bytes) -> bool:
    return start[257:262] == b"ustar"


def describe_binary(workspace: Workspace, path: str) -> str:
    """Describe a binary file: as a table if it holds one, else by its kind and contents."""
    ending = inspect.table_ending(path)
    problem = ""
    if ending is not None:
        try:
            return inspect.describe_table(workspace, path)
        except NotTableError as error:
            problem = f"; not shown as a table: {error}"
    with workspace.open_file(path) as file:
        source = Source(path, file.seek(0, 2), file, LOOK)
        start = source.read_at(0, PROBE)
        kind = _name_kind(start, path)
        summary = f"{spell(path)}: {kind}, {human_size(source.size)}{problem}"
        try:
            members = limit_lines(list(_list_members(source, start)), _MEMBERS, "  … and more")
        except NotTableError as error:
            members = [f"(its contents cannot be listed: {error})"]
    return "\n".join([summary, *members] if members else [f"{summary}; open it with code"])


def _name_kind(start: bytes, path: str) -> str:
    if _is_tar(start):
        return "tar archive"
    named = next((name for magic, name in _KINDS if start.startswith(magic)), None)
    guessed = mimetypes.guess_type(path)[0]
    return f"binary file ({guessed or 'unknown type'})" if named is None else named


def _list_members(source: Source, start: bytes) -> Iterator[str]:
    if start.startswith((b"PK\3\4", b"PK\5\6")):
        with spreadsheet.open_archive(source.file, source.size) as archive:
            entries = archive.infolist()
        yield f"{len(entries):,} files and folders:"
        for each in entries[: _MEMBERS + 1]:
            yield f"  {spell(each.filename)}  {human_size(each.file_size)}"
    elif _is_tar(start):
        yield from _list_tar(source, packed=False)
    elif start.startswith((b"\x1f\x8b", b"BZh", b"\xfd7zXZ\0")) and _names_tar(source.path):
        yield from _list_tar(source, packed=True)


def _names_tar(path: str) -> bool:
    name = path.lower()
    return name.endswith((".tgz", ".tbz2", ".txz")) or ".tar." in name


class _ShortReads:
    """A file that gives little at once: a tar header can claim a name of any length."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.seek, self.tell = file.seek, file.tell

    def read(self, count: int = -1) -> bytes:
        """Read up to `count` bytes, at most a megabyte."""
        return self._file.read(min(count, 1 << 20) if count >= 0 else 1 << 20)


def _list_tar(source: Source, packed: bool) -> Iterator[str]:
    """Yield the members of a tar archive; of a packed one, those near its beginning."""
    source.file.seek(0)
    count = 0
    try:
        file = io.BytesIO(_unpack_start(source)) if packed else _ShortReads(source.file)
        with tarfile.open(fileobj=cast(BinaryIO, file), mode="r:") as archive:
            for member in islice(archive, _MEMBERS + 1):
                yield f"  {spell(member.name)}  {human_size(max(0, member.size))}"
                count += 1
    except (tarfile.TarError, OSError, EOFError, ValueError, OverflowError) as error:
        if not count:
            raise NotTableError(str(error)) from None


def _unpack_start(source: Source) -> bytes:
    openers: dict[bytes, Callable[[BinaryIO], BinaryIO]] = {
        b"\x1f": lambda file: cast(BinaryIO, gzip.GzipFile(fileobj=file)),
        b"B": lambda file: cast(BinaryIO, bz2.BZ2File(file)),
        b"\xfd": lambda file: cast(BinaryIO, lzma.LZMAFile(file)),  # noqa: SIM115 - closed below
    }
    start = source.read_at(0, 1)
    source.file.seek(0)
    try:
        with openers[start](source.file) as unpacked:
            return unpacked.read(_UNPACKED)
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        raise NotTableError(f"it cannot be unpacked: {error}") from None
