"""What a kernel has one of: a run at a time, and a journal for each workspace."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from ipyagent.errors import AgentError, BusyError, JournalError
from ipyagent.kernel.interrupt import uninterrupted
from ipyagent.store.database import WITHOUT
from ipyagent.store.journal import Journal
from ipyagent.tools.names import STATE
from ipyagent.tools.workspace import Workspace

FILE = "state.db"

_busy = threading.Lock()


@contextmanager
def only_run() -> Iterator[None]:
    """One run at a time in a kernel; raises BusyError for a second one, nested ones included."""
    if not _busy.acquire(blocking=False):
        raise BusyError("an agent is already running in this kernel; wait for it or stop it")
    try:
        yield
    finally:
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
