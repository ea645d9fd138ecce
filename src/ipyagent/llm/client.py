"""The protocol of models: one for all."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from ipyagent.schema import Message, StreamChunk, TokenUsage, ToolDefinition


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One request: the conversation so far, system message first, and the available tools.

    `may_call=False` keeps the tools in the request, so that providers' caches hit, and forbids
    their use. `trace_id` is sent to the model's service as the header X-Trace-Id. `max_tokens` is
    sent to the service, if set; the caller enforces it.
    """

    messages: tuple[Message, ...]
    tools: tuple[ToolDefinition, ...] = ()
    may_call: bool = True
    trace_id: str = ""
    max_tokens: int | None = None


class Client(Protocol):
    """A model's client.

    `stream` yields chunks as they arrive and ends when the reply is complete. It raises
    ModelUnavailableError for transient failures and ModelRefusedError for final ones, nothing else;
    cancelling the task that reads it closes the connection. It never retries.
    """

    @property
    def model(self) -> str:
        """The model's id as the user wrote it, such as `ollama/qwen3`."""
        ...

    @property
    def context_window(self) -> int | None:
        """The size of the context window in tokens; None if unknown."""
        ...

    def stream(self, request: ModelRequest) -> AsyncGenerator[StreamChunk, None]:
        """Yield the reply to `request`, piece by piece."""
        ...


@runtime_checkable
class Priced(Protocol):
    """A client that knows what its model's tokens cost."""

    def cost(self, usage: TokenUsage) -> float | None:
        """Return the price in US dollars; None if unknown. May block."""
        ...
