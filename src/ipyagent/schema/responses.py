"""A model's reply: streamed pieces, and the whole."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import AliasChoices, Field, model_validator

from ipyagent.compat.messages import convert_response
from ipyagent.schema.base import Amount, Count, Model, Text
from ipyagent.schema.blocks import ToolCall
from ipyagent.schema.messages import Message, TokenUsage


class StreamChunk(Model):
    """One piece of a streamed reply.

    content, thinking, signature: `data` is appended to the text so far.
    tool_call: the call number `index`; `id` and `name` come once, `data` is a piece of its JSON.
    usage: tokens of the whole request, and its price in US dollars where known.
    finish: `data` is the provider's finish reason.
    """

    type: Literal["content", "thinking", "signature", "tool_call", "usage", "finish"] = "content"
    data: str = ""
    index: Count = 0
    id: str = ""
    name: str = ""
    usage: TokenUsage | None = None
    cost_usd: Amount | None = None


class LLMResponse(Model):
    """A model's whole reply; `message` is None if it said nothing at all.

    `finish_reason` is in the provider's terms.
    """

    message: Message | None = None
    finish_reason: Text | None = Field(
        default=None, validation_alias=AliasChoices("finish_reason", "stop_reason")
    )
    usage: TokenUsage = TokenUsage()
    model: str | None = None
    id: str = ""
    cost_usd: Amount | None = None

    @model_validator(mode="before")
    @classmethod
    def _accept(cls, data: object) -> Any:
        return convert_response(data)

    @property
    def content(self) -> str | None:
        """The text, or None."""
        return self.text or None

    @property
    def text(self) -> str:
        """All text blocks, joined."""
        return self.message.text if self.message else ""

    @property
    def thinking(self) -> str:
        """All thinking blocks, joined."""
        return self.message.thinking if self.message else ""

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The calls, in order."""
        return self.message.tool_calls if self.message else ()
