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


def read_connection(connection: sqlite3.Connection) -> list[object] | None:
    """Return what a change of a connection, or its database, makes different; None if unknown."""
    try:
        databases = _ask(connection, "PRAGMA database_list")
        [(pages,)], [(size,)] = (_ask(connection, f"PRAGMA page_{e}") for e in ("count", "size"))
        content = b""
        if databases[0][2] and not pages:
            return None  # it has lost its file
        if not databases[0][2] and pages:
            if int(pages) * int(size) > _MOST:
                return None
            content = connection.serialize()
    except sqlite3.ProgrammingError:  # it is closed
        return ["closed"]
    except (sqlite3.Error, AttributeError, TypeError):
        return None
    state = (databases, pages, zlib.crc32(content), connection.total_changes)
    setup = (connection.in_transaction, connection.isolation_level)
    return [repr((*state, *setup)), connection.row_factory, connection.text_factory]


def _ask(connection: sqlite3.Connection, query: str) -> list[tuple[str | bytes | int, ...]]:
    """Return the rows of a query as they are, whatever the user has rows made into."""
    cursor = connection.cursor()
    cursor.row_factory = None
    found = cursor.execute(query).fetchall()
    cursor.close()
    return found
