"""Compress stored operations: they are repetitive, and user data files are limited in size."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Sequence

MAX_UNPACKED = 4_000_000


def pack(lines: Sequence[str]) -> str:
    """Pack lines into far fewer characters, none of which JSON escapes."""
    data = json.dumps(list(lines), ensure_ascii=False).encode()
    return base64.b85encode(zlib.compress(data, 9)).decode("ascii")


def unpack(text: str) -> list[str]:
    """Unpack lines; raises ValueError for invalid or too large data."""
    unpacker = zlib.decompressobj()
    try:
        data = unpacker.decompress(base64.b85decode(text), MAX_UNPACKED)
    except zlib.error as error:
        raise ValueError(str(error)) from None
    if not unpacker.eof:
        raise ValueError(f"it is incomplete, or larger than {MAX_UNPACKED:,} bytes")
    lines = json.loads(data)
    if not isinstance(lines, list):
        raise ValueError("it is not a list")
    return lines
