"""The events that led to a run, all of them: folding them gives the run again.

Everything that a run does not keep is lost: reminders, summaries, and the times of texts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ipyagent.schema.events import (
    ApprovalDecided,
    ApprovalRequested,
    Event,
    MessageFinished,
    MessageStarted,
    Notice,
    PlanProposed,
    PlanWaiting,
    RetryScheduled,
    RunFinished,
    RunStarted,
    StepFinished,
    StepStarted,
    ToolFinished,
    ToolRunning,
    ToolStarted,
    UserTextsChanged,
)
from ipyagent.schema.results import DecidedBy, Decision, ToolExecution, ToolStatus
from ipyagent.schema.runs import AS_DRAFT, UNWANTED, Run, RunStatus, Step, StopReason, never_ran

_RETRY = re.compile(r"(?s)(.*) Retry (\d+)/(\d+) in (\d+\.\d) s\.")
_NOT_YET = {"status": ToolStatus.PENDING, "result": None, "started_at": None, "duration": None}
_RAN = {ToolStatus.SUCCESS, ToolStatus.FAILED, ToolStatus.CANCELLED, ToolStatus.UNKNOWN}
_FINAL = {*_RAN, ToolStatus.DENIED}


def events_from_run(run: Run) -> list[Event]:
    """Return the events that fold to `run`; a summary's note becomes a note of the whole run."""
    events: list[Event] = [_beginning(run)]
    events += (Notice(text=text) for text in run.notes)
    for step in run.steps:
        events += _events_of_step(step, UNWANTED if never_ran(run) else None)
    if run.unsent:
        events.append(UserTextsChanged(texts=run.unsent))
    if run.status is RunStatus.DRAFT:
        events.append(PlanWaiting())
    if run.is_finished:
        otherwise = StopReason.FINISHED if run.status is RunStatus.DONE else StopReason.ERROR
        events.append(
            RunFinished(
                status=run.status,
                stop_reason=run.stop_reason or otherwise,
                error=run.error,
                duration=run.duration or 0.0,
                expected=run.expected,
            )
        )
    return events


def _beginning(run: Run) -> Event:
    """Return the first event: a plan that never ran was only proposed."""
    if never_ran(run):
        return PlanProposed(run=run.model_copy(update=AS_DRAFT))
    return RunStarted(run=run.model_copy(update=AS_DRAFT | {"status": RunStatus.RUNNING}))


def _events_of_step(step: Step, nudge: str | None) -> Iterator[Event]:
    yield StepStarted(
        step=step.number, closing=step.closing, nudge=nudge, user_texts=step.user_texts
    )
    for text in step.notes:
        yield _note(step.number, text)
    yield MessageStarted(step=step.number)
    yield MessageFinished(
        step=step.number,
        message=step.message,
        finish_reason=step.finish_reason,
        usage=step.usage,
        cost_usd=step.cost_usd,
        thinking_seconds=step.thinking_seconds,
    )
    for execution in step.executions:
        yield from _events_of_call(step.number, execution)
    if all(execution.status in _FINAL for execution in step.executions):
        yield StepFinished(step=step.number)


def _note(step: int, text: str) -> Event:
    if retry := _RETRY.fullmatch(text):
        reason, attempt, of, delay = retry.groups()
        return RetryScheduled(
            step=step, attempt=int(attempt), of=int(of), delay=float(delay), reason=reason
        )
    return Notice(text=text)


def _events_of_call(step: int, execution: ToolExecution) -> Iterator[Event]:
    call_id, status = execution.call.id, execution.status
    if status not in _FINAL:
        yield ToolStarted(step=step, execution=execution)
        if status is ToolStatus.AWAITING_APPROVAL:
            yield ApprovalRequested(step=step, call_id=call_id, approval_id="")
        return
    yield ToolStarted(step=step, execution=execution.model_copy(update=_NOT_YET))
    yield from _decision(step, execution)
    if status in _RAN and not execution.dry_run:
        yield ToolRunning(step=step, call_id=call_id)
    yield ToolFinished(step=step, execution=execution)


_STANDING = (DecidedBy.SESSION, DecidedBy.FOLDER)
"""Deciders for which nobody is asked."""


def _decision(step: int, execution: ToolExecution) -> Iterator[Event]:
    call_id, by = execution.call.id, execution.decided_by
    decision, reason = execution.decision, execution.reason
    if decision not in (None, Decision.AUTO) and by not in _STANDING:
        yield ApprovalRequested(step=step, call_id=call_id, approval_id="")
    if decision and by:
        yield ApprovalDecided(step=step, call_id=call_id, decision=decision, by=by, reason=reason)
