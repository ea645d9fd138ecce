"""How a model is asked: one protocol, whoever answers."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Literal, Protocol

from ipyagent.schema import Message, TokenUsage, ToolDefinition


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One question: the conversation so far, system message first, and the tools on offer."""

    messages: tuple[Message, ...]
    tools: tuple[ToolDefinition, ...] = ()


@dataclass(frozen=True, slots=True)
class StreamChunk:
    """One piece of a streamed reply.

    text, thinking, signature: `text` is appended to what came before.
    tool_call: the call number `index`; `id` and `name` come once, `text` is a piece of its JSON.
    usage: tokens of the whole request, and its price in US dollars where known.
    finish: `text` is the provider's finish reason.
    """

    type: Literal["text", "thinking", "signature", "tool_call", "usage", "finish"]
    text: str = ""
    index: int = 0
    id: str = ""
    name: str = ""
    usage: TokenUsage | None = None
    cost_usd: float | None = None


class Client(Protocol):
    """Something that answers like a model.

    `stream` yields chunks as they arrive and ends when the reply is complete. It raises
    ModelUnavailableError for transient failures and ModelRefusedError for final ones, nothing else;
    cancelling the task that reads it closes the connection. It never retries by itself.
    """

    @property
    def model(self) -> str:
        """The model's id as the person wrote it, such as `ollama/qwen3`."""
        ...

    def stream(self, request: ModelRequest) -> AsyncGenerator[StreamChunk, None]:
        """The reply to `request`, piece by piece."""
        ...
