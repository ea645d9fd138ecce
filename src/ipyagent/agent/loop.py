"""The agent loop: ask the model, run its calls, repeat until it answers.

The loop's only output is its event stream; its only input on the way is the user's answer to an
approval. The session's conversation listens to the same events.
"""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from functools import cached_property

from ipyagent import errors, schema
from ipyagent.agent import budgets, prompts
from ipyagent.agent.answers import MOST_AGAIN, AnswerType, trace_answer, write_value
from ipyagent.agent.budgets import RunBudget
from ipyagent.agent.compaction import Compactor
from ipyagent.agent.plans import is_plan, only_look, planning_context
from ipyagent.agent.signs import (
    announces_actions,
    writes_calls,
)
from ipyagent.agent.step_machine import (
    RunEnding,
    RunTimeoutError,
    StepMachine,
    StreamedReply,
    run_lifecycle,
    stream_reply,
)
from ipyagent.llm.client import retrying
from ipyagent.numbers import TracedNumber
from ipyagent.plaintext import first_line

NOTHING_PENDING = (
    "No action is pending: steps were announced, but nothing was proposed that could be approved."
)

CALLS_AS_TEXT = (
    "The model wrote a tool call as text, so nothing was run: the server does not pass on this "
    "model's calls. Start it with the model's template for tools (llama.cpp: --jinja; vLLM: "
    "--enable-auto-tool-choice and --tool-call-parser), or choose another model."
)

STILL_PAUSED = "The service paused before the end of the answer. Ask it to go on."


_BUDGET_LABELS = {
    schema.StopReason.MAX_STEPS: "number of steps",
    schema.StopReason.MAX_SECONDS: "time",
}

_REPEATS = {prompts.GO_ON: 5}
"""How often a nudge is given in a run: others once."""
MOST_MALFORMED = 2
"""Calls in a row that no service could read, and that the model is asked to write again."""

_THOUGHT = 4_000
"""Characters at the end of a thought without an answer in which a call may stand."""

_INCONCLUSIVE = {schema.StopReason.FINISHED, schema.StopReason.EMPTY}
"""Stop reasons that matter less than that nobody was there to approve a call."""


@dataclass(frozen=True)
class UserPrompt:
    """The user's prompt; `context` is added for the model, from the files in `read` too.

    `validators` check the texts that the user adds to it while the run is on.
    """

    text: str
    context: prompts.Context
    trace_id: str
    notices: tuple[str, ...] = ()
    read: tuple[str, ...] = ()
    agent: str | None = None
    parent_id: str | None = None
    cell_id: str | None = None
    validators: tuple[prompts.Validator, ...] = prompts.VALIDATORS
    asked: schema.Asked | None = None


@dataclass
class AgentLoop(StepMachine):
    """One run of the agent. With `planning` it only proposes calls.

    `window` is the model's context in tokens, if that is known; `answer` the type of the answer;
    `check` returns the expectations of the cell, with what was found in the run.
    """

    system_prompt: str
    planning: bool = False
    window: int | None = None
    answer: AnswerType | None = None
    check: Callable[[schema.Run], Awaitable[tuple[schema.Expectation, ...]]] | None = None
    replayed: schema.Replayed | None = field(default=None, init=False)
    run_id: str = field(default_factory=lambda: uuid.uuid4().hex[:12], init=False)
    _unfinished: StreamedReply | None = field(default=None, init=False)
    unattended: list[str] = field(default_factory=list, init=False)
    """Reasons of calls that did not run because nobody could be asked."""
    has_differed: bool = field(default=False, init=False)
    """True once a replay has differed: approvals of the recording count no more."""
    _problem: str | None = field(default=None, init=False)
    _value: tuple[object, str] = field(default=(None, ""), init=False)
    _is_checked: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self._looking = self.context if self.planning else None
        if self.planning:
            self.context = planning_context(self.context)

    async def run(self, prompt: UserPrompt) -> schema.Run:
        """Answer a prompt. Never raises: every failure is recorded in the run."""
        self._start_run(prompt)
        async with run_lifecycle(self.stream, self.time_limits) as ending:
            try:
                async with self.run_limit():
                    with self._accept_texts(prompt):
                        ending.reason = await self._take_steps()
            except RunTimeoutError as error:
                ending.reason = error.reason
            run = self.stream.run
            if ending.reason in budgets.GRACEFUL_REASONS and (run.executions or run.unsent):
                await self._take_closing_step(ending.reason)
            self._explain_ending(ending)
            ending.numbers = self._trace_numbers()
            if self.check:
                end = {"status": ending.status, "stop_reason": ending.reason, "error": ending.error}
                run = self.stream.run.model_copy(update=end | {"value": ending.value})
                ending.expected = await self.check(run)
        return self.stream.run

    def _accept_texts(self, prompt: UserPrompt) -> contextlib.AbstractContextManager[None]:
        """Take texts of the user meanwhile; those for a child are for its parent."""
        if prompt.parent_id is not None:
            return contextlib.nullcontext()
        return self.context.approvals.steering.accept(self.stream, prompt.validators)

    def _start_run(self, prompt: UserPrompt) -> None:
        conversation, tools = self.session.conversation, self.context.toolbox.definitions()
        self.facts = prompt.context.facts
        context = prompt.context.write(conversation.context)
        run = schema.Run(
            id=self.run_id,
            session_id=self.session.id,
            trace_id=prompt.trace_id,
            agent=prompt.agent,
            parent_id=prompt.parent_id,
            cell_id=prompt.cell_id,
            prompt=prompt.text,
            context="\n".join(filter(None, (context, self._describe_planning()))),
            read=prompt.read,
            model=self.client.model,
            asked=prompt.asked,
            replayed=self.replayed,
            confirm_mode=self.config.agent.confirm_mode,
            max_steps=self.config.agent.max_steps,
            window=self.window or 0,
            verbose=self.config.logging.verbose,
        )
        known_prompt = self.system_prompt == conversation.newest_prompt
        self.stream.emit(
            schema.RunStarted(
                run=run,
                system_prompt=None if known_prompt else self.system_prompt,
                tools=None if tools == conversation.tools else tools,
            )
        )
        conversation.context = prompt.context.after(conversation.context)
        sent = len(conversation.exchange)
        warning = budgets.length_warning(sent, self.config.chat.max_messages)
        for text in filter(None, (*prompt.notices, warning)):
            self.stream.emit(schema.Notice(text=text))

    def _describe_planning(self) -> str:
        """Return how the model plans; "" if it does not."""
        if self._looking is None:
            return ""
        return prompts.PLANNING.format(looking=prompts.MAY_LOOK if self._looking.rehearsal else "")

    async def _take_steps(self) -> schema.StopReason:
        """Take steps until the model has answered or a budget is used up.

        An answer is not the last word while a text of the user waits.
        """
        nudge: str | None = None
        nudges: Counter[str] = Counter()
        malformed = 0
        while True:
            try:
                reply = await self._take_step(nudge)
            except errors.MalformedCallError as error:
                malformed += 1
                if malformed > MOST_MALFORMED or self._find_exhausted():
                    raise
                nudge = prompts.CALL_AGAIN.format(problem=f"{error} {error.advice}".strip())
                continue
            malformed = 0
            spent, unsent = self._find_exhausted(), self.stream.run.unsent
            if self.planning and is_plan(self.stream.run) and (spent or not unsent):
                return schema.StopReason.PLANNED
            nudge = None if reply.calls or spent or unsent else self._nudge_after(reply)
            count = nudges.total() if self.answer else nudges[nudge or ""]
            most = MOST_AGAIN if self.answer else 1
            is_used_up = nudge is None or count >= _REPEATS.get(nudge, most)
            if not reply.calls and not unsent and is_used_up:
                return self._accept_answer(reply, is_checked=nudge is None and not spent)
            if spent:
                return spent
            nudges.update(filter(None, [nudge]))

    def _find_exhausted(self) -> schema.StopReason | None:
        return budgets.find_exhausted(self.stream.run, self.config.agent)

    async def _take_step(self, nudge: str | None, *, closing: bool = False) -> StreamedReply:
        """Ask the model once and run its calls; raises StepTimeoutError."""
        with self.open_step(nudge, closing=closing) as step:
            try:
                if not closing:
                    await self._compactor.compact_if_needed(step)
                async with self.step_limit():
                    reply = await self._ask_model(step, closing=closing)
                    if reply.calls:
                        await self._run_tool_calls(step, reply, closing=closing)
                    return reply
            finally:
                self._emit_unfinished()

    async def _ask_model(self, step: int, *, closing: bool) -> StreamedReply:
        """Return the model's reply.

        Ask again after transient failures, without what was refused, and after compaction.
        """
        retry, is_compacted = self.config.llm.retry, False
        announce = self.retry_announcer(step, retry.max_retries)
        while True:
            try:
                reply: StreamedReply
                reply = await retrying(retry, announce)(self._receive_reply, step, closing)
                return reply
            except errors.HistoryRefusedError as error:
                self.stream.emit(schema.Notice(text=str(error)))
            except errors.ContextOverflowError:
                if is_compacted or not await self._compactor.compact_after_overflow(step):
                    raise
                is_compacted = True

    async def _receive_reply(self, step: int, closing: bool) -> StreamedReply:
        # The prefix is for calls that come without an id: unique in the session.
        prefix = f"{self.stream.run.id}_{step}"
        reply = StreamedReply(step, prefix, self.stream.redactor, self.client)
        self._unfinished = reply
        self.stream.emit(schema.MessageStarted(step=step))
        request = self.build_request(self.session.conversation.tools, may_call=not closing)
        request = replace(request, answer=getattr(self.answer, "format", None))
        await self.stream.wait_until_recorded()
        asking = stream_reply(self.client, self.session, request, self._budget)
        async with contextlib.aclosing(asking) as chunks:
            async for chunk in chunks:
                reply.add(chunk)
                if chunk.type == "content":
                    self.stream.emit(schema.MessageDelta(step=step, kind="text", text=chunk.data))
                elif chunk.type == "thinking":
                    self.stream.emit(
                        schema.MessageDelta(step=step, kind="thinking", text=chunk.data)
                    )
                elif chunk.type == "tool_call" and (piece := reply.read_written()):
                    self.stream.emit(piece)
        self.stream.end_reply()
        reply.complete()
        if self.answer:
            reply.take_answer()
        reply.make_ids_unique(self.session.conversation.call_ids)
        self._emit_reply(reply)
        if self.answer and not reply.calls:
            self._read_answer(self.answer, reply)
        return reply

    async def _run_tool_calls(self, step: int, reply: StreamedReply, *, closing: bool) -> None:
        """Run the reply's calls; in a closing step each only gets a result that says why not."""
        note = "not run: the run has used up its budget" if closing else None
        calls = [self.context.toolbox.redirect(call) for call in reply.calls]
        context = self.context
        if self._looking and not closing and await only_look(self._looking, calls):
            context = self._looking
        dispatcher = await self.run_calls(step, calls, context, skip_note=note)
        self.unattended += dispatcher.unattended_reasons

    async def _take_closing_step(self, budget: schema.StopReason) -> None:
        """Take a step without tools, so that a run over its budget ends with an answer."""
        nudge = prompts.CLOSING.format(budget=_BUDGET_LABELS[budget])
        try:
            async with asyncio.timeout(budgets.CLOSING_SECONDS):
                await self._take_step(nudge, closing=True)
        except (errors.AgentError, TimeoutError) as error:
            self.stream.emit(
                schema.Notice(text=f"The run ends without a last word: {error or 'no time'}")
            )

    def _nudge_after(self, reply: StreamedReply) -> str | None:
        """Return the nudge, given once, after a reply that is not an answer yet."""
        if reply.is_paused:
            return prompts.GO_ON
        if self.answer:
            return self.answer.ask_again(self._problem) if self._problem else None
        if reply.is_truncated:
            return prompts.CONTINUE
        if reply.lacks_calls or self._writes_calls(reply):
            return prompts.CALL_PROPERLY
        return prompts.CALL_NOW if self._announces_calls(reply) else self._ask_to_check_numbers()

    def _trace_numbers(self) -> tuple[TracedNumber, ...]:
        is_off = self.config.agent.numbers == "off"
        return () if is_off else trace_answer(self.stream.run, self.session)

    def _ask_to_check_numbers(self) -> str | None:
        """Return the request, made once, to check the numbers that are in no result."""
        is_program = getattr(self.client, "gives_up", False)
        if self._is_checked or is_program or self.config.agent.numbers != "ask":
            return None
        self._is_checked = True
        missing = [each.text for each in self._trace_numbers() if each.trace == "not found"]
        return prompts.CHECK_NUMBERS.format(numbers=", ".join(missing)) if missing else None

    def _read_answer(self, answer: AnswerType, reply: StreamedReply) -> None:
        """Keep the answer that a reply is, and the problem with one that is not of the type."""
        self._value, self._problem = (None, ""), None
        try:
            text = "" if reply.stop_reason is schema.StopReason.EMPTY else self.stream.run.output
            value = answer.read(text, is_cut=reply.is_truncated)
            self._value = value, write_value(value)
        except ValueError as error:
            self._problem = None if reply.is_withheld else str(error)

    def _writes_calls(self, reply: StreamedReply) -> bool:
        """Return whether a reply is a call as text, which some servers take for a thought."""
        message = reply.message
        text = (message.text.strip() or message.thinking[-_THOUGHT:]) if message else ""
        return writes_calls(text, self._offered_names())

    def _offered_names(self) -> set[str]:
        return {tool.name for tool in self.context.toolbox.offered_tools()}

    def _announces_calls(self, reply: StreamedReply) -> bool:
        called = {each.call.name for each in self.stream.run.executions}
        text = reply.message.text if reply.message else ""
        return announces_actions(text, self._offered_names(), called)

    def _accept_answer(self, reply: StreamedReply, *, is_checked: bool) -> schema.StopReason:
        """Accept the reply as the answer; `is_checked`: it was found to be one."""
        if self.answer:
            return schema.StopReason.ERROR if self._problem else reply.stop_reason
        if reply.is_truncated:
            self.stream.emit(
                schema.Notice(
                    text="The answer was cut at the model's limit of length; it is incomplete."
                )
            )
        if reply.is_paused:
            self._problem = STILL_PAUSED
        elif not is_checked and self._writes_calls(reply):
            self.stream.emit(schema.Notice(text=CALLS_AS_TEXT))
            self._problem = "The model's calls come as text, so none of them was run."
        elif not is_checked and self._announces_calls(reply):
            self.stream.emit(schema.Notice(text=NOTHING_PENDING))
        return reply.stop_reason

    def _explain_ending(self, ending: RunEnding) -> None:
        """Add a note if an answer does not mean that all is done."""
        ending.value, ending.value_text = self._value
        if self.answer and ending.reason is schema.StopReason.ERROR:
            ending.status = schema.RunStatus.ERROR
            ending.error = f"The answer is not {self.answer.name}: {self._problem}"
        if self.unattended and ending.reason in _INCONCLUSIVE:
            ending.reason, ending.error = schema.StopReason.UNATTENDED, self.unattended[0]
        elif ending.reason in _INCONCLUSIVE and self._problem:
            ending.reason, ending.error = schema.StopReason.ERROR, self._problem
        elif ending.reason is schema.StopReason.FINISHED and (failure := self._last_failure()):
            ending.reason, ending.error = schema.StopReason.ERROR, failure

    def _last_failure(self) -> str | None:
        """Return the error of a model that gave up at the first failure, if it did."""
        calls = self.stream.run.executions
        if not getattr(self.client, "gives_up", False) or not calls:
            return None
        last = calls[-1]
        if last.status is not schema.ToolStatus.FAILED or last.result is None:
            return None
        return f"{last.call.name} failed: {first_line(last.result.error or '')}"

    def _emit_unfinished(self) -> None:
        """Emit the part of a reply that came before it was cut off."""
        reply, self._unfinished = self._unfinished, None
        if reply is not None:
            reply.cut_off()
            if reply.message is not None or reply.usage.total_tokens:
                self._emit_reply(reply)

    def _emit_reply(self, reply: StreamedReply) -> None:
        self._unfinished = None
        self.stream.emit(reply.to_event(*self._compactor.take_usage()))

    @cached_property
    def _compactor(self) -> Compactor:
        parts = self.session, self.client, self.config, self.stream.emit, self._budget
        return Compactor(*parts, self.window)

    @cached_property
    def _budget(self) -> RunBudget:
        return RunBudget(
            lambda: self.stream.run,
            self.config.agent,
            lambda: (self._compactor.usage, self._compactor.cost_usd),
        )
