"""Opening the journal's database, and saying what is wrong with it."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_fixed

from ipyagent.errors import JournalError
from ipyagent.store.tables import APPLICATION, MIGRATIONS

BUSY_SECONDS = 10.0
"""How long another process may keep the database to itself."""

WITHOUT = "go on without a record: `%agent config chat.persist=false`, or Agent(persist=False)"

_REMEDIES = {
    sqlite3.SQLITE_FULL: ("the disk is full", "Make room"),
    sqlite3.SQLITE_READONLY: ("it cannot be written", "Make the file and its folder writable"),
    sqlite3.SQLITE_PERM: ("it cannot be written", "Make the file and its folder writable"),
    sqlite3.SQLITE_CANTOPEN: (
        "it cannot be opened or made",
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
    """The database at `path`, made if there is none, or one in memory; raises JournalError."""
    # A link could lead a hostile workspace's journal anywhere.
    if path is not None and path.is_symlink():
        raise failure(path, "it is a symbolic link", "Put the file itself there")
    with explained(path):
        if path is not None:
            _make_folder(path)
        # Closed by whichever thread comes last, hence not bound to one.
        connection = sqlite3.connect(
            path or ":memory:",
            timeout=BUSY_SECONDS,
            isolation_level=None,
            check_same_thread=False,
        )
        try:
            _prepare(connection, path)
        except BaseException:
            connection.close()
            raise
    return connection


@contextlib.contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """All or nothing, and nobody else writes meanwhile."""
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
def explained(path: Path | None) -> Iterator[None]:
    """Errors of SQLite as JournalError."""
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        what, remedy = _REMEDIES.get(code, (str(error), "Move it away to begin a new one"))
        raise failure(path, what, remedy) from error


def failure(path: Path | None, what: str, remedy: str) -> JournalError:
    """What is wrong with the journal, and the ways out."""
    return JournalError(f"the journal {path or 'in memory'}: {what}. {remedy}, or {WITHOUT}.")


def _make_folder(path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        what = f"its folder cannot be made ({error.strerror})"
        raise failure(path, what, "Make the place writable") from None


def _prepare(connection: sqlite3.Connection, path: Path | None) -> None:
    # What is in a database may come from a stranger: its views and triggers get no powers.
    connection.execute("PRAGMA trusted_schema=OFF")
    connection.execute("PRAGMA foreign_keys=ON")
    _refuse_foreign(connection, path)
    if path is not None:
        _share(connection)
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
        what = "it is a database of another program; it was left as it is"
        raise failure(path, what, "Move it away to begin a new one")
    if version > len(MIGRATIONS):
        what = f"a newer ipyagent wrote it (version {version}, this one knows {len(MIGRATIONS)})"
        raise failure(path, what, "Update ipyagent, or move the file away to begin a new one")


def _share(connection: sqlite3.Connection) -> None:
    """Readers and one writer at a time, and what is committed survives a power cut."""
    (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
    if mode != "wal":
        # This needs the database alone for a moment, and doesn't wait for it by itself when several
        # kernels come to a new one at once.
        patiently = Retrying(
            retry=retry_if_exception(_is_busy),
            stop=stop_after_delay(BUSY_SECONDS),
            wait=wait_fixed(0.02),
            reraise=True,
        )
        patiently(connection.execute, "PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")


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
