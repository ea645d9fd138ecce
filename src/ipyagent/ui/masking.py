"""Mask arguments with secret names, in saved notebooks and in views.

If the user decides about a call they see all of it: they approve the text on the screen.
"""

from __future__ import annotations

from ipyagent.redaction import mask_arguments
from ipyagent.schema import (
    Message,
    Run,
    Step,
    ToolCall,
    ToolExecution,
    ToolStatus,
)


def mask_run(run: Run, *, asking: bool = False) -> Run:
    """Return the run with masked arguments, in its messages, its plan and its calls.

    With `asking`, the calls that wait for the user's decision stay whole.
    """
    steps = tuple(_step(step, asking) for step in run.steps)
    plan = tuple(p.model_copy(update={"call": _call(p.call)}) for p in run.plan)
    return run.model_copy(update={"steps": steps, "plan": plan})


def mask_execution(execution: ToolExecution) -> ToolExecution:
    """Return the call with masked arguments, unless the user has to decide on it."""
    status, waits = execution.status, (ToolStatus.PENDING, ToolStatus.AWAITING_APPROVAL)
    asking = execution.decision is None and status in waits and not execution.dry_run
    return execution if asking else mask_call_arguments(execution)


def _step(step: Step, asking: bool) -> Step:
    message = step.message and _message(step.message)
    executions = tuple(map(mask_execution if asking else mask_call_arguments, step.executions))
    return step.model_copy(update={"message": message, "executions": executions})


def _message(message: Message) -> Message:
    blocks = tuple(_call(b) if isinstance(b, ToolCall) else b for b in message.content)
    return message.model_copy(update={"content": blocks})


def mask_call_arguments(execution: ToolExecution) -> ToolExecution:
    """Return the call with masked arguments."""
    call, preview = _call(execution.call), execution.preview
    if preview and preview.kind == "arguments" and call != execution.call:
        preview = None  # it spells the arguments out; without it they are shown unmasked
    return execution.model_copy(update={"call": call, "preview": preview})


def _call(call: ToolCall) -> ToolCall:
    return call.model_copy(update={"arguments": mask_arguments(call.arguments)})
