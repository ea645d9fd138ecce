"""Connections of the user's to SQLite databases, on a copy of the kernel.

One to a file has lost it there, with all other descriptors: a new one, that only reads, takes its
place. One to a database in memory works as it is, on a copy of all that is in it.
"""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import MutableMapping
from typing import TypeGuard
from urllib.parse import quote

Rows = list[tuple[str | bytes | int, ...]]
_MOST = 64 << 20
"""Bytes of a database in memory that are compared."""


def is_connection(value: object) -> TypeGuard[sqlite3.Connection]:
    """Return whether a value is exactly a connection; that of a subclass runs code of its own."""
    return type(value) is sqlite3.Connection


def reconnect(variables: MutableMapping[str, object]) -> list[sqlite3.Connection]:
    """Bind new connections in the place of those to files; return those, which must not be closed.

    What cannot be replaced stays, and fails when it is used.
    """
    replaced: dict[int, tuple[sqlite3.Connection, sqlite3.Connection]] = {}
    for name, value in [*variables.items()]:
        if is_connection(value):
            _, variables[name] = replaced.setdefault(id(value), (value, _connect_anew(value)))
    return [old for old, _ in replaced.values()]


def _connect_anew(old: sqlite3.Connection) -> sqlite3.Connection:
    try:
        [(_, _, path)] = _ask(old, "PRAGMA database_list")
        if not path or old.in_transaction:  # what was not committed is nowhere else
            return old
        name = path if isinstance(path, bytes) else str(path)
        address = f"file:{quote(name)}?mode=ro"
        new = sqlite3.connect(address, uri=True, isolation_level=old.isolation_level)
        new.row_factory, new.text_factory = old.row_factory, old.text_factory
        _ask(new, "PRAGMA schema_version")
    except (sqlite3.Error, ValueError, TypeError):
        return old
    return new


def is_readable(connection: sqlite3.Connection) -> bool:
    """Return whether all that a change of it, or of its database, makes different can be read."""
    try:
        databases, size = _measure(connection)
    except sqlite3.ProgrammingError:  # it is closed
        return True
    except (sqlite3.Error, TypeError):
        return False
    # To a connection that has lost its file, the database is empty.
    return size > 0 if databases[0][2] else size <= _MOST and hasattr(connection, "serialize")


def read_connection(connection: sqlite3.Connection) -> list[object]:
    """Return what differs once a connection, or its database, was changed."""
    try:
        databases, size = _measure(connection)
        content = b"" if databases[0][2] or not size else connection.serialize()
    except sqlite3.Error as error:
        return [repr(error)]
    state = (databases, size, zlib.crc32(content), connection.total_changes)
    setup = (connection.in_transaction, connection.isolation_level)
    return [repr((*state, *setup)), connection.row_factory, connection.text_factory]


def _measure(connection: sqlite3.Connection) -> tuple[Rows, int]:
    """Return the databases, each with its number, name and file, and the first one's bytes."""
    [(pages,)], [(size,)] = (_ask(connection, f"PRAGMA page_{each}") for each in ("count", "size"))
    return _ask(connection, "PRAGMA database_list"), int(pages) * int(size)


def _ask(connection: sqlite3.Connection, query: str) -> Rows:
    """Return the rows of a query as they are, whatever the user has rows made into."""
    cursor = connection.cursor()
    cursor.row_factory = None
    found = cursor.execute(query).fetchall()
    cursor.close()
    return found
