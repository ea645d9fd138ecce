"""A client whose requests share limits: how many at once, how many a minute, and pauses."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager

from ipyagent.errors import ModelUnavailableError
from ipyagent.llm.client import Client, ModelRequest, Priced, maker_of
from ipyagent.schema import StreamChunk, TokenUsage

MOST_IN_VAIN = 6
"""How often one request is put off while no other gets a reply."""


class WrappedClient:
    """A client around another one, with its name and prices."""

    def __init__(self, client: Client) -> None:
        self.model, self.maker = client.model, maker_of(client)
        self.context_window = client.context_window
        self._client = client

    def cost(self, usage: TokenUsage) -> float | None:
        """Return the price in US dollars; None if unknown. May block."""
        return self._client.cost(usage) if isinstance(self._client, Priced) else None


class LimitedClient(WrappedClient):
    """Asks another client, within limits that all who ask share.

    When the service says how long to wait, everybody waits, and half as many ask at once after
    that, one more for each round of replies. Such a request is sent again, for as long as others
    get through.
    """

    def __init__(
        self,
        client: Client,
        at_once: int,
        requests_per_minute: float | None = None,
        tokens_per_minute: float | None = None,
    ) -> None:
        super().__init__(client)
        self._most, self._limit = at_once, float(at_once)
        self._seconds_each = 60 / requests_per_minute if requests_per_minute else 0.0
        self._seconds_per_token = 60 / tokens_per_minute if tokens_per_minute else 0.0
        self._next = self._paused_until = 0.0
        """The moment of the loop at which the next request may go, and at which a pause ends."""
        self._open = self._replies = 0
        self._free = asyncio.Condition()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamChunk, None]:
        """Yield the reply to `request`, once it is its turn."""
        in_vain, has_begun = 0, False
        while True:
            replies = self._replies
            try:
                async with self._turn(), aclosing(self._client.stream(request)) as chunks:
                    async for chunk in chunks:
                        has_begun = True
                        if chunk.usage:
                            self._delay(chunk.usage.total_tokens * self._seconds_per_token)
                        yield chunk
                return
            except ModelUnavailableError as error:
                in_vain = in_vain + 1 if self._replies == replies else 0
                if error.retry_after is None or has_begun or in_vain > MOST_IN_VAIN:
                    raise
                self._pause(error.retry_after)

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        """Wait until one more may ask; let the next one when it has been answered."""
        loop = asyncio.get_running_loop()
        async with self._free:
            await self._free.wait_for(lambda: self._open < self._limit)
            self._open += 1
        try:
            # The moment may move meanwhile.
            while (seconds := max(self._next, self._paused_until) - loop.time()) > 0:  # noqa: ASYNC110
                await asyncio.sleep(seconds)
            self._delay(self._seconds_each)
            yield
            self._replies += 1
            self._limit = min(self._most, self._limit + 1 / self._limit)
        finally:
            self._open -= 1
            async with self._free:
                self._free.notify(2)

    def _delay(self, seconds: float) -> None:
        self._next = max(self._next, asyncio.get_running_loop().time()) + seconds

    def _pause(self, seconds: float) -> None:
        moment = asyncio.get_running_loop().time()
        if moment >= self._paused_until:  # else it is the same pause
            self._limit = max(1.0, self._limit / 2)
        self._paused_until = max(self._paused_until, moment + seconds)
