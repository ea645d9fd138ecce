"""How long something is to a model, estimated: only the provider can count tokens exactly."""

from __future__ import annotations

import json

from ipyagent.schema import (
    Block,
    ImageContent,
    Message,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolDefinition,
    ToolResultContent,
)

CHARACTERS = 4
"""In a token, about."""

IMAGE = 4_000
"""Characters that cost as much as an image, about."""


def size(message: Message) -> int:
    """Characters of a message, images as their equivalent."""
    return sum(map(_size, message.content))


def size_of_tools(tools: tuple[ToolDefinition, ...]) -> int:
    """Characters of the tools' definitions."""
    return sum(len(json.dumps(tool.to_openai())) for tool in tools)


def _size(block: Block) -> int:
    match block:
        case TextContent(text=text):
            return len(text)
        case ThinkingContent(thinking=thinking):
            return len(thinking)
        case ToolCall(name=name, arguments=arguments):
            return len(name) + len(json.dumps(arguments))
        case ToolResultContent(content=content):
            return sum(map(_size, content))
        case ImageContent():
            return IMAGE
    return 0
