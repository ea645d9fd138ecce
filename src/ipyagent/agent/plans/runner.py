"""Runs an approved plan: step by step, as it was shown, without a model in between.

    run ─┬─ step: the plan's call ─▶ its result
         ├─ step: tried again, as it was         (idempotent tools)
         ├─ step: a changed command, asked about  (tools that run commands)
         └─ closing step: a sentence about the outcome

The first step that fails for good is the last one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, replace

from ipyagent.agent import budgets
from ipyagent.agent.budgets import RunBudget
from ipyagent.agent.lifecycle import RunEnding, run_lifecycle
from ipyagent.agent.plans import command_repair
from ipyagent.agent.plans.draft import ApprovedStepPolicy, notebook_step
from ipyagent.agent.policy import CallPolicy
from ipyagent.agent.reply_stream import StreamedReply, stream_reply
from ipyagent.agent.step_machine import StepMachine
from ipyagent.config import RetryConfig
from ipyagent.errors import AgentError
from ipyagent.llm.retry import delay, retrying
from ipyagent.phrases import plural
from ipyagent.schema import (
    DecidedBy,
    Message,
    MessageFinished,
    Notice,
    PlanStep,
    Role,
    Run,
    RunStarted,
    RunStatus,
    StopReason,
    TokenUsage,
    ToolCall,
    ToolExecution,
    ToolStatus,
)
from ipyagent.schema.base import now
from ipyagent.schema.state import progress
from ipyagent.tools.base import Tool

STEP_RETRY = RetryConfig(max_retries=2, initial_delay=0.5, max_delay=5.0)
"""Retries of a step, and the delays between them."""

IN_BACKGROUND = "Approved to run in the background; `%agent stop` stops it."

MAX_ERROR_LENGTH = 300
"""Characters of an error in a short message."""


@dataclass
class PlanRunner(StepMachine):
    """Runs one plan, or says why it does not run."""

    retry: RetryConfig = STEP_RETRY
    release: Callable[[Run], object] | None = None
    """Lets the cell end while the plan runs in the background; None if it must not."""

    async def run(self, plan: Run, by: DecidedBy) -> Run:
        """Run a plan that the journal has queued and `by` has approved. Never raises."""
        running = {"status": RunStatus.RUNNING, "started_at": now()}
        self.stream.emit(RunStarted(run=plan.model_copy(update=running)))
        if self.release and notebook_step(self.context.toolbox, plan.plan) is None:
            self.stream.emit(Notice(text=IN_BACKGROUND))
            self.release(self.stream.run)
        async with run_lifecycle(self.stream, self._summarize) as ending, self.run_limit():
            await self._take_steps(plan.plan, by, ending)
        return self.stream.run

    def conclude(self, text: str, nudge: str | None = None) -> None:
        """Add `text` as the last step."""
        message = Message.of(Role.ASSISTANT, text, synthetic=True)
        with self.open_step(nudge, closing=True) as number:
            self.stream.emit(MessageFinished(step=number, message=message))

    async def _take_steps(
        self, steps: Sequence[PlanStep], by: DecidedBy, ending: RunEnding
    ) -> None:
        for number, step in enumerate(steps, 1):
            execution = await self._carry_out(step, by)
            if execution.status is not ToolStatus.SUCCESS:
                _set_failure(ending, number, execution)
                return

    async def _carry_out(self, step: PlanStep, by: DecidedBy) -> ToolExecution:
        """Run the step; return the call that succeeded, or the last one that failed."""
        policy = ApprovedStepPolicy(self.context.policy, step, by)
        async with self._timed_step() as number:
            execution = await self._run_planned_call(number, step.call, policy)
        tried = [step.call]
        while _ran_and_failed(execution) and len(tried) <= self.retry.max_retries:
            tool = self.context.toolbox.get(step.call.name)
            is_last = len(tried) == self.retry.max_retries
            if command_repair.command_of(tool, step.call) and (is_last or not tool.idempotent):
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
        self, tried: Sequence[ToolCall], policy: CallPolicy, failed: ToolExecution
    ) -> ToolExecution:
        attempt = len(tried)
        seconds = delay(attempt - 1, self.retry)
        async with self._timed_step() as number:
            announce = self.retry_announcer(number, self.retry.max_retries)
            announce(attempt, seconds, f"{failed.call.name} failed: {_error_line(failed)}")
            await asyncio.sleep(seconds)
            call = tried[0].model_copy(update={"id": _next_id(tried)})
            return await self._run_planned_call(number, call, policy)

    async def _try_changed(self, tool: Tool, tried: Sequence[ToolCall]) -> ToolExecution | None:
        """Run a changed call that the user approved; None if there is none."""
        # Steps cost nothing here; requests to a model do.
        budget = self.config.agent.model_copy(update={"max_steps": len(self.stream.run.steps) + 1})
        if budgets.find_exhausted(self.stream.run, budget):
            return None
        nudge = command_repair.CHANGE_REQUEST.format(tool=tool.name, argument=tool.command)
        async with self._timed_step(nudge) as number:
            reply = await self._request_proposal(number, tool)
            if reply is None or reply.message is None:
                return None
            reply.message = command_repair.normalize_reply(
                reply.message, tool, tried[0], _next_id(tried)
            )
            self.stream.emit(reply.to_event(TokenUsage(), None))
            if not reply.calls:
                return None
            objection = command_repair.find_objection(tool, reply.calls, tried)
            policy = command_repair.ChangedCallPolicy(self.context.policy, objection)
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
            self.stream.emit(Notice(text=f"No other command could be asked for: {error}"))
            return None
        return reply

    @asynccontextmanager
    async def _timed_step(self, nudge: str | None = None) -> AsyncIterator[int]:
        """Take the next step, within its time; raises StepTimeoutError."""
        with self.open_step(nudge) as number:
            async with self.step_limit():
                yield number

    async def _run_planned_call(
        self, number: int, call: ToolCall, policy: CallPolicy
    ) -> ToolExecution:
        message = Message(role=Role.ASSISTANT, content=(call,), synthetic=True)
        self.stream.emit(MessageFinished(step=number, message=message))
        return await self._run_calls_under(number, (call,), policy)

    async def _run_calls_under(
        self, number: int, calls: Sequence[ToolCall], policy: CallPolicy
    ) -> ToolExecution:
        """Run the calls that `policy` allows; return the first of them with its result."""
        await self.run_calls(number, calls, replace(self.context, policy=policy))
        return self.stream.run.steps[-1].executions[0]

    def _summarize(self, ending: RunEnding) -> None:
        """End with a sentence about the outcome, so that the next prompt knows it too."""
        plan, states, error = self.stream.run.plan, progress(self.stream.run), ending.error
        done, begun = states.count(ToolStatus.SUCCESS), len(plan) - states.count(ToolStatus.PENDING)
        parts = [f"{done} of {plural(len(plan), 'step')} done."]
        if error:
            parts.append(f"{error[0].upper()}{error[1:].rstrip('.')}.")
        elif done < begun:
            parts.append(f"{_step_label(plan, begun - 1).capitalize()} did not end.")
        if left := [_step_label(plan, index) for index in range(begun, len(plan))]:
            parts.append(f"Not run: {', '.join(left)}.")
        self.conclude(" ".join(parts))


def _ran_and_failed(execution: ToolExecution) -> bool:
    failed = execution.status is ToolStatus.FAILED and execution.started_at is not None
    return failed and (execution.result is None or execution.result.repeatable)


def _set_failure(ending: RunEnding, number: int, execution: ToolExecution) -> None:
    """Set how a run ends whose step failed."""
    step = f"step {number} ({execution.call.name})"
    if execution.status is ToolStatus.DENIED and execution.decided_by is not DecidedBy.POLICY:
        ending.status, ending.reason = RunStatus.CANCELLED, StopReason.DENIED
        ending.error = f"{step} was denied"
    else:
        ending.status, ending.reason = RunStatus.ERROR, StopReason.ERROR
        ending.error = f"{step} failed: {_error_line(execution)}"


def _error_line(execution: ToolExecution) -> str:
    """Return the error in one line that ends with a full stop."""
    error = (execution.result and execution.result.error) or str(execution.status)
    lines = [line for line in error.splitlines() if line.strip()]
    return lines[0][:MAX_ERROR_LENGTH].rstrip(".") + "."


def _next_id(tried: Sequence[ToolCall]) -> str:
    """Return X, X.2, X.3, …: the first part names the plan's step that a call carries out."""
    return f"{tried[0].id}.{len(tried) + 1}"


def _step_label(plan: Sequence[PlanStep], index: int) -> str:
    return f"step {index + 1} ({plan[index].call.name})"
