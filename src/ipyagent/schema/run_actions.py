"""Actions on a run that has ended; the room that carries them out registers here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class UndoReport:
    """The report of taking back a run, in lines: what goes back, and what stays with the reason."""

    restored: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    id: str = ""
    """The name under which this undo can be taken back itself; "" if nothing was done."""

    def __str__(self) -> str:
        again = (f"`%agent undo {self.id}` takes this back",) if self.id else ()
        return "\n".join((*self.restored, *self.skipped, *again)) or "nothing to undo"


undo_run: Callable[..., UndoReport] | None = None
"""Takes back a run, or with `dry_run` only says what that would do; set by `wiring`."""
