"""The content blocks of messages."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AliasChoices, BeforeValidator, ConfigDict, Discriminator, Field, Tag

from ipyagent.compat import (
    ARGUMENTS,
    convert_blocks,
    convert_call,
    convert_image,
    convert_thinking,
    holds_image,
)
from ipyagent.json_types import JsonDict
from ipyagent.schema.base import (
    Count,
    Flag,
    ForeignModel,
    JsonObject,
    JsonValue,
    Model,
    OrEmpty,
    Text,
)


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

    _convert = convert_image

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

    _convert = convert_thinking

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
        validation_alias=AliasChoices(*ARGUMENTS),
    )
    parse_error: Text | None = None
    item_id: str | None = None
    thought_signature: str | None = Field(default=None, repr=False)

    _convert = convert_call

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
    if raw and kind in ("image", "image_url") and not holds_image(block):
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
    content: Annotated[tuple[ResultBlock, ...], BeforeValidator(convert_blocks)] = ()
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
