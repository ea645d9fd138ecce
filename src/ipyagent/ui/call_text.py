"""The full text of a decision: a call, a question, a plan."""

from __future__ import annotations

import re
import shutil
import textwrap
from collections.abc import Iterator

from ipyagent.phrases import plural
from ipyagent.schema import Run, ToolExecution
from ipyagent.ui import transcript_text as words
from ipyagent.ui.formatting import cell_width
from ipyagent.ui.reveal import reveal
from ipyagent.ui.transcribe.call import CallContext, transcribe_call
from ipyagent.ui.transcribe.plan import transcribe_plan
from ipyagent.ui.transcript import Call, CallRequest, Plan, PlanStep

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
        return f"? {words.question_text(call.question)}"
    # The files that it touches stand above the code: seen, however long that is.
    heading, _, body = call_text(
        f"? {reveal(call.name)} wants to run", call, color=color
    ).partition("\n")
    touches = f"  {call.touches}" if call.touches else ""
    concern = f"  {call.concern}" if call.concern else ""
    effects = textwrap.indent(words.effects_text(call.effects), "  ") if call.effects else ""
    return "\n".join(filter(None, [heading, touches, body, effects, concern]))


def plan_text(plan: Plan) -> str:
    """Return the full text of a plan: every step with all of its arguments."""
    lines = [f"{words.plan_title(plan)}: {plan.goal}"]
    for number, step in enumerate(plan.steps, 1):
        head = f"  {number} {reveal(step.name)}"
        first, *more = step.notes or [""]
        lines += [f"{head} · {first}" if first else head, *(f"    {line}" for line in more)]
        lines += (
            f"  {line}" for line in _indent_with_rule(_arguments(step.request)).split("\n") if line
        )
        lines += [_effects(step)] if step.effects else []
    return "\n".join(lines)


def plan_effects_text(plan: Plan) -> str:
    """Return what the steps of a plan would change, as far as that is known."""
    tried = ((number, step) for number, step in enumerate(plan.steps, 1) if step.effects)
    return "\n".join(f"  {number} {reveal(step.name)}\n{_effects(step)}" for number, step in tried)


def _effects(step: PlanStep) -> str:
    return textwrap.indent(words.effects_text(step.effects), "    ") if step.effects else ""


def call_text(head: str, call: Call, *, color: bool) -> str:
    """Return the call in full under a heading, which counts the lines if they are many."""
    body = call_body(call, color=color)
    rows = body.count("\n") + 1
    size = f" ({plural(rows, 'line')})" if rows > _MANY else ""
    return f"{head}{size}:\n{body}" if body else head


def call_body(call: Call, *, color: bool) -> str:
    """Return the call in full, set off from the text around it."""
    texts, preview = words.request_texts(call), call.request.preview
    if color and preview and preview.text:
        language = "diff" if preview.kind == "diff" else preview.language
        texts[0] = _highlight(texts[0].rstrip("\n"), language)
    return _indent_with_rule("\n".join(text.rstrip("\n") for text in texts), color=color)


def _arguments(request: CallRequest) -> str:
    texts = [words.arguments_text(request), reveal(request.parse_error)]
    return "\n".join(text for text in texts if text)


def _indent_with_rule(text: str, *, color: bool = False) -> str:
    """Return the text behind a rule; long lines continue behind another, never at the margin."""
    width = shutil.get_terminal_size((_WIDTH, 0)).columns - len(_RULE) if color else _WIDTH
    rows = [(i, part) for line in text.split("\n") for i, part in enumerate(_wrap(line, width))]
    return "\n".join(f"{_RULE_ON if i else _RULE}{part}" for i, part in rows) if text else ""


def _wrap(line: str, width: int) -> Iterator[str]:
    """Yield the line in parts of at most `width` cells; our own colors take none."""
    if len(line) <= width // 2:
        yield line
        return
    part: list[str] = []
    used = 0
    for piece in _PIECE.findall(line):
        cells = 0 if piece[0] == "\x1b" else cell_width(piece)
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
