"""The parts of every run, whether a model or a plan chooses the next: steps, requests, calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass, field
from functools import lru_cache

from ipyagent.agent.budgets import LimitReachedError, TimeLimits
from ipyagent.agent.dispatch import Dispatcher
from ipyagent.agent.event_stream import EventStream
from ipyagent.agent.session.session import Session
from ipyagent.agent.tool_context import ToolContext
from ipyagent.config import Config
from ipyagent.errors import StepTimeoutError
from ipyagent.llm.client import Client, ModelRequest
from ipyagent.phrases import first_line
from ipyagent.schema import (
    Message,
    RetryScheduled,
    Role,
    StepFinished,
    StepStarted,
    StopReason,
    ToolCall,
    ToolDefinition,
)

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
