"""The tables of the journal, and the migrations between their versions.

    sessions ─┬─ nodes       an initial history
              ├─ events      all events, in order; rows are only ever added
              ├─ runs        the status of each run: the guard of its transitions
              ├─ replies     the text so far of replies that still stream in
              └─ recordings  the runs of cells, by the key of what was asked

Statements are written once, for SQLite and PostgreSQL, with `?` or `:name` for values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from ipyagent.json_types import JsonMapping

Row = JsonMapping
"""A row, by the names of its columns."""

Values = Sequence[object] | Mapping[str, object]
"""The values of a statement, in order or by name."""


class Database(Protocol):
    """A connection to a database with these tables."""

    def execute(self, statement: str, values: Values = (), /) -> Any:
        """Carry out a statement; return a cursor."""


MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        """CREATE TABLE sessions (
            id TEXT PRIMARY KEY,
            name TEXT NOT NULL,
            record TEXT NOT NULL,
            activity INTEGER NOT NULL,
            pending_run_id TEXT,
            active_run_id TEXT,
            last_run_id TEXT,
            last_run_status TEXT,
            last_run_at TEXT
        )""",
        """CREATE TABLE nodes (
            session_id TEXT NOT NULL REFERENCES sessions(id),
            position INTEGER NOT NULL,
            node TEXT NOT NULL,
            PRIMARY KEY (session_id, position)
        )""",
        """CREATE TABLE events (
            seq INTEGER PRIMARY KEY AUTOINCREMENT,
            session_id TEXT NOT NULL REFERENCES sessions(id),
            run_id TEXT NOT NULL,
            at TEXT NOT NULL,
            data TEXT NOT NULL
        )""",
        "CREATE INDEX events_of_session ON events (session_id, seq)",
        "CREATE INDEX events_of_run ON events (run_id, seq)",
        """CREATE TRIGGER events_are_not_changed BEFORE UPDATE ON events
            BEGIN SELECT RAISE(ABORT, 'events are only ever added'); END""",
        """CREATE TRIGGER events_are_not_removed BEFORE DELETE ON events
            BEGIN SELECT RAISE(ABORT, 'events are only ever added'); END""",
        """CREATE TABLE runs (
            id TEXT PRIMARY KEY,
            session_id TEXT NOT NULL REFERENCES sessions(id),
            status TEXT NOT NULL,
            goal TEXT NOT NULL,
            record TEXT,
            plan_json TEXT,
            plan_digest TEXT,
            confirmed_at TEXT,
            current_step_path TEXT,
            last_event TEXT,
            error TEXT,
            updated_at TEXT NOT NULL
        )""",
        "CREATE INDEX runs_of_session ON runs (session_id)",
        """CREATE TABLE replies (
            run_id TEXT PRIMARY KEY,
            step INTEGER NOT NULL,
            text TEXT NOT NULL
        )""",
    ),
    (
        """CREATE TABLE recordings (
            run_id TEXT PRIMARY KEY,
            key TEXT NOT NULL,
            prompt TEXT NOT NULL,
            cell TEXT
        ) WITHOUT ROWID""",
        "CREATE INDEX recordings_by_key ON recordings (key)",
    ),
)
"""Statements per version: the database counts those carried out."""
