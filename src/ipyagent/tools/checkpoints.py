"""What files held before the agent changed them, and how a run's changes are taken back."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field

from ipyagent.errors import AgentError, PathValidationError
from ipyagent.schema import FileChange
from ipyagent.tools.changes import Change
from ipyagent.tools.names import shown
from ipyagent.tools.workspace import Workspace

_FOLDER = "checkpoints"


@dataclass
class Undone:
    """What became of an undo: the files that are as they were, and why others are not."""

    restored: list[str] = field(default_factory=list)
    left: dict[str, str] = field(default_factory=dict)


class Checkpoints:
    """Contents in `.ipyagent/checkpoints/`, each under its SHA-256."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def keep(self, change: Change) -> FileChange:
        """Keep what is there, before it is changed; raises AgentError where that is impossible."""
        if change.before is not None:
            state, name = self._workspace.state(), f"{_FOLDER}/{_hash(change.before)}"
            if state.stat(name) is None:
                state.write_atomic(name, change.before)
        return FileChange(path=change.path, before=_hash(change.before), after=_hash(change.after))

    def undo(self, changes: Iterable[FileChange]) -> Undone:
        """Take changes back; a file that somebody has changed since is left as it is."""
        done = Undone()
        for change in _as_one(changes):
            try:
                self._take_back(change)
            except AgentError as error:
                done.left[change.path] = str(error)
            else:
                done.restored.append(change.path)
        return done

    def _take_back(self, change: FileChange) -> None:
        now = self._workspace.content(change.path)
        if _hash(now) == change.before:
            return
        if _hash(now) != change.after:
            raise PathValidationError(
                f"{shown(change.path)} has changed since, so it is left as it is"
            )
        if change.before is not None:
            self._workspace.swap(change.path, now, self._kept(change.before, change.path))
        elif now is not None:
            self._workspace.delete(change.path, now)

    def _kept(self, content: str, path: str) -> bytes:
        data = self._workspace.state().content(f"{_FOLDER}/{content}")
        if _hash(data) != content:
            raise PathValidationError(f"what {shown(path)} held before is no longer kept")
        return data or b""


def _as_one(changes: Iterable[FileChange]) -> list[FileChange]:
    """One change for each file: the newest, with those that it follows directly.

    What somebody else did between two changes is not ours to take back.
    """
    merged: dict[str, FileChange] = {}
    for change in changes:
        before = merged.get(change.path)
        follows = before is not None and before.after == change.before
        first = before.before if before and follows else change.before
        merged[change.path] = change.model_copy(update={"before": first})
    return list(merged.values())


def _hash(data: bytes | None) -> str | None:
    return None if data is None else hashlib.sha256(data).hexdigest()
