"""The gist of a call: its kind, a title and its changes, so that many can be scanned."""

from __future__ import annotations

from collections.abc import Iterator

from ipyagent import schema
from ipyagent.plaintext import word_set
from ipyagent.ui import transcript
from ipyagent.ui.reveal import LINE, reveal, shorten
from ipyagent.ui.transcribe.call_texts import in_order, summarize_call
from ipyagent.ui.transcribe.code_title import title_code

_OWN = word_set("delegate delete edit find insert inspect list load move query read run save write")
"""Verbs with which the names of tools begin."""


def find_gist(execution: schema.ToolExecution, summary: str) -> transcript.Gist:
    """Return the gist of a call; `summary` is its own where that says more than its arguments."""
    kind, title = _find_kind(execution), summary or _find_title(execution)
    if kind != "look":  # a method may change what it is called on
        title = title.replace("looks at ", "works on ", 1)
    return transcript.Gist(
        kind=kind,
        title=shorten(title, LINE),
        changes=tuple(_list_changes(execution)),
    )


def _find_kind(execution: schema.ToolExecution) -> transcript.Kind:
    if execution.question:
        return "question"
    if execution.preview and execution.preview.kind == "diff":
        return "file"
    looked = execution.decided_by is schema.DecidedBy.REHEARSAL
    child = execution.result.child if execution.result else None
    is_change = execution.has_changes if child else execution.sensitive and not looked
    return "change" if is_change else "look"


def _find_title(execution: schema.ToolExecution) -> str:
    call, code = execution.call, execution.call.arguments.get("code")
    if isinstance(code, str):
        return title_code(code)
    verb, _, noun = reveal(call.name).partition("_")
    if execution.preview and (place := execution.preview.place):
        return f"{verb}s {place}"
    rest = summarize_call(execution) if in_order(call) else ""
    return f"{verb}{'s' * (verb in _OWN)} {noun.replace('_', ' ')} {rest}"


def _list_changes(execution: schema.ToolExecution) -> Iterator[transcript.EffectLine]:
    """Yield the variables and files that a call changed; a diff names its own file."""
    result = execution.result or schema.ToolResult()
    for each in result.variables:
        parts = each.summary.split(" · ") if each.change == "changed" else [each.change]
        parts = parts[1:] if len(parts) > 1 and " × " in parts[0] else parts  # noqa: RUF001
        text = shorten(f"{each.name} {' · '.join(parts)}", LINE)
        yield transcript.EffectLine(change=each.change, text=text, diff=each.cells)
    has_diff = execution.preview and execution.preview.kind == "diff"
    for file in () if has_diff else result.files:
        change: transcript.Change
        change = "created" if file.before is None else "changed" if file.after else "deleted"
        yield transcript.EffectLine(change=change, text=shorten(f"{file.path} {change}", LINE))
