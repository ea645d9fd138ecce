"""The runs in the journal that a replay can repeat, by the key of what was asked."""

from __future__ import annotations

from ipyagent.schema import Outcome, Run, StopReason
from ipyagent.store.tables import Database


def add(db: Database, run: Run) -> None:
    """Note what a run answers, if a cell asked for it."""
    if run.asked is not None:
        row = run.id, run.asked.key, run.asked.prompt, run.cell_id
        db.execute(
            "INSERT INTO recordings VALUES (?, ?, ?, ?) ON CONFLICT (run_id) DO UPDATE"
            " SET key = excluded.key, prompt = excluded.prompt, cell = excluded.cell",
            row,
        )


def remove(db: Database, run_id: str) -> None:
    """Forget a run that ended early: it would hide older ones that can be repeated."""
    db.execute("DELETE FROM recordings WHERE run_id = ?", (run_id,))


_NEWEST = """SELECT runs.id FROM recordings JOIN runs ON runs.id = recordings.run_id
    WHERE runs.status = 'done' AND {} runs.updated_at DESC LIMIT 5"""
"""The newest few: some of them may have ended early."""


def find_ids(db: Database, key: str, cell: str | None) -> list[str]:
    """Return the newest finished runs of a cell with that key, the newest first."""
    # Not every front end names its cells.
    fits = "key = :key AND coalesce(:cell, cell, '') = coalesce(cell, :cell, '') ORDER BY"
    rows = db.execute(_NEWEST.format(fits), {"key": key, "cell": cell})
    return [row["id"] for row in rows]


def find_nearest_ids(db: Database, prompt: str) -> list[str]:
    """Return the newest finished runs, first those with that prompt."""
    rows = db.execute(_NEWEST.format("true ORDER BY recordings.prompt = ? DESC,"), (prompt,))
    return [row["id"] for row in rows]


def is_whole(run: Run) -> bool:
    """Return whether a run came to its end, so that it can be repeated."""
    return run.outcome is Outcome.SUCCESS and run.stop_reason is StopReason.FINISHED
