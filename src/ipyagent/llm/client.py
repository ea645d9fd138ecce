"""How a model is asked: one protocol, whoever answers."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from ipyagent.schema import Message, StreamChunk, TokenUsage, ToolDefinition


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One question: the conversation so far, system message first, and the tools on offer.

    `may_call=False` keeps the tools in the request, so that providers' caches hit, and forbids
    their use. `trace_id` goes to the model's service as the header X-Trace-Id. The service is told
    `max_tokens`, if any; whoever asks makes sure of it.
    """

    messages: tuple[Message, ...]
    tools: tuple[ToolDefinition, ...] = ()
    may_call: bool = True
    trace_id: str = ""
    max_tokens: int | None = None


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

    @property
    def context_window(self) -> int | None:
        """How many tokens the model takes in; None where that is not known."""
        ...

    def stream(self, request: ModelRequest) -> AsyncGenerator[StreamChunk, None]:
        """The reply to `request`, piece by piece."""
        ...


@runtime_checkable
class Priced(Protocol):
    """A client that knows what its model's tokens cost."""

    def cost(self, usage: TokenUsage) -> float | None:
        """Return US dollars for so many tokens; None where no price is known. May block."""
        ...
