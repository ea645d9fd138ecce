"""The parts of every run, whether a model or a plan chooses the next: steps, requests, calls.

However a run ends, every failure is recorded in it, and its last event always comes. A request is
sent once all earlier events are on the disk.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Callable,
    Iterator,
    Sequence,
    Set as AbstractSet,
)
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache

from ipyagent import errors, schema, telemetry
from ipyagent.agent.budgets import LimitReachedError, ReplyMeter, RunBudget, TimeLimits
from ipyagent.agent.dispatch import Dispatcher
from ipyagent.agent.event_stream import INTERVAL, EventStream
from ipyagent.agent.session.session import Session
from ipyagent.agent.tool_context import ToolContext
from ipyagent.config import Config
from ipyagent.json_types import well_formed
from ipyagent.llm.client import ANSWER_TOOL, Client, ModelRequest, maker_of
from ipyagent.llm.wire import ReplyBuilder
from ipyagent.numbers import TracedNumber
from ipyagent.plaintext import first_line
from ipyagent.redaction import Redactor, mask_arguments
from ipyagent.schema.tables import WorkspaceFacts

log = logging.getLogger("ipyagent")

TOO_LONG = (
    "Nothing more can be summarised. Begin anew with `%agent session new`, ask for less at once, "
    "or choose a model that takes in more."
)


@dataclass
class RunEnding:
    """The end of a run: status, reason and error; of its answer the value, if it has a type, and
    the numbers; and the expectations of its cell.
    """

    status: schema.RunStatus = schema.RunStatus.DONE
    reason: schema.StopReason = schema.StopReason.FINISHED
    error: str | None = None
    value: object = None
    value_text: str = ""
    expected: tuple[schema.Expectation, ...] = ()
    numbers: tuple[TracedNumber, ...] = ()


@asynccontextmanager
async def run_lifecycle(
    stream: EventStream,
    limits: TimeLimits,
    conclude: Callable[[RunEnding], object] = lambda ending: None,
) -> AsyncIterator[RunEnding]:
    """Run the body as the work of a run that `stream` has begun, and emit its end.

    An exception becomes the ending. `conclude` gets the ending before it is emitted.
    """
    loop = asyncio.get_running_loop()
    begun = loop.time()
    ending = RunEnding()
    try:
        with telemetry.tracing_as(stream.run.trace_id):
            yield ending
    except (asyncio.CancelledError, Exception) as error:
        ending = _ending_for(error, stream.run.id)
    conclude(ending)
    if (
        problem := await _journal_problem(stream.session)
    ) and ending.status is schema.RunStatus.DONE:
        ending = RunEnding(schema.RunStatus.ERROR, schema.StopReason.ERROR, problem)
    # Without the user's own time; tests of the user's may replace the clock.
    duration = max(0.0, loop.time() - begun - limits.paused)
    events = stream.record(
        schema.RunFinished(
            status=ending.status,
            stop_reason=ending.reason,
            error=ending.error,
            duration=duration,
            value=ending.value,
            value_text=ending.value_text,
            expected=ending.expected,
            numbers=ending.numbers,
        )
    )
    await _journal_problem(stream.session)
    stream.notify(events)


def _ending_for(error: BaseException, run_id: str) -> RunEnding:
    match error:
        case asyncio.CancelledError():
            return RunEnding(schema.RunStatus.CANCELLED, schema.StopReason.INTERRUPTED)
        case errors.StepTimeoutError():
            return RunEnding(schema.RunStatus.DONE, schema.StopReason.TIMEOUT, str(error))
        case errors.ContextOverflowError():
            return RunEnding(
                schema.RunStatus.ERROR, schema.StopReason.CONTEXT_OVERFLOW, f"{error} {TOO_LONG}"
            )
        case LimitReachedError():
            return RunEnding(schema.RunStatus.DONE, error.reason, str(error) or None)
        case errors.AgentError():
            log.debug("run %s failed: %s", run_id, error)
            return RunEnding(
                schema.RunStatus.ERROR, schema.StopReason.ERROR, errors.describe_error(error)
            )
    log.error("run %s failed", run_id, exc_info=error)
    if isinstance(error, Exception) and errors.lacks_descriptors(error):
        return RunEnding(
            schema.RunStatus.ERROR, schema.StopReason.ERROR, errors.describe_error(error)
        )
    return RunEnding(
        schema.RunStatus.ERROR, schema.StopReason.ERROR, f"ipyagent itself failed: {error!r}"
    )


async def _journal_problem(session: Session) -> str | None:
    """Return why events could not be recorded; None if they were."""
    try:
        await session.wait_until_recorded()
    except errors.JournalError as error:
        return errors.describe_error(error)
    except asyncio.CancelledError:  # asked to stop once more: the run ends here anyway
        pass
    return None


NOT_RUN = "not run: the run ended"


class RunTimeoutError(LimitReachedError):
    """Raised when the run's time is up."""

    def __init__(self) -> None:
        super().__init__(schema.StopReason.MAX_SECONDS)


@dataclass
class StepMachine:
    """A run's settings, its model, and the context of its calls."""

    config: Config
    client: Client
    context: ToolContext
    time_limits: TimeLimits = field(default_factory=TimeLimits, init=False)
    facts: WorkspaceFacts | None = field(default=None, init=False)

    @cached_property
    def stream(self) -> EventStream:
        """The run's event stream."""
        return self.context.stream

    @cached_property
    def session(self) -> Session:
        """The session that the run belongs to."""
        return self.context.stream.session

    def run_limit(self) -> AbstractAsyncContextManager[None]:
        """Raise RunTimeoutError if the run takes longer than the settings allow."""
        return self.time_limits.limit(self.config.agent.max_seconds, RunTimeoutError)

    def step_limit(self) -> AbstractAsyncContextManager[None]:
        """Raise StepTimeoutError if a step takes longer than the settings allow."""
        seconds = self.config.agent.step_seconds
        return self.time_limits.limit(seconds, lambda: errors.StepTimeoutError(seconds or 0.0))

    @contextmanager
    def open_step(self, nudge: str | None = None, *, closing: bool = False) -> Iterator[int]:
        """Open the next step; yield its number. `nudge` is text for the model before it.

        The texts of the user that wait go with it.
        """
        number, texts = len(self.stream.run.steps) + 1, self.stream.run.unsent
        self.stream.emit(
            schema.StepStarted(step=number, closing=closing, nudge=nudge, user_texts=texts)
        )
        try:
            yield number
        finally:
            self.stream.emit(schema.StepFinished(step=number))

    async def run_calls(
        self,
        step: int,
        calls: Sequence[schema.ToolCall],
        context: ToolContext | None = None,
        skip_note: str | None = None,
    ) -> Dispatcher:
        """Run the calls of a step in `context`, or in the run's.

        Whatever happens, each gets its result. With `skip_note` none runs, and the note is their
        result.
        """
        dispatcher = Dispatcher(context or self.context, step, calls, self.time_limits)
        try:
            if skip_note is None:
                await dispatcher.run()
        finally:
            dispatcher.close(skip_note or NOT_RUN, interrupted=not self.time_limits.is_expired)
        return dispatcher

    def build_request(
        self, tools: tuple[schema.ToolDefinition, ...], *, may_call: bool = True
    ) -> ModelRequest:
        """Return the request that continues the conversation."""
        conversation = self.session.conversation
        return ModelRequest(
            (_system_message(conversation.system_prompt), *conversation.messages),
            tools,
            may_call=may_call,
            trace_id=self.stream.run.trace_id,
            facts=self.facts,
        )

    def retry_announcer(self, step: int, most: int) -> Callable[[int, float, object], None]:
        """Return a function that announces retry n (from 1), its delay, and the reason."""

        def announce(attempt: int, seconds: float, problem: object) -> None:
            reason = first_line(str(problem))  # the advice matters once all has failed
            self.stream.emit(
                schema.RetryScheduled(
                    step=step, attempt=attempt, of=most, delay=seconds, reason=reason
                )
            )

        return announce


@lru_cache(maxsize=8)
def _system_message(prompt: str) -> schema.Message:
    """Return the same message for each request of a conversation."""
    return schema.Message.of(schema.Role.SYSTEM, prompt)


CUT_ANSWER = "cut"
"""The finish reason of an answer with a type that was cut at the limit of length."""

YIELD_SECONDS = 0.02
"""Seconds after which a reply that streams without a pause yields to other tasks."""


async def stream_reply(
    client: Client, session: Session, request: ModelRequest, budget: RunBudget
) -> AsyncGenerator[schema.StreamChunk, None]:
    """Send `request` once all events are on the disk; yield the reply in pieces.

    Raises JournalError if they cannot be recorded; nothing is sent then. Raises LimitReachedError
    if the reply takes more than is left of the budget.
    """
    await session.wait_until_recorded()
    allowance = await budget.allowance(client, session.conversation.token_count)
    if allowance.tokens is not None and allowance.tokens <= 0:
        raise LimitReachedError(allowance.reason)
    request, meter = replace(request, max_tokens=allowance.tokens), ReplyMeter(allowance)
    loop = asyncio.get_running_loop()
    begun = loop.time()
    try:
        async with aclosing(client.stream(request)) as chunks:
            async for chunk in chunks:
                for piece in meter.split(chunk):
                    yield piece
                    meter.check_limits()
                    if loop.time() - begun > YIELD_SECONDS:
                        await asyncio.sleep(0)
                        begun = loop.time()
        for piece in meter.finish():
            yield piece
    except LimitReachedError:
        for piece in meter.estimate_usage(client, request):
            yield piece
        raise


class StreamedReply:
    """A reply of `client`. `prefix` names calls that come without an id.

    Secrets in it are redacted at once, so that the call which runs is the one shown.
    """

    def __init__(self, step: int, prefix: str, redactor: Redactor, client: Client) -> None:
        self.step = step
        self.message: schema.Message | None = None
        """The reply, once `complete` or `cut_off` was called."""
        self._builder = ReplyBuilder(prefix)
        self._redactor, self._prefix, self._client = redactor, prefix, client
        self._thinking_since: float | None = None
        self._thinking_seconds: float | None = None
        self._written: tuple[int, str, str] = (0, "", "")
        self._written_due = 0.0

    def add(self, chunk: schema.StreamChunk) -> None:
        """Add a chunk."""
        self._builder.add(chunk)
        if chunk.type == "thinking":
            moment = time.monotonic()
            self._thinking_since = self._thinking_since or moment
            self._thinking_seconds = max(0.0, moment - self._thinking_since)

    def read_written(self) -> schema.MessageDelta | None:
        """Return what is new of the call that is being written, now and then.

        All that was written is read again, so this must not happen at each piece.
        """
        if (moment := asyncio.get_running_loop().time()) < self._written_due:
            return None
        self._written_due = moment + INTERVAL
        call, name, arguments = self._builder.written_call()
        values = mask_arguments(arguments).values()
        text = well_formed("\n".join(str(each) for each in values if isinstance(each, str | int)))
        before = self._written[2] if self._written[:2] == (call, name) else ""
        if name in ("", ANSWER_TOOL) or not text.startswith(before):
            return None
        self._written = call, name, text
        new = text[len(before) :]
        return schema.MessageDelta(step=self.step, kind="call", text=new, call=call, name=name)

    def complete(self) -> None:
        """Finalize the reply: build the message from its chunks."""
        self._builder.maker = maker_of(self._client)
        message = self._builder.message()
        self.message = message and self._redactor.record(message)

    def take_answer(self) -> None:
        """Make a call of ANSWER_TOOL the text of the reply; beside other calls it does not count.

        A reply that was cut is not continued: half of an object is asked for again.
        """
        if self.is_truncated:
            self._builder.finish_reason = CUT_ANSWER
        answers = [call for call in self.calls if call.name == ANSWER_TOOL]
        if self.message is None or not answers:
            return
        blocks = [block for block in self.message.content if block not in answers]
        if len(answers) == len(self.calls):
            blocks = [each for each in blocks if isinstance(each, schema.ThinkingContent)]
            blocks.append(
                schema.TextContent(text=json.dumps(answers[-1].arguments, ensure_ascii=False))
            )
        self.message = self.message.model_copy(update={"content": tuple(blocks)})

    def make_ids_unique(self, used_ids: AbstractSet[str]) -> None:
        """Give calls new ids where an earlier call has the same: providers refuse a used id."""
        if self.message is None or used_ids.isdisjoint(call.id for call in self.calls):
            return
        blocks = list(self.message.content)
        for at, block in enumerate(blocks):
            if isinstance(block, schema.ToolCall) and block.id in used_ids:
                blocks[at] = block.model_copy(update={"id": f"{self._prefix}_again_{at}"})
        self.message = self.message.model_copy(update={"content": tuple(blocks)})

    def cut_off(self) -> None:
        """Finalize a partial reply: keep its text, drop its tool calls."""
        message = self._builder.message()
        text = message.text if message else ""
        self.message = schema.Message.of(schema.Role.ASSISTANT, text) if text.strip() else None

    @property
    def calls(self) -> tuple[schema.ToolCall, ...]:
        """The calls, in order."""
        return self.message.tool_calls if self.message else ()

    @property
    def usage(self) -> schema.TokenUsage:
        """The usage, as far as the provider reported it."""
        return self._builder.usage

    @property
    def is_truncated(self) -> bool:
        """True if the model's own length limit ended it."""
        return self._builder.finish_reason in ("length", CUT_ANSWER)

    @property
    def is_withheld(self) -> bool:
        """True if the model or its service refused to give it."""
        return self._builder.finish_reason == "content_filter"

    @property
    def is_paused(self) -> bool:
        """True if the service stopped in its midst, to be asked to go on."""
        return self._builder.finish_reason == schema.PAUSED

    @property
    def lacks_calls(self) -> bool:
        """True if the service says that it ends in calls, and none came."""
        return self._builder.finish_reason == "tool_calls" and not self.calls

    @property
    def stop_reason(self) -> schema.StopReason:
        """The stop reason of a run that ends with this reply."""
        if self.is_truncated:
            return schema.StopReason.MAX_TOKENS
        if self.is_withheld:
            return schema.StopReason.CONTENT_FILTER
        text = self.message.text.strip() if self.message else ""
        return schema.StopReason.FINISHED if text else schema.StopReason.EMPTY

    def to_event(self, usage: schema.TokenUsage, cost_usd: float | None) -> schema.MessageFinished:
        """Return the event for it; `usage` and `cost_usd` are those of a summary made before it."""
        own = self._builder
        message = self.message and self.message.model_copy(update={"usage": own.usage})
        costs = [cost for cost in (own.cost_usd, cost_usd) if cost is not None]
        return schema.MessageFinished(
            step=self.step,
            message=message,
            finish_reason=own.finish_reason,
            usage=own.usage + usage,
            cost_usd=sum(costs) if costs else None,
            thinking_seconds=self._thinking_seconds,
        )
