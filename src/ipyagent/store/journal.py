"""The journal: what happened in the sessions of a workspace, so that nothing of it is lost.

Events are appended at once and flushed where it matters: what a finished flush covers survives the
death of the kernel and a power cut.
"""

from __future__ import annotations

import logging
import sqlite3
import weakref
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import TypeVar

from ipyagent.errors import SessionError
from ipyagent.schema import Event, Node, Run, RunStatus, Session, fold
from ipyagent.schema.base import now
from ipyagent.store import recovery, runs, sessions
from ipyagent.store.database import connect, transaction
from ipyagent.store.leases import Leases
from ipyagent.store.records import Decoder, Encoder, Record
from ipyagent.store.writer import MAX_QUEUED, Row, Writer, store

log = logging.getLogger("ipyagent")

T = TypeVar("T")

PAGE = 1_000
"""Events that are read at once."""


class Journal:
    """One database; every method may be called from any thread, and waits for the disk."""

    def __init__(self, writer: Writer, leases: Leases) -> None:
        self._writer, self._leases = writer, leases
        weakref.finalize(self, writer.stop).atexit = False

    @classmethod
    def open(cls, path: Path | None, *, max_queued: int = MAX_QUEUED) -> Journal:
        """The journal in that file, made if there is none; None: in memory alone.

        Raises JournalError. `max_queued` characters wait at most for a disk that takes nothing.
        """
        leases = Leases(path.parent / "locks" if path else None)
        return cls(Writer(connect(path), path, max_queued, leases.release_all), leases)

    @property
    def path(self) -> Path | None:
        """The file; None for a journal in memory."""
        return self._writer.path

    @property
    def commits(self) -> int:
        """How many transactions wrote events: what costs time on a disk."""
        return self._writer.commits

    def close(self) -> None:
        """Write what is left, and let others go on with the sessions."""
        self._writer.close()

    # -- sessions

    def create(self, session: Session, nodes: Iterable[Node] = ()) -> None:
        """Add a session; `nodes` is a history that it brings along, parents before children."""
        self._change(lambda db: sessions.create(db, session, nodes))

    def find_or_create(
        self,
        session: Session,
        nodes: Iterable[Node] = (),
        matches: Callable[[Session], bool] = lambda session: False,
    ) -> Session:
        """Return the newest session that matches, else add this one, under a name that is free.

        In one transaction: kernels that come at the same time get the same one, or other names.
        """
        return self._change(lambda db: sessions.find_or_create(db, session, nodes, matches))

    def update(self, session: Session) -> None:
        """Store name, state, origin and metadata; what depends on runs follows them by itself."""
        self._change(lambda db: sessions.update(db, session))

    def session(self, reference: str) -> Session | None:
        """By id, name (the newest), or the beginning of an id; SessionError if that fits many."""
        return self._writer.perform(lambda db: sessions.find(db, reference))

    def sessions(self) -> list[Session]:
        """All, the newest activity first."""
        return self._writer.perform(sessions.newest_first)

    def nodes(self, session_id: str) -> list[Node]:
        """The history that a session brought along."""
        return self._writer.perform(lambda db: sessions.nodes(db, session_id))

    def claim(self, session_id: str) -> bool:
        """Whether this kernel may go on with the session; False while another one does."""
        return self._leases.claim(session_id)

    def release(self, session_id: str) -> None:
        """Let other kernels go on with the session."""
        self._leases.release(session_id)

    def forget(self, session_id: str) -> None:
        """Release a session that was claimed and never created."""
        self._leases.forget(session_id)

    # -- events

    def append(self, session_id: str, run_id: str, event: Event) -> None:
        """Remember what happened, for the next flush; never raises, never waits."""
        self._writer.append(session_id, run_id, event)

    def save(self) -> None:
        """Begin to write what was appended so far; if that fails, the next flush tells."""
        self._writer.save()

    def flush(self) -> Future[None]:
        """Done when all that was appended so far is on the disk; fails with JournalError."""
        return self._writer.flush()

    def events(self, session_id: str) -> Iterator[Record]:
        """What happened in a session, in order."""
        return self._records("session_id", session_id)

    # -- runs

    def runs(self, session_id: str) -> list[Run]:
        """The runs of a session, oldest first; plans that never ran are among them."""
        rows = self._rows("session_id", session_id)
        folded = _folded(self.events(session_id))
        found = (_as_recorded(folded.get(row["id"]), row) for row in rows)
        return [run for run in found if run is not None]

    def run(self, run_id: str) -> Run:
        """One run; raises SessionError."""
        rows = self._rows("id", run_id)
        folded = _folded(self._records("run_id", run_id)) if rows else {}
        run = _as_recorded(folded.get(run_id), rows[0]) if rows else None
        if run is None:
            raise SessionError(f"no run is called {run_id!r}; `%agent runs` shows those there are")
        return run

    def draft(self, run: Run, session_id: str) -> str:
        """Store a plan before it is shown; its digest, to show with it. Raises SessionError."""
        return self._change(lambda db: runs.draft(db, session_id, run))

    def confirm(self, session_id: str, run_id: str | None = None) -> Run:
        """Approve a plan (None: the one that waits); the run as it was stored, queued.

        Raises SessionError for all but the first to confirm it.
        """
        return self._change(lambda db: runs.confirm(db, session_id, run_id))

    def cancel(self, session_id: str, run_id: str | None = None) -> None:
        """Put a plan off for good; raises SessionError if it has begun, or there is none."""
        self._change(lambda db: runs.cancel(db, session_id, run_id))

    def begin(self, run: Run, session_id: str) -> Run:
        """Start a run, once, and only while no other is active in the session; SessionError."""
        self._change(lambda db: runs.begin(db, session_id, run))
        return run.model_copy(update={"status": RunStatus.RUNNING})

    def finish(self, run_id: str, status: RunStatus, error: str | None = None) -> None:
        """End a run that has no event to end it; raises SessionError if that can't be."""
        if not self._change(lambda db: runs.end(db, run_id, status, error)):
            raise SessionError(f"the run {run_id} cannot become {status}")

    def recover(self, session_id: str) -> list[Run]:
        """End the runs that a kernel left behind; call it with the lease held. May be repeated."""
        rows = self._rows("session_id", session_id)
        left = {row["id"]: row for row in rows if row["status"] in runs.ACTIVE}
        for row in left.values():
            self._recover(row)
        return [run for run in self.runs(session_id) if run.id in left] if left else []

    def _recover(self, row: sqlite3.Row) -> None:
        run_id, session_id = row["id"], row["session_id"]
        history = list(self._records("run_id", run_id))
        reply = self._writer.perform(
            lambda db: db.execute("SELECT * FROM replies WHERE run_id = ?", (run_id,)).fetchone()
        )
        planned = _as_recorded(None, row)
        events = recovery.closing(
            _folded(history).get(run_id), planned, history, reply["text"] if reply else ""
        )

        def close(db: sqlite3.Connection) -> None:
            encoder, at = Encoder(), now().isoformat()
            for event in events:
                store(db, Row(session_id, run_id, event, at, encoder.encode(run_id, event)))
                encoder.note(run_id, event)
            if not events:  # its beginning is lost
                runs.end(db, run_id, RunStatus.ERROR, recovery.ERROR)

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

    def _records(self, column: str, value: str) -> Iterator[Record]:
        query = (
            f"SELECT * FROM events WHERE {column} = ? AND seq > ?"  # noqa: S608 - our names
            f" ORDER BY seq LIMIT {PAGE}"
        )
        decoder, last = Decoder(), 0
        while page := self._page(query, value, last):
            for row in page:
                record = decoder.decode(row["seq"], row["run_id"], row["at"], row["data"])
                if record is not None:
                    yield record
            last = page[-1]["seq"]

    def _page(self, query: str, value: str, last: int) -> list[sqlite3.Row]:
        return self._writer.perform(lambda db: db.execute(query, (value, last)).fetchall())


def _folded(records: Iterable[Record]) -> dict[str, Run]:
    """Runs by id. An event that doesn't fit is left out: what came before it counts."""
    found: dict[str, Run] = {}
    for record in records:
        try:
            found[record.run_id] = fold(found.get(record.run_id), record.event)
        except (ValueError, IndexError) as error:
            log.warning("event %s of the journal does not fit: %s", record.seq, error)
    return found


def _as_recorded(run: Run | None, row: sqlite3.Row) -> Run | None:
    """The run with the status that it was given, if its events don't tell."""
    status = RunStatus(row["status"])
    if run is None:
        try:
            return runs.rebuilt(row, status) if row["record"] else None
        except SessionError as error:
            log.warning("%s", error)
            return None
    if run.is_finished or run.status is status:
        return run
    return run.model_copy(update={"status": status, "error": row["error"]})
