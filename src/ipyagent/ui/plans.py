"""How far a plan is, and what is said about it.

The live view says the same in `labextension/src/progress.ts` and `view/plan.ts`.
"""

from __future__ import annotations

from ipyagent.schema import (
    PlanStep,
    Run,
    RunStatus,
    ToolStatus,
)
from ipyagent.schema.progress import never_ran, place
from ipyagent.ui.format import plural, shorten
from ipyagent.ui.reveal import reveal

GOAL = 200
"""Characters of the goal that head a plan; all of it is in the cell."""


def goal(run: Run) -> str:
    """What the plan is for, in one line."""
    return shorten(run.prompt, GOAL)


def title(run: Run) -> str:
    """How long a plan is, and the hash by which a person knows it again."""
    parts = ["Plan", plural(len(run.plan), "step")]
    return " · ".join([*parts, *([f"hash {reveal(run.plan_id)}"] if run.plan_id else [])])


def waits(run: Run) -> str:
    """How a plan that waits is decided on; "" for all others, and where a note says so already."""
    name = run.plan_id or run.id
    told = any(f"`%agent approve {name}`" in note for note in run.notes)
    if run.status is not RunStatus.DRAFT or told:
        return ""
    return f"This plan waits for `%agent approve {reveal(name)}` or `%agent deny {reveal(name)}`."


def context(run: Run) -> tuple[str, str]:
    """What the model was told beside the prompt, after its heading; "" while a plan has not run."""
    title = "Told to the model" if run.plan else "Sent with your prompt"
    return title, "" if never_ran(run) else run.context


def begun(run: Run) -> int:
    """How many steps of the plan have begun."""
    places = {place(run, execution.call.id) for execution in run.executions}
    return len(places - {None})


def note_lines(step: PlanStep) -> list[str]:
    """What is said about a step, in lines: why it is there, and what to look out for."""
    return [line.strip() for line in reveal(step.note).split("\n") if line.strip()]


def left_out(run: Run, state: ToolStatus) -> str:
    """What is said of a step that was never begun and no longer will be, or ""."""
    return "not run" if run.is_finished and state is ToolStatus.PENDING else ""
