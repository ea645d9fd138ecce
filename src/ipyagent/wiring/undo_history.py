"""The calls of this kernel that can be taken back, and the memory that this needs."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ipyagent.kernel.namespace import Namespace
from ipyagent.schema import Event, FileChange, RunState, ToolFinished
from ipyagent.tools.notebook.notebook_file import CellChange

if TYPE_CHECKING:
    from ipyagent.kernel.variables.checkpoint import VariableCheckpoint

MOST = 500
"""Calls that are remembered."""


@dataclass
class CallRecord:
    """The changes of one call, or of an undo of calls."""

    run_id: str
    call_id: str
    variables: VariableCheckpoint | None = None
    cells: tuple[CellChange, ...] = ()
    files: tuple[FileChange, ...] = ()
    """Files that an undo changed; those of a call are in its result."""
    is_undone: bool = False
    undoes: tuple[CallRecord, ...] = ()
    """The calls that this undo took back."""

    def mark(self, *, is_undone: bool) -> None:
        """Note whether it is taken back; what an undo took back is there again if it is."""
        self.is_undone = is_undone
        for each in self.undoes:
            each.mark(is_undone=not is_undone)

    def size(self, live: Collection[int]) -> int:
        """Return the bytes that it keeps; `live` are the ids of the variables' values."""
        return self.variables.size(live) if self.variables else 0


@dataclass
class UndoHistory:
    """The records of the calls that changed variables or cells, oldest first."""

    namespace: Namespace
    records: list[CallRecord] = field(default_factory=list)
    _undos: int = 0
    _lock: threading.RLock = field(default_factory=threading.RLock, repr=False)

    def listen(self, event: Event, state: RunState) -> None:
        """Record what a finished call changed."""
        if not isinstance(event, ToolFinished) or event.execution.result is None:
            return
        if (undo := event.execution.result.undo) is None:
            return
        from ipyagent.kernel.variables.checkpoint import VariableCheckpoint  # it is loaded by now

        record = CallRecord(state.run.id, event.execution.call.id)
        if isinstance(undo, CellChange):
            self.add(replace(record, cells=(undo,)))
        elif isinstance(undo, VariableCheckpoint):
            self.add(replace(record, variables=undo))

    def add(self, record: CallRecord) -> None:
        """Add a record; the oldest ones free their memory if there is too much."""
        with self._lock:
            self.records = [*self.records, record][-MOST:]
            self._make_room()

    def add_undo(self, record: CallRecord) -> str:
        """Add an undo under a new name; return the name."""
        with self._lock:
            self._undos += 1
            record.run_id = record.call_id = f"u{self._undos}"
            for each in record.undoes:
                each.mark(is_undone=True)
            self.add(record)
        return record.run_id

    def find(self, run_id: str, call_id: str) -> CallRecord | None:
        """Return the record of a call, or of an undo; None if it changed only files."""
        found = (each for each in self.records if (each.run_id, each.call_id) == (run_id, call_id))
        return next(found, None)

    def size_of(self, records: Iterable[CallRecord]) -> int:
        """Return how many bytes these records keep in memory."""
        live = self._live_ids()
        return sum(each.size(live) for each in records)

    def _live_ids(self) -> set[int]:
        """Return the ids of the variables' values; none if a thread of the user's changes them."""
        with suppress(RuntimeError):
            return set(map(id, self.namespace.variables().values()))
        return set()

    def _make_room(self) -> None:
        from ipyagent.kernel.variables.snapshot import default_memory  # it is loaded by now

        limit = self.namespace.undo_memory
        limit = default_memory() if limit is None else limit
        live = self._live_ids()
        kept = [each.variables for each in self.records if each.variables]
        for each in kept:
            each.forget_dead()
        sizes = [each.size(live) for each in kept]
        total = sum(sizes)
        for each, size in zip(kept, sizes, strict=True):
            if not limit or (total > limit and size):
                each.drop()
                total -= size
