"""The journal: everything that happened in the sessions of a workspace, without loss.

Events are appended at once and flushed where it matters: events before a finished flush survive the
death of the kernel and a power cut.

Runs whose kernel is gone are kept, and brought to an end. A call that had begun has an unknown
outcome: it may be done, half done, or not done at all. It is never run again automatically.

Read only, nothing is created, locked or changed.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import sqlite3
import weakref
from collections.abc import Callable, Iterable, Iterator, Set as AbstractSet
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from ipyagent import atomic_files, schema
from ipyagent.errors import JournalError, SessionError
from ipyagent.store import database, runs, sessions
from ipyagent.store.database import Writer
from ipyagent.store.runs import Decoder, Encoder, Record
from ipyagent.store.sessions import CHILD, ITEM, SessionLocks
from ipyagent.store.tables import MIGRATIONS, Database, Row

if TYPE_CHECKING:
    from ipyagent.store.postgres import PostgresStore


def postgres_store() -> type[PostgresStore]:
    """Return the class for PostgreSQL, whose client is imported only now; raises JournalError."""
    try:
        from ipyagent.store.postgres import PostgresStore
    except ImportError:
        remedy = "Install it: `pip install 'ipyagent[postgres]'`"
        raise database.failure("in PostgreSQL", "psycopg is not installed", remedy) from None
    return PostgresStore


log = logging.getLogger("ipyagent")

PAGE = 1_000
"""Events that are read at once."""


class Journal:
    """One database; every method may be called from any thread, and waits for the disk."""

    def __init__(self, writer: Writer, locks: SessionLocks | PostgresStore) -> None:
        self._writer, self._locks = writer, locks
        self.open_sessions: WeakValueDictionary[str, Any] = WeakValueDictionary()
        """The sessions open in this process, so that opening one again gives the same object."""
        self.events_read = 0
        """The number of events that were read back: what opening a session costs."""
        weakref.finalize(self, writer.stop).atexit = False

    @classmethod
    def open(cls, place: Path | str | None, *, max_queued: int = database.MAX_QUEUED) -> Journal:
        """Open the journal in a file, or at a PostgreSQL URL, created if missing; None: in memory.

        Raises JournalError. At most `max_queued` characters wait for a disk that accepts nothing.
        """
        if isinstance(place, str):
            server = postgres_store()(place)
            return cls(Writer(server, max_queued), server)
        locks = SessionLocks(place.parent / "locks" if place else None)
        return cls(Writer(database.SqliteStore(place), max_queued, locks.release_all), locks)

    @property
    def place(self) -> Path | str | None:
        """The file, or the name of the database; None for a journal in memory."""
        return self._writer.place

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
        self._writer.change(lambda db: sessions.create_session(db, session, nodes))

    def find_or_create(
        self,
        session: schema.Session,
        nodes: Iterable[schema.Node] = (),
        matches: Callable[[schema.Session], bool] | None = None,
    ) -> schema.Session:
        """Return the newest session that matches, else add this one, claimed, under a free name.

        In one transaction: kernels that ask at the same time get the same one, or other names.
        """
        self.claim(session.id)  # before others can find it, so that its creator continues it
        found = None
        try:
            found = self._writer.change(
                lambda db: sessions.find_or_create_session(db, session, nodes, matches)
            )
            return found
        finally:
            if found is None or found.id != session.id:
                self.release(session.id)

    def update(self, session: schema.Session) -> None:
        """Store name, state, origin and metadata; columns about runs follow automatically."""
        self._writer.change(lambda db: sessions.update_session(db, session))

    def session(self, reference: str) -> schema.Session | None:
        """Find by id, name (the newest), or start of an id; raises SessionError if ambiguous."""
        return self._writer.read(lambda db: sessions.find_session(db, reference))

    def sessions(self, *, items: bool = False) -> list[schema.Session]:
        """Return all sessions, the newest activity first; with `items` those of single items."""
        return self._writer.read(partial(sessions.newest_sessions, items=items))

    def prompts(self, text: str = "") -> dict[str, str]:
        """Return the first prompt of each session that has the text in a prompt or in its name."""
        return self._writer.read(partial(sessions.find_prompts, text=text))

    def nodes(self, session_id: str) -> list[schema.Node]:
        """Return the initial history of a session."""
        return self._writer.read(lambda db: sessions.initial_nodes(db, session_id))

    def claim(self, session_id: str) -> bool:
        """Return whether this kernel may continue the session; False while another one does."""
        return self._locks.claim(session_id)

    def release(self, session_id: str) -> None:
        """Release the session for other kernels."""
        self._locks.release(session_id)

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

    def find_recording(self, asked: schema.Asked, cell_id: str | None) -> schema.Run | None:
        """Return the newest run of a cell that answers the same, and can be replayed; or None."""
        ids = self._writer.read(lambda db: runs.find_recorded(db, asked.key, cell_id))
        return next(filter(runs.is_whole, self._readable(ids)), None)

    def find_nearest(self, asked: schema.Asked) -> schema.Run | None:
        """Return the newest run that can be replayed, with that prompt if there is one."""
        ids = self._writer.read(lambda db: runs.find_nearest(db, asked.prompt))
        return next(filter(runs.is_whole, self._readable(ids)), None)

    def waiting_plan(self, session_id: str) -> schema.Run | None:
        """Return the plan of a session that waits for the user; None where there is none."""
        return self._writer.read(lambda db: runs.waiting(db, session_id))

    def draft(self, run: schema.Run, session_id: str) -> str:
        """Store a plan before it is shown; return its digest. Raises SessionError."""
        return self._writer.change(lambda db: runs.draft(db, session_id, run))

    def confirm(self, session_id: str, run_id: str | None = None) -> schema.Run:
        """Approve a plan (None: the one that waits); return the run as it was stored, queued.

        Raises SessionError if it was decided on before.
        """
        return self._writer.change(lambda db: runs.confirm(db, session_id, run_id))

    def cancel(self, session_id: str, run_id: str | None = None) -> None:
        """Cancel a plan for good; raises SessionError if it has begun, or there is none."""
        self._writer.change(lambda db: runs.cancel(db, session_id, run_id))

    def recover(self, session_id: str) -> list[schema.Run]:
        """End the runs that a kernel left behind; requires the claim. May be repeated.

        Runs of items and delegated tasks, whose sessions nobody opens, are ended too.
        """
        rows = self._rows("session_id", session_id)
        abandoned = {row["id"]: row for row in rows if row["status"] in runs.ACTIVE}
        # One by one: a part is released once its run has ended. Its result is that of a call.
        for row in itertools.chain(self._claim_abandoned_parts(), abandoned.values()):
            self._recover(row)
        return list(self._readable(abandoned))

    def _claim_abandoned_parts(self) -> Iterator[Row]:
        for row in reversed([row for each in runs.ACTIVE for row in self._rows("status", each)]):
            part = self.session(row["session_id"])
            if part is None or part.name not in (ITEM, CHILD) or self._locks.holds(part.id):
                continue
            if self.claim(part.id) and self._locks.holds(part.id):
                yield row
                self.release(part.id)

    def _readable(self, run_ids: Iterable[str]) -> Iterator[schema.Run]:
        for each in run_ids:
            with contextlib.suppress(SessionError):
                yield self.run(each)

    def _recover(self, row: Row) -> None:
        run_id, session_id = row["id"], row["session_id"]
        history = list(self._records("run_id", run_id))
        reply = self._writer.read(
            lambda db: db.execute("SELECT * FROM replies WHERE run_id = ?", (run_id,)).fetchone()
        )
        planned, run = _with_recorded_status(None, row), _fold_runs(history).get(run_id)
        tasks = self._writer.read(lambda db: _find_tasks(db, run)) if run else ()
        children = [each for each in self._readable(tasks) if each.parent_id == run_id]
        events = _closing_events(run, planned, history, reply, children)

        def close(db: Database) -> None:
            encoder, at = Encoder(), schema.now().isoformat()
            for event in events:
                text = encoder.encode(run_id, event)
                database.store(db, database.QueuedEvent(session_id, run_id, event, at, text))
                encoder.note(run_id, event)
            if not events:  # its beginning is lost
                runs.end(db, run_id, schema.RunStatus.ERROR, KERNEL_GONE)

        self._writer.change(close)

    # -- how

    def _rows(self, column: str, value: str) -> list[Row]:
        query = f"SELECT * FROM runs WHERE {column} = ? ORDER BY rowid"  # noqa: S608 - our names
        return self._writer.read(lambda db: db.execute(query, (value,)).fetchall())

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

    def _page(self, query: str, value: str, last: int) -> list[Row]:
        return self._writer.read(lambda db: db.execute(query, (value, last)).fetchall())


def _fold_runs(records: Iterable[Record]) -> dict[str, schema.Run]:
    """Return runs by id. An event that does not fit is skipped: those before it count."""
    folded: dict[str, schema.Run] = {}
    for record in records:
        try:
            folded[record.run_id] = schema.fold(folded.get(record.run_id), record.event)
        except (ValueError, IndexError) as error:
            log.warning("event %s of the journal does not fit: %s", record.seq, error)
    return folded


def _with_recorded_status(run: schema.Run | None, row: Row) -> schema.Run | None:
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
    """The sessions, the newest activity first; waiting plans and first prompts by their ids."""

    sessions: tuple[schema.Session, ...] = ()
    plans: dict[str, schema.Run] = field(default_factory=dict)
    prompts: dict[str, str] = field(default_factory=dict)


def read_summary(place: Path | str, text: str = "") -> JournalSummary:
    """Return the content of the journal in that place; nothing if none can be read.

    The prompts are of sessions with that text.
    """
    try:
        with _open_readonly(place) as db:
            newest, prompts = tuple(sessions.newest_sessions(db)), sessions.find_prompts(db, text)
            return JournalSummary(newest, dict(_plans(db)), prompts)
    except (sqlite3.Error, JournalError):
        return JournalSummary()


@contextlib.contextmanager
def _open_readonly(path: Path | str) -> Iterator[Database]:
    """Open the database read-only; raises an error for one that is not ours."""
    if isinstance(path, str):
        with postgres_store()(path, is_readonly=True).reading() as server:
            yield server
        return
    if path.is_symlink() or not path.is_file():
        raise sqlite3.OperationalError("no journal")
    with contextlib.closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as db:
        db.row_factory = sqlite3.Row
        if atomic_files.find_network_drive(path):
            db.execute("PRAGMA locking_mode=EXCLUSIVE")  # a WAL is not read with shared memory
        db.execute("PRAGMA trusted_schema=OFF")
        (application,) = db.execute("PRAGMA application_id").fetchone()
        (version,) = db.execute("PRAGMA user_version").fetchone()
        if application != database.APPLICATION or version != len(MIGRATIONS):
            raise sqlite3.DatabaseError("another program's, or another version's")
        yield db


def _plans(db: Database) -> Iterator[tuple[str, schema.Run]]:
    query = (
        "SELECT runs.* FROM runs JOIN sessions ON runs.id = sessions.pending_run_id"
        " WHERE runs.status = 'draft'"
    )
    for row in db.execute(query):
        with contextlib.suppress(SessionError):
            yield row["session_id"], runs.run_from_row(row, schema.RunStatus.DRAFT)


# Runs that a kernel left behind ------------------------------------------------------------------
#
# Each call gets its result. A task that it delegated is a part of it: its changes and its cost are
# those of the call.

KERNEL_GONE = "the kernel ended during the run; its work until then is kept"


def _closing_events(
    run: schema.Run | None,
    planned: schema.Run | None,
    history: list[Record],
    reply: Row | None,
    children: Iterable[schema.Run],
) -> list[schema.Event]:
    """Return the events that end a run.

    `run` is the fold of its `history`, `planned` what was approved but had not begun, `reply` the
    partial reply when it was cut off, `children` the runs of tasks that it delegated.
    """
    events: list[schema.Event] = []
    if run is None:
        if planned is None:
            return []
        run = planned.model_copy(update={"status": schema.RunStatus.RUNNING})
        events.append(schema.RunStarted(run=run))
    if history and _is_open(history):
        text = reply["text"] if reply else ""
        known = {name for each in run.results if each.child for name in each.child.runs}
        events += _step_end(run.steps[-1], text, [c for c in children if c.id not in known])
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


def _step_end(step: schema.Step, text: str, lost: list[schema.Run]) -> Iterator[schema.Event]:
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
            task = str(execution.call.arguments.get("task")).strip()
            child = next((each for each in lost if each.prompt == task), None)
            lost = [each for each in lost if each is not child]
            execution = _close_execution(execution, child)
            yield schema.ToolFinished(step=step.number, execution=execution)
    yield schema.StepFinished(step=step.number)


def _close_execution(
    execution: schema.ToolExecution, child: schema.Run | None
) -> schema.ToolExecution:
    call = execution.call
    has_begun = execution.status is schema.ToolStatus.RUNNING
    status = schema.ToolStatus.UNKNOWN if has_begun else schema.ToolStatus.CANCELLED
    not_run = f"{call.name} was not run: the kernel ended before it began."
    why = _unknown(call) if has_begun else not_run
    result = schema.ToolResult.failure(why).model_copy(update=list_effects(child) if child else {})
    return execution.model_copy(update={"status": status, "result": result})


def _unknown(call: schema.ToolCall) -> str:
    return (
        f"unknown outcome: the kernel ended while {call.name} ran; it may have been done, partly "
        "or not at all; check before you repeat it"
    )


def _find_tasks(db: Database, run: schema.Run) -> list[str]:
    """Return the ids of runs of delegated tasks that may belong to a run."""
    query = (
        "SELECT runs.id FROM runs JOIN sessions ON runs.session_id = sessions.id"
        " WHERE sessions.name = ? AND runs.updated_at >= ?"
    )
    return [row["id"] for row in db.execute(query, (CHILD, run.started_at.isoformat()))]


def list_effects(run: schema.Run) -> dict[str, object]:
    """Return what a run changed and spent, as the result of the call that began it has it."""
    below = (name for each in run.results if each.child for name in each.child.runs)
    child = schema.ChildRun(runs=(run.id, *below), usage=run.usage, cost_usd=run.cost_usd)
    kinds = ("files", "variables", "lasting")
    changes = {kind: tuple(x for r in run.results for x in getattr(r, kind)) for kind in kinds}
    return {"child": child, **changes}
