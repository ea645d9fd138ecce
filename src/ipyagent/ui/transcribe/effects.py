"""The effects of a call, as its rehearsal on a copy of the kernel showed them."""

from __future__ import annotations

from collections.abc import Iterator

from ipyagent.phrases import plural
from ipyagent.schema import (
    DecidedBy,
    Rehearsal,
    RehearsalOutcome,
    ToolExecution,
    ToolStatus,
    VariableChange,
)
from ipyagent.ui import transcript
from ipyagent.ui.reveal import reveal
from ipyagent.ui.transcribe.result import transcribe_result

LISTED = 30
"""Variables and files that are listed, of each."""

_KEPT = "⚠ cannot be taken back"
_RAN = {ToolStatus.SUCCESS, ToolStatus.FAILED, ToolStatus.CANCELLED, ToolStatus.UNKNOWN}


def transcribe_effects(execution: ToolExecution) -> transcript.Effects | None:
    """Return what a call would change; None if it ran, or if nothing was rehearsed."""
    if execution.rehearsal is None or execution.status in _RAN | {ToolStatus.RUNNING}:
        return None
    return transcribe_rehearsal(execution.rehearsal, execution.call.name)


def transcribe_rehearsal(rehearsal: Rehearsal, tool: str) -> transcript.Effects:
    """Return what a tool's code would change."""
    if rehearsal.outcome is RehearsalOutcome.SKIPPED:
        return transcript.Effects(title=f"Not tried on a copy: {reveal(rehearsal.reason)}")
    result = transcribe_result(rehearsal.result, tool) if rehearsal.result else None
    shown_title = _count(result) if result else ""
    lines = tuple(_lines(rehearsal))
    failed = "it failed, and would change" if result and result.error else "it would change"
    return transcript.Effects(
        title=f"Tried on a copy of the kernel; {failed}{':' if lines else ' nothing'}",
        lines=lines,
        shown_title=shown_title,
        shown=result if shown_title else None,
    )


def compare(execution: ToolExecution) -> str:
    """Return whether a call changed what its rehearsal had shown; "" if nobody was shown that."""
    rehearsal, result = execution.rehearsal, execution.result
    if rehearsal is None or result is None or execution.decided_by is DecidedBy.REHEARSAL:
        return ""
    if rehearsal.outcome is not RehearsalOutcome.CHANGES or execution.status not in _RAN:
        return ""
    shown, done = ({each.name: each for each in of.variables} for of in (rehearsal, result))
    # A change inside of an object may be seen on the copy alone.
    names = (name for name in {**shown, **done} if name in done or shown[name].summary)
    differing = [name for name in names if _facts(shown.get(name)) != _facts(done.get(name))]
    if not differing:
        return "as rehearsed"
    return f"not as rehearsed: {', '.join(map(reveal, differing[:LISTED]))}"


def _facts(change: VariableChange | None) -> tuple[str, str] | None:
    return (change.change, change.summary) if change else None


def _lines(rehearsal: Rehearsal) -> Iterator[transcript.EffectLine]:
    for each in rehearsal.variables[:LISTED]:
        text = f"{each.name} {each.summary or each.type}".rstrip()
        kept = f" · {_KEPT}: {each.kept}" if each.kept else ""
        yield transcript.EffectLine(change=each.change, text=reveal(f"{text}{kept}"))
    for file in rehearsal.files[:LISTED]:
        yield transcript.EffectLine(change=file.change, text=reveal(file.path), diff=file.diff)
    files = f"{_KEPT}: what code itself does to files" if rehearsal.files else ""
    more = max(0, len(rehearsal.variables) - LISTED) + max(0, len(rehearsal.files) - LISTED)
    rest = f"… {more} more" if more else ""
    for text in filter(None, (rest, files, *rehearsal.texts)):
        yield transcript.EffectLine(change="other", text=reveal(text))


def _count(result: transcript.Result) -> str:
    """Return a line that counts what was put out; "" if nothing was."""
    text = result.output or result.error
    parts = (
        plural(text.count("\n") + 1, "line") if text else "",
        plural(len(result.media), "rich output") if result.media else "",
    )
    counts = ", ".join(filter(None, parts))
    return f"What it put out there: {counts}" if counts else ""
