"""Files rendered for a model: numbered lines, the cells of a notebook, or an image."""

from __future__ import annotations

import base64
import io
import re
from typing import TYPE_CHECKING

from ipyagent.errors import InvalidArgumentsError, PathValidationError
from ipyagent.phrases import ellipsize, human_size
from ipyagent.plaintext import spell
from ipyagent.schema import ImageContent, ToolResult
from ipyagent.tools.notebook_file import render_saved
from ipyagent.tools.tables.sample import KINDS, split_ending
from ipyagent.tools.text_encoding import (
    BOM,
    ENDING_NAMES,
    MIXED,
    decode_file,
    detect_line_ending,
    normalize_newlines,
)

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
