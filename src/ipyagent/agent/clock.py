"""Time limits that stand still while a person is asked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager


class Clock:
    """The time limits of a run and, within it, of its present step."""

    def __init__(self) -> None:
        self._limits: list[asyncio.Timeout] = []

    @property
    def expired(self) -> bool:
        """Whether the time is up, as seen from within."""
        return any(limit.expired() for limit in self._limits)

    @asynccontextmanager
    async def limit(self, seconds: float | None) -> AsyncIterator[asyncio.Timeout]:
        """End what is within by TimeoutError after so many seconds; None: never."""
        async with asyncio.timeout(seconds) as limit:
            self._limits.append(limit)
            try:
                yield limit
            finally:
                self._limits.remove(limit)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Time within this does not count."""
        loop = asyncio.get_running_loop()
        begun = loop.time()
        # One that is about to end the run can't be changed any more.
        due = {each: each.when() for each in self._limits if not each.expired()}
        for limit in due:
            limit.reschedule(None)
        try:
            yield
        finally:
            for limit, moment in due.items():
                if moment is not None and limit in self._limits:
                    limit.reschedule(moment + loop.time() - begun)
