"""One run at a time in a kernel, including a run in the background."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from ipyagent.errors import BusyError
from ipyagent.kernel.drivers import Cell
from ipyagent.schema import Run

BUSY = "an agent is already running in this kernel; wait for it or stop it"

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
    """Held by the current run. `background` is that run if its cell has ended."""

    def __init__(self) -> None:
        self.background: BackgroundRun | None = None
        self._lock = threading.Lock()

    @contextmanager
    def hold(self) -> Iterator[Hold]:
        """Hold the lock for a cell; raises BusyError, also for a run within a run."""
        if not self._lock.acquire(blocking=False):
            behind = self.background
            raise BusyError(BUSY_IN_BACKGROUND.format(name=behind.name) if behind else BUSY)
        hold = Hold(self)
        try:
            yield hold
        finally:
            if not hold.is_kept:
                self._lock.release()

    def keep_for(self, background: BackgroundRun) -> None:
        """Stay held until that run has ended."""
        if (task := background.cell.background) is None:
            raise RuntimeError("the cell's run does not go on")
        self.background = background
        task.done.add_done_callback(self._release)

    def _release(self, _ended: object) -> None:
        self.background = None
        self._lock.release()


@dataclass
class Hold:
    """The right to run, for a cell or for the background run that it leaves behind."""

    lock: RunLock
    is_kept: bool = False

    def keep_for_background(self, cell: Cell, run: Run) -> None:
        """Keep the lock until the cell's run has ended, if that continues in the background."""
        if cell.background is not None:
            self.is_kept = True
            self.lock.keep_for(BackgroundRun(cell, run))
