"""Files rendered for a model: numbered lines, the cells of a notebook, or an image.

Of a binary file: the table that it holds, else its kind and size, and what a zip archive contains.
"""

from __future__ import annotations

import base64
import io
import mimetypes
import re
import struct
import zipfile
from collections.abc import Iterator
from typing import TYPE_CHECKING, BinaryIO

from ipyagent.errors import InvalidArgumentsError, PathValidationError
from ipyagent.plaintext import ellipsize, human_size, limit_lines, spell
from ipyagent.schema import ImageContent, ToolResult
from ipyagent.tools.file_change import (
    BOM,
    ENDING_NAMES,
    MIXED,
    decode_file,
    detect_line_ending,
    normalize_newlines,
)
from ipyagent.tools.notebook_file import render_saved
from ipyagent.tools.tables import describe_table, table_ending
from ipyagent.tools.tables.sample import KINDS, NotTableError, split_ending
from ipyagent.tools.workspace import Workspace

if TYPE_CHECKING:
    from PIL import Image

_MAX_CHARS = 28_000  # with room for notes, below what `truncate` cuts
_MAX_LINES = 950
_CELL = 60
"""Characters of a cell of a table."""
_LONG_CELL = re.compile(rf'"(?:[^"\n]|""){{{_CELL},}}"|[^\n",;|\t]{{{_CELL + 1},}}')
_LONG_SIDE = 1568
_MAX_PIXELS = 50_000_000
_MAX_PNG = 3_000_000
_IMAGES = {b"\x89PNG\r\n\x1a\n": "PNG", b"\xff\xd8\xff": "JPEG", b"GIF8": "GIF"}


def render_file(data: bytes, path: str, offset: int, limit: int | None) -> str:
    """Return numbered lines of a file, and notes on its encoding and line endings."""
    file = decode_file(data, path)
    text, ends = normalize_newlines(file.text.removeprefix(BOM)), detect_line_ending(file.text)
    if path.lower().endswith(".ipynb"):
        text = render_saved(text)
    notes = [f"encoding {file.encoding_note}"] if file.encoding_note else []
    if KINDS.get(split_ending(path)[1], ("", ""))[1] == "delimited":
        short = _LONG_CELL.sub(lambda match: ellipsize(match[0], _CELL), text)
        notes += [f"cells cut at {_CELL} characters"] if short != text else []
        text = short
    if ends in ("\r", MIXED):
        notes.append(f"line ends {ENDING_NAMES[ends]}")
    remarks = f"\n({'; '.join(notes)})" if notes else ""
    return number_lines(text, offset, limit) + remarks


def number_lines(text: str, offset: int, limit: int | None) -> str:
    """Return numbered lines from `offset` (from 1), as many as a model should read at once."""
    lines = text.removesuffix("\n").split("\n") if text else []
    if not lines:
        return "(empty file)"
    if offset > len(lines):
        raise InvalidArgumentsError(f"offset {offset}: there are only {len(lines)} lines")
    numbered: list[str] = []
    room = _MAX_CHARS
    end = offset + min(limit or _MAX_LINES, _MAX_LINES)
    for number in range(offset, min(len(lines) + 1, end)):
        line = f"{number:>6}\t{lines[number - 1]}"
        room -= len(line) + 1
        if room < 0 and numbered:
            break
        numbered.append(line if room >= 0 else f"{line[:_MAX_CHARS]}… (the line continues)")
    last = offset + len(numbered) - 1
    if last < len(lines):
        numbered.append(f"(lines {offset}-{last} of {len(lines)}; continue with offset={last + 1})")
    return "\n".join(numbered)


def is_image(data: bytes) -> bool:
    """Return whether the bytes start like a PNG, JPEG, GIF or WebP image."""
    return data.startswith(tuple(_IMAGES)) or (data[:4], data[8:12]) == (b"RIFF", b"WEBP")


def render_image(data: bytes, path: str) -> ToolResult:
    """Return an image, re-encoded, at most 1568 pixels on its long side."""
    from PIL import Image, ImageOps

    try:
        # Opening reads the header only: the size is known before anything is unpacked.
        with Image.open(io.BytesIO(data), formats=("PNG", "JPEG", "GIF", "WEBP")) as image:
            name, size = image.format, image.size
            if size[0] * size[1] > _MAX_PIXELS:
                raise PathValidationError(_too_many_pixels_message(path, size))
            image.thumbnail((_LONG_SIDE, _LONG_SIDE))
            picture = _encode_image(ImageOps.exif_transpose(image), jpeg=name == "JPEG")
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise PathValidationError(_too_many_pixels_message(path, None)) from None
    except PathValidationError:
        raise
    except Exception as error:  # a damaged image fails in as many ways as it can be damaged
        raise PathValidationError(f"{spell(path)} is a damaged image: {error}") from None
    note = f"image {_format_pixels(size)} ({name}, {human_size(len(data))})"
    if max(size) > _LONG_SIDE:
        note += f", shown at {_format_pixels((picture.width or 0, picture.height or 0))}"
    return ToolResult(output=note, images=(picture,))


def _too_many_pixels_message(path: str, size: tuple[int, int] | None) -> str:
    size_text = f"{_format_pixels(size)} pixels" if size else "far too many pixels"
    return f"{spell(path)} has {size_text}; at most {_MAX_PIXELS:,} are unpacked"


def _format_pixels(size: tuple[int, int]) -> str:
    return f"{size[0]}×{size[1]}"  # noqa: RUF001


def _encode_image(image: Image.Image, *, jpeg: bool) -> ImageContent:
    name = "JPEG" if jpeg else "PNG"
    data = _image_bytes(name, image)
    if len(data) > _MAX_PNG:
        name, data = "JPEG", _image_bytes("JPEG", image)
    return ImageContent(
        media_type=f"image/{name.lower()}",
        data=base64.b64encode(data).decode("ascii"),
        width=image.width,
        height=image.height,
    )


def _image_bytes(name: str, image: Image.Image) -> bytes:
    modes = {"JPEG": ("RGB", "L"), "PNG": ("RGB", "RGBA", "L", "LA")}[name]
    buffer = io.BytesIO()
    fitting = image if image.mode in modes else image.convert("RGBA" if name == "PNG" else "RGB")
    fitting.save(buffer, name)
    return buffer.getvalue()


_MEMBERS = 100
_DIRECTORY = 2_000_000
"""Bytes of the longest list of contents that is read."""
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
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "old or encrypted Microsoft Office document"),
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
    problem = ""
    if table_ending(path) is not None:
        try:
            return describe_table(workspace, path)
        except NotTableError as error:
            problem = f"; not shown as a table: {error}"
    with workspace.open_file(path) as file:
        start = file.read(PROBE)
        size = file.seek(0, 2)
        summary = f"{spell(path)}: {_name_kind(start, path)}, {human_size(size)}{problem}"
        try:
            members = limit_lines([*_list_members(file, size, start)], _MEMBERS, "  … and more")
        except NotTableError as error:
            members = [f"(its contents cannot be listed: {error})"]
    return "\n".join([summary, *members] if members else [f"{summary}; open it with code"])


def _name_kind(start: bytes, path: str) -> str:
    if _is_tar(start):
        return "tar archive"
    named = next((name for magic, name in _KINDS if start.startswith(magic)), None)
    guessed = mimetypes.guess_type(path)[0]
    return f"binary file ({guessed or 'unknown type'})" if named is None else named


def _open_archive(file: BinaryIO, size: int) -> zipfile.ZipFile:
    """Return a zip archive whose list of contents is not too long; raises NotTableError."""
    file.seek(max(0, size - 65_557))
    tail = file.read(65_557)
    at = tail.rfind(b"PK\5\6")
    if at < 0 or len(tail) < at + 22:
        raise NotTableError("it is damaged")
    (directory,) = struct.unpack_from("<I", tail, at + 12)
    if directory > _DIRECTORY:
        raise NotTableError("it holds too many files to list")
    try:
        return zipfile.ZipFile(file)
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
        raise NotTableError(f"it is damaged: {error}") from None


def _list_members(file: BinaryIO, size: int, start: bytes) -> Iterator[str]:
    """Yield the members of a zip archive."""
    if start.startswith((b"PK\3\4", b"PK\5\6")):
        with _open_archive(file, size) as archive:
            entries = archive.infolist()
        yield f"{len(entries):,} files and folders:"
        for each in entries[: _MEMBERS + 1]:
            yield f"  {spell(each.filename)}  {human_size(each.file_size)}"
