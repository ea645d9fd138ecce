"""Texts for views without folds and buttons: a call in a line, a decision in full."""

from __future__ import annotations

import re
import shutil
import textwrap
import unicodedata
from collections.abc import Iterable, Iterator

from ipyagent.phrases import plural
from ipyagent.schema import Run, ToolExecution
from ipyagent.ui.reveal import reveal, reveal_diff, shorten
from ipyagent.ui.transcribe.call import CallContext, transcribe_call
from ipyagent.ui.transcribe.step import transcribe_plan
from ipyagent.ui.transcript import (
    Argument,
    Call,
    CallRequest,
    Display,
    Effects,
    Footer,
    Header,
    Image,
    Plan,
    PlanStep,
    Question,
    UserText,
)

_DRAWN = ("image/png", "image/jpeg", "text/html", "text/markdown", "text/plain")


def header_parts(header: Header) -> list[str]:
    """Return the parts of the first line, after the product's name."""
    return [part for part in (header.model, header.state_text, *header.facts) if part]


def usage_parts(footer: Footer) -> list[str]:
    """Return how long a run took, and what it used."""
    return [part for part in (footer.duration, *footer.facts) if part]


def trace_text(footer: Footer) -> str:
    """Return the trace id in words."""
    return f"trace {footer.trace_id}" if footer.trace_id else ""


def plan_title(plan: Plan) -> str:
    """Return the length of a plan, and the hash that identifies it."""
    return join_facts([plan.title, f"hash {plan.hash}" if plan.hash else ""])


def user_text(text: UserText) -> str:
    """Return what the user said, after what became of it."""
    return f"{text.label}: {reveal(text.text)}"


def summary_line(call: Call) -> str:
    """Return the summary, cut to fit a line of text."""
    return shorten(call.summary)


def outcome_line(call: Call) -> str:
    """Return the outcome, cut to fit a line of text."""
    return shorten(call.outcome)


def texts_beside_line(call: Call) -> list[str]:
    """Return the output and the error that the outcome line cuts."""
    result = call.result
    texts = [text for text in (result.error, result.output) if text] if result else []
    return [] if [*map(reveal, texts)] in ([], [outcome_line(call)]) else texts


def request_texts(call: Call) -> list[str]:
    """Return the call in full: its preview, and the arguments that this does not show."""
    if call.question:
        return [question_text(call.question)]
    preview = call.request.preview
    preview_text = "" if preview is None else _preview_text(preview.kind, preview.text)
    return [text for text in (preview_text, arguments_text(call.request)) if text]


def request_is_in_line(call: Call) -> bool:
    """Return whether the line of the call shows its full request."""
    values = [argument.value for argument in call.request.shown]
    in_line = values in ([], [summary_line(call)])
    return call.request.preview is None and call.question is None and in_line


def effects_text(effects: Effects) -> str:
    """Return what a call would change, line by line, with diffs and what was put out."""
    lines = [reveal(effects.title)]
    for each in effects.lines:
        change = "" if each.change == "other" else f"{each.change} "
        lines.append(f"  {change}{each.text}")
        lines += (f"    {line}" for line in reveal_diff(each.diff).splitlines())
    if effects.shown:
        text = effects.shown.output or effects.shown.error
        lines += [f"  {effects.shown_title}", *(f"    {line}" for line in reveal(text).split("\n"))]
    return "\n".join(lines).rstrip()


def question_text(question: Question) -> str:
    """Return a question with its answers to pick from, numbered."""
    choices = (" ".join(reveal(choice).split()) for choice in question.choices)
    lines = [f"  {number}  {choice}" for number, choice in enumerate(choices, 1)]
    return "\n".join([reveal(question.text), *lines])


def arguments_text(request: CallRequest) -> str:
    """Return the arguments, one a line; several lines are indented below their name."""
    return "\n".join(map(_named_value, request.shown))


def image_text(image: Image) -> str:
    """Return the text for an image where none can be drawn."""
    size = f" {image.width}×{image.height}" if image.width and image.height else ""  # noqa: RUF001
    return f"[image{size}]"


def refused_image_text(image: Image) -> str:
    """Return the text for an image of a type that a page may not draw."""
    return f"[image not shown: {shorten(image.media_type)}]"


def unknown_display_text(display: Display) -> str:
    """Return the text for a display of a type that cannot be drawn."""
    return f"[output of type {shorten(', '.join(display.data)) or 'nothing'}]"


def richest(display: Display) -> str:
    """Return the MIME type in which a display is drawn."""
    return next((mime for mime in _DRAWN if mime in display.data), "")


def join_facts(facts: Iterable[str]) -> str:
    """Return facts in one line."""
    return " · ".join(filter(None, facts))


def _preview_text(kind: str, text: str) -> str:
    return reveal_diff(text) if kind == "diff" else reveal(text)


def _named_value(argument: Argument) -> str:
    """Return a name and its value; no line of a value can be taken for another argument."""
    name = reveal(argument.name).replace("\n", "⟨U+000A⟩")
    lines = reveal(argument.value).split("\n")
    rows = [""] + [f"    {line}" for line in lines] if len(lines) > 1 else [f" {lines[0]}"]
    return f"{name}:" + "\n".join(rows)


_MANY = 40
"""Lines above which the heading counts them: it may be out of sight at their end."""

_WIDTH, _NARROW = 120, 20
_RULE, _RULE_ON = "  │ ", "  ┆ "
_PIECE = re.compile(r"\x1b\[[0-9;]*m|[^\x1b]")


def request_text(about: ToolExecution | Run, *, color: bool) -> str:
    """Return the full text of the user's decision."""
    if isinstance(about, Run):
        plan = transcribe_plan(about, is_whole=True)
        return plan_text(plan) if plan else ""
    return approval_text(transcribe_call(about, CallContext(is_live=True)), color=color)


def approval_text(call: Call, *, color: bool) -> str:
    """Return the full text of a call to approve, or of its question."""
    if call.question:
        return f"? {question_text(call.question)}"
    # The files that it touches stand above the code: seen, however long that is.
    heading, _, body = call_text(
        f"? {reveal(call.name)} wants to run", call, color=color
    ).partition("\n")
    touches = f"  {call.touches}" if call.touches else ""
    concern = f"  {call.concern}" if call.concern else ""
    effects = textwrap.indent(effects_text(call.effects), "  ") if call.effects else ""
    return "\n".join(filter(None, [heading, touches, body, effects, concern]))


def plan_text(plan: Plan) -> str:
    """Return the full text of a plan: every step with all of its arguments."""
    lines = [f"{plan_title(plan)}: {plan.goal}"]
    for number, step in enumerate(plan.steps, 1):
        head = f"  {number} {reveal(step.name)}"
        first, *more = step.notes or [""]
        lines += [f"{head} · {first}" if first else head, *(f"    {line}" for line in more)]
        lines += (
            f"  {line}" for line in _indent_with_rule(_arguments(step.request)).split("\n") if line
        )
        lines += [_step_effects(step)] if step.effects else []
    return "\n".join(lines)


def plan_effects_text(plan: Plan) -> str:
    """Return what the steps of a plan would change, as far as that is known."""
    tried = ((number, step) for number, step in enumerate(plan.steps, 1) if step.effects)
    return "\n".join(
        f"  {number} {reveal(step.name)}\n{_step_effects(step)}" for number, step in tried
    )


def _step_effects(step: PlanStep) -> str:
    return textwrap.indent(effects_text(step.effects), "    ") if step.effects else ""


def call_text(head: str, call: Call, *, color: bool) -> str:
    """Return the call in full under a heading, which counts the lines if they are many."""
    body = call_body(call, color=color)
    rows = body.count("\n") + 1
    size = f" ({plural(rows, 'line')})" if rows > _MANY else ""
    return f"{head}{size}:\n{body}" if body else head


def call_body(call: Call, *, color: bool) -> str:
    """Return the call in full, set off from the text around it."""
    texts, preview = request_texts(call), call.request.preview
    if color and preview and preview.text:
        language = "diff" if preview.kind == "diff" else preview.language
        texts[0] = _highlight(texts[0].rstrip("\n"), language)
    return _indent_with_rule("\n".join(text.rstrip("\n") for text in texts), color=color)


def _arguments(request: CallRequest) -> str:
    texts = [arguments_text(request), reveal(request.parse_error)]
    return "\n".join(text for text in texts if text)


def _indent_with_rule(text: str, *, color: bool = False) -> str:
    """Return the text behind a rule; long lines continue behind another, never at the margin."""
    width = shutil.get_terminal_size((_WIDTH, 0)).columns - len(_RULE) if color else _WIDTH
    rows = [(i, part) for line in text.split("\n") for i, part in enumerate(wrap(line, width))]
    return "\n".join(f"{_RULE_ON if i else _RULE}{part}" for i, part in rows) if text else ""


def wrap(line: str, width: int) -> Iterator[str]:
    """Yield the line in parts of at most `width` cells; our own colors take none."""
    if len(line) <= width // 2:
        yield line
        return
    part: list[str] = []
    used = 0
    for piece in _PIECE.findall(line):
        cells = 0 if piece[0] == "\x1b" else _cell_width(piece)
        if part and used + cells > max(width, _NARROW):
            yield "".join(part)
            part, used = [], 0
        part.append(piece)
        used += cells
    yield "".join(part)


def _highlight(code: str, language: str) -> str:
    from pygments import formatters, highlight, lexers, util

    try:
        lexer = lexers.get_lexer_by_name(language, stripnl=False)
    except util.ClassNotFound:
        return code
    return str(highlight(code, lexer, formatters.TerminalFormatter())).rstrip("\n")


def _cell_width(text: str) -> int:
    """Return how many cells of a terminal the text takes."""
    return sum(1 + (unicodedata.east_asian_width(char) in "WF") for char in text)
