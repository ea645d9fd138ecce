"""Operations as they are kept: a personal file is small, and they say the same over and over."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Sequence

MAX_UNPACKED = 4_000_000


def pack(lines: Sequence[str]) -> str:
    """The lines in far fewer characters, of which JSON escapes none."""
    data = json.dumps(list(lines), ensure_ascii=False).encode()
    return base64.b85encode(zlib.compress(data, 9)).decode("ascii")


def unpack(text: str) -> list[str]:
    """The lines that were packed; raises ValueError for what is not that, or is too large."""
    unpacker = zlib.decompressobj()
    try:
        data = unpacker.decompress(base64.b85decode(text), MAX_UNPACKED)
    except zlib.error as error:
        raise ValueError(str(error)) from None
    if not unpacker.eof:
        raise ValueError(f"it is not whole, or larger than {MAX_UNPACKED:,} bytes")
    lines = json.loads(data)
    if not isinstance(lines, list):
        raise ValueError("it is no list")
    return lines
