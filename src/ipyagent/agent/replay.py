"""The replay of a run: its recorded calls run again, in order, and no model comes in between.

    recording ─▶ unsigned approvals? asked about as one plan ─▶ step: what the model said, its calls
                                                                  │
                     ask · live · stop · keep ◀── different ──────┴── equal ─▶ next step

They pass the same dispatcher as a model's calls, with its checks, rules and rehearsals.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby

from typing_extensions import override

from ipyagent.agent.answers import write_value
from ipyagent.agent.loop import AgentLoop, UserPrompt
from ipyagent.agent.plan_runner import ask_user
from ipyagent.agent.plans import ApprovedStepPolicy, add_code, prepare_step
from ipyagent.agent.policy import CallPolicy, Effect
from ipyagent.agent.recordings import (
    Recording,
    find_difference,
    list_added,
    list_unchanged,
    reads_file,
)
from ipyagent.agent.step_machine import NOT_RUN, RunEnding
from ipyagent.agent.tool_context import ToolContext
from ipyagent.errors import AgentError
from ipyagent.llm.client import Client
from ipyagent.plaintext import join_some
from ipyagent.schema import (
    Block,
    ChildRun,
    DecidedBy,
    Decision,
    Message,
    MessageFinished,
    Notice,
    PlanStep,
    Replayed,
    Role,
    Run,
    RunStatus,
    Step,
    StopReason,
    ThinkingContent,
    ToolCall,
    ToolExecution,
    ToolStatus,
    UserTextsChanged,
)
from ipyagent.schema.runs import AS_DRAFT
from ipyagent.store.runs import plan_name

LIVE, KEEP, STOP = "Ask the model from here on", "Keep to the recording", "Stop here"
_ANSWERS = {LIVE: "live", KEEP: "keep"}

_ORIGIN = "The recorded calls of this cell were not approved by you in this folder, or were changed"
NOT_SIGNED = f"{_ORIGIN}. If you approve, exactly these calls run again."
NO_TOOL = "there is no such tool here; `agent.replay(run)` uses the tools of that agent"
NOT_APPROVED = (
    f"{_ORIGIN}. They have to be approved, and nobody could be asked: nothing was run. Run "
    "the cell where you can approve them, add --confirm yolo, or allow them by a rule."
)


@dataclass
class ReplayLoop(AgentLoop):
    """A run that repeats a recording. `connect` makes the client that goes on live.

    `is_attended`: the user can be asked what a difference leads to.
    """

    recording: Recording = field(kw_only=True)
    connect: Callable[[], Client] = field(kw_only=True)
    is_attended: bool = False
    _ending: RunEnding | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        run = self.recording.run
        at, model = run.started_at, run.model
        self.replayed = run.replayed or Replayed(run_id=run.id, recorded_at=at, model=model)

    @override
    async def run(self, prompt: UserPrompt) -> Run:
        """Repeat the recording. Never raises: every failure is recorded in the run."""
        try:
            await self._ask_about_unsigned(prompt)
        except AgentError as error:
            error_text = f"The recording cannot be repeated: {error}"
            self._ending = RunEnding(RunStatus.ERROR, StopReason.ERROR, error_text)
        run = await super().run(prompt)
        self._name_origin()
        return run

    def _name_origin(self) -> None:
        """Note that what was repeated came from elsewhere: later calls may be asked about."""
        if self.recording.origin:
            self.session.conversation.add_origins([self.recording.origin])

    async def _ask_about_unsigned(self, prompt: UserPrompt) -> None:
        """Ask about all calls at once if one needs an approval that is not signed.

        The calls of delegated tasks are among them, as far as they are recorded.
        """
        calls = self.recording.list_repeated(self.context.toolbox)
        is_task = prompt.parent_id is not None
        if is_task or not any(self._needs_approval(*each) for each in calls):
            return
        steps = await add_code(self.context, [PlanStep(call=each.call) for _, each in calls])
        named = (f"{self.run_id}_{number}" for number in range(1, len(steps) + 1))
        plan = tuple(prepare_step(self.context, *each) for each in zip(named, steps, strict=True))
        draft = Run(
            id=self.run_id,
            session_id=self.session.id,
            trace_id=prompt.trace_id,
            cell_id=prompt.cell_id,
            prompt=prompt.text,
            model=self.client.model,
            replayed=self.replayed,
            plan=plan,
            plan_id=plan_name(plan),
            max_steps=len(plan),
        ).model_copy(update={**AS_DRAFT, "notes": (NOT_SIGNED,)})
        answer = await ask_user(self, draft)
        if answer is None:
            self._ending = RunEnding(RunStatus.DONE, StopReason.UNATTENDED, NOT_APPROVED)
        elif answer.decision is not Decision.APPROVED or answer.plan is not None:
            self._ending = RunEnding(RunStatus.CANCELLED, StopReason.DENIED)
        else:
            for (_, each), step in zip(calls, plan, strict=True):
                self.recording.approved[each.call.id] = step, answer.by

    def _needs_approval(self, recording: Recording, execution: ToolExecution) -> bool:
        """Return whether the user must be asked about a call that is repeated."""
        call, toolbox = execution.call, self.context.toolbox
        if call.name not in toolbox or recording.is_approved(execution):
            return False
        tool = toolbox.get(call.name)
        verdict = self.context.policy.evaluate(tool, tool.check_arguments(call.arguments))
        looked = verdict.may_look and execution.decided_by is DecidedBy.REHEARSAL
        return verdict.effect is Effect.ASK and not looked

    @override
    async def _take_steps(self) -> StopReason:
        """Repeat the steps; go on live if a result differs and that is wanted."""
        if self._ending is not None:
            return self._ending.reason
        steps = self.recording.run.steps
        last = next((each for each in reversed(steps) if each.executions), None)
        for step in steps:
            # If calls follow a listing, they are compared by themselves; an answer is not.
            difference = await self._repeat(step, may_gain=step is not last)
            choice = difference and await self._choose(difference)
            if choice == "stop":
                return self._stop(difference or "")
            if choice == "live":
                return await self._go_live(difference or "")
            if difference:
                self.has_differed = True
                self.stream.emit(Notice(text=f"Kept to the recording, although {difference}."))
        return self._accept_recorded_answer()

    def _accept_recorded_answer(self) -> StopReason:
        """Read the answer, if it has a type."""
        if self.answer is None:
            return StopReason.FINISHED
        try:
            value = self.answer.read(self.stream.run.output, is_cut=False)
        except ValueError as error:
            self._problem = str(error)
            return StopReason.ERROR
        self._value = value, write_value(value)
        return StopReason.FINISHED

    async def _repeat(self, step: Step, *, may_gain: bool) -> str | None:
        """Repeat a step; return what is different in it. `may_gain`: more may be listed now."""
        if step.user_texts:
            self.stream.emit(UserTextsChanged(texts=step.user_texts))
        with self.open_step(closing=step.closing) as number:
            olds = {f"{self.run_id}_{number}_{n}": old for n, old in enumerate(step.executions, 1)}
            self._say(number, step, olds)
            # An approval is for that call, and for no other one that looks the same.
            parts = [dict(part) for _, part in groupby(olds.items(), self._is_approved)]
            try:
                async with self.step_limit():
                    while parts:
                        await self._repeat_calls(number, parts.pop(0))
            finally:
                for part in parts:
                    await self.run_calls(number, _rename_calls(part), skip_note=NOT_RUN)
        news = {each.call.id: each for each in self.stream.run.steps[-1].executions}
        for call_id, old in olds.items():
            place = f"step {number}, {old.call.name}"
            if may_gain and (added := list_added(old, news[call_id])):
                self.stream.emit(Notice(text=f"New since the recording: {join_some(added, 5)}."))
                continue
            names = list_unchanged(old, news[call_id])
            job = partial(self.recording.read_variables, names)
            unchanged = await asyncio.wrap_future(self.context.main.post(job)) if names else {}
            if (found := find_difference(old, news[call_id], unchanged)) is not None:
                if old.call.name not in self.context.toolbox:
                    return f"{place}: {NO_TOOL}"
                source = f" read {old.source}" if old.source else ""
                return f"{place}{source and ','}{source} gave another result: {found}"
        return None

    def _say(self, number: int, step: Step, olds: dict[str, ToolExecution]) -> None:
        """Emit the recorded reply, with the calls as they ran."""
        if step.message is None:
            return
        content: list[Block] = []
        for block in step.message.content:
            if isinstance(block, ThinkingContent):
                content.append(ThinkingContent(thinking=block.thinking))
            elif not isinstance(block, ToolCall):
                content.append(block)
        content += _rename_calls(olds)
        message = Message(
            role=Role.ASSISTANT,
            content=tuple(content),
            synthetic=step.message.synthetic,
            maker="a recording",
        )
        reason, seconds = step.finish_reason, step.thinking_seconds
        self.stream.emit(
            MessageFinished(
                step=number, message=message, finish_reason=reason, thinking_seconds=seconds
            )
        )

    def _context_of(self, olds: dict[str, ToolExecution]) -> ToolContext:
        """Return the context in which the calls of a step are repeated, or are not."""
        policy: CallPolicy = self.context.policy
        recorded = dict[str, ToolExecution]()
        for call_id, old in olds.items():
            reason = self.recording.reason_to_skip(old, self.context.toolbox)
            approved = self._is_approved((call_id, old))
            if reason is not None:
                recorded[call_id] = _keep(old, call_id, reason, approved=approved)
            elif approved:
                step = PlanStep(call=old.call, note=old.concern or "", code=old.code)
                given = self.recording.approved.get(old.call.id, (step, DecidedBy.RECORD))
                is_signed = old.call.id not in self.recording.approved
                changed = is_signed and self.recording.find_changed_file(old, olds.values())
                why = f"{changed} is not what it was" if changed else ""
                policy = ApprovedStepPolicy(policy, *given, objection=why)
        return replace(self.context, policy=policy, recorded=recorded)

    async def _repeat_calls(self, number: int, olds: dict[str, ToolExecution]) -> None:
        job = partial(self._context_of, olds)
        reads_files = any(map(reads_file, olds.values()))
        loop, threads = asyncio.get_running_loop(), self.context.threads
        context = await loop.run_in_executor(threads, job) if reads_files else job()
        await self.run_calls(number, _rename_calls(olds), context)

    def _is_approved(self, item: tuple[str, ToolExecution]) -> bool:
        return self.recording.is_approved(item[1], after_difference=self.has_differed)

    async def _choose(self, difference: str) -> str:
        """Return what a difference leads to: live, keep or stop."""
        choice = self.config.agent.on_difference
        if choice != "ask":
            return choice
        if not self.is_attended or "ask_user" not in self.context.toolbox:
            return "stop"
        with self.open_step() as number:
            question = f"The replay differs: {difference}. How should it go on?"
            arguments = {"question": question, "choices": [LIVE, KEEP, STOP]}
            call = ToolCall(id=f"{self.run_id}_{number}", name="ask_user", arguments=arguments)
            message = Message(role=Role.ASSISTANT, content=(call,), synthetic=True)
            self.stream.emit(MessageFinished(step=number, message=message))
            await self.run_calls(number, (call,))
        result = self.stream.run.executions[-1].result
        return _ANSWERS.get(result.output if result else "", "stop")

    def _stop(self, difference: str) -> StopReason:
        why = difference.rstrip(".")
        text = f"The replay stopped: {why}. Run the cell with --fresh to ask the model."
        self._ending = RunEnding(RunStatus.DONE, StopReason.DIFFERS, text)
        return StopReason.DIFFERS

    async def _go_live(self, difference: str) -> StopReason:
        """Let the model go on from here: the conversation so far is true."""
        self._name_origin()
        self.client = self.connect()
        self.stream.emit(Notice(text=f"From here on {self.client.model} answers: {difference}."))
        return await super()._take_steps()

    @override
    def _explain_ending(self, ending: RunEnding) -> None:
        if self._ending is None:
            super()._explain_ending(ending)
        else:
            ending.status, ending.error = self._ending.status, self._ending.error


def _rename(call: ToolCall, call_id: str) -> ToolCall:
    return call.model_copy(update={"id": call_id})


def _rename_calls(olds: dict[str, ToolExecution]) -> list[ToolCall]:
    return [_rename(old.call, call_id) for call_id, old in olds.items()]


def _keep(old: ToolExecution, call_id: str, reason: str, *, approved: bool) -> ToolExecution:
    """Return a call that is not run again, with its recorded result."""
    changes: dict[str, object] = {"call": _rename(old.call, call_id)}
    if old.result and old.result.child:  # what it spent then is not spent again
        child = ChildRun(runs=old.result.child.runs)
        changes["result"] = old.result.model_copy(update={"child": child})
    if old.status is not ToolStatus.DENIED and old.question is None:
        decision = Decision.APPROVED if approved else Decision.AUTO
        changes |= {"decision": decision, "decided_by": DecidedBy.RECORD, "reason": reason}
    return old.model_copy(update=changes)
