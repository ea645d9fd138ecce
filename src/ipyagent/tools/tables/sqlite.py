"""Tables of SQLite databases, read from a copy in memory that can neither write nor run code."""

from __future__ import annotations

import contextlib
import sqlite3
import struct
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import BinaryIO

from ipyagent.tools.tables.sample import NotTableError, Sample, SampleColumn
from ipyagent.values.describe.safe_inspect import one_line
from ipyagent.values.describe.table import COLUMNS, HEAD

MAGIC = b"SQLite format 3\0"
_WHOLE = 32_000_000
"""Bytes of the largest database that is read as a whole."""
_PART = 4 << 20
_SECONDS = 0.5
_STEPS = 1_000
"""Instructions of SQLite between two looks at the clock."""
_TABLES = 30
_PARTS = (
    *("data", "idx", "content", "docsize", "config"),
    *("segments", "segdir", "stat", "node", "rowid", "parent"),
)
"""Tables in which indexes of texts and of places keep what they hold, behind their own name."""
_LONGEST = 2_000_000
"""Bytes of a value, and of a statement in the schema."""
_READING = (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE)


def read_database(file: BinaryIO, size: int, log: bytes) -> list[Sample]:
    """Return the tables of a database, the largest first; raises NotTableError.

    `log` is its write-ahead log, which holds its newest pages.
    """
    whole = size <= _WHOLE
    data = bytearray(file.read(_WHOLE if whole else _PART))
    if whole and log:
        _apply_log(data, log)
    if len(data) < 512 or not data.startswith(MAGIC):
        raise NotTableError("it is no SQLite database")
    data[18:20] = b"\1\1"  # in memory there is no write-ahead log
    if not whole:
        data[92:96] = bytes(byte ^ 255 for byte in data[24:28])  # do not trust the page count
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        try:
            connection.deserialize(bytes(data))
            _restrict(connection)
            return _read_tables(connection, whole)
        except (sqlite3.Error, OverflowError, UnicodeDecodeError) as error:
            raise NotTableError(f"its tables cannot be read: {error}") from None


def _apply_log(data: bytearray, log: bytes) -> None:
    """Put the pages of a write-ahead log into a database, up to its last transaction.

    Source of the format: https://www.sqlite.org/fileformat2.html#walformat
    """
    (size,), salts = struct.unpack_from(">I", log, 8), log[16:24]
    waiting, pages, total = dict[int, bytes](), dict[int, bytes](), 0
    for at in range(32, len(log) - size - 23, 24 + size) if size >= 512 else ():
        number, count = struct.unpack_from(">II", log, at)
        if log[at + 8 : at + 16] != salts:
            break  # the rest is older
        waiting[number] = log[at + 24 : at + 24 + size]
        if count:  # the pages of the database, at the end of a transaction
            pages, waiting, total = pages | waiting, {}, count
    if 0 < total * size <= _WHOLE:
        data[:] = data[: total * size].ljust(total * size, b"\0")
        for number, page in pages.items():
            if 0 < number <= total:
                data[(number - 1) * size : number * size] = page


def _restrict(connection: sqlite3.Connection) -> None:
    """Allow reading only, for a short time: a schema can hold views, triggers and expressions."""
    until = time.monotonic() + _SECONDS
    connection.execute("PRAGMA trusted_schema=OFF")
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST)
    connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    connection.text_factory = lambda raw: raw.decode(errors="replace")
    connection.set_progress_handler(lambda: time.monotonic() > until, _STEPS)
    connection.set_authorizer(_authorize)


def _authorize(action: int, first: str | None, second: str | None, *_: str | None) -> int:
    allowed = (
        action in _READING
        or (action == sqlite3.SQLITE_FUNCTION and second == "count")
        or (action == sqlite3.SQLITE_PRAGMA and first == "table_xinfo")
    )
    return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY


def _read_tables(connection: sqlite3.Connection, whole: bool) -> list[Sample]:
    entries = connection.execute(
        "SELECT type, name, sql FROM sqlite_master WHERE type IN ('table', 'view')"
    ).fetchmany(1_000)
    virtual = [name for kind, name, sql in entries if kind == "table" and not _is_plain(sql)]
    hidden = {f"{name}_{part}" for name in virtual for part in _PARTS}.union(virtual)
    tables = [
        name
        for kind, name, _ in entries
        if kind == "table" and not name.startswith("sqlite_") and name not in hidden
    ]
    views = [f"view {name}, not run" for kind, name, _ in entries if kind == "view"]
    others = len(entries) - len(views) - len(tables)
    facts = [", ".join(views[:5])] if views else []
    facts += [f"{others} virtual or internal tables, not read"] if others else []
    facts += [] if whole else [f"only the first {_PART >> 20} MB of the database were read"]
    samples = [_read_table(connection, name, whole) for name in tables[:_TABLES]]
    if not samples:
        raise NotTableError("; ".join(["it has no tables", *facts]))
    samples.sort(key=lambda each: -(each.total or 0))
    first = samples[0]
    more = [f"{len(tables) - _TABLES} more tables"] if len(tables) > _TABLES else []
    noted = (*first.facts, *facts, *more)
    return [replace(first, facts=noted), *samples[1:]]


def _is_plain(sql: object) -> bool:
    return isinstance(sql, str) and not sql.lstrip().upper().startswith("CREATE VIRTUAL")


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _read_table(connection: sqlite3.Connection, name: str, whole: bool) -> Sample:
    quoted = _quote(name)
    facts: tuple[str, ...] = ()
    rows: list[Sequence[object]] = []
    total: int | None = None
    described = connection.execute(f"PRAGMA table_xinfo({quoted})").fetchall()
    # Generated columns would be computed, by expressions of the file.
    shown = [column for column in described if not column[6]]
    names = ", ".join(_quote(column[1]) for column in shown[:COLUMNS])
    try:
        for row in connection.execute(f"SELECT {names} FROM {quoted} LIMIT {HEAD}"):  # noqa: S608
            rows.append(row)
        if whole:
            (total,) = connection.execute(f"SELECT count(*) FROM {quoted}").fetchone()  # noqa: S608
    except (sqlite3.Error, OverflowError) as error:
        reason = f"cannot be read: {error}" if whole else "lie behind the part that was read"
        facts = (f"some of its rows {reason}",)
    if len(shown) < len(described):
        facts = (*facts, f"{len(described) - len(shown)} generated columns, not computed")
    columns = [
        SampleColumn(
            column[1],
            (column[2] or "any type").lower() + (", key" if column[5] else ""),
            [row[n] for row in rows if n < len(row)],
        )
        for n, column in enumerate(shown[:COLUMNS])
    ]
    kind = f"SQLite table {one_line(name)!r}"
    return Sample(kind, columns, len(described), total, len(rows), facts=facts, declared=True)
