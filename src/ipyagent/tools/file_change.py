"""A change of one file, its complete diff, and previews: valid for one run, that file.

Checkpoints hold the contents of files before the agent changed them, for undo.
"""

from __future__ import annotations

import difflib
import re
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import takewhile
from operator import eq
from stat import S_IMODE
from time import time

from ipyagent.digests import digest_content
from ipyagent.errors import AgentError, PathValidationError
from ipyagent.plaintext import human_size, spell
from ipyagent.schema import FileChange
from ipyagent.tools.text_encoding import (
    ENDING_NAMES,
    MIXED,
    TextFile,
    decode_file,
    detect_line_ending,
    normalize_newlines,
    split_keeping_ends,
)
from ipyagent.tools.workspace import Workspace

_CONTEXT = 3
_MAX_DIFF_LINES = 4_000  # lines; difflib's time grows with the square
_HEADER = re.compile(r"@@ -(\d+)(.*) \+(\d+)(.*) @@")


@dataclass(frozen=True)
class Change:
    """A file's content before and after; None: no file. `summary` is its message once applied."""

    path: str
    before: bytes | None
    after: bytes | None
    summary: str
    encoding: str = "utf-8"
    """The encoding of the new content: its bytes alone may be ambiguous."""

    def diff(self) -> str:
        """Return a unified diff with nothing left out."""
        before, after = _decode_if_text(self.before, self.path), self._text_after()
        if before is None or after is None:
            return self._binary_diff(after)
        name = spell(self.path)
        was, becomes = _format_differences(before, after)
        source = "/dev/null" if self.before is None else f"a/{name}{was}"
        target = "/dev/null" if self.after is None else f"b/{name}{becomes}"
        old, new = _diff_lines(before, after)
        lines = list(_diff_hunks(old, new)) or [f"(no line differs, {size_of(self.after)})\n"]
        return f"--- {source}\n+++ {target}\n" + "".join(
            _mark_missing_newline(line) for line in lines
        )

    def _text_after(self) -> TextFile | None:
        try:
            return TextFile((self.after or b"").decode(self.encoding), self.encoding)
        except UnicodeDecodeError:
            return None

    def _binary_diff(self, after: TextFile | None) -> str:
        note = f"binary file {spell(self.path)}, {size_of(self.before)}"
        if self.after is None:
            return f"{note}, would be deleted\n"
        new = split_keeping_ends(normalize_newlines(after.text)) if after else []
        return f"{note}, would be replaced by\n" + "".join(
            _mark_missing_newline(f"+{line}") for line in new
        )


def size_of(data: bytes | None) -> str:
    """Return the size of a content in words."""
    return human_size(len(data or b""))


def _decode_if_text(data: bytes | None, path: str) -> TextFile | None:
    """Return the content as text; None if it is not text."""
    try:
        return decode_file(data or b"", path)
    except PathValidationError:
        return None


def _diff_lines(before: TextFile, after: TextFile) -> tuple[list[str], list[str]]:
    """Return both sides' lines, with carriage returns if line endings are mixed or change."""
    texts = before.text, after.text
    ends = {detect_line_ending(text) for text in texts} - {""}
    if len(ends) > 1 or MIXED in ends:
        rows = [split_keeping_ends(text) for text in texts]
        old, new = ([f"{row}\n" if row[-1] == "\r" else row for row in side] for side in rows)
    else:
        old, new = (split_keeping_ends(normalize_newlines(text)) for text in texts)
    return old, new


def _format_differences(before: TextFile, after: TextFile) -> tuple[str, str]:
    """Describe encoding and line endings of each side if they differ but the lines do not."""
    names: tuple[list[str], list[str]] = [], []
    ends = detect_line_ending(before.text), detect_line_ending(after.text)
    differ = ends[0] != ends[1] and (all(ends) or not before.text)
    if differ and {*ends} & {"\r", "\r\n"}:
        for end, name in zip(ends, names, strict=True):
            name += [f"line ends {ENDING_NAMES[end]}"] if end else []
    if before.text and after.text and before.encoding != after.encoding:
        names[0].append(before.encoding)
        names[1].append(after.encoding)
    was, becomes = (f" ({', '.join(name)})" if name else "" for name in names)
    return was, becomes


def _diff_hunks(old: list[str], new: list[str]) -> Iterator[str]:
    """Yield the lines of a unified diff, computed from the first to the last difference."""
    if old == new:
        return
    head = _common_prefix(old, new)
    tail = _common_prefix(reversed(old[head:]), reversed(new[head:]))
    start = max(0, head - _CONTEXT)
    a = old[start : min(len(old), len(old) - tail + _CONTEXT)]
    b = new[start : min(len(new), len(new) - tail + _CONTEXT)]
    if max(len(a), len(b)) > _MAX_DIFF_LINES:
        yield f"@@ -{start + bool(a)},{len(a)} +{start + bool(b)},{len(b)} @@\n"
        yield from (f"-{line}" for line in a)
        yield from (f"+{line}" for line in b)
        return
    for line in list(difflib.unified_diff(a, b))[2:]:
        yield _shift_header(line, start) if line.startswith("@@") else line


def _common_prefix(one: Iterable[str], other: Iterable[str]) -> int:
    return sum(1 for _ in takewhile(bool, map(eq, one, other)))


def _shift_header(header: str, by: int) -> str:
    return _HEADER.sub(lambda m: f"@@ -{int(m[1]) + by}{m[2]} +{int(m[3]) + by}{m[4]} @@", header)


def _mark_missing_newline(line: str) -> str:
    return line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"


class Previews:
    """Previews of calls, kept in memory: calls that wait for an answer end with the kernel too."""

    def __init__(self) -> None:
        self._previews: dict[str, list[str | None]] = {}
        """The digests of the files that were shown (None: there was none), by calls."""
        self._lock = threading.Lock()

    def clear(self) -> None:
        """Forget all previews: a run begins."""
        with self._lock:
            self._previews.clear()

    def add(self, call: str, before: bytes | None) -> None:
        """Remember the preview of a call, by the digest of its arguments, and what it changes."""
        with self._lock:
            self._previews.setdefault(call, []).append(digest_content(before))

    def consume(self, call: str, path: str, current: bytes | None) -> None:
        """Use up the preview of a call; raises AgentError if the file has changed since.

        `current` is the content of the file. A call without a preview passes: nobody was asked.
        """
        with self._lock:
            shown = self._previews.get(call)
            # The newest: an older one belongs to a call that was denied.
            if not shown or shown.pop() == digest_content(current):
                return
        raise PathValidationError(
            f"{spell(path)}: changed since preview, so nothing was done; read it and call again"
        )


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
            mode=self._mode_of(change.path),
            folder=self._missing_folder(change.path),
            at=time(),
        )

    def _missing_folder(self, path: str) -> str:
        """Return the topmost folder above a path that does not exist yet; "" if all do."""
        names = path.split("/")
        above = ("/".join(names[:count]) for count in range(1, len(names)))
        return next((each for each in above if self._workspace.stat(each) is None), "")

    def _mode_of(self, path: str) -> int | None:
        status = self._workspace.stat(path)
        return status and S_IMODE(status.st_mode)

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
        result, merged = UndoResult(), _merge_changes(changes)
        for change in merged:
            try:
                result.changes += self._revert(change, dry_run=dry_run)
            except AgentError as error:
                result.skipped[change.path] = str(error)
            else:
                result.restored.append(change.path)
        for top in {each.folder for each in merged if each.folder and not dry_run}:
            for path in result.restored:
                self._workspace.remove_folders(path, top)
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
        mode = self._mode_of(change.path)
        if not dry_run:
            self._save_content(now)
            if before is not None:
                self._workspace.compare_and_swap(change.path, now, before, change.mode)
            elif now is not None:
                self._workspace.delete(change.path, now)
        back = {"before": change.after, "after": change.before, "mode": mode, "at": time()}
        return [change.model_copy(update=back)]

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
    for change in sorted(changes, key=lambda each: each.at):
        before = merged.get(change.path)
        follows = before is not None and before.after == change.before
        first = before.before if before and follows else change.before
        folder = before.folder if before and follows else change.folder
        merged[change.path] = change.model_copy(update={"before": first, "folder": folder})
    return list(merged.values())
