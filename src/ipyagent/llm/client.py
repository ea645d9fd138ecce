"""The protocol of models, one for all: retries of transient failures, and limits of requests."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from typing import NoReturn, Protocol, cast, runtime_checkable

from tenacity import (
    AsyncRetrying,
    RetryCallState,
    retry_if_exception_type,
    retry_never,
    stop_after_attempt,
)

from ipyagent.config import RetryConfig
from ipyagent.errors import ModelRefusedError, ModelUnavailableError, RetryExhaustedError
from ipyagent.json_types import JsonDict
from ipyagent.schema import Message, StreamChunk, TokenUsage, ToolDefinition
from ipyagent.schema.tables import WorkspaceFacts


@dataclass(frozen=True, slots=True)
class AnswerFormat:
    """The JSON object that an answer has to be; `strict` if OpenAI's strict mode takes it."""

    schema: JsonDict
    strict: bool

    def to_openai(self) -> JsonDict:
        """Return the format in OpenAI's terms."""
        return {"name": "answer", "schema": self.schema, "strict": self.strict}


ANSWER_TOOL = "final_answer"
"""The tool by which a model answers that cannot be held to a format."""
_ANSWER = "Give your final answer. Only what you pass here counts, so call this once, at the end."


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One request: the conversation so far, system message first, and the available tools.

    `may_call=False` keeps the tools in the request, so that providers' caches hit, and forbids
    their use. `trace_id` is sent to the model's service as the header X-Trace-Id. `max_tokens` is
    sent to the service, if set; the caller enforces it. `facts` are not sent: a client that follows
    rules works on them. The `answer` is text in this format, or a call of ANSWER_TOOL;
    `must_call` is a tool that the reply has to call.
    """

    messages: tuple[Message, ...]
    tools: tuple[ToolDefinition, ...] = ()
    may_call: bool = True
    trace_id: str = ""
    max_tokens: int | None = None
    facts: WorkspaceFacts | None = None
    answer: AnswerFormat | None = None
    must_call: str = ""

    def answered_by_tool(self) -> ModelRequest:
        """Return the same request with a tool in the place of the format of the answer."""
        if self.answer is None:
            return self
        schema, must = self.answer.schema, "" if self.tools and self.may_call else ANSWER_TOOL
        tool = ToolDefinition(name=ANSWER_TOOL, description=_ANSWER, input_schema=schema)
        tools = *self.tools, tool
        return replace(self, tools=tools, may_call=True, answer=None, must_call=must)


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
    calls_tools: bool = True
    """False if its server says that it cannot."""

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


@dataclass(frozen=True)
class NoClient:
    """Implements Client for a run that asks no model; `model` is the name that it shows."""

    model: str
    context_window: int | None = None

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamChunk, None]:
        """Refuse the request."""
        raise ModelRefusedError("A replay asks no model.")
        yield


def maker_of(client: Client) -> str:
    """Return who makes a client's answers: the model, and its service where that is known."""
    return str(getattr(client, "maker", client.model))


@runtime_checkable
class Sized(Protocol):
    """A client that knows more of its model's size than the window."""

    def size(self) -> ModelSize:
        """Return the size of the model. May block."""


@runtime_checkable
class Listing(Protocol):
    """A client that can ask its service which models there are."""

    async def list_models(self) -> list[str]:
        """Return the models' ids, as `llm.model` names them. Raises ModelError."""


@runtime_checkable
class Priced(Protocol):
    """A client that knows what its model's tokens cost."""

    def cost(self, usage: TokenUsage) -> float | None:
        """Return the price in US dollars; None if unknown. May block."""


JITTER = 0.1  # of the delay, so that many notebooks do not come back at the same moment

Announce = Callable[[int, float, ModelUnavailableError], None]
"""Called before the wait with retry number n (from 1), the seconds, and the failure."""


def retrying(config: RetryConfig, announce: Announce) -> AsyncRetrying:
    """Return a caller that retries after ModelUnavailableError.

    After the last attempt it raises RetryExhaustedError.
    """
    return AsyncRetrying(
        retry=retry_if_exception_type(ModelUnavailableError) if config.enabled else retry_never,
        stop=stop_after_attempt(1 + config.max_retries),
        wait=lambda state: delay(state.attempt_number - 1, config, _error(state).retry_after),
        before_sleep=lambda state: announce(
            state.attempt_number, state.upcoming_sleep, _error(state)
        ),
        retry_error_callback=_give_up,
        sleep=asyncio.sleep,
    )


def delay(
    attempt: int,
    config: RetryConfig,
    retry_after: float | None = None,
    rand: Callable[[], float] = random.random,
) -> float:
    """Return the seconds to wait before retry number `attempt` (from 0).

    min(initial·base^attempt, max) plus a little jitter; at least what the service asked for in
    `retry_after`, but never more than max.
    """
    try:
        backoff = config.initial_delay * config.exponential_base**attempt
    except OverflowError:
        backoff = config.max_delay
    backoff = min(backoff, config.max_delay) * (1 + JITTER * rand())
    return min(max(backoff, retry_after or 0.0), config.max_delay)


def _error(state: RetryCallState) -> ModelUnavailableError:
    """Return the failure: only unavailable models are retried."""
    return cast("ModelUnavailableError", state.outcome and state.outcome.exception())


def _give_up(state: RetryCallState) -> NoReturn:
    raise RetryExhaustedError(state.attempt_number, _error(state)) from None


MOST_IN_VAIN = 6
"""How often one request is put off while no other gets a reply."""


class WrappedClient:
    """A client around another one, with its name and prices."""

    def __init__(self, client: Client) -> None:
        self.model, self.maker = client.model, maker_of(client)
        self.context_window = client.context_window
        self._client = client

    def cost(self, usage: TokenUsage) -> float | None:
        """Return the price in US dollars; None if unknown. May block."""
        return self._client.cost(usage) if isinstance(self._client, Priced) else None


class LimitedClient(WrappedClient):
    """Asks another client, within limits that all who ask share.

    When the service says how long to wait, everybody waits, and half as many ask at once after
    that, one more for each round of replies. Such a request is sent again, for as long as others
    get through.
    """

    def __init__(
        self,
        client: Client,
        at_once: int,
        requests_per_minute: float | None = None,
        tokens_per_minute: float | None = None,
    ) -> None:
        super().__init__(client)
        self._most, self._limit = at_once, float(at_once)
        self._seconds_each = 60 / requests_per_minute if requests_per_minute else 0.0
        self._seconds_per_token = 60 / tokens_per_minute if tokens_per_minute else 0.0
        self._next = self._paused_until = 0.0
        """The moment of the loop at which the next request may go, and at which a pause ends."""
        self._open = self._replies = 0
        self._free = asyncio.Condition()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamChunk, None]:
        """Yield the reply to `request`, once it is its turn."""
        in_vain, has_begun = 0, False
        while True:
            replies = self._replies
            try:
                async with self._turn(), aclosing(self._client.stream(request)) as chunks:
                    async for chunk in chunks:
                        has_begun = True
                        if chunk.usage:
                            self._delay(chunk.usage.total_tokens * self._seconds_per_token)
                        yield chunk
                return
            except ModelUnavailableError as error:
                in_vain = in_vain + 1 if self._replies == replies else 0
                if error.retry_after is None or has_begun or in_vain > MOST_IN_VAIN:
                    raise
                self._pause(error.retry_after)

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        """Wait until one more may ask; let the next one when it has been answered."""
        loop = asyncio.get_running_loop()
        async with self._free:
            await self._free.wait_for(lambda: self._open < self._limit)
            self._open += 1
        try:
            # The moment may move meanwhile.
            while (seconds := max(self._next, self._paused_until) - loop.time()) > 0:  # noqa: ASYNC110
                await asyncio.sleep(seconds)
            self._delay(self._seconds_each)
            yield
            self._replies += 1
            self._limit = min(self._most, self._limit + 1 / self._limit)
        finally:
            self._open -= 1
            async with self._free:
                self._free.notify(2)

    def _delay(self, seconds: float) -> None:
        self._next = max(self._next, asyncio.get_running_loop().time()) + seconds

    def _pause(self, seconds: float) -> None:
        moment = asyncio.get_running_loop().time()
        if moment >= self._paused_until:  # else it is the same pause
            self._limit = max(1.0, self._limit / 2)
        self._paused_until = max(self._paused_until, moment + seconds)
