"""A call in full, as text: what a person is asked about."""

from __future__ import annotations

from ipyagent.schema import ToolExecution
from ipyagent.ui import wording
from ipyagent.ui.format import shown


def approval_text(execution: ToolExecution, *, color: bool) -> str:
    """The call that a person is asked about, in full."""
    return call_text(f"? {shown(execution.call.name)} wants to run", execution, color=color)


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
    text = "\n".join(text.rstrip("\n") for text in texts)
    return "\n".join(f"  │ {line}" for line in text.split("\n")) if text else ""


def _highlighted(code: str, language: str) -> str:
    from pygments import formatters, highlight, lexers, util

    try:
        lexer = lexers.get_lexer_by_name(language, stripnl=False)
    except util.ClassNotFound:
        return code
    return str(highlight(code, lexer, formatters.TerminalFormatter())).rstrip("\n")
