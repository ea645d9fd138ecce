"""The one thread that writes. Events wait in memory and are committed together.

    append ─▶ queue ─▶ flush ─▶ one transaction, on the disk when the flush is done

What could not be written stays in the queue for the next flush. A reply that still streams in is
kept each time its text has doubled: a long one costs few commits, and a crash less than half.
"""

from __future__ import annotations

import atexit
import logging
import sqlite3
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from ipyagent.errors import JournalError
from ipyagent.schema import Event, MessageDelta, MessageFinished, MessageStarted, RunFinished
from ipyagent.schema.base import now
from ipyagent.store import runs
from ipyagent.store.database import explained, failure, transaction
from ipyagent.store.records import Encoder
from ipyagent.store.worker import Worker

log = logging.getLogger("ipyagent")

T = TypeVar("T")

FIRST_SAVE = 256
"""Characters of a reply that are worth a commit of their own."""

MAX_QUEUED = 64 * 1024 * 1024
"""Characters that wait at most for a disk that takes nothing."""


@dataclass(frozen=True)
class Row:
    """An event that waits to be written."""

    session_id: str
    run_id: str
    event: Event
    at: str
    text: str


@dataclass
class Reply:
    """A reply that streams in."""

    step: int
    pieces: list[str] = field(default_factory=list)
    length: int = 0
    saved: int = 0

    def add(self, text: str) -> bool:
        """Whether it should be saved now."""
        self.pieces.append(text)
        self.length += len(text)
        due = self.length - self.saved >= max(FIRST_SAVE, self.saved)
        self.saved = self.length if due else self.saved
        return due


@dataclass
class Batch:
    """What is written together."""

    rows: list[Row] = field(default_factory=list)
    replies: dict[str, tuple[Reply, str]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.rows or self.replies)


class Writer:
    """Owns the connection. `commits` counts the transactions that wrote something."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        path: Path | None,
        limit: int = MAX_QUEUED,
        on_end: Callable[[], None] = lambda: None,
    ) -> None:
        connection.row_factory = sqlite3.Row
        self.connection, self.path, self.limit = connection, path, limit
        self.commits = 0
        self._lock = threading.Lock()
        self._on_end = on_end
        self._waiting = Batch()
        self._writing = False
        self._size = 0
        self._replies: dict[str, Reply] = {}
        self._encoder = Encoder()
        self._lost: JournalError | None = None
        self._refused: set[str] = set()
        self._worker = Worker(
            "ipyagent-journal", lambda: failure(path, "it was closed", "Load ipyagent again")
        )
        _all.add(self)

    def append(self, session_id: str, run_id: str, event: Event) -> None:
        """Remember an event for the next flush; never raises."""
        if self._worker.is_copy:
            return
        with self._lock:
            if isinstance(event, MessageDelta):
                self._stream(run_id, event)
                return
            if isinstance(event, MessageStarted | MessageFinished | RunFinished):
                self._replies.pop(run_id, None)
                self._waiting.replies.pop(run_id, None)
            self._enqueue(session_id, run_id, event)

    def save(self) -> None:
        """Begin to write what was appended so far; if that fails, the next flush tells."""
        if not self._worker.is_copy:
            self._submit(self._write)

    def flush(self) -> Future[None]:
        """Done when all that was appended so far is on the disk; fails with JournalError."""
        if not self._worker.is_copy:
            with self._lock:
                if not (self._waiting or self._writing or self._lost):
                    done: Future[None] = Future()
                    done.set_result(None)
                    return done
        return self._submit(self._flush)

    def perform(self, job: Callable[[sqlite3.Connection], T]) -> T:
        """Do something with the database after all that was appended; raises JournalError."""

        def work() -> T:
            try:
                self._write()
            except JournalError as error:
                # It stays in the queue, and the next flush tells.
                log.warning("%s", error)
            with explained(self.path):
                return job(self.connection)

        return self._submit(work).result()

    def stop(self) -> None:
        """Write what is left, soon. Takes no lock: the garbage collector may call at any moment."""
        self._worker.stop(self._end)

    def close(self) -> None:
        """Write what is left, now."""
        self.stop()
        self._worker.join()

    def _submit(self, job: Callable[[], T]) -> Future[T]:
        if not self._worker.is_copy:
            return self._worker.submit(job)
        refused: Future[T] = Future()
        what = "it belongs to the process that this one was forked from"
        refused.set_exception(failure(self.path, what, "Run agents in the kernel itself"))
        return refused

    def _end(self) -> None:
        try:
            self._write()
        except JournalError as error:
            log.error("%s", error)
        self.connection.close()
        self._on_end()

    def _stream(self, run_id: str, event: MessageDelta) -> None:
        if event.kind != "text":
            return
        reply = self._replies.get(run_id)
        if reply is None or reply.step != event.step:
            reply = self._replies[run_id] = Reply(event.step)
        if reply.add(event.text):
            reply.pieces = ["".join(reply.pieces)]
            self._waiting.replies[run_id] = (reply, reply.pieces[0])
            self._submit(self._write)

    def _enqueue(self, session_id: str, run_id: str, event: Event) -> None:
        try:
            text = self._encoder.encode(run_id, event)
        except Exception as error:
            log.exception("%s could not be recorded", event.type)
            what = f"an event ({event.type}) cannot be written: {error}"
            self._lost = failure(self.path, what, "Leave out what is not text or JSON")
            return
        if self._size + len(text) > self.limit:
            what = "too much waits to be written, and the rest is lost"
            self._lost = failure(self.path, what, "Make room on the disk")
            return
        self._encoder.note(run_id, event)
        self._size += len(text)
        self._waiting.rows.append(Row(session_id, run_id, event, now().isoformat(), text))

    def _flush(self) -> None:
        self._write()
        with self._lock:
            lost, self._lost = self._lost, None
        if lost:
            raise lost

    def _write(self) -> None:
        """Write what waits, in the thread that does nothing else."""
        with self._lock:
            batch, self._waiting = self._waiting, Batch()
            self._writing = bool(batch)
        if not batch:
            return
        try:
            with explained(self.path), transaction(self.connection):
                self._store(batch)
            self.commits += 1
        except BaseException:
            self._put_back(batch)
            raise
        else:
            with self._lock:
                self._size -= sum(len(row.text) for row in batch.rows)
        finally:
            with self._lock:
                self._writing = False

    def _put_back(self, batch: Batch) -> None:
        with self._lock:
            self._waiting.rows[:0] = batch.rows
            for run_id, (reply, text) in batch.replies.items():
                if self._replies.get(run_id) is reply:
                    self._waiting.replies.setdefault(run_id, (reply, text))

    def _store(self, batch: Batch) -> None:
        for row in batch.rows:
            if row.run_id not in self._refused:
                self._store_row(row)
        for run_id, (reply, text) in batch.replies.items():
            self.connection.execute(
                "INSERT OR REPLACE INTO replies (run_id, step, text) VALUES (?, ?, ?)",
                (run_id, reply.step, text),
            )

    def _store_row(self, row: Row) -> None:
        if why := store(self.connection, row):
            # Tried again it would fail again, and stand in the way of the rest.
            self._refused.add(row.run_id)
            self._lost = failure(self.path, why, "Ask again")


def store(db: sqlite3.Connection, row: Row) -> str | None:
    """Add one event to those of its session, and what follows from it; why it may not be, if so."""
    if why := runs.follow(db, row.session_id, row.run_id, row.event):
        return why
    try:
        db.execute(
            "INSERT INTO events (session_id, run_id, at, data) VALUES (?, ?, ?, ?)",
            (row.session_id, row.run_id, row.at, row.text),
        )
    except sqlite3.IntegrityError:
        return f"the session {row.session_id} is not in it"
    if isinstance(row.event, MessageStarted | MessageFinished | RunFinished):
        db.execute("DELETE FROM replies WHERE run_id = ?", (row.run_id,))
    return None


_all: weakref.WeakSet[Writer] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """Daemon threads are not waited for at the end of the process."""
    for writer in tuple(_all):
        writer.close()
