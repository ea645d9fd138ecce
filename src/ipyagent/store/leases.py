"""Who goes on with a session: one kernel at a time.

A lock of the operating system, not a heartbeat: it ends with its process, however that ends.
"""

from __future__ import annotations

import logging
import os
import weakref
from pathlib import Path

from ipyagent.store.database import failure

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

log = logging.getLogger("ipyagent")


class Leases:
    """The sessions that this journal's kernel holds; `folder` None holds any."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self._held: dict[str, int] = {}
        _all.add(self)

    def claim(self, session_id: str) -> bool:
        """Whether the session is ours now; raises JournalError."""
        if self.folder is None or session_id in self._held:
            return True
        if fcntl is None:
            log.warning("this system has no locks; %s may be open in two kernels", session_id)
            return True
        path = self.folder / f"{session_id}.lock"
        try:
            self.folder.mkdir(exist_ok=True)
            # Not inherited by programs that a kernel starts: they would hold on to the session.
            lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except OSError as error:
            what = f"it cannot be opened ({error.strerror})"
            raise failure(path, what, "Make it and its folder writable") from None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(lock)
            if isinstance(error, BlockingIOError):
                return False
            what = f"the file system has no locks ({error.strerror})"
            raise failure(path, what, "Move the workspace") from None
        self._held[session_id] = lock
        return True

    def release(self, session_id: str) -> None:
        """Let others go on with the session."""
        # The file stays: another kernel may just be opening it.
        lock = self._held.pop(session_id, None)
        if lock is not None:
            os.close(lock)

    def forget(self, session_id: str) -> None:
        """Give up a session that nobody else can know of."""
        if self.folder is not None and session_id in self._held:
            (self.folder / f"{session_id}.lock").unlink(missing_ok=True)
        self.release(session_id)

    def release_all(self) -> None:
        """Let others go on with all of them."""
        for session_id in tuple(self._held):
            self.release(session_id)


_all: weakref.WeakSet[Leases] = weakref.WeakSet()


def _leave_to_parent() -> None:
    """A fork shares its parent's locks, and would keep them when the parent is gone."""
    for leases in tuple(_all):
        leases.release_all()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_to_parent)
