"""The size limit of one reply, from what the run's budgets have left.

Only the provider counts tokens exactly, and tells its count at the end. Until then they are
estimated, so that a model which writes for ever is ended all the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ipyagent.agent.tokens import CHARACTERS_PER_TOKEN, message_length, tools_length
from ipyagent.config import AgentConfig
from ipyagent.errors import AgentError
from ipyagent.llm.client import Client, ModelRequest, Priced
from ipyagent.schema import Run, StopReason, StreamChunk, TokenUsage

MAX_BYTES = 4 * 1024 * 1024
"""Bytes of text, thinking and arguments that one reply may hold."""

MIN_REPLY_TOKENS = 256
"""Tokens granted to a reply when the request alone takes all that is left of a budget."""

SLACK_TOKENS = 64
"""Tokens by which an estimate may be wrong before it ends a reply."""

PIECE_LENGTH = 16 * 1024
"""Characters processed at once."""

_THOUSAND = TokenUsage(completion_tokens=1_000)


class LimitReachedError(AgentError):
    """Raised when a reply takes too much; `reason` is the run's stop reason."""

    def __init__(self, reason: StopReason, message: str = "") -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True)
class Allowance:
    """Tokens that a reply may take (None: unlimited), and the budget that sets the limit."""

    tokens: int | None = None
    reason: StopReason = StopReason.MAX_TOKENS


@dataclass(frozen=True)
class RunBudget:
    """The hard budgets of a run; `pending_usage` is usage that `run` does not include yet."""

    run: Callable[[], Run]
    config: AgentConfig
    pending_usage: Callable[[], tuple[TokenUsage, float | None]] = lambda: (TokenUsage(), None)

    async def allowance(self, client: Client, prompt: int) -> Allowance:
        """Return the next reply's allowance; `prompt` is the estimated number of tokens sent."""
        usage, cost = self.pending_usage()
        left: list[Allowance] = []
        if (tokens := self.config.max_tokens) is not None:
            spent = self.run().usage.total_tokens + usage.total_tokens
            left.append(Allowance(_tokens_for_reply(tokens - spent, prompt), StopReason.MAX_TOKENS))
        if (usd := self.config.max_usd) is not None and isinstance(client, Priced):
            # In a thread: a client that is still being imported would hold up everything else.
            price = await asyncio.to_thread(client.cost, _THOUSAND)
            prompt_cost = await asyncio.to_thread(client.cost, TokenUsage(prompt_tokens=prompt))
            if price:
                each = price / _THOUSAND.completion_tokens
                rest = usd - (self.run().cost_usd or 0.0) - (cost or 0.0)
                room = _tokens_for_reply(int(rest / each), int((prompt_cost or 0.0) / each))
                left.append(Allowance(room, StopReason.MAX_USD))
        return min(left, key=lambda allowance: allowance.tokens or 0, default=Allowance())


class ReplyMeter:
    """Counts one reply against its allowance."""

    def __init__(self, allowance: Allowance) -> None:
        self.allowance = allowance
        tokens = allowance.tokens
        self._limit = None if tokens is None else (tokens + SLACK_TOKENS) * CHARACTERS_PER_TOKEN
        self._characters = self._bytes = 0
        self._counted = 0  # by the provider
        self._held_finish: StreamChunk | None = None

    def split(self, chunk: StreamChunk) -> Iterator[StreamChunk]:
        """Yield the chunk in small pieces; raise LimitReachedError at the limit."""
        if chunk.type == "usage" and chunk.usage is not None:
            self._counted = chunk.usage.completion_tokens
        if chunk.type == "finish" and chunk.data == "length" and self.allowance.tokens is not None:
            self._held_finish = chunk  # by our limit or by the model's own
            return
        if len(chunk.data) <= PIECE_LENGTH:
            yield self._truncate(chunk)
            self._check_limits()
            return
        for start in range(0, len(chunk.data), PIECE_LENGTH):
            yield self._truncate(
                chunk.model_copy(update={"data": chunk.data[start : start + PIECE_LENGTH]})
            )
            self._check_limits()

    def finish(self) -> Iterator[StreamChunk]:
        """Yield the rest of the reply; raise LimitReachedError if the allowance ended the reply."""
        if self._held_finish is None:
            return
        if max(self._counted, self.token_estimate) >= (self.allowance.tokens or 0):
            raise LimitReachedError(self.allowance.reason)
        yield self._held_finish

    @property
    def token_estimate(self) -> int:
        """The estimated number of tokens of the reply so far."""
        return self._characters // CHARACTERS_PER_TOKEN

    def estimate_usage(self, client: Client, request: ModelRequest) -> Iterator[StreamChunk]:
        """Yield the estimated usage of a reply that was ended before the provider reported it."""
        if self._counted:
            return
        sent = sum(map(message_length, request.messages)) + tools_length(request.tools)
        usage = TokenUsage(
            prompt_tokens=sent // CHARACTERS_PER_TOKEN, completion_tokens=self.token_estimate
        )
        cost = client.cost(usage) if isinstance(client, Priced) else None
        yield StreamChunk(type="usage", usage=usage, cost_usd=cost)

    def _truncate(self, chunk: StreamChunk) -> StreamChunk:
        """Return the part of a chunk that the allowance still covers."""
        self._bytes += 1 + len(chunk.name) + len(chunk.id)  # endless empty chunks add up as well
        self._bytes += len(chunk.data.encode(errors="surrogatepass"))
        if chunk.type not in ("content", "thinking", "tool_call"):
            return chunk
        before, limit = self._characters, self._limit
        self._characters += len(chunk.data)
        if limit is None or self._characters <= limit:
            return chunk
        return chunk.model_copy(update={"data": chunk.data[: limit - before]})

    def _check_limits(self) -> None:
        if self._limit is not None and self._characters > self._limit:
            raise LimitReachedError(self.allowance.reason)
        if self._bytes > MAX_BYTES:
            raise LimitReachedError(
                StopReason.MAX_TOKENS,
                f"The reply was ended at {MAX_BYTES // 1024**2} MB, the most that one reply may "
                "hold. Its text until then is kept; the model may have been repeating itself.",
            )


def _tokens_for_reply(left: int, prompt: int) -> int:
    """Return the tokens for a reply, of those left for request and reply together."""
    return max(left - prompt, min(left, MIN_REPLY_TOKENS))
