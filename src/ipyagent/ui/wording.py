"""The words, numbers and signs that every picture of a run shares.

`labextension/src/view` says the same; what is changed here is changed there.
"""

from __future__ import annotations

import json
from typing import Any

from ipyagent.plaintext import strip_escapes, visible
from ipyagent.schema import (
    DecidedBy,
    Decision,
    Display,
    ImageContent,
    Outcome,
    Run,
    RunStatus,
    Step,
    StopReason,
    ToolCall,
    ToolExecution,
    ToolResult,
    ToolStatus,
    Truncation,
)
from ipyagent.ui.secrets import masked

LINE = 60
"""Characters of arguments, and of output, that fit into a summary line."""

GLYPHS = {
    ToolStatus.PENDING: "·",
    ToolStatus.AWAITING_APPROVAL: "?",
    ToolStatus.RUNNING: "…",
    ToolStatus.SUCCESS: "✓",
    ToolStatus.FAILED: "✗",
    ToolStatus.DENIED: "⊘",
    ToolStatus.CANCELLED: "■",
}

STATES = {
    "running": "running",
    "waiting": "waiting for you",
    "done": "done",
    "partial": "stopped early",
    "failed": "failed",
    "cancelled": "stopped by you",
}

ENDINGS = {
    StopReason.MAX_STEPS: "The limit of steps was reached (--max-steps).",
    StopReason.MAX_SECONDS: "The time limit was reached (--max-seconds).",
    StopReason.MAX_TOKENS: "The limit of tokens was reached (--max-tokens).",
    StopReason.MAX_USD: "The cost limit was reached (--max-usd).",
    StopReason.LENGTH: "The model's reply was cut at its own limit of length.",
    StopReason.CONTENT_FILTER: "The provider's content filter stopped the reply.",
    StopReason.INTERRUPTED: "You stopped the run. What was done until then is kept.",
    StopReason.ERROR: "The run failed.",
}

_YOU = {DecidedBy.BUTTON, DecidedBy.PROMPT, DecidedBy.MAGIC}


def shown(text: str) -> str:
    """Text as it is shown where every character counts: nothing acts, nothing hides."""
    return visible(strip_escapes(text))


def state_of(run: Run, waiting: bool = False) -> str:
    """The word for `data-state`; `waiting` when a call waits for the person."""
    match run.outcome:
        case Outcome.SUCCESS:
            return "done"
        case Outcome.FAILED:
            return "failed"
        case Outcome.PARTIAL:
            return "cancelled" if run.status is RunStatus.CANCELLED else "partial"
    asked = any(e.status is ToolStatus.AWAITING_APPROVAL for e in run.executions)
    return "waiting" if waiting or asked else "running"


def header(run: Run, waiting: bool = False) -> list[str]:
    """The parts of the first line, after the product's name."""
    total = run.usage.total_tokens
    parts = [
        model_name(run),
        STATES[state_of(run, waiting)],
        f"step {len(run.steps)}/{run.max_steps}" if run.steps else "",
        f"{total:,} tok" if total else "",
        dollars(run.cost_usd) if run.cost_usd is not None else "",
        seconds(run.duration) if run.duration is not None else "",
    ]
    return [part for part in parts if part]


def model_name(run: Run) -> str:
    """The model's id; the data explorer says what it is not."""
    name = shown(run.model)
    return f"{name} (not a language model)" if name.startswith("offline/") else name


def badge(run: Run) -> str:
    """A warning beside the header: "yolo" when nothing was asked; else ""."""
    return "yolo" if run.confirm_mode == "yolo" else ""


def ending(run: Run) -> str:
    """Why the run ended, in a sentence; "" while it runs and when it simply finished."""
    if run.outcome in (Outcome.RUNNING, Outcome.SUCCESS):
        return ""
    return run.error or ENDINGS.get(run.stop_reason or StopReason.ERROR, "")


def answering(run: Run) -> Step | None:
    """The step that answers: the last one with text and without calls, once the run is over."""
    steps = (s for s in reversed(run.steps) if s.message and s.message.text.strip())
    answer = next((s for s in steps if s.message and not s.message.tool_calls), None)
    return None if run.outcome is Outcome.RUNNING else answer


def thinking_title(value: float | None) -> str:
    """The heading of collapsed thinking: "Thinking (3 s)"."""
    return "Thinking" if value is None else f"Thinking ({max(1, round(value))} s)"


def seconds(value: float) -> str:
    """A duration: 0.01 s, 12.3 s, 2 min 5 s."""
    if value < 10:
        return f"{max(value, 0.01):.2f} s"
    return f"{value:.1f} s" if value < 60 else f"{int(value // 60)} min {int(value % 60)} s"


def dollars(cost: float) -> str:
    """A price: $0.006, $1.25, <$0.001."""
    if 0 < cost < 0.001:
        return "<$0.001"
    return f"${cost:.3f}" if cost < 1 else f"${cost:,.2f}"


def plural(number: int, noun: str) -> str:
    """A count of things: 1 line, 2,000 lines."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def argument_summary(call: ToolCall) -> str:
    """The arguments in one line: the first bare, the others named."""
    named = masked(call.arguments).items()
    parts = [_one_line(v) if i == 0 else f"{k}={_one_line(v)}" for i, (k, v) in enumerate(named)]
    return shorten(", ".join(parts))


def arguments_text(call: ToolCall) -> str:
    """All arguments, one a line."""
    named = masked(call.arguments).items()
    return visible("\n".join(f"{name}: {_text(value)}" for name, value in named))


def preview_text(execution: ToolExecution) -> str:
    """What the call would do, in full, with hidden characters spelt out.

    "" when its arguments are all in `argument_summary` already.
    """
    preview, call = execution.preview, execution.call
    spells_secrets = masked(call.arguments) != call.arguments
    if preview is None or (preview.kind == "arguments" and spells_secrets):
        in_summary = list(masked(call.arguments).values()) in ([], [argument_summary(call)])
        return "" if in_summary else arguments_text(call)
    return shown(preview.text)


def outcome_line(execution: ToolExecution) -> str:
    """The call's result in one line, "" before there is one."""
    if execution.status is ToolStatus.DENIED:
        return decision_text(execution)
    return first_line(output_text(execution.result)) if execution.result else ""


def remarks(execution: ToolExecution) -> list[str]:
    """What is to be said about a call beside its result: the decision, and what went wrong."""
    dry = "dry run: nothing was executed" if execution.dry_run else ""
    broken = shown(execution.call.parse_error or "")
    return [text for text in (decision_text(execution), dry, broken) if text]


def new_result(execution: ToolExecution) -> ToolResult | None:
    """The result, unless it only repeats why the call was denied."""
    result, reason = execution.result, execution.reason
    denied = execution.status is ToolStatus.DENIED
    told = denied and result and (reason or "") in (result.error or "")
    return None if told else result


def decision_text(execution: ToolExecution) -> str:
    """How it was decided whether the call may run: "approved by you"."""
    by = execution.decided_by
    match execution.decision:
        case None:
            return ""
        case Decision.AUTO:
            text = "ran without asking" if execution.result else "allowed without asking"
        case Decision.APPROVED if by is DecidedBy.SESSION:
            text = "approved by you for this session"
        case Decision.EXPIRED:
            text = "not answered"
        case decision:
            text = f"{decision} by {'you' if by in _YOU else by or 'policy'}"
    reason = shown(execution.reason or "")
    return f"{text}: {reason}" if reason else text


def output_text(result: ToolResult) -> str:
    """What the tool said, or why it failed; hidden characters spelt out."""
    said = result.output if result.success else result.error or result.output
    return shown(said).strip("\n")


def says_only(result: ToolResult, line: str) -> bool:
    """Whether `line` is all that there is to read in a result."""
    output, displays = text_and_displays(result)
    return output == line and not displays and not more_output(result) and not result.truncated


def text_and_displays(result: ToolResult) -> tuple[str, list[Display]]:
    """The output, and the displays that are not in it already; nothing is shown twice."""
    text, displays = output_text(result), []
    for display in result.displays:
        plain = shown(display.data.get("text/plain", "")).strip("\n")
        repeated = bool(plain) and plain in text
        if richest(display) != "text/plain":
            text = text.replace(plain, "", 1).strip("\n") if repeated else text
        elif repeated:
            continue
        displays.append(display)
    return text, displays


def more_output(result: ToolResult) -> str:
    """The output of a failed call, where it says more than its error."""
    if result.success or result.output.strip() == (result.error or "").strip():
        return ""
    return shown(result.output).strip("\n")


def truncation_text(cut: Truncation) -> str:
    """What was cut from an output, and where all of it is."""
    size = f"{plural(cut.original_lines, 'line')}, {plural(cut.original_chars, 'character')}"
    return f"Cut from {size}" + (f"; all of it is in {shown(cut.path)}." if cut.path else ".")


def image_text(image: ImageContent) -> str:
    """An image where none can be drawn, with its width and height."""
    size = f" {image.width}×{image.height}" if image.width and image.height else ""  # noqa: RUF001
    return f"[image{size}]"


def unshown(display: Display) -> str:
    """A display of a kind that cannot be drawn."""
    return f"[output of type {shorten(', '.join(display.data)) or 'nothing'}]"


def richest(display: Display) -> str:
    """The MIME type in which a display is shown."""
    known = ("text/html", "text/markdown", "image/png", "image/jpeg", "text/plain")
    return next((mime for mime in known if mime in display.data), "")


def first_line(text: str) -> str:
    """The first line with something on it, cut to fit."""
    return shorten(next((line for line in text.split("\n") if line.strip()), ""))


def shorten(text: str, width: int = LINE) -> str:
    """Text in one line of at most `width` characters."""
    line = " ".join(shown(text[: 8 * width]).split())
    return line if len(line) <= width else f"{line[: width - 1]}…"


def _text(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return strip_escapes(text)


def _one_line(value: Any) -> str:
    return " ".join(_text(value)[: 8 * LINE].split())
