"""Server-sent events, cut out of the bytes as they arrive.

Format: https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream.
Only `data` matters here. A line that is bare JSON is taken for data: some services report an error
in the midst of a stream without any framing. Others name the event `error`, or its field.
"""

from __future__ import annotations

import json
from typing import Any

from ipyagent.llm.service_error import EventTooLargeError

_ERRORS = {b"error", b"exception"}
_MARK = b"\xef\xbb\xbf"


class EventSplitter:
    """Splits a stream of bytes into the data of its events."""

    most = 8 * 1024 * 1024
    """Bytes of one event, or of a body without events: twice the limit of a whole reply."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        """A line that has not ended yet."""
        self._data: list[bytes] = []
        """The data of an event that has not ended yet."""
        self._size = 0
        self._is_start = True
        self._is_error = False
        """True if the event that has not ended yet is named so."""
        self.has_events = False
        """True once there was an event."""

    def feed(self, piece: bytes) -> list[list[str]]:
        """Return the events that end in `piece`, each as its lines of data."""
        if b"\n" not in piece and b"\r" not in piece:
            self._pieces.append(piece)
            self._grow(len(piece))
            return []
        text = b"".join((*self._pieces, piece))
        self._pieces.clear()
        if self._is_start:
            text, self._is_start = text.removeprefix(_MARK), False
        if b"\r" in text:
            text = self._unify_ends(text)
        *lines, rest = text.split(b"\n")
        self._size = sum(map(len, self._data))
        events = [event for line in lines if (event := self._take(line))]
        self.has_events = self.has_events or bool(events)
        if rest:
            self._pieces.insert(0, rest)
        self._grow(len(rest))
        return events

    def end(self) -> list[list[str]]:
        """Return the event that the end of the stream ends."""
        return self.feed(b"\n\n")

    def _unify_ends(self, text: bytes) -> bytes:
        # A line feed that belongs to this carriage return may come with the next piece.
        if text.endswith(b"\r"):
            text = text[:-1]
            self._pieces.append(b"\r")
        return text.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _take(self, line: bytes) -> list[str] | None:
        """Take a line; return the event that it ends."""
        if not line:
            event = [_as_error(b"\n".join(self._data))] if self._is_error else self._data
            self._data, self._size, self._is_error = [], 0, False
            return [each.decode("utf-8", "replace") for each in event]
        if line.startswith(b"data:"):
            self._data.append(line[6:] if line.startswith(b"data: ") else line[5:])
        elif line.startswith(b"error:"):
            self._data.append(_as_error(line[6:]))
        elif line.startswith(b"event:"):
            self._is_error = line[6:].strip().lower() in _ERRORS
        elif line.startswith(b"{") and line.rstrip().endswith(b"}"):
            self._data.append(line)
        self._grow(len(line))
        return None

    def _grow(self, size: int) -> None:
        self._size += size
        if self._size > self.most:
            raise EventTooLargeError(self.most)


def _as_error(text: bytes) -> bytes:
    """Return the data of an event that is an error by its name or its field."""
    try:
        error: Any = json.loads(text)
    except (ValueError, RecursionError):
        error = text.decode("utf-8", "replace").strip()
    if isinstance(error, dict) and error.get("error"):
        return text
    return json.dumps({"error": error or "an error without words"}).encode()
