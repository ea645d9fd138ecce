"""Changing files: what a call would do is worked out first, shown as a diff, and then done."""

from __future__ import annotations

import difflib
import threading
from typing import Literal

from ipyagent.errors import InvalidArgumentsError, PathValidationError
from ipyagent.schema import Preview
from ipyagent.tools.base import Tool, Where, tool
from ipyagent.tools.changes import Change, digest, size_of
from ipyagent.tools.names import shown
from ipyagent.tools.reading import text_of
from ipyagent.tools.workspace import Workspace

Mode = Literal["overwrite", "append"]


class Edits:
    """The tools that change files.

    What a preview showed is remembered until the call runs: if the file has changed in between,
    the call fails, because nobody approved what it would do now.
    """

    def __init__(self, workspace: Workspace, *, allow_delete: bool) -> None:
        self._workspace = workspace
        self._allow_delete = allow_delete
        self._marks: dict[str, list[str]] = {}
        self._lock = threading.Lock()

    def tools(self) -> list[Tool]:
        """write_file, edit_file and delete_file."""
        return [
            tool(sensitive=True, where=Where.THREAD, preview=self._preview_write)(self.write_file),
            tool(sensitive=True, where=Where.THREAD, preview=self._preview_edit)(self.edit_file),
            tool(sensitive=True, where=Where.THREAD, preview=self._preview_delete)(
                self.delete_file
            ),
        ]

    def write_file(self, path: str, content: str, mode: Mode = "overwrite") -> str:
        """Write a text file, or append to it. Parent folders are made."""
        mark = self._take(digest("write", path, content, mode))
        return self._apply(self._write(path, content, mode), mark)

    def edit_file(
        self, path: str, old_string: str, new_string: str, replace_all: bool = False
    ) -> str:
        """Replace old_string, which must occur exactly once unless replace_all, by new_string.

        Copy old_string from the file without line numbers, with its indentation.
        """
        mark = self._take(digest("edit", path, old_string, new_string, replace_all))
        return self._apply(self._edit(path, old_string, new_string, replace_all), mark)

    def delete_file(self, path: str) -> str:
        """Delete a file."""
        mark = self._take(digest("delete", path))
        return self._apply(self._delete(path), mark)

    def _preview_write(self, path: str, content: str, mode: Mode) -> Preview:
        return self._show(digest("write", path, content, mode), self._write(path, content, mode))

    def _preview_edit(
        self, path: str, old_string: str, new_string: str, replace_all: bool
    ) -> Preview:
        call = digest("edit", path, old_string, new_string, replace_all)
        return self._show(call, self._edit(path, old_string, new_string, replace_all))

    def _preview_delete(self, path: str) -> Preview:
        return self._show(digest("delete", path), self._delete(path))

    def _write(self, path: str, content: str, mode: Mode) -> Change:
        path, before = self._current(path)
        after = _encoded(content)
        if mode == "append" and before is not None:
            if _is_crlf(text_of(before, path)):
                after = _encoded(_crlf(content))
            after = before + after
        done = f"{'appended to' if mode == 'append' else 'wrote'} {shown(path)}, {size_of(after)}"
        return Change(path, before, after, whole=mode == "overwrite", done=done)

    def _edit(self, path: str, old: str, new: str, replace_all: bool) -> Change:
        if not old:
            raise InvalidArgumentsError("old_string is empty; write_file makes new files")
        path, before = self._current(path)
        if before is None:
            raise PathValidationError(f"{shown(path)}: no such file; list_files shows them")
        text = text_of(before, path)
        crlf = _is_crlf(text)
        if crlf:
            text, old, new = (each.replace("\r\n", "\n") for each in (text, old, new))
        if old == new:
            raise InvalidArgumentsError("old_string and new_string are equal; nothing to do")
        rows = _rows_of(old, text)
        if not rows:
            raise InvalidArgumentsError(_not_found(path, old, text))
        if len(rows) > 1 and not replace_all:
            raise InvalidArgumentsError(
                f"old_string occurs {len(rows)} times in {shown(path)} (lines "
                f"{', '.join(map(str, rows[:10]))}); include more lines around it, or replace_all"
            )
        count = text.count(old)
        text = text.replace(old, new)
        done = f"replaced {count} occurrence{'s' * (count > 1)} in {shown(path)}"
        after = _encoded(_crlf(text) if crlf else text)
        return Change(path, before, after, whole=False, done=done)

    def _delete(self, path: str) -> Change:
        if not self._allow_delete:
            raise PathValidationError(
                "delete_file is disabled; set workspace.allow_delete=true to allow it"
            )
        path, before = self._current(path)
        if before is None:
            raise PathValidationError(f"{shown(path)}: no such file; list_files shows them")
        done = f"deleted {shown(path)}, {size_of(before)}"
        return Change(path, before, None, whole=True, done=done)

    def _current(self, path: str) -> tuple[str, bytes | None]:
        """The path from the root, and what is there, if it may be changed at all."""
        path = self._workspace.changeable(path)
        missing = self._workspace.stat(path) is None
        return path, None if missing else self._workspace.read_bytes(path)

    def _show(self, call: str, change: Change) -> Preview:
        with self._lock:
            self._marks.setdefault(call, []).append(change.mark())
        return Preview(kind="diff", language="diff", text=change.diff())

    def _take(self, call: str) -> str | None:
        """What was shown for this call, once; None if nobody was asked."""
        with self._lock:
            marks = self._marks.get(call)
            # The newest: an older one belongs to a call that was denied.
            return marks.pop() if marks else None

    def _apply(self, change: Change, mark: str | None) -> str:
        if mark is not None and mark != change.mark():
            raise PathValidationError(
                f"{shown(change.path)} has changed since it was shown; nothing was done"
            )
        if change.after is None:
            self._workspace.delete(change.path, change.before)
        else:
            self._workspace.swap(change.path, change.before, change.after)
        return change.done


def _encoded(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise InvalidArgumentsError(f"the text is not valid Unicode: {error.reason}") from None


def _is_crlf(text: str) -> bool:
    """Whether every line ends as on Windows."""
    return 0 < text.count("\n") == text.count("\r\n")


def _crlf(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\n", "\r\n")


def _rows_of(old: str, text: str) -> list[int]:
    """The lines where `old` begins, overlapping occurrences included: those are ambiguous, too."""
    rows: list[int] = []
    row, seen, start = 1, 0, text.find(old)
    while start >= 0:
        row += text.count("\n", seen, start)
        rows.append(row)
        seen, start = start, text.find(old, start + 1)
    return rows


def _not_found(path: str, old: str, text: str) -> str:
    message = f"old_string was not found in {shown(path)}"
    if old.replace("\r\n", "\n") in text.replace("\r\n", "\n"):
        return f"{message}: its line endings differ; the file mixes or uses other ones than yours"
    first = next((line for line in old.splitlines() if line.strip()), old)
    lines = [line[:200] for line in text.splitlines()[:20_000]]
    close = difflib.get_close_matches(first[:200], lines, n=3, cutoff=0.5)
    if not close:
        return f"{message}, nor anything like it; read_file shows what is there"
    nearest = "".join(f"\n{lines.index(line) + 1:>6}\t{line}" for line in close)
    return f"{message}; compare spaces and indentation. The closest lines:{nearest}"
