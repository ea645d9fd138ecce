"""Runs an approved plan: step by step, as it was shown, without a model in between.

    run ─┬─ step: the plan's call ─▶ its result
         ├─ step: tried again, as it was         (idempotent tools)
         ├─ step: a changed command, asked about  (tools that run commands)
         └─ closing step: a sentence about the outcome

The first step that fails for good is the last one.

After a failure only some changed commands may be proposed to the user.
"""

from __future__ import annotations

import ast
import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, replace

from ipyagent.agent import budgets
from ipyagent.agent.budgets import RunBudget
from ipyagent.agent.plans.draft import ApprovedStepPolicy, notebook_step
from ipyagent.agent.policy import Arguments, CallPolicy, Effect, Verdict
from ipyagent.agent.step_machine import (
    RunEnding,
    StepMachine,
    StreamedReply,
    run_lifecycle,
    stream_reply,
)
from ipyagent.config import RetryConfig
from ipyagent.errors import AgentError
from ipyagent.llm.client import delay, retrying
from ipyagent.phrases import plural
from ipyagent.schema import (
    Block,
    DecidedBy,
    Message,
    MessageFinished,
    Notice,
    PlanStep,
    Role,
    Run,
    RunStarted,
    RunStatus,
    Scope,
    StopReason,
    TokenUsage,
    ToolCall,
    ToolExecution,
    ToolStatus,
    now,
)
from ipyagent.schema.state import progress
from ipyagent.tools.base import Tool, get_command, replace_command
from ipyagent.tools.static_analysis import Effects

CHANGE_REQUEST = """\
This step of the plan failed, and its result says why. If another {argument} serves the same \
purpose, call {tool} once with it: only {argument} may differ, what was tried is not repeated, and \
nothing is deleted or overwritten on the way. The user is asked before it runs. If there is no \
such {argument}, say why and call nothing.\
"""

CONCERN = "changed after it failed"


@dataclass(frozen=True)
class ChangedCallPolicy:
    """A policy for a changed call: always ask the user, or refuse it."""

    policy: CallPolicy
    objection: str | None

    def evaluate(self, tool: Tool, arguments: Arguments, effects: Effects | None = None) -> Verdict:
        """Judge the call."""
        verdict = self.policy.evaluate(tool, arguments, effects)
        if verdict.effect is Effect.DENY:
            return verdict
        if self.objection:
            return Verdict(Effect.DENY, reason=self.objection)
        reasons = (CONCERN, verdict.reason if verdict.effect is Effect.ASK else None)
        return Verdict(Effect.ASK, reason="; ".join(filter(None, reasons)))

    def grant(self, tool: Tool, scope: Scope, effects: Effects | None = None) -> None:
        """Do nothing: an approval covers this call alone."""


def command_of(tool: Tool, call: ToolCall) -> str | None:
    """Return the code or command of a call, if it has one."""
    return get_command(call.arguments, tool.command) if tool.command else None


def normalize_reply(message: Message, tool: Tool, planned: ToolCall, call_id: str) -> Message:
    """Return the reply with calls that are named after `planned` and give only the command."""
    content: list[Block] = []
    for block in message.content:
        if isinstance(block, ToolCall):
            changes: dict[str, object] = {"id": call_id}
            command = command_of(tool, block) if block.name == tool.name else None
            if tool.command and command is not None:
                changed = replace_command(planned.arguments, tool.command, command)
                changes["arguments"] = changed
            block, call_id = block.model_copy(update=changes), f"{call_id}.1"
        content.append(block)
    return message.model_copy(update={"content": tuple(content)})


def find_objection(
    tool: Tool, proposed: Iterable[ToolCall], tried: Iterable[ToolCall]
) -> str | None:
    """Return why the proposed calls are not shown to the user, or None."""
    call, *others = proposed
    command = command_of(tool, call)
    if others or call.name != tool.name or call.parse_error or command is None:
        return f"it is not one call of {tool.name} with another {tool.command}"
    earlier = (command_of(tool, each) or "" for each in tried)
    if _collapse_spaces(command) in map(_collapse_spaces, earlier):
        return "it was tried before, and failed"
    if form := find_destructive(command):
        return f"a step that failed is not replaced by one that may destroy something: {form}"
    return None


def find_destructive(command: str) -> str | None:
    """Return the part of a command, or of Python code, that clearly destroys something."""
    # Python code may hold a command as text, and a command may pass for Python.
    for form in (*_DESTRUCTIVE.finditer(command), *_match_unquoted(command)):
        return " ".join(form[0].split())
    return next(_removal_calls(command), None)


def _collapse_spaces(command: str) -> str:
    return " ".join(command.split())


def _match_unquoted(command: str) -> Iterator[re.Match[str]]:
    """Match quoted and split spellings too: a shell runs r""m -rf and ["rm", "-rf"] as rm."""
    yield from _DESTRUCTIVE.finditer(re.sub(r"['\"\\\[\],]+", " ", command))
    yield from _DESTRUCTIVE.finditer(re.sub(r"['\"\\]+", "", command))


def _removal_calls(code: str) -> Iterator[str]:
    """Yield the calls in Python code that remove files or folders."""
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    names = {
        alias.asname or alias.name: alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(attr=name) if name in _REMOVERS:
                yield name
            case ast.Name(id=name) if names.get(name) in _REMOVERS:
                yield names[name]
            case ast.Constant(value=str(name)) if name in _REMOVERS - _WORDS:
                yield name  # as in getattr(shutil, "rmtree")


_REMOVERS = frozenset({"rmtree", "remove", "removedirs", "unlink", "rmdir", "truncate", "killpg"})
"""`list.remove` is taken for `os.remove` too: a refusal costs little."""

_WORDS = frozenset({"remove", "truncate"})
"""The removers that are also ordinary words in text."""

_DESTRUCTIVE = re.compile(
    r"""(?ix)
      \brm\s+[-\w./~*$]
    | \b(?:rmdir|shred|wipefs|truncate|unlink)\s+\S
    | \bmkfs(?:\.\w+)?\b | \bfdisk\b | \bparted\b
    | \bdd\b[^|;&\n]*\bof=
    | >\s*/(?:dev/(?!null\b|stdout\b|stderr\b|tty\b|fd/)|etc/|proc/|sys/|boot/)
    | \bfind\b[^|;&\n]*\s-(?:delete\b|exec(?:dir)?\s+(?:rm|shred|unlink)\b)
    | \bxargs\b[^|;&\n]*\b(?:rm|shred|unlink)\b
    | \brsync\b[^|;&\n]*\s--del
    | \bgit\s+(?:-\S+\s+(?:\S+=\S+\s+)?)*(?:
          reset\s[^|;&\n]*--hard | clean\s[^|;&\n]*-[a-z]*[fdx]
        | push\s[^|;&\n]*(?:-f\b|--force|\s\+\w) | checkout\s+(?:--\s+)?\.(?:\s|$)
        | restore\s+\. | branch\s+-D | stash\s+(?:drop|clear) )
    | \bch(?:mod|own|grp)\s+(?:-\S+\s+)*(?:-[a-z]*R|--recursive)
    | \bkill(?:all)?\s+(?:-\S+\s+)*-\s?(?:9|KILL|SIGKILL)\b | \bpkill\b
    | \b(?:curl|wget|fetch)\b[^;&\n]*\|\s*(?:sudo\s+)?(?:\S*/)?(?:ba|z|da|k|c)?sh\b
    | \b(?:curl|wget)\b[^;&\n]*\|\s*(?:sudo\s+)?(?:\S*/)?(?:python|perl|ruby|node)\S*
    | \b(?:ba|z|da)?sh\s+(?:-c\s+)?[<"'(\s]*[<$]\(?\s*\(?\s*(?:curl|wget)\b
    | \bdrop\s+(?:table|database|schema|index|view)\b | \btruncate\s+table\b
    | \bdelete\s+from\s+\S+\s*(?:;|["']|$)
    | :\(\)\s*\{ | \b(?:shutdown|reboot|halt|poweroff)\b
    | \bdocker\s+(?:system|volume|image|container)\s+(?:prune|rm)\b
    """
)


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
            if command_of(tool, step.call) and (is_last or not tool.idempotent):
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
        nudge = CHANGE_REQUEST.format(tool=tool.name, argument=tool.command)
        async with self._timed_step(nudge) as number:
            reply = await self._request_proposal(number, tool)
            if reply is None or reply.message is None:
                return None
            reply.message = normalize_reply(reply.message, tool, tried[0], _next_id(tried))
            self.stream.emit(reply.to_event(TokenUsage(), None))
            if not reply.calls:
                return None
            objection = find_objection(tool, reply.calls, tried)
            policy = ChangedCallPolicy(self.context.policy, objection)
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
