"""The runs in the journal that a replay can repeat, by the key of what was asked."""

from __future__ import annotations

import sqlite3

from ipyagent.schema import Outcome, Run, StopReason

TABLE = (
    """CREATE TABLE recordings (
        run_id TEXT PRIMARY KEY,
        key TEXT NOT NULL,
        prompt TEXT NOT NULL
    ) WITHOUT ROWID""",
    "CREATE INDEX recordings_by_key ON recordings (key)",
    "CREATE INDEX recordings_by_prompt ON recordings (prompt)",
)

_FEW = 5
"""The newest runs of a key that are looked at: others may have failed."""


def add(db: sqlite3.Connection, run: Run) -> None:
    """Note what a run answers, if a cell asked for it."""
    if run.asked is not None:
        row = run.id, run.asked.key, run.asked.prompt
        db.execute("INSERT OR REPLACE INTO recordings VALUES (?, ?, ?)", row)


def find_ids(db: sqlite3.Connection, column: str, value: str) -> list[str]:
    """Return the newest finished runs with that `key` or `prompt`, the newest first."""
    query = f"""SELECT runs.id FROM recordings JOIN runs ON runs.id = recordings.run_id
        WHERE recordings.{column} = ? AND runs.status = 'done'
        ORDER BY runs.updated_at DESC LIMIT {_FEW}"""  # noqa: S608 - our names
    return [row["id"] for row in db.execute(query, (value,))]


def is_whole(run: Run) -> bool:
    """Return whether a run came to its end, so that it can be repeated."""
    return run.outcome is Outcome.SUCCESS and run.stop_reason is StopReason.FINISHED
