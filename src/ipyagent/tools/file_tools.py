"""Tools that read files and folders; `edits` changes them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Annotated

from pydantic import Field

from ipyagent.errors import InvalidArgumentsError, PathValidationError
from ipyagent.kernel.prose import is_prose
from ipyagent.phrases import limit_lines
from ipyagent.plaintext import spell
from ipyagent.schema import ToolResult
from ipyagent.tools import file_rendering, path_rules
from ipyagent.tools.base import Tool, Where, tool
from ipyagent.tools.binary_files import PROBE, describe_binary, is_binary
from ipyagent.tools.edits import FileEditTools, PathCheck
from ipyagent.tools.file_change import Previews
from ipyagent.tools.path_rules import WalkBudget
from ipyagent.tools.search import FilePattern
from ipyagent.tools.tables.inspect import describe_table, table_ending
from ipyagent.tools.tables.sample import NotTableError
from ipyagent.tools.tracked_namespace import with_sources
from ipyagent.tools.workspace import Workspace

MAX_LINES = 500
_LINES_HINT = "(read_file with a limit shows its lines.)"


def file_tools(
    workspace: Workspace,
    *,
    allow_delete: bool,
    previews: Previews | None = None,
    check: PathCheck = lambda path: None,
) -> list[Tool]:
    """Return list_files, read_file, write_file, edit_file and delete_file for that workspace.

    `previews` holds what was shown until its call runs; no change is made if `check` raises.
    """
    edits = FileEditTools(workspace, allow_delete=allow_delete, previews=previews, check=check)
    return [*FileReadTools(workspace).tools(), *edits.tools()]


class FileReadTools:
    """The tools that read files and folders."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

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
        matching_entries = [each for each in theirs if glob is None or glob.matches(each.path)]
        lines = [str(each) for each in sorted(matching_entries, key=lambda each: each.path)]
        lines = limit_lines(lines, MAX_LINES, "… and {:,} more; narrow path or pattern")
        if budget.exhausted:
            lines.append("… stopped early, the tree is large; narrow path")
        names_of = (
            ["names of files"] if any(is_prose(each.path) for each in matching_entries) else []
        )
        output = "\n".join(lines) or "(empty)"
        return with_sources(ToolResult(output=output, value=output), names_of)

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
