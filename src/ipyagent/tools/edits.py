"""Tools that change files: each change is computed first, shown as a diff, and then applied."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Literal

from ipyagent.digests import digest_json
from ipyagent.errors import InvalidArgumentsError, PathValidationError
from ipyagent.phrases import plural
from ipyagent.plaintext import spell
from ipyagent.schema import PendingEdit, Preview, ToolResult
from ipyagent.tools.base import Tool, Where, tool
from ipyagent.tools.file_change import Change, Checkpoints, Previews, size_of, with_context
from ipyagent.tools.text_encoding import (
    decode_file,
    detect_line_ending,
    encode_text,
    normalize_newlines,
    replace_keeping_endings,
)
from ipyagent.tools.workspace import Workspace

EDIT_SECONDS = 300.0

WriteMode = Literal["overwrite", "append"]
MakeChange = partial[Change]
"""Computes a change from the path and the current content; raises AgentError."""

Plan = Callable[..., MakeChange]
"""Returns how the change of a call is made; raises AgentError for one that can never run."""

PathCheck = Callable[[str], object]
"""Raises AgentError for a file, relative to the root, that these tools must not change."""


class FileEditTools:
    """The tools that change files.

    A preview is remembered until its call runs. If the file has changed in between, or the preview
    is older than `edit_seconds`, the call fails: nobody approved its present effect. Only an
    approved call runs; no tool lets a model approve one.
    """

    def __init__(
        self,
        workspace: Workspace,
        *,
        allow_delete: bool,
        edit_seconds: float = EDIT_SECONDS,
        check: PathCheck = lambda path: None,
        previews: Previews | None = None,
    ) -> None:
        self._workspace = workspace
        self._allow_delete = allow_delete
        self._check = check
        self.previews = previews or Previews(edit_seconds)
        self._checkpoints = Checkpoints(workspace)

    def tools(self) -> Iterator[Tool]:
        """Yield write_file, edit_file and delete_file."""
        for function, plan in (
            (self.write_file, self._plan_write),
            (self.edit_file, self._plan_edit),
            (self.delete_file, self._plan_delete),
        ):
            yield tool(
                sensitive=True,
                refuse_controls=True,
                where=Where.THREAD,
                preview=partial(self._preview_change, plan),
                validate=partial(self._validate_change, plan),
                paths=lambda path, **_: (self._workspace.normalize_path(path),),
                always_asks=lambda path, **_: self._workspace.write_approval_reason(path),
            )(function)

    def write_file(self, path: str, content: str, mode: WriteMode = "overwrite") -> ToolResult:
        """Write a text file or append to it; parent folders are made."""
        return self._apply_change(path, self._plan_write(content, mode))

    def edit_file(
        self, path: str, old_string: str, new_string: str, replace_all: bool = False
    ) -> ToolResult:
        """Replace old_string by new_string; it must occur once unless replace_all.

        Copy it with its indentation, without line numbers.
        """
        return self._apply_change(path, self._plan_edit(old_string, new_string, replace_all))

    def delete_file(self, path: str) -> ToolResult:
        """Delete a file."""
        return self._apply_change(path, self._plan_delete())

    def _plan_write(self, content: str, mode: WriteMode) -> MakeChange:
        return partial(_write_change, content, mode)

    def _plan_edit(self, old_string: str, new_string: str, replace_all: bool) -> MakeChange:
        if not old_string:
            raise InvalidArgumentsError("old_string is empty; write_file makes new files")
        return partial(_edit_change, old_string, new_string, replace_all)

    def _plan_delete(self) -> MakeChange:
        if not self._allow_delete:
            raise PathValidationError(
                "delete_file is disabled; set workspace.allow_delete=true to allow it"
            )
        return partial(_delete_change)

    def _read_current(self, path: str) -> tuple[str, bytes | None]:
        """Return the path from the root and the current content; raises if unchangeable."""
        path = self._editable_path(path)
        return path, self._workspace.read_if_exists(path)

    def _editable_path(self, path: str) -> str:
        """Return the path from the root; raises AgentError if it must not be changed."""
        path = self._workspace.writable_path(path)
        self._check(path)
        return path

    def _validate_change(self, plan: Plan, path: str, **arguments: object) -> None:
        plan(**arguments)
        self._editable_path(path)

    def _preview_change(self, plan: Plan, path: str, **arguments: object) -> Preview:
        make = plan(**arguments)
        change = make(*self._read_current(path))
        self.previews.add(_digest_call(path, make), change)
        return Preview(kind="diff", language="diff", text=change.diff())

    def _apply_change(self, path: str, make: MakeChange) -> ToolResult:
        call, (path, before) = _digest_call(path, make), self._read_current(path)
        self.previews.consume(call, path, before)
        change = make(path, before)
        kept = self._checkpoints.save(change)
        if change.after is None:
            self._workspace.delete(path, before)
        else:
            self._workspace.compare_and_swap(path, before, change.after)
        return ToolResult(output=change.summary, files=(kept,))


def _digest_call(path: str, make: MakeChange) -> str:
    """Return a digest of a call: its tool's way to make a change, and its arguments."""
    return digest_json([make.func.__name__, path, *make.args])


def _write_change(content: str, mode: WriteMode, path: str, before: bytes | None) -> Change:
    if mode == "append" and before is not None:
        return _append_change(content, path, before)
    after = encode_text(content)
    return Change(path, before, after, f"wrote {spell(path)}, {size_of(after)}")


def _append_change(content: str, path: str, before: bytes) -> Change:
    """Return the change that appends to a file, in its own encoding and with its line endings."""
    file = decode_file(before, path)
    ends = detect_line_ending(file.text)
    if ends in ("\r\n", "\r"):
        content = normalize_newlines(content).replace("\n", ends)
    after = before + file.encode(content, path)
    message = f"appended to {spell(path)}, {size_of(after)}"
    return Change(path, before, after, message, encoding=file.encoding)


def _edit_change(old: str, new: str, replace_all: bool, path: str, before: bytes | None) -> Change:
    if before is None:
        raise _missing_file_error(path)
    file = decode_file(before, path)
    text, old, new = map(normalize_newlines, (file.text, old, new))
    if old == new:
        raise InvalidArgumentsError("old_string and new_string are equal; nothing to do")
    rows = _match_lines(old, text)
    if not rows:
        raise InvalidArgumentsError(_not_found_message(path, old, text))
    if len(rows) > 1 and not replace_all:
        raise InvalidArgumentsError(
            f"old_string occurs {len(rows)} times in {spell(path)} (lines "
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
    message = f"replaced {plural(count, 'occurrence')} in {spell(path)}"
    after = file.encode(replace_keeping_endings(file.text, old, new), path)
    return Change(path, before, after, message, with_context(edit, text), file.encoding)


def _delete_change(path: str, before: bytes | None) -> Change:
    if before is None:
        raise _missing_file_error(path)
    return Change(path, before, None, f"deleted {spell(path)}, {size_of(before)}")


def _missing_file_error(path: str) -> PathValidationError:
    return PathValidationError(f"{spell(path)}: no such file").advise("(list_files shows them.)")


def _match_lines(old: str, text: str) -> list[int]:
    """Return the lines where `old` begins; overlapping matches are ambiguous too."""
    rows: list[int] = []
    row, seen, start = 1, 0, text.find(old)
    while start >= 0:
        row += text.count("\n", seen, start)
        rows.append(row)
        seen, start = start, text.find(old, start + 1)
    return rows


def _not_found_message(path: str, old: str, text: str) -> str:
    message = f"old_string was not found in {spell(path)}"
    first = next((line for line in old.split("\n") if line.strip()), old)
    lines = [line[:200] for line in text.split("\n")[:20_000]]
    close = difflib.get_close_matches(first[:200], lines, n=3, cutoff=0.5)
    if not close:
        return f"{message}, nor anything like it; read_file shows what is there"
    nearest = "".join(f"\n{lines.index(line) + 1:>6}\t{line}" for line in close)
    return f"{message}; compare spaces and indentation. The closest lines:{nearest}"
