"""Reading in a task of its own, and by when something that can be used must have arrived.

HTTP delivers a fast stream in hundreds of small pieces for each read of the socket. All that comes
after them (redaction, events, views) costs the same for one piece as for all of them, so what
arrives together is handled together.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, suppress
from typing import Self

import httpx

from ipyagent.llm.direct.formats import Reader
from ipyagent.llm.service_error import EventTooLargeError
from ipyagent.schema import StreamChunk

FINISHED_SECONDS = 2.0
"""How long more is waited for once the tokens were counted after a finish."""
UNCOUNTED = 5
"""How many times as long it is waited for before: some services finish after each call."""
_LINE = 64
"""Bytes that cost as much time as a line by itself."""
DRAIN_SECONDS = 0.25
"""How long the end of an answer is waited for after its last event, to keep the connection."""


class Deadline:
    """The deadline of a reply, which only what can be used puts off.

    Bytes alone do not: a body that drips, pings, and events without words are no answer, and only
    so many of them are read. After the end of the reply there is one deadline for what may still
    come, which only words and calls lift, words not for ever, and what was complete stays so.
    """

    most = 16 * 1024 * 1024
    """Bytes without an answer; services repeat all tools and the whole reply in single events."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._loop = asyncio.get_running_loop()
        self._due = self._loop.time() + seconds
        self._end = self._last = math.inf
        """By when all that may come after the reply must have come; the words among it."""
        self._unused = 0
        """Bytes since the last part of the answer."""

    @asynccontextmanager
    async def limit(self) -> AsyncIterator[None]:
        """Raise TimeoutError once the deadline has passed."""
        due = min(self._due, self._end, self._last)
        if self._loop.time() > due:
            raise TimeoutError
        async with asyncio.timeout_at(due):
            yield

    async def take(self, ahead: ReadAhead, reader: Reader) -> bytes | None:
        """Return the next bytes; None at the end, which a finished reply need not reach in order.

        Raises TimeoutError if nothing that can be used has arrived in time.
        """
        is_open = not (reader.is_finished or reader.is_over)
        if not is_open:
            seconds = FINISHED_SECONDS * (1 if reader.is_counted else UNCOUNTED)
            seconds = DRAIN_SECONDS if reader.is_over else seconds
            self._end = min(self._end, self._loop.time() + seconds)
        try:
            async with self.limit():
                data = await ahead.take()
            self._unused += len(data or b"") + _LINE * (data or b"").count(b"\n")
            if self._unused > self.most:
                raise EventTooLargeError(self.most, "without an answer")
            return data
        except (TimeoutError, httpx.HTTPError):
            if is_open and reader.reason is None:
                raise
        return None

    def renew_by(self, chunks: Iterable[StreamChunk]) -> Iterator[StreamChunk]:
        """Yield the chunks; each that says something puts the deadline off."""
        for chunk in chunks:
            if chunk.type == "finish":
                self._last = self._loop.time() + self._seconds
            elif chunk.data or chunk.name:
                self._due = self._loop.time() + self._seconds
                self._unused = self._unused if not chunk.data else 0
            if chunk.type == "tool_call":
                self._last = math.inf
            if chunk.type in ("content", "tool_call") and (chunk.data.strip() or chunk.name):
                self._end = math.inf  # the reply goes on, also after a finish
            yield chunk


MOST = 1024 * 1024
"""Bytes that are read before anybody takes them."""


class ReadAhead:
    """Reads an iterator of bytes; leaving it ends the reading, and with it the connection."""

    def __init__(self, pieces: AsyncIterator[bytes]) -> None:
        self._pieces = pieces
        self._waiting: list[bytes] = []
        self._size = 0
        self._arrived, self._taken = asyncio.Event(), asyncio.Event()

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._read())
        return self

    async def __aexit__(self, *error: object) -> None:
        self._task.cancel()
        with suppress(asyncio.CancelledError, Exception):
            await self._task

    async def take(self) -> bytes | None:
        """Return all that has arrived, after waiting for something; None at the end.

        Raises the reader's error, once all that came before was taken.
        """
        await self._arrived.wait()
        if self._waiting:
            data = b"".join(self._waiting)
            self._waiting.clear()
            self._size = 0
            self._taken.set()
            if not self._task.done():
                self._arrived.clear()
            return data
        self._task.result()
        return None

    async def _read(self) -> None:
        try:
            async for piece in self._pieces:
                self._waiting.append(piece)
                self._size += len(piece)
                self._arrived.set()
                if self._size > MOST:
                    self._taken.clear()
                    await self._taken.wait()
        finally:
            # The task is done only after this: whoever waits is woken by its end.
            asyncio.get_running_loop().call_soon(self._arrived.set)
