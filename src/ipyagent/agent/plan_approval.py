"""From a prompt to a plan that the user decides on.

    planning run ─▶ draft ─▶ proposed ─┬─▶ approved ─▶ runs
                      ▲                ├─▶ denied
                      └── changed ─────┴─▶ waits, for `%agent approve`

The plan that runs is read from the journal by the one transition from draft to queued. Whatever
races, it runs at most once, and it is the plan that was shown.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from ipyagent.agent.approvals import Answer
from ipyagent.agent.loop import AgentLoop
from ipyagent.agent.plans.draft import NEEDS_NOTEBOOK, create_draft, notebook_step, proposed_steps
from ipyagent.agent.plans.rehearsal import Rehearsals, rehearsing
from ipyagent.agent.plans.runner import PlanRunner
from ipyagent.agent.session.session import Session
from ipyagent.agent.step_machine import run_lifecycle
from ipyagent.errors import AgentError, NoFrontendError, SessionError
from ipyagent.schema import (
    Decision,
    Event,
    Notice,
    PlanProposed,
    PlanRehearsed,
    PlanStep,
    PlanWaiting,
    Run,
    RunStatus,
    StopReason,
)
from ipyagent.schema.state import UNWANTED
from ipyagent.store.runs import plan_digest, plan_name
from ipyagent.tools.base import Toolbox

WAITING_NOTICE = (
    "The plan waits for you: `%agent approve {plan_id}` runs it, `%agent deny {plan_id}` cancels "
    "it."
)

DENIED_NUDGE = UNWANTED + "{reason} Do not propose it again as it is."

DENIED = "The plan was denied; nothing of it was run."


async def propose_plan(loop: AgentLoop, runner: Callable[[], Awaitable[PlanRunner]]) -> Run:
    """Ask the user about the plan that `loop` has made, and run it if they approve.

    `runner` makes a runner with a view of its own. The returned run is the plan's, a draft if it
    still waits. Raises AgentError if the plan cannot be stored, or was decided on elsewhere.
    """
    origin = loop.stream.run
    plan = create_draft(loop.session, loop.context, origin, proposed_steps(origin))
    try:
        opened = await runner()
    except BaseException:
        # It waits all the same: the journal has it.
        loop.session.apply_event(loop.stream.redactor.record(PlanProposed(run=plan)))
        raise
    return await ask_about_plan(opened, plan)


async def ask_about_plan(runner: PlanRunner, plan: Run) -> Run:
    """Ask the user about a plan, again after each change, and carry out the decision."""
    try:
        return await _negotiate(runner, plan)
    finally:
        if not runner.stream.run.is_finished:
            runner.stream.emit(PlanWaiting())


async def _negotiate(runner: PlanRunner, plan: Run) -> Run:
    while True:
        plan = _note_if_not_in_background(runner, plan)
        answer = await _ask_user(runner, plan)
        if answer is None:
            return _leave_waiting(runner, plan)
        if answer.decision is Decision.APPROVED and answer.plan is not None:
            plan = _replace_draft(runner, plan, answer.plan)
        else:
            decided = decide_plan(runner.session, answer, plan, runner.stream.emit)
            return await carry_out(runner, decided, answer, proposed=True)


def _note_if_not_in_background(runner: PlanRunner, plan: Run) -> Run:
    """Return the plan, with a note if it was to run in the background and cannot."""
    step = notebook_step(runner.context.toolbox, plan.plan) if runner.release else None
    if step is None:
        return plan
    note = (
        f"This plan {NEEDS_NOTEBOOK.format(step=step)}: when you approve it, it runs in this cell."
    )
    return plan.model_copy(update={"notes": tuple(dict.fromkeys((*plan.notes, note)))})


def check_background_plan(toolbox: Toolbox, plan: Run) -> None:
    """Raise SessionError for a plan that cannot run in the background."""
    if step := notebook_step(toolbox, plan.plan):
        raise SessionError(
            f"the plan {plan.plan_id} {NEEDS_NOTEBOOK.format(step=step)}; nothing was "
            f"run. To run it in a cell: `%agent approve {plan.plan_id}`"
        )


def find_plan(session: Session, reference: str = "") -> Run:
    """Return the waiting plan, or the newest whose id or digest begins so; raises SessionError."""
    session.check_open()
    if not reference:
        if session.waiting_plan_id is None:
            raise SessionError("no pending plan")
        return session.journal.run(session.waiting_plan_id)
    for run in reversed(session.journal.runs(session.id)):
        if run.plan and (run.id.startswith(reference) or (run.plan_id or "").startswith(reference)):
            return run
    raise SessionError(f"no pending plan is called {reference!r}, and no call waits as that")


def decide_plan(
    session: Session,
    answer: Answer,
    plan: Run,
    emit: Callable[[Event], object] | None = None,
) -> Run:
    """Approve or cancel the given plan; return it as the journal has it.

    `emit` passes events to the view that shows it, if any. Raises SessionError if it was decided on
    before.
    """
    if answer.decision is not Decision.APPROVED:
        session.journal.cancel(session.id, plan.id)
        return plan
    run = session.journal.confirm(session.id, plan.id)
    is_same = plan_digest(run.plan) == plan_digest(plan.plan)
    if not is_same or plan_name(run.plan) != plan.plan_id:
        error = (
            f"the plan {plan.plan_id} is not the one that was shown; nothing was run. Ask for it "
            "again."
        )
        session.cancel_plan(plan, StopReason.ERROR, error, emit)
        raise SessionError(error)
    return run


async def resolve_plan(
    session: Session, answer: Answer, reference: str, runner: Callable[[], Awaitable[PlanRunner]]
) -> Run:
    """Decide on the waiting plan and carry out the decision, with the view of `runner`.

    Raises SessionError if none waits or it was decided on elsewhere.
    """
    plan = decide_plan(session, answer, find_plan(session, reference))
    try:
        opened = await runner()
    except BaseException:
        is_approved = answer.decision is Decision.APPROVED
        session.cancel_plan(plan, StopReason.INTERRUPTED if is_approved else StopReason.DENIED)
        raise
    return await carry_out(opened, plan, answer)


async def carry_out(
    runner: PlanRunner, plan: Run, answer: Answer, *, proposed: bool = False
) -> Run:
    """Run an approved plan, or tell the model that it was not approved.

    `proposed`: the runner's view has shown it already.
    """
    if answer.decision is Decision.APPROVED:
        return await runner.run(plan, answer.by)
    if not proposed:
        # Without the note that it waits: it does no longer.
        runner.stream.emit(PlanProposed(run=plan.model_copy(update={"notes": ()})))
    reason = f" My reason: {answer.reason.rstrip('.')}." if answer.reason else ""
    why = f" Your reason: {answer.reason}" if answer.reason else ""
    runner.conclude(DENIED + why, DENIED_NUDGE.format(reason=reason))
    async with run_lifecycle(runner.stream) as ending:
        ending.status, ending.reason = RunStatus.CANCELLED, StopReason.DENIED
    return runner.stream.run


async def _ask_user(runner: PlanRunner, plan: Run) -> Answer | None:
    """Return the user's answer; None if nobody answers and the plan keeps waiting."""
    approvals = runner.context.approvals
    approval = approvals.open_plan(plan, plan_digest(plan.plan))

    def show(found: Rehearsals) -> None:
        runner.stream.emit(PlanRehearsed(rehearsals=found))

    try:
        runner.stream.emit(PlanProposed(run=plan, approval_id=approval.id))
        async with rehearsing(runner.context, plan.plan, show):
            await runner.context.asker.ask(approval)
            # Shielded, so that the question of a stopped cell is closed as expired.
            answer = await asyncio.shield(asyncio.wrap_future(approval.answer))
    except (NoFrontendError, asyncio.CancelledError):
        return None
    finally:
        approvals.expire(approval)
    return None if answer.decision is Decision.EXPIRED else answer


def _leave_waiting(runner: PlanRunner, plan: Run) -> Run:
    runner.stream.emit(Notice(text=WAITING_NOTICE.format(plan_id=plan.plan_id)))
    return runner.stream.run


def _replace_draft(runner: PlanRunner, plan: Run, steps: tuple[PlanStep, ...]) -> Run:
    """Return the plan as the user changed it; the old one if the change cannot run."""
    try:
        clean = map(runner.stream.redactor.record, steps)
        return create_draft(runner.session, runner.context, plan, clean, changed=True)
    except AgentError as error:
        note = f"The changed plan cannot run, and this one stays: {error}"
        return plan.model_copy(update={"notes": (note,)})
