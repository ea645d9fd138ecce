"""The objects that a kernel has one of."""

from __future__ import annotations

import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ipyagent.agent.approvals import Approvals
from ipyagent.errors import AgentError, JournalError
from ipyagent.kernel.uninterruptible import without_interrupts
from ipyagent.schema import Event, PlanWaiting, Run, RunFinished, RunState
from ipyagent.store.database import WITHOUT
from ipyagent.store.journal import Journal
from ipyagent.tools.path_rules import STATE
from ipyagent.tools.rehearsed import Isolation
from ipyagent.tools.workspace import Workspace
from ipyagent.wiring.environment import Environment
from ipyagent.wiring.journal_origin import open_journal
from ipyagent.wiring.run_lock import RunLock

JOURNAL_FILE = "state.db"


class Runtime:
    """The run lock, the newest run, threads for tools, and each folder's workspace and journal.

    Everything that runs agents in this process shares `runtime()`.
    """

    def __init__(self) -> None:
        self.run_lock = RunLock()
        self.approvals = Approvals()
        """The questions of all runs, whichever agent's they are."""
        self.isolation = Isolation()
        """Of rehearsals, the same for all runs."""
        self.last_run: Run | None = None
        """The newest run, `ipyagent.last`."""
        # Python's default of cores + 4 would make eight parallel calls two rounds on a small
        # machine.
        self.tool_threads = ThreadPoolExecutor(32, thread_name_prefix="ipyagent-tool")
        self._workspaces: dict[Path, Workspace] = {}
        self._journals: dict[Workspace, Journal] = {}
        self._opening = threading.RLock()
        self._environments: list[weakref.ref[Environment]] = []

    def remember(self, event: Event, state: RunState) -> None:
        """Listen to a run: once it is over, or waits as a plan, it is the newest one."""
        if isinstance(event, RunFinished | PlanWaiting):
            self.last_run = state.run

    def enter(self, environment: Environment) -> None:
        """Note that an agent runs in this environment."""
        others = [each for each in self._environments if each() not in (None, environment)]
        self._environments = [*others, weakref.ref(environment)]

    @property
    def environments(self) -> list[Environment]:
        """The environments in which agents have run, the newest last."""
        return [found for each in self._environments if (found := each()) is not None]

    @without_interrupts
    def workspace(self, root: Path) -> Workspace:
        """Return the workspace of a folder, opened once and then frozen."""
        with self._opening:
            if root not in self._workspaces:
                self._workspaces[root] = Workspace(root)
            return self._workspaces[root]

    def journal(self, workspace: Workspace, *, persist: bool) -> Journal:
        """Return the workspace's journal, opened once, or a new one in memory.

        Raises JournalError.
        """
        return self._journal(workspace) if persist else Journal.open(None)

    @without_interrupts
    def _journal(self, workspace: Workspace) -> Journal:
        with self._opening:
            if workspace not in self._journals:
                self._journals[workspace] = _open_journal(workspace)
            return self._journals[workspace]


def _open_journal(workspace: Workspace) -> Journal:
    try:
        folder = workspace.state_folder().root
    except AgentError as error:
        raise JournalError(
            f"{error}. Nothing was run, because it could not be recorded. Make the folder "
            f"writable, or {WITHOUT}."
        ) from None
    return open_journal(folder / JOURNAL_FILE)


def journal_path(root: Path) -> Path:
    """Return the path of the journal of the workspace in a folder."""
    return root / STATE / JOURNAL_FILE


def has_journal(workspace: Workspace) -> bool:
    """Return whether anything was recorded in that workspace."""
    return journal_path(workspace.root).is_file()


_runtime = Runtime()


def runtime() -> Runtime:
    """Return the runtime of this process."""
    return _runtime
