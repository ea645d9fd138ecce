"""The objects that a kernel has one of, and the journals of its folders."""

from __future__ import annotations

import contextlib
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ipyagent.agent.approvals import Approvals
from ipyagent.agent.session.initial_graph import mark_origin
from ipyagent.config.sources import Data, UserDataFile, folder_key
from ipyagent.errors import AgentError, ConfigError, JournalError
from ipyagent.kernel.main_thread import without_interrupts
from ipyagent.schema import Event, PlanWaiting, Run, RunFinished, RunState
from ipyagent.store.database import WITHOUT
from ipyagent.store.journal import Journal
from ipyagent.tools.path_rules import STATE
from ipyagent.tools.rehearsed import Isolation
from ipyagent.tools.workspace import Workspace
from ipyagent.wiring.environment import Environment
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


ORIGIN = "the sessions that came with this folder"

_JOURNALS = UserDataFile("journals.json")


def open_journal(path: Path) -> Journal:
    """Open a folder's journal; mark its sessions if it is not the file that was created here.

    Whoever made another file may have written anything into it, so they are sources that were read.
    The user's own directory knows which file this user's kernels created in a folder.

    Raises JournalError.
    """
    with contextlib.suppress(ConfigError):
        if path.exists() and _JOURNALS.read().get(folder_key(path)) == _identify(path):
            return Journal.open(path)
    journal: Journal | None = None

    def adopt(known: Data) -> Data:
        nonlocal journal
        journal = _open(path, known)
        return known | {folder_key(path): _identify(path)}

    with contextlib.suppress(ConfigError):
        _JOURNALS.update(adopt)
    if journal is None:  # the user's directory cannot be used, so nobody knows whose file it is
        journal = _open(path, {})
    return journal


def _open(path: Path, known: Data) -> Journal:
    is_own = not path.exists() or known.get(folder_key(path)) == _identify(path)
    journal = Journal.open(path)
    if not is_own:
        for record in journal.sessions():
            journal.update(mark_origin(record, ORIGIN))
    return journal


def _identify(path: Path) -> str:
    """Return a file's identity, which stays when it is written to or moved, and not in a copy."""
    status = path.stat()
    return f"{status.st_dev}:{status.st_ino}"
