"""The output of a command in bounded memory: its beginning and its end."""

from __future__ import annotations

from collections import deque

MAX_HEAD = 8_000_000
"""Bytes of the beginning that are kept."""

_MAX_TAIL = 64_000


class BoundedOutput:
    """The output of one command as it arrives."""

    def __init__(self) -> None:
        self.size = 0
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._in_tail = 0

    def add(self, data: bytes) -> None:
        """Add bytes."""
        self.size += len(data)
        room = MAX_HEAD - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        if data:
            self._tail.append(data[-_MAX_TAIL:])
            self._in_tail += len(self._tail[-1])
        while self._tail and self._in_tail - len(self._tail[0]) >= _MAX_TAIL:
            self._in_tail -= len(self._tail.popleft())

    def head(self) -> str:
        """Return the beginning."""
        return self._head.decode("utf-8", "replace")

    def tail(self) -> str:
        """Return the kept part of the rest."""
        return b"".join(self._tail).decode("utf-8", "replace")
