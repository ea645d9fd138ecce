"""Runs a plan that was approved: step by step, as it was shown, with no model in between.

    run ─┬─ step: the plan's call ─▶ its result
         ├─ step: tried again, as it was         (idempotent tools)
         ├─ step: a changed command, asked about  (tools that run commands)
         └─ closing step: what was done, in a sentence

The first step that fails for good is the last one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial

from ipyagent.agent import limits, repair
from ipyagent.agent.allowance import Budget
from ipyagent.agent.asking import ask
from ipyagent.agent.clock import Clock
from ipyagent.agent.dispatch import Calls, Dispatcher
from ipyagent.agent.ending import Ending, concluded
from ipyagent.agent.plan import Approved, tied_step
from ipyagent.agent.policy import Judge
from ipyagent.agent.reply import Reply
from ipyagent.agent.retries import announcing
from ipyagent.agent.session import Session
from ipyagent.agent.stream import EventStream
from ipyagent.config import Config, RetryConfig
from ipyagent.errors import AgentError, StepTimeoutError
from ipyagent.llm.client import Client, ModelRequest
from ipyagent.llm.retry import delay, retrying
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
    StepFinished,
    StepStarted,
    StopReason,
    TokenUsage,
    ToolCall,
    ToolExecution,
    ToolStatus,
)
from ipyagent.schema.base import now
from ipyagent.schema.progress import progress
from ipyagent.tools.base import Tool

RETRY = RetryConfig(max_retries=2, initial_delay=0.5, max_delay=5.0)
"""How often a step is tried again, and what is waited before."""

IN_BACKGROUND = "Approved to run in the background; `%agent stop` stops it."

SHORT = 300
"""Characters of an error that are said in passing."""


@dataclass
class PlanRunner:
    """Runs one plan, or says why it is not run."""

    config: Config
    session: Session
    client: Client
    dispatcher: Dispatcher
    stream: EventStream
    leave: Callable[[], object] = lambda: None
    """Frees the view of a plan that goes on waiting."""
    retry: RetryConfig = RETRY
    release: Callable[[Run], object] | None = None
    """Lets the cell end while the plan runs on in the background; None where it is not to."""
    _clock: Clock = field(default_factory=Clock, init=False)

    async def run(self, plan: Run, by: DecidedBy) -> Run:
        """Run a plan that the journal has queued and `by` has approved. Never raises."""
        running = {"status": RunStatus.RUNNING, "started_at": now()}
        self.stream.emit(RunStarted(run=plan.model_copy(update=running)))
        if self.release and tied_step(self.dispatcher.toolbox, plan.plan) is None:
            self.stream.emit(Notice(text=IN_BACKGROUND))
            self.release(self.stream.run)
        return await concluded(self.stream, partial(self._work, plan.plan, by), self._summarise)

    def conclude(self, text: str, nudge: str | None = None) -> None:
        """Say `text` as the last step."""
        number = len(self.stream.run.steps) + 1
        message = Message.of(Role.ASSISTANT, text, synthetic=True)
        self.stream.emit(StepStarted(step=number, closing=True, nudge=nudge))
        self.stream.emit(MessageFinished(step=number, message=message))
        self.stream.emit(StepFinished(step=number))

    async def _work(self, steps: Sequence[PlanStep], by: DecidedBy) -> Ending:
        try:
            async with self._clock.limit(self.config.agent.max_seconds) as clock:
                return await self._steps(steps, by)
        except TimeoutError:
            if not clock.expired():
                raise
            return RunStatus.DONE, StopReason.MAX_SECONDS, None

    async def _steps(self, steps: Sequence[PlanStep], by: DecidedBy) -> Ending:
        for number, step in enumerate(steps, 1):
            execution = await self._carry_out(step, by)
            if execution.status is not ToolStatus.SUCCESS:
                return _failure(number, execution)
        return RunStatus.DONE, StopReason.FINISHED, None

    async def _carry_out(self, step: PlanStep, by: DecidedBy) -> ToolExecution:
        """The call that decides about the step: the one that succeeded, or failed last."""
        approved = Approved(self.dispatcher.policy, step, by)
        async with self._step() as number:
            execution = await self._call(number, step.call, approved)
        tried = [step.call]
        while _ran_and_failed(execution) and len(tried) <= self.retry.max_retries:
            tool = self.dispatcher.toolbox.get(step.call.name)
            is_last = len(tried) == self.retry.max_retries
            if repair.command_of(tool, step.call) and (is_last or not tool.idempotent):
                another = await self._try_changed(tool, tried)
            elif tool.idempotent:
                another = await self._try_again(tried, approved, execution)
            else:
                break
            if another is None or another.started_at is None:
                break
            execution = another
            tried.append(execution.call)
        return execution

    async def _try_again(
        self, tried: Sequence[ToolCall], judge: Judge, failed: ToolExecution
    ) -> ToolExecution:
        attempt = len(tried)
        seconds = delay(attempt - 1, self.retry)
        async with self._step() as number:
            announce = announcing(self.stream.emit, number, self.retry.max_retries)
            announce(attempt, seconds, f"{failed.call.name} failed: {_error(failed)}")
            await asyncio.sleep(seconds)
            call = tried[0].model_copy(update={"id": _next_id(tried)})
            return await self._call(number, call, judge)

    async def _try_changed(self, tool: Tool, tried: Sequence[ToolCall]) -> ToolExecution | None:
        """A call with another command that a person approved; None where there is none."""
        # Steps cost nothing here; what a model is asked costs tokens.
        budget = self.config.agent.model_copy(update={"max_steps": len(self.stream.run.steps) + 1})
        if limits.reached(self.stream.run, budget):
            return None
        ask = repair.ASK.format(tool=tool.name, argument=tool.command)
        async with self._step(ask) as number:
            reply = await self._proposal(number, tool)
            if reply is None or reply.message is None:
                return None
            reply.message = repair.named(reply.message, tool, tried[0], _next_id(tried))
            self.stream.emit(reply.finished(TokenUsage(), None))
            if not reply.calls:
                return None
            objection = repair.objection(tool, reply.calls, tried)
            judge = repair.Changed(self.dispatcher.policy, objection)
            return await self._calls(number, reply.calls, judge)

    async def _proposal(self, number: int, tool: Tool) -> Reply | None:
        """What the model says to a step that failed; None where it cannot be asked."""
        said, retry = self.session.conversation, self.config.llm.retry
        request = ModelRequest(
            (Message.of(Role.SYSTEM, said.system_prompt), *said.messages),
            (tool.definition(),),
            trace_id=self.stream.run.trace_id,
        )

        async def proposal() -> Reply:
            prefix = f"{self.stream.run.id}_{number}"
            reply = Reply(number, prefix, self.stream.redactor)
            budget = Budget(lambda: self.stream.run, self.config.agent)
            async with aclosing(ask(self.client, self.session, request, budget)) as chunks:
                async for chunk in chunks:
                    reply.add(chunk)
            reply.complete()
            return reply

        announce = announcing(self.stream.emit, number, retry.max_retries)
        try:
            reply: Reply = await retrying(retry, announce)(proposal)
        except AgentError as error:
            self.stream.emit(Notice(text=f"No other command could be asked for: {error}"))
            return None
        return reply

    @asynccontextmanager
    async def _step(self, nudge: str | None = None) -> AsyncIterator[int]:
        """One step of the run, by its number; raises StepTimeoutError."""
        number, seconds = len(self.stream.run.steps) + 1, self.config.agent.step_seconds
        self.stream.emit(StepStarted(step=number, nudge=nudge))
        try:
            async with self._clock.limit(seconds) as clock:
                yield number
        except TimeoutError:
            if seconds is None or not clock.expired():
                raise
            raise StepTimeoutError(seconds) from None
        finally:
            self.stream.emit(StepFinished(step=number))

    async def _call(self, number: int, call: ToolCall, judge: Judge) -> ToolExecution:
        message = Message(role=Role.ASSISTANT, content=(call,), synthetic=True)
        self.stream.emit(MessageFinished(step=number, message=message))
        return await self._calls(number, (call,), judge)

    async def _calls(self, number: int, calls: Sequence[ToolCall], judge: Judge) -> ToolExecution:
        """Run them as far as `judge` lets them; the first of them as it ended."""
        work = Calls(replace(self.dispatcher, policy=judge), number, calls, self._clock)
        try:
            await work.run()
        finally:
            work.close("not run: the run ended", interrupted=not self._clock.expired)
        return self.stream.run.steps[-1].executions[0]

    def _summarise(self, ending: Ending) -> None:
        """End with a sentence about what was done, so that the next prompt knows it too."""
        plan, states, error = self.stream.run.plan, progress(self.stream.run), ending[2]
        done, begun = states.count(ToolStatus.SUCCESS), len(plan) - states.count(ToolStatus.PENDING)
        parts = [f"{done} of {len(plan)} step{'s' if len(plan) != 1 else ''} done."]
        if error:
            parts.append(f"{error[0].upper()}{error[1:].rstrip('.')}.")
        elif done < begun:
            parts.append(f"{_named(plan, begun - 1).capitalize()} did not end.")
        if left := [_named(plan, index) for index in range(begun, len(plan))]:
            parts.append(f"Not run: {', '.join(left)}.")
        self.conclude(" ".join(parts))


def _ran_and_failed(execution: ToolExecution) -> bool:
    failed = execution.status is ToolStatus.FAILED and execution.started_at is not None
    return failed and (execution.result is None or execution.result.repeatable)


def _failure(number: int, execution: ToolExecution) -> Ending:
    """How a run ends whose step did not succeed."""
    step = f"step {number} ({execution.call.name})"
    if execution.status is ToolStatus.DENIED and execution.decided_by is not DecidedBy.POLICY:
        return RunStatus.CANCELLED, StopReason.DENIED, f"{step} was denied"
    return RunStatus.ERROR, StopReason.ERROR, f"{step} failed: {_error(execution)}"


def _error(execution: ToolExecution) -> str:
    """What went wrong, in a line that ends with a stop."""
    said = (execution.result and execution.result.error) or str(execution.status)
    lines = [line for line in said.splitlines() if line.strip()]
    return lines[0][:SHORT].rstrip(".") + "."


def _next_id(tried: Sequence[ToolCall]) -> str:
    """X, X.2, X.3: by its first part it is known which step of the plan a call carries out."""
    return f"{tried[0].id}.{len(tried) + 1}"


def _named(plan: Sequence[PlanStep], index: int) -> str:
    return f"step {index + 1} ({plan[index].call.name})"
