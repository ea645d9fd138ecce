"""How runs end: whatever goes wrong is in the run, and its last event is always told."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

from ipyagent import descriptors
from ipyagent.agent.allowance import LimitReachedError
from ipyagent.agent.session import Session, remember
from ipyagent.agent.stream import EventStream
from ipyagent.errors import AgentError, ContextOverflowError, JournalError, StepTimeoutError
from ipyagent.schema import Run, RunFinished, RunStatus, StopReason
from ipyagent.telemetry import trace_ids

log = logging.getLogger("ipyagent")

Ending = tuple[RunStatus, StopReason, str | None]
"""Status, reason, and what went wrong."""

TOO_LONG = (
    "Nothing more can be summarised. Begin anew with `%agent session new`, ask for less at once, "
    "or choose a model that takes in more."
)


async def concluded(
    stream: EventStream,
    work: Callable[[], Awaitable[Ending]],
    last_word: Callable[[Ending], object] = lambda ending: None,
) -> Run:
    """Do the work of the run that `stream` has begun; the run as it ended. Never raises.

    `last_word` hears how it ends, before the event that says so.
    """
    begun = time.monotonic()
    status, reason, error = await _ending(stream, work)
    last_word((status, reason, error))
    if (problem := await _unrecorded(stream.session)) and status is RunStatus.DONE:
        status, reason, error = RunStatus.ERROR, StopReason.ERROR, problem
    duration = max(0.0, time.monotonic() - begun)  # tests of the user's may replace the clock
    end = RunFinished(status=status, stop_reason=reason, error=error, duration=duration)
    told = stream.take(end)
    await _unrecorded(stream.session)
    stream.tell(told)
    remember(stream.run)
    return stream.run


async def _ending(stream: EventStream, work: Callable[[], Awaitable[Ending]]) -> Ending:
    try:
        with trace_ids.tracing_as(stream.run.trace_id):
            return await work()
    except asyncio.CancelledError:
        return RunStatus.CANCELLED, StopReason.INTERRUPTED, None
    except StepTimeoutError as error:
        return RunStatus.DONE, StopReason.TIMEOUT, str(error)
    except ContextOverflowError as error:
        return RunStatus.ERROR, StopReason.CONTEXT_OVERFLOW, f"{error} {TOO_LONG}"
    except LimitReachedError as error:
        return RunStatus.DONE, error.reason, str(error) or None
    except AgentError as error:
        log.info("run %s failed", stream.run.id, exc_info=True)
        return RunStatus.ERROR, StopReason.ERROR, descriptors.describe(error)
    except Exception as error:
        log.exception("run %s failed", stream.run.id)
        return RunStatus.ERROR, StopReason.ERROR, _failure(error)


def _failure(error: Exception) -> str:
    if descriptors.has_none_left(error):
        return descriptors.describe(error)
    return f"ipyagent itself failed: {error!r}"


async def _unrecorded(session: Session) -> str | None:
    """Why what happened could not be recorded; None if it was."""
    try:
        await session.recorded()
    except JournalError as error:
        return descriptors.describe(error)
    except asyncio.CancelledError:  # asked to stop once more: the run ends here anyway
        pass
    return None
