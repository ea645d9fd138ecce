"""Recovery of runs whose kernel is gone: they are kept, and brought to an end.

A call that had begun has an unknown outcome: it may be done, half done, or not done at all. It is
never run again automatically.
"""

from __future__ import annotations

from collections.abc import Iterator

from ipyagent.schema import (
    Event,
    Message,
    MessageFinished,
    Role,
    Run,
    RunFinished,
    RunStarted,
    RunStatus,
    Step,
    StepFinished,
    StopReason,
    ToolCall,
    ToolExecution,
    ToolFinished,
    ToolResult,
    ToolStarted,
    ToolStatus,
)
from ipyagent.store.codec import Record

ERROR = "the kernel ended during the run; its work until then is kept"


def closing_events(
    run: Run | None, planned: Run | None, history: list[Record], text: str
) -> list[Event]:
    """Return the events that end a run.

    `run` is the fold of its `history`, `planned` what was approved but had not begun, `text` the
    partial reply when it was cut off.
    """
    events: list[Event] = []
    if run is None:
        if planned is None:
            return []
        run = planned.model_copy(update={"status": RunStatus.RUNNING})
        events.append(RunStarted(run=run))
    if history and _is_open(history):
        events += _step_end(run.steps[-1], text)
    seconds = (history[-1].at - run.started_at).total_seconds() if history else 0.0
    events.append(
        RunFinished(
            status=RunStatus.ERROR,
            stop_reason=StopReason.ERROR,
            error=ERROR,
            duration=max(seconds, 0.0),
        )
    )
    return events


def _is_open(history: list[Record]) -> bool:
    """Return whether a step was in progress."""
    last = [r.event.type for r in history if r.event.type in ("step_started", "step_finished")]
    return bool(last) and last[-1] == "step_started"


def _step_end(step: Step, text: str) -> Iterator[Event]:
    if step.message is None and text.strip():
        message = Message.of(Role.ASSISTANT, text)
        yield MessageFinished(step=step.number, message=message)
    known = {execution.call.id: execution for execution in step.executions}
    for call in step.message.tool_calls if step.message else ():
        execution = known.get(call.id)
        if execution is None:
            execution = ToolExecution(call=call)
            yield ToolStarted(step=step.number, execution=execution)
        if execution.result is None:
            yield ToolFinished(step=step.number, execution=_close_execution(execution))
    yield StepFinished(step=step.number)


def _close_execution(execution: ToolExecution) -> ToolExecution:
    call = execution.call
    has_begun = execution.status is ToolStatus.RUNNING
    status = ToolStatus.UNKNOWN if has_begun else ToolStatus.CANCELLED
    not_run = f"{call.name} was not run: the kernel ended before it began."
    why = _unknown(call) if has_begun else not_run
    return execution.model_copy(update={"status": status, "result": ToolResult.failure(why)})


def _unknown(call: ToolCall) -> str:
    return (
        f"unknown outcome: the kernel ended while {call.name} ran; it may have been done, partly "
        "or not at all; check before you repeat it"
    )
