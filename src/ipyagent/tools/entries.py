"""What a folder holds, and how much of it is looked at."""

from __future__ import annotations

import os
import stat
import time
from dataclasses import dataclass
from typing import Literal

from ipyagent.tools.names import human_size, shown

Kind = Literal["file", "folder", "link", "special"]


@dataclass(frozen=True, slots=True)
class Entry:
    """Something in a folder; `path` is relative to the folder that was walked."""

    path: str
    kind: Kind
    size: int

    def __str__(self) -> str:
        note = {"file": f"  {human_size(self.size)}", "folder": "/"}
        return shown(self.path) + note.get(self.kind, f"  ({self.kind}, not followed)")

    @classmethod
    def of(cls, entry: os.DirEntry[str], *, sized: bool = True) -> Entry:
        """What a directory says of one of its names, links not followed.

        Without the size it costs a tenth.
        """
        if entry.is_symlink():
            return cls(entry.name, "link", 0)
        if entry.is_dir(follow_symlinks=False):
            return cls(entry.name, "folder", 0)
        if not sized:
            return cls(entry.name, "file" if entry.is_file(follow_symlinks=False) else "special", 0)
        try:
            status = entry.stat(follow_symlinks=False)
        except OSError:
            return cls(entry.name, "special", 0)
        return cls(
            entry.name, "file" if stat.S_ISREG(status.st_mode) else "special", status.st_size
        )


class Budget:
    """How much a walk may look at, so that no tree is too large to be answered about."""

    def __init__(self, entries: int = 100_000, seconds: float = 1.5) -> None:
        self._entries = entries
        self._until = time.monotonic() + seconds
        self.spent = False

    def allows(self, entries: int = 1) -> bool:
        """Count what is about to be looked at; False, and `spent`, once it is too much."""
        self._entries -= entries
        if self._entries < 0 or time.monotonic() > self._until:
            self.spent = True
        return not self.spent
