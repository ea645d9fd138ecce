"""Locks of sessions: one kernel at a time continues a session.

A lock of the operating system, not a heartbeat: it ends with its process, however that ends.
"""

from __future__ import annotations

import logging
import os
import weakref
from pathlib import Path

from ipyagent.atomic_files import has_locks, open_lock, try_lock
from ipyagent.store.database import failure

log = logging.getLogger("ipyagent")


class SessionLocks:
    """The sessions that this journal's kernel has claimed; with `folder` None it may claim any."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self._locks: dict[str, int] = {}
        _all.add(self)

    def claim(self, session_id: str) -> bool:
        """Return whether the session is ours now; raises JournalError."""
        if self.folder is None or session_id in self._locks:
            return True
        if not has_locks():
            log.warning("this system has no locks; %s may be open in two kernels", session_id)
            return True
        path = self.folder / f"{session_id}.lock"
        try:
            self.folder.mkdir(exist_ok=True)
            lock = open_lock(path)
        except OSError as error:
            problem = f"it cannot be opened ({error.strerror})"
            raise failure(path, problem, "Make it and its folder writable") from None
        try:
            is_ours = try_lock(lock)
        except OSError as error:
            os.close(lock)
            problem = f"the file system has no locks ({error.strerror})"
            raise failure(path, problem, "Move the workspace") from None
        if not is_ours:
            os.close(lock)
            return False
        self._locks[session_id] = lock
        return True

    def release(self, session_id: str) -> None:
        """Release the session for others."""
        # The file stays: another kernel may just be opening it.
        lock = self._locks.pop(session_id, None)
        if lock is not None:
            os.close(lock)

    def forget(self, session_id: str) -> None:
        """Remove the lock of a session that nobody else can know of."""
        if self.folder is not None and session_id in self._locks:
            (self.folder / f"{session_id}.lock").unlink(missing_ok=True)
        self.release(session_id)

    def release_all(self) -> None:
        """Release all sessions."""
        for session_id in tuple(self._locks):
            self.release(session_id)


_all: weakref.WeakSet[SessionLocks] = weakref.WeakSet()


def _release_in_child() -> None:
    """Close a fork's copies of its parent's locks, which would otherwise outlive the parent."""
    for locks in tuple(_all):
        locks.release_all()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_release_in_child)
