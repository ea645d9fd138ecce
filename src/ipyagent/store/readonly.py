"""Read-only access to a journal: nothing is created, locked or changed."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ipyagent.errors import SessionError
from ipyagent.schema import Run, RunStatus, Session
from ipyagent.store import runs, sessions
from ipyagent.store.database import APPLICATION, MIGRATIONS


@dataclass(frozen=True)
class JournalSummary:
    """The sessions, the newest activity first, and waiting plans by their sessions' ids."""

    sessions: tuple[Session, ...] = ()
    plans: dict[str, Run] = field(default_factory=dict)


def read_summary(path: Path) -> JournalSummary:
    """Return the content of the journal in that file; nothing if none can be read."""
    try:
        with _open_readonly(path) as db:
            return JournalSummary(tuple(sessions.newest_first(db)), dict(_plans(db)))
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


def _plans(db: sqlite3.Connection) -> Iterator[tuple[str, Run]]:
    query = (
        "SELECT runs.* FROM runs JOIN sessions ON runs.id = sessions.pending_run_id"
        " WHERE runs.status = 'draft'"
    )
    for row in db.execute(query):
        with contextlib.suppress(SessionError):
            yield row["session_id"], runs.run_from_row(row, RunStatus.DRAFT)
