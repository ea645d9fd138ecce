"""What a command prints, kept in a bounded amount of memory: its beginning and its end."""

from __future__ import annotations

from collections import deque

KEPT = 8_000_000
"""Bytes of the beginning that are kept."""

_TAIL = 64_000


class Output:
    """The bytes of one command as they come."""

    def __init__(self) -> None:
        self.size = 0
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._in_tail = 0

    def add(self, data: bytes) -> None:
        """Take the next bytes."""
        self.size += len(data)
        room = KEPT - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        if data:
            self._tail.append(data[-_TAIL:])
            self._in_tail += len(self._tail[-1])
        while self._tail and self._in_tail - len(self._tail[0]) >= _TAIL:
            self._in_tail -= len(self._tail.popleft())

    def beginning(self) -> str:
        """The kept beginning."""
        return self._head.decode("utf-8", "replace")

    def end(self) -> str:
        """What is kept of the rest."""
        return b"".join(self._tail).decode("utf-8", "replace")
