"""Arguments as text; those with secret names are masked in saved notebooks and in views.

If the user decides about a call they see all of it: they approve the text on the screen.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from ipyagent.phrases import plural
from ipyagent.redaction import mask_arguments
from ipyagent.schema import Message, PlanStep, Run, Step, ToolCall, ToolExecution, ToolStatus
from ipyagent.ui import transcript
from ipyagent.ui.reveal import reveal, shorten

SUMMARY = 200
"""Characters of arguments, output or a goal in one line."""

_WIDE = 80
"""Longer JSON is set in several lines."""

_IN_DIFF = {
    "edit_file": {"old_string", "new_string"},
    "write_file": {"content"},
    "edit_cell": {"source"},
}
"""Arguments that a diff shows already."""
_MEANINGS = {("run_python", "keep", "true"): " · what it makes is to be kept in your kernel"}
"""Words for an argument whose name says little to whoever decides."""


def in_order(call: ToolCall) -> list[tuple[str, object]]:
    """Return the arguments, the path first: models send them in any order."""
    return sorted(call.arguments.items(), key=lambda each: each[0] != "path")


def summarize_arguments(call: ToolCall) -> str:
    """Return the arguments in one line: the first bare, the others named."""
    named = enumerate(in_order(call))
    parts = [_in_line(v) if i == 0 else f"{k}={_in_line(v)}" for i, (k, v) in named]
    return shorten(", ".join(parts), SUMMARY)


def transcribe_request(execution: ToolExecution) -> transcript.CallRequest:
    """Return the full request of a call."""
    preview = _preview(execution)
    is_diff = preview is not None and preview.kind == "diff"
    hidden = _IN_DIFF.get(execution.call.name, set()) if is_diff else set()
    rest = {
        name: value
        for name, value in execution.call.arguments.items()
        if name not in hidden and not (preview and value == preview.text)
    }
    return _request(execution.call, rest, preview, is_exact_folded=bool(hidden))


def transcribe_planned(call: ToolCall) -> transcript.CallRequest:
    """Return the full request of a planned call."""
    return _request(call, call.arguments, None)


def _request(
    call: ToolCall,
    shown: Mapping[str, object],
    preview: transcript.Preview | None,
    *,
    is_exact_folded: bool = False,
) -> transcript.CallRequest:
    return transcript.CallRequest(
        arguments=call.arguments,
        preview=preview,
        shown=tuple(
            transcript.Argument(name=name, value=_explain(call.name, name, _in_full(value)))
            for name, value in shown.items()
        ),
        is_exact_folded=is_exact_folded,
        parse_error=call.parse_error or "",
    )


def _preview(execution: ToolExecution) -> transcript.Preview | None:
    """Return the preview, if it is more than the arguments."""
    preview = execution.preview
    if preview is None or preview.kind == "arguments":
        return None
    name = "changes" if preview.kind == "diff" else reveal(preview.language)
    size = plural(preview.text.count("\n") + 1, "line")
    return transcript.Preview(
        kind=preview.kind,
        text=preview.text,
        language=preview.language,
        caption=f"{name} · {size}",
    )


def _explain(tool: str, name: str, value: str) -> str:
    return value + _MEANINGS.get((tool, name, value), "")


def _in_full(value: object) -> str:
    line = _text(value)
    wide = not isinstance(value, str) and len(line) > _WIDE
    return json.dumps(value, ensure_ascii=False, default=str, indent=2) if wide else line


def _in_line(value: object) -> str:
    return shorten(_text(value), 2 * SUMMARY)


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def mask_run(run: Run) -> Run:
    """Return the run with masked arguments, in its messages, its plan and its calls."""
    steps = tuple(map(_step, run.steps))
    return run.model_copy(update={"steps": steps, "plan": mask_plan(run.plan)})


def mask_plan(plan: Iterable[PlanStep]) -> tuple[PlanStep, ...]:
    """Return the steps of a plan with masked arguments."""
    return tuple(step.model_copy(update={"call": _call(step.call)}) for step in plan)


def mask_execution(execution: ToolExecution) -> ToolExecution:
    """Return the call with masked arguments, unless the user has to decide on it."""
    status, waits = execution.status, (ToolStatus.PENDING, ToolStatus.AWAITING_APPROVAL)
    asking = execution.decision is None and status in waits and not execution.dry_run
    return execution if asking else mask_call_arguments(execution)


def _step(step: Step) -> Step:
    message = step.message and _message(step.message)
    executions = tuple(map(mask_call_arguments, step.executions))
    return step.model_copy(update={"message": message, "executions": executions})


def _message(message: Message) -> Message:
    blocks = tuple(_call(b) if isinstance(b, ToolCall) else b for b in message.content)
    return message.model_copy(update={"content": blocks})


def mask_call_arguments(execution: ToolExecution) -> ToolExecution:
    """Return the call with masked arguments."""
    call, preview = _call(execution.call), execution.preview
    if preview and preview.kind == "arguments" and call != execution.call:
        preview = None  # it spells the arguments out; without it they are shown unmasked
    proposed = None if execution.proposed is None else mask_arguments(execution.proposed)
    return execution.model_copy(update={"call": call, "preview": preview, "proposed": proposed})


def _call(call: ToolCall) -> ToolCall:
    return call.model_copy(update={"arguments": mask_arguments(call.arguments)})
