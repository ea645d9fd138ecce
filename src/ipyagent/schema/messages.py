"""Messages between user, model and tools, their blocks, and a model's reply: in pieces, and whole.

All records are frozen, strict about input and lossless through JSON.

One form for all: a message is a role and a tuple of content blocks. Other formats (OpenAI's,
Anthropic's, plain text as content) are accepted and normalized; `to_openai` and `to_anthropic` emit
them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal, Self

from pydantic import (
    VERSION,
    AfterValidator,
    AliasChoices,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    StrictBool,
    Tag,
    model_validator,
)

from ipyagent import compat
from ipyagent.json_types import JsonDict, as_json, well_formed


def _in_utc(moment: datetime) -> datetime:
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        raise ValueError("the time must be in the years 1 to 9999") from None


Flag = StrictBool

Count = Annotated[int, Field(ge=0, strict=True)]
"""A number of things: JSON distinguishes whole numbers from text and true, and so do we."""

Positive = Annotated[int, Field(ge=1, strict=True)]

Amount = Annotated[float, Field(ge=0, strict=True)]
"""Seconds or US dollars."""

Moment = Annotated[AwareDatetime, AfterValidator(_in_utc)]
"""A point in time, from a datetime with a zone, its text, or seconds since 1970."""

Text = Annotated[str, AfterValidator(well_formed)]
"""A text. Lone surrogates are replaced: nothing could store or send them."""

OrEmpty = Annotated[str, BeforeValidator(lambda text: "" if text is None else text)]
"""A text for which other formats have null if there is none."""

JsonValue = Annotated[Any, AfterValidator(as_json)]
"""Anything that JSON can express; NaN, infinity and endless nesting are refused."""

JsonObject = Annotated[JsonDict, AfterValidator(as_json)]
"""A JSON object, validated the same way."""


class Model(BaseModel):
    """A frozen record. Sequences are tuples; a change is a new record (`model_copy`).

    Fields also have the names of other formats (their `validation_alias`), for input and for
    reading.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        allow_inf_nan=False,
        validate_by_name=True,
        validate_by_alias=True,
    )

    if not TYPE_CHECKING:  # else every misspelt attribute would pass the type checker

        def __getattr__(self, name: str) -> Any:
            field = _aliases(type(self)).get(name)
            return super().__getattr__(name) if field is None else getattr(self, field)

    def to_dict(self, *, exclude_none: bool = False) -> JsonDict:
        """Return the record as plain JSON types."""
        return self.model_dump(mode="json", exclude_none=exclude_none)

    @classmethod
    def from_dict(cls, data: JsonDict) -> Self:
        """Return the record that `to_dict` described; raises pydantic.ValidationError otherwise."""
        return cls.model_validate(data)


class ForeignModel(Model):
    """A record that other formats have as well: `_convert` makes their data ours."""

    _convert: ClassVar[Callable[[JsonDict], object]]

    @model_validator(mode="before")
    @classmethod
    def _accept(cls, data: object) -> object:
        return cls._convert(dict(data)) if isinstance(data, Mapping) else data


BUILDS_SAFELY = tuple(map(int, VERSION.split(".")[:2])) >= (2, 14)
"""True if pydantic builds a model at its first use under a lock.

Before, two threads that needed it at the same time could validate with its base class.
"""


class LazyModel(Model):
    """A record that pydantic builds at its first use, for those that few processes need.

    Not for what other records hold: each of these would build it again.
    """

    model_config = ConfigDict(defer_build=BUILDS_SAFELY)


@cache
def _aliases(model: type[BaseModel]) -> dict[str, str]:
    """Map the other names of a model's fields to the fields."""
    return {
        alias: name
        for name, field in model.model_fields.items()
        if isinstance(field.validation_alias, AliasChoices)
        for alias in field.validation_alias.choices
        if isinstance(alias, str) and alias != name
    }


def now() -> datetime:
    """Return the current time, aware, in UTC."""
    return datetime.now(UTC)


class TextContent(Model):
    """Plain or Markdown text."""

    type: Literal["text"] = "text"
    text: Text

    def to_openai(self) -> JsonDict:
        """OpenAI's text part."""
        return self.to_dict()

    def to_anthropic(self) -> JsonDict:
        """Anthropic's text block."""
        return self.to_dict()


_PIXELS = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})


class ImageContent(ForeignModel):
    """An image, base64-encoded. `width` and `height` are in pixels, if known."""

    type: Literal["image"] = "image"
    media_type: str = "image/png"
    data: str = Field(repr=False)
    width: Count | None = None
    height: Count | None = None

    _convert = compat.convert_image

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        """Show the image in a notebook; only bitmaps, since other types can hold code."""
        bundle = {self.media_type: self.data} if self.media_type in _PIXELS else {}
        return bundle | {"text/plain": repr(self)}

    def to_openai(self) -> JsonDict:
        """OpenAI's image part."""
        url = f"data:{self.media_type};base64,{self.data}"
        return {"type": "image_url", "image_url": {"url": url}}

    def to_anthropic(self) -> JsonDict:
        """Anthropic's image block."""
        source = {"type": "base64", "media_type": self.media_type, "data": self.data}
        return {"type": "image", "source": source}


class ThinkingContent(ForeignModel):
    """A model's reasoning.

    `signature`, `id` and `encrypted_content` are sent back verbatim to the provider, never shown.
    """

    type: Literal["thinking"] = "thinking"
    thinking: Text = ""
    signature: OrEmpty = Field(default="", repr=False)
    id: OrEmpty = ""
    encrypted_content: OrEmpty = Field(default="", repr=False)
    summary: tuple[JsonObject, ...] = ()

    _convert = compat.convert_thinking

    def to_anthropic(self) -> JsonDict:
        """Anthropic's thinking block; of another provider's reasoning only the readable text."""
        if self.encrypted_content and not self.id:
            return {"type": "redacted_thinking", "data": self.encrypted_content}
        return {"type": "thinking", "thinking": self.thinking, "signature": self.signature}


class ToolCall(ForeignModel):
    """A model's call of a tool.

    `parse_error` is set if the arguments were not a JSON object; such a call is never executed.
    `item_id` and `thought_signature` belong to the provider and are sent back verbatim.
    """

    type: Literal["tool_call"] = "tool_call"
    id: str = Field(min_length=1)
    name: str = Field(min_length=1, validation_alias=AliasChoices("name", "tool_name"))
    arguments: JsonObject = Field(
        default_factory=dict,
        validation_alias=AliasChoices(*compat.ARGUMENTS),
    )
    parse_error: Text | None = None
    item_id: str | None = None
    thought_signature: str | None = Field(default=None, repr=False)

    _convert = compat.convert_call

    def to_openai(self) -> JsonDict:
        """OpenAI's tool call; the arguments are JSON text."""
        arguments = json.dumps(self.arguments, ensure_ascii=False)
        function = {"name": self.name, "arguments": arguments}
        return {"id": self.id, "type": "function", "function": function}

    def to_anthropic(self) -> JsonDict:
        """Anthropic's tool use block."""
        return {"type": "tool_use", "id": self.id, "name": self.name, "input": self.arguments}


class OpaqueContent(Model):
    """A block of a type unknown to this version: kept as it came, never sent or shown."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, JsonValue] = Field(init=False)

    type: str

    def to_anthropic(self) -> JsonDict:
        """Return the block as it came."""
        return self.to_dict()


_KINDS = {
    "text": "text",
    "image": "image",
    "image_url": "image",
    "thinking": "thinking",
    "reasoning": "thinking",
    "redacted_thinking": "thinking",
    "tool_call": "tool_call",
    "tool_use": "tool_call",
    "function": "tool_call",
    "tool_result": "tool_result",
}


def _tag(block: Any) -> str:
    if isinstance(block, OpaqueContent):
        return "opaque"
    raw = isinstance(block, Mapping)
    kind = block.get("type") if raw else getattr(block, "type", None)
    if raw and kind in ("image", "image_url") and not compat.holds_image(block):
        return "opaque"  # an image elsewhere: nothing is fetched
    return _KINDS.get(kind, "opaque") if isinstance(kind, str) else "opaque"


ResultBlock = Annotated[
    Annotated[TextContent, Tag("text")]
    | Annotated[ImageContent, Tag("image")]
    | Annotated[OpaqueContent, Tag("opaque")],
    Discriminator(_tag),
]


class ToolResultContent(Model):
    """A tool's result as the model gets it."""

    type: Literal["tool_result"] = "tool_result"
    tool_use_id: str = Field(
        min_length=1, validation_alias=AliasChoices("tool_use_id", "tool_call_id")
    )
    content: Annotated[tuple[ResultBlock, ...], BeforeValidator(compat.convert_blocks)] = ()
    is_error: Flag = False

    @property
    def text(self) -> str:
        """The text blocks, joined."""
        return "\n".join(b.text for b in self.content if isinstance(b, TextContent))

    @property
    def images(self) -> tuple[ImageContent, ...]:
        """The images, in order."""
        return tuple(b for b in self.content if isinstance(b, ImageContent))

    def to_anthropic(self) -> JsonDict:
        """Anthropic's tool result block."""
        content = [block.to_anthropic() for block in self.content]
        return self.to_dict() | {"content": content}


Block = TextContent | ImageContent | ThinkingContent | ToolCall | ToolResultContent | OpaqueContent
ContentBlock = Block

BlockField = Annotated[
    Annotated[TextContent, Tag("text")]
    | Annotated[ImageContent, Tag("image")]
    | Annotated[ThinkingContent, Tag("thinking")]
    | Annotated[ToolCall, Tag("tool_call")]
    | Annotated[ToolResultContent, Tag("tool_result")]
    | Annotated[OpaqueContent, Tag("opaque")],
    Discriminator(_tag),
]
"""A block as a field: its class is found by its type, in any format's name for it."""


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

    _convert = compat.convert_usage

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


NO_TOKENS: Final = TokenUsage()


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

    _convert = compat.convert_message

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
        if not kinds.isdisjoint({ToolCall, ToolResultContent}):
            return self
        typed = len(self.text.strip())
        if kinds == {TextContent} and not typed:
            raise ValueError("a message of text must not be empty")
        if self.role is Role.USER and not self.synthetic and typed > MAX_TYPED:
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

    _convert = compat.convert_response

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
