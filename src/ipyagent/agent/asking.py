"""The one way to a model: what is sent has been recorded, so that no success is ever repeated.

A kernel can end at any moment, most likely in the long one in which a model thinks. What the model
has been sent by then must not be in doubt afterwards.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from ipyagent.agent.session import Session
from ipyagent.llm.client import Client, ModelRequest
from ipyagent.schema import StreamChunk


async def ask(
    client: Client, session: Session, request: ModelRequest
) -> AsyncGenerator[StreamChunk, None]:
    """Send `request` once all that happened is on the disk; yield the reply, piece by piece.

    Raises JournalError where it cannot be recorded; nothing is sent then.
    """
    await session.recorded()
    async with aclosing(client.stream(request)) as chunks:
        async for chunk in chunks:
            yield chunk
