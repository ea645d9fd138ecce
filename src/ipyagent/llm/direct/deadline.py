"""By when something that can be used must have arrived."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, suppress

import httpx

from ipyagent.llm.direct.formats import Reader
from ipyagent.llm.direct.read_ahead import ReadAhead
from ipyagent.schema import StreamChunk

FINISHED_SECONDS = 2.0
"""How long token counts are waited for after the reply."""
DRAIN_SECONDS = 0.25
"""How long the end of an answer is waited for after its last event, to keep the connection."""


class Deadline:
    """The deadline of a reply, which only what can be used puts off.

    Bytes alone do not: a body that drips, pings, and events without words are no answer. After the
    end of the reply there is one deadline for what may still come, and what was complete stays so.
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
        if not reader.is_finished:
            async with self.limit():
                return await ahead.take()
        seconds = DRAIN_SECONDS if reader.is_over else FINISHED_SECONDS
        self._end = min(self._end, self._loop.time() + seconds)
        with suppress(TimeoutError, httpx.HTTPError):
            async with self.limit():
                return await ahead.take()
        return None

    def renew_by(self, chunks: Iterable[StreamChunk]) -> Iterator[StreamChunk]:
        """Yield the chunks; each that says something puts the deadline off."""
        for chunk in chunks:
            if chunk.data or chunk.type not in ("content", "thinking"):
                self._due = self._loop.time() + self._seconds
            yield chunk
