"""From a prompt to a plan that a person decides on.

    planning run ─▶ draft ─▶ proposed ─┬─▶ approved ─▶ runs
                      ▲                ├─▶ denied
                      └── changed ─────┴─▶ waits, for `%agent approve`

What is run is read from the journal, by the one transition from draft to queued: whatever races,
there is one run or none, and it is the one that was shown.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from ipyagent.agent.approvals import Answer
from ipyagent.agent.ending import Ending, concluded
from ipyagent.agent.loop import Loop
from ipyagent.agent.plan import TIED, drafted, steps_of, tied_step
from ipyagent.agent.plan_runner import PlanRunner
from ipyagent.agent.session import Session, remember
from ipyagent.errors import AgentError, NoFrontendError, SessionError
from ipyagent.schema import (
    Decision,
    Notice,
    PlanProposed,
    PlanStep,
    Run,
    RunStatus,
    StopReason,
)
from ipyagent.schema.replayed import UNWANTED
from ipyagent.store.plans import plan_digest, plan_name
from ipyagent.tools.toolbox import Toolbox

WAITS = (
    "The plan waits for you: `%agent approve {plan_id}` runs it, `%agent deny {plan_id}` puts it "
    "off."
)

TOLD = UNWANTED + "{reason} Do not propose it again as it is."

DENIED = "The plan was denied; nothing of it was run."


async def propose_and_run(
    loop: Loop,
    prompt: str,
    context: str,
    runner: Callable[[], PlanRunner],
    *,
    notices: tuple[str, ...] = (),
    agent: str | None = None,
    cell_id: str | None = None,
    trace_id: str,
) -> Run:
    """Have `prompt` planned by `loop`; where there is a plan, ask about it, and run it.

    `runner` is called on the main thread, for a runner with a view of its own. The run that is
    returned is the plan's, a draft where it goes on waiting, or the planning run where there is no
    plan. Raises AgentError where the plan cannot be stored, or somebody else has decided on it.
    """
    run = await loop.run(
        prompt, context, notices=notices, agent=agent, cell_id=cell_id, trace_id=trace_id
    )
    if run.stop_reason is not StopReason.PLANNED:
        return run
    plan = drafted(loop.session, loop.dispatcher, run, steps_of(run))
    return await offer(await asyncio.wrap_future(loop.dispatcher.post(runner)), plan)


async def offer(runner: PlanRunner, plan: Run) -> Run:
    """Ask a person about a plan, as often as they change it, and do as they say."""
    run: Run | None = None
    try:
        run = await _settled(runner, plan)
    finally:
        if run is None or not run.is_finished:
            runner.leave()
    return run


async def _settled(runner: PlanRunner, plan: Run) -> Run:
    while True:
        plan = _with_place(runner, plan)
        answer = await _answered(runner, plan)
        if answer is None:
            return _waiting(runner, plan)
        if answer.decision is Decision.APPROVED and answer.plan is not None:
            plan = _changed(runner, plan, answer.plan)
        else:
            decided = decide(runner.session, answer, plan)
            return await follow(runner, decided, answer, proposed=True)


def _with_place(runner: PlanRunner, plan: Run) -> Run:
    """The plan, with a note where it was to run in the background and cannot."""
    step = tied_step(runner.dispatcher.toolbox, plan.plan) if runner.release else None
    if step is None:
        return plan
    note = f"This plan {TIED.format(step=step)}: when you approve it, it runs in this cell."
    return plan.model_copy(update={"notes": tuple(dict.fromkeys((*plan.notes, note)))})


def check_untied(toolbox: Toolbox, plan: Run) -> None:
    """Raise SessionError for a plan that cannot run in the background."""
    if step := tied_step(toolbox, plan.plan):
        raise SessionError(
            f"the plan {plan.plan_id} {TIED.format(step=step)}; nothing was "
            f"run. To run it in a cell: `%agent approve {plan.plan_id}`"
        )


def found(session: Session, reference: str = "") -> Run:
    """The plan that waits, or the newest whose id or digest begins so; raises SessionError."""
    session.check_open()
    if not reference:
        if session.waiting is None:
            raise SessionError("no pending plan")
        return session.journal.run(session.waiting)
    for run in reversed(session.journal.runs(session.id)):
        if run.plan and (run.id.startswith(reference) or (run.plan_id or "").startswith(reference)):
            return run
    raise SessionError(f"no pending plan is called {reference!r}, and no call waits as that")


def decide(session: Session, answer: Answer, shown: Run) -> Run:
    """Approve or put off the plan that was `shown`; the plan as the journal has it.

    Raises SessionError for all but the first to decide on it.
    """
    if answer.decision is not Decision.APPROVED:
        session.journal.cancel(session.id, shown.id)
        return shown
    run = session.journal.confirm(session.id, shown.id)
    is_same = plan_digest(run.plan) == plan_digest(shown.plan)
    if not is_same or plan_name(run.plan) != shown.plan_id:
        session.journal.cancel(session.id, shown.id)
        raise SessionError(
            f"the plan {shown.plan_id} is not the one that was shown; nothing was run. Ask for it "
            "again."
        )
    return run


async def settle(
    session: Session, answer: Answer, reference: str, runner: Callable[[], Awaitable[PlanRunner]]
) -> Run:
    """Decide on the plan that waits and do what follows, shown by `runner`.

    Raises SessionError where none waits, or somebody else was first.
    """
    plan = decide(session, answer, found(session, reference))
    try:
        shown = await runner()
    except BaseException:
        if answer.decision is Decision.APPROVED:
            session.journal.cancel(session.id, plan.id)
        raise
    return await follow(shown, plan, answer)


async def follow(runner: PlanRunner, plan: Run, answer: Answer, *, proposed: bool = False) -> Run:
    """Run a plan that was approved, or let the model know that it was not.

    `proposed`: the runner's view has shown it already.
    """
    if answer.decision is Decision.APPROVED:
        return await runner.run(plan, answer.by)
    if not proposed:
        # Without the note that it waits: it does no longer.
        runner.stream.emit(PlanProposed(run=plan.model_copy(update={"notes": ()})))
    reason = f" My reason: {answer.reason.rstrip('.')}." if answer.reason else ""
    why = f" Your reason: {answer.reason}" if answer.reason else ""
    runner.conclude(DENIED + why, TOLD.format(reason=reason))

    async def ending() -> Ending:
        return RunStatus.CANCELLED, StopReason.DENIED, None

    return await concluded(runner.stream, ending)


async def _answered(runner: PlanRunner, plan: Run) -> Answer | None:
    """What the person says; None where nobody does, and the plan goes on waiting."""
    approvals = runner.dispatcher.approvals
    approval = approvals.open_plan(plan, plan_digest(plan.plan))
    try:
        runner.stream.emit(PlanProposed(run=plan, approval_id=approval.id))
        await runner.dispatcher.asker.ask(approval)
        # Shielded, so that the question of a stopped cell is closed as expired.
        answer = await asyncio.shield(asyncio.wrap_future(approval.answer))
    except (NoFrontendError, asyncio.CancelledError):
        return None
    finally:
        approvals.expire(approval)
    return None if answer.decision is Decision.EXPIRED else answer


def _waiting(runner: PlanRunner, plan: Run) -> Run:
    runner.stream.emit(Notice(text=WAITS.format(plan_id=plan.plan_id)))
    remember(runner.stream.run)
    return runner.stream.run


def _changed(runner: PlanRunner, plan: Run, steps: tuple[PlanStep, ...]) -> Run:
    """The plan as the person wants it, to be shown again; the old one where that cannot run."""
    try:
        clean = map(runner.stream.redactor.of, steps)
        return drafted(runner.session, runner.dispatcher, plan, clean, changed=True)
    except AgentError as error:
        note = f"The changed plan cannot run, and this one stays: {error}"
        return plan.model_copy(update={"notes": (note,)})
