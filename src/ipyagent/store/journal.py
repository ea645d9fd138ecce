"""The journal: everything that happened in the sessions of a workspace, without loss.

Events are appended at once and flushed where it matters: events before a finished flush survive the
death of the kernel and a power cut.

Runs whose kernel is gone are kept, and brought to an end. A call that had begun has an unknown
outcome: it may be done, half done, or not done at all. It is never run again automatically.

Read only, nothing is created, locked or changed.

One kernel at a time continues a session.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import re
import sqlite3
import weakref
from collections.abc import Callable, Iterable, Iterator, Set as AbstractSet
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from pydantic import TypeAdapter

from ipyagent import atomic_files, schema
from ipyagent.errors import JournalError, SessionError
from ipyagent.json_types import JsonDict
from ipyagent.store import recordings, recovery, runs
from ipyagent.store.database import (
    APPLICATION,
    MAX_QUEUED,
    QueuedEvent,
    SqliteStore,
    Writer,
    failure,
    store,
)
from ipyagent.store.locks import SessionLocks
from ipyagent.store.runs import Decoder, Encoder, Record, read
from ipyagent.store.tables import MIGRATIONS, Database, Row

if TYPE_CHECKING:
    from ipyagent.store.postgres import PostgresStore

SHORTEST = 4
"""Characters that the beginning of an id needs at least."""

ITEM, CHILD = "ipyagent.map", "ipyagent.delegate"
"""The names of sessions that answered one item of many, or a delegated task: in no list."""

_STATE = ("pending_run_id", "active_run_id", "last_run_id", "last_run_status", "last_run_at")
"""Columns that follow the runs and are never set directly."""

_SESSION = TypeAdapter(schema.Session)
_NODE = TypeAdapter(schema.Node)


def create_session(db: Database, session: schema.Session, nodes: Iterable[schema.Node]) -> None:
    """Add a session and its initial history."""
    added = db.execute(
        "INSERT INTO sessions (id, name, record, activity)"
        " VALUES (?, ?, ?, (SELECT coalesce(max(activity), 0) + 1 FROM sessions))"
        " ON CONFLICT (id) DO NOTHING",
        (session.id, session.name, _text(session)),
    )
    if not added.rowcount:
        raise SessionError(f"the session {session.id} is in the journal already")
    for place, node in enumerate(nodes):
        row = session.id, place, node.model_dump_json()
        db.execute("INSERT INTO nodes (session_id, position, node) VALUES (?, ?, ?)", row)


def find_or_create_session(
    db: Database,
    session: schema.Session,
    nodes: Iterable[schema.Node],
    matches: Callable[[schema.Session], bool] | None,
) -> schema.Session:
    """Return the newest session that matches, else add this one, under a free name."""
    if matches and (existing := next(filter(matches, newest_sessions(db)), None)):
        return existing
    if session.name not in (ITEM, CHILD):
        session = session.model_copy(update={"name": _find_free_name(db, session.name)})
    create_session(db, session, nodes)
    return session


def _find_free_name(db: Database, name: str) -> str:
    """Return the name, with a number if it is taken; with thousands of them, without a search."""

    def is_taken(name: str) -> bool:
        return bool(db.execute("SELECT 1 FROM sessions WHERE name = ?", (name,)).fetchone())

    stem, _, number = name.rpartition("-")
    if number.isdecimal() and is_taken(name) and is_taken(stem):
        name = stem  # a branch of a branch gets the next number, not a second one
    numbered = f"{name}-"
    query = "SELECT count(*) AS count FROM sessions WHERE substr(name, 1, ?) = ?"
    count = db.execute(query, (len(numbered), numbered)).fetchone()["count"]
    names = itertools.chain([name], (f"{numbered}{each}" for each in itertools.count(count + 2)))
    return next(itertools.filterfalse(is_taken, names))


def update_session(db: Database, session: schema.Session) -> None:
    """Store a session's name, state, origin and metadata."""
    changed = db.execute(
        "UPDATE sessions SET name = ?, record = ? WHERE id = ?",
        (session.name, _text(session), session.id),
    )
    if not changed.rowcount:
        raise SessionError(f"the session {session.id} is not in the journal")


def find_session(db: Database, reference: str) -> schema.Session | None:
    """Find by id, by name (the newest), or by the beginning of an id."""
    query = "SELECT * FROM sessions WHERE {} ORDER BY activity DESC"
    for column in ("id", "name"):
        row = db.execute(query.format(f"{column} = ?"), (reference,)).fetchone()
        if row is not None:
            return _session(row)
    if len(reference) < SHORTEST:
        return None
    begins = query.format("substr(id, 1, ?) = ?")
    rows = db.execute(begins, (len(reference), reference.lower())).fetchall()
    if len(rows) > 1:
        choices = ", ".join(f"{row['id']} ({row['name']})" for row in rows[:5])
        raise SessionError(f"several sessions begin with {reference!r}: {choices}")
    return _session(rows[0]) if rows else None


def newest_sessions(db: Database, *, items: bool = False) -> list[schema.Session]:
    """Return all sessions that can be read, and with `items` those of single items."""
    readable = []
    query = "SELECT * FROM sessions WHERE name NOT IN (?, ?) ORDER BY activity DESC"
    for row in db.execute(query, ("", "") if items else (ITEM, CHILD)):
        try:
            readable.append(_session(row))
        except SessionError as error:
            log.warning("%s", error)
    return readable


def find_prompts(db: Database, text: str = "") -> dict[str, str]:
    """Return the first prompt of each session that has the text in a prompt or in its name."""
    like = "%" + re.sub(r"([!%_])", r"!\1", text) + "%"
    query = (
        "SELECT session_id, substr(goal, 1, 200) AS prompt FROM runs"
        " WHERE rowid IN (SELECT min(rowid) FROM runs GROUP BY session_id) AND session_id IN"
        " (SELECT id FROM sessions WHERE lower(name) LIKE lower(?) ESCAPE '!'"
        " UNION SELECT session_id FROM runs WHERE lower(goal) LIKE lower(?) ESCAPE '!')"
    )
    return {row["session_id"]: row["prompt"] for row in db.execute(query, (like, like))}


def initial_nodes(db: Database, session_id: str) -> list[schema.Node]:
    """Return the initial history of a session."""
    rows = db.execute(
        "SELECT node FROM nodes WHERE session_id = ? ORDER BY position", (session_id,)
    )
    return [read(_NODE, row["node"], f"the history of session {session_id}") for row in rows]


def _text(session: schema.Session) -> str:
    return session.model_dump_json(exclude={"messages", *_STATE})


def _session(row: Row) -> schema.Session:
    def complete(record: JsonDict) -> JsonDict:
        # If the clock was set back, the session must stay readable.
        started_at = min(record["started_at"], schema.now().isoformat())
        return record | {column: row[column] for column in _STATE} | {"started_at": started_at}

    session = read(_SESSION, row["record"], f"the session {row['name']!r} ({row['id']})", complete)
    # The first run makes a session active, but does not change its record.
    has_run = session.active_run_id or session.last_run_id
    is_new = session.state is schema.SessionState.INITIALIZING
    return session.move(schema.SessionState.ACTIVE) if has_run and is_new else session


def postgres_store() -> type[PostgresStore]:
    """Return the class for PostgreSQL, whose client is imported only now; raises JournalError."""
    try:
        from ipyagent.store.postgres import PostgresStore
    except ImportError:
        remedy = "Install it: `pip install 'ipyagent[postgres]'`"
        raise failure("in PostgreSQL", "psycopg is not installed", remedy) from None
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
    def open(cls, place: Path | str | None, *, max_queued: int = MAX_QUEUED) -> Journal:
        """Open the journal in a file, or at a PostgreSQL URL, created if missing; None: in memory.

        Raises JournalError. At most `max_queued` characters wait for a disk that accepts nothing.
        """
        if isinstance(place, str):
            server = postgres_store()(place)
            return cls(Writer(server, max_queued), server)
        locks = SessionLocks(place.parent / "locks" if place else None)
        return cls(Writer(SqliteStore(place), max_queued, locks.release_all), locks)

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
        self._writer.change(lambda db: create_session(db, session, nodes))

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
                lambda db: find_or_create_session(db, session, nodes, matches)
            )
            return found
        finally:
            if found is None or found.id != session.id:
                self.release(session.id)

    def update(self, session: schema.Session) -> None:
        """Store name, state, origin and metadata; columns about runs follow automatically."""
        self._writer.change(lambda db: update_session(db, session))

    def session(self, reference: str) -> schema.Session | None:
        """Find by id, name (the newest), or start of an id; raises SessionError if ambiguous."""
        return self._writer.read(lambda db: find_session(db, reference))

    def sessions(self, *, items: bool = False) -> list[schema.Session]:
        """Return all sessions, the newest activity first; with `items` those of single items."""
        return self._writer.read(partial(newest_sessions, items=items))

    def prompts(self, text: str = "") -> dict[str, str]:
        """Return the first prompt of each session that has the text in a prompt or in its name."""
        return self._writer.read(partial(find_prompts, text=text))

    def nodes(self, session_id: str) -> list[schema.Node]:
        """Return the initial history of a session."""
        return self._writer.read(lambda db: initial_nodes(db, session_id))

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
        ids = self._writer.read(lambda db: recordings.find_ids(db, asked.key, cell_id))
        return next(filter(recordings.is_whole, self._readable(ids)), None)

    def find_nearest(self, asked: schema.Asked) -> schema.Run | None:
        """Return the newest run that can be replayed, with that prompt if there is one."""
        ids = self._writer.read(lambda db: recordings.find_nearest_ids(db, asked.prompt))
        return next(filter(recordings.is_whole, self._readable(ids)), None)

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

    def begin(self, run: schema.Run, session_id: str) -> schema.Run:
        """Start a run, once, and only if no other is active in the session; raises SessionError."""
        self._writer.change(lambda db: runs.begin(db, session_id, run))
        return run.model_copy(update={"status": schema.RunStatus.RUNNING})

    def finish(self, run_id: str, status: schema.RunStatus, error: str | None = None) -> None:
        """End a run that has no event to end it; raises SessionError if that is not possible."""
        if not self._writer.change(lambda db: runs.end(db, run_id, status, error)):
            raise SessionError(f"the run {run_id} cannot become {status}")

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
        tasks = self._writer.read(lambda db: recovery.find_tasks(db, CHILD, run)) if run else ()
        children = [each for each in self._readable(tasks) if each.parent_id == run_id]
        events = recovery.closing_events(run, planned, history, reply, children)

        def close(db: Database) -> None:
            encoder, at = Encoder(), schema.now().isoformat()
            for event in events:
                store(db, QueuedEvent(session_id, run_id, event, at, encoder.encode(run_id, event)))
                encoder.note(run_id, event)
            if not events:  # its beginning is lost
                runs.end(db, run_id, schema.RunStatus.ERROR, recovery.KERNEL_GONE)

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
            sessions, prompts = tuple(newest_sessions(db)), find_prompts(db, text)
            return JournalSummary(sessions, dict(_plans(db)), prompts)
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
        if application != APPLICATION or version != len(MIGRATIONS):
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
