"""Reading files and folders; `edits` changes them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field

from ipyagent.kernel.prose import is_prose
from ipyagent.schema import ToolResult
from ipyagent.tools import names, reading
from ipyagent.tools.base import Tool, Where, tool
from ipyagent.tools.edits import EDIT_SECONDS, Check, Edits
from ipyagent.tools.entries import Budget
from ipyagent.tools.globs import Glob
from ipyagent.tools.names import shown
from ipyagent.tools.sourced import with_sources
from ipyagent.tools.workspace import Workspace

MAX_LISTED = 500


def file_tools(
    workspace: Workspace,
    *,
    allow_delete: bool,
    edit_seconds: float = EDIT_SECONDS,
    check: Check = lambda path: None,
) -> list[Tool]:
    """list_files, read_file, write_file, edit_file and delete_file for that workspace.

    A change runs at most `edit_seconds` after it was shown, and never where `check` raises.
    """
    edits = Edits(workspace, allow_delete=allow_delete, edit_seconds=edit_seconds, check=check)
    return [*Files(workspace).tools(), *edits.tools()]


class Files:
    """The tools that look at files."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def tools(self) -> Iterator[Tool]:
        """list_files and read_file."""
        named = self._workspace.named
        yield tool(
            where=Where.THREAD,
            refuse_controls=True,
            validate=self._validate_list,
            requires=lambda path, **_: self._workspace.check_folder(path),
            paths=lambda path, **_: (named(path),),
        )(self.list_files)
        yield tool(
            refuse_controls=True,
            where=Where.THREAD,
            validate=lambda path, **_: self._workspace.readable(path),
            requires=lambda path, **_: self._workspace.check_file(path),
            paths=lambda path, **_: (named(path),),
            source=lambda path, **_: shown(named(path)),
            always_asks=lambda path, **_: self._workspace.linked(path),
        )(self.read_file)

    def _validate_list(self, path: str, pattern: str | None, **_: object) -> None:
        self._workspace.readable(path)
        if pattern:
            Glob(pattern)

    def list_files(
        self, path: str = ".", pattern: str | None = None, recursive: bool = False
    ) -> ToolResult:
        """List a folder with sizes; pattern is a glob such as *.csv or data/**/*.py."""
        glob = Glob(pattern) if pattern else None
        budget = Budget()
        deep = recursive or (glob is not None and glob.deep)
        entries = self._workspace.walk(path, budget) if deep else self._workspace.scan(path, budget)
        # Our own state is no part of anybody's work, so an empty workspace looks empty.
        at_root = self._workspace.relative(path) == self._workspace.relative(".")
        theirs = (each for each in entries if not at_root or each.path != names.STATE)
        found = [each for each in theirs if glob is None or glob.matches(each.path)]
        lines = [str(each) for each in sorted(found, key=lambda each: each.path)[:MAX_LISTED]]
        if len(found) > MAX_LISTED:
            lines.append(f"… and {len(found) - MAX_LISTED:,} more; narrow path or pattern")
        if budget.spent:
            lines.append("… stopped early, the tree is large; narrow path")
        names_of = ["names of files"] if any(is_prose(each.path) for each in found) else []
        output = "\n".join(lines) or "(empty)"
        return with_sources(ToolResult(output=output, value=output), names_of)

    def read_file(
        self,
        path: str,
        offset: Annotated[int, Field(ge=1)] = 1,
        limit: Annotated[int, Field(ge=1)] | None = None,
    ) -> str | ToolResult:
        """Read text (numbered lines, limit of them from offset), a notebook or an image."""
        data = self._workspace.read_bytes(path)
        if reading.is_image(data):
            return reading.image_result(data, path)
        return reading.file_page(data, path, offset, limit)
