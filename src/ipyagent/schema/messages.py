"""Messages between user, model and tools, and a model's reply: streamed pieces, and the whole.

One form for all: a message is a role and a tuple of content blocks. Other formats (OpenAI's,
Anthropic's, plain text as content) are accepted and normalized; `to_openai` and `to_anthropic` emit
them.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Literal, Self

from pydantic import AliasChoices, Field, model_validator

from ipyagent.compat import convert_message, convert_response, convert_usage
from ipyagent.json_types import JsonDict
from ipyagent.schema.base import Amount, Count, Flag, ForeignModel, Model, Moment, Text, now
from ipyagent.schema.blocks import (
    BlockField,
    ImageContent,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultContent,
)

MAX_TYPED = 10_000
"""Characters that a user may type as one message; interpolated text is cut elsewhere."""


class Role(StrEnum):
    """The role of a message. Tool results belong to user messages, as for Anthropic."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"


class TokenUsage(ForeignModel):
    """Tokens of one request, or of several added up. `prompt_tokens` includes cached ones."""

    prompt_tokens: Count = 0
    completion_tokens: Count = 0
    cache_read_tokens: Count = 0
    cache_creation_tokens: Count = 0

    _convert = convert_usage

    @property
    def total_tokens(self) -> int:
        """Prompt and completion together."""
        return self.prompt_tokens + self.completion_tokens

    def to_dict(self, *, exclude_none: bool = False) -> JsonDict:
        """Return the counts and their total."""
        return super().to_dict(exclude_none=exclude_none) | {"total_tokens": self.total_tokens}

    def to_openai(self) -> JsonDict:
        """Return OpenAI's count, which has no place for tokens written to a cache."""
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "total_tokens": self.total_tokens,
            "prompt_tokens_details": {"cached_tokens": self.cache_read_tokens},
        }

    def to_anthropic(self) -> dict[str, int]:
        """Return Anthropic's count, in which `input_tokens` leaves out cached tokens."""
        cached = self.cache_read_tokens + self.cache_creation_tokens
        return {
            "input_tokens": max(0, self.prompt_tokens - cached),
            "output_tokens": self.completion_tokens,
            "cache_creation_input_tokens": self.cache_creation_tokens,
            "cache_read_input_tokens": self.cache_read_tokens,
        }

    def __add__(self, other: TokenUsage) -> TokenUsage:
        return TokenUsage.sum((self, other))

    @classmethod
    def sum(cls, usages: Iterable[TokenUsage]) -> TokenUsage:
        """Return several counts added up."""
        prompt = completion = read = created = 0
        for each in usages:
            prompt += each.prompt_tokens
            completion += each.completion_tokens
            read += each.cache_read_tokens
            created += each.cache_creation_tokens
        return cls.model_construct(
            prompt_tokens=prompt,
            completion_tokens=completion,
            cache_read_tokens=read,
            cache_creation_tokens=created,
        )


class Message(ForeignModel):
    """One turn of a conversation, as blocks.

    `synthetic` marks messages of neither user nor model: context, summaries, reminders. `maker` is
    the model and the service that made an answer: its signatures mean nothing to any other.
    """

    role: Role
    content: tuple[BlockField, ...]
    synthetic: Flag = False
    timestamp: Moment = Field(default_factory=now, validation_alias=AliasChoices("timestamp", "ts"))
    usage: TokenUsage | None = Field(
        default=None, validation_alias=AliasChoices("usage", "tokens_used")
    )
    maker: Text | None = None

    _convert = convert_message

    @classmethod
    def of(cls, role: Role, text: str, *, synthetic: bool = False) -> Message:
        """Return a message of one text block."""
        return cls(role=role, content=(TextContent(text=text),), synthetic=synthetic)

    @property
    def text(self) -> str:
        """All text blocks, joined."""
        return "".join([b.text for b in self.content if isinstance(b, TextContent)])

    @property
    def thinking(self) -> str:
        """All thinking blocks, joined."""
        return "".join([b.thinking for b in self.content if isinstance(b, ThinkingContent)])

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The calls in this message, in order."""
        return tuple([b for b in self.content if isinstance(b, ToolCall)])

    @property
    def tool_results(self) -> tuple[ToolResultContent, ...]:
        """The tool results in this message, in order."""
        return tuple([b for b in self.content if isinstance(b, ToolResultContent)])

    @property
    def is_from_user(self) -> bool:
        """True if the user wrote it."""
        return self.role is Role.USER and not self.synthetic and not self.tool_results

    def to_anthropic(self) -> JsonDict:
        """Return the message in Anthropic's format."""
        content = [block.to_anthropic() for block in self.content]
        return {"role": str(self.role), "content": content}

    def to_openai(self) -> list[JsonDict]:
        """Return the message in OpenAI's chat format, where each tool result is a message.

        Blocks that the format has no place for are left out. `ipyagent.llm.wire` decides what is
        really sent, since it knows what the model accepts.
        """
        results = [
            {"role": "tool", "tool_call_id": each.tool_use_id, "content": each.text}
            for each in self.tool_results
        ]
        parts = [b for b in self.content if isinstance(b, (TextContent, ImageContent))]
        parts += [b for each in self.tool_results for b in each.images]
        message: JsonDict = {"role": str(self.role), "content": self.text or None}
        if any(isinstance(b, ImageContent) for b in parts):
            message["content"] = [b.to_openai() for b in parts]
        if self.tool_calls:
            message["tool_calls"] = [call.to_openai() for call in self.tool_calls]
        return [*results, message] if message["content"] or self.tool_calls else results

    @model_validator(mode="after")
    def _check_role(self) -> Self:
        if not self.content:
            raise ValueError("a message needs at least one block")
        kinds = {*map(type, self.content)}
        if self.role is not Role.ASSISTANT and ToolCall in kinds:
            raise ValueError("only the assistant makes tool calls")
        if self.role is not Role.USER and ToolResultContent in kinds:
            raise ValueError("tool results belong in a user message")
        if kinds == {TextContent} and not self.text.strip():
            raise ValueError("a message of text must not be empty")
        if self.role is Role.USER and not self.synthetic and ToolResultContent not in kinds:
            typed = len(self.text.strip())
            if typed > MAX_TYPED:
                raise ValueError(
                    f"the message has {typed:,} characters; at most {MAX_TYPED:,} can be typed"
                )
        return self


def exchange(messages: Iterable[Message]) -> list[Message]:
    """Return the prompts and answers among messages.

    Calls, results and texts between them belong to the answer that they led to: of several replies
    to one prompt the last is the answer.
    """
    turns: list[Message] = []
    for message in messages:
        add_to_exchange(turns, message)
    return turns


def add_to_exchange(turns: list[Message], message: Message) -> None:
    """Add a message to prompts and answers, if it is one."""
    if message.is_from_user:
        turns.append(message)
    elif message.role is Role.ASSISTANT and not message.synthetic:
        turns[-1 if turns and turns[-1].role is Role.ASSISTANT else len(turns) :] = [message]


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


class LLMResponse(ForeignModel):
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

    _convert = convert_response

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
