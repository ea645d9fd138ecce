"""Waiting plans: `%agent approve`, `%agent deny`, and a prompt that is only "yes" or "no"."""

from __future__ import annotations

import re
from collections.abc import Callable

from ipyagent.agent.approvals import Answer, Approval, Approvals
from ipyagent.agent.session.session import Session
from ipyagent.agent.signs import is_go_word, is_plan_word, parse_yes_no
from ipyagent.errors import ConfigError, SessionError
from ipyagent.kernel.drivers import Cell, drive_sync, stoppable
from ipyagent.kernel.frontend import Frontend, Surface
from ipyagent.schema import DecidedBy, Outcome, Run
from ipyagent.wiring import RunFunction, runtime

NOTHING_WAITS = (
    "no pending plan: nothing waits for {word!r}, so nothing was run and no model was asked. Say "
    "in a sentence what you would like to be done"
)


def in_words(session: Session, text: str) -> Answer | None:
    """Return a prompt's decision about the waiting plan; None for an ordinary prompt.

    Raises SessionError for a word without anything to decide. A yes or no is a prompt if it may
    answer the model: after an answer that ends with a question, or a run that ended early.
    """
    decision = parse_yes_no(text)
    if decision is None:
        return None
    if session.waiting_plan_id is not None:
        return Answer(decision, DecidedBy.PROMPT)
    if is_go_word(text):
        return None
    if is_plan_word(text) or not _expects_answer(session):
        raise SessionError(NOTHING_WAITS.format(word=text.strip()))
    return None


def _expects_answer(session: Session) -> bool:
    """Return whether the newest run ended with a question, or before it was done."""
    if not session.runs:
        return False
    run = session.runs[-1]
    _, _, last_paragraph = run.output.rstrip().rpartition("\n\n")
    return run.outcome is not Outcome.SUCCESS or bool(re.search("[?\uff1f]", last_paragraph))


def in_its_cell(approvals: Approvals, reference: str) -> Approval | None:
    """Return the question about a plan that a cell of this kernel is asking now, if named."""
    for approval in approvals.pending():
        plan = approval.subject
        if isinstance(plan, Run) and any(
            name.startswith(reference) for name in (approval.id, plan.id, plan.plan_id or "")
        ):
            return approval
    return None


def run(
    approvals: Approvals,
    reference: str,
    answer: Answer,
    session: Session,
    prepare: Callable[[Cell], RunFunction],
) -> str:
    """Decide on a plan: in the cell that asks, or else here, with the run of `prepare`."""
    asked = in_its_cell(approvals, reference)
    if asked is not None and approvals.decide(asked.id, answer):
        return f"{asked.id}: {answer.decision}"
    with runtime().run_lock.hold() as hold:
        hold.add_session(session.id)
        cell = Cell()
        with stoppable(cell):
            hold.keep_for_background(cell, drive_sync(cell, prepare(cell)))
    return ""


def stop(_book: object, _rest: str) -> str:
    """stop the plan that runs in the background"""
    behind = runtime().run_lock.background
    if behind is None:
        raise ConfigError(
            "no plan runs in the background; what runs in a cell is stopped there, or by "
            "interrupting the kernel"
        )
    behind.stop()
    return f"stopping the plan {behind.name}; its work so far is kept"


def check_background(frontend: Frontend) -> None:
    """Raise ConfigError if nobody would see a plan that runs in the background."""
    if frontend.surface is Surface.TERMINAL:
        raise ConfigError(
            "--background needs a notebook: in a terminal its progress would be printed between "
            "your lines. Leave it out, and the plan runs here"
        )
    if not frontend.can_input:
        raise ConfigError(
            "--background needs somebody at the notebook: run from its first cell to its last, as "
            "by nbconvert, the kernel would end in the middle of the plan. Leave it out, and the "
            "plan runs in its cell"
        )
