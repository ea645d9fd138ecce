"""The report of a rehearsal: JSON and raw bytes in a pipe.

Whoever writes it has run hostile code, so it is only data: its size is limited, nothing in it is
unpickled or run, and all of it is checked by whoever uses it.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import struct
import time
from collections.abc import Sequence

from ipyagent.json_types import JsonDict

_HEADER = struct.Struct("<QQ")
_PIECE = 1 << 20
MOST_TEXT = 8 << 20
"""Bytes of a report's JSON: objects made of it take many times as much."""


class ReportError(Exception):
    """Raised if no valid report comes."""


def write_report(pipe: int, report: JsonDict, buffers: Sequence[bytes | memoryview] = ()) -> None:
    """Write a report, with bytes that it refers to by their number. Raises ReportError."""
    sizes = [memoryview(each).nbytes for each in buffers]
    text = json.dumps({**report, "sizes": sizes}).encode()
    if len(text) > MOST_TEXT:
        raise ReportError("it reported too much")
    for part in (_HEADER.pack(len(text), sum(sizes)), text, *buffers):
        view = memoryview(part).cast("B") if memoryview(part).nbytes else memoryview(b"")
        while view:
            view = view[os.write(pipe, view[:_PIECE]) :]


def read_report(pipe: int, most: int, until: float) -> tuple[JsonDict, list[memoryview]]:
    """Read a report of at most `most` bytes; raises ReportError, TimeoutError."""
    text_length, data_length = _HEADER.unpack(_read(pipe, _HEADER.size, until))
    if text_length > MOST_TEXT or text_length + data_length > most:
        raise ReportError("it reported too much")
    text = _read(pipe, text_length, until)
    data = memoryview(_read(pipe, data_length, until))
    try:
        report = json.loads(text)
        sizes = report.pop("sizes")
        buffers = []
        for size in sizes:
            if type(size) is not int or not 0 <= size <= len(data):
                raise ValueError
            buffers.append(data[:size])
            data = data[size:]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise ReportError("its report makes no sense") from None
    return report, buffers


def _read(pipe: int, length: int, until: float) -> bytearray:
    """Read that many bytes; the buffer grows with what comes, not with what was announced."""
    data = bytearray()
    while len(data) < length:
        wait = until - time.monotonic()
        if wait <= 0 or not _is_ready(pipe, wait):
            raise TimeoutError
        piece = os.read(pipe, min(_PIECE, length - len(data)))
        if not piece:
            raise ReportError("it ended without a report")
        data += piece
    return data


def close_quietly(descriptor: int) -> None:
    """Close a descriptor that may be closed already."""
    with contextlib.suppress(OSError):
        os.close(descriptor)


def _is_ready(pipe: int, seconds: float) -> bool:
    # Not select(): a kernel may have more than 1,024 descriptors.
    poll = select.poll()
    poll.register(pipe, select.POLLIN)
    return bool(poll.poll(seconds * 1000))
