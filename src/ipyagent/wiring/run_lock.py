"""One run at a time in a session, and one cell's run, which may go on in the background.

Agents with sessions of their own run beside each other.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from ipyagent.errors import BusyError
from ipyagent.kernel.drivers import Cell
from ipyagent.schema import Run

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
        with self.hold():
            if self._sessions:
                raise BusyError(BUSY_AGENTS)
            yield

    def keep_for(self, hold: Hold, background: BackgroundRun) -> None:
        """Stay held until that run has ended."""
        if (task := background.cell.background) is None:
            raise RuntimeError("the cell's run does not go on")
        self.background = background
        task.done.add_done_callback(lambda _: self._release(hold))

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

    def add_session(self, session_id: str) -> None:
        """Hold a session as well; raises BusyError if an agent's run has it."""
        self.lock._add_session(session_id)
        self.session_id = session_id

    def keep_for_background(self, cell: Cell, run: Run) -> None:
        """Keep the lock until the cell's run has ended, if that continues in the background."""
        if cell.background is not None:
            self.is_kept = True
            self.lock.keep_for(self, BackgroundRun(cell, run))
