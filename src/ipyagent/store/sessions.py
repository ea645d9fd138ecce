"""Sessions in the journal: their records, how one is found, and the claims of kernels on them.

One kernel at a time continues a session. A claim is a lock of the operating system on a file, not a
heartbeat: it ends with its process, however that ends.
"""

from __future__ import annotations

import errno
import itertools
import logging
import os
import re
import weakref
from collections.abc import Callable, Iterable
from pathlib import Path

from pydantic import TypeAdapter

from ipyagent import atomic_files, schema
from ipyagent.errors import SessionError
from ipyagent.json_types import JsonDict
from ipyagent.store.database import failure
from ipyagent.store.runs import read
from ipyagent.store.tables import Database, Row

log = logging.getLogger("ipyagent")

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
        if not atomic_files.has_locks():
            log.warning("this system has no locks; %s may be open in two kernels", session_id)
            return True
        path = self.folder / f"{session_id}.lock"
        try:
            self.folder.mkdir(exist_ok=True)
            lock = atomic_files.open_lock(path)
        except OSError as error:
            problem = f"it cannot be opened ({error.strerror})"
            raise failure(path, problem, "Make it and its folder writable") from None
        try:
            is_ours = atomic_files.try_lock(lock)
            # Who had it may have removed it.
            is_removed = is_ours and not atomic_files.is_lock_at(path, lock)
        except OSError as error:
            os.close(lock)
            if error.errno == errno.ESTALE:  # removed on another computer
                return self.claim(session_id)
            problem = f"the file system has no locks ({error.strerror})"
            raise failure(path, problem, "Move the workspace") from None
        if not is_ours or is_removed:
            os.close(lock)
            return is_removed and self.claim(session_id)
        self._locks[session_id] = lock
        return True

    def holds(self, session_id: str) -> bool:
        """Return whether no other kernel can claim the session."""
        return session_id in self._locks

    def release(self, session_id: str) -> None:
        """Release the session for others, and remove its lock."""
        if (lock := self._locks.pop(session_id, None)) is not None and self.folder is not None:
            atomic_files.remove_lock(self.folder / f"{session_id}.lock", lock)

    def release_all(self) -> None:
        """Release all sessions; the files stay, for they may be another process's."""
        while self._locks:
            os.close(self._locks.popitem()[1])


_all: weakref.WeakSet[SessionLocks] = weakref.WeakSet()


def _release_in_child() -> None:
    """Close a fork's copies of its parent's locks, which would otherwise outlive the parent."""
    for locks in tuple(_all):
        locks.release_all()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_release_in_child)
