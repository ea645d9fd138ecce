"""The event log's records, one for each event."""

from __future__ import annotations

from ipyagent import schema as s
from ipyagent.json_types import JsonDict

Record = JsonDict


def header(run: s.Run) -> Record:
    """Return the fields that every line of a run has."""
    return {"trace_id": run.trace_id, "run_id": run.id, "session_id": run.session_id}


def record(event: s.Event) -> Record:
    """Return the event's fields: texts and calls, but no images."""
    match event:
        case s.RunStarted(run=run):
            names = ("prompt", "model", "agent", "parent_id", "confirm_mode", "max_steps")
            tools = event.tools and [tool.name for tool in event.tools]
            return {**{name: getattr(run, name) for name in names}, "tools": tools}
        case s.PlanProposed(run=run):
            calls = ({"tool": p.call.name, "arguments": p.call.arguments} for p in run.plan)
            return {"plan_id": run.plan_id, "prompt": run.prompt, "plan": [*calls]}
        case s.MessageFinished(message=message):
            return {
                "step": event.step,
                "text": message and message.text,
                "calls": [call.id for call in message.tool_calls] if message else [],
                "finish_reason": event.finish_reason,
                "usage": event.usage.to_dict(),
                "cost_usd": event.cost_usd,
            }
        case s.ToolStarted(execution=execution):
            return {
                **_call(event.step, execution),
                "arguments": execution.call.arguments,
                "sensitive": execution.sensitive,
            }
        case s.ToolFinished(execution=execution):
            return _call(event.step, execution) | _outcome(execution)
        case s.ApprovalRequested():
            # Not the id of the approval: whoever has it can give the approval.
            return {"step": event.step, "call_id": event.call_id}
        case s.Compacted():
            return {"step": event.step, "summary": event.summary.text}
        case s.RunFinished():
            return {
                "status": event.status,
                "stop_reason": event.stop_reason,
                "error": event.error,
                "duration_ms": milliseconds(event.duration),
            }
        case _:
            return event.model_dump(mode="json", exclude={"type"})


def milliseconds(seconds: float) -> float:
    """Return seconds in milliseconds, to the microsecond."""
    return round(seconds * 1000, 3)


def _call(step: int, execution: s.ToolExecution) -> Record:
    return {"step": step, "call_id": execution.call.id, "tool": execution.call.name}


def _outcome(execution: s.ToolExecution) -> Record:
    result, duration = execution.result, execution.duration
    return {
        "status": execution.status,
        "output": result and result.output,
        "error": result and result.error,
        "duration_ms": None if duration is None else milliseconds(duration),
    }
