"""The one way to a model: requests are recorded first, and replies are limited.

A kernel can end at any moment, most likely during the long one in which a model thinks. It must not
be in doubt afterwards how much the model had been sent by then.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Set as AbstractSet
from contextlib import aclosing
from dataclasses import replace

from ipyagent.agent.budgets import LimitReachedError, ReplyMeter, RunBudget
from ipyagent.agent.session.session import Session
from ipyagent.llm.client import Client, ModelRequest, maker_of
from ipyagent.llm.wire import ReplyBuilder
from ipyagent.redaction import Redactor
from ipyagent.schema import (
    PAUSED,
    Message,
    MessageFinished,
    Role,
    StopReason,
    StreamChunk,
    TokenUsage,
    ToolCall,
)

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


class StreamedReply:
    """A reply of `client`. `prefix` names calls that come without an id.

    Secrets in it are redacted at once, so that the call which runs is the one shown.
    """

    def __init__(self, step: int, prefix: str, redactor: Redactor, client: Client) -> None:
        self.step = step
        self.message: Message | None = None
        """The reply, once `complete` or `cut_off` was called."""
        self._builder = ReplyBuilder(prefix)
        self._redactor, self._prefix, self._client = redactor, prefix, client
        self._thinking_since: float | None = None
        self._thinking_seconds: float | None = None

    def add(self, chunk: StreamChunk) -> None:
        """Add a chunk."""
        self._builder.add(chunk)
        if chunk.type == "thinking":
            moment = time.monotonic()
            self._thinking_since = self._thinking_since or moment
            self._thinking_seconds = max(0.0, moment - self._thinking_since)

    def complete(self) -> None:
        """Finalize the reply: build the message from its chunks."""
        self._builder.maker = maker_of(self._client)
        message = self._builder.message()
        self.message = message and self._redactor.record(message)

    def make_ids_unique(self, used_ids: AbstractSet[str]) -> None:
        """Give calls new ids where an earlier call has the same: providers refuse a used id."""
        if self.message is None or used_ids.isdisjoint(call.id for call in self.calls):
            return
        blocks = list(self.message.content)
        for at, block in enumerate(blocks):
            if isinstance(block, ToolCall) and block.id in used_ids:
                blocks[at] = block.model_copy(update={"id": f"{self._prefix}_again_{at}"})
        self.message = self.message.model_copy(update={"content": tuple(blocks)})

    def cut_off(self) -> None:
        """Finalize a partial reply: keep its text, drop its tool calls."""
        message = self._builder.message()
        text = message.text if message else ""
        self.message = Message.of(Role.ASSISTANT, text) if text.strip() else None

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The calls, in order."""
        return self.message.tool_calls if self.message else ()

    @property
    def usage(self) -> TokenUsage:
        """The usage, as far as the provider reported it."""
        return self._builder.usage

    @property
    def is_truncated(self) -> bool:
        """True if the model's own length limit ended it."""
        return self._builder.finish_reason == "length"

    @property
    def is_paused(self) -> bool:
        """True if the service stopped in its midst, to be asked to go on."""
        return self._builder.finish_reason == PAUSED

    @property
    def lacks_calls(self) -> bool:
        """True if the service says that it ends in calls, and none came."""
        return self._builder.finish_reason == "tool_calls" and not self.calls

    @property
    def stop_reason(self) -> StopReason:
        """The stop reason of a run that ends with this reply."""
        if self.is_truncated:
            return StopReason.MAX_TOKENS
        if self._builder.finish_reason == "content_filter":
            return StopReason.CONTENT_FILTER
        text = self.message.text.strip() if self.message else ""
        return StopReason.FINISHED if text else StopReason.EMPTY

    def to_event(self, usage: TokenUsage, cost_usd: float | None) -> MessageFinished:
        """Return the event for it; `usage` and `cost_usd` are those of a summary made before it."""
        own = self._builder
        message = self.message and self.message.model_copy(update={"usage": own.usage})
        costs = [cost for cost in (own.cost_usd, cost_usd) if cost is not None]
        return MessageFinished(
            step=self.step,
            message=message,
            finish_reason=own.finish_reason,
            usage=own.usage + usage,
            cost_usd=sum(costs) if costs else None,
            thinking_seconds=self._thinking_seconds,
        )
