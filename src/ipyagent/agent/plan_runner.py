"""From a prompt to a plan that the user decides on, and its run: step by step, as it was shown.

    planning run ─▶ draft ─▶ proposed ─┬─▶ approved ─▶ runs
                      ▲                ├─▶ denied
                      └── changed ─────┴─▶ waits, for `%agent approve`

The plan that runs is read from the journal by the one transition from draft to queued. Whatever
races, it runs at most once, and it is the plan that was shown. No model comes in between:

    run ─┬─ step: the plan's call ─▶ its result
         ├─ step: tried again, as it was         (idempotent tools)
         ├─ step: a changed command, asked about  (tools that run commands)
         └─ closing step: a sentence about the outcome

The first step that fails for good is the last one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, replace

from ipyagent import schema
from ipyagent.agent import budgets, plans
from ipyagent.agent.approvals import Answer
from ipyagent.agent.budgets import RunBudget
from ipyagent.agent.loop import AgentLoop
from ipyagent.agent.policy import CallPolicy
from ipyagent.agent.session.session import Session
from ipyagent.agent.step_machine import (
    RunEnding,
    StepMachine,
    StreamedReply,
    run_lifecycle,
    stream_reply,
)
from ipyagent.config import RetryConfig
from ipyagent.errors import AgentError, NoFrontendError, SessionError
from ipyagent.llm.client import delay, retrying
from ipyagent.plaintext import plural
from ipyagent.schema.runs import UNWANTED, progress
from ipyagent.store.runs import plan_digest, plan_name
from ipyagent.tools.base import Tool, Toolbox

STEP_RETRY = RetryConfig(max_retries=2, initial_delay=0.5, max_delay=5.0)
"""Retries of a step, and the delays between them."""

IN_BACKGROUND = "Approved to run in the background; `%agent stop` stops it."

MAX_ERROR_LENGTH = 300
"""Characters of an error in a short message."""


@dataclass
class PlanRunner(StepMachine):
    """Runs one plan, or says why it does not run."""

    retry: RetryConfig = STEP_RETRY
    release: Callable[[schema.Run], object] | None = None
    """Lets the cell end while the plan runs in the background; None if it must not."""

    async def run(self, plan: schema.Run, by: schema.DecidedBy) -> schema.Run:
        """Run a plan that the journal has queued and `by` has approved. Never raises."""
        running = {"status": schema.RunStatus.RUNNING, "started_at": schema.now()}
        self.stream.emit(schema.RunStarted(run=plan.model_copy(update=running)))
        if self.release and plans.notebook_step(self.context.toolbox, plan.plan) is None:
            self.stream.emit(schema.Notice(text=IN_BACKGROUND))
            self.release(self.stream.run)
        lifecycle = run_lifecycle(self.stream, self.time_limits, self._summarize)
        async with lifecycle as ending, self.run_limit():
            await self._take_steps(plan.plan, by, ending)
        return self.stream.run

    def conclude(self, text: str, nudge: str | None = None) -> None:
        """Add `text` as the last step."""
        message = schema.Message.of(schema.Role.ASSISTANT, text, synthetic=True)
        with self.open_step(nudge, closing=True) as number:
            self.stream.emit(schema.MessageFinished(step=number, message=message))

    async def _take_steps(
        self, steps: Sequence[schema.PlanStep], by: schema.DecidedBy, ending: RunEnding
    ) -> None:
        for number, step in enumerate(steps, 1):
            execution = await self._carry_out(step, by)
            if execution.status is not schema.ToolStatus.SUCCESS:
                _set_failure(ending, number, execution)
                return

    async def _carry_out(self, step: schema.PlanStep, by: schema.DecidedBy) -> schema.ToolExecution:
        """Run the step; return the call that succeeded, or the last one that failed."""
        policy = plans.ApprovedStepPolicy(self.context.policy, step, by)
        async with self._timed_step() as number:
            execution = await self._run_planned_call(number, step.call, policy)
        tried = [step.call]
        while _ran_and_failed(execution) and len(tried) <= self.retry.max_retries:
            tool = self.context.toolbox.get(step.call.name)
            is_last = len(tried) == self.retry.max_retries
            if plans.command_of(tool, step.call) and (is_last or not tool.idempotent):
                another = await self._try_changed(tool, tried)
            elif tool.idempotent:
                another = await self._try_again(tried, policy, execution)
            else:
                break
            if another is None or another.started_at is None:
                break
            execution = another
            tried.append(execution.call)
        return execution

    async def _try_again(
        self, tried: Sequence[schema.ToolCall], policy: CallPolicy, failed: schema.ToolExecution
    ) -> schema.ToolExecution:
        attempt = len(tried)
        seconds = delay(attempt - 1, self.retry)
        async with self._timed_step() as number:
            announce = self.retry_announcer(number, self.retry.max_retries)
            announce(attempt, seconds, f"{failed.call.name} failed: {_error_line(failed)}")
            await asyncio.sleep(seconds)
            call = tried[0].model_copy(update={"id": _next_id(tried)})
            return await self._run_planned_call(number, call, policy)

    async def _try_changed(
        self, tool: Tool, tried: Sequence[schema.ToolCall]
    ) -> schema.ToolExecution | None:
        """Run a changed call that the user approved; None if there is none."""
        # Steps cost nothing here; requests to a model do.
        budget = self.config.agent.model_copy(update={"max_steps": len(self.stream.run.steps) + 1})
        if budgets.find_exhausted(self.stream.run, budget):
            return None
        nudge = plans.CHANGE_REQUEST.format(tool=tool.name, argument=tool.command)
        async with self._timed_step(nudge) as number:
            reply = await self._request_proposal(number, tool)
            if reply is None or reply.message is None:
                return None
            reply.message = plans.normalize_reply(reply.message, tool, tried[0], _next_id(tried))
            self.stream.emit(reply.to_event(schema.NO_TOKENS, None))
            if not reply.calls:
                return None
            objection = plans.find_objection(tool, reply.calls, tried)
            policy = plans.ChangedCallPolicy(self.context.policy, objection)
            return await self._run_calls_under(number, reply.calls, policy)

    async def _request_proposal(self, number: int, tool: Tool) -> StreamedReply | None:
        """Return the model's proposal for a failed step; None if it cannot be asked."""
        retry, request = self.config.llm.retry, self.build_request((tool.definition(),))

        async def stream_proposal() -> StreamedReply:
            prefix = f"{self.stream.run.id}_{number}"
            reply = StreamedReply(number, prefix, self.stream.redactor, self.client)
            budget = RunBudget(lambda: self.stream.run, self.config.agent)
            async with aclosing(stream_reply(self.client, self.session, request, budget)) as chunks:
                async for chunk in chunks:
                    reply.add(chunk)
            reply.complete()
            return reply

        announce = self.retry_announcer(number, retry.max_retries)
        try:
            reply: StreamedReply = await retrying(retry, announce)(stream_proposal)
        except AgentError as error:
            self.stream.emit(schema.Notice(text=f"No other command could be asked for: {error}"))
            return None
        return reply

    @asynccontextmanager
    async def _timed_step(self, nudge: str | None = None) -> AsyncIterator[int]:
        """Take the next step, within its time; raises StepTimeoutError."""
        with self.open_step(nudge) as number:
            async with self.step_limit():
                yield number

    async def _run_planned_call(
        self, number: int, call: schema.ToolCall, policy: CallPolicy
    ) -> schema.ToolExecution:
        message = schema.Message(role=schema.Role.ASSISTANT, content=(call,), synthetic=True)
        self.stream.emit(schema.MessageFinished(step=number, message=message))
        return await self._run_calls_under(number, (call,), policy)

    async def _run_calls_under(
        self, number: int, calls: Sequence[schema.ToolCall], policy: CallPolicy
    ) -> schema.ToolExecution:
        """Run the calls that `policy` allows; return the first of them with its result."""
        await self.run_calls(number, calls, replace(self.context, policy=policy))
        return self.stream.run.steps[-1].executions[0]

    def _summarize(self, ending: RunEnding) -> None:
        """End with a sentence about the outcome, so that the next prompt knows it too."""
        plan, states, error = self.stream.run.plan, progress(self.stream.run), ending.error
        done, begun = (
            states.count(schema.ToolStatus.SUCCESS),
            len(plan) - states.count(schema.ToolStatus.PENDING),
        )
        parts = [f"{done} of {plural(len(plan), 'step')} done."]
        if error:
            parts.append(f"{error[0].upper()}{error[1:].rstrip('.')}.")
        elif done < begun:
            parts.append(f"{_step_label(plan, begun - 1).capitalize()} did not end.")
        if left := [_step_label(plan, index) for index in range(begun, len(plan))]:
            parts.append(f"Not run: {', '.join(left)}.")
        self.conclude(" ".join(parts))


def _ran_and_failed(execution: schema.ToolExecution) -> bool:
    failed = execution.status is schema.ToolStatus.FAILED and execution.started_at is not None
    return failed and (execution.result is None or execution.result.repeatable)


def _set_failure(ending: RunEnding, number: int, execution: schema.ToolExecution) -> None:
    """Set how a run ends whose step failed."""
    step = f"step {number} ({execution.call.name})"
    if (
        execution.status is schema.ToolStatus.DENIED
        and execution.decided_by is not schema.DecidedBy.POLICY
    ):
        ending.status, ending.reason = schema.RunStatus.CANCELLED, schema.StopReason.DENIED
        ending.error = f"{step} was denied"
    else:
        ending.status, ending.reason = schema.RunStatus.ERROR, schema.StopReason.ERROR
        ending.error = f"{step} failed: {_error_line(execution)}"


def _error_line(execution: schema.ToolExecution) -> str:
    """Return the error in one line that ends with a full stop."""
    error = (execution.result and execution.result.error) or str(execution.status)
    lines = [line for line in error.splitlines() if line.strip()]
    return lines[0][:MAX_ERROR_LENGTH].rstrip(".") + "."


def _next_id(tried: Sequence[schema.ToolCall]) -> str:
    """Return X, X.2, X.3, …: the first part names the plan's step that a call carries out."""
    return f"{tried[0].id}.{len(tried) + 1}"


def _step_label(plan: Sequence[schema.PlanStep], index: int) -> str:
    return f"step {index + 1} ({plan[index].call.name})"


WAITING_NOTICE = (
    "The plan waits for you: `%agent approve {plan_id}` runs it, `%agent deny {plan_id}` cancels "
    "it."
)

DENIED_NUDGE = UNWANTED + "{reason} Do not propose it again as it is."

DENIED = "The plan was denied; nothing of it was run."


async def propose_plan(loop: AgentLoop, runner: Callable[[], Awaitable[PlanRunner]]) -> schema.Run:
    """Ask the user about the plan that `loop` has made, and run it if they approve.

    `runner` makes a runner with a view of its own. The returned run is the plan's, a draft if it
    still waits. Raises AgentError if the plan cannot be stored, or was decided on elsewhere.
    """
    origin = loop.stream.run
    plan = await plans.create_draft(
        loop.session, loop.context, origin, plans.proposed_steps(origin)
    )
    try:
        opened = await runner()
    except BaseException:
        # It waits all the same: the journal has it.
        loop.session.apply_event(loop.stream.redactor.record(schema.PlanProposed(run=plan)))
        raise
    return await ask_about_plan(opened, plan)


async def ask_about_plan(runner: PlanRunner, plan: schema.Run) -> schema.Run:
    """Ask the user about a plan, again after each change, and carry out the decision."""
    try:
        return await _negotiate(runner, plan)
    finally:
        if not runner.stream.run.is_finished:
            runner.stream.emit(schema.PlanWaiting())


async def _negotiate(runner: PlanRunner, plan: schema.Run) -> schema.Run:
    while True:
        plan = _note_if_not_in_background(runner, plan)
        answer = await ask_user(runner, plan)
        if answer is None:
            runner.stream.emit(schema.Notice(text=WAITING_NOTICE.format(plan_id=plan.plan_id)))
            return runner.stream.run
        if answer.decision is schema.Decision.APPROVED and answer.plan is not None:
            plan = await _replace_draft(runner, plan, answer.plan)
        else:
            decided = decide_plan(runner.session, answer, plan, runner.stream.emit)
            return await carry_out(runner, decided, answer, proposed=True)


def _note_if_not_in_background(runner: PlanRunner, plan: schema.Run) -> schema.Run:
    """Return the plan, with a note if it was to run in the background and cannot."""
    step = plans.notebook_step(runner.context.toolbox, plan.plan) if runner.release else None
    if step is None:
        return plan
    needs = plans.NEEDS_NOTEBOOK.format(step=step)
    note = f"This plan {needs}: when you approve it, it runs in this cell."
    return plan.model_copy(update={"notes": tuple(dict.fromkeys((*plan.notes, note)))})


def check_background_plan(toolbox: Toolbox, plan: schema.Run) -> None:
    """Raise SessionError for a plan that cannot run in the background."""
    if step := plans.notebook_step(toolbox, plan.plan):
        raise SessionError(
            f"the plan {plan.plan_id} {plans.NEEDS_NOTEBOOK.format(step=step)}; nothing was "
            f"run. To run it in a cell: `%agent approve {plan.plan_id}`"
        )


def find_plan(session: Session, reference: str = "") -> schema.Run:
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
    plan: schema.Run,
    emit: Callable[[schema.Event], object] | None = None,
) -> schema.Run:
    """Approve or cancel the given plan; return it as the journal has it.

    `emit` passes events to the view that shows it, if any. Raises SessionError if it was decided on
    before.
    """
    if answer.decision is not schema.Decision.APPROVED:
        session.journal.cancel(session.id, plan.id)
        return plan
    run = session.journal.confirm(session.id, plan.id)
    is_same = plan_digest(run.plan) == plan_digest(plan.plan)
    if not is_same or plan_name(run.plan) != plan.plan_id:
        error = (
            f"the plan {plan.plan_id} is not the one that was shown; nothing was run. Ask for it "
            "again."
        )
        session.cancel_plan(plan, schema.StopReason.ERROR, error, emit)
        raise SessionError(error)
    return run


async def resolve_plan(
    session: Session, answer: Answer, reference: str, runner: Callable[[], Awaitable[PlanRunner]]
) -> schema.Run:
    """Decide on the waiting plan and carry out the decision, with the view of `runner`.

    Raises SessionError if none waits or it was decided on elsewhere.
    """
    plan = decide_plan(session, answer, find_plan(session, reference))
    try:
        opened = await runner()
    except BaseException:
        is_approved = answer.decision is schema.Decision.APPROVED
        session.cancel_plan(
            plan, schema.StopReason.INTERRUPTED if is_approved else schema.StopReason.DENIED
        )
        raise
    return await carry_out(opened, plan, answer)


async def carry_out(
    runner: PlanRunner, plan: schema.Run, answer: Answer, *, proposed: bool = False
) -> schema.Run:
    """Run an approved plan, or tell the model that it was not approved.

    `proposed`: the runner's view has shown it already.
    """
    if answer.decision is schema.Decision.APPROVED:
        return await runner.run(plan, answer.by)
    if not proposed:
        # Without the note that it waits: it does no longer.
        runner.stream.emit(schema.PlanProposed(run=plan.model_copy(update={"notes": ()})))
    reason = f" My reason: {answer.reason.rstrip('.')}." if answer.reason else ""
    why = f" Your reason: {answer.reason}" if answer.reason else ""
    runner.conclude(DENIED + why, DENIED_NUDGE.format(reason=reason))
    async with run_lifecycle(runner.stream, runner.time_limits) as ending:
        ending.status, ending.reason = schema.RunStatus.CANCELLED, schema.StopReason.DENIED
    return runner.stream.run


async def ask_user(runner: StepMachine, plan: schema.Run) -> Answer | None:
    """Return the user's answer; None if nobody answers and the plan keeps waiting."""
    approvals = runner.context.approvals
    approval = approvals.open_plan(plan, plan_digest(plan.plan))

    def show(found: plans.Rehearsals) -> None:
        runner.stream.emit(schema.PlanRehearsed(rehearsals=found))

    try:
        runner.stream.emit(schema.PlanProposed(run=plan, approval_id=approval.id))
        async with plans.rehearsing(runner.context, plan.plan, show):
            await runner.context.asker.ask(approval)
            # Shielded, so that the question of a stopped cell is closed as expired.
            answer = await asyncio.shield(asyncio.wrap_future(approval.answer))
    except (NoFrontendError, asyncio.CancelledError):
        return None
    finally:
        approvals.expire(approval)
    return None if answer.decision is schema.Decision.EXPIRED else answer


async def _replace_draft(
    runner: PlanRunner, plan: schema.Run, steps: tuple[schema.PlanStep, ...]
) -> schema.Run:
    """Return the plan as the user changed it; the old one if the change cannot run."""
    try:
        clean = map(runner.stream.redactor.record, steps)
        return await plans.create_draft(runner.session, runner.context, plan, clean, changed=True)
    except AgentError as error:
        note = f"The changed plan cannot run, and this one stays: {error}"
        return plan.model_copy(update={"notes": (note,)})
