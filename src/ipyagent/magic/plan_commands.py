"""Plans that wait: `%agent approve`, `%agent deny`, and a prompt that is only "yes" or "no"."""

from __future__ import annotations

from collections.abc import Callable

from ipyagent.agent import words
from ipyagent.agent.approvals import Answer, Approval, Approvals
from ipyagent.agent.session import Session
from ipyagent.kernel.drivers import Cell, drive_sync
from ipyagent.schema import DecidedBy, Run
from ipyagent.wiring import Engine, only_run


def in_words(session: Session, text: str) -> Answer | None:
    """What a prompt decides about the plan that waits; None where it is an ordinary prompt."""
    decision = words.decision(text)
    if decision is None or session.waiting is None:
        return None
    return Answer(decision, DecidedBy.PROMPT)


def in_its_cell(approvals: Approvals, reference: str) -> Approval | None:
    """The question about a plan that a cell of this kernel is asking right now, if it is named."""
    for approval in approvals.pending():
        plan = approval.shown
        if isinstance(plan, Run) and any(
            name.startswith(reference) for name in (approval.id, plan.id, plan.plan_id or "")
        ):
            return approval
    return None


def run(
    approvals: Approvals,
    reference: str,
    answer: Answer,
    prepare: Callable[[Cell], Engine],
) -> str:
    """Decide on a plan: where it waits in a cell, there; else here, by what `prepare` makes."""
    asked = in_its_cell(approvals, reference)
    if asked is not None and approvals.decide(asked.id, answer):
        return f"{asked.id}: {answer.decision}"
    with only_run():
        cell = Cell()
        drive_sync(cell, prepare(cell))
    return ""
