"""Checkpoints: the contents of files before the agent changed them, for undo."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from ipyagent.digests import digest_content
from ipyagent.errors import AgentError, PathValidationError
from ipyagent.plaintext import spell
from ipyagent.schema import FileChange
from ipyagent.tools.file_change import Change
from ipyagent.tools.workspace import Workspace

_FOLDER = "checkpoints"


@dataclass
class UndoResult:
    """The result of an undo: the restored files, and why others were not restored."""

    restored: list[str] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    changes: list[FileChange] = field(default_factory=list, compare=False)
    """The changes that the undo itself made."""


class Checkpoints:
    """File contents in `.ipyagent/checkpoints/`, each under its SHA-256."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def save(self, change: Change) -> FileChange:
        """Save the content that is about to be changed; raises AgentError if that is impossible."""
        self._save_content(change.before)
        return FileChange(
            path=change.path,
            before=digest_content(change.before),
            after=digest_content(change.after),
        )

    def _save_content(self, content: bytes | None) -> None:
        """Save what a file holds, under its digest."""
        if content is not None:
            state, name = self._workspace.state_folder(), f"{_FOLDER}/{digest_content(content)}"
            if state.stat(name) is None:
                state.write_atomic(name, content)

    def undo(self, changes: Iterable[FileChange], *, dry_run: bool = False) -> UndoResult:
        """Undo changes; a file that was changed again since is left alone.

        `dry_run`: only find out what would be done.
        """
        result = UndoResult()
        for change in _merge_changes(changes):
            try:
                result.changes += self._revert(change, dry_run=dry_run)
            except AgentError as error:
                result.skipped[change.path] = str(error)
            else:
                result.restored.append(change.path)
        return result

    def are_undone(self, changes: Iterable[FileChange]) -> bool:
        """Return whether all these files hold what they did before the changes."""
        read = self._workspace.read_if_exists
        try:
            merged = _merge_changes(changes)
            return all(digest_content(read(each.path)) == each.before for each in merged)
        except AgentError:
            return False

    def _revert(self, change: FileChange, *, dry_run: bool) -> list[FileChange]:
        """Undo a change, and return the changes that this makes."""
        now = self._workspace.read_if_exists(change.path)
        if digest_content(now) == change.before:
            return []
        if digest_content(now) != change.after:
            raise PathValidationError(
                f"{spell(change.path)} has changed since, so it is left as it is"
            )
        before = self._load_content(change.before, change.path) if change.before else None
        if not dry_run:
            self._save_content(now)
            if before is not None:
                self._workspace.compare_and_swap(change.path, now, before)
            elif now is not None:
                self._workspace.delete(change.path, now)
        return [change.model_copy(update={"before": change.after, "after": change.before})]

    def _load_content(self, content: str, path: str) -> bytes:
        data = self._workspace.state_folder().read_if_exists(f"{_FOLDER}/{content}")
        if digest_content(data) != content:
            raise PathValidationError(f"what {spell(path)} held before is no longer kept")
        return data or b""


def _merge_changes(changes: Iterable[FileChange]) -> list[FileChange]:
    """Return one change for each file: the newest, merged with those it directly follows.

    Changes by others in between are not undone.
    """
    merged: dict[str, FileChange] = {}
    for change in changes:
        before = merged.get(change.path)
        follows = before is not None and before.after == change.before
        first = before.before if before and follows else change.before
        merged[change.path] = change.model_copy(update={"before": first})
    return list(merged.values())
