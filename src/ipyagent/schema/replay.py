"""The events by which the conversation of a saved run is built again, and beginnings of runs."""

from __future__ import annotations

from collections.abc import Iterator

from ipyagent.schema.events import (
    Event,
    MessageFinished,
    PlanProposed,
    RunFinished,
    RunStarted,
    StepFinished,
    StepStarted,
    ToolFinished,
)
from ipyagent.schema.results import ToolStatus
from ipyagent.schema.runs import Run, RunStatus, Step, StopReason
from ipyagent.schema.state import never_ran

_OPEN = {ToolStatus.PENDING, ToolStatus.AWAITING_APPROVAL, ToolStatus.RUNNING}

AS_DRAFT = {
    "status": RunStatus.DRAFT,
    "stop_reason": None,
    "error": None,
    "steps": (),
    "notes": (),
    "unsent": (),
    "duration": None,
}
"""Changes to a run that is to begin as a plan."""
UNWANTED = "I do not want this plan; nothing of it was run."
"""The message to the model about a plan that was denied."""


def conversation_events(run: Run) -> Iterator[Event]:
    """Yield the events of a run that change its conversation."""
    is_plan = never_ran(run)
    yield PlanProposed(run=run) if is_plan else RunStarted(run=run)
    for step in run.steps:
        yield from _events_of_step(step, UNWANTED if is_plan else None)
    if run.is_finished:
        otherwise = StopReason.FINISHED if run.status is RunStatus.DONE else StopReason.ERROR
        yield RunFinished(
            status=run.status,
            stop_reason=run.stop_reason or otherwise,
            error=run.error,
            duration=run.duration or 0.0,
        )


def _events_of_step(step: Step, nudge: str | None) -> Iterator[Event]:
    yield StepStarted(
        step=step.number, closing=step.closing, nudge=nudge, user_texts=step.user_texts
    )
    yield MessageFinished(
        step=step.number,
        message=step.message,
        finish_reason=step.finish_reason,
        usage=step.usage,
    )
    ended = [each for each in step.executions if each.status not in _OPEN]
    for execution in ended:
        yield ToolFinished(step=step.number, execution=execution)
    if len(ended) == len(step.executions):
        yield StepFinished(step=step.number)
