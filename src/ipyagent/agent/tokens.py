"""Estimated lengths in tokens: only the provider can count them exactly."""

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

CHARACTERS_PER_TOKEN = 4
"""Approximate characters of a token."""

IMAGE_CHARACTERS = 4_000
"""Approximate number of characters that cost as much as an image."""


def message_length(message: Message) -> int:
    """Return the characters of a message, images as their equivalent."""
    return sum(map(_block_length, message.content))


def tools_length(tools: tuple[ToolDefinition, ...]) -> int:
    """Return the characters of the tools' definitions."""
    return sum(len(json.dumps(tool.to_openai())) for tool in tools)


def _block_length(block: Block) -> int:
    match block:
        case TextContent(text=text):
            return len(text)
        case ThinkingContent(thinking=thinking):
            return len(thinking)
        case ToolCall(name=name, arguments=arguments):
            return len(name) + len(json.dumps(arguments))
        case ToolResultContent(content=content):
            return sum(map(_block_length, content))
        case ImageContent():
            return IMAGE_CHARACTERS
    return 0
