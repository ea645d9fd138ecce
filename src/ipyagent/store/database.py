"""The journal's database, opened and migrated, and the one thread that writes.

Events wait in memory and are committed together:

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
from collections.abc import Callable, Iterator, Set as AbstractSet
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import lru_cache, partial
from itertools import chain
from pathlib import Path
from typing import Any, Protocol, TypeVar

from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_random

from ipyagent import schema
from ipyagent.atomic_files import find_network_drive
from ipyagent.errors import JournalError
from ipyagent.store import runs
from ipyagent.store.tables import MIGRATIONS, Database

T = TypeVar("T")

APPLICATION = 0x69707961  # "ipya" in the header of a file: it is not another program's

BUSY_SECONDS = 10.0
"""Seconds for which another process may lock the database."""

WITHOUT = "continue without a record: `%agent config chat.persist=false`, or Agent(persist=False)"

FORKED = (
    "it belongs to the process that this one was forked from",
    "Run agents in the kernel itself",
)
_MAKE_WRITABLE = "Make its folder and the file writable"
_BEGIN_NEW = "Move it away to begin a new one"
_REMEDIES = {
    sqlite3.SQLITE_FULL: ("the disk is full", "Make room"),
    sqlite3.SQLITE_READONLY: ("it cannot be written", _MAKE_WRITABLE),
    sqlite3.SQLITE_PERM: ("it cannot be written", _MAKE_WRITABLE),
    sqlite3.SQLITE_CANTOPEN: ("it cannot be opened or created", _MAKE_WRITABLE),
    sqlite3.SQLITE_BUSY: ("another program has kept it locked", "Close that program"),
    sqlite3.SQLITE_IOERR: ("the disk failed to read or write it", "Check the disk and its space"),
    sqlite3.SQLITE_CORRUPT: ("it is damaged; it was left as it is", _BEGIN_NEW),
    sqlite3.SQLITE_NOTADB: ("it is not a database; it was left as it is", _BEGIN_NEW),
}


class Store(Protocol):
    """The database of a journal, reached over one connection."""

    place: Path | str | None
    """The file, or the name of the database without a password; None: in memory."""
    taken: AbstractSet[str]
    """Sessions that another kernel took over while the connection was lost."""
    is_closing: bool
    """True once the journal was closed: nothing is waited for any more."""

    def read(self, job: Callable[[Database], T]) -> T:
        """Return the result of a job that only reads; raises JournalError."""

    def change(self, job: Callable[[Database], T]) -> T:
        """Return the result of a job, carried out in one transaction; raises JournalError."""

    def close(self) -> None:
        """Close the connection; called by the last job."""


class SqliteStore:
    """The database in a file, created if missing, or in memory; raises JournalError."""

    taken: AbstractSet[str] = frozenset()
    is_closing = False
    place: Path | str | None

    def __init__(self, path: Path | None) -> None:
        self.place, self.connection = path, open_file(path)
        self.connection.row_factory = sqlite3.Row
        try:
            with explain_errors(path):
                _prepare(self.connection, path)
                # Then, `wait_while_busy` begins again.
                self.connection.execute("PRAGMA busy_timeout=200")
        except BaseException:
            self.connection.close()
            raise

    def read(self, job: Callable[[Database], T]) -> T:
        """Return the result of a job that only reads; raises JournalError."""
        with explain_errors(self.place):
            return wait_while_busy(job, self.connection)

    def change(self, job: Callable[[Database], T]) -> T:
        """Return the result of a job, carried out in one transaction; raises JournalError."""
        with explain_errors(self.place), transaction(self.connection):
            return job(self.connection)

    def close(self) -> None:
        """Close the file."""
        self.connection.close()


def open_file(path: Path | None) -> sqlite3.Connection:
    """Open a database, created if missing, or one in memory; raises JournalError."""
    # A link could lead a hostile workspace's journal anywhere.
    if path is not None and path.is_symlink():
        raise failure(path, "it is a symbolic link", "Put the file itself there")
    try:
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        problem = f"its folder cannot be created ({error.strerror})"
        raise failure(path, problem, "Make the place writable") from None
    with explain_errors(path):
        # Any thread may be the last one and close it, so it is not bound to one.
        return sqlite3.connect(
            path or ":memory:",
            timeout=BUSY_SECONDS,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=16,  # as many as a run needs; making the tables needs 20 large ones
        )


@contextlib.contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Commit all or nothing, while nobody else writes."""
    wait_while_busy(connection.execute, "BEGIN IMMEDIATE")
    try:
        yield
        wait_while_busy(connection.execute, "COMMIT")
    except BaseException:
        # SQLite itself rolls back after some errors.
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def wait_while_busy(job: Callable[..., T], *arguments: object) -> T:
    """Return the job's result; it is begun again while another process has the database.

    SQLite itself soon asks ten times a second only: among many kernels that write, whoever waits
    for long would hardly ever find it free.
    """
    try:
        return job(*arguments)
    except sqlite3.OperationalError as error:
        if not _is_busy(error):
            raise
    retry = retry_if_exception(_is_busy)
    stop, wait = stop_after_delay(BUSY_SECONDS), wait_random(0, 0.02)
    return Retrying(retry=retry, stop=stop, wait=wait, reraise=True)(job, *arguments)


def _is_busy(error: BaseException) -> bool:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY


@contextlib.contextmanager
def explain_errors(path: Path | str | None) -> Iterator[None]:
    """Raise errors of SQLite as JournalError."""
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        problem, remedy = _REMEDIES.get(code, (str(error), _BEGIN_NEW))
        raise failure(path, problem, remedy) from error


def failure(place: Path | str | None, problem: str, remedy: str) -> JournalError:
    """Return an error with the journal's problem and the ways out."""
    return JournalError(f"the journal {place or 'in memory'}: {problem}. {remedy}, or {WITHOUT}.")


def _prepare(connection: sqlite3.Connection, path: Path | None) -> None:
    connection.execute("PRAGMA foreign_keys=ON")
    share(connection, path, check=lambda: _refuse_foreign(connection, path))
    if path is None:
        connection.execute("PRAGMA page_size=512")  # each table and index begins a page
    with transaction(connection):
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        for statement in chain.from_iterable(MIGRATIONS[version:]):
            connection.execute(statement)
        if version < len(MIGRATIONS):
            connection.execute(f"PRAGMA application_id={APPLICATION}")
            connection.execute(f"PRAGMA user_version={len(MIGRATIONS)}")


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
        raise failure(path, problem, _BEGIN_NEW)
    if version > len(MIGRATIONS):
        problem = f"a newer ipyagent wrote it (version {version}, this one knows {len(MIGRATIONS)})"
        raise failure(path, problem, "Update ipyagent, or move the file away to begin a new one")


def share(
    connection: sqlite3.Connection,
    path: Path | None,
    synchronous: str = "FULL",
    check: Callable[[], None] = lambda: None,
) -> None:
    """Allow readers beside one writer, and let commits survive a power cut; first `check` it.

    A WAL is in memory that kernels share, so it is for databases made on a disk of one computer.
    Others have a rollback journal that stays there after a transaction: clients of network drives
    remember for a while that there was no such file, or an empty one.
    """
    # A database may come from a stranger: its views and triggers are not trusted.
    connection.execute("PRAGMA trusted_schema=OFF")
    try:
        if drive := path and find_network_drive(path):
            # A WAL from elsewhere is read without shared memory, or not at all.
            connection.execute("PRAGMA locking_mode=EXCLUSIVE")
        check()
        if path is None:
            return
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
        wanted = "persist" if drive or (pages and mode != "wal") else "wal"
        # This may need the database alone for a moment, and SQLite does not wait for that when
        # several kernels open a new one at once.
        wait_while_busy(connection.execute, f"PRAGMA journal_mode={wanted}")
    except sqlite3.OperationalError as error:
        if drive and _is_busy(error) and Path(f"{path}-wal").exists():
            problem = f"on this network drive ({drive}) a kernel uses it as if on a local disk"
            remedy = "End that kernel, ask here, then start it again"
            raise failure(path, problem, remedy) from error
        raise
    connection.execute("PRAGMA locking_mode=NORMAL")
    connection.execute(f"PRAGMA synchronous={synchronous if wanted == 'wal' else 'FULL'}")


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

_REPLY_ENDS = schema.MessageStarted | schema.MessageFinished | schema.RunFinished
"""Events after which the text of a streaming reply so far is void."""

TAKEN = "another kernel has continued the session while the database could not be reached"

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
class Batch:
    """Rows that are written together; `messages` are streaming in, by the ids of their runs."""

    rows: list[QueuedEvent] = field(default_factory=list)
    messages: dict[str, schema.OpenMessage] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.rows or self.messages)


class Writer:
    """Owns the connection. `commits` counts the transactions that wrote something."""

    def __init__(
        self,
        store: Store,
        limit: int = MAX_QUEUED,
        on_end: Callable[[], None] = lambda: None,
    ) -> None:
        self.store, self.place, self.limit = store, store.place, limit
        self.commits = 0
        self._lock = threading.Lock()
        self._on_end = on_end
        self._waiting = Batch()
        self._writing = False
        self._size = 0
        self._saved: dict[str, schema.OpenMessage] = {}
        """The newest text of each streaming message that is saved, or about to be."""
        self._encoder = runs.Encoder()
        self._lost: JournalError | None = None
        self._refused: set[str] = set()
        closed = partial(failure, self.place, "it was closed", "Load ipyagent again")
        self._worker = Worker(closed) if self.place else _memory_worker(os.getpid())
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
            if isinstance(event, _REPLY_ENDS):
                self._saved.pop(run_id, None)
                self._waiting.messages.pop(run_id, None)
            self._enqueue(session_id, run_id, event)

    def save(self) -> None:
        """Start to write the events appended so far; the next flush reports a failure."""
        if not self._worker.is_copy:
            self._submit(self._write)

    def flush(self) -> Future[None]:
        """Return a future, done when everything so far is on the disk; fails with JournalError."""
        if self._worker.is_copy:
            return self._refuse()
        with self._lock:
            if not (self._waiting or self._writing or self._lost):
                done: Future[None] = Future()
                done.set_result(None)
                return done
        return self._worker.submit(self._flush)

    def read(self, job: Callable[[Database], T]) -> T:
        """Read from the database after all that was appended; raises JournalError."""
        return self._submit(partial(self._perform, self.store.read, job)).result()

    def change(self, job: Callable[[Database], T]) -> T:
        """Change the database, in one transaction, in the same order; raises JournalError."""
        return self._submit(partial(self._perform, self.store.change, job)).result()

    def stop(self) -> Future[None]:
        """Write queued events soon. Takes no lock: the garbage collector may call it."""
        self.store.is_closing = True
        return self._submit(self._end)

    def close(self) -> None:
        """Write queued events now."""
        with contextlib.suppress(JournalError):  # it was closed before
            self.stop().result()

    def _submit(self, job: Callable[[], T]) -> Future[T]:
        return self._refuse() if self._worker.is_copy else self._worker.submit(job)

    def _refuse(self) -> Future[T]:
        refused: Future[T] = Future()
        refused.set_exception(failure(self.place, *FORKED))
        return refused

    def _perform(
        self, how: Callable[[Callable[[Database], T]], T], job: Callable[[Database], T]
    ) -> T:
        try:
            self._write()
        except JournalError as error:
            # It stays in the queue, and the next flush reports it.
            log.warning("%s", error)
        return how(job)

    def _end(self) -> None:
        try:
            self._write()
        except JournalError as error:
            log.error("%s", error)
        finally:
            if self.place:
                self._worker.end()
        self.store.close()
        self._on_end()

    def _keep_open(self, run_id: str, message: schema.OpenMessage | None) -> None:
        saved = self._saved[run_id].text_length if run_id in self._saved else 0
        if message is not None and message.text_length - saved >= max(FIRST_SAVE, saved):
            self._saved[run_id] = self._waiting.messages[run_id] = message
            self._submit(self._write)

    def _enqueue(self, session_id: str, run_id: str, event: schema.Event) -> None:
        try:
            text = self._encoder.encode(run_id, event)
        except Exception as error:
            log.exception("%s could not be recorded", event.type)
            problem = f"an event ({event.type}) cannot be written: {error}"
            self._lost = failure(self.place, problem, "Leave out what is not text or JSON")
            return
        if self._size + len(text) > self.limit:
            problem = "too many events wait to be written, and further ones are lost"
            self._lost = failure(self.place, problem, "Make room on the disk")
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
            self.store.change(partial(self._store, batch))
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
            for run_id, message in batch.messages.items():
                if self._saved.get(run_id) is message:  # else more of it, or its end, is on its way
                    self._waiting.messages[run_id] = message

    def _store(self, batch: Batch, db: Database) -> None:
        for row in batch.rows:
            if row.run_id in self._refused:
                continue
            is_taken = row.session_id in self.store.taken
            if why := TAKEN if is_taken else store(db, row):
                # A retry would fail again, and block the rest.
                self._refused.add(row.run_id)
                remedy = "Begin another: `%agent session new`" if is_taken else "Ask again"
                self._lost = failure(self.place, why, remedy)
        for run_id, message in batch.messages.items():
            db.execute(
                "INSERT INTO replies (run_id, step, text) VALUES (?, ?, ?)"
                " ON CONFLICT (run_id) DO UPDATE SET step = excluded.step, text = excluded.text",
                (run_id, message.step, message.join("text")),
            )


def store(db: Database, row: QueuedEvent) -> str | None:
    """Add an event to its session, with its consequences; return why that is refused, or None."""
    if why := runs.follow(db, row.session_id, row.run_id, row.event):
        return why
    added = db.execute(
        "INSERT INTO events (session_id, run_id, at, data) SELECT id, ?, ?, ? FROM sessions"
        " WHERE id = ?",
        (row.run_id, row.at, row.text, row.session_id),
    )
    if not added.rowcount:
        return f"the session {row.session_id} is not in it"
    if isinstance(row.event, _REPLY_ENDS):
        db.execute("DELETE FROM replies WHERE run_id = ?", (row.run_id,))
    return None


_all: weakref.WeakSet[Writer] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """Close all writers: daemon threads are not waited for at the end of the process."""
    for writer in tuple(_all):
        writer.close()
