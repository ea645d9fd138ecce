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


class WalkBudget:
    """The number of entries that a walk may visit, so that any tree gets an answer."""

    def __init__(self, entries: int = 100_000, seconds: float = 1.5) -> None:
        self._entries = entries
        self._until = time.monotonic() + seconds
        self.exhausted = False

    def spend(self, entries: int = 1) -> bool:
        """Count entries before they are visited; return False, and set `exhausted`, if too many."""
        self._entries -= entries
        if self._entries < 0 or time.monotonic() > self._until:
            self.exhausted = True
        return not self.exhausted
