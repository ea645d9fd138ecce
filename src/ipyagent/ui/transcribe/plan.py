"""A plan as it is drawn: the steps to approve as a whole, and their progress."""

from __future__ import annotations

from functools import partial

from ipyagent.phrases import plural
from ipyagent.schema import PlanStep, Rehearsal, Run, RunStatus, ToolExecution, ToolStatus
from ipyagent.schema.state import plan_index, progress
from ipyagent.ui import transcript
from ipyagent.ui.reveal import reveal, shorten
from ipyagent.ui.transcribe.arguments import (
    SUMMARY,
    mask_plan,
    summarize_arguments,
    transcribe_planned,
)
from ipyagent.ui.transcribe.call import APPROVE, DENY, GLYPHS, transcribe_rehearsal


def transcribe_plan(
    run: Run,
    approval_id: str | None = None,
    late: transcript.Late | None = None,
    *,
    is_whole: bool = False,
) -> transcript.Plan | None:
    """Return a run's plan as it is drawn: whole with `is_whole`, to decide on, else masked.

    `approval_id` is "" for a plan that can be decided on while no cell asks about it.
    """
    if not run.plan:
        return None
    is_asked = approval_id is not None
    steps = run.plan if is_whole or is_asked else mask_plan(run.plan)
    states = progress(run)
    is_waiting = run.status is RunStatus.DRAFT
    rehearsals = run.rehearsals if is_waiting and run.rehearsals else (None,) * len(steps)
    return transcript.Plan(
        goal=shorten(run.prompt, SUMMARY),
        title=f"Plan · {plural(len(run.plan), 'step')}",
        hash=reveal(run.plan_id or ""),
        steps=tuple(map(partial(_step, run), steps, states, rehearsals)),
        hint=_hint(run),
        approval=None if approval_id is None else _approval(approval_id),
        late=late,
    )


def count_begun(run: Run) -> int:
    """Return the number of steps that have begun."""
    places = {plan_index(run, execution.call.id) for execution in run.executions}
    return len(places - {None})


def position_of(run: Run, execution: ToolExecution) -> str:
    """Return the plan's step that a call carries out, as "step 2/5"; "" for other calls."""
    index = plan_index(run, execution.call.id) if run.plan else None
    return "" if index is None else f"step {index + 1}/{len(run.plan)}"


def _step(
    run: Run, step: PlanStep, status: ToolStatus, rehearsal: Rehearsal | None
) -> transcript.PlanStep:
    glyph, status_text = GLYPHS[status]
    left_out = run.is_finished and status is ToolStatus.PENDING
    lines = (line.strip() for line in reveal(step.note).split("\n"))
    return transcript.PlanStep(
        id=step.call.id,
        name=step.call.name,
        status=status,
        glyph=glyph,
        status_text=status_text,
        summary=summarize_arguments(step.call),
        note=step.note,
        notes=tuple(line for line in lines if line),
        verdict="not run" if left_out else "",
        request=transcribe_planned(step.call),
        effects=transcribe_rehearsal(rehearsal, step.call.name) if rehearsal else None,
        # A plan to approve is shown in full.
        is_open=run.status is RunStatus.DRAFT,
    )


def _hint(run: Run) -> str:
    """Return how to decide on a waiting plan; "" for others, or if a note says so already."""
    name = run.plan_id or run.id
    is_in_notes = any(f"`%agent approve {name}`" in note for note in run.notes)
    if run.status is not RunStatus.DRAFT or is_in_notes:
        return ""
    return f"This plan waits for `%agent approve {reveal(name)}` or `%agent deny {reveal(name)}`."


def _approval(approval_id: str) -> transcript.Approval:
    choices = (APPROVE, DENY)
    return transcript.Approval(id=approval_id, question="May this plan run?", choices=choices)
