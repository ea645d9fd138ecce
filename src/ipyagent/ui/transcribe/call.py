"""A call as it is drawn: its request, its decision, its result, its effects on a copy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC
from typing import Final

from ipyagent import schema
from ipyagent.plaintext import plural, seconds
from ipyagent.schema.results import TODOS, todos_in
from ipyagent.ui import transcript
from ipyagent.ui.reveal import reveal, shorten
from ipyagent.ui.transcribe.call_texts import (
    SUMMARY,
    hide_ids,
    name_cell,
    result_facts,
    summarize_arguments,
    summarize_call,
    summarize_result,
    transcribe_request,
    transcribe_result,
)
from ipyagent.ui.transcribe.gist import find_gist, find_name

LISTED = 30
"""Variables and files that are listed, of each."""

_KEPT = "⚠ cannot be taken back"


def _effects(execution: schema.ToolExecution) -> transcript.Effects | None:
    """Return what a call would change, for whoever decides, or has decided, that it does not."""
    asked = execution.status in {schema.ToolStatus.AWAITING_APPROVAL, schema.ToolStatus.DENIED}
    if execution.rehearsal is None or not asked:
        return None
    is_open = execution.status is not schema.ToolStatus.DENIED
    return transcribe_rehearsal(execution.rehearsal, execution.call.name, is_open=is_open)


def transcribe_rehearsal(
    rehearsal: schema.Rehearsal, tool: str, *, is_open: bool = True
) -> transcript.Effects:
    """Return what a tool's code would change, or would have changed once that is not open."""
    if rehearsal.outcome is schema.RehearsalOutcome.TRYING:
        return transcript.Effects(title="Being tried on a copy of the kernel…")
    if rehearsal.outcome is schema.RehearsalOutcome.SKIPPED:
        return transcript.Effects(title=f"Not tried on a copy: {reveal(rehearsal.reason)}")
    result = transcribe_result(rehearsal.result, tool) if rehearsal.result else None
    shown_title = _count(result) if result else ""
    lines = tuple(_lines(rehearsal))
    failed = "it failed, and would" if result and result.error else "it would"
    change = "change" if is_open else "have changed"
    found = f"; {failed} {change}{':' if lines else ' nothing'}"
    if lines and not rehearsal.variables and not rehearsal.files:
        found = ", which cannot show all that it does:"
    return transcript.Effects(
        title=f"Tried on a copy of the kernel{found}",
        lines=lines,
        shown_title=shown_title,
        shown=result if shown_title else None,
    )


def _lines(rehearsal: schema.Rehearsal) -> Iterator[transcript.EffectLine]:
    for each in rehearsal.variables[:LISTED]:
        text = f"{each.name} {each.summary or each.type}".rstrip()
        kept = f" · {_KEPT}: {each.kept}" if each.kept else ""
        text = reveal(f"{text}{kept}")
        there = "" if each.change == "created" else each.name
        yield transcript.EffectLine(
            change=each.change, text=text, diff=each.cells, variable=find_name(there, text)
        )
    for file in rehearsal.files[:LISTED]:
        yield transcript.EffectLine(change=file.change, text=reveal(file.path), diff=file.diff)
    files = f"{_KEPT}: what code itself does to files" if rehearsal.files else ""
    more = max(0, len(rehearsal.variables) - LISTED) + max(0, len(rehearsal.files) - LISTED)
    rest = f"… {more} more" if more else ""
    for text in filter(None, (rest, files, *rehearsal.texts, *rehearsal.settings)):
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


GLYPHS: Final = {
    schema.ToolStatus.PENDING: ("…", "pending"),
    schema.ToolStatus.AWAITING_APPROVAL: ("?", "awaiting approval"),
    schema.ToolStatus.RUNNING: ("▶", "running"),
    schema.ToolStatus.SUCCESS: ("✓", "succeeded"),
    schema.ToolStatus.FAILED: ("✗", "failed"),
    schema.ToolStatus.DENIED: ("⊘", "denied"),
    schema.ToolStatus.CANCELLED: ("■", "cancelled"),
    schema.ToolStatus.UNKNOWN: ("!", "unknown outcome"),
}
"""The sign of each status, and its name for screen readers."""

_WOULD_RUN = "○", "would run"
"""A call that was only checked: nothing ran, so nothing succeeded."""

OPEN, COUNTED, ALL = 1, 2, 3
"""From which `Run.verbose` on calls and thinking begin unfolded; what each step took is shown; ids
and reasons are."""

_BY_USER = {schema.DecidedBy.BUTTON, schema.DecidedBy.PROMPT, schema.DecidedBy.MAGIC}
_STANDING = {
    schema.DecidedBy.SESSION: "for this session",
    schema.DecidedBy.FOLDER: "in this folder",
    schema.DecidedBy.RECORD: "when it was recorded",
}

_ASKS = "asks you"
"""The title of a question that waits, whose text stands below."""

_LOOKING, _LOOKED = "looking…", "looked"
"""In the line of a call that is only tried on a copy; the rest stands behind it."""

APPROVE = transcript.Choice(answer="approve", label="Approve")
DENY = transcript.Choice(answer="deny", label="Deny")
_LONGER = {
    schema.Scope.SESSION: transcript.Choice(answer="always", label="Always for this session"),
    schema.Scope.FOLDER: transcript.Choice(answer="folder", label="Always in this folder"),
}


@dataclass(frozen=True)
class CallContext:
    """The parts of a run that a call's words depend on; `is_live` if it may still be decided."""

    confirm_mode: str = ""
    verbose: int = 0
    is_planned: bool = False
    is_live: bool = False
    taken_back: tuple[str, ...] = ()

    @classmethod
    def of(cls, run: schema.Run, *, is_live: bool = False) -> CallContext:
        """Return the context of a run's calls."""
        planned = run.stop_reason is schema.StopReason.PLANNED
        return cls(run.confirm_mode, run.verbose, planned, is_live, run.taken_back)


def transcribe_call(
    execution: schema.ToolExecution,
    context: CallContext,
    approval_id: str | None = None,
    late: transcript.Late | None = None,
    position: str = "",
) -> transcript.Call:
    """Return a call as it is drawn.

    `approval_id` is the id of the pending decision, `position` the step of the plan that the call
    carries out.
    """
    is_asked = execution.status is schema.ToolStatus.AWAITING_APPROVAL
    dry, question, todos = execution.dry_run, execution.question, todo_summary(execution)
    result = _visible_result(execution, todos)
    is_planned = dry and context.is_planned
    badge = ("planned" if is_planned else "dry run") if dry else ""
    marks = (
        "taken back" if execution.call.id in context.taken_back else badge,
        "not as rehearsed" if execution.rehearsal and execution.rehearsal.differs else "",
    )
    glyph, status_text = call_glyph(execution)
    own = shorten(question.text, SUMMARY) if question else todos
    verdict = _verdict(execution, context)
    decision = decision_text(execution, context.confirm_mode)
    is_in_line = verdict not in {"", _LOOKING, _LOOKED}
    gist = find_gist(execution, _ASKS if question and is_asked else own)
    is_code = [*execution.call.arguments] == ["code"]
    compared = execution.rehearsal and execution.rehearsal.compared
    return transcript.Call(
        id=execution.call.id,
        name=execution.call.name,
        status=execution.status,
        glyph=glyph,
        status_text=status_text,
        badge=" · ".join(filter(None, marks)),
        summary=own or (gist.title if is_code else summarize_call(execution)),
        outcome=summarize_result(result) if result else "",
        verdict=verdict,
        decision=decision,
        duration="" if execution.duration is None else seconds(execution.duration),
        is_open=(is_asked and context.is_live)
        or context.verbose >= OPEN
        # To be seen is all that a dry run is for.
        or (dry and not is_planned),
        is_dry=dry,
        is_planned=is_planned,
        is_sensitive=execution.sensitive,
        was_asked=is_asked
        or (execution.decision is not schema.Decision.AUTO and execution.decided_by in _BY_USER),
        position=position,
        touches=reveal(execution.touches or ""),
        effects=_effects(execution),
        concern=f"⚠ {reveal(execution.concern)}" if execution.concern else "",
        question=transcript.Question(text=question.text, choices=question.choices)
        if question
        else None,
        request=transcribe_request(execution),
        remarks=_remarks(execution, "" if is_in_line else decision, badge),
        result=transcribe_result(result, execution.call.name) if result else None,
        facts=(
            *(result_facts(result) if result else ()),
            *([reveal(compared)] if compared else []),
            *(_call_facts(execution) if context.verbose >= ALL else []),
        ),
        approval=_approval(execution, approval_id) if is_asked and approval_id else None,
        late=late,
        gist=gist,
        proposal=_proposal(execution),
    )


def _proposal(execution: schema.ToolExecution) -> transcript.Proposal | None:
    """Return the change of an open notebook that a call proposes."""
    preview = execution.preview
    if preview is None or (place := preview.cell) is None:
        return None
    title, about = "a change of this cell", f"the change of {preview.place}"
    if place.side != "changed":
        title, about = f"a new {place.kind} cell", f"the new {place.kind} cell, {preview.place}"
    return transcript.Proposal(place=place, title=title, about=about)


_RUNNERS = frozenset({"run_python", "python_script", "run_shell"})
_PYTHON = frozenset({"", "python", "python3", "ipython", "ipython3", "py"})
_SHELL = frozenset({"bash", "sh", "shell"})


def source_of(call: transcript.Call) -> str:
    """Return the code that a call ran as a cell; "" without success, or if no cell runs it."""
    preview, action = call.request.preview, call.request.arguments.get("action", "run")
    has_run = call.status is schema.ToolStatus.SUCCESS and not call.is_dry and action == "run"
    if call.name not in _RUNNERS or not has_run or not preview or preview.kind != "code":
        return ""
    code, language = preview.text.rstrip(), preview.language.lower()
    if language in _SHELL:
        return f"%%bash\n{code}"
    return code if language in _PYTHON else ""


def call_glyph(execution: schema.ToolExecution) -> tuple[str, str]:
    """Return the sign of a call's status and its name."""
    if is_tried(execution):
        return GLYPHS[schema.ToolStatus.PENDING][0], "looking"
    dry = execution.dry_run and execution.status is schema.ToolStatus.SUCCESS
    return _WOULD_RUN if dry else GLYPHS[execution.status]


def is_tried(execution: schema.ToolExecution) -> bool:
    """Return whether a call is tried on a copy of the kernel, and not asked about so far."""
    is_open = execution.status is schema.ToolStatus.PENDING and execution.decision is None
    return is_open and execution.rehearsal is not None


def decision_text(execution: schema.ToolExecution, mode: str = "") -> str:
    """Return how a call was decided on: "approved by you", "auto (yolo)"; "" if undecided."""
    if execution.decision is None:
        return ""
    by, reason = execution.decided_by, reveal(execution.reason) if execution.reason else ""
    match execution.decision:
        case schema.Decision.AUTO if by in (schema.DecidedBy.REHEARSAL, schema.DecidedBy.RECORD):
            return reason
        case schema.Decision.AUTO if by in (schema.DecidedBy.SESSION, schema.DecidedBy.FOLDER):
            return f"allowed {_STANDING[by]}"
        case schema.Decision.AUTO:
            return f"auto ({reason or reveal(mode)})" if reason or mode else "auto"
        case schema.Decision.APPROVED if execution.question:
            text = "answered by you"
        case schema.Decision.APPROVED:
            verb = "approved" if execution.proposed is None else "edited and approved"
            text = f"{verb} {_STANDING.get(by, 'by you') if by else 'by you'}"
        case schema.Decision.DENIED:
            text = "declined" if execution.question else "denied"
            text += " by you" if by in _BY_USER else ""
        case schema.Decision.EXPIRED:
            text = "expired"
    return f"{text}: {reason}" if reason else text


def todo_summary(execution: schema.ToolExecution) -> str:
    """Return the summary of a checklist ("1 of 3 done"), "" for other calls."""
    if execution.call.name != TODOS:
        return ""
    todos = todos_in(execution.call.arguments)
    completed = sum(todo.status is schema.TodoStatus.COMPLETED for todo in todos)
    return f"{completed} of {len(todos)} done" if todos else ""


def _verdict(execution: schema.ToolExecution, context: CallContext) -> str:
    """Return the decision for the call's line: "" for calls that are normally allowed."""
    match execution.status:
        case schema.ToolStatus.AWAITING_APPROVAL if not context.is_live:
            return "no answer recorded" if execution.question else "no decision recorded"
        case schema.ToolStatus.UNKNOWN:
            return GLYPHS[schema.ToolStatus.UNKNOWN][1]
        case schema.ToolStatus.PENDING if is_tried(execution):
            return _LOOKING
    if execution.decided_by is schema.DecidedBy.REHEARSAL:
        return _LOOKED
    is_plain = execution.decision is schema.Decision.AUTO
    if is_plain and execution.decided_by not in _STANDING:
        return ""
    return decision_text(execution)


def _remarks(execution: schema.ToolExecution, decision: str, badge: str) -> tuple[str, ...]:
    """Return remarks on a call beside its line and its result."""
    nothing = f"{badge}: nothing was executed" if badge else ""
    return tuple(filter(None, (decision, nothing, _change(execution))))


def _change(execution: schema.ToolExecution) -> str:
    """Return what the model had written, if the user changed it; "" if not."""
    if execution.proposed is None:
        return ""
    before = execution.call.model_copy(update={"arguments": execution.proposed})
    written = summarize_arguments(name_cell(execution, before))
    return f"changed by you; the model had written: {written}"


def _visible_result(execution: schema.ToolExecution, todos: str) -> schema.ToolResult | None:
    """Return the result for the user; None for denied calls and for checklists."""
    result = hide_ids(execution)
    is_checklist = result and result.success and todos
    return None if is_checklist or execution.status is schema.ToolStatus.DENIED else result


def _call_facts(execution: schema.ToolExecution) -> list[str]:
    """Return a call's id, who decided on it and when it began."""
    decision, by, began = execution.decision, execution.decided_by, execution.started_at
    parts = [
        f"call {reveal(execution.call.id)}",
        f"{decision} by {by}" if decision and by else "",
        f"began {began.astimezone(UTC):%H:%M:%S} UTC" if began else "",
    ]
    return [" · ".join(part for part in parts if part)]


def _approval(execution: schema.ToolExecution, approval_id: str) -> transcript.Approval:
    scopes = [_LONGER[scope] for scope in execution.scopes if scope in _LONGER]
    covers = execution.covers if scopes else None
    return transcript.Approval(
        id=approval_id,
        question=f"May {execution.call.name} run?",
        choices=(APPROVE, *scopes, DENY),
        covers=f"Always covers {covers}." if covers else "",
    )
