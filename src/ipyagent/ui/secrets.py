"""Arguments whose names say that they are secret are not kept in a notebook.

Where a person decides about a call they see all of it: what is approved is what is shown.
"""

from __future__ import annotations

from typing import Any

from ipyagent.kernel.describe.secrets import secret_name
from ipyagent.schema import Message, Run, Step, ToolCall, ToolExecution

MASK = "••••••"


def masked(arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments with `••••••` for strings called key, token, password and the like."""
    return {name: _masked(str(name), value) for name, value in arguments.items()}


def without_secrets(run: Run) -> Run:
    """The run with masked arguments, in its messages and in its calls."""
    return run.model_copy(update={"steps": tuple(map(_step, run.steps))})


def _masked(name: str, value: Any) -> Any:
    if isinstance(value, dict):
        return masked(value)
    if isinstance(value, list):
        return [_masked(name, each) for each in value]
    return MASK if isinstance(value, str) and value and secret_name(name) else value


def _step(step: Step) -> Step:
    message = step.message and _message(step.message)
    executions = tuple(map(_execution, step.executions))
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
