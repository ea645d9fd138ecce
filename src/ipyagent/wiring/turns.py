"""What a kernel has one of: a run at a time, and a journal for each workspace."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ipyagent.errors import AgentError, BusyError, JournalError
from ipyagent.kernel.drivers import Cell
from ipyagent.kernel.interrupt import uninterrupted
from ipyagent.schema import Run
from ipyagent.store.database import WITHOUT
from ipyagent.store.journal import Journal
from ipyagent.tools.names import STATE
from ipyagent.tools.workspace import Workspace

FILE = "state.db"

_busy = threading.Lock()


BUSY = "an agent is already running in this kernel; wait for it or stop it"

BUSY_BEHIND = (
    "a plan is already running in the background ({name}); wait for it, or stop it with "
    "`%agent stop`"
)


@dataclass
class Background:
    """The run of a cell that has ended."""

    cell: Cell
    run: Run
    """As it was when its cell ended."""

    @property
    def name(self) -> str:
        """What the user knows it by."""
        return self.run.plan_id or self.run.id

    def stop(self) -> None:
        """Ask it to end, from any thread."""
        self.cell.stop()


_background: Background | None = None


@dataclass
class Turn:
    """The right to run, for as long as a cell takes, or the run that it leaves behind."""

    is_kept: bool = False

    def follow(self, cell: Cell, run: Run) -> None:
        """Keep the turn until the cell's run has ended, where that goes on in the background."""
        global _background
        if cell.background is not None:
            self.is_kept = True
            _background = Background(cell, run)
            cell.background.done.add_done_callback(_end_background)


def _end_background(_ended: object) -> None:
    global _background
    _background = None
    _busy.release()


def running_behind() -> Background | None:
    """The run that goes on in the background."""
    return _background


@contextmanager
def only_run() -> Iterator[Turn]:
    """One run at a time in a kernel; raises BusyError for a second one, nested ones included."""
    if not _busy.acquire(blocking=False):
        behind = _background
        raise BusyError(BUSY_BEHIND.format(name=behind.name) if behind else BUSY)
    turn = Turn()
    try:
        yield turn
    finally:
        if not turn.is_kept:
            _busy.release()


def journal_for(workspace: Workspace, *, persist: bool) -> Journal:
    """The journal of a workspace, opened once, or one in memory; raises JournalError."""
    return _journal(workspace) if persist else Journal.open(None)


def journal_path(root: Path) -> Path:
    """Where the journal of the workspace at a folder is, or would be."""
    return root / STATE / FILE


def has_journal(workspace: Workspace) -> bool:
    """Whether something was recorded in that workspace."""
    return journal_path(workspace.root).is_file()


@cache
@uninterrupted
def _journal(workspace: Workspace) -> Journal:
    try:
        folder = workspace.state().root
    except AgentError as error:
        raise JournalError(
            f"{error}. Nothing was run, because it could not be recorded. Make the folder "
            f"writable, or {WITHOUT}."
        ) from None
    return Journal.open(folder / FILE)
