"""From a model's call to its one result: check, preview, approval, run."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from ipyagent.agent.approvals import Answer, Approval, Approvals
from ipyagent.agent.clock import Clock
from ipyagent.agent.policy import Effect, Judge, Verdict
from ipyagent.agent.running import Running, ends_the_run
from ipyagent.errors import AgentError, JournalError, NoFrontendError
from ipyagent.redaction import HIDDEN
from ipyagent.schema import (
    ApprovalDecided,
    ApprovalRequested,
    DecidedBy,
    Decision,
    Event,
    Notice,
    Preview,
    Scope,
    ToolCall,
    ToolExecution,
    ToolFinished,
    ToolResult,
    ToolRunning,
    ToolStarted,
    ToolStatus,
)
from ipyagent.schema.base import now
from ipyagent.tools.base import Tool, Where
from ipyagent.tools.reach import Reach, coverage
from ipyagent.tools.results import failed
from ipyagent.tools.toolbox import Toolbox

STILL_RUNNING = (
    "Stopping: the code that runs goes on although it was interrupted. It is interrupted again "
    "every second; restarting the kernel ends it in any case."
)


class Asker(Protocol):
    """Who puts questions to the person."""

    async def ask(self, approval: Approval) -> None:
        """See to it that `approval` gets an answer; raises NoFrontendError if nobody is there."""
        ...


@dataclass(frozen=True)
class Dispatcher:
    """Everything that a call passes on its way."""

    toolbox: Toolbox
    policy: Judge
    approvals: Approvals
    asker: Asker
    post: Callable[[Callable[[], Any]], Future[Any]]
    """Runs a job on the main thread."""
    pool: Executor
    """Runs blocking tools that may be anywhere."""
    tidy: Callable[[str, ToolResult], ToolResult]
    """Cleans and cuts the result of the tool of that name."""
    emit: Callable[[Event], None]
    recorded: Callable[[], Awaitable[None]]
    """Returns when what was emitted so far is on the disk; raises JournalError."""
    dry_run: bool = False
    clean: Callable[[ToolExecution], ToolExecution] = lambda execution: execution
    """Takes secrets out of what a person is asked about."""
    unrun: str = "Dry run: not executed."
    """What is said of a call in a dry run."""
    planning: bool = False
    """Whether calls are steps of a plan, so that one may be about what another will have made."""


@dataclass(frozen=True)
class _Checked:
    """A call that may be decided on."""

    tool: Tool
    arguments: dict[str, Any]
    preview: Preview | None
    verdict: Verdict
    reach: Reach | None = None

    def shown(self, execution: ToolExecution) -> ToolExecution:
        """The call with all that a person should know of it."""
        tool, verdict = self.tool, self.verdict
        allowed = verdict.effect is Effect.ALLOW
        question = tool.question(**self.arguments) if tool.question else None
        return execution.model_copy(
            update={
                "sensitive": tool.sensitive,
                "preview": self.preview,
                "question": question,
                "concern": None if allowed else verdict.reason,
                "scopes": () if question else verdict.scopes,
                "touches": self.reach.line() if self.reach and not allowed else None,
                "covers": self._covers() if verdict.scopes else None,
                "source": tool.source(**self.arguments) if tool.source else None,
                "decision": verdict.decision if allowed else None,
                "decided_by": verdict.by if allowed else None,
            }
        )

    def _covers(self) -> str | None:
        """What an approval beyond this once would cover, where that is less than all calls."""
        return coverage(self.reach.subject, self.reach.kinds) if self.reach else None


class Calls:
    """The calls of one step. However the step ends, each has exactly one result."""

    def __init__(
        self, dispatcher: Dispatcher, step: int, calls: Sequence[ToolCall], clock: Clock
    ) -> None:
        self.dispatcher, self.step, self.calls, self.clock = dispatcher, step, calls, clock
        self._open: dict[str, ToolExecution] = {}
        self._running: dict[str, Running] = {}
        self._finished: set[str] = set()
        self._recording: asyncio.Future[None] | None = None
        self._unrecorded: JournalError | None = None
        self.unattended: list[str] = []
        """Why calls were not run about which nobody could be asked."""

    async def run(self) -> None:
        """Run them in order; calls of read-only tools that stand together run beside each other.

        Raises JournalError where an intent could not be recorded; what it was for is not run.
        """
        for group in self._groups():
            checks = await asyncio.gather(*map(self._try_check, group))
            # Begun in the model's order, whichever check was done first.
            begun = [self._begin(call, each) for call, each in zip(group, checks, strict=True)]
            await asyncio.gather(*(self._run(*each) for each in begun if each))
            if self._unrecorded is not None:
                raise self._unrecorded

    def close(self, note: str, *, interrupted: bool = False) -> None:
        """See to it that all have results; `note` is that of calls that never ran."""
        for call in self.calls:
            if call.id in self._finished:
                continue
            if call.id not in self._open:
                self._start(ToolExecution(call=call))
            status, result = ToolStatus.CANCELLED, ToolResult.failure(note)
            if running := self._running.get(call.id):
                status, result = running.left(interrupted=interrupted)
                if not result.success and result.output == result.error:  # our own words
                    result = result.model_copy(update={"source": ""})
            self._finish(call.id, status, result)

    def _groups(self) -> Iterator[list[ToolCall]]:
        group: list[ToolCall] = []
        for call in self.calls:
            if not self._parallel(call):
                yield from ([group] if group else [])
                yield [call]
                group = []
            else:
                group.append(call)
        if group:
            yield group

    def _parallel(self, call: ToolCall) -> bool:
        if call.parse_error is not None or call.name not in self.dispatcher.toolbox:
            return False
        tool = self.dispatcher.toolbox.get(call.name)
        if not tool.parallel:
            return False
        try:
            verdict = self.dispatcher.policy.judge(tool, tool.check(call.arguments))
        except Exception:  # whatever a tool's own code says to that, it says it in its turn
            return False
        return verdict.effect is Effect.ALLOW

    async def _try_check(self, call: ToolCall) -> _Checked | BaseException:
        """Check a call; return the error that it fails with."""
        try:
            return await self._check(call)
        except BaseException as error:  # a preview and a validator are a tool's own code too
            if ends_the_run(error):
                raise
            return error

    def _begin(
        self, call: ToolCall, checked: _Checked | BaseException
    ) -> tuple[ToolCall, ToolExecution, _Checked] | None:
        """Announce a call, with secrets hidden; return None if its checks have failed it."""
        execution = ToolExecution(call=call, dry_run=self.dispatcher.dry_run)
        if isinstance(checked, BaseException):
            self._start(execution)
            self._finish(call.id, ToolStatus.FAILED, failed(checked))
            return None
        execution = self.dispatcher.clean(checked.shown(execution))
        if execution.dry_run:
            execution = execution.model_copy(update={"decision": None, "decided_by": None})
        self._start(execution)
        return call, execution, checked

    async def _run(self, call: ToolCall, execution: ToolExecution, checked: _Checked) -> None:
        """Bring a call that was announced to its result."""
        verdict = checked.verdict
        if verdict.effect is Effect.DENY:
            self._denied(call, Answer(Decision.DENIED, verdict.by, verdict.reason))
        elif execution.dry_run:
            self._finish(call.id, ToolStatus.SUCCESS, ToolResult(output=self.dispatcher.unrun))
        elif execution.decision is not None or await self._approved(call, checked):
            # Taken from the call once more: what runs is what was approved.
            await self._execute(call, checked.tool, checked.tool.check(call.arguments))

    async def _check(self, call: ToolCall) -> _Checked:
        if call.parse_error is not None:
            raise AgentError(f"{call.name} was not run: {call.parse_error}")
        tool = self.dispatcher.toolbox.get(call.name)
        arguments = tool.check(call.arguments)
        check_whole(tool, call)
        verdict = self.dispatcher.policy.judge(tool, arguments)
        if verdict.effect is Effect.DENY:
            return _Checked(tool, arguments, None, verdict)
        preview = await self._rehearse(call, tool, arguments)
        read = tool.reach
        if read is None or preview is None:
            return _Checked(tool, arguments, preview, verdict)
        # What is read is what is shown, and that is what runs.
        job = partial(read, preview)
        reach = await asyncio.get_running_loop().run_in_executor(self.dispatcher.pool, job)
        verdict = self.dispatcher.policy.judge(tool, arguments, reach)
        return _Checked(tool, arguments, preview, verdict, reach)

    async def _rehearse(
        self, call: ToolCall, tool: Tool, arguments: dict[str, Any]
    ) -> Preview | None:
        """Run the tool's own checks of a call, the same for every kind of run; its preview."""
        loop, pool = asyncio.get_running_loop(), self.dispatcher.pool
        if validate := tool.validate:
            await loop.run_in_executor(pool, lambda: validate(**arguments))
        if self.dispatcher.planning and self._follows_change(call):
            return None
        if requires := tool.requires:
            job = partial(requires, **arguments)
            post = self.dispatcher.post if tool.where is Where.MAIN else pool.submit
            await asyncio.wrap_future(post(job))
        if show := tool.preview:
            preview = await loop.run_in_executor(pool, lambda: show(**arguments))
            return None if self.dispatcher.planning else preview
        return None

    def _follows_change(self, call: ToolCall) -> bool:
        """Whether a call before it in this step changes something."""
        toolbox = self.dispatcher.toolbox
        earlier = itertools.takewhile(lambda each: each.id != call.id, self.calls)
        return any(each.name in toolbox and toolbox.get(each.name).sensitive for each in earlier)

    async def _approved(self, call: ToolCall, checked: _Checked) -> bool:
        """Whether a person approved the call; if not, or it was a question, it has its result."""
        try:
            answer = await self._ask(call)
        except AgentError as error:  # nobody is there, or the call is not what was shown
            if isinstance(error, NoFrontendError) and checked.tool.question is None:
                self.unattended.append(f"{call.name} was not run: {error}")
            answer = Answer(Decision.DENIED, DecidedBy.POLICY, str(error))
        if answer.decision is not Decision.APPROVED:
            self._denied(call, answer)
            return False
        self._decided(call, answer)
        if checked.tool.question is not None:
            self._finish(call.id, ToolStatus.SUCCESS, ToolResult(output=answer.text or ""))
            return False
        # What was not offered cannot be taken.
        scope = answer.scope if answer.scope in checked.verdict.scopes else Scope.ONCE
        self.dispatcher.policy.grant(checked.tool, scope, checked.reach)
        return True

    def _denied(self, call: ToolCall, answer: Answer) -> None:
        self._decided(call, answer)
        self._finish(call.id, ToolStatus.DENIED, _denial(self._open[call.id], answer))

    def _decided(self, call: ToolCall, answer: Answer) -> None:
        self._update(call.id, decision=answer.decision, decided_by=answer.by, reason=answer.reason)
        self.dispatcher.emit(
            ApprovalDecided(
                step=self.step,
                call_id=call.id,
                decision=answer.decision,
                by=answer.by,
                reason=answer.reason,
            )
        )

    async def _ask(self, call: ToolCall) -> Answer:
        """The person's answer about exactly this call; the approval is spent here."""
        approvals = self.dispatcher.approvals
        approval = approvals.open(self._open[call.id])
        try:
            self.dispatcher.emit(
                ApprovalRequested(step=self.step, call_id=call.id, approval_id=approval.id)
            )
            with self.clock.paused():
                await self.dispatcher.asker.ask(approval)
                # Shielded, so that a stopped run's question is closed as expired.
                answer = await asyncio.shield(asyncio.wrap_future(approval.answer))
        finally:
            approvals.expire(approval)
        if answer.decision is Decision.APPROVED:
            approvals.use(approval, call)
        return answer

    async def _execute(self, call: ToolCall, tool: Tool, arguments: dict[str, Any]) -> None:
        self.dispatcher.emit(ToolRunning(step=self.step, call_id=call.id))
        try:
            await self._recorded()
        except JournalError as error:
            self._unrecorded = error
            note = f"{call.name} was not run, because its intent could not be recorded: {error}"
            self._finish(call.id, ToolStatus.FAILED, ToolResult.failure(note))
            return
        self._update(call.id, started_at=now())
        begun = time.monotonic()
        running = Running(tool, arguments, self.dispatcher.post, self.dispatcher.pool)
        self._running[call.id] = running
        try:
            result = await running.result()
        except asyncio.CancelledError:
            if not self.clock.expired:  # the user stops the run, which interrupts the main thread
                await running.end_on_main(lambda: self.dispatcher.emit(Notice(text=STILL_RUNNING)))
            raise
        finally:
            self._update(call.id, duration=max(0.0, time.monotonic() - begun))
        status = ToolStatus.SUCCESS if result.success else ToolStatus.FAILED
        self._finish(call.id, status, result)

    async def _recorded(self) -> None:
        """Wait for the record; calls that are about to run beside each other share one flush."""
        if self._recording is None:
            self._recording = asyncio.ensure_future(self._record())
        await asyncio.shield(self._recording)

    async def _record(self) -> None:
        self._recording = None  # by now all have told their intent; others need another flush
        await self.dispatcher.recorded()

    def _start(self, execution: ToolExecution) -> None:
        self._open[execution.call.id] = execution
        self.dispatcher.emit(ToolStarted(step=self.step, execution=execution))

    def _update(self, call_id: str, **changes: Any) -> None:
        self._open[call_id] = self._open[call_id].model_copy(update=changes)

    def _finish(self, call_id: str, status: ToolStatus, result: ToolResult) -> None:
        execution = self._open[call_id]
        source = execution.source if result.source is None else result.source or None
        result = self.dispatcher.tidy(execution.call.name, result)
        result = result.model_copy(update={"source": None})  # from here on the call says it
        self._finished.add(call_id)
        self._update(call_id, status=status, result=result, source=source)
        self.dispatcher.emit(ToolFinished(step=self.step, execution=self._open[call_id]))


def check_whole(tool: Tool, call: ToolCall) -> None:
    """Raise AgentError for a call that would do something with a text of which a part is hidden."""
    if tool.sensitive and HIDDEN in json.dumps(call.arguments, ensure_ascii=False):
        raise AgentError(
            f"{call.name} was not run: its arguments hold {HIDDEN}, which stands for what looks "
            "like a secret and would be lost. Leave that text as it is and change what is around "
            "it, or let code read the secret from where it is, such as an environment variable"
        )


def _denial(execution: ToolExecution, answer: Answer) -> ToolResult:
    call = execution.call
    if execution.question is not None:
        why = answer.reason or "they gave no reason"
        return ToolResult.failure(
            f"Nobody answered: {why}.", "Go on as well as you can without it."
        )
    if answer.by is DecidedBy.POLICY:
        return ToolResult.failure(f"{call.name} was not run: {answer.reason}")
    reason = f" Their reason: {_sentence(answer.reason)}" if answer.reason else ""
    return ToolResult.failure(
        f"The person denied this call of {call.name}; it was not run.{reason}",
        "Do not repeat it; ask or find another way.",
    )


def _sentence(text: str) -> str:
    """The text with an end."""
    text = text.strip()
    return text if text.endswith((".", "!", "?", "…")) else f"{text}."
