"""Reading in a task of its own: what arrives together is handled together.

HTTP delivers a fast stream in hundreds of small pieces for each read of the socket. All that comes
after them (redaction, events, views) costs the same for one piece as for all of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from types import TracebackType
from typing import Self

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

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
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
