"""The one thread that writes. Events wait in memory and are committed together.

    append ─▶ queue ─▶ flush ─▶ one transaction, on the disk when the flush is done

Events that could not be written stay in the queue for the next flush. A reply that is streaming in
is saved each time its text has doubled: a long one costs few commits, and a crash loses less than
half of it.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import queue
import sqlite3
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, TypeVar

from ipyagent import schema
from ipyagent.errors import JournalError
from ipyagent.store import runs
from ipyagent.store.database import explain_errors, failure, transaction
from ipyagent.store.runs import Encoder

T = TypeVar("T")


class Worker:
    """Does one job after the other until one ends it; `closed` makes the error of later ones.

    Not a ThreadPoolExecutor: a finalizer may call `submit` while the same thread holds one of its
    locks.
    """

    def __init__(self, closed: Callable[[], Exception]) -> None:
        self._closed = closed
        self._pid = os.getpid()
        # SimpleQueue.put is reentrant: a finalizer may call it in the middle of another put.
        self._jobs: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]]] = queue.SimpleQueue()
        self._has_ended = False
        threading.Thread(target=self._work, name="ipyagent-journal", daemon=True).start()

    @property
    def is_copy(self) -> bool:
        """True in the copy that a fork made: it has no thread."""
        return os.getpid() != self._pid

    def submit(self, job: Callable[[], T]) -> Future[T]:
        """Return a future for the job's result."""
        future: Future[T] = Future()
        self._jobs.put((future, job))
        if self._has_ended:
            self._refuse_rest()
        return future

    def end(self) -> None:
        """Do no more jobs; called by the last one."""
        self._has_ended = True

    def _work(self) -> None:
        while not self._has_ended:
            future, job = self._jobs.get()
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(job())
                except BaseException as error:
                    future.set_exception(error)
            # Otherwise they would be kept until the next job comes.
            del future, job
        self._refuse_rest()

    def _refuse_rest(self) -> None:
        """Fail the jobs that came too late."""
        with contextlib.suppress(queue.Empty):
            while True:
                future, _ = self._jobs.get_nowait()
                if future.set_running_or_notify_cancel():
                    future.set_exception(self._closed())


@lru_cache(maxsize=1)
def _memory_worker(pid: int) -> Worker:
    """Return the worker of all journals in memory, none of which waits for a disk; never ends."""
    return Worker(RuntimeError)


log = logging.getLogger("ipyagent")


FIRST_SAVE = 256
"""Characters of a reply that justify a commit of their own."""

MAX_QUEUED = 64 * 1024 * 1024
"""Characters that may wait for a disk that accepts nothing."""


@dataclass(frozen=True)
class QueuedEvent:
    """An event that waits to be written."""

    session_id: str
    run_id: str
    event: schema.Event
    at: str
    text: str


@dataclass
class SavedLength:
    """The lengths of a streaming message's texts that are saved already."""

    characters: int = 0

    def is_due(self, message: schema.OpenMessage) -> bool:
        """Return whether the message should be saved now."""
        return message.text_length - self.characters >= max(FIRST_SAVE, self.characters)


@dataclass
class Batch:
    """Rows that are written together; `messages` are streaming in, by the ids of their runs."""

    rows: list[QueuedEvent] = field(default_factory=list)
    messages: dict[str, tuple[SavedLength, schema.OpenMessage]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.rows or self.messages)


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
        self._saved: dict[str, SavedLength] = {}
        self._encoder = Encoder()
        self._lost: JournalError | None = None
        self._refused: set[str] = set()
        closed = partial(failure, path, "it was closed", "Load ipyagent again")
        self._worker = Worker(closed) if path else _memory_worker(os.getpid())
        _all.add(self)

    def append(
        self,
        session_id: str,
        run_id: str,
        event: schema.Event,
        open_message: schema.OpenMessage | None = None,
    ) -> None:
        """Queue an event for the next flush, unless nothing keeps it; never raises."""
        if self._worker.is_copy or isinstance(event, schema.ToolOutput):
            return
        with self._lock:
            if isinstance(event, schema.MessageDelta):
                self._keep_open(run_id, open_message)
                return
            if isinstance(
                event, schema.MessageStarted | schema.MessageFinished | schema.RunFinished
            ):
                self._saved.pop(run_id, None)
                self._waiting.messages.pop(run_id, None)
            self._enqueue(session_id, run_id, event)

    def save(self) -> None:
        """Start to write the events appended so far; the next flush reports a failure."""
        if not self._worker.is_copy:
            self._submit(self._write)

    def flush(self) -> Future[None]:
        """Return a future, done when everything so far is on the disk; fails with JournalError."""
        if not self._worker.is_copy:
            with self._lock:
                if not (self._waiting or self._writing or self._lost):
                    done: Future[None] = Future()
                    done.set_result(None)
                    return done
        return self._submit(self._flush)

    def perform(self, job: Callable[[sqlite3.Connection], T]) -> T:
        """Run a job with the database after all that was appended; raises JournalError."""

        def work() -> T:
            try:
                self._write()
            except JournalError as error:
                # It stays in the queue, and the next flush reports it.
                log.warning("%s", error)
            with explain_errors(self.path):
                return job(self.connection)

        return self._submit(work).result()

    def stop(self) -> Future[None]:
        """Write queued events soon. Takes no lock: the garbage collector may call it."""
        return self._submit(self._end)

    def close(self) -> None:
        """Write queued events now."""
        with contextlib.suppress(JournalError):  # it was closed before
            self.stop().result()

    def _submit(self, job: Callable[[], T]) -> Future[T]:
        if not self._worker.is_copy:
            return self._worker.submit(job)
        refused: Future[T] = Future()
        problem = "it belongs to the process that this one was forked from"
        refused.set_exception(failure(self.path, problem, "Run agents in the kernel itself"))
        return refused

    def _end(self) -> None:
        try:
            self._write()
        except JournalError as error:
            log.error("%s", error)
        finally:
            if self.path:
                self._worker.end()
        self.connection.close()
        self._on_end()

    def _keep_open(self, run_id: str, message: schema.OpenMessage | None) -> None:
        saved = self._saved.setdefault(run_id, SavedLength())
        if message is not None and saved.is_due(message):
            saved.characters = message.text_length
            self._waiting.messages[run_id] = saved, message
            self._submit(self._write)

    def _enqueue(self, session_id: str, run_id: str, event: schema.Event) -> None:
        try:
            text = self._encoder.encode(run_id, event)
        except Exception as error:
            log.exception("%s could not be recorded", event.type)
            problem = f"an event ({event.type}) cannot be written: {error}"
            self._lost = failure(self.path, problem, "Leave out what is not text or JSON")
            return
        if self._size + len(text) > self.limit:
            problem = "too many events wait to be written, and further ones are lost"
            self._lost = failure(self.path, problem, "Make room on the disk")
            return
        self._encoder.note(run_id, event)
        self._size += len(text)
        self._waiting.rows.append(
            QueuedEvent(session_id, run_id, event, schema.now().isoformat(), text)
        )

    def _flush(self) -> None:
        self._write()
        with self._lock:
            lost, self._lost = self._lost, None
        if lost:
            raise lost

    def _write(self) -> None:
        """Write what waits, in the writing thread."""
        with self._lock:
            batch, self._waiting = self._waiting, Batch()
            self._writing = bool(batch)
        if not batch:
            return
        try:
            with explain_errors(self.path), transaction(self.connection):
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
            for run_id, (saved, message) in batch.messages.items():
                if self._saved.get(run_id) is saved:  # else its end is on its way, or a new attempt
                    self._waiting.messages.setdefault(run_id, (saved, message))

    def _store(self, batch: Batch) -> None:
        for row in batch.rows:
            if row.run_id not in self._refused and (why := store(self.connection, row)):
                # A retry would fail again, and block the rest.
                self._refused.add(row.run_id)
                self._lost = failure(self.path, why, "Ask again")
        for run_id, (_, message) in batch.messages.items():
            self.connection.execute(
                "INSERT OR REPLACE INTO replies (run_id, step, text) VALUES (?, ?, ?)",
                (run_id, message.step, message.join("text")),
            )


def store(db: sqlite3.Connection, row: QueuedEvent) -> str | None:
    """Add an event to its session, with its consequences; return why that is refused, or None."""
    if why := runs.follow(db, row.session_id, row.run_id, row.event):
        return why
    try:
        db.execute(
            "INSERT INTO events (session_id, run_id, at, data) VALUES (?, ?, ?, ?)",
            (row.session_id, row.run_id, row.at, row.text),
        )
    except sqlite3.IntegrityError:
        return f"the session {row.session_id} is not in it"
    if isinstance(row.event, schema.MessageStarted | schema.MessageFinished | schema.RunFinished):
        db.execute("DELETE FROM replies WHERE run_id = ?", (row.run_id,))
    return None


_all: weakref.WeakSet[Writer] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """Close all writers: daemon threads are not waited for at the end of the process."""
    for writer in tuple(_all):
        writer.close()
