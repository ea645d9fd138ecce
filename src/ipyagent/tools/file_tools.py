"""Tools that read, search and change files and folders.

Each change is computed first, shown as a diff, and then applied.
"""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Annotated, Literal

from pydantic import Field

from ipyagent.digests import digest_json
from ipyagent.errors import (
    AgentError,
    InvalidArgumentsError,
    PathTraversalError,
    PathValidationError,
)
from ipyagent.globs import path_pattern
from ipyagent.plaintext import limit_lines, plural, spell
from ipyagent.schema import Preview, ToolResult
from ipyagent.tools import file_rendering, path_rules
from ipyagent.tools.base import Tool, Where, tool
from ipyagent.tools.file_change import (
    Change,
    Checkpoints,
    Previews,
    decode_file,
    detect_line_ending,
    encode_text,
    normalize_newlines,
    replace_keeping_endings,
    size_of,
)
from ipyagent.tools.file_rendering import PROBE, describe_binary, is_binary
from ipyagent.tools.path_rules import WalkBudget
from ipyagent.tools.tables import describe_table, table_ending
from ipyagent.tools.tables.sample import NotTableError
from ipyagent.tools.workspace import Workspace

WriteMode = Literal["overwrite", "append"]
MakeChange = Callable[..., Change]
"""Computes a change from the path, the current content, and a call's other arguments."""

PathCheck = Callable[[str], object]
"""Raises AgentError for a file, relative to the root, that these tools must not change."""


class FileEditTools:
    """The tools that change files.

    A preview is remembered until its call runs. If the file has changed in between, the call
    fails: nobody approved its present effect. Only an approved call runs; no tool lets a model
    approve one.
    """

    def __init__(
        self,
        workspace: Workspace,
        *,
        allow_delete: bool,
        check: PathCheck = lambda path: None,
        previews: Previews | None = None,
    ) -> None:
        self._workspace = workspace
        self._allow_delete = allow_delete
        self._check = check
        self.previews = previews or Previews()
        self._checkpoints = Checkpoints(workspace)

    def tools(self) -> Iterator[Tool]:
        """Yield write_file, edit_file and delete_file."""

        def target(path: str, **_: object) -> str:
            return self._workspace.normalize_path(path)

        for function, make, of in (
            (self.write_file, _write_change, target),
            (self.edit_file, _edit_change, target),
            # Its content may have been written elsewhere before, or not.
            (self.delete_file, _delete_change, None),
        ):
            yield tool(
                sensitive=True,
                refuse_controls=True,
                where=Where.THREAD,
                preview=partial(self._preview_change, make),
                validate=partial(self._check_call, make),
                paths=lambda path, **_: (self._workspace.normalize_path(path),),
                target=of,
                always_asks=lambda path, **_: self._workspace.write_approval_reason(path),
            )(function)

    def write_file(self, path: str, content: str, mode: WriteMode = "overwrite") -> ToolResult:
        """Write a text file or append to it; parent folders are made."""
        return self._apply_change(_write_change, path, content=content, mode=mode)

    def edit_file(
        self, path: str, old_string: str, new_string: str, replace_all: bool = False
    ) -> ToolResult:
        """Replace old_string by new_string; it must occur once unless replace_all.

        Copy it with its indentation, without line numbers.
        """
        strings = {"old_string": old_string, "new_string": new_string}
        return self._apply_change(_edit_change, path, **strings, replace_all=replace_all)

    def delete_file(self, path: str) -> ToolResult:
        """Delete a file."""
        return self._apply_change(_delete_change, path)

    def _check_call(self, make: MakeChange, path: str, **arguments: object) -> str:
        """Return the path from the root; raises AgentError for a call that can never run."""
        if arguments.get("old_string") == "":
            raise InvalidArgumentsError("old_string is empty; write_file makes new files")
        if make is _delete_change and not self._allow_delete:
            raise PathValidationError(
                "delete_file is disabled; set workspace.allow_delete=true to allow it"
            )
        path = self._workspace.writable_path(path)
        self._check(path)
        return path

    def _preview_change(self, make: MakeChange, path: str, **arguments: object) -> Preview:
        call = digest_json([make.__name__, path, arguments])
        path = self._check_call(make, path, **arguments)
        before = self._workspace.read_if_exists(path)
        change = make(path, before, **arguments)
        self.previews.add(call, before)
        return Preview(kind="diff", language="diff", text=change.diff())

    def _apply_change(self, make: MakeChange, path: str, **arguments: object) -> ToolResult:
        call = digest_json([make.__name__, path, arguments])
        path = self._check_call(make, path, **arguments)
        before = self._workspace.read_if_exists(path)
        self.previews.consume(call, path, before)
        change = make(path, before, **arguments)
        kept = self._checkpoints.save(change)
        if change.after is None:
            self._workspace.delete(path, before)
        else:
            self._workspace.compare_and_swap(path, before, change.after)
        return ToolResult(output=change.summary, files=(kept,))


def _write_change(path: str, before: bytes | None, content: str, mode: WriteMode) -> Change:
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


def _edit_change(
    path: str, before: bytes | None, old_string: str, new_string: str, replace_all: bool
) -> Change:
    if before is None:
        raise _missing_file_error(path)
    file = decode_file(before, path)
    text, old, new = map(normalize_newlines, (file.text, old_string, new_string))
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
    message = f"replaced {plural(text.count(old), 'occurrence')} in {spell(path)}"
    after = file.encode(replace_keeping_endings(file.text, old, new), path)
    return Change(path, before, after, message, file.encoding)


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


class FilePattern:
    """A glob. Without a slash it matches names, with a slash whole relative paths."""

    def __init__(self, pattern: str) -> None:
        if ".." in pattern.split("/") or pattern.startswith(("/", "~")):
            raise PathTraversalError(
                f"the pattern {spell(pattern)!r} escapes the workspace; use one relative to path"
            )
        if len(pattern) > 200 or "\0" in pattern:
            raise InvalidArgumentsError("the pattern is too long or contains a NUL character")
        self.spans_folders = "/" in pattern
        """True if it names folders, and so also matches what lies in them."""
        self._pattern = path_pattern(pattern)

    def matches(self, path: str) -> bool:
        """Return whether a relative path matches."""
        return self._pattern.match(f"{path}/") is not None


MAX_MATCHES = 200
_MAX_FILE = 5 * 1024 * 1024
_MAX_LINE = 300
_BEFORE = 100


Skips = Callable[[str, str], bool]
"""Returns whether a tool that goes through folders leaves out a file there."""


def skip_none(tool: str, path: str) -> bool:
    """Return False: no rule keeps a file back."""
    return False


def search_tools(workspace: Workspace, skips: Skips = skip_none) -> list[Tool]:
    """Return search_files for that workspace."""
    search = SearchTool(workspace, skips)
    made = tool(
        where=Where.THREAD,
        validate=search.check_arguments,
        requires=search.check_path,
        paths=lambda path, **_: (workspace.normalize_path(path),),
        source=lambda **_: "files in this folder",
    )
    return [made(search.search_files)]


class SearchTool:
    """The tool that searches."""

    def __init__(self, workspace: Workspace, skips: Skips = skip_none) -> None:
        self._workspace, self._skips = workspace, skips

    def check_arguments(self, query: str, path: str, pattern: str | None, regex: bool) -> None:
        """Raise AgentError for a search that can never run."""
        self._workspace.readable_path(path)
        _compile_query(query, regex)
        if pattern:
            FilePattern(pattern)

    def check_path(self, path: str, **_: object) -> None:
        """Raise AgentError if there is nothing to search at `path`."""
        if not self._workspace.is_file(path):
            self._workspace.check_folder(path)

    def search_files(
        self, query: str, path: str = ".", pattern: str | None = None, regex: bool = False
    ) -> str:
        """Find lines with query, or an RE2 regex, in files that fit a glob."""
        find = _compile_query(query, regex)
        glob = FilePattern(pattern) if pattern else None
        budget = WalkBudget()
        found: list[str] = []
        skipped = 0
        for name in self._find_files(path, glob, budget):
            try:
                # read_file asks about files with several names; here nobody can be asked.
                is_left_out = self._workspace.read_approval_reason(name) is not None
                is_left_out |= self._skips("search_files", name) or self._skips("read_file", name)
                data = None if is_left_out else self._workspace.read_bytes(name, _MAX_FILE)
            except AgentError:
                data = None
            lines = None if data is None else _split_lines(data, name)
            if lines is None:
                skipped += 1
                continue
            found.extend(_find_matches(name, lines, find, budget, MAX_MATCHES + 1 - len(found)))
            if len(found) > MAX_MATCHES or budget.exhausted:
                break
        return _format_report(found, skipped, budget)

    def _find_files(self, path: str, glob: FilePattern | None, budget: WalkBudget) -> Iterator[str]:
        path = self._workspace.relative_path(path)
        if self._workspace.is_file(path):
            yield path
            return
        for entry in self._workspace.walk(path, budget):
            if entry.kind == "file" and (glob is None or glob.matches(entry.path)):
                yield entry.path if path == "." else f"{path}/{entry.path}"


def _compile_query(query: str, regex: bool) -> Callable[[bytes], int]:
    """Return a function that finds the query in a line (or returns -1), in linear time."""
    if not query:
        raise InvalidArgumentsError("query is empty")
    try:
        wanted = query.encode()
        if not regex:
            return lambda line: line.find(wanted)
        import re2

        options = re2.Options()
        options.log_errors = False
        search = re2.compile(query, options=options).search
    except UnicodeEncodeError:
        raise InvalidArgumentsError("query is not valid Unicode") from None
    except re2.error as error:
        reason = error.args[0].decode() if error.args else "unknown"
        raise InvalidArgumentsError(f"query is not a valid RE2 expression: {reason}") from None
    return lambda line: match.start() if (match := search(line)) else -1


def _find_matches(
    name: str, lines: list[bytes], find: Callable[[bytes], int], budget: WalkBudget, most: int
) -> list[str]:
    hits: list[str] = []
    for number, line in enumerate(lines, 1):
        if len(hits) == most or not budget.spend(0):
            break
        at = find(line)
        if at >= 0:
            excerpt = line[max(0, at - _BEFORE) :][:_MAX_LINE].decode(errors="replace").strip()
            hits.append(f"{spell(name)}:{number}: {excerpt}")
    return hits


def _split_lines(data: bytes, name: str) -> list[bytes] | None:
    """Return the UTF-8 lines, counted as read_file does; None if it is not text."""
    try:
        text = decode_file(data, name).text
    except PathValidationError:
        if b"\0" in data[:8192]:
            return None
        text = data.decode(errors="surrogateescape")
    return normalize_newlines(text).encode(errors="surrogateescape").split(b"\n")


def _format_report(found: list[str], skipped: int, budget: WalkBudget) -> str:
    notes: list[str] = []
    if len(found) > MAX_MATCHES:
        notes.append(f"… more than {MAX_MATCHES} matches; narrow query, path or pattern")
    if budget.exhausted:
        notes.append("… stopped early, there is too much to search; narrow path or pattern")
    if skipped:
        notes.append(f"(not searched: {skipped} binary, large, linked or private files)")
    return "\n".join([*(found[:MAX_MATCHES] or ["(no matches)"]), *notes])


MAX_LINES = 500
_LINES_HINT = "(read_file with a limit shows its lines.)"


def file_tools(
    workspace: Workspace,
    *,
    allow_delete: bool,
    previews: Previews | None = None,
    check: PathCheck = lambda path: None,
    skips: Skips = skip_none,
) -> list[Tool]:
    """Return list_files, read_file, write_file, edit_file and delete_file for that workspace.

    `previews` holds what was shown until its call runs; no change is made if `check` raises.
    """
    edits = FileEditTools(workspace, allow_delete=allow_delete, previews=previews, check=check)
    return [*FileReadTools(workspace, skips).tools(), *edits.tools()]


class FileReadTools:
    """The tools that read files and folders."""

    def __init__(self, workspace: Workspace, skips: Skips = skip_none) -> None:
        self._workspace, self._skips = workspace, skips

    def tools(self) -> Iterator[Tool]:
        """Yield list_files, read_file and inspect_file."""
        named = self._workspace.normalize_path
        yield tool(
            where=Where.THREAD,
            refuse_controls=True,
            validate=self._validate_list,
            requires=lambda path, **_: self._workspace.check_folder(path),
            paths=lambda path, **_: (named(path),),
        )(self.list_files)
        for function in (self.read_file, self.inspect_file):
            yield tool(
                refuse_controls=True,
                where=Where.THREAD,
                validate=lambda path, **_: self._workspace.readable_path(path),
                requires=lambda path, **_: self._workspace.check_file(path),
                paths=lambda path, **_: (named(path),),
                source=lambda path, **_: spell(named(path)),
                always_asks=lambda path, **_: self._workspace.read_approval_reason(path),
            )(function)

    def _validate_list(self, path: str, pattern: str | None, **_: object) -> None:
        self._workspace.readable_path(path)
        if pattern:
            FilePattern(pattern)

    def list_files(
        self, path: str = ".", pattern: str | None = None, recursive: bool = False
    ) -> ToolResult:
        """List a folder with sizes; pattern is a glob like *.csv or data/**/*.py."""
        glob = FilePattern(pattern) if pattern else None
        budget = WalkBudget()
        deep = recursive or (glob is not None and glob.spans_folders)
        entries = self._workspace.walk(path, budget) if deep else self._workspace.scan(path, budget)
        # Our own state is nobody's work, so an empty workspace looks empty.
        at_root = self._workspace.relative_path(path) == self._workspace.relative_path(".")
        theirs = (each for each in entries if not at_root or each.path != path_rules.STATE)
        matching_entries = [
            each
            for each in theirs
            if (glob is None or glob.matches(each.path))
            and not self._skips("list_files", f"{path}/{each.path}")
        ]
        lines = [str(each) for each in sorted(matching_entries, key=lambda each: each.path)]
        lines = limit_lines(lines, MAX_LINES, "… and {:,} more; narrow path or pattern")
        if budget.exhausted:
            lines.append("… stopped early, the tree is large; narrow path")
        output = "\n".join(lines) or "(empty)"
        return ToolResult(output=output, value=output)

    def read_file(
        self,
        path: str,
        offset: Annotated[int, Field(ge=1)] = 1,
        limit: Annotated[int, Field(ge=1)] | None = None,
    ) -> str | ToolResult:
        """Read text (numbered lines, limit of them from offset), a notebook or an image."""
        whole = offset == 1 and limit is None
        if whole and table_ending(path) is not None:
            with contextlib.suppress(NotTableError):
                return f"{describe_table(self._workspace, path)}\n\n{_LINES_HINT}"
        with self._workspace.open_file(path) as file:
            start = file.read(PROBE)
        if is_binary(start) and not file_rendering.is_image(start):
            return describe_binary(self._workspace, path)
        data = self._workspace.read_bytes(path)
        if file_rendering.is_image(data):
            return file_rendering.render_image(data, path)
        try:
            return file_rendering.render_file(data, path, offset, limit)
        except PathValidationError:  # no text in any encoding
            return describe_binary(self._workspace, path)

    def inspect_file(self, path: str) -> str:
        """Describe a table (columns, types, nulls, rows) or a binary file."""
        problem = "inspect_file describes tables and binary files"
        if table_ending(path) is not None:
            try:
                return describe_table(self._workspace, path)
            except NotTableError as error:
                problem = f"{spell(path)} is not shown as a table: {error}"
        with self._workspace.open_file(path) as file:
            start = file.read(PROBE)
        if is_binary(start):
            return describe_binary(self._workspace, path)
        raise InvalidArgumentsError(f"{problem}; read_file shows it")
