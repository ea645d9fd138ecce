"""The objects that a kernel has one of, and the journals of its folders.

There is one run at a time in a session, and one cell's run, which may go on in the background.
Agents with sessions of their own run beside each other.
"""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ipyagent.agent.approvals import Approvals
from ipyagent.agent.session.conversation import mark_origin
from ipyagent.config.rules import Secret
from ipyagent.config.sources import Data, UserDataFile, folder_key
from ipyagent.errors import AgentError, BusyError, ConfigError, JournalError
from ipyagent.kernel.drivers import Cell
from ipyagent.kernel.shell import running_shell
from ipyagent.kernel.threads import without_interrupts
from ipyagent.llm import start_environ
from ipyagent.schema import Event, PlanWaiting, Run, RunFinished, RunState
from ipyagent.store.database import WITHOUT
from ipyagent.store.journal import Journal, postgres_store
from ipyagent.tools.path_rules import STATE
from ipyagent.tools.rehearsed import Isolation
from ipyagent.tools.workspace import Workspace
from ipyagent.wiring.environment import Environment

BUSY = "an agent is already running in this kernel; wait for it or stop it"

BUSY_SESSION = (
    "this session is already answering a prompt; wait for it or stop it. Agents with sessions of "
    "their own run beside each other"
)

BUSY_AGENTS = "agents are running; wait for them or stop them"

BUSY_IN_BACKGROUND = (
    "a plan is already running in the background ({name}); wait for it, or stop it with "
    "`%agent stop`"
)


@dataclass(frozen=True)
class BackgroundRun:
    """The run of a cell that has ended."""

    cell: Cell
    run: Run
    """The run as of the end of its cell."""

    @property
    def name(self) -> str:
        """The name by which the user knows it."""
        return self.run.plan_id or self.run.id

    def stop(self) -> None:
        """Ask it to stop, from any thread."""
        self.cell.stop()


class RunLock:
    """Held by the run of a cell, and for each session by its run.

    `background` is the cell's run if its cell has ended.
    """

    def __init__(self) -> None:
        self.background: BackgroundRun | None = None
        self._lock, self._changing = threading.Lock(), threading.Lock()
        self._sessions: set[str] = set()

    @contextmanager
    def hold(self) -> Iterator[Hold]:
        """Hold the lock for a cell; raises BusyError, also for a cell within a cell."""
        if not self._lock.acquire(blocking=False):
            behind = self.background
            raise BusyError(BUSY_IN_BACKGROUND.format(name=behind.name) if behind else BUSY)
        hold = Hold(self)
        try:
            yield hold
        finally:
            if not hold.is_kept:
                self._release(hold)

    @contextmanager
    def hold_session(self, session_id: str) -> Iterator[None]:
        """Hold a session for an agent's run; raises BusyError if it has another one."""
        self._add_session(session_id)
        try:
            yield
        finally:
            self._sessions.discard(session_id)

    @contextmanager
    def hold_all(self) -> Iterator[None]:
        """Hold the lock for what no run may be beside; raises BusyError."""
        with self.hold() as hold:
            hold.check_alone()
            yield

    def _add_session(self, session_id: str) -> None:
        with self._changing:
            if session_id in self._sessions:
                raise BusyError(BUSY_SESSION)
            self._sessions.add(session_id)

    def _release(self, hold: Hold) -> None:
        self.background = None
        if hold.session_id is not None:
            self._sessions.discard(hold.session_id)
        self._lock.release()


@dataclass
class Hold:
    """The right to run, for a cell or for the background run that it leaves behind."""

    lock: RunLock
    is_kept: bool = False
    session_id: str | None = None

    def check_alone(self) -> None:
        """Raise BusyError if agents are running in other sessions."""
        if self.lock._sessions:
            raise BusyError(BUSY_AGENTS)

    def add_session(self, session_id: str) -> None:
        """Hold a session as well; raises BusyError if an agent's run has it."""
        self.lock._add_session(session_id)
        self.session_id = session_id

    def keep_for_background(self, cell: Cell, run: Run) -> None:
        """Keep the lock until the cell's run has ended, if that continues in the background."""
        if (task := cell.background) is not None:
            self.is_kept, self.lock.background = True, BackgroundRun(cell, run)
            task.done.add_done_callback(lambda _: self.lock._release(self))


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
        self._journals: dict[tuple[Workspace, Secret | None], Journal] = {}
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

    @without_interrupts
    def journal(self, workspace: Workspace, *, persist: bool, url: Secret | None = None) -> Journal:
        """Return the workspace's journal, opened once, or a new one in memory.

        With a `url` it is in that database. Raises JournalError.
        """
        if not persist:
            return Journal.open(None)
        with self._opening:
            if (workspace, url) not in self._journals:
                self._journals[workspace, url] = _open_journal(workspace, url)
            return self._journals[workspace, url]


def _open_journal(workspace: Workspace, url: Secret | None) -> Journal:
    try:
        folder = workspace.state_folder().root
    except AgentError as error:
        raise JournalError(
            f"{error}. Nothing was run, because it could not be recorded. Make the folder "
            f"writable, or {WITHOUT}."
        ) from None
    if url is not None:
        return Journal.open(journal_place(workspace.root, url))
    return open_journal(folder / JOURNAL_FILE)


def journal_place(root: Path, url: Secret | None) -> Path | str:
    """Return the place of the journal of the workspace in a folder; raises JournalError."""
    if url is None or not (text := url.get_secret_value()):
        return root / STATE / JOURNAL_FILE
    # A script's environment is its author's; a kernel's may have been written to by a `.env`.
    environ = os.environ if running_shell() is None else start_environ()
    return postgres_store().url_of_folder(text, root, environ)


def has_journal(workspace: Workspace, url: Secret | None) -> bool:
    """Return whether anything was recorded in that workspace; a database is not asked."""
    return url is not None or (workspace.root / STATE / JOURNAL_FILE).is_file()


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
        _JOURNALS.rewrite(adopt)
    if journal is None:  # the user's directory cannot be used, so nobody knows whose file it is
        journal = _open(path, {})
    return journal


def _open(path: Path, known: Data) -> Journal:
    is_own = not path.exists() or known.get(folder_key(path)) == _identify(path)
    journal = Journal.open(path)
    if not is_own:
        for record in journal.sessions(items=True):
            journal.update(mark_origin(record, ORIGIN))
    return journal


def _identify(path: Path) -> str:
    """Return a file's identity, which stays when it is written to or moved, and not in a copy."""
    status = path.stat()
    return f"{status.st_dev}:{status.st_ino}"
