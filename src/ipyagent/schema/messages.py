"""What is said between the person, the model and the tools.

One form for all: a message is a role and a tuple of content blocks. Other shapes (OpenAI's,
Anthropic's, plain text as content) are accepted and normalised; `to_openai` and `to_anthropic`
emit them.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Any, Self

from pydantic import AliasChoices, Field, model_validator

from ipyagent.json_types import JsonDict
from ipyagent.schema import accept, accept_counts
from ipyagent.schema.base import Count, Flag, Model, Moment, now
from ipyagent.schema.blocks import (
    BlockField,
    ImageContent,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultContent,
)

MAX_TYPED = 10_000
"""Characters that a person may type as one message; what is interpolated is cut elsewhere."""


class Role(StrEnum):
    """Who speaks. Tool results are blocks of a user message, as in Anthropic's format."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"


class TokenUsage(Model):
    """Tokens of one request, or of several added up. `prompt_tokens` includes cached ones."""

    prompt_tokens: Count = 0
    completion_tokens: Count = 0
    cache_read_tokens: Count = 0
    cache_creation_tokens: Count = 0

    @model_validator(mode="before")
    @classmethod
    def _accept(cls, data: object) -> Any:
        return accept_counts.usage(data)

    @property
    def total_tokens(self) -> int:
        """Prompt and completion together."""
        return self.prompt_tokens + self.completion_tokens

    def to_dict(self, *, exclude_none: bool = False) -> JsonDict:
        """Return the counts and their total."""
        return super().to_dict(exclude_none=exclude_none) | {"total_tokens": self.total_tokens}

    def to_openai(self) -> JsonDict:
        """OpenAI's count, which has no place for tokens written to a cache."""
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "total_tokens": self.total_tokens,
            "prompt_tokens_details": {"cached_tokens": self.cache_read_tokens},
        }

    def to_anthropic(self) -> dict[str, int]:
        """Anthropic's count, in which `input_tokens` leaves out what was cached."""
        cached = self.cache_read_tokens + self.cache_creation_tokens
        return {
            "input_tokens": max(0, self.prompt_tokens - cached),
            "output_tokens": self.completion_tokens,
            "cache_creation_input_tokens": self.cache_creation_tokens,
            "cache_read_input_tokens": self.cache_read_tokens,
        }

    def __add__(self, other: TokenUsage) -> TokenUsage:
        mine, theirs = self.model_dump(), other.model_dump()
        return TokenUsage(**{key: mine[key] + theirs[key] for key in mine})


class Message(Model):
    """One turn of a conversation, as blocks.

    `synthetic` marks what no person and no model said: context, summaries, reminders.
    """

    role: Role
    content: tuple[BlockField, ...]
    synthetic: Flag = False
    timestamp: Moment = Field(default_factory=now, validation_alias=AliasChoices("timestamp", "ts"))
    usage: TokenUsage | None = Field(
        default=None, validation_alias=AliasChoices("usage", "tokens_used")
    )

    @model_validator(mode="before")
    @classmethod
    def _accept(cls, data: object) -> Any:
        return accept.message(data)

    @classmethod
    def of(cls, role: Role, text: str, *, synthetic: bool = False) -> Message:
        """A message of one text block."""
        return cls(role=role, content=(TextContent(text=text),), synthetic=synthetic)

    @property
    def text(self) -> str:
        """All text blocks, joined."""
        return "".join(b.text for b in self.content if isinstance(b, TextContent))

    @property
    def thinking(self) -> str:
        """All thinking blocks, joined."""
        return "".join(b.thinking for b in self.content if isinstance(b, ThinkingContent))

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The calls in this message, in order."""
        return tuple(b for b in self.content if isinstance(b, ToolCall))

    @property
    def tool_results(self) -> tuple[ToolResultContent, ...]:
        """The tool results in this message, in order."""
        return tuple(b for b in self.content if isinstance(b, ToolResultContent))

    @property
    def is_persons(self) -> bool:
        """Whether a person wrote it."""
        return self.role is Role.USER and not self.synthetic and not self.tool_results

    def to_anthropic(self) -> JsonDict:
        """The message in Anthropic's format."""
        content = [block.to_anthropic() for block in self.content]
        return {"role": str(self.role), "content": content}

    def to_openai(self) -> list[JsonDict]:
        """The message in OpenAI's chat format, where each tool result is a message of its own.

        Blocks that the format has no place for are left out. What a model is really sent is up to
        `ipyagent.llm.wire`, which knows what the model takes in.
        """
        results = [
            {"role": "tool", "tool_call_id": each.tool_use_id, "content": each.text}
            for each in self.tool_results
        ]
        parts = [b for b in self.content if isinstance(b, (TextContent, ImageContent))]
        parts += [b for each in self.tool_results for b in each.images]
        said: JsonDict = {"role": str(self.role), "content": self.text or None}
        if any(isinstance(b, ImageContent) for b in parts):
            said["content"] = [b.to_openai() for b in parts]
        if self.tool_calls:
            said["tool_calls"] = [call.to_openai() for call in self.tool_calls]
        return [*results, said] if said["content"] or self.tool_calls else results

    @model_validator(mode="after")
    def _says_something_in_its_role(self) -> Self:
        if not self.content:
            raise ValueError("a message has at least one block")
        if self.role is not Role.ASSISTANT and self.tool_calls:
            raise ValueError("only the assistant makes tool calls")
        if self.role is not Role.USER and self.tool_results:
            raise ValueError("tool results are told to the model, in a user message")
        if all(isinstance(b, TextContent) and not b.text.strip() for b in self.content):
            raise ValueError("a message of text says something")
        if self.is_persons:
            typed = len(self.text.strip())
            if typed > MAX_TYPED:
                raise ValueError(
                    f"the message has {typed:,} characters; at most {MAX_TYPED:,} can be typed"
                )
        return self


def exchange(messages: Iterable[Message]) -> list[Message]:
    """Return the prompts and the answers among messages.

    Calls, results and what was said between them belong to the answer that they led to: of several
    replies to one prompt the last is the answer.
    """
    said: list[Message] = []
    for message in messages:
        add_to_exchange(said, message)
    return said


def add_to_exchange(said: list[Message], message: Message) -> None:
    """Add a message to prompts and answers, if it is one."""
    if message.is_persons:
        said.append(message)
    elif message.role is Role.ASSISTANT and not message.synthetic:
        said[-1 if said and said[-1].role is Role.ASSISTANT else len(said) :] = [message]
