"""Looking is free: a call that changes nothing on a copy of the kernel is not asked about."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from ipyagent.agent.approvals import Answer, Approval, Approvals
from ipyagent.json_types import JsonDict
from ipyagent.schema import DecidedBy, Decision, RehearsalOutcome, ToolResult
from ipyagent.tools.base import Tool, get_command
from ipyagent.tools.rehearsed import RehearsalContext, Rehearsed, Rehearser

_REASONS = {
    RehearsalOutcome.LOOKED: "looked · ran on a copy, nothing changed",
    RehearsalOutcome.ADOPTED: "looked · ran on a copy, its new variables were adopted",
    RehearsalOutcome.FAILED: "looked · ran on a copy and failed, nothing changed",
}


@dataclass
class Look:
    """The rehearsal of one call, which may make the question about it unnecessary."""

    rehearser: Rehearser
    code: str
    context: RehearsalContext

    def __post_init__(self) -> None:
        self._task = asyncio.ensure_future(self.rehearser.rehearse((self.code,), self.context))

    @classmethod
    def begin(cls, tool: Tool, arguments: JsonDict, context: RehearsalContext) -> Look:
        """Begin to rehearse a call of a tool that can be rehearsed."""
        assert tool.make_rehearser is not None  # noqa: S101
        code = get_command(arguments, tool.command or "") or ""
        return cls(tool.make_rehearser(), code, context)

    @property
    def finding(self) -> Rehearsed | None:
        """The rehearsal and its result; None while it goes on."""
        task = self._task
        return task.result()[0] if task.done() and not task.cancelled() else None

    @property
    def answer(self) -> Answer | None:
        """The answer that makes the question unnecessary, if there is one by now."""
        finding = self.finding
        if finding is None or finding.result is None:
            return None
        return Answer(Decision.AUTO, DecidedBy.REHEARSAL, _REASONS[finding.rehearsal.outcome])

    async def wait(self) -> None:
        """Wait until it has ended, as long as a question may wait for it."""
        await asyncio.wait([self._task], timeout=self.context.patience)

    def close_question(self, approvals: Approvals, approval: Approval) -> None:
        """Answer an open question once it turns out to be unnecessary; the first answer wins."""

        def close() -> None:
            if (answer := self.answer) is not None:
                approvals.decide(approval.id, answer)

        self.when_done(close)

    def when_done(self, job: Callable[[], object]) -> None:
        """Do something once it has ended, in the run's loop."""
        self._task.add_done_callback(lambda _: job())

    def end(self) -> None:
        """End it if it still goes on."""
        self._task.cancel()

    def result(self) -> ToolResult:
        """Return the call's result, on the main thread; raises AgentError."""
        assert self.finding is not None  # noqa: S101
        return self.rehearser.take_over(self.code, self.finding)
