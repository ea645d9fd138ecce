"""Fold events into a `Run`: the one way a run changes.

Deltas are ignored, since `message_finished` brings the whole message.
"""

from __future__ import annotations

from ipyagent.schema.events import (
    ApprovalDecided,
    ApprovalRequested,
    Compacted,
    Event,
    MessageFinished,
    Notice,
    PlanProposed,
    PlanRehearsed,
    RetryScheduled,
    RunFinished,
    RunStarted,
    StepStarted,
    ToolFinished,
    ToolRehearsed,
    ToolRunning,
    ToolStarted,
    UserTextsChanged,
)
from ipyagent.schema.results import ToolStatus
from ipyagent.schema.runs import Run, Step


def fold(run: Run | None, event: Event) -> Run:
    """Return the run after `event`; only `plan_proposed` and `run_started` may come first."""
    if isinstance(event, RunStarted | PlanProposed):
        return event.run
    if run is None:
        raise ValueError(f"{event.type} before run_started")
    match event:
        case PlanRehearsed(rehearsals=rehearsals):
            return run.model_copy(update={"rehearsals": rehearsals})
        case StepStarted(step=number, closing=closing, user_texts=texts):
            step = Step(number=number, closing=closing, user_texts=texts)
            return run.model_copy(update={"steps": (*run.steps, step), "unsent": ()})
        case Compacted():
            note = "The older part of the conversation was summarised to make room."
            return _with_step(run, notes=(*run.steps[-1].notes, note))
        case RetryScheduled():
            note = f"{event.reason} Retry {event.attempt}/{event.of} in {event.delay:.1f} s."
            return _with_step(run, notes=(*run.steps[-1].notes, note))
        case MessageFinished():
            reply = event.model_dump(exclude={"type", "step", "message", "usage"})
            return _with_step(run, message=event.message, usage=event.usage, **reply)
        case ToolStarted(execution=execution):
            return _with_step(run, executions=(*run.steps[-1].executions, execution))
        case Notice(text=text):
            return run.model_copy(update={"notes": (*run.notes, text)})
        case UserTextsChanged(texts=texts):
            return run.model_copy(update={"unsent": texts})
        case RunFinished():
            return run.model_copy(update=event.model_dump(exclude={"type"}))
    return _fold_call(run, event)


def _fold_call(run: Run, event: Event) -> Run:
    """Return the run after an event of one of its calls."""
    match event:
        case ApprovalRequested():
            return _with_call(run, event.call_id, status=ToolStatus.AWAITING_APPROVAL)
        case ApprovalDecided():
            decided = {"decision": event.decision, "decided_by": event.by, "reason": event.reason}
            return _with_call(run, event.call_id, status=ToolStatus.PENDING, **decided)
        case ToolRehearsed(rehearsal=rehearsal):
            return _with_call(run, event.call_id, rehearsal=rehearsal)
        case ToolRunning():
            return _with_call(run, event.call_id, status=ToolStatus.RUNNING)
        case ToolFinished(execution=execution):
            return _with_call(run, execution.call.id, **dict(execution))
    return run


def _with_step(run: Run, **changes: object) -> Run:
    """Return the run with its newest step changed: older steps are final."""
    *earlier, newest = run.steps
    return run.model_copy(update={"steps": (*earlier, newest.model_copy(update=changes))})


def _with_call(run: Run, call_id: str, **changes: object) -> Run:
    executions = tuple(
        e.model_copy(update=changes) if e.call.id == call_id else e
        for e in run.steps[-1].executions
    )
    return _with_step(run, executions=executions)
