"""The one way to a model: what is sent has been recorded, and what comes back has its limits.

A kernel can end at any moment, most likely in the long one in which a model thinks. What the model
has been sent by then must not be in doubt afterwards.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace

from ipyagent.agent.allowance import Budget, LimitReachedError, Meter
from ipyagent.agent.session import Session
from ipyagent.llm.client import Client, ModelRequest
from ipyagent.schema import StreamChunk

TURN = 0.02
"""Seconds after which a reply that comes without a pause lets others have their turn."""


async def ask(
    client: Client, session: Session, request: ModelRequest, budget: Budget
) -> AsyncGenerator[StreamChunk, None]:
    """Send `request` once all that happened is on the disk; yield the reply, piece by piece.

    Raises JournalError where it cannot be recorded; nothing is sent then. Raises LimitReachedError
    where the reply takes more than is left of the budget.
    """
    await session.recorded()
    allowance = await budget.allowance(client, session.conversation.tokens)
    if allowance.tokens is not None and allowance.tokens <= 0:
        raise LimitReachedError(allowance.reason)
    request, meter = replace(request, max_tokens=allowance.tokens), Meter(allowance)
    loop = asyncio.get_running_loop()
    begun = loop.time()
    try:
        async with aclosing(client.stream(request)) as chunks:
            async for chunk in chunks:
                for piece in meter.pieces(chunk):
                    yield piece
                    if loop.time() - begun > TURN:
                        await asyncio.sleep(0)
                        begun = loop.time()
        for piece in meter.end():
            yield piece
    except LimitReachedError:
        for piece in meter.estimate(client, request):
            yield piece
        raise
