"""Budgets: limits of a run, of its time, and of one reply by what the run has left.

A long conversation only gets a warning. Only the provider counts tokens exactly, and tells its
count at the end. Until then they are estimated, so that a model which writes for ever is ended all
the same.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager, nullcontext
from dataclasses import dataclass

from ipyagent import schema
from ipyagent.config import AgentConfig
from ipyagent.errors import AgentError
from ipyagent.llm.client import Client, ModelRequest, Priced

WARNING_PERCENT = 80
"""The warning comes at this percentage of the allowed number of messages."""

GRACEFUL_REASONS = frozenset({schema.StopReason.MAX_STEPS, schema.StopReason.MAX_SECONDS})
"""Budgets after which the model may still answer once; a spent token budget ends the run at once.
"""

CLOSING_SECONDS = 30.0
"""Seconds that this last answer may take."""


def find_exhausted(run: schema.Run, config: AgentConfig) -> schema.StopReason | None:
    """Return the budget that `run` has used up, or None. Time is limited elsewhere."""
    if len(run.steps) >= config.max_steps:
        return schema.StopReason.MAX_STEPS
    if config.max_tokens is not None and run.usage.total_tokens >= config.max_tokens:
        return schema.StopReason.MAX_TOKENS
    if config.max_usd is not None and (run.cost_usd or 0.0) >= config.max_usd:
        return schema.StopReason.MAX_USD
    return None


def share(run: schema.Run, config: AgentConfig, parts: int, seconds: float | None) -> AgentConfig:
    """Return the limits of a run that gets one of equal parts of what `run` has left.

    Of the `seconds` it gets half: parts are taken beside each other. Steps are not shared, since
    a part of them would be too few for anything. Raises AgentError if a part is nothing.
    """
    tokens, usd = config.max_tokens, config.max_usd
    tokens = tokens if tokens is None else (tokens - run.usage.total_tokens) // parts
    usd = usd if usd is None else (usd - (run.cost_usd or 0.0)) / parts
    left = {
        "max_tokens": tokens,
        "max_usd": usd,
        "max_seconds": None if seconds is None else seconds / 2,
    }
    if spent := next((name for name, each in left.items() if each is not None and each <= 0), ""):
        raise AgentError(f"Too little is left of agent.{spent} to share it: do the task yourself.")
    return config.model_copy(update=left)


def length_warning(messages: int, at_most: int) -> str | None:
    """Return the warning for a conversation of this many prompts and answers, or None.

    The text stays the same from prompt to prompt, so it need not be repeated.
    """
    if 100 * messages < WARNING_PERCENT * at_most:
        return None
    if messages < at_most:
        return (
            f"This conversation nears {at_most} messages (chat.max_messages). All of it is sent "
            "with each prompt: the longer it is, the slower and dearer the answers become."
        )
    return (
        f"This conversation has {at_most} messages or more (chat.max_messages). Nothing is left "
        "out: all of it is sent with each prompt, which makes answers slower and dearer. "
        "`%agent session compact` summarises the older part, `%agent session new` begins anew."
    )


class TimeLimits:
    """The time limits of a run and of its current step."""

    def __init__(self) -> None:
        self.outer: TimeLimits | None = None
        """The limits of the run within which this one was begun."""
        self._limits: list[asyncio.Timeout] = []
        self._due: dict[asyncio.Timeout, float | None] = {}
        self._pauses, self._paused_at = 0, 0.0
        self.paused = 0.0
        """The seconds that were excluded."""

    @property
    def is_expired(self) -> bool:
        """True once the time is up."""
        outer = self.outer is not None and self.outer.is_expired
        return outer or any(limit.expired() for limit in self._limits)

    @property
    def seconds_left(self) -> float | None:
        """The seconds until the first of them; None without any."""
        now = self._paused_at if self._pauses else asyncio.get_running_loop().time()
        moments = (self._due.get(each, each.when()) for each in self._limits)
        return min((each - now for each in moments if each is not None), default=None)

    @asynccontextmanager
    async def limit(
        self, seconds: float | None, make_error: Callable[[], Exception]
    ) -> AsyncIterator[None]:
        """Raise an error if the body takes longer than this many seconds; None: never."""
        try:
            async with asyncio.timeout(seconds) as limit:
                self._limits.append(limit)
                try:
                    yield
                finally:
                    self._limits.remove(limit)
        except TimeoutError:
            if not limit.expired():
                raise
            raise make_error() from None

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Exclude the time of the body, and of others beside it, for the outer limits too."""
        loop = asyncio.get_running_loop()
        with self.outer.pause() if self.outer else nullcontext():
            if not self._pauses:
                self._paused_at = loop.time()
                # One that is about to end the run can't be changed any more.
                self._due = {each: each.when() for each in self._limits if not each.expired()}
                for limit in self._due:
                    limit.reschedule(None)
            self._pauses += 1
            try:
                yield
            finally:
                self._pauses -= 1
                if not self._pauses:
                    self._go_on(loop.time() - self._paused_at)

    def _go_on(self, seconds: float) -> None:
        """Put off the limits by a pause."""
        self.paused += seconds
        due, self._due = self._due, {}
        for limit, moment in due.items():
            if moment is not None and limit in self._limits:
                limit.reschedule(moment + seconds)


CHARACTERS_PER_TOKEN = 4
"""Approximate characters of a token."""

IMAGE_CHARACTERS = 4_000
"""Approximate number of characters that cost as much as an image."""


def message_length(message: schema.Message) -> int:
    """Return the characters of a message, images as their equivalent."""
    return sum(map(_block_length, message.content))


def tools_length(tools: tuple[schema.ToolDefinition, ...]) -> int:
    """Return the characters of the tools' definitions."""
    return sum(len(json.dumps(tool.to_openai())) for tool in tools)


def _block_length(block: schema.Block) -> int:
    match block:
        case schema.TextContent(text=text):
            return len(text)
        case schema.ThinkingContent(thinking=thinking):
            return len(thinking)
        case schema.ToolCall(name=name, arguments=arguments):
            return len(name) + len(json.dumps(arguments))
        case schema.ToolResultContent(content=content):
            return sum(map(_block_length, content))
        case schema.ImageContent():
            return IMAGE_CHARACTERS
    return 0


MAX_BYTES = 4 * 1024 * 1024
"""Bytes of text, thinking and arguments that one reply may hold."""

MIN_REPLY_TOKENS = 256
"""Tokens granted to a reply when the request alone takes all that is left of a budget."""

SLACK_TOKENS = 64
"""Tokens by which an estimate may be wrong before it ends a reply."""

PIECE_LENGTH = 16 * 1024
"""Characters processed at once."""

_THOUSAND = schema.TokenUsage(completion_tokens=1_000)


class LimitReachedError(AgentError):
    """Raised when a reply takes too much; `reason` is the run's stop reason."""

    def __init__(self, reason: schema.StopReason, message: str = "") -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True)
class Allowance:
    """Tokens that a reply may take (None: unlimited), and the budget that sets the limit."""

    tokens: int | None = None
    reason: schema.StopReason = schema.StopReason.MAX_TOKENS


@dataclass(frozen=True)
class RunBudget:
    """The hard budgets of a run; `pending_usage` is usage that `run` does not include yet."""

    run: Callable[[], schema.Run]
    config: AgentConfig
    pending_usage: Callable[[], tuple[schema.TokenUsage, float | None]] = lambda: (
        schema.NO_TOKENS,
        None,
    )

    async def allowance(self, client: Client, prompt: int) -> Allowance:
        """Return the next reply's allowance; `prompt` is the estimated number of tokens sent."""
        usage, cost = self.pending_usage()
        left: list[Allowance] = []
        if (tokens := self.config.max_tokens) is not None:
            spent = self.run().usage.total_tokens + usage.total_tokens
            left.append(
                Allowance(self._divide(tokens - spent, prompt), schema.StopReason.MAX_TOKENS)
            )
        if (usd := self.config.max_usd) is not None and isinstance(client, Priced):
            # In a thread: a client that is still being imported would hold up everything else.
            price = await asyncio.to_thread(client.cost, _THOUSAND)
            prompt_cost = await asyncio.to_thread(
                client.cost, schema.TokenUsage(prompt_tokens=prompt)
            )
            if price:
                each = price / _THOUSAND.completion_tokens
                rest = usd - (self.run().cost_usd or 0.0) - (cost or 0.0)
                room = self._divide(int(rest / each), int((prompt_cost or 0.0) / each))
                left.append(Allowance(room, schema.StopReason.MAX_USD))
        return min(left, key=lambda allowance: allowance.tokens or 0, default=Allowance())

    def _divide(self, left: int, prompt: int) -> int:
        """Return the tokens for a reply, of those left for request and reply together."""
        run = self.run()
        # Tasks beside each other would each exceed their part by a request; a plan is no task.
        least = 0 if run.parent_id and not run.plan else MIN_REPLY_TOKENS
        return max(left - prompt, min(left, least))


class ReplyMeter:
    """Counts one reply against its allowance."""

    def __init__(self, allowance: Allowance) -> None:
        self.allowance = allowance
        tokens = allowance.tokens
        self._limit = None if tokens is None else (tokens + SLACK_TOKENS) * CHARACTERS_PER_TOKEN
        self._characters = self._bytes = 0
        self._counted = 0  # by the provider
        self._held_finish: schema.StreamChunk | None = None

    def split(self, chunk: schema.StreamChunk) -> Iterator[schema.StreamChunk]:
        """Return the chunk in small pieces; after each of them `check_limits` may raise."""
        if chunk.type == "usage" and chunk.usage is not None:
            self._counted = chunk.usage.completion_tokens
        if chunk.type == "finish" and chunk.data == "length" and self.allowance.tokens is not None:
            self._held_finish = chunk  # by our limit or by the model's own
            return iter(())
        pieces: Iterable[schema.StreamChunk] = (chunk,)
        if len(data := chunk.data) > PIECE_LENGTH:
            texts = (data[at : at + PIECE_LENGTH] for at in range(0, len(data), PIECE_LENGTH))
            pieces = (chunk.model_copy(update={"data": text}) for text in texts)
        return map(self._truncate, pieces)

    def finish(self) -> Iterator[schema.StreamChunk]:
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

    def estimate_usage(self, client: Client, request: ModelRequest) -> Iterator[schema.StreamChunk]:
        """Yield the estimated usage of a reply that was ended before the provider reported it."""
        if self._counted:
            return
        sent = sum(map(message_length, request.messages)) + tools_length(request.tools)
        usage = schema.TokenUsage(
            prompt_tokens=sent // CHARACTERS_PER_TOKEN, completion_tokens=self.token_estimate
        )
        cost = client.cost(usage) if isinstance(client, Priced) else None
        yield schema.StreamChunk(type="usage", usage=usage, cost_usd=cost)

    def _truncate(self, chunk: schema.StreamChunk) -> schema.StreamChunk:
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

    def check_limits(self) -> None:
        """Raise LimitReachedError if the reply has taken all that it may."""
        if self._limit is not None and self._characters > self._limit:
            raise LimitReachedError(self.allowance.reason)
        if self._bytes > MAX_BYTES:
            raise LimitReachedError(
                schema.StopReason.MAX_TOKENS,
                f"The reply was ended at {MAX_BYTES // 1024**2} MB, the most that one reply may "
                "hold. Its text until then is kept; the model may have been repeating itself.",
            )
