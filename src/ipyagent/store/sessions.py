"""The records of sessions, how one is found, and their locks: one kernel at a time continues one.

A lock is one of the operating system, not a heartbeat: it ends with its process, however that ends.
"""

from __future__ import annotations

import itertools
import logging
import os
import sqlite3
import weakref
from collections.abc import Callable, Iterable
from pathlib import Path

from pydantic import TypeAdapter

from ipyagent.atomic_files import has_locks, open_lock, try_lock
from ipyagent.errors import SessionError
from ipyagent.json_types import JsonDict
from ipyagent.schema import Node, Session, SessionState
from ipyagent.schema.base import now
from ipyagent.store.codec import read
from ipyagent.store.database import failure

log = logging.getLogger("ipyagent")

SHORTEST = 4
"""Characters that the beginning of an id needs at least."""

_STATE = ("pending_run_id", "active_run_id", "last_run_id", "last_run_status", "last_run_at")
"""Columns that follow the runs and are never set directly."""

_SESSION = TypeAdapter(Session)
_NODE = TypeAdapter(Node)


def create(db: sqlite3.Connection, session: Session, nodes: Iterable[Node]) -> None:
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


def find_or_create(
    db: sqlite3.Connection,
    session: Session,
    nodes: Iterable[Node],
    matches: Callable[[Session], bool],
) -> Session:
    """Return the newest session that matches, else add this one, under a free name."""
    known = newest_first(db)
    if existing := next(filter(matches, known), None):
        return existing
    taken = {row["name"] for row in db.execute("SELECT name FROM sessions")}
    numbered = (f"{session.name}-{number}" for number in itertools.count(2))
    name = next(each for each in itertools.chain([session.name], numbered) if each not in taken)
    session = session.model_copy(update={"name": name})
    create(db, session, nodes)
    return session


def update(db: sqlite3.Connection, session: Session) -> None:
    """Store a session's name, state, origin and metadata."""
    changed = db.execute(
        "UPDATE sessions SET name = ?, record = ? WHERE id = ?",
        (session.name, _text(session), session.id),
    )
    if not changed.rowcount:
        raise SessionError(f"the session {session.id} is not in the journal")


def find(db: sqlite3.Connection, reference: str) -> Session | None:
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


def newest_first(db: sqlite3.Connection) -> list[Session]:
    """Return all sessions that can be read."""
    readable = []
    for row in db.execute("SELECT * FROM sessions ORDER BY activity DESC"):
        try:
            readable.append(_session(row))
        except SessionError as error:
            log.warning("%s", error)
    return readable


def nodes(db: sqlite3.Connection, session_id: str) -> list[Node]:
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
