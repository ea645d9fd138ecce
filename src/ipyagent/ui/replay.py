"""A run told again as events, so that what is saved is drawn by what drew it live."""

from __future__ import annotations

from collections.abc import Iterator

from ipyagent.schema import (
    ApprovalDecided,
    ApprovalRequested,
    DecidedBy,
    Decision,
    Event,
    MessageFinished,
    Notice,
    Run,
    RunFinished,
    RunStarted,
    RunStatus,
    Step,
    StepFinished,
    StepStarted,
    StopReason,
    ToolExecution,
    ToolFinished,
    ToolRunning,
    ToolStarted,
    ToolStatus,
)

_RAN = {
    ToolStatus.RUNNING,
    ToolStatus.SUCCESS,
    ToolStatus.FAILED,
    ToolStatus.CANCELLED,
    ToolStatus.UNKNOWN,
}


def replayed(run: Run) -> Iterator[Event]:
    """The events that lead to `run`, without deltas."""
    unfinished = {"steps": (), "status": RunStatus.RUNNING, "stop_reason": None, "error": None}
    yield RunStarted(run=run.model_copy(update={**unfinished, "duration": None}))
    for step in run.steps:
        yield from _step(step)
    if run.status in (RunStatus.DONE, RunStatus.ERROR, RunStatus.CANCELLED):
        yield RunFinished(
            status=run.status,
            stop_reason=run.stop_reason or StopReason.ERROR,
            error=run.error,
            duration=run.duration or 0.0,
        )


def _step(step: Step) -> Iterator[Event]:
    number = step.number
    yield StepStarted(step=number, closing=step.closing)
    for note in step.notes:
        yield Notice(text=note)
    yield MessageFinished(
        step=number,
        message=step.message,
        finish_reason=step.finish_reason,
        usage=step.usage,
        cost_usd=step.cost_usd,
        thinking_seconds=step.thinking_seconds,
    )
    for execution in step.executions:
        yield ToolStarted(step=number, execution=execution)
        yield from _decision(number, execution)
        if execution.status in _RAN and not execution.dry_run:
            yield ToolRunning(step=number, call_id=execution.call.id)
        yield ToolFinished(step=number, execution=execution)
    yield StepFinished(step=number)


def _decision(number: int, execution: ToolExecution) -> Iterator[Event]:
    call_id, by = execution.call.id, execution.decided_by
    decision, reason = execution.decision, execution.reason
    waits = execution.status is ToolStatus.AWAITING_APPROVAL
    if waits or (decision not in (None, Decision.AUTO) and by is not DecidedBy.SESSION):
        yield ApprovalRequested(step=number, call_id=call_id, approval_id="")
    if decision and by:
        yield ApprovalDecided(step=number, call_id=call_id, decision=decision, by=by, reason=reason)
