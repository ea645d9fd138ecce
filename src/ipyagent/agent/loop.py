"""The loop: ask the model, run what it calls, until it answers.

The loop's only output is its event stream; the only thing that travels in is a person's answer to
an approval. What is said is in the session's conversation, which listens to the same events.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import uuid
from dataclasses import dataclass, field
from functools import cached_property

from ipyagent.agent import limits
from ipyagent.agent.allowance import Budget
from ipyagent.agent.asking import ask
from ipyagent.agent.clock import Clock
from ipyagent.agent.compaction import Compactor
from ipyagent.agent.context import CALL_NOW, CLOSING, CONTINUE, PLANNING
from ipyagent.agent.dispatch import Calls, Dispatcher
from ipyagent.agent.ending import Ending, concluded
from ipyagent.agent.phantom import announces
from ipyagent.agent.plan import is_plan, unrun
from ipyagent.agent.reply import Reply
from ipyagent.agent.retries import announcing
from ipyagent.agent.session import Session
from ipyagent.agent.stream import EventStream
from ipyagent.config import Config
from ipyagent.errors import (
    AgentError,
    ContextOverflowError,
    StepTimeoutError,
)
from ipyagent.llm.client import Client, ModelRequest
from ipyagent.llm.retry import retrying
from ipyagent.schema import (
    Message,
    MessageDelta,
    MessageStarted,
    Notice,
    Role,
    Run,
    RunStarted,
    RunStatus,
    StepFinished,
    StepStarted,
    StopReason,
    ToolCall,
    ToolStatus,
)
from ipyagent.schema.messages import exchange

NOTHING_PENDING = (
    "No action is pending: steps were announced, but nothing was proposed that could be approved."
)


@dataclass
class Loop:
    """One run of the agent. `planning`: it proposes calls, and none of them is run."""

    config: Config
    session: Session
    client: Client
    system_prompt: str
    dispatcher: Dispatcher
    stream: EventStream
    planning: bool = False
    _clock: Clock = field(default_factory=Clock, init=False)
    _unfinished: Reply | None = field(default=None, init=False)
    _unattended: list[str] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        if self.planning:
            self.dispatcher = unrun(self.dispatcher)

    @cached_property
    def _compactor(self) -> Compactor:
        return Compactor(self.session, self.client, self.config, self.stream.emit, self._budget)

    @cached_property
    def _budget(self) -> Budget:
        return Budget(
            lambda: self.stream.run,
            self.config.agent,
            lambda: (self._compactor.usage, self._compactor.cost_usd),
        )

    async def run(
        self,
        prompt: str,
        context: str,
        *,
        notices: tuple[str, ...] = (),
        agent: str | None = None,
        cell_id: str | None = None,
        trace_id: str,
    ) -> Run:
        """Answer `prompt`; `context` is what the model is told beside it.

        Never raises: whatever goes wrong is in the run.
        """
        run = Run(
            id=uuid.uuid4().hex[:12],
            session_id=self.session.id,
            trace_id=trace_id,
            agent=agent,
            cell_id=cell_id,
            prompt=prompt,
            context="\n".join(filter(None, (context, PLANNING if self.planning else ""))),
            model=self.client.model,
            confirm_mode=self.config.agent.confirm_mode,
            max_steps=self.config.agent.max_steps,
            verbose=self.config.logging.verbose,
        )
        self._begin(run, notices)
        return await concluded(self.stream, self._work)

    def _begin(self, run: Run, notices: tuple[str, ...]) -> None:
        said, prompt = self.session.conversation, self.system_prompt
        tools = self.dispatcher.toolbox.definitions()
        self.stream.emit(
            RunStarted(
                run=run,
                system_prompt=None if prompt == said.newest_prompt else prompt,
                tools=None if tools == said.tools else tools,
            )
        )
        sent = len(exchange(said.messages))
        crowded = limits.crowded(sent, self.config.chat.max_messages)
        for text in filter(None, (*notices, crowded)):
            self.stream.emit(Notice(text=text))

    async def _work(self) -> Ending:
        """Take steps until the model has answered or a budget is used up."""
        try:
            async with self._clock.limit(self.config.agent.max_seconds) as clock:
                reason = await self._steps()
        except TimeoutError:
            if not clock.expired():
                raise
            reason = StopReason.MAX_SECONDS
        if reason in limits.GRACEFUL and self.stream.run.executions:
            await self._last_word(reason)
        if self._unattended and reason in _SAYS_NOTHING:
            return RunStatus.DONE, StopReason.UNATTENDED, self._unattended[0]
        if reason is StopReason.FINISHED and (failure := self._failure()):
            return RunStatus.DONE, StopReason.ERROR, failure
        return RunStatus.DONE, reason, None

    def _failure(self) -> str | None:
        """Why a model that gives up at the first failure has not done what was asked for."""
        calls = self.stream.run.executions
        if not getattr(self.client, "gives_up", False) or not calls:
            return None
        last = calls[-1]
        if last.status is not ToolStatus.FAILED or last.result is None:
            return None
        return f"{last.call.name} failed: {(last.result.error or '').splitlines()[0]}"

    async def _steps(self) -> StopReason:
        nudge: str | None = None
        said: set[str] = set()
        for step in itertools.count(1):
            reply = await self._step(step, nudge)
            if self.planning and is_plan(self.stream.run):
                return StopReason.PLANNED
            spent = limits.reached(self.stream.run, self.config.agent)
            reminder = None if reply.calls or spent else self._reminder(reply)
            if not reply.calls and (reminder is None or reminder in said):
                return self._answered(reply)
            if spent:
                return spent
            nudge = reminder
            said |= {reminder} if reminder else set()
        raise AssertionError("count() never ends")

    def _reminder(self, reply: Reply) -> str | None:
        """What the model is told, once, after a reply that is not an answer yet."""
        if reply.was_cut:
            return CONTINUE
        return CALL_NOW if self._announces(reply) else None

    def _announces(self, reply: Reply) -> bool:
        offered = {tool.name for tool in self.dispatcher.toolbox}
        called = {each.call.name for each in self.stream.run.executions}
        text = reply.message.text if reply.message else ""
        return announces(text, offered, called)

    def _answered(self, reply: Reply) -> StopReason:
        if reply.was_cut:
            self.stream.emit(
                Notice(text="The answer was cut at the model's limit of length; it is incomplete.")
            )
        if self._announces(reply):
            self.stream.emit(Notice(text=NOTHING_PENDING))
        return reply.reason

    async def _last_word(self, budget: StopReason) -> None:
        """One step without tools, so that a run that has used up its budget ends with an answer."""
        step = len(self.stream.run.steps) + 1
        nudge = CLOSING.format(budget=_BUDGETS[budget])
        try:
            async with asyncio.timeout(limits.CLOSING_SECONDS):
                await self._step(step, nudge, closing=True)
        except (AgentError, TimeoutError) as error:
            self.stream.emit(Notice(text=f"The run ends without a last word: {error or 'no time'}"))

    async def _step(self, step: int, nudge: str | None, *, closing: bool = False) -> Reply:
        """Ask once, and run what the reply calls; raises StepTimeoutError."""
        seconds = self.config.agent.step_seconds
        self.stream.emit(StepStarted(step=step, closing=closing, nudge=nudge))
        try:
            if not closing:
                await self._compactor.make_room(step)
            async with self._clock.limit(seconds) as clock:
                reply = await self._ask(step, closing)
                if reply.calls:
                    await self._act(step, reply.calls, closing)
                return reply
        except TimeoutError:
            if seconds is None or not clock.expired():
                raise
            raise StepTimeoutError(seconds) from None
        finally:
            self._keep_unfinished()
            self.stream.emit(StepFinished(step=step))

    async def _ask(self, step: int, closing: bool) -> Reply:
        """The model's reply; where the conversation is too long for it, to a shorter one."""
        try:
            return await self._attempts(step, closing)
        except ContextOverflowError:
            if not await self._compactor.squeeze(step):
                raise
            return await self._attempts(step, closing)

    async def _attempts(self, step: int, closing: bool) -> Reply:
        """The model's reply; transient failures are tried again, the tools that ran are not."""
        retry = self.config.llm.retry
        announce = announcing(self.stream.emit, step, retry.max_retries)
        reply: Reply = await retrying(retry, announce)(self._stream_reply, step, closing)
        return reply

    async def _stream_reply(self, step: int, closing: bool) -> Reply:
        # The prefix is for calls that come without an id: unique in the session.
        prefix = f"{self.stream.run.id}_{step}"
        reply = self._unfinished = Reply(step, prefix, self.stream.redactor)
        self.stream.emit(MessageStarted(step=step))
        asking = ask(self.client, self.session, self._request(closing), self._budget)
        async with contextlib.aclosing(asking) as chunks:
            async for chunk in chunks:
                reply.add(chunk)
                if chunk.type == "content":
                    self.stream.emit(MessageDelta(step=step, kind="text", text=chunk.data))
                elif chunk.type == "thinking":
                    self.stream.emit(MessageDelta(step=step, kind="thinking", text=chunk.data))
        reply.complete()
        said = self.session.conversation.messages
        reply.rename({call.id for message in said for call in message.tool_calls})
        self._keep(reply)
        return reply

    def _request(self, closing: bool) -> ModelRequest:
        said = self.session.conversation
        return ModelRequest(
            (Message.of(Role.SYSTEM, said.system_prompt), *said.messages),
            said.tools,
            may_call=not closing,
            trace_id=self.stream.run.trace_id,
        )

    def _keep_unfinished(self) -> None:
        """What a model had said when it was cut off is kept."""
        reply, self._unfinished = self._unfinished, None
        if reply is not None:
            reply.break_off()
            if reply.message is not None or reply.usage.total_tokens:
                self._keep(reply)

    def _keep(self, reply: Reply) -> None:
        self._unfinished = None
        self.stream.emit(reply.finished(*self._compactor.settle()))

    async def _act(self, step: int, calls: tuple[ToolCall, ...], closing: bool) -> None:
        """Run the calls; they have their results whatever happens meanwhile."""
        work = Calls(self.dispatcher, step, calls, self._clock)
        note = "not run: the run has used up its budget" if closing else "not run: the run ended"
        try:
            if not closing:
                await work.run()
        finally:
            work.close(note, interrupted=not self._clock.expired)
            self._unattended += work.unattended


_SAYS_NOTHING = {StopReason.FINISHED, StopReason.EMPTY}
"""Reasons that matter less than that nobody was there to approve what was needed."""

_BUDGETS = {StopReason.MAX_STEPS: "number of steps", StopReason.MAX_SECONDS: "time"}
