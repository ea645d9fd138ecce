"""The claims of kernels on sessions, so that one at a time continues one.

A claim is a lock of the operating system on a file, not a heartbeat: it ends with its process,
however that ends.
"""

from __future__ import annotations

import errno
import logging
import os
import weakref
from pathlib import Path

from ipyagent import atomic_files
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
        if not atomic_files.has_locks():
            log.warning("this system has no locks; %s may be open in two kernels", session_id)
            return True
        path = self.folder / f"{session_id}.lock"
        try:
            self.folder.mkdir(exist_ok=True)
            lock = atomic_files.open_lock(path)
        except OSError as error:
            problem = f"it cannot be opened ({error.strerror})"
            raise failure(path, problem, "Make it and its folder writable") from None
        try:
            is_ours = atomic_files.try_lock(lock)
            # Who had it may have removed it.
            is_removed = is_ours and not atomic_files.is_lock_at(path, lock)
        except OSError as error:
            os.close(lock)
            if error.errno == errno.ESTALE:  # removed on another computer
                return self.claim(session_id)
            problem = f"the file system has no locks ({error.strerror})"
            raise failure(path, problem, "Move the workspace") from None
        if not is_ours or is_removed:
            os.close(lock)
            return is_removed and self.claim(session_id)
        self._locks[session_id] = lock
        return True

    def holds(self, session_id: str) -> bool:
        """Return whether no other kernel can claim the session."""
        return session_id in self._locks

    def release(self, session_id: str) -> None:
        """Release the session for others, and remove its lock."""
        if (lock := self._locks.pop(session_id, None)) is not None and self.folder is not None:
            atomic_files.remove_lock(self.folder / f"{session_id}.lock", lock)

    def release_all(self) -> None:
        """Release all sessions; the files stay, for they may be another process's."""
        while self._locks:
            os.close(self._locks.popitem()[1])


_all: weakref.WeakSet[SessionLocks] = weakref.WeakSet()


def _release_in_child() -> None:
    """Close a fork's copies of its parent's locks, which would otherwise outlive the parent."""
    for locks in tuple(_all):
        locks.release_all()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_release_in_child)
