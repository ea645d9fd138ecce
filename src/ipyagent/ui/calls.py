"""What a person is asked about, in full, as text: a call, a question, a plan."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator

from ipyagent.schema import Run, ToolCall, ToolExecution
from ipyagent.ui import decisions, plans, wording
from ipyagent.ui.format import cell_width, plural
from ipyagent.ui.reveal import reveal

_MANY = 40
"""More lines than that are counted in the heading: it may be out of sight at their end."""

_WIDTH, _NARROW = 120, 20
_RULE, _RULE_ON = "  │ ", "  ┆ "
_PIECE = re.compile(r"\x1b\[[0-9;]*m|[^\x1b]")


def asked_text(about: ToolExecution | Run, *, color: bool) -> str:
    """What a person is asked about, in full."""
    return plan_text(about) if isinstance(about, Run) else approval_text(about, color=color)


def approval_text(execution: ToolExecution, *, color: bool) -> str:
    """The call that a person is asked about, or asked by, in full."""
    if execution.question:
        text, *choices = wording.call_texts(execution)[0].split("\n")
        return "\n".join([f"? {text}", *choices])
    head = f"? {reveal(execution.call.name)} wants to run"
    touches, why = decisions.touches(execution), decisions.concern(execution)
    # Above the code, so that it is seen however long that is.
    heading, _, body = call_text(head, execution, color=color).partition("\n")
    parts = [heading, f"  {touches}" if touches else "", body, f"  {why}" if why else ""]
    return "\n".join(filter(None, parts))


def plan_text(run: Run) -> str:
    """A plan in full: every step with all of its arguments."""
    lines = [f"{plans.title(run)}: {plans.goal(run)}"]
    for number, step in enumerate(run.plan, 1):
        head = f"  {number} {reveal(step.call.name)}"
        first, *more = plans.note_lines(step) or [""]
        lines += [f"{head} · {first}" if first else head, *(f"    {line}" for line in more)]
        lines += (f"  {line}" for line in _ruled(_arguments(step.call)).split("\n") if line)
    return "\n".join(lines)


def call_text(head: str, execution: ToolExecution, *, color: bool) -> str:
    """Return the call in full under a heading, which counts the lines where they are many."""
    body = call_body(execution, color=color)
    rows = body.count("\n") + 1
    size = f" ({plural(rows, 'line')})" if rows > _MANY else ""
    return f"{head}{size}:\n{body}" if body else head


def call_body(execution: ToolExecution, *, color: bool) -> str:
    """Return the call in full, set off from the text around it."""
    texts, preview = wording.call_texts(execution), wording.drawn_preview(execution)
    if color and preview and preview.text:
        language = "diff" if preview.kind == "diff" else preview.language
        texts[0] = _highlighted(texts[0].rstrip("\n"), language)
    return _ruled("\n".join(text.rstrip("\n") for text in texts), color=color)


def _arguments(call: ToolCall) -> str:
    return "\n".join(
        [*filter(None, [wording.arguments_text(call), reveal(call.parse_error or "")])]
    )


def _ruled(text: str, *, color: bool = False) -> str:
    """The text behind a rule; a long line goes on behind another, never at the left margin."""
    width = shutil.get_terminal_size((_WIDTH, 0)).columns - len(_RULE) if color else _WIDTH
    rows = [(i, part) for line in text.split("\n") for i, part in enumerate(_wrapped(line, width))]
    return "\n".join(f"{_RULE_ON if i else _RULE}{part}" for i, part in rows) if text else ""


def _wrapped(line: str, width: int) -> Iterator[str]:
    """The line in parts of at most `width` cells; our own colours take none."""
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


def _highlighted(code: str, language: str) -> str:
    from pygments import formatters, highlight, lexers, util

    try:
        lexer = lexers.get_lexer_by_name(language, stripnl=False)
    except util.ClassNotFound:
        return code
    return str(highlight(code, lexer, formatters.TerminalFormatter())).rstrip("\n")
