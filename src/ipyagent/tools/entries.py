"""Entries of folders, and the budget of a walk."""

from __future__ import annotations

import os
import stat
import time
from dataclasses import dataclass
from typing import Literal

from ipyagent.plaintext import spell
from ipyagent.tools.path_rules import human_size

Kind = Literal["file", "folder", "link", "special"]


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of a folder; `path` is relative to the folder that was walked."""

    path: str
    kind: Kind
    size: int

    def __str__(self) -> str:
        note = {"file": f"  {human_size(self.size)}", "folder": "/"}
        return spell(self.path) + note.get(self.kind, f"  ({self.kind}, not followed)")

    @classmethod
    def from_dir_entry(cls, entry: os.DirEntry[str], *, with_size: bool = True) -> Entry:
        """Return the entry for a directory's entry; links are not followed.

        Without the size it costs a tenth of the time.
        """
        if entry.is_symlink():
            return cls(entry.name, "link", 0)
        if entry.is_dir(follow_symlinks=False):
            return cls(entry.name, "folder", 0)
        if not with_size:
            return cls(entry.name, "file" if entry.is_file(follow_symlinks=False) else "special", 0)
        try:
            status = entry.stat(follow_symlinks=False)
        except OSError:
            return cls(entry.name, "special", 0)
        return cls(
            entry.name, "file" if stat.S_ISREG(status.st_mode) else "special", status.st_size
        )


_CALLS = 50


class WalkBudget:
    """Limits for the cost of a walk, so that any tree gets an answer.

    The work of its thread is counted, since on a busy machine a clock runs on while nothing is
    done; a clock ends it too, much later, for a slow disk.
    """

    def __init__(
        self, entries: int = 100_000, seconds: float = 1.5, waiting: float | None = None
    ) -> None:
        """Allow `seconds` of processor time, and of `waiting` altogether: four times that."""
        self._entries = entries
        self._calls = 0
        self._work_until = time.thread_time() + seconds
        self._until = time.monotonic() + (4 * seconds if waiting is None else waiting)
        self.exhausted = False

    def spend(self, entries: int = 1) -> bool:
        """Count entries before they are visited; return False, and set `exhausted`, if too many."""
        self._entries -= entries
        self._calls += 1
        if self._entries < 0 or self._is_late():
            self.exhausted = True
        return not self.exhausted

    def _is_late(self) -> bool:
        if time.monotonic() > self._until:
            return True
        # To ask for a thread's time takes as long as an entry.
        return self._calls % _CALLS == 1 and time.thread_time() > self._work_until
