"""From a model's call to its one result: check, preview, approval, execution.

Looking is free: a call that changes nothing on a copy of the kernel is not asked about. A question
is drawn only when there is one, and then stays until it is answered.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ipyagent import schema
from ipyagent.agent.approvals import Answer
from ipyagent.agent.budgets import TimeLimits
from ipyagent.agent.call_checks import CheckedCall, Comparison, check_call, group_calls
from ipyagent.agent.policy import Effect
from ipyagent.agent.tool_context import ToolContext, ToolTask, tell_output
from ipyagent.errors import AgentError, ApprovalExpiredError, JournalError, NoFrontendError
from ipyagent.json_types import JsonDict
from ipyagent.tools.base import Tool, get_command
from ipyagent.tools.rehearsed import RehearsalContext, Rehearsed
from ipyagent.tools.result_conversion import error_result

if TYPE_CHECKING:
    from ipyagent.tools.rehearsal import Rehearser

_PATIENCE = 0.4
"""Seconds that a question which comes in any case waits for the effects that it shows."""
_REASONS = {
    schema.RehearsalOutcome.LOOKED: "looked · ran on a copy, nothing changed",
    schema.RehearsalOutcome.ADOPTED: "looked · ran on a copy, its variables were taken over",
    schema.RehearsalOutcome.FAILED: "looked · ran on a copy and failed, nothing changed",
}


@dataclass
class PendingRehearsal:
    """The rehearsal of one call, which may make the question about it unnecessary."""

    rehearser: Rehearser
    code: str
    asks_meanwhile: bool
    """True: the user is asked while it goes on."""
    task: asyncio.Future[Sequence[Rehearsed]]
    _is_over: bool = False

    @classmethod
    def begin(cls, tool: Tool, arguments: JsonDict, context: RehearsalContext) -> PendingRehearsal:
        """Begin to rehearse a call of a tool that can be rehearsed."""
        assert tool.make_rehearser is not None  # noqa: S101
        rehearser, code = tool.make_rehearser(), get_command(arguments, tool.command or "") or ""
        beside = context.beside_question() if rehearser.asks_at_once(arguments) else None
        keeps = bool(arguments.get("keep"))
        trying = rehearser.rehearse((code,), beside or context, keeps=keeps)
        return cls(rehearser, code, beside is not None, asyncio.ensure_future(trying))

    @property
    def finding(self) -> Rehearsed | None:
        """The rehearsal and its result; None while it goes on, and once it is of no use."""
        task = self.task
        has_result = task.done() and not task.cancelled() and not self._is_over
        return task.result()[0] if has_result else None

    @property
    def answer(self) -> Answer | None:
        """The answer that makes the question unnecessary, if there is one by now."""
        finding = self.finding
        if finding is None or finding.result is None:
            return None
        reason, left = _REASONS[finding.rehearsal.outcome], ", ".join(finding.rehearsal.left)
        reason += f"; left on the copy: {left}" if left else ""
        return Answer(schema.Decision.AUTO, schema.DecidedBy.REHEARSAL, reason)

    async def wait(self) -> None:
        """Wait until it has ended; where the user is asked meanwhile, only for a moment."""
        await asyncio.wait([self.task], timeout=_PATIENCE if self.asks_meanwhile else None)

    def end(self) -> None:
        """End it if it still goes on; what it found is of no use any more."""
        self._is_over = True
        self.task.cancel()

    def result(self) -> schema.ToolResult:
        """Return the call's result, on the main thread; raises AgentError."""
        assert self.finding is not None  # noqa: S101
        return self.rehearser.take_over(self.code, self.finding)


STILL_RUNNING = (
    "Stopping: the code still runs although it was interrupted. It is interrupted again "
    "every second; restarting the kernel ends it in any case."
)


class Dispatcher:
    """The calls of one step. However the step ends, each call gets exactly one result."""

    def __init__(
        self, context: ToolContext, step: int, calls: Sequence[schema.ToolCall], limits: TimeLimits
    ) -> None:
        self.context, self.step, self.calls, self.limits = context, step, calls, limits
        self._executions: dict[str, schema.ToolExecution] = {}
        self._running: dict[str, ToolTask] = {}
        self._finished: set[str] = set()
        self._earlier: dict[str, list[asyncio.Future[None]]] = {}
        """The calls before it in its group, for which a change waits, by its id."""
        self._recording: asyncio.Future[None] | None = None
        self.unattended_reasons: list[str] = []
        """Reasons of calls that did not run because nobody could be asked."""

    async def run(self) -> None:
        """Run the calls in order; adjacent calls of read-only tools run in parallel.

        Adjacent changes of different things are asked about together, if the user can see them all.
        Raises JournalError if an intent could not be recorded; its call does not run.
        """
        for group in group_calls(self.context, self.calls):
            if recorded := self.context.recorded.get(group[0].id):
                self._start_call(recorded)
                self._close_call(recorded)
                continue
            checks = await asyncio.gather(
                *(check_call(self.context, call, self.calls) for call in group)
            )
            # Begun in the model's order, whichever check was done first.
            begun = [
                self._announce_call(call, each) for call, each in zip(group, checks, strict=True)
            ]
            await self._run_group([each for each in begun if each])

    def close(self, note: str, *, interrupted: bool = False) -> None:
        """Give every call a result; `note` is the result of calls that never ran."""
        for call in self.calls:
            if call.id in self._finished:
                continue
            if call.id not in self._executions:
                self._start_call(schema.ToolExecution(call=call))
            status, result = schema.ToolStatus.CANCELLED, schema.ToolResult.failure(note)
            if running := self._running.get(call.id):
                status, result = running.outcome_if_abandoned(interrupted=interrupted)
                if not result.success and result.output == result.error:  # our own words
                    result = result.model_copy(update={"source": ""})
            self._finish_call(call.id, status, result)

    async def _run_group(
        self, begun: Sequence[tuple[schema.ToolCall, schema.ToolExecution, CheckedCall]]
    ) -> None:
        """Run announced calls; each change waits for its turn, whenever it was approved."""
        tasks: list[asyncio.Future[None]] = []
        for call, execution, checked in begun:
            if tasks and not checked.tool.parallel:
                self._earlier[call.id] = [*tasks]
            tasks.append(asyncio.ensure_future(self._run_call(call, execution, checked)))
        if not tasks:
            return
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        finally:
            for task in tasks:
                task.cancel()
            # One that runs takes a moment to end, and another one that only waits does not.
            await asyncio.gather(*tasks, return_exceptions=True)
        for task in done:
            task.result()

    def _announce_call(
        self, call: schema.ToolCall, checked: CheckedCall | BaseException
    ) -> tuple[schema.ToolCall, schema.ToolExecution, CheckedCall] | None:
        """Announce a call, with secrets hidden; return None if it failed its checks."""
        execution = schema.ToolExecution(call=call, dry_run=self.context.dry_run is not None)
        if isinstance(checked, BaseException):
            self._start_call(execution)
            self._finish_call(call.id, schema.ToolStatus.FAILED, error_result(checked))
            return None
        execution = self._describe_call(execution, checked)
        if execution.dry_run:
            execution = execution.model_copy(update={"decision": None, "decided_by": None})
        self._start_call(execution)
        return call, execution, checked

    def _describe_call(
        self, execution: schema.ToolExecution, checked: CheckedCall
    ) -> schema.ToolExecution:
        """Return the call with all that the user should know, secrets hidden."""
        if checked.may_be_tried and self.context.rehearsal and not execution.dry_run:
            tried = schema.Rehearsal(outcome=schema.RehearsalOutcome.TRYING)
            execution = execution.model_copy(update={"rehearsal": tried})
        return self.context.stream.redactor.record(checked.add_details(execution))

    async def _run_call(
        self, call: schema.ToolCall, execution: schema.ToolExecution, checked: CheckedCall
    ) -> None:
        """Take an announced call to its result."""
        verdict = checked.verdict
        if verdict.effect is Effect.DENY:
            self._deny_call(call, Answer(schema.Decision.DENIED, verdict.by, verdict.reason))
        elif execution.dry_run:
            self._finish_call(
                call.id,
                schema.ToolStatus.SUCCESS,
                schema.ToolResult(output=self.context.dry_run or ""),
            )
        elif execution.decision is not None or await self._rehearse_or_ask(call, checked):
            loop, most = asyncio.get_running_loop(), self.context.edit_seconds
            decided_at = loop.time()
            if earlier := self._earlier.get(call.id):
                await asyncio.wait(earlier)
            if execution.decision is None and loop.time() - decided_at > most:
                error = ApprovalExpiredError(
                    f"{call.name}: approved more than {most:g} s ago, so nothing was done; "
                    "call it again"
                )
                self._finish_call(call.id, schema.ToolStatus.FAILED, error_result(error))
                return
            # Read from the call again: what runs is what was approved.
            await self._execute_call(
                call, checked.tool, checked.tool.check_arguments(call.arguments)
            )

    async def _rehearse_or_ask(self, call: schema.ToolCall, checked: CheckedCall) -> bool:
        """Return whether the user approved the call; if it need not be run, set its result.

        Its code is tried on a copy of the kernel first, if it has any. If the user is asked in any
        case, the question need not wait for that.
        """
        context, tool = self.context.rehearsal, checked.tool
        if context is None or not checked.may_be_tried:
            return await self._obtain_approval(call, checked)
        pending = PendingRehearsal.begin(tool, tool.check_arguments(call.arguments), context)
        try:
            await pending.wait()
            self._note_rehearsal(call, pending)
            if pending.answer is None:
                return await self._obtain_approval(call, checked, pending)
            await self._accept_rehearsal(call, pending, pending.answer)
            return False
        finally:
            pending.end()

    def _note_rehearsal(self, call: schema.ToolCall, pending: PendingRehearsal) -> None:
        """Tell what a rehearsal found, also while the question is open."""
        if pending.finding is None:
            return
        found = self.context.prepare_rehearsal(call.name, pending.finding.rehearsal)
        self._update_execution(call.id, rehearsal=found)
        self._emit(schema.ToolRehearsed(step=self.step, call_id=call.id, rehearsal=found))

    async def _accept_rehearsal(
        self, call: schema.ToolCall, pending: PendingRehearsal, answer: Answer
    ) -> None:
        """Make the rehearsal's result that of the call."""
        assert pending.finding is not None  # noqa: S101
        self._record_decision(call, answer)
        self._emit(schema.ToolRunning(step=self.step, call_id=call.id))
        if pending.finding.adoption is not None:
            await self._record_intent(call)
        duration = pending.finding.rehearsal.duration
        self._update_execution(call.id, started_at=schema.now(), duration=duration)
        try:
            result = await asyncio.wrap_future(self.context.main.post(pending.result))
        except Exception as error:
            result = error_result(error)
        status = schema.ToolStatus.SUCCESS if result.success else schema.ToolStatus.FAILED
        self._finish_call(call.id, status, result)

    async def _obtain_approval(
        self, call: schema.ToolCall, checked: CheckedCall, pending: PendingRehearsal | None = None
    ) -> bool:
        """Return whether the user approved the call; if not, or for a question, set its result."""
        try:
            answer = await self._ask_user(call, pending)
        except AgentError as error:  # nobody can be asked, or the call is not the one approved
            if isinstance(error, NoFrontendError) and checked.tool.question is None:
                self.unattended_reasons.append(f"{call.name} was not run: {error}")
            answer = Answer(schema.Decision.DENIED, schema.DecidedBy.POLICY, str(error))
        if answer.decision is not schema.Decision.APPROVED:
            self._deny_call(call, answer)
            return False
        if answer.arguments is not None:
            if pending is not None:
                pending.end()
            await self._run_edited(call, checked, answer.arguments)
            return False
        self._record_decision(call, answer)
        if checked.tool.question is not None:
            self._finish_call(
                call.id, schema.ToolStatus.SUCCESS, schema.ToolResult(output=answer.text or "")
            )
            return False
        # An answer that was not offered is invalid.
        scope = answer.scope if answer.scope in checked.verdict.scopes else schema.Scope.ONCE
        self.context.policy.grant(checked.tool, scope, checked.effects)
        return True

    async def _run_edited(
        self, call: schema.ToolCall, checked: CheckedCall, given: JsonDict
    ) -> None:
        """Take a call as the user changed it to its result: it is checked and asked about anew.

        If the change cannot run, the call stays as it was.
        """
        edited = call.model_copy(update={"arguments": given})
        if self._is_open(edited, checked.tool):
            found: CheckedCall | BaseException = AgentError("another one of this reply is the same")
        else:
            found = await check_call(self.context, edited, self.calls)
        if isinstance(found, BaseException):
            self._emit(
                schema.Notice(text=f"The changed call cannot run, and this one stays: {found}")
            )
            edited, found = call, checked
        known = self._executions[call.id].proposed
        original = call.arguments if known is None else known
        proposed = None if edited.arguments == original else original
        execution = self._describe_call(schema.ToolExecution(call=edited, proposed=proposed), found)
        self._executions[call.id] = execution
        self._emit(schema.ToolEdited(step=self.step, execution=execution))
        await self._run_call(edited, execution, found)

    def _is_open(self, call: schema.ToolCall, tool: Tool) -> bool:
        """Return whether the same call has not ended elsewhere: tools cannot tell them apart."""
        others = self._executions.keys() - self._finished - {call.id}
        calls = [self._executions[each].call for each in others]
        with contextlib.suppress(AgentError):
            given = tool.check_arguments(call.arguments)
            same = (each for each in calls if each.name == call.name)
            return any(tool.check_arguments(each.arguments) == given for each in same)
        return False

    def _deny_call(self, call: schema.ToolCall, answer: Answer) -> None:
        self._record_decision(call, answer)
        self._finish_call(
            call.id, schema.ToolStatus.DENIED, _denial_result(self._executions[call.id], answer)
        )

    def _record_decision(self, call: schema.ToolCall, answer: Answer) -> None:
        self._update_execution(
            call.id, decision=answer.decision, decided_by=answer.by, reason=answer.reason
        )
        self._emit(
            schema.ApprovalDecided(
                step=self.step,
                call_id=call.id,
                decision=answer.decision,
                by=answer.by,
                reason=answer.reason,
            )
        )

    async def _ask_user(self, call: schema.ToolCall, pending: PendingRehearsal | None) -> Answer:
        """Return the user's answer about exactly this call; the approval is spent here."""
        approvals = self.context.approvals
        approval = approvals.open_call(self._executions[call.id])
        try:
            self._emit(
                schema.ApprovalRequested(step=self.step, call_id=call.id, approval_id=approval.id)
            )
            if pending is not None and pending.finding is None:
                pending.task.add_done_callback(lambda _: self._note_rehearsal(call, pending))
            with self.limits.pause():
                await self.context.asker.ask(approval)
                # Shielded, so that a stopped run's question is closed as expired.
                answer = await asyncio.shield(asyncio.wrap_future(approval.answer))
        finally:
            approvals.expire(approval)
        if answer.decision is schema.Decision.APPROVED and answer.arguments is None:
            approvals.use(approval, call)
        return answer

    async def _execute_call(self, call: schema.ToolCall, tool: Tool, arguments: JsonDict) -> None:
        self._emit(schema.ToolRunning(step=self.step, call_id=call.id))
        await self._record_intent(call)
        if self.context.rehearsal is not None:
            await self.context.rehearsal.wait_until_loaded()
        threads, rehearsal = self.context.threads, self._executions[call.id].rehearsal
        comparison = await Comparison.begin(tool, rehearsal, threads)
        self._update_execution(call.id, started_at=schema.now())
        begun = time.monotonic()
        post, watch = self.context.main.post, self.context.watch
        running = ToolTask(tool, arguments, post, threads, watch)
        self._running[call.id] = running
        telling = asyncio.ensure_future(self._tell_output(call.id, running))
        try:
            result = await running.run()
        except asyncio.CancelledError:
            if (
                not self.limits.is_expired
            ):  # the user stops the run, which interrupts the main thread
                await running.end(lambda: self._emit(schema.Notice(text=STILL_RUNNING)))
            raise
        finally:
            telling.cancel()
            self._update_execution(call.id, duration=max(0.0, time.monotonic() - begun))
        if comparison is not None:
            rehearsal = await comparison.compare(result)
            self._update_execution(call.id, rehearsal=rehearsal)
            if rehearsal.differs:
                result = result.with_note(f"({rehearsal.compared})", only_model=True)
        status = schema.ToolStatus.SUCCESS if result.success else schema.ToolStatus.FAILED
        self._finish_call(call.id, status, result)

    async def _tell_output(self, call_id: str, running: ToolTask) -> None:
        """Tell the last lines of a running call as they come."""

        def tell(text: str) -> None:
            self._emit(schema.ToolOutput(step=self.step, call_id=call_id, text=text))

        await tell_output(running.recent_text, self.context.stream.redactor, tell)

    async def _record_intent(self, call: schema.ToolCall) -> None:
        """Wait until it is on the disk that the call runs; else set its result, and raise."""
        try:
            await self._wait_until_recorded()
        except JournalError as error:
            note = f"{call.name} was not run, because its intent could not be recorded: {error}"
            self._finish_call(call.id, schema.ToolStatus.FAILED, schema.ToolResult.failure(note))
            raise

    async def _wait_until_recorded(self) -> None:
        """Wait for the journal; calls about to run in parallel share one flush."""
        if self._recording is None:
            self._recording = asyncio.ensure_future(self._flush_journal())
        await asyncio.shield(self._recording)

    async def _flush_journal(self) -> None:
        self._recording = None  # all have recorded their intent by now; others need another flush
        await self.context.stream.wait_until_recorded()

    def _emit(self, event: schema.Event) -> None:
        self.context.stream.emit(event)

    def _start_call(self, execution: schema.ToolExecution) -> None:
        self._executions[execution.call.id] = execution
        self._emit(schema.ToolStarted(step=self.step, execution=execution))

    def _update_execution(self, call_id: str, **changes: object) -> None:
        self._executions[call_id] = self._executions[call_id].model_copy(update=changes)

    def _finish_call(
        self, call_id: str, status: schema.ToolStatus, result: schema.ToolResult
    ) -> None:
        execution = self._executions[call_id]
        if execution.proposed is not None and status is not schema.ToolStatus.DENIED:
            result = _name_change(execution, result)
        source = execution.source if result.source is None else result.source or None
        result = self.context.prepare_result(execution.call.name, result)
        result = result.model_copy(update={"source": None})  # from here on the call's status tells
        rehearsal = execution.rehearsal
        if rehearsal and rehearsal.outcome is schema.RehearsalOutcome.TRYING:
            rehearsal = None
        elif rehearsal and rehearsal.result:  # it was shown to decide on the call
            rehearsal = rehearsal.model_copy(update={"result": None})
        self._update_execution(
            call_id, status=status, result=result, source=source, rehearsal=rehearsal
        )
        self._close_call(self._executions[call_id])

    def _close_call(self, execution: schema.ToolExecution) -> None:
        signature = self.context.sign(self.context.stream.run, execution)
        execution = execution.model_copy(update={"signature": signature})
        self._finished.add(execution.call.id)
        self._emit(schema.ToolFinished(step=self.step, execution=execution))


def _name_change(execution: schema.ToolExecution, result: schema.ToolResult) -> schema.ToolResult:
    """Return the result with a note for the model that the user changed its call."""
    given = json.dumps(execution.call.arguments, ensure_ascii=False)
    note = f"The user changed this call before it ran. Its arguments were: {given}"
    text = result.text_for_model
    return result.model_copy(update={"for_model": f"{note}\n{text}".rstrip()})


def _denial_result(execution: schema.ToolExecution, answer: Answer) -> schema.ToolResult:
    call = execution.call
    if execution.question is not None:
        why = answer.reason or "they gave no reason"
        return schema.ToolResult.failure(
            f"Nobody answered: {why}.", "Go on as well as you can without it."
        )
    if answer.by is schema.DecidedBy.POLICY:
        return schema.ToolResult.failure(f"{call.name} was not run: {answer.reason}")
    reason = f" Their reason: {_end_sentence(answer.reason)}" if answer.reason else ""
    return schema.ToolResult.failure(
        f"The user denied this call of {call.name}; it was not run.{reason}",
        "Do not repeat it; ask or find another way.",
    )


def _end_sentence(text: str) -> str:
    """Return the text with a full stop at its end."""
    text = text.strip()
    return text if text.endswith((".", "!", "?", "…")) else f"{text}."
