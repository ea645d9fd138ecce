"""Taking back a run or a call: variables, cells and files, first found out and then done.

The calls of this kernel that can be taken back are remembered, within a limit of memory.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Protocol
from weakref import WeakSet

from ipyagent.agent.session.session import Session
from ipyagent.errors import AgentError, ConfigError, SessionError
from ipyagent.kernel.namespace import Namespace, take_snapshot
from ipyagent.plaintext import join_some, plural, spell
from ipyagent.schema import Event, FileChange, Run, RunState, ToolExecution, ToolFinished
from ipyagent.schema.runs import UndoReport
from ipyagent.store.journal import Journal
from ipyagent.tools.file_change import Checkpoints
from ipyagent.tools.notebook_file import CellChange
from ipyagent.tools.workspace import Workspace
from ipyagent.values.describe.safe_inspect import one_line

if TYPE_CHECKING:
    from ipyagent.values.variables.checkpoint import VariableCheckpoint

MOST = 500
"""Calls that are remembered."""

SMALL = 10_000
"""Bytes up to which a record is not measured again: it counts as it was when it was added."""

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
    """Variables that may have changed, and cannot be taken back."""
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


@dataclass
class UndoHistory:
    """The records of the calls that changed variables or cells, oldest first."""

    namespace: Namespace
    records: list[CallRecord] = field(default_factory=list)
    sessions: WeakSet[Session] = field(default_factory=WeakSet)
    """The sessions whose runs say what of them was taken back."""
    journal: Journal | None = None
    """The record of runs of other sessions."""
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
            from ipyagent.values.variables.checkpoint import VariableCheckpoint  # loaded by now

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
            run = session.runs.get(run_id) if session else self._find_unopened(run_id)
            if run is None:
                continue
            others = (each for each in run.taken_back if each not in calls)
            now = [*others, *(name for name, each in calls.items() if each.is_undone)]
            left = stays if now else ()
            if session:
                run = session.note_undo(run, now, left)
            elif self.journal:
                run = self.journal.note_undo(run.session_id, run, now, left)
            self.show(run)

    def _find_unopened(self, run_id: str) -> Run | None:
        """Return a recorded run of a session that this kernel has not opened."""
        with suppress(SessionError):
            return self.journal.run(run_id) if self.journal else None
        return None

    def find_redo(self, run_id: str) -> CallRecord | None:
        """Return the newest undo of a run that is not taken back itself."""
        undone = (each for each in reversed(self.records) if not each.is_undone)
        found = (each for each in undone if run_id in {call.run_id for call in each.undoes})
        return next(found, None)

    def find(self, run_id: str, call_id: str) -> CallRecord | None:
        """Return the record of a call, or of an undo; None if it changed only files."""
        found = (each for each in self.records if (each.run_id, each.call_id) == (run_id, call_id))
        return next(found, None)

    def size_of(self, records: Iterable[CallRecord]) -> int:
        """Return how many bytes these records keep in memory."""
        live = self._live_ids()
        return sum(each.variables.size(live) for each in records if each.variables)

    def _live_ids(self) -> set[int]:
        """Return the ids of the variables' values; none if a thread of the user's changes them."""
        with suppress(RuntimeError):
            return set(map(id, self.namespace.variables().values()))
        return set()

    def _make_room(self) -> None:
        from ipyagent.values.variables.snapshot import default_memory  # it is loaded by now

        # A large one may hold less now, and what is kept of objects that are gone is freed.
        limit = self.namespace.undo_memory
        limit = default_memory() if limit is None else limit
        live = self._live_ids()
        kept = [each.variables for each in self.records if each.variables]
        sizes = [each.most if each.most <= SMALL else each.size(live) for each in kept]
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


NAMED = 50
"""The most things taken back that are named."""

NOTHING = "{} changed files, variables or cells that can be taken back; nothing to undo"
AGAIN = "`%agent undo {}` puts it there again"
OLDER = "nothing of {} can be taken back; `%agent undo {}` takes back an older run"
FORGOTTEN = "what variables held before {} is no longer kept: it took too much memory"


class UndoPlace(Protocol):
    """The environment in which the calls were made."""

    workspace: Workspace
    namespace: Namespace
    remarks: list[str]

    @property
    def undo(self) -> UndoHistory:
        """The calls that can be taken back."""

    def check_cell(self, change: CellChange) -> None:
        """Raise AgentError if a change of a cell cannot be taken back."""

    def revert_cell(self, change: CellChange) -> CellChange:
        """Take back a change of a cell; return the change that this was. Raises AgentError."""


@dataclass
class Undo:
    """The undo of a run, of a call of it, or of an earlier undo. `title` names it."""

    environment: UndoPlace
    title: str
    subject: str
    """The same in words for the model; "" if it knows nothing of them."""
    records: Sequence[CallRecord]
    """The calls, oldest first."""
    older: Callable[[], str] = str
    """Returns the id of an older run that can be taken back, or ""."""

    @property
    def is_done(self) -> bool:
        """True if all is taken back, as far as it is known."""
        known = [each for each in self.records if each.variables or each.cells or each.lasting]
        files = [change for each in self.records for change in each.files]
        return all(each.is_undone for each in known) and self._checkpoints.are_undone(files)

    @property
    def _checkpoints(self) -> Checkpoints:
        return Checkpoints(self.environment.workspace)

    def run(self, *, dry_run: bool = False) -> UndoReport:
        """Take it back, or find out what that would do: the report says what stays, and why."""
        record = CallRecord("", "", undoes=tuple(self.records))
        variables, changed, kept = self._restore_variables(record, dry_run=dry_run)
        done = [(one_line(name), text) for name, text in variables.items()]
        for change in (cell for each in reversed(self.records) for cell in reversed(each.cells)):
            try:
                if dry_run:
                    self.environment.check_cell(change)
                else:
                    record.cells = (self.environment.revert_cell(change), *record.cells)
                done.append((change.title, _describe_change(change.after, change.before)))
            except AgentError as error:
                changed.append(str(error))
        files = [change for each in self.records for change in each.files]
        undone = self._checkpoints.undo(files, dry_run=dry_run)
        fates = {each.path: _describe_change(each.before, each.after) for each in undone.changes}
        done += [(spell(path), fates.get(path, "")) for path in undone.restored]
        lines = [_foretell(*each) if dry_run else self._report(*each) for each in done]
        lasting = (text for each in self.records for text in each.lasting)
        changed += undone.skipped.values()
        skipped = [*dict.fromkeys((*changed, *kept, *lasting))]
        name = ""
        if not dry_run:
            record.files = tuple(undone.changes)
            if record.variables or record.cells or record.files:
                name = self.environment.undo.add_undo(record)
                self._tell_model(record)
                self.environment.undo.note(self.records, skipped)
        if not lines and (older := self.older()):
            skipped.append(OLDER.format(self.title, older))
        return UndoReport(tuple(lines), tuple(skipped), tuple(changed), name)

    def _restore_variables(
        self, record: CallRecord, *, dry_run: bool
    ) -> tuple[dict[str, str], list[str], list[str]]:
        """Take variables back, or with `dry_run` only find out what that would do.

        Return what it does, what stays because it has changed since, and what cannot go back.
        """
        kept = [each.variables for each in reversed(self.records) if each.variables]
        if not kept:
            return {}, [], []
        from ipyagent.values.variables.checkpoint import VariableUndo  # it is loaded by now

        namespace = self.environment.namespace
        names = " ".join(name for each in kept for name in each.names)
        before = take_snapshot(namespace, names)
        undo = VariableUndo(namespace, dry_run)
        undo.take_back(*kept)
        if not dry_run:
            record.variables = before.checkpoint(namespace.variables())
        lost = [FORGOTTEN.format(self.title)] if any(each.is_dropped for each in kept) else []
        return undo.restored, [*undo.skipped.values()], [*undo.notes.values(), *lost]

    def _report(self, name: str, text: str) -> str:
        return f"{name} is as it was before {self.title}" + (f" ({text})" if text else "")

    def _tell_model(self, record: CallRecord) -> None:
        if not self.subject:
            return
        names = record.variables.names if record.variables else []
        cells = [each.title for each in record.cells]
        paths = [spell(each.path) for each in record.files]
        what = join_some([*map(one_line, (*names, *cells, *paths))], NAMED)
        self.environment.remarks.append(f"The user took back {self.subject}: {what} as before it.")


_REMOVES, _BRINGS_BACK = "removes it", "brings it back"
_BACK = {
    r"[\d,]+ × [\d,]+ → [\d,]+ × [\d,]+": "",  # noqa: RUF001
    r"- ([^:]+)": r"removes \1",
    r"\+ ([^:]+)": r"brings back \1",
    r"([\d,]+ rows?) dropped": r"removes \1",
    r"([\d,]+ rows?) added": r"brings back \1",
    r"(.+): (values|[\d,]+ values?) changed": r"restores \2 in \1",
    r"(values|[\d,]+ (?:value|item)s?) changed": r"restores \1",
}
"""Words for the parts of a difference that going back makes."""


def _describe_change(now: str | None, then: str | None) -> str:
    return _REMOVES if then is None else _BRINGS_BACK if now is None else ""


def _foretell(name: str, text: str) -> str:
    """Return what taking back would do to something: "sales: removes vip", "n: 2 → 1"."""
    if text in (_REMOVES, _BRINGS_BACK):
        return f"{text.replace(' it', '')} {name}"
    parts = text.split(" · ")
    for pattern, words in _BACK.items():
        parts = [re.sub(f"^{pattern}$", words, part) for part in parts]
    return f"{name}: {' · '.join(filter(None, parts)) or text or 'what it was before'}"


def undo_of_run(environment: UndoPlace, run: Run) -> Undo:
    """Return the undo of a run."""
    subject = f"what you did for “{one_line(run.prompt, 60)}”"
    return _undo_of_calls(environment, run, run.executions, f"run {run.id}", subject)


def undo_of_runs(environment: UndoPlace, runs: Sequence[Run]) -> Undo:
    """Return the undo of all that runs changed, the oldest first, and was not taken back."""
    undos = []
    for run in runs:
        calls = [each for each in run.executions if each.call.id not in run.taken_back]
        undos.append(_undo_of_calls(environment, run, calls, f"run {run.id}", ""))
    title = undos[0].title if undos else ""
    return Undo(environment, title, "", [record for each in undos for record in each.records])


def _undo_of_calls(
    environment: UndoPlace, run: Run, calls: Iterable[ToolExecution], title: str, subject: str
) -> Undo:
    records, below = list[CallRecord](), list[str]()
    for each in calls:
        record = environment.undo.find(run.id, each.call.id)
        files = each.result.files if each.result else ()
        if record is None:
            record = CallRecord(run.id, each.call.id)
        record.files = files
        child = each.result.child if each.result else None
        is_marked = child is not None and each.has_changes
        if record.variables or record.cells or files or record.lasting or is_marked:
            records.append(record)
        below += child.runs if child else ()
    known = environment.undo.records
    if below:  # in the order in which the calls ended: children work beside each other
        records += [each for each in known if each.run_id in below]
        places = {id(each): place for place, each in enumerate(known)}
        records.sort(key=lambda each: places.get(id(each), len(known)))
    return Undo(environment, title, subject, records)


def find_undo(
    environment: UndoPlace, runs: Iterable[Run], reference: str, *, redo: bool = False
) -> Undo:
    """Return the undo of the run, call or undo with that id; "": of the newest run that can be.

    `runs` are the newest first; `redo` puts a run there again that was taken back. Raises
    ConfigError if there is none.
    """
    if not reference:
        undos = ((run, undo_of_run(environment, run)) for run in runs)
        left = (pair for pair in undos if pair[1].records and not pair[1].is_done)
        _, found = next(left, (None, None))
        if found is None:
            raise ConfigError(NOTHING.format("no run"))
        found.older = lambda: next((run.id for run, _ in left), "")
        return found
    if (record := environment.undo.find(reference, reference)) is not None:
        return Undo(environment, f"undo {reference}", "their undo", [record])
    found = next(_find_all(environment, runs, reference), None)
    if found is None:
        raise ConfigError(f"no run has the id {reference!r}, and no call or undo")
    if not found.records:
        raise ConfigError(NOTHING.format(f"no part of {found.title}"))
    if found.is_done:
        record = environment.undo.find_redo(found.records[0].run_id)
        if redo and record is not None:
            return Undo(environment, f"undo {record.run_id}", "their undo", [record])
        how = "what it had changed is not kept" if record is None else AGAIN.format(record.run_id)
        raise ConfigError(f"{found.title} is taken back already; {how}")
    return found


def _find_all(environment: UndoPlace, runs: Iterable[Run], reference: str) -> Iterator[Undo]:
    others = []
    for run in runs:
        others.append(run)
        if run.id.startswith(reference) or (run.plan_id or "").startswith(reference):
            yield undo_of_run(environment, run)
    calls = [(run, call) for run in others for call in run.executions]
    found = [pair for pair in calls if pair[1].call.id.startswith(reference)]
    for run, call in sorted(found, key=lambda pair: pair[1].call.id != reference):
        title, subject = f"call {call.call.id}", f"your call of {call.call.name}"
        yield _undo_of_calls(environment, run, [call], title, subject)


def describe_undo(environment: UndoPlace, run: Run) -> str:
    """Return what can still be taken back of a run, and what that holds; "" if nothing."""
    undo = undo_of_run(environment, run)
    if not undo.records:
        return "taken back" if run.taken_back else ""
    if undo.is_done or {each.call_id for each in undo.records} <= {*run.taken_back}:
        return "taken back"
    kept = [each.variables for each in undo.records if each.variables]
    cells = sum(len(each.cells) for each in undo.records)
    files = len({change.path for each in undo.records for change in each.files})
    parts = [
        *dict.fromkeys(one_line(name) for each in kept for name in each.names),
        *([plural(cells, "cell")] if cells else []),
        *([plural(files, "file")] if files else []),
    ]
    size = environment.undo.size_of(undo.records)
    held = f"; holds {size / 1e6:,.1f} MB" if size >= 50_000 else ""
    return f"undo: {join_some(parts, NAMED) or 'no longer kept'}{held}"
