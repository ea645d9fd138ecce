"""The calls of this kernel that can be taken back, and the memory that this needs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING
from weakref import WeakSet

from ipyagent.agent.session.session import Session
from ipyagent.kernel.describe.safe_inspect import one_line
from ipyagent.kernel.namespace import Namespace
from ipyagent.schema import Event, FileChange, Run, RunState, ToolExecution, ToolFinished
from ipyagent.tools.notebook_file import CellChange

if TYPE_CHECKING:
    from ipyagent.kernel.variables.checkpoint import VariableCheckpoint

MOST = 500
"""Calls that are remembered."""


STAYS = "{} stays: {}"
INSIDE = "{} stays as it is: it was changed inside, as the trial on a copy had shown"


@dataclass
class CallRecord:
    """The changes of one call, or of an undo of calls."""

    run_id: str
    call_id: str
    variables: VariableCheckpoint | None = None
    cells: tuple[CellChange, ...] = ()
    files: tuple[FileChange, ...] = ()
    """Files that an undo changed; those of a call are in its result."""
    lasting: tuple[str, ...] = ()
    """What may have changed, and cannot be taken back."""
    is_undone: bool = False
    undoes: tuple[CallRecord, ...] = ()
    """The calls that this undo took back."""

    def mark(self, *, is_undone: bool) -> None:
        """Note whether it is taken back; what an undo took back is there again if it is."""
        self.is_undone = is_undone
        for each in self.undoes:
            each.mark(is_undone=not is_undone)

    def calls(self) -> Iterator[CallRecord]:
        """Yield the calls that it stands for: itself, or what it took back."""
        if not self.undoes:
            yield self
        for each in self.undoes:
            yield from each.calls()

    def size(self, live: Collection[int]) -> int:
        """Return the bytes that it keeps; `live` are the ids of the variables' values."""
        return self.variables.size(live) if self.variables else 0


@dataclass
class UndoHistory:
    """The records of the calls that changed variables or cells, oldest first."""

    namespace: Namespace
    records: list[CallRecord] = field(default_factory=list)
    sessions: WeakSet[Session] = field(default_factory=WeakSet)
    """The sessions whose runs say what of them was taken back."""
    show: Callable[[Run], object] = lambda run: None
    """Shows a run again that says so."""
    _undos: int = 0
    _lock: threading.RLock = field(default_factory=threading.RLock, repr=False)

    def listen(self, event: Event, state: RunState) -> None:
        """Record what a finished call changed."""
        if not isinstance(event, ToolFinished) or event.execution.result is None:
            return
        undo, lasting = event.execution.result.undo, tuple(_list_lasting(event.execution))
        record = CallRecord(state.run.id, event.execution.call.id, lasting=lasting)
        if isinstance(undo, CellChange):
            record.cells = (undo,)
        elif undo is not None:
            from ipyagent.kernel.variables.checkpoint import VariableCheckpoint  # loaded by now

            record.variables = undo if isinstance(undo, VariableCheckpoint) else None
        if lasting or record.cells or record.variables:
            self.add(record)

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

    def note(self, records: Iterable[CallRecord], stays: Iterable[str]) -> None:
        """Let the runs of these calls say, for good, which of them are taken back."""
        changed: dict[str, dict[str, CallRecord]] = {}
        for each in chain.from_iterable(record.calls() for record in records):
            changed.setdefault(each.run_id, {})[each.call_id] = each
        for run_id, calls in changed.items():
            session = next((each for each in self.sessions if run_id in each.runs.ids), None)
            if session is None or (run := session.runs.get(run_id)) is None:
                continue
            others = (each for each in run.taken_back if each not in calls)
            now = [*others, *(name for name, each in calls.items() if each.is_undone)]
            self.show(session.note_undo(run, now, stays if now else ()))

    def find_redo(self, run_id: str) -> CallRecord | None:
        """Return the newest undo of a run that is not taken back itself."""
        return next(
            (
                each
                for each in reversed(self.records)
                if not each.is_undone and any(call.run_id == run_id for call in each.undoes)
            ),
            None,
        )

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
        sizes = [each.size(live) for each in kept]
        total = sum(sizes)
        for each, size in zip(kept, sizes, strict=True):
            if not limit or (total > limit and size):
                each.drop()
                total -= size


def _list_lasting(call: ToolExecution) -> Iterator[str]:
    """Yield what a call may have changed that cannot be taken back.

    Some of it only its rehearsal has seen.
    """
    if call.result is None or call.started_at is None:
        return
    yield from (STAYS.format(one_line(each.name), each.kept) for each in call.result.lasting)
    known = {each.name for each in call.result.variables}
    for each in call.rehearsal.variables if call.rehearsal else ():
        if each.change == "changed" and not each.summary and each.name not in known:
            yield INSIDE.format(one_line(each.name))
