"""Taking back a run or a call: variables, cells and files, first found out and then done."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from ipyagent.errors import AgentError, ConfigError
from ipyagent.kernel.describe.safe_inspect import one_line
from ipyagent.kernel.namespace import take_snapshot
from ipyagent.phrases import join_some, plural
from ipyagent.plaintext import spell
from ipyagent.schema import Run, ToolExecution
from ipyagent.schema.runs import UndoReport
from ipyagent.tools.file_change import Checkpoints
from ipyagent.wiring.environment import Environment
from ipyagent.wiring.undo_history import CallRecord

NAMED = 50
"""The most things taken back that are named."""

NOTHING = "{} changed files, variables or cells that can be taken back; nothing to undo"
AGAIN = "`%agent undo {}` puts it there again"
OLDER = "nothing of {} can be taken back; `%agent undo {}` takes back an older run"
FORGOTTEN = "what variables held before {} is no longer kept: it took too much memory"


@dataclass
class Undo:
    """The undo of a run, of a call of it, or of an earlier undo. `title` names it."""

    environment: Environment
    title: str
    subject: str
    """The same in words for the model."""
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
        is_as = f"{'would be' if dry_run else 'is'} as it was before {self.title}"
        done, skipped = self._restore_variables(record, dry_run=dry_run)
        lines = [
            f"{one_line(name)} {is_as}" + (f" ({text})" if text else "")
            for name, text in done.items()
        ]
        for change in (cell for each in reversed(self.records) for cell in reversed(each.cells)):
            try:
                if dry_run:
                    self.environment.check_cell(change)
                else:
                    record.cells = (self.environment.revert_cell(change), *record.cells)
                lines.append(f"{change.title} {is_as}")
            except AgentError as error:
                skipped.append(str(error))
        files = [change for each in self.records for change in each.files]
        undone = self._checkpoints.undo(files, dry_run=dry_run)
        lines += [f"{spell(path)} {is_as}" for path in undone.restored]
        lasting = (text for each in self.records for text in each.lasting)
        skipped = [*dict.fromkeys((*skipped, *undone.skipped.values(), *lasting))]
        name = ""
        if not dry_run:
            record.files = tuple(undone.changes)
            if record.variables or record.cells or record.files:
                name = self.environment.undo.add_undo(record)
                self._tell_model(record)
                self.environment.undo.note(self.records, skipped)
        if not lines and (older := self.older()):
            skipped.append(OLDER.format(self.title, older))
        return UndoReport(tuple(lines), tuple(skipped), name)

    def _restore_variables(
        self, record: CallRecord, *, dry_run: bool
    ) -> tuple[dict[str, str], list[str]]:
        """Take variables back, and return what that does, and what stays; `dry_run`: only that."""
        kept = [each.variables for each in reversed(self.records) if each.variables]
        if not kept:
            return {}, []
        from ipyagent.kernel.variables.checkpoint import VariableUndo  # it is loaded by now

        namespace = self.environment.namespace
        names = " ".join(name for each in kept for name in each.names)
        before = take_snapshot(namespace, names)
        undo = VariableUndo(namespace, dry_run)
        undo.take_back(*kept)
        if not dry_run:
            record.variables = before.checkpoint(namespace.variables())
        lost = [FORGOTTEN.format(self.title)] if any(each.is_dropped for each in kept) else []
        return undo.restored, [*undo.skipped.values(), *undo.notes.values(), *lost]

    def _tell_model(self, record: CallRecord) -> None:
        names = record.variables.names if record.variables else []
        cells = [each.title for each in record.cells]
        paths = [spell(each.path) for each in record.files]
        what = join_some([*map(one_line, (*names, *cells, *paths))], NAMED)
        self.environment.remarks.append(f"The user took back {self.subject}: {what} as before it.")


def undo_of_run(environment: Environment, run: Run) -> Undo:
    """Return the undo of a run."""
    subject = f"what you did for “{one_line(run.prompt, 60)}”"
    return _undo_of_calls(environment, run, run.executions, f"run {run.id}", subject)


def _undo_of_calls(
    environment: Environment, run: Run, calls: Iterable[ToolExecution], title: str, subject: str
) -> Undo:
    records = []
    for each in calls:
        record = environment.undo.find(run.id, each.call.id)
        files = each.result.files if each.result else ()
        if record is None:
            record = CallRecord(run.id, each.call.id)
        record.files = files
        if record.variables or record.cells or files or record.lasting:
            records.append(record)
    return Undo(environment, title, subject, records)


def find_undo(
    environment: Environment, runs: Iterable[Run], reference: str, *, redo: bool = False
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


def _find_all(environment: Environment, runs: Iterable[Run], reference: str) -> Iterator[Undo]:
    others = []
    for run in runs:
        others.append(run)
        if run.id.startswith(reference) or (run.plan_id or "").startswith(reference):
            yield undo_of_run(environment, run)
    for run in others:
        for call in run.executions:
            if call.call.id.startswith(reference):
                title, subject = f"call {call.call.id}", f"your call of {call.call.name}"
                yield _undo_of_calls(environment, run, [call], title, subject)


def describe_undo(environment: Environment, run: Run) -> str:
    """Return what can still be taken back of a run, and what that holds; "" if nothing."""
    undo = undo_of_run(environment, run)
    if not undo.records:
        return "taken back" if run.taken_back else ""
    if undo.is_done:
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
