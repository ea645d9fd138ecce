"""The words, numbers and signs that every picture of a run shares.

The live view says the same in `labextension/src/view`: what changes here changes there.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from ipyagent.schema import (
    Display,
    ImageContent,
    Outcome,
    Preview,
    Question,
    Run,
    RunStatus,
    Step,
    StopReason,
    ToolCall,
    ToolExecution,
    ToolResult,
    ToolStatus,
    TruncatedOutput,
)
from ipyagent.ui import checklist, plans
from ipyagent.ui.format import LINE, clean_output, dollars, first_line, plural, seconds, shorten
from ipyagent.ui.reveal import reveal, reveal_diff

GLYPHS = {
    ToolStatus.PENDING: "…",
    ToolStatus.AWAITING_APPROVAL: "?",
    ToolStatus.RUNNING: "▶",
    ToolStatus.SUCCESS: "✓",
    ToolStatus.FAILED: "✗",
    ToolStatus.DENIED: "⊘",
    ToolStatus.CANCELLED: "■",
    ToolStatus.UNKNOWN: "!",
}

WOULD_RUN = "○"
"""The sign of a call that was only looked at: nothing ran, so nothing succeeded."""

TOUCHED = 10
"""How many of the variables that code touched are named."""

_IN_DIFF = {"content", "new_string", "old_string", "source"}
"""Arguments that a diff shows already, as what they change."""

_STATES = {"waiting": "waiting for you"}

_LIMIT = "Stopped here: the {} was reached. Raise it with {}."
ENDINGS = {
    StopReason.MAX_STEPS: _LIMIT.format("limit of steps", "--max-steps"),
    StopReason.MAX_SECONDS: _LIMIT.format("time limit", "--max-seconds"),
    StopReason.MAX_TOKENS: _LIMIT.format("token limit", "--max-tokens"),
    StopReason.MAX_USD: _LIMIT.format("cost limit", "--max-usd"),
    StopReason.TIMEOUT: (
        "Stopped here: one step took too long. Ask for less at once, or raise agent.step_seconds."
    ),
    StopReason.CONTEXT_OVERFLOW: (
        "The conversation no longer fits what this model can read at once. Begin a new one with "
        "`%agent session new`, or ask a model that reads more."
    ),
    StopReason.CONTENT_FILTER: "The model's service withheld the rest of this reply.",
    StopReason.EMPTY: "The model ended without saying anything. Ask again, or ask another model.",
    StopReason.PLANNED: "Planned: nothing was run for it.",
    StopReason.UNATTENDED: "A call had to be approved, and nobody could be asked: it was not run.",
    StopReason.DENIED: "You denied this plan: nothing was run.",
    StopReason.INTERRUPTED: "You stopped this run.",
}
"""Why a run is not all that was asked for, where its error does not say so."""


def state_of(run: Run, waiting: bool = False) -> str:
    """The word for `data-state`; `waiting` when a call or the plan waits for the person."""
    match run.outcome:
        case Outcome.SUCCESS:
            return "done"
        case Outcome.FAILED:
            return "failed"
        case Outcome.PARTIAL:
            return "cancelled" if run.status is RunStatus.CANCELLED else "partial"
    calls = any(e.status is ToolStatus.AWAITING_APPROVAL for e in run.executions)
    asked = calls or run.status is RunStatus.DRAFT
    return "waiting" if waiting or asked else "running"


def header(run: Run, waiting: bool = False) -> list[str]:
    """The parts of the first line, after the product's name."""
    total = run.usage.total_tokens
    parts = [
        model_name(run),
        state_text(run, waiting),
        *_how_far(run),
        f"{total:,} tok" if total else "",
        dollars(run.cost_usd) if run.cost_usd is not None else "",
        seconds(run.duration) if run.duration is not None else "",
    ]
    return [part for part in parts if part]


def state_text(run: Run, waiting: bool = False) -> str:
    """The state as it is said."""
    state = state_of(run, waiting)
    planned = run.stop_reason is StopReason.PLANNED
    return "planned" if planned and state == "done" else _STATES.get(state, state)


def _how_far(run: Run) -> list[str]:
    if run.plan:
        return [f"step {plans.begun(run)}/{len(run.plan)}"]
    asked = sum(not step.closing for step in run.steps)
    closing = ["closing"] if asked < len(run.steps) else []
    return [f"step {asked}/{run.max_steps}", *closing] if run.steps else []


def model_name(run: Run) -> str:
    """The model's id; the data explorer says what it is not."""
    name = reveal(run.model)
    return f"{name} (not a language model)" if name.startswith("offline/") else name


def badge(run: Run) -> str:
    """A warning beside the header, or ""."""
    return "yolo: runs unasked" if run.confirm_mode == "yolo" else ""


def ending(run: Run) -> str:
    """Why the run is not all that was asked for; "" while it runs and when it simply finished."""
    if run.error or run.stop_reason is None:
        return run.error or ""
    if run.stop_reason is StopReason.DENIED and run.output:
        return ""
    finish = run.steps[-1].finish_reason if run.steps else None
    if run.stop_reason is StopReason.MAX_TOKENS and finish == "length":
        return "The reply was cut: it reached the model's own limit. Ask it to continue."
    return ENDINGS.get(run.stop_reason, "")


def lead_in(run: Run, index: int) -> str:
    """Why the model was asked though neither a person nor a tool had said anything, or ""."""
    step, before = run.steps[index], run.steps[index - 1] if index else None
    if run.plan:
        return ""
    if step.closing:
        return "The budget is spent: the model was asked to come to an end."
    cut = before and before.finish_reason == "length" and not before.executions
    return "The reply was cut: the model was asked to go on." if cut else ""


def answering(run: Run) -> Step | None:
    """The step that answers: the last one with text and without calls, once the run is over."""
    steps = (s for s in reversed(run.steps) if s.message and s.message.text.strip())
    answer = next((s for s in steps if s.message and not s.message.tool_calls), None)
    return None if run.outcome is Outcome.RUNNING else answer


def thinking_title(value: float | None) -> str:
    """The heading of collapsed thinking: "Thinking (3 s)"."""
    if value is None:
        return "Thinking"
    return f"Thinking ({'<1' if value < 1 else round(value)} s)"


def summary(execution: ToolExecution) -> str:
    """The call in one line: its arguments, what it asks the person, how far the checklist is."""
    if execution.question:
        return shorten(execution.question.text)
    return checklist.summary(execution) or argument_summary(execution.call)


def argument_summary(call: ToolCall) -> str:
    """The arguments in one line: the first bare, the others named."""
    named = call.arguments.items()
    parts = [_one_line(v) if i == 0 else f"{k}={_one_line(v)}" for i, (k, v) in enumerate(named)]
    return shorten(", ".join(parts))


def arguments_text(call: ToolCall) -> str:
    """Return all arguments, one a line; what has several lines is set in below its name."""
    return _named_values(call.arguments)


def call_texts(execution: ToolExecution) -> list[str]:
    """Return the call in full: its preview, and the arguments that this does not show."""
    call, preview, question = execution.call, drawn_preview(execution), execution.question
    if question:
        return ["\n".join([reveal(question.text), *choice_lines(question)])]
    if preview is None:
        return [arguments_text(call)] if call.arguments else []
    is_diff = preview.kind == "diff"
    rest = {k: v for k, v in call.arguments.items() if v != preview.text}
    if is_diff:
        rest = {k: v for k, v in rest.items() if k not in _IN_DIFF}
    drawn = reveal_diff(preview.text) if is_diff else reveal(preview.text)
    return [text for text in (drawn, _named_values(rest)) if text]


def choice_lines(question: Question) -> list[str]:
    """The answers to pick from, numbered."""
    choices = enumerate(question.choices, 1)
    return [f"  {number}  {' '.join(reveal(choice).split())}" for number, choice in choices]


def drawn_preview(execution: ToolExecution) -> Preview | None:
    """The preview, where it is more than the arguments."""
    preview = execution.preview
    return None if preview is None or preview.kind == "arguments" else preview


def in_summary(execution: ToolExecution) -> bool:
    """Whether the line of the call shows all of it."""
    values = list(execution.call.arguments.values())
    return drawn_preview(execution) is None and values in ([], [summary(execution)])


def outcome_line(execution: ToolExecution) -> str:
    """The call's result in one line, "" before there is one and where another says it all."""
    if execution.result is None or execution.status is ToolStatus.DENIED:
        return ""
    if execution.result.success and checklist.summary(execution):
        return ""
    result = execution.result
    return first_line(output_text(result) if result.success else result.error or "")


def glyph(execution: ToolExecution) -> str:
    """Return the sign of a call's status."""
    dry = execution.dry_run and execution.status is ToolStatus.SUCCESS
    return WOULD_RUN if dry else GLYPHS[execution.status]


def new_result(execution: ToolExecution) -> ToolResult | None:
    """The result, unless the call was denied: that has its own words, these are for the model."""
    return None if execution.status is ToolStatus.DENIED else execution.result


def output_text(result: ToolResult) -> str:
    """What the tool said, or why it failed; hidden characters spelt out."""
    said = result.output if result.success else result.error or result.output
    return clean_output(said).strip("\n")


def says_only(result: ToolResult, line: str) -> bool:
    """Whether there is nothing to read beside `line` and what is drawn."""
    output, _ = text_and_displays(result)
    more = more_output(result) or result.truncated or result.variables
    return output in ("", line) and not more


def text_and_displays(result: ToolResult) -> tuple[str, list[Display]]:
    """The output, and the displays that are not in it already; nothing is shown twice."""
    text, displays = output_text(result), []
    figures = {image.data.strip() for image in result.images}
    for display in result.displays:
        mime, plain = richest(display), clean_output(display.data.get("text/plain", "")).strip("\n")
        repeated = bool(plain) and plain in text
        if display.data.get(mime, "").strip() in figures or (mime == "text/plain" and repeated):
            continue
        if repeated:
            text = text.replace(plain, "", 1).strip("\n")
        displays.append(display)
    return text, displays


def media(result: ToolResult) -> list[Display | ImageContent]:
    """Return what a result shows, in the order in which the code showed it."""
    _, displays = text_and_displays(result)
    ordered: list[Display | ImageContent] = []
    drawn = 0
    for display in displays:
        ordered += result.images[drawn : display.images_before]
        drawn = max(drawn, min(display.images_before, len(result.images)))
        ordered.append(display)
    return [*ordered, *result.images[drawn:]]


def more_output(result: ToolResult) -> str:
    """The output of a failed call, where it says more than its error."""
    if result.success or result.output.strip() == (result.error or "").strip():
        return ""
    return clean_output(result.output).strip("\n")


def truncation_text(cut: TruncatedOutput) -> str:
    """What was cut from an output, and where all of it is."""
    size = f"{plural(cut.original_lines, 'line')}, {cut.original_chars:,} characters"
    return f"Cut from {size}." + (f" All of it: {reveal(cut.path)}" if cut.path else "")


def variables_text(result: ToolResult) -> str:
    """The variables that code touched: "created: df (DataFrame); deleted: x (int)"; "" for none."""
    parts: dict[str, list[str]] = {}
    for each in result.variables[:TOUCHED]:
        named = f"{shorten(each.name)} ({shorten(each.type)})" if each.type else shorten(each.name)
        parts.setdefault(each.change, []).append(named)
    said = [f"{change}: {', '.join(named)}" for change, named in parts.items()]
    more = len(result.variables) - TOUCHED
    return "; ".join([*said, *([f"… {more} more"] if more > 0 else [])])


def image_text(image: ImageContent) -> str:
    """An image where none can be drawn, with its width and height."""
    size = f" {image.width}×{image.height}" if image.width and image.height else ""  # noqa: RUF001
    return f"[image{size}]"


def not_drawn(image: ImageContent) -> str:
    """An image of a kind that a page may not draw."""
    return f"[image not shown: {shorten(image.media_type)}]"


def unshown(display: Display) -> str:
    """A display of a kind that cannot be drawn."""
    return f"[output of type {shorten(', '.join(display.data)) or 'nothing'}]"


def richest(display: Display) -> str:
    """The MIME type in which a display is shown."""
    known = ("image/png", "image/jpeg", "text/html", "text/markdown", "text/plain")
    return next((mime for mime in known if mime in display.data), "")


def _named_values(arguments: Mapping[str, object]) -> str:
    return "\n".join(_named_value(name, _text(value)) for name, value in arguments.items())


def _named_value(name: str, text: str) -> str:
    """A name and its value; no line of a value can be taken for another argument."""
    name, lines = reveal(name).replace("\n", "⟨U+000A⟩"), reveal(text).split("\n")
    rows = [""] + [f"    {line}" for line in lines] if len(lines) > 1 else [f" {lines[0]}"]
    return f"{name}:" + "\n".join(rows)


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _one_line(value: object) -> str:
    return shorten(_text(value), 8 * LINE)
