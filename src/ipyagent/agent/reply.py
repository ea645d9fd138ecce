"""A model's reply as it streams in."""

from __future__ import annotations

import time
from collections.abc import Set as AbstractSet

from ipyagent.llm.wire import ReplyBuilder
from ipyagent.redaction import Redactor
from ipyagent.schema import (
    Message,
    MessageFinished,
    Role,
    StopReason,
    StreamChunk,
    TokenUsage,
    ToolCall,
)


class Reply:
    """A reply and how long its thinking took. `prefix` names calls that come without an id.

    What it holds of secrets is hidden at once, so that the call which runs is the one shown.
    """

    def __init__(self, step: int, prefix: str, redactor: Redactor) -> None:
        self.step = step
        self.message: Message | None = None
        """What was said, once `complete` or `broken_off` was called."""
        self._builder = ReplyBuilder(prefix)
        self._redactor, self._prefix = redactor, prefix
        self._thinking_since: float | None = None
        self._thinking_seconds: float | None = None

    def add(self, chunk: StreamChunk) -> None:
        """Take in one chunk."""
        self._builder.add(chunk)
        if chunk.type == "thinking":
            moment = time.monotonic()
            self._thinking_since = self._thinking_since or moment
            self._thinking_seconds = max(0.0, moment - self._thinking_since)

    def complete(self) -> None:
        """All of it was said."""
        said = self._builder.message()
        self.message = said and self._redactor.of(said)

    def rename(self, taken: AbstractSet[str]) -> None:
        """Give calls other ids than those of earlier ones: providers refuse one that was used."""
        if self.message is None or taken.isdisjoint(call.id for call in self.calls):
            return
        blocks = list(self.message.content)
        for at, block in enumerate(blocks):
            if isinstance(block, ToolCall) and block.id in taken:
                blocks[at] = block.model_copy(update={"id": f"{self._prefix}_again_{at}"})
        self.message = self.message.model_copy(update={"content": tuple(blocks)})

    def break_off(self) -> None:
        """More was to be said: the text is kept, but no call."""
        said = self._builder.message()
        text = said.text if said else ""
        self.message = Message.of(Role.ASSISTANT, text) if text.strip() else None

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The calls, in order."""
        return self.message.tool_calls if self.message else ()

    @property
    def usage(self) -> TokenUsage:
        """What it took, as far as that was told."""
        return self._builder.usage

    @property
    def was_cut(self) -> bool:
        """Whether the model's own limit of length ended it."""
        return self._builder.finish_reason == "length"

    @property
    def reason(self) -> StopReason:
        """Why a reply without calls ends the run."""
        if self.was_cut:
            return StopReason.MAX_TOKENS
        if self._builder.finish_reason == "content_filter":
            return StopReason.CONTENT_FILTER
        said = self.message.text.strip() if self.message else ""
        return StopReason.FINISHED if said else StopReason.EMPTY

    def finished(self, usage: TokenUsage, cost_usd: float | None) -> MessageFinished:
        """The event that tells of it; `usage` and `cost_usd` are what a summary before it took."""
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
