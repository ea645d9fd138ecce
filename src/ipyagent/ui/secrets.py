"""Arguments whose names say that they are secret are neither kept in a notebook nor drawn.

Where a person decides about a call they see all of it: what is approved is what is shown.
"""

from __future__ import annotations

from ipyagent.redaction import masked
from ipyagent.schema import (
    Event,
    Message,
    MessageFinished,
    Run,
    RunStarted,
    Step,
    ToolCall,
    ToolExecution,
    ToolFinished,
    ToolStarted,
    ToolStatus,
)


def without_secrets(run: Run, *, asking: bool = False) -> Run:
    """The run with masked arguments, in its messages, its plan and its calls.

    With `asking`, the calls that wait for a person's decision stay whole.
    """
    steps = tuple(_step(step, asking) for step in run.steps)
    plan = tuple(p.model_copy(update={"call": _call(p.call)}) for p in run.plan)
    return run.model_copy(update={"steps": steps, "plan": plan})


def told(event: Event) -> Event:
    """The event as a page is told of it: masked, but for what a person has to decide on."""
    match event:
        case RunStarted(run=run):
            return event.model_copy(update={"run": without_secrets(run)})
        case MessageFinished(message=Message() as message):
            return event.model_copy(update={"message": _message(message)})
        case ToolStarted(execution=execution) | ToolFinished(execution=execution):
            return event.model_copy(update={"execution": drawn(execution)})
    return event


def drawn(execution: ToolExecution) -> ToolExecution:
    """The call with masked arguments, unless a person has to decide on it."""
    status, waits = execution.status, (ToolStatus.PENDING, ToolStatus.AWAITING_APPROVAL)
    asking = execution.decision is None and status in waits and not execution.dry_run
    return execution if asking else _execution(execution)


def _step(step: Step, asking: bool) -> Step:
    message = step.message and _message(step.message)
    executions = tuple(map(drawn if asking else _execution, step.executions))
    return step.model_copy(update={"message": message, "executions": executions})


def _message(message: Message) -> Message:
    blocks = tuple(_call(b) if isinstance(b, ToolCall) else b for b in message.content)
    return message.model_copy(update={"content": blocks})


def _execution(execution: ToolExecution) -> ToolExecution:
    call, preview = _call(execution.call), execution.preview
    if preview and preview.kind == "arguments" and call != execution.call:
        preview = None  # it spells the arguments out; without it they are shown as they are now
    return execution.model_copy(update={"call": call, "preview": preview})


def _call(call: ToolCall) -> ToolCall:
    return call.model_copy(update={"arguments": masked(call.arguments)})
