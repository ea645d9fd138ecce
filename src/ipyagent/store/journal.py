"""The journal: everything that happened in the sessions of a workspace, without loss.

Events are appended at once and flushed where it matters: events before a finished flush survive the
death of the kernel and a power cut.

Runs whose kernel is gone are kept, and brought to an end. A call that had begun has an unknown
outcome: it may be done, half done, or not done at all. It is never run again automatically.

Read only, nothing is created, locked or changed.
"""

from __future__ import annotations

import contextlib
import logging
import sqlite3
import weakref
from collections.abc import Callable, Iterable, Iterator, Set as AbstractSet
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from ipyagent import schema
from ipyagent.errors import SessionError
from ipyagent.store import database, runs
from ipyagent.store.database import APPLICATION, MIGRATIONS, SessionLocks, connect, transaction
from ipyagent.store.runs import Decoder, Encoder, Record
from ipyagent.store.writer import MAX_QUEUED, QueuedEvent, Writer, store

KERNEL_GONE = "the kernel ended during the run; its work until then is kept"


def closing_events(
    run: schema.Run | None, planned: schema.Run | None, history: list[Record], text: str
) -> list[schema.Event]:
    """Return the events that end a run.

    `run` is the fold of its `history`, `planned` what was approved but had not begun, `text` the
    partial reply when it was cut off.
    """
    events: list[schema.Event] = []
    if run is None:
        if planned is None:
            return []
        run = planned.model_copy(update={"status": schema.RunStatus.RUNNING})
        events.append(schema.RunStarted(run=run))
    if history and _is_open(history):
        events += _step_end(run.steps[-1], text)
    seconds = (history[-1].at - run.started_at).total_seconds() if history else 0.0
    events.append(
        schema.RunFinished(
            status=schema.RunStatus.ERROR,
            stop_reason=schema.StopReason.ERROR,
            error=KERNEL_GONE,
            duration=max(seconds, 0.0),
        )
    )
    return events


def _is_open(history: list[Record]) -> bool:
    """Return whether a step was in progress."""
    last = [r.event.type for r in history if r.event.type in ("step_started", "step_finished")]
    return bool(last) and last[-1] == "step_started"


def _step_end(step: schema.Step, text: str) -> Iterator[schema.Event]:
    if step.message is None and text.strip():
        message = schema.Message.of(schema.Role.ASSISTANT, text)
        yield schema.MessageFinished(step=step.number, message=message)
    known = {execution.call.id: execution for execution in step.executions}
    for call in step.message.tool_calls if step.message else ():
        execution = known.get(call.id)
        if execution is None:
            execution = schema.ToolExecution(call=call)
            yield schema.ToolStarted(step=step.number, execution=execution)
        if execution.result is None:
            yield schema.ToolFinished(step=step.number, execution=_close_execution(execution))
    yield schema.StepFinished(step=step.number)


def _close_execution(execution: schema.ToolExecution) -> schema.ToolExecution:
    call = execution.call
    has_begun = execution.status is schema.ToolStatus.RUNNING
    status = schema.ToolStatus.UNKNOWN if has_begun else schema.ToolStatus.CANCELLED
    not_run = f"{call.name} was not run: the kernel ended before it began."
    why = _unknown(call) if has_begun else not_run
    return execution.model_copy(update={"status": status, "result": schema.ToolResult.failure(why)})


def _unknown(call: schema.ToolCall) -> str:
    return (
        f"unknown outcome: the kernel ended while {call.name} ran; it may have been done, partly "
        "or not at all; check before you repeat it"
    )


log = logging.getLogger("ipyagent")

T = TypeVar("T")

PAGE = 1_000
"""Events that are read at once."""


class Journal:
    """One database; every method may be called from any thread, and waits for the disk."""

    def __init__(self, writer: Writer, locks: SessionLocks) -> None:
        self._writer, self._locks = writer, locks
        self.open_sessions: WeakValueDictionary[str, Any] = WeakValueDictionary()
        """The sessions open in this process, so that opening one again gives the same object."""
        self.events_read = 0
        """The number of events that were read back: what opening a session costs."""
        weakref.finalize(self, writer.stop).atexit = False

    @classmethod
    def open(cls, path: Path | None, *, max_queued: int = MAX_QUEUED) -> Journal:
        """Open the journal in that file, created if missing; None: in memory.

        Raises JournalError. At most `max_queued` characters wait for a disk that accepts nothing.
        """
        locks = SessionLocks(path.parent / "locks" if path else None)
        return cls(Writer(connect(path), path, max_queued, locks.release_all), locks)

    @property
    def path(self) -> Path | None:
        """The file; None for a journal in memory."""
        return self._writer.path

    @property
    def commits(self) -> int:
        """The number of transactions that wrote events: what costs time on a disk."""
        return self._writer.commits

    def close(self) -> None:
        """Write queued events, and release the sessions for other kernels."""
        self._writer.close()

    # -- sessions

    def create(self, session: schema.Session, nodes: Iterable[schema.Node] = ()) -> None:
        """Add a session; `nodes` is its initial history, parents before children."""
        self._change(lambda db: database.create_session(db, session, nodes))

    def find_or_create(
        self,
        session: schema.Session,
        nodes: Iterable[schema.Node] = (),
        matches: Callable[[schema.Session], bool] = lambda session: False,
    ) -> schema.Session:
        """Return the newest session that matches, else add this one, under a free name.

        In one transaction: kernels that ask at the same time get the same one, or other names.
        """
        return self._change(lambda db: database.find_or_create_session(db, session, nodes, matches))

    def update(self, session: schema.Session) -> None:
        """Store name, state, origin and metadata; columns about runs follow automatically."""
        self._change(lambda db: database.update_session(db, session))

    def session(self, reference: str) -> schema.Session | None:
        """Find by id, name (the newest), or start of an id; raises SessionError if ambiguous."""
        return self._writer.perform(lambda db: database.find_session(db, reference))

    def sessions(self) -> list[schema.Session]:
        """Return all sessions, the newest activity first."""
        return self._writer.perform(database.newest_sessions)

    def nodes(self, session_id: str) -> list[schema.Node]:
        """Return the initial history of a session."""
        return self._writer.perform(lambda db: database.initial_nodes(db, session_id))

    def claim(self, session_id: str) -> bool:
        """Return whether this kernel may continue the session; False while another one does."""
        return self._locks.claim(session_id)

    def release(self, session_id: str) -> None:
        """Release the session for other kernels."""
        self._locks.release(session_id)

    def forget(self, session_id: str) -> None:
        """Release a session that was claimed and never created."""
        self._locks.forget(session_id)

    # -- events

    def append(
        self,
        session_id: str,
        run_id: str,
        event: schema.Event,
        open_message: schema.OpenMessage | None = None,
    ) -> None:
        """Queue an event for the next flush; never raises, never waits.

        `open_message` is the reply that is streaming in.
        """
        self._writer.append(session_id, run_id, event, open_message)

    def note_undo(
        self, session_id: str, run: schema.Run, calls: Iterable[str], stays: Iterable[str]
    ) -> schema.Run:
        """Record which calls of a run are taken back now, and what stays; return the run.

        No kernel need have opened the session. Raises JournalError.
        """
        event = schema.TakenBack(calls=tuple(calls), stays=tuple(stays))
        self.append(session_id, run.id, event)
        self.flush().result()
        return schema.fold(run, event)

    def save(self) -> None:
        """Start to write the events appended so far; the next flush reports a failure."""
        self._writer.save()

    def flush(self) -> Future[None]:
        """Return a future, done when everything so far is on the disk; fails with JournalError."""
        return self._writer.flush()

    def events(self, session_id: str, types: AbstractSet[str] | None = None) -> Iterator[Record]:
        """Yield the events of a session, in order; None: of all types."""
        return self._records("session_id", session_id, types)

    # -- runs

    def runs(self, session_id: str) -> list[schema.Run]:
        """Return the runs of a session, oldest first, including plans that never ran."""
        rows = self._rows("session_id", session_id)
        folded = _fold_runs(self.events(session_id))
        recorded = (_with_recorded_status(folded.get(row["id"]), row) for row in rows)
        return [run for run in recorded if run is not None]

    def run_ids(self, session_id: str) -> list[str]:
        """Return the ids of the runs of a session, oldest first; no event is read."""
        return [row["id"] for row in self._rows("session_id", session_id)]

    def run(self, run_id: str) -> schema.Run:
        """Return one run; raises SessionError."""
        rows = self._rows("id", run_id)
        folded = _fold_runs(self._records("run_id", run_id)) if rows else {}
        run = _with_recorded_status(folded.get(run_id), rows[0]) if rows else None
        if run is None:
            raise SessionError(f"no run is called {run_id!r}; `%agent runs` lists all runs")
        return run

    def waiting_plan(self, session_id: str) -> schema.Run | None:
        """Return the plan of a session that waits for the user; None where there is none."""
        return self._writer.perform(lambda db: runs.waiting(db, session_id))

    def draft(self, run: schema.Run, session_id: str) -> str:
        """Store a plan before it is shown; return its digest. Raises SessionError."""
        return self._change(lambda db: runs.draft(db, session_id, run))

    def confirm(self, session_id: str, run_id: str | None = None) -> schema.Run:
        """Approve a plan (None: the one that waits); return the run as it was stored, queued.

        Raises SessionError if it was decided on before.
        """
        return self._change(lambda db: runs.confirm(db, session_id, run_id))

    def cancel(self, session_id: str, run_id: str | None = None) -> None:
        """Cancel a plan for good; raises SessionError if it has begun, or there is none."""
        self._change(lambda db: runs.cancel(db, session_id, run_id))

    def begin(self, run: schema.Run, session_id: str) -> schema.Run:
        """Start a run, once, and only if no other is active in the session; raises SessionError."""
        self._change(lambda db: runs.begin(db, session_id, run))
        return run.model_copy(update={"status": schema.RunStatus.RUNNING})

    def finish(self, run_id: str, status: schema.RunStatus, error: str | None = None) -> None:
        """End a run that has no event to end it; raises SessionError if that is not possible."""
        if not self._change(lambda db: runs.end(db, run_id, status, error)):
            raise SessionError(f"the run {run_id} cannot become {status}")

    def recover(self, session_id: str) -> list[schema.Run]:
        """End the runs that a kernel left behind; requires the claim. May be repeated."""
        rows = self._rows("session_id", session_id)
        abandoned = {row["id"]: row for row in rows if row["status"] in runs.ACTIVE}
        for row in abandoned.values():
            self._recover(row)
        return list(self._readable(abandoned))

    def _readable(self, run_ids: Iterable[str]) -> Iterator[schema.Run]:
        for each in run_ids:
            with contextlib.suppress(SessionError):
                yield self.run(each)

    def _recover(self, row: sqlite3.Row) -> None:
        run_id, session_id = row["id"], row["session_id"]
        history = list(self._records("run_id", run_id))
        reply = self._writer.perform(
            lambda db: db.execute("SELECT * FROM replies WHERE run_id = ?", (run_id,)).fetchone()
        )
        planned = _with_recorded_status(None, row)
        events = closing_events(
            _fold_runs(history).get(run_id), planned, history, reply["text"] if reply else ""
        )

        def close(db: sqlite3.Connection) -> None:
            encoder, at = Encoder(), schema.now().isoformat()
            for event in events:
                store(db, QueuedEvent(session_id, run_id, event, at, encoder.encode(run_id, event)))
                encoder.note(run_id, event)
            if not events:  # its beginning is lost
                runs.end(db, run_id, schema.RunStatus.ERROR, KERNEL_GONE)

        self._change(close)

    # -- how

    def _change(self, job: Callable[[sqlite3.Connection], T]) -> T:
        def work(db: sqlite3.Connection) -> T:
            with transaction(db):
                return job(db)

        return self._writer.perform(work)

    def _rows(self, column: str, value: str) -> list[sqlite3.Row]:
        query = f"SELECT * FROM runs WHERE {column} = ? ORDER BY rowid"  # noqa: S608 - our names
        return self._writer.perform(lambda db: db.execute(query, (value,)).fetchall())

    def _records(
        self, column: str, value: str, types: AbstractSet[str] | None = None
    ) -> Iterator[Record]:
        query = (
            f"SELECT * FROM events WHERE {column} = ? AND seq > ?"  # noqa: S608 - our names
            f" ORDER BY seq LIMIT {PAGE}"
        )
        decoder, last = Decoder(types), 0
        while page := self._page(query, value, last):
            for row in page:
                record = decoder.decode(row["seq"], row["run_id"], row["at"], row["data"])
                if record is not None:
                    self.events_read += 1
                    yield record
            last = page[-1]["seq"]

    def _page(self, query: str, value: str, last: int) -> list[sqlite3.Row]:
        return self._writer.perform(lambda db: db.execute(query, (value, last)).fetchall())


def _fold_runs(records: Iterable[Record]) -> dict[str, schema.Run]:
    """Return runs by id. An event that does not fit is skipped: those before it count."""
    folded: dict[str, schema.Run] = {}
    for record in records:
        try:
            folded[record.run_id] = schema.fold(folded.get(record.run_id), record.event)
        except (ValueError, IndexError) as error:
            log.warning("event %s of the journal does not fit: %s", record.seq, error)
    return folded


def _with_recorded_status(run: schema.Run | None, row: sqlite3.Row) -> schema.Run | None:
    """Return the run with the recorded status, if its events do not tell."""
    status = schema.RunStatus(row["status"])
    if run is None:
        try:
            return runs.run_from_row(row, status) if row["record"] else None
        except SessionError as error:
            log.warning("%s", error)
            return None
    if run.is_finished or run.status is status:
        return run
    return run.model_copy(update={"status": status, "error": row["error"]})


@dataclass(frozen=True)
class JournalSummary:
    """The sessions, the newest activity first, and waiting plans by their sessions' ids."""

    sessions: tuple[schema.Session, ...] = ()
    plans: dict[str, schema.Run] = field(default_factory=dict)


def read_summary(path: Path) -> JournalSummary:
    """Return the content of the journal in that file; nothing if none can be read."""
    try:
        with _open_readonly(path) as db:
            return JournalSummary(tuple(database.newest_sessions(db)), dict(_plans(db)))
    except sqlite3.Error:
        return JournalSummary()


@contextlib.contextmanager
def _open_readonly(path: Path) -> Iterator[sqlite3.Connection]:
    """Open the database read-only; raises sqlite3.Error for one that is not ours."""
    if path.is_symlink() or not path.is_file():
        raise sqlite3.OperationalError("no journal")
    with contextlib.closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as db:
        db.row_factory = sqlite3.Row
        db.execute("PRAGMA trusted_schema=OFF")
        (application,) = db.execute("PRAGMA application_id").fetchone()
        (version,) = db.execute("PRAGMA user_version").fetchone()
        if application != APPLICATION or version != len(MIGRATIONS):
            raise sqlite3.DatabaseError("another program's, or another version's")
        yield db


def _plans(db: sqlite3.Connection) -> Iterator[tuple[str, schema.Run]]:
    query = (
        "SELECT runs.* FROM runs JOIN sessions ON runs.id = sessions.pending_run_id"
        " WHERE runs.status = 'draft'"
    )
    for row in db.execute(query):
        with contextlib.suppress(SessionError):
            yield row["session_id"], runs.run_from_row(row, schema.RunStatus.DRAFT)
