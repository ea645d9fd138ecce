"""The answers to single items, by the digest of what was asked: none is paid for twice."""

from __future__ import annotations

import threading
from pathlib import Path

from ipyagent.store.database import explain_errors, open_file, share


class AnswerStore:
    """Answers in a file, or in memory; raises JournalError."""

    def __init__(self, path: Path | None) -> None:
        self._path, self._lock = path, threading.Lock()
        self._db = open_file(path)
        with explain_errors(path):
            share(self._db, path, "NORMAL")  # after a power cut the last ones may be asked again
            self._db.execute(
                "CREATE TABLE IF NOT EXISTS answers (key TEXT PRIMARY KEY, text TEXT NOT NULL, "
                "cost_usd REAL, run_id TEXT NOT NULL) WITHOUT ROWID"
            )

    def find(self, key: str) -> tuple[str, float | None, str] | None:
        """Return the text of an answer, its cost, and its run; None if it is not here."""
        with self._lock, explain_errors(self._path):
            query = "SELECT text, cost_usd, run_id FROM answers WHERE key = ?"
            row: tuple[str, float | None, str] | None
            row = self._db.execute(query, (key,)).fetchone()
            return row

    def add(self, key: str, text: str, cost_usd: float | None, run_id: str) -> None:
        """Keep an answer."""
        with self._lock, explain_errors(self._path):
            query = "INSERT OR REPLACE INTO answers VALUES (?, ?, ?, ?)"
            self._db.execute(query, (key, text, cost_usd, run_id))

    def close(self) -> None:
        """Close the file."""
        self._db.close()
