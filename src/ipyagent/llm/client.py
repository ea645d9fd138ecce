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


SMALL_PARAMETERS = 14.0
"""Billions of parameters up to which a model is small."""
SMALL_WINDOW = 16_384
"""Tokens of a context up to which a model is small."""
SHORT_WINDOW = 32_768
"""Tokens of a context up to which results are short."""


@dataclass(frozen=True)
class ModelSize:
    """Billions of parameters, and tokens of the context window; None: not known."""

    parameters: float | None = None
    window: int | None = None

    @property
    def is_small(self) -> bool:
        """True if the model is known to be small."""
        return bool(self.reason)

    @property
    def has_short_window(self) -> bool:
        """True if long results would fill its context."""
        return self.window is not None and self.window <= SHORT_WINDOW

    @property
    def reason(self) -> str:
        """The facts that make the model small, in words; "" if none does."""
        facts = []
        if self.parameters is not None and self.parameters <= SMALL_PARAMETERS:
            facts.append(f"{self.parameters:g} billion parameters")
        if self.window is not None and self.window <= SMALL_WINDOW:
            facts.append(f"a context of {self.window:,} tokens")
        return ", ".join(facts)


class Client(Protocol):
    """A model's client.

    `stream` yields chunks as they arrive and ends when the reply is complete. It raises
    ModelUnavailableError for transient failures and ModelRefusedError for final ones, nothing else;
    cancelling the task that reads it closes the connection. It never retries.
    """

    @property
    def model(self) -> str:
        """The model's id as the user wrote it, such as `ollama/qwen3`."""

    @property
    def context_window(self) -> int | None:
        """The size of the context window in tokens; None if unknown."""

    def stream(self, request: ModelRequest) -> AsyncGenerator[StreamChunk, None]:
        """Yield the reply to `request`, piece by piece."""


def maker_of(client: Client) -> str:
    """Return who makes a client's answers: the model, and its service where that is known."""
    return str(getattr(client, "maker", client.model))


@runtime_checkable
class Sized(Protocol):
    """A client that knows more of its model's size than the window."""

    def size(self) -> ModelSize:
        """Return the size of the model. May block."""


@runtime_checkable
class Priced(Protocol):
    """A client that knows what its model's tokens cost."""

    def cost(self, usage: TokenUsage) -> float | None:
        """Return the price in US dollars; None if unknown. May block."""
