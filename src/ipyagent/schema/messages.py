"""What is said between the person, the model and the tools."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, Field, NonNegativeInt

from ipyagent.schema.base import Model, now


class Role(StrEnum):
    """Who speaks. Tool results are blocks of a user message, as in Anthropic's format."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"


class TextContent(Model):
    """Plain or Markdown text."""

    type: Literal["text"] = "text"
    text: str


class ImageContent(Model):
    """An image, base64-encoded. `width` and `height` are in pixels, where known."""

    type: Literal["image"] = "image"
    media_type: str = "image/png"
    data: str = Field(repr=False)
    width: int | None = None
    height: int | None = None


class ThinkingContent(Model):
    """A model's reasoning. `signature` is replayed verbatim to the provider, never shown."""

    type: Literal["thinking"] = "thinking"
    thinking: str
    signature: str = Field(default="", repr=False)


class ToolCall(Model):
    """A model's wish to run a tool.

    `parse_error` is set when the arguments were not a JSON object; such a call is never executed.
    """

    type: Literal["tool_call"] = "tool_call"
    id: str = Field(min_length=1)
    name: str = Field(min_length=1)
    arguments: dict[str, Any] = Field(default_factory=dict)
    parse_error: str | None = None


class ToolResultContent(Model):
    """What the model sees of a tool's result."""

    type: Literal["tool_result"] = "tool_result"
    tool_use_id: str
    content: tuple[TextContent | ImageContent, ...]
    is_error: bool = False

    @property
    def text(self) -> str:
        """The text blocks, joined."""
        return "\n".join(b.text for b in self.content if isinstance(b, TextContent))


Block = Annotated[
    TextContent | ImageContent | ThinkingContent | ToolCall | ToolResultContent,
    Field(discriminator="type"),
]


class TokenUsage(Model):
    """Tokens of one request, or of several added up. `prompt_tokens` includes cached ones."""

    prompt_tokens: NonNegativeInt = 0
    completion_tokens: NonNegativeInt = 0
    cache_read_tokens: NonNegativeInt = 0
    cache_creation_tokens: NonNegativeInt = 0

    @property
    def total_tokens(self) -> int:
        """Prompt and completion together."""
        return self.prompt_tokens + self.completion_tokens

    def __add__(self, other: TokenUsage) -> TokenUsage:
        mine, theirs = self.model_dump(), other.model_dump()
        return TokenUsage(**{key: mine[key] + theirs[key] for key in mine})


class Message(Model):
    """One turn of a conversation, as blocks."""

    role: Role
    content: tuple[Block, ...]
    timestamp: AwareDatetime = Field(default_factory=now)

    @classmethod
    def of(cls, role: Role, text: str) -> Message:
        """A message of one text block."""
        return cls(role=role, content=(TextContent(text=text),))

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
