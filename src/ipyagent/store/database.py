"""The journal's database, opened and migrated, and its records of sessions with their locks.

The tables, and the migrations between their versions:

    sessions ─┬─ nodes       an initial history
              ├─ events      all events, in order; rows are only ever added
              ├─ runs        the status of each run: the guard of its transitions
              └─ replies     the text so far of replies that still stream in

A lock is one of the operating system, not a heartbeat: it ends with its process, however that ends.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import sqlite3
import weakref
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from pydantic import TypeAdapter
from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_fixed

from ipyagent.atomic_files import has_locks, open_lock, try_lock
from ipyagent.errors import JournalError, SessionError
from ipyagent.json_types import JsonDict
from ipyagent.schema import Node, Session, SessionState, now
from ipyagent.store.runs import read

APPLICATION = 0x69707961  # "ipya", in the file's header
"""Distinguishes our databases from those of other programs."""

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        """CREATE TABLE sessions (
            id TEXT PRIMARY KEY,
            name TEXT NOT NULL,
            record TEXT NOT NULL,
            activity INTEGER NOT NULL,
            pending_run_id TEXT,
            active_run_id TEXT,
            last_run_id TEXT,
            last_run_status TEXT,
            last_run_at TEXT
        )""",
        """CREATE TABLE nodes (
            session_id TEXT NOT NULL REFERENCES sessions(id),
            position INTEGER NOT NULL,
            node TEXT NOT NULL,
            PRIMARY KEY (session_id, position)
        )""",
        """CREATE TABLE events (
            seq INTEGER PRIMARY KEY AUTOINCREMENT,
            session_id TEXT NOT NULL REFERENCES sessions(id),
            run_id TEXT NOT NULL,
            at TEXT NOT NULL,
            data TEXT NOT NULL
        )""",
        "CREATE INDEX events_of_session ON events (session_id, seq)",
        "CREATE INDEX events_of_run ON events (run_id, seq)",
        """CREATE TRIGGER events_are_not_changed BEFORE UPDATE ON events
            BEGIN SELECT RAISE(ABORT, 'events are only ever added'); END""",
        """CREATE TRIGGER events_are_not_removed BEFORE DELETE ON events
            BEGIN SELECT RAISE(ABORT, 'events are only ever added'); END""",
        """CREATE TABLE runs (
            id TEXT PRIMARY KEY,
            session_id TEXT NOT NULL REFERENCES sessions(id),
            status TEXT NOT NULL,
            goal TEXT NOT NULL,
            record TEXT,
            plan_json TEXT,
            plan_digest TEXT,
            confirmed_at TEXT,
            current_step_path TEXT,
            last_event TEXT,
            error TEXT,
            updated_at TEXT NOT NULL
        )""",
        "CREATE INDEX runs_of_session ON runs (session_id)",
        """CREATE TABLE replies (
            run_id TEXT PRIMARY KEY,
            step INTEGER NOT NULL,
            text TEXT NOT NULL
        )""",
    ),
)
"""Statements per version: `PRAGMA user_version` counts those carried out."""


BUSY_SECONDS = 10.0
"""Seconds for which another process may lock the database."""

WITHOUT = "continue without a record: `%agent config chat.persist=false`, or Agent(persist=False)"

_REMEDIES = {
    sqlite3.SQLITE_FULL: ("the disk is full", "Make room"),
    sqlite3.SQLITE_READONLY: ("it cannot be written", "Make the file and its folder writable"),
    sqlite3.SQLITE_PERM: ("it cannot be written", "Make the file and its folder writable"),
    sqlite3.SQLITE_CANTOPEN: (
        "it cannot be opened or created",
        "Make its folder and the file writable",
    ),
    sqlite3.SQLITE_BUSY: (
        f"another program has kept it locked for {BUSY_SECONDS:g} s",
        "Close that program",
    ),
    sqlite3.SQLITE_IOERR: ("the disk failed to read or write it", "Check the disk and its space"),
    sqlite3.SQLITE_CORRUPT: (
        "it is damaged; it was left as it is",
        "Move it away to begin a new one",
    ),
    sqlite3.SQLITE_NOTADB: (
        "it is not a database; it was left as it is",
        "Move it away to begin a new one",
    ),
}


def connect(path: Path | None) -> sqlite3.Connection:
    """Open the database at `path`, created if missing, or one in memory; raises JournalError."""
    # A link could lead a hostile workspace's journal anywhere.
    if path is not None and path.is_symlink():
        raise failure(path, "it is a symbolic link", "Put the file itself there")
    with explain_errors(path):
        if path is not None:
            _make_folder(path)
        # Any thread may be the last one and close it, so it is not bound to one.
        connection = sqlite3.connect(
            path or ":memory:",
            timeout=BUSY_SECONDS,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=16,  # as many as a run needs; making the tables needs 20 large ones
        )
        try:
            _prepare(connection, path)
        except BaseException:
            connection.close()
            raise
    return connection


@contextlib.contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Commit all or nothing, while nobody else writes."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        # SQLite itself rolls back after some errors.
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


@contextlib.contextmanager
def explain_errors(path: Path | None) -> Iterator[None]:
    """Raise errors of SQLite as JournalError."""
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        problem, remedy = _REMEDIES.get(code, (str(error), "Move it away to begin a new one"))
        raise failure(path, problem, remedy) from error


def failure(path: Path | None, problem: str, remedy: str) -> JournalError:
    """Return an error with the journal's problem and the ways out."""
    return JournalError(f"the journal {path or 'in memory'}: {problem}. {remedy}, or {WITHOUT}.")


def _make_folder(path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        problem = f"its folder cannot be created ({error.strerror})"
        raise failure(path, problem, "Make the place writable") from None


def _prepare(connection: sqlite3.Connection, path: Path | None) -> None:
    # A database may come from a stranger: its views and triggers are not trusted.
    connection.execute("PRAGMA trusted_schema=OFF")
    connection.execute("PRAGMA foreign_keys=ON")
    _refuse_foreign(connection, path)
    if path is not None:
        share(connection)
    else:
        connection.execute("PRAGMA page_size=512")  # each table and index begins a page
    with transaction(connection):
        _migrate(connection)


def _refuse_foreign(connection: sqlite3.Connection, path: Path | None) -> None:
    """Raise if the database is another program's, or of a newer version."""
    # In one transaction: another kernel may be making the tables.
    connection.execute("BEGIN")
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    connection.execute("COMMIT")
    if application != APPLICATION and (tables or version):
        problem = "it is a database of another program; it was left as it is"
        raise failure(path, problem, "Move it away to begin a new one")
    if version > len(MIGRATIONS):
        problem = f"a newer ipyagent wrote it (version {version}, this one knows {len(MIGRATIONS)})"
        raise failure(path, problem, "Update ipyagent, or move the file away to begin a new one")


def share(connection: sqlite3.Connection, synchronous: str = "FULL") -> None:
    """Allow readers beside one writer, and let commits survive a power cut."""
    (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
    if mode != "wal":
        # This needs the database alone for a moment, and SQLite does not wait for that when several
        # kernels open a new one at once.
        retry = Retrying(
            retry=retry_if_exception(_is_busy),
            stop=stop_after_delay(BUSY_SECONDS),
            wait=wait_fixed(0.02),
            reraise=True,
        )
        retry(connection.execute, "PRAGMA journal_mode=WAL")
    connection.execute(f"PRAGMA synchronous={synchronous}")


def _is_busy(error: BaseException) -> bool:
    return isinstance(error, sqlite3.Error) and error.sqlite_errorcode == sqlite3.SQLITE_BUSY


def _migrate(connection: sqlite3.Connection) -> None:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version >= len(MIGRATIONS):
        return
    for statements in MIGRATIONS[version:]:
        for statement in statements:
            connection.execute(statement)
    connection.execute(f"PRAGMA application_id={APPLICATION}")
    connection.execute(f"PRAGMA user_version={len(MIGRATIONS)}")


log = logging.getLogger("ipyagent")

SHORTEST = 4
"""Characters that the beginning of an id needs at least."""

_STATE = ("pending_run_id", "active_run_id", "last_run_id", "last_run_status", "last_run_at")
"""Columns that follow the runs and are never set directly."""

_SESSION = TypeAdapter(Session)
_NODE = TypeAdapter(Node)


def create_session(db: sqlite3.Connection, session: Session, nodes: Iterable[Node]) -> None:
    """Add a session and its initial history."""
    try:
        db.execute(
            "INSERT INTO sessions (id, name, record, activity)"
            " VALUES (?, ?, ?, (SELECT coalesce(max(activity), 0) + 1 FROM sessions))",
            (session.id, session.name, _text(session)),
        )
    except sqlite3.IntegrityError:
        raise SessionError(f"the session {session.id} is in the journal already") from None
    rows = ((session.id, place, node.model_dump_json()) for place, node in enumerate(nodes))
    db.executemany("INSERT INTO nodes (session_id, position, node) VALUES (?, ?, ?)", rows)


def find_or_create_session(
    db: sqlite3.Connection,
    session: Session,
    nodes: Iterable[Node],
    matches: Callable[[Session], bool],
) -> Session:
    """Return the newest session that matches, else add this one, under a free name."""
    known = newest_sessions(db)
    if existing := next(filter(matches, known), None):
        return existing
    taken = {row["name"] for row in db.execute("SELECT name FROM sessions")}
    numbered = (f"{session.name}-{number}" for number in itertools.count(2))
    name = next(each for each in itertools.chain([session.name], numbered) if each not in taken)
    session = session.model_copy(update={"name": name})
    create_session(db, session, nodes)
    return session


def update_session(db: sqlite3.Connection, session: Session) -> None:
    """Store a session's name, state, origin and metadata."""
    changed = db.execute(
        "UPDATE sessions SET name = ?, record = ? WHERE id = ?",
        (session.name, _text(session), session.id),
    )
    if not changed.rowcount:
        raise SessionError(f"the session {session.id} is not in the journal")


def find_session(db: sqlite3.Connection, reference: str) -> Session | None:
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


def newest_sessions(db: sqlite3.Connection) -> list[Session]:
    """Return all sessions that can be read."""
    readable = []
    for row in db.execute("SELECT * FROM sessions ORDER BY activity DESC"):
        try:
            readable.append(_session(row))
        except SessionError as error:
            log.warning("%s", error)
    return readable


def initial_nodes(db: sqlite3.Connection, session_id: str) -> list[Node]:
    """Return the initial history of a session."""
    rows = db.execute(
        "SELECT node FROM nodes WHERE session_id = ? ORDER BY position", (session_id,)
    )
    return [read(_NODE, row["node"], f"the history of session {session_id}") for row in rows]


def _text(session: Session) -> str:
    return session.model_dump_json(exclude={"messages", *_STATE})


def _session(row: sqlite3.Row) -> Session:
    def complete(record: JsonDict) -> JsonDict:
        # If the clock was set back, the session must stay readable.
        started_at = min(record["started_at"], now().isoformat())
        return record | {column: row[column] for column in _STATE} | {"started_at": started_at}

    session = read(_SESSION, row["record"], f"the session {row['name']!r} ({row['id']})", complete)
    # The first run makes a session active, but does not change its record.
    has_run = session.active_run_id or session.last_run_id
    is_new = session.state is SessionState.INITIALIZING
    return session.move(SessionState.ACTIVE) if has_run and is_new else session


class SessionLocks:
    """The sessions that this journal's kernel has claimed; with `folder` None it may claim any."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self._locks: dict[str, int] = {}
        _all.add(self)

    def claim(self, session_id: str) -> bool:
        """Return whether the session is ours now; raises JournalError."""
        if self.folder is None or session_id in self._locks:
            return True
        if not has_locks():
            log.warning("this system has no locks; %s may be open in two kernels", session_id)
            return True
        path = self.folder / f"{session_id}.lock"
        try:
            self.folder.mkdir(exist_ok=True)
            lock = open_lock(path)
        except OSError as error:
            problem = f"it cannot be opened ({error.strerror})"
            raise failure(path, problem, "Make it and its folder writable") from None
        try:
            is_ours = try_lock(lock)
        except OSError as error:
            os.close(lock)
            problem = f"the file system has no locks ({error.strerror})"
            raise failure(path, problem, "Move the workspace") from None
        if not is_ours:
            os.close(lock)
            return False
        self._locks[session_id] = lock
        return True

    def release(self, session_id: str) -> None:
        """Release the session for others."""
        # The file stays: another kernel may just be opening it.
        lock = self._locks.pop(session_id, None)
        if lock is not None:
            os.close(lock)

    def forget(self, session_id: str) -> None:
        """Remove the lock of a session that nobody else can know of."""
        if self.folder is not None and session_id in self._locks:
            (self.folder / f"{session_id}.lock").unlink(missing_ok=True)
        self.release(session_id)

    def release_all(self) -> None:
        """Release all sessions."""
        for session_id in tuple(self._locks):
            self.release(session_id)


_all: weakref.WeakSet[SessionLocks] = weakref.WeakSet()


def _release_in_child() -> None:
    """Close a fork's copies of its parent's locks, which would otherwise outlive the parent."""
    for locks in tuple(_all):
        locks.release_all()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_release_in_child)
