"""Changing files: what a call would do is worked out first, shown as a diff, and then done."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Literal

from ipyagent.errors import InvalidArgumentsError, PathValidationError
from ipyagent.schema import PendingEdit, Preview, ToolResult
from ipyagent.tools.base import Tool, Where, tool
from ipyagent.tools.changes import Change, size_of
from ipyagent.tools.checkpoints import Checkpoints
from ipyagent.tools.encodings import decode_file
from ipyagent.tools.line_ends import line_ends, replace_text, with_newlines
from ipyagent.tools.names import shown
from ipyagent.tools.pending import Pending, digest, located
from ipyagent.tools.workspace import Workspace

EDIT_SECONDS = 300.0

Mode = Literal["overwrite", "append"]
Make = Callable[[str, bytes | None], Change]
"""Works out a change from the path and what is there; raises AgentError."""

Check = Callable[[str], object]
"""Raises AgentError for a file, named from the root, that must not be changed as one."""


class Edits:
    """The tools that change files.

    What a preview showed is remembered until the call runs: if the file has changed in between, or
    the preview is older than `edit_seconds`, the call fails, because nobody approved what it would
    do now. Only an approved call runs; there is no tool by which a model could approve one.
    """

    def __init__(
        self,
        workspace: Workspace,
        *,
        allow_delete: bool,
        edit_seconds: float = EDIT_SECONDS,
        check: Check = lambda path: None,
    ) -> None:
        self._workspace = workspace
        self._allow_delete = allow_delete
        self._check = check
        self.pending = Pending(edit_seconds)
        self._checkpoints = Checkpoints(workspace)

    def tools(self) -> Iterator[Tool]:
        """write_file, edit_file and delete_file."""
        for function, preview, validate in (
            (self.write_file, self._preview_write, self._target),
            (self.edit_file, self._preview_edit, self._validate_edit),
            (self.delete_file, self._preview_delete, self._validate_delete),
        ):
            yield tool(
                sensitive=True,
                refuse_controls=True,
                where=Where.THREAD,
                preview=preview,
                validate=validate,
                paths=lambda path, **_: (self._workspace.named(path),),
                always_asks=lambda path, **_: self._workspace.guarded(path),
            )(function)

    def write_file(self, path: str, content: str, mode: Mode = "overwrite") -> ToolResult:
        """Write a text file, or append to it. Parent folders are made."""
        return self._run(digest("write", path, content, mode), path, _writing(content, mode))

    def edit_file(
        self, path: str, old_string: str, new_string: str, replace_all: bool = False
    ) -> ToolResult:
        """Replace old_string, which must occur exactly once unless replace_all, by new_string.

        Copy old_string from the file without line numbers, with its indentation.
        """
        call = digest("edit", path, old_string, new_string, replace_all)
        return self._run(call, path, _editing(old_string, new_string, replace_all))

    def delete_file(self, path: str) -> ToolResult:
        """Delete a file."""
        self._check_delete()
        return self._run(digest("delete", path), path, _deleted)

    def _preview_write(self, path: str, content: str, mode: Mode) -> Preview:
        return self._show(digest("write", path, content, mode), path, _writing(content, mode))

    def _preview_edit(
        self, path: str, old_string: str, new_string: str, replace_all: bool
    ) -> Preview:
        call = digest("edit", path, old_string, new_string, replace_all)
        return self._show(call, path, _editing(old_string, new_string, replace_all))

    def _preview_delete(self, path: str) -> Preview:
        self._check_delete()
        return self._show(digest("delete", path), path, _deleted)

    def _check_delete(self) -> None:
        if not self._allow_delete:
            raise PathValidationError(
                "delete_file is disabled; set workspace.allow_delete=true to allow it"
            )

    def _current(self, path: str) -> tuple[str, bytes | None]:
        """The path from the root, and what is there, if it may be changed at all."""
        path = self._target(path)
        return path, self._workspace.content(path)

    def _target(self, path: str, **_: object) -> str:
        """Return the path from the root, if it may be changed at all; raises AgentError."""
        path = self._workspace.changeable(path)
        self._check(path)
        return path

    def _validate_edit(
        self, path: str, old_string: str, new_string: str, replace_all: bool
    ) -> None:
        _editing(old_string, new_string, replace_all)
        self._target(path)

    def _validate_delete(self, path: str) -> None:
        self._check_delete()
        self._target(path)

    def _show(self, call: str, path: str, make: Make) -> Preview:
        change = make(*self._current(path))
        self.pending.add(call, change)
        return Preview(kind="diff", language="diff", text=change.diff())

    def _run(self, call: str, path: str, make: Make) -> ToolResult:
        path, before = self._current(path)
        self.pending.take(call, path, before)
        change = make(path, before)
        kept = self._checkpoints.keep(change)
        if change.after is None:
            self._workspace.delete(path, before)
        else:
            self._workspace.swap(path, before, change.after)
        return ToolResult(output=change.done, files=(kept,))


def _writing(content: str, mode: Mode) -> Make:
    return partial(_written, content, mode)


def _written(content: str, mode: Mode, path: str, before: bytes | None) -> Change:
    if mode == "append" and before is not None:
        return _appended(content, path, before)
    after = _encoded(content)
    return Change(path, before, after, f"wrote {shown(path)}, {size_of(after)}")


def _appended(content: str, path: str, before: bytes) -> Change:
    """The file with more at its end, in its own encoding and with its own line ends."""
    file = decode_file(before, path)
    ends = line_ends(file.text)
    if ends in ("\r\n", "\r"):
        content = with_newlines(content).replace("\n", ends)
    after = before + file.encoded(content, path)
    done = f"appended to {shown(path)}, {size_of(after)}"
    return Change(path, before, after, done, encoding=file.encoding)


def _editing(old: str, new: str, replace_all: bool) -> Make:
    if not old:
        raise InvalidArgumentsError("old_string is empty; write_file makes new files")
    return partial(_edited, old, new, replace_all)


def _edited(old: str, new: str, replace_all: bool, path: str, before: bytes | None) -> Change:
    if before is None:
        raise _missing(path)
    file = decode_file(before, path)
    text, old, new = map(with_newlines, (file.text, old, new))
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
    edit = PendingEdit(
        file_path=path,
        old_string=old,
        new_string=new,
        match_line=rows[0],
        replace_all=replace_all,
        match_count=count,
    )
    done = f"replaced {count} occurrence{'s' * (count > 1)} in {shown(path)}"
    after = file.encoded(replace_text(file.text, old, new), path)
    return Change(path, before, after, done, located(edit, text), file.encoding)


def _deleted(path: str, before: bytes | None) -> Change:
    if before is None:
        raise _missing(path)
    return Change(path, before, None, f"deleted {shown(path)}, {size_of(before)}")


def _missing(path: str) -> PathValidationError:
    return PathValidationError(f"{shown(path)}: no such file").advise("(list_files shows them.)")


def _encoded(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise InvalidArgumentsError(f"the text is not valid Unicode: {error.reason}") from None


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
    first = next((line for line in old.split("\n") if line.strip()), old)
    lines = [line[:200] for line in text.split("\n")[:20_000]]
    close = difflib.get_close_matches(first[:200], lines, n=3, cutoff=0.5)
    if not close:
        return f"{message}, nor anything like it; read_file shows what is there"
    nearest = "".join(f"\n{lines.index(line) + 1:>6}\t{line}" for line in close)
    return f"{message}; compare spaces and indentation. The closest lines:{nearest}"
