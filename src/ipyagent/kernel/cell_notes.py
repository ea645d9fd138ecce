"""Notes of what the user's own cells bound or changed, by identity: cheap, after every cell.

It is loaded with the extension, so it imports next to nothing.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from ipyagent.kernel.protocols import Shell

MOST = 500
"""Cells that are remembered."""

MOST_NAMES = 200
"""Names of a cell whose sizes are compared."""

_WORD = re.compile(r"[^\W\d]\w*")
_OURS = re.compile(r"\s*%{1,2}agent\b")


@dataclass(frozen=True)
class CellNote:
    """A cell of the user's and the names that it changed: "created", "changed" or "deleted"."""

    number: int | None
    code: str
    changes: Mapping[str, str]
    at: datetime = field(default_factory=lambda: datetime.now(UTC))


class CellNotes:
    """The notes of one shell, oldest first."""

    def __init__(self, shell: Shell) -> None:
        self._shell = shell
        self.notes: list[CellNote] = []
        self._before: tuple[str, dict[str, int], dict[str, str]] | None = None

    def enter(self, info: object) -> None:
        """Remember what the names hold before a cell; on `pre_run_cell`."""
        code = getattr(info, "raw_cell", None) or ""
        self._before = None if _OURS.match(code) else (code, self._ids(), self._sizes(code))

    def leave(self, result: object) -> None:
        """Note what a cell changed; on `post_run_cell`."""
        before, self._before = self._before, None
        if before is None:
            return
        code, ids, sizes = before
        now, now_sizes = self._ids(), self._sizes(code)
        changes = {name: "created" for name in now if name not in ids}
        changes |= {name: "changed" for name in now if ids.get(name, now[name]) != now[name]}
        changes |= {n: "changed" for n in sizes if n in now and sizes[n] != now_sizes.get(n)}
        changes |= {name: "deleted" for name in ids if name not in now}
        if changes:
            note = CellNote(getattr(result, "execution_count", None), code, changes)
            self.notes = [*self.notes, note][-MOST:]

    def _ids(self) -> dict[str, int]:
        hidden = self._shell.user_ns_hidden
        return {
            name: id(value)
            for name, value in list(self._shell.user_ns.items())
            if type(name) is str and name[:1] != "_" and hidden.get(name, self) is not value
        }

    def _sizes(self, code: str) -> dict[str, str]:
        """Return types and sizes of what a cell names: what it changes in place often shows."""
        # Another thread imports it in the background: it may be there in part.
        kind = getattr(sys.modules.get("ipyagent.kernel.describe"), "kind", None)
        if kind is None:
            return {}
        names = [name for name in dict.fromkeys(_WORD.findall(code)) if name[:1] != "_"]
        known = self._shell.user_ns
        return {name: kind(known[name]) for name in names[:MOST_NAMES] if name in known}
