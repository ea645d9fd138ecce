"""Time limits that pause while the user is asked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager


class TimeLimits:
    """The time limits of a run and of its current step."""

    def __init__(self) -> None:
        self._limits: list[asyncio.Timeout] = []

    @property
    def is_expired(self) -> bool:
        """True once the time is up."""
        return any(limit.expired() for limit in self._limits)

    @asynccontextmanager
    async def limit(self, seconds: float | None, error: Exception) -> AsyncIterator[None]:
        """Raise `error` if the body takes longer than this many seconds; None: never."""
        try:
            async with asyncio.timeout(seconds) as limit:
                self._limits.append(limit)
                try:
                    yield
                finally:
                    self._limits.remove(limit)
        except TimeoutError:
            if not limit.expired():
                raise
            raise error from None

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Exclude the time of the body."""
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
