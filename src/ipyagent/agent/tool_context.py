"""The context of tool calls, the same for all calls of a run."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Protocol

from ipyagent.agent.approvals import Approval, Approvals
from ipyagent.agent.event_stream import EventStream
from ipyagent.agent.policy import CallPolicy
from ipyagent.agent.tool_task import Watch
from ipyagent.kernel.main_thread import MainThread
from ipyagent.schema import STANDARD, Rehearsal, ToolExecution, ToolResult
from ipyagent.tools.rehearsed import RehearsalContext
from ipyagent.tools.result_conversion import truncate_result
from ipyagent.tools.toolbox import Toolbox

DRY_RUN = "Dry run: not executed."


class Asker(Protocol):
    """Puts questions to the user."""

    async def ask(self, approval: Approval) -> None:
        """Get an answer to `approval`; raises NoFrontendError if there is nobody to ask."""
        ...


@dataclass(frozen=True)
class ToolContext:
    """Everything that the calls of a run share."""

    toolbox: Toolbox
    policy: CallPolicy
    approvals: Approvals
    asker: Asker
    stream: EventStream
    main: MainThread
    """Runs work that needs the notebook's main thread."""
    threads: Executor
    """Runs blocking tools that may run on any thread."""
    save_output: Callable[[str], str] | None = None
    """Saves an output that is too long for the model; returns the file's path."""
    dry_run: str | None = None
    """The result of every call when calls are only checked."""
    rehearsal: RehearsalContext | None = None
    """The parts of the run that a rehearsal needs; None: code is not tried on a copy."""
    max_chars: int | None = None
    """Characters of a result at most, if the model's context is short."""
    watch: Watch | None = None
    """Watches the variables while a tool of the user's runs on the main thread."""
    planning: bool = False
    """True if calls are steps of a plan, so that one may depend on what another will have made."""

    def hide_secrets(self, execution: ToolExecution) -> ToolExecution:
        """Return the call without secrets, as the user is asked about it."""
        return self.stream.redactor.record(execution)

    def prepare_rehearsal(self, tool: str, rehearsal: Rehearsal) -> Rehearsal:
        """Return a rehearsal as the user is shown it: without secrets, its output cut."""
        if rehearsal.result is not None:
            result = self.prepare_result(tool, rehearsal.result)
            rehearsal = rehearsal.model_copy(update={"result": result})
        return self.stream.redactor.record(rehearsal)

    def prepare_result(self, tool: str, result: ToolResult) -> ToolResult:
        """Return the result without secrets, cut to the size that a model should read at once."""
        limits = self.toolbox.get(tool).truncate if tool in self.toolbox else STANDARD
        if self.max_chars is not None and self.max_chars < limits.max_chars:
            limits = limits.model_copy(update={"max_chars": self.max_chars})
        clean = self.stream.redactor.record(result)
        return truncate_result(clean, tool=tool, save=self.save_output, limits=limits)
