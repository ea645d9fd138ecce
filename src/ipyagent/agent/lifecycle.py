"""The end of a run: every failure is recorded in the run, and its last event always comes."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from ipyagent import descriptors
from ipyagent.agent.budgets import LimitReachedError
from ipyagent.agent.event_stream import EventStream
from ipyagent.agent.session.session import Session
from ipyagent.errors import AgentError, ContextOverflowError, JournalError, StepTimeoutError
from ipyagent.schema import RunFinished, RunStatus, StopReason
from ipyagent.telemetry import trace_ids

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
        with trace_ids.tracing_as(stream.run.trace_id):
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
            log.info("run %s failed", run_id, exc_info=error)
            return RunEnding(RunStatus.ERROR, StopReason.ERROR, descriptors.describe(error))
    log.error("run %s failed", run_id, exc_info=error)
    if isinstance(error, Exception) and descriptors.has_none_left(error):
        return RunEnding(RunStatus.ERROR, StopReason.ERROR, descriptors.describe(error))
    return RunEnding(RunStatus.ERROR, StopReason.ERROR, f"ipyagent itself failed: {error!r}")


async def _journal_problem(session: Session) -> str | None:
    """Return why events could not be recorded; None if they were."""
    try:
        await session.wait_until_recorded()
    except JournalError as error:
        return descriptors.describe(error)
    except asyncio.CancelledError:  # asked to stop once more: the run ends here anyway
        pass
    return None
