"""By when something that can be used must have arrived."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager

import httpx

from ipyagent.llm.direct.formats import Reader
from ipyagent.llm.direct.read_ahead import ReadAhead
from ipyagent.schema import StreamChunk

FINISHED_SECONDS = 2.0
"""How long more is waited for once the tokens were counted after a finish."""
UNCOUNTED = 5
"""How many times as long it is waited for before: some services finish after each call."""
DRAIN_SECONDS = 0.25
"""How long the end of an answer is waited for after its last event, to keep the connection."""


class Deadline:
    """The deadline of a reply, which only what can be used puts off.

    Bytes alone do not: a body that drips, pings, and events without words are no answer. After the
    end of the reply there is one deadline for what may still come, which only words and calls
    lift, and what was complete stays so.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._loop = asyncio.get_running_loop()
        self._due = self._loop.time() + seconds
        self._end = math.inf
        """By when all that may come after the reply must have come."""

    @asynccontextmanager
    async def limit(self) -> AsyncIterator[None]:
        """Raise TimeoutError once the deadline has passed."""
        due = min(self._due, self._end)
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
                return await ahead.take()
        except (TimeoutError, httpx.HTTPError):
            if is_open and reader.reason is None:
                raise
        return None

    def renew_by(self, chunks: Iterable[StreamChunk]) -> Iterator[StreamChunk]:
        """Yield the chunks; each that says something puts the deadline off."""
        for chunk in chunks:
            if chunk.data or chunk.type not in ("content", "thinking"):
                self._due = self._loop.time() + self._seconds
            if chunk.type in ("content", "tool_call") and (chunk.data.strip() or chunk.name):
                self._end = math.inf  # the reply goes on, also after a finish
            yield chunk
