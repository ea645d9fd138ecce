"""The parts of every run, whether a model or a plan chooses the next: steps, requests, calls.

However a run ends, every failure is recorded in it, and its last event always comes.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import lru_cache

from ipyagent import telemetry
from ipyagent.agent.budgets import LimitReachedError, TimeLimits
from ipyagent.agent.dispatch import Dispatcher
from ipyagent.agent.event_stream import EventStream
from ipyagent.agent.session.session import Session
from ipyagent.agent.tool_context import ToolContext
from ipyagent.config import Config
from ipyagent.errors import (
    AgentError,
    ContextOverflowError,
    JournalError,
    StepTimeoutError,
    describe_error,
    lacks_descriptors,
)
from ipyagent.llm.client import Client, ModelRequest
from ipyagent.phrases import first_line
from ipyagent.schema import (
    Message,
    RetryScheduled,
    Role,
    RunFinished,
    RunStatus,
    StepFinished,
    StepStarted,
    StopReason,
    ToolCall,
    ToolDefinition,
)
from ipyagent.schema.facts import WorkspaceFacts

log = logging.getLogger("ipyagent")

TOO_LONG = (
    "Nothing more can be summarised. Begin anew with `%agent session new`, ask for less at once, "
    "or choose a model that takes in more."
)


@dataclass
class RunEnding:
    """The end of a run: status, reason and error."""

    status: RunStatus = RunStatus.DONE
    reason: StopReason = StopReason.FINISHED
    error: str | None = None


@asynccontextmanager
async def run_lifecycle(
    stream: EventStream, conclude: Callable[[RunEnding], object] = lambda ending: None
) -> AsyncIterator[RunEnding]:
    """Run the body as the work of a run that `stream` has begun, and emit its end.

    An exception becomes the ending. `conclude` gets the ending before it is emitted.
    """
    begun = time.monotonic()
    ending = RunEnding()
    try:
        with telemetry.tracing_as(stream.run.trace_id):
            yield ending
    except (asyncio.CancelledError, Exception) as error:
        ending = _ending_for(error, stream.run.id)
    conclude(ending)
    if (problem := await _journal_problem(stream.session)) and ending.status is RunStatus.DONE:
        ending = RunEnding(RunStatus.ERROR, StopReason.ERROR, problem)
    duration = max(0.0, time.monotonic() - begun)  # tests of the user's may replace the clock
    events = stream.record(
        RunFinished(
            status=ending.status,
            stop_reason=ending.reason,
            error=ending.error,
            duration=duration,
        )
    )
    await _journal_problem(stream.session)
    stream.notify(events)


def _ending_for(error: BaseException, run_id: str) -> RunEnding:
    match error:
        case asyncio.CancelledError():
            return RunEnding(RunStatus.CANCELLED, StopReason.INTERRUPTED)
        case StepTimeoutError():
            return RunEnding(RunStatus.DONE, StopReason.TIMEOUT, str(error))
        case ContextOverflowError():
            return RunEnding(RunStatus.ERROR, StopReason.CONTEXT_OVERFLOW, f"{error} {TOO_LONG}")
        case LimitReachedError():
            return RunEnding(RunStatus.DONE, error.reason, str(error) or None)
        case AgentError():
            log.debug("run %s failed: %s", run_id, error)
            return RunEnding(RunStatus.ERROR, StopReason.ERROR, describe_error(error))
    log.error("run %s failed", run_id, exc_info=error)
    if isinstance(error, Exception) and lacks_descriptors(error):
        return RunEnding(RunStatus.ERROR, StopReason.ERROR, describe_error(error))
    return RunEnding(RunStatus.ERROR, StopReason.ERROR, f"ipyagent itself failed: {error!r}")


async def _journal_problem(session: Session) -> str | None:
    """Return why events could not be recorded; None if they were."""
    try:
        await session.wait_until_recorded()
    except JournalError as error:
        return describe_error(error)
    except asyncio.CancelledError:  # asked to stop once more: the run ends here anyway
        pass
    return None


NOT_RUN = "not run: the run ended"


class RunTimeoutError(LimitReachedError):
    """Raised when the run's time is up."""

    def __init__(self) -> None:
        super().__init__(StopReason.MAX_SECONDS)


@dataclass
class StepMachine:
    """A run's settings, its model, and the context of its calls."""

    config: Config
    client: Client
    context: ToolContext
    time_limits: TimeLimits = field(default_factory=TimeLimits, init=False)
    facts: WorkspaceFacts | None = field(default=None, init=False)

    @property
    def stream(self) -> EventStream:
        """The run's event stream."""
        return self.context.stream

    @property
    def session(self) -> Session:
        """The session that the run belongs to."""
        return self.context.stream.session

    def run_limit(self) -> AbstractAsyncContextManager[None]:
        """Raise RunTimeoutError if the run takes longer than the settings allow."""
        return self.time_limits.limit(self.config.agent.max_seconds, RunTimeoutError())

    def step_limit(self) -> AbstractAsyncContextManager[None]:
        """Raise StepTimeoutError if a step takes longer than the settings allow."""
        seconds = self.config.agent.step_seconds
        return self.time_limits.limit(seconds, StepTimeoutError(seconds or 0.0))

    @contextmanager
    def open_step(self, nudge: str | None = None, *, closing: bool = False) -> Iterator[int]:
        """Open the next step; yield its number. `nudge` is text for the model before it.

        The texts of the user that wait go with it.
        """
        number, texts = len(self.stream.run.steps) + 1, self.stream.run.unsent
        self.stream.emit(StepStarted(step=number, closing=closing, nudge=nudge, user_texts=texts))
        try:
            yield number
        finally:
            self.stream.emit(StepFinished(step=number))

    async def run_calls(
        self,
        step: int,
        calls: Sequence[ToolCall],
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
        self, tools: tuple[ToolDefinition, ...], *, may_call: bool = True
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
                RetryScheduled(step=step, attempt=attempt, of=most, delay=seconds, reason=reason)
            )

        return announce


@lru_cache(maxsize=8)
def _system_message(prompt: str) -> Message:
    """Return the same message for each request of a conversation."""
    return Message.of(Role.SYSTEM, prompt)
