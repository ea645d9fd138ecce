"""How much one reply may take: what is left of the run's budgets, and a size in any case.

Only the provider counts tokens exactly, and tells its count at the end. Until then they are
estimated, so that a model which writes for ever is ended all the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ipyagent.agent.tokens import CHARACTERS, size, size_of_tools
from ipyagent.config import AgentConfig
from ipyagent.errors import AgentError
from ipyagent.llm.client import Client, ModelRequest, Priced
from ipyagent.schema import Run, StopReason, StreamChunk, TokenUsage

MAX_BYTES = 4 * 1024 * 1024
"""Of text, thinking and arguments that one reply may hold."""

SHORTEST = 256
"""Tokens that a reply gets where the request alone takes what is left of a budget."""

SLACK = 64
"""Tokens by which an estimate may be wrong before it ends a reply."""

PIECE = 16 * 1024
"""Characters that are taken in at once."""

_THOUSAND = TokenUsage(completion_tokens=1_000)


class LimitReachedError(AgentError):
    """A reply was ended because it took too much; `reason` is why the run ends."""

    def __init__(self, reason: StopReason, message: str = "") -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True)
class Allowance:
    """Tokens that a reply may have (None: any number), and the budget that they are left of."""

    tokens: int | None = None
    reason: StopReason = StopReason.MAX_TOKENS


@dataclass(frozen=True)
class Budget:
    """The hard budgets of a run; `beside` is what was used and is not in `run` yet."""

    run: Callable[[], Run]
    config: AgentConfig
    beside: Callable[[], tuple[TokenUsage, float | None]] = lambda: (TokenUsage(), None)

    async def allowance(self, client: Client, prompt: int) -> Allowance:
        """What the next reply may take; `prompt` is how many tokens are sent, about."""
        usage, cost = self.beside()
        left: list[Allowance] = []
        if (tokens := self.config.max_tokens) is not None:
            spent = self.run().usage.total_tokens + usage.total_tokens
            left.append(Allowance(_room(tokens - spent, prompt), StopReason.MAX_TOKENS))
        if (usd := self.config.max_usd) is not None and isinstance(client, Priced):
            # In a thread: a client that is still being imported would hold up everything else.
            price = await asyncio.to_thread(client.cost, _THOUSAND)
            asked = await asyncio.to_thread(client.cost, TokenUsage(prompt_tokens=prompt))
            if price:
                each = price / _THOUSAND.completion_tokens
                rest = usd - (self.run().cost_usd or 0.0) - (cost or 0.0)
                room = _room(int(rest / each), int((asked or 0.0) / each))
                left.append(Allowance(room, StopReason.MAX_USD))
        return min(left, key=lambda allowance: allowance.tokens or 0, default=Allowance())


class Meter:
    """Takes in one reply, as far as its allowance reaches."""

    def __init__(self, allowance: Allowance) -> None:
        self.allowance = allowance
        tokens = allowance.tokens
        self._limit = None if tokens is None else (tokens + SLACK) * CHARACTERS
        self._characters = self._bytes = 0
        self._counted = 0  # by the provider
        self._cut: StreamChunk | None = None

    def pieces(self, chunk: StreamChunk) -> Iterator[StreamChunk]:
        """Yield the chunk in pieces that hold nobody up; raise LimitReachedError at the limit."""
        if chunk.type == "usage" and chunk.usage is not None:
            self._counted = chunk.usage.completion_tokens
        if chunk.type == "finish" and chunk.data == "length" and self.allowance.tokens is not None:
            self._cut = chunk  # by the limit that it was told, or by the model's own
            return
        if len(chunk.data) <= PIECE:
            yield self._piece(chunk)
            self._check()
            return
        for start in range(0, len(chunk.data), PIECE):
            yield self._piece(chunk.model_copy(update={"data": chunk.data[start : start + PIECE]}))
            self._check()

    def end(self) -> Iterator[StreamChunk]:
        """Yield what was held back; raise LimitReachedError where the allowance ended the reply."""
        if self._cut is None:
            return
        if max(self._counted, self.tokens) >= (self.allowance.tokens or 0):
            raise LimitReachedError(self.allowance.reason)
        yield self._cut

    @property
    def tokens(self) -> int:
        """How many tokens were said, about."""
        return self._characters // CHARACTERS

    def estimate(self, client: Client, request: ModelRequest) -> Iterator[StreamChunk]:
        """Yield what a reply that was ended took, where the provider has not said it."""
        if self._counted:
            return
        sent = sum(map(size, request.messages)) + size_of_tools(request.tools)
        usage = TokenUsage(prompt_tokens=sent // CHARACTERS, completion_tokens=self.tokens)
        cost = client.cost(usage) if isinstance(client, Priced) else None
        yield StreamChunk(type="usage", usage=usage, cost_usd=cost)

    def _piece(self, chunk: StreamChunk) -> StreamChunk:
        """The part of a chunk that the allowance still covers."""
        self._bytes += 1 + len(chunk.name) + len(chunk.id)  # nothing, for ever, is much as well
        self._bytes += len(chunk.data.encode(errors="surrogatepass"))
        if chunk.type not in ("content", "thinking", "tool_call"):
            return chunk
        before, limit = self._characters, self._limit
        self._characters += len(chunk.data)
        if limit is None or self._characters <= limit:
            return chunk
        return chunk.model_copy(update={"data": chunk.data[: limit - before]})

    def _check(self) -> None:
        if self._limit is not None and self._characters > self._limit:
            raise LimitReachedError(self.allowance.reason)
        if self._bytes > MAX_BYTES:
            raise LimitReachedError(
                StopReason.MAX_TOKENS,
                f"The reply was ended at {MAX_BYTES // 1024**2} MB, the most that one reply may "
                "hold. Its text until then is kept; the model may have been repeating itself.",
            )


def _room(left: int, prompt: int) -> int:
    """Tokens for a reply, of those that are left for request and reply together."""
    return max(left - prompt, min(left, SHORTEST))
