"""What a person is asked about, in full, as text: a call, a question, a plan."""

from __future__ import annotations

from ipyagent.schema import Run, ToolCall, ToolExecution
from ipyagent.ui import decisions, plans, wording
from ipyagent.ui.format import shown


def asked_text(about: ToolExecution | Run, *, color: bool) -> str:
    """What a person is asked about, in full."""
    return plan_text(about) if isinstance(about, Run) else approval_text(about, color=color)


def approval_text(execution: ToolExecution, *, color: bool) -> str:
    """The call that a person is asked about, or asked by, in full."""
    if execution.question:
        text, *choices = wording.call_texts(execution)[0].split("\n")
        return "\n".join([f"? {text}", *choices])
    head = f"? {shown(execution.call.name)} wants to run"
    why = decisions.concern(execution)
    return "\n".join([call_text(head, execution, color=color), *([f"  {why}"] if why else [])])


def plan_text(run: Run) -> str:
    """A plan in full: every step with all of its arguments."""
    lines = [f"{plans.title(run)}: {plans.goal(run)}"]
    for number, step in enumerate(run.plan, 1):
        head = f"  {number} {shown(step.call.name)}"
        first, *more = plans.note_lines(step) or [""]
        lines += [f"{head} · {first}" if first else head, *(f"    {line}" for line in more)]
        lines += (f"  {line}" for line in _ruled(_arguments(step.call)).split("\n") if line)
    return "\n".join(lines)


def call_text(head: str, execution: ToolExecution, *, color: bool) -> str:
    """The call in full under a heading."""
    body = call_body(execution, color=color)
    return f"{head}:\n{body}" if body else head


def call_body(execution: ToolExecution, *, color: bool) -> str:
    """The call in full, set off from the text around it."""
    texts, preview = wording.call_texts(execution), wording.drawn_preview(execution)
    if color and preview:
        language = "diff" if preview.kind == "diff" else preview.language
        texts[0] = _highlighted(texts[0].rstrip("\n"), language)
    return _ruled("\n".join(text.rstrip("\n") for text in texts))


def _arguments(call: ToolCall) -> str:
    return "\n".join([*filter(None, [wording.arguments_text(call), shown(call.parse_error or "")])])


def _ruled(text: str) -> str:
    return "\n".join(f"  │ {line}" for line in text.split("\n")) if text else ""


def _highlighted(code: str, language: str) -> str:
    from pygments import formatters, highlight, lexers, util

    try:
        lexer = lexers.get_lexer_by_name(language, stripnl=False)
    except util.ClassNotFound:
        return code
    return str(highlight(code, lexer, formatters.TerminalFormatter())).rstrip("\n")
