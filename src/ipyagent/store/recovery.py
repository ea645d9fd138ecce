"""The end of a run that a kernel left behind: each call gets its result.

A task that it delegated is a part of it: its changes and its cost are those of the call.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ipyagent import schema
from ipyagent.store.runs import Record
from ipyagent.store.tables import Database, Row

KERNEL_GONE = "the kernel ended during the run; its work until then is kept"


def closing_events(
    run: schema.Run | None,
    planned: schema.Run | None,
    history: list[Record],
    reply: Row | None,
    children: Iterable[schema.Run] = (),
) -> list[schema.Event]:
    """Return the events that end a run.

    `run` is the fold of its `history`, `planned` what was approved but had not begun, `reply` the
    partial reply when it was cut off, `children` the runs of tasks that it delegated.
    """
    events: list[schema.Event] = []
    if run is None:
        if planned is None:
            return []
        run = planned.model_copy(update={"status": schema.RunStatus.RUNNING})
        events.append(schema.RunStarted(run=run))
    if history and _is_open(history):
        text = reply["text"] if reply else ""
        known = {name for each in run.results if each.child for name in each.child.runs}
        events += _step_end(run.steps[-1], text, [c for c in children if c.id not in known])
    seconds = (history[-1].at - run.started_at).total_seconds() if history else 0.0
    events.append(
        schema.RunFinished(
            status=schema.RunStatus.ERROR,
            stop_reason=schema.StopReason.ERROR,
            error=KERNEL_GONE,
            duration=max(seconds, 0.0),
        )
    )
    return events


def _is_open(history: list[Record]) -> bool:
    """Return whether a step was in progress."""
    last = [r.event.type for r in history if r.event.type in ("step_started", "step_finished")]
    return bool(last) and last[-1] == "step_started"


def _step_end(step: schema.Step, text: str, lost: list[schema.Run]) -> Iterator[schema.Event]:
    if step.message is None and text.strip():
        message = schema.Message.of(schema.Role.ASSISTANT, text)
        yield schema.MessageFinished(step=step.number, message=message)
    known = {execution.call.id: execution for execution in step.executions}
    for call in step.message.tool_calls if step.message else ():
        execution = known.get(call.id)
        if execution is None:
            execution = schema.ToolExecution(call=call)
            yield schema.ToolStarted(step=step.number, execution=execution)
        if execution.result is None:
            task = str(execution.call.arguments.get("task")).strip()
            child = next((each for each in lost if each.prompt == task), None)
            lost = [each for each in lost if each is not child]
            execution = _close_execution(execution, child)
            yield schema.ToolFinished(step=step.number, execution=execution)
    yield schema.StepFinished(step=step.number)


def _close_execution(
    execution: schema.ToolExecution, child: schema.Run | None
) -> schema.ToolExecution:
    call = execution.call
    has_begun = execution.status is schema.ToolStatus.RUNNING
    status = schema.ToolStatus.UNKNOWN if has_begun else schema.ToolStatus.CANCELLED
    not_run = f"{call.name} was not run: the kernel ended before it began."
    why = _unknown(call) if has_begun else not_run
    result = schema.ToolResult.failure(why).model_copy(update=list_effects(child) if child else {})
    return execution.model_copy(update={"status": status, "result": result})


def _unknown(call: schema.ToolCall) -> str:
    return (
        f"unknown outcome: the kernel ended while {call.name} ran; it may have been done, partly "
        "or not at all; check before you repeat it"
    )


def find_tasks(db: Database, name: str, run: schema.Run) -> list[str]:
    """Return the ids of runs in sessions of that name that may belong to a run."""
    query = (
        "SELECT runs.id FROM runs JOIN sessions ON runs.session_id = sessions.id"
        " WHERE sessions.name = ? AND runs.updated_at >= ?"
    )
    return [row["id"] for row in db.execute(query, (name, run.started_at.isoformat()))]


def list_effects(run: schema.Run) -> dict[str, object]:
    """Return what a run changed and spent, as the result of the call that began it has it."""
    below = (name for each in run.results if each.child for name in each.child.runs)
    child = schema.ChildRun(runs=(run.id, *below), usage=run.usage, cost_usd=run.cost_usd)
    kinds = ("files", "variables", "lasting")
    changes = {kind: tuple(x for r in run.results for x in getattr(r, kind)) for kind in kinds}
    return {"child": child, **changes}
