"""The one way to a model: requests are recorded first, and replies are limited.

A kernel can end at any moment, most likely during the long one in which a model thinks. It must not
be in doubt afterwards how much the model had been sent by then.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace

from ipyagent.agent.allowance import LimitReachedError, ReplyMeter, RunBudget
from ipyagent.agent.session import Session
from ipyagent.llm.client import Client, ModelRequest
from ipyagent.schema import StreamChunk

YIELD_SECONDS = 0.02
"""Seconds after which a reply that streams without a pause yields to other tasks."""


async def stream_reply(
    client: Client, session: Session, request: ModelRequest, budget: RunBudget
) -> AsyncGenerator[StreamChunk, None]:
    """Send `request` once all events are on the disk; yield the reply in pieces.

    Raises JournalError if they cannot be recorded; nothing is sent then. Raises LimitReachedError
    if the reply takes more than is left of the budget.
    """
    await session.wait_until_recorded()
    allowance = await budget.allowance(client, session.conversation.token_count)
    if allowance.tokens is not None and allowance.tokens <= 0:
        raise LimitReachedError(allowance.reason)
    request, meter = replace(request, max_tokens=allowance.tokens), ReplyMeter(allowance)
    loop = asyncio.get_running_loop()
    begun = loop.time()
    try:
        async with aclosing(client.stream(request)) as chunks:
            async for chunk in chunks:
                for piece in meter.split(chunk):
                    yield piece
                    if loop.time() - begun > YIELD_SECONDS:
                        await asyncio.sleep(0)
                        begun = loop.time()
        for piece in meter.finish():
            yield piece
    except LimitReachedError:
        for piece in meter.estimate_usage(client, request):
            yield piece
        raise
