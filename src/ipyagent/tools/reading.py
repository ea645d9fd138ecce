"""What a file says to a model: numbered lines, the cells of a notebook, or a picture."""

from __future__ import annotations

import base64
import io
import json
from typing import Any

from ipyagent.errors import InvalidArgumentsError, PathValidationError
from ipyagent.schema import ImageContent, ToolResult
from ipyagent.tools.encodings import BOM, decode_file
from ipyagent.tools.line_ends import MIXED, NAMES, line_ends, with_newlines
from ipyagent.tools.names import human_size, shown

_MAX_CHARS = 28_000  # with room for notes, below what `truncate` cuts
_MAX_LINES = 950
_LONG_SIDE = 1568
_MAX_PIXELS = 50_000_000
_MAX_PNG = 3_000_000
_MAX_CELL_OUTPUT = 500
_IMAGES = {b"\x89PNG\r\n\x1a\n": "PNG", b"\xff\xd8\xff": "JPEG", b"GIF8": "GIF"}


def text_of(data: bytes, path: str) -> str:
    """Return the text of a file that has to be UTF-8; raises PathValidationError for others."""
    file = decode_file(data, path)
    if file.encoding != "utf-8":
        raise PathValidationError(
            f"{shown(path)} is not UTF-8 text, as it has to be, but {file.note}; convert it first"
        )
    return file.text


def file_page(data: bytes, path: str, offset: int, limit: int | None) -> str:
    """Return numbered lines of a file, and what is unusual about its encoding and line ends."""
    file = decode_file(data, path)
    text, ends = with_newlines(file.text.removeprefix(BOM)), line_ends(file.text)
    if path.lower().endswith(".ipynb"):
        text = notebook_text(text)
    notes = [f"encoding {file.note}"] if file.note else []
    if ends in ("\r", MIXED):
        notes.append(f"line ends {NAMES[ends]}")
    said = f"\n({'; '.join(notes)})" if notes else ""
    return page(text, offset, limit) + said


def page(text: str, offset: int, limit: int | None) -> str:
    """Numbered lines from `offset` (from 1), as many as a model should read at once."""
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
        numbered.append(line if room >= 0 else f"{line[:_MAX_CHARS]}… (the line goes on)")
    last = offset + len(numbered) - 1
    if last < len(lines):
        numbered.append(f"(lines {offset}-{last} of {len(lines)}; go on with offset={last + 1})")
    return "\n".join(numbered)


def notebook_text(text: str) -> str:
    """A notebook's cells as plain text; the file's own text if it is no valid notebook."""
    from nbformat import convert, reader

    try:
        notebook = convert(reader.reads(text), 4)
        cells = [_cell(number, cell) for number, cell in enumerate(notebook.cells)]
    except Exception:  # a damaged notebook fails in as many ways as it can be damaged
        return text
    return "\n\n".join([f"(notebook, {len(cells)} cells)", *cells])


def _cell(number: int, cell: Any) -> str:
    outputs = (_output(output) for output in cell.get("outputs", ()))
    shown_outputs = [f"-> {each}" for each in outputs if each]
    return "\n".join([f"[{number}] {cell.cell_type}", _joined(cell.source), *shown_outputs])


def _output(output: Any) -> str:
    match output.output_type:
        case "stream":
            text = _joined(output.text)
        case "error":
            text = f"{output.ename}: {output.evalue}"
        case _:
            text = _joined(output.data.get("text/plain", "")) or f"({', '.join(output.data)})"
    text = text.strip()
    return text if len(text) <= _MAX_CELL_OUTPUT else f"{text[:_MAX_CELL_OUTPUT]}…"


def _joined(source: object) -> str:
    if isinstance(source, str):
        return source
    return "".join(source) if isinstance(source, list) else json.dumps(source)


def is_image(data: bytes) -> bool:
    """Whether the bytes begin like a PNG, JPEG, GIF or WebP image."""
    return data.startswith(tuple(_IMAGES)) or (data[:4], data[8:12]) == (b"RIFF", b"WEBP")


def image_result(data: bytes, path: str) -> ToolResult:
    """A picture, at most 1568 pixels on its long side, encoded anew."""
    from PIL import Image, ImageOps

    try:
        # Opening reads the header only: the size is known before anything is unpacked.
        with Image.open(io.BytesIO(data), formats=("PNG", "JPEG", "GIF", "WEBP")) as image:
            name, size = image.format, image.size
            if size[0] * size[1] > _MAX_PIXELS:
                raise PathValidationError(_too_many_pixels(path, size))
            image.thumbnail((_LONG_SIDE, _LONG_SIDE))
            picture = _encoded(ImageOps.exif_transpose(image), jpeg=name == "JPEG")
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise PathValidationError(_too_many_pixels(path, None)) from None
    except PathValidationError:
        raise
    except Exception as error:  # a damaged image fails in as many ways as it can be damaged
        raise PathValidationError(f"{shown(path)} is a damaged image: {error}") from None
    note = f"image {_pixels(size)} ({name}, {human_size(len(data))})"
    if max(size) > _LONG_SIDE:
        note += f", shown at {_pixels((picture.width or 0, picture.height or 0))}"
    return ToolResult(output=note, images=(picture,))


def _too_many_pixels(path: str, size: tuple[int, int] | None) -> str:
    what = f"{_pixels(size)} pixels" if size else "far too many pixels"
    return f"{shown(path)} has {what}; at most {_MAX_PIXELS:,} are unpacked"


def _pixels(size: tuple[int, int]) -> str:
    return f"{size[0]}×{size[1]}"  # noqa: RUF001


def _encoded(image: Any, *, jpeg: bool) -> ImageContent:
    name = "JPEG" if jpeg else "PNG"
    data = _saved_as(name, image)
    if len(data) > _MAX_PNG:
        name, data = "JPEG", _saved_as("JPEG", image)
    return ImageContent(
        media_type=f"image/{name.lower()}",
        data=base64.b64encode(data).decode("ascii"),
        width=image.width,
        height=image.height,
    )


def _saved_as(name: str, image: Any) -> bytes:
    modes = {"JPEG": ("RGB", "L"), "PNG": ("RGB", "RGBA", "L", "LA")}[name]
    buffer = io.BytesIO()
    fitting = image if image.mode in modes else image.convert("RGBA" if name == "PNG" else "RGB")
    fitting.save(buffer, name)
    return buffer.getvalue()
