"""Tools that read and search files and folders; `edits` changes them.

Of binary files they tell kind and size, and the contents of zip archives.
"""

from __future__ import annotations

import contextlib
import mimetypes
import struct
import zipfile
from collections.abc import Callable, Iterator
from typing import Annotated, BinaryIO

from pydantic import Field

from ipyagent.errors import (
    AgentError,
    InvalidArgumentsError,
    PathTraversalError,
    PathValidationError,
)
from ipyagent.globs import path_pattern
from ipyagent.phrases import human_size, limit_lines
from ipyagent.plaintext import spell
from ipyagent.schema import ToolResult
from ipyagent.tools import file_rendering, path_rules
from ipyagent.tools.base import Tool, Where, tool
from ipyagent.tools.edits import FileEditTools, PathCheck
from ipyagent.tools.file_change import Previews
from ipyagent.tools.path_rules import WalkBudget
from ipyagent.tools.tables.inspect import describe_table, table_ending
from ipyagent.tools.tables.sample import NotTableError
from ipyagent.tools.text_encoding import decode_file, normalize_newlines
from ipyagent.tools.workspace import Workspace


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


def search_tools(workspace: Workspace) -> list[Tool]:
    """Return search_files for that workspace."""
    search = SearchTool(workspace)
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

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

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
        """Find lines that contain query, or match it as an RE2 regex, in files that fit a glob."""
        find = _compile_query(query, regex)
        glob = FilePattern(pattern) if pattern else None
        budget = WalkBudget()
        found: list[str] = []
        skipped = 0
        for name in self._find_files(path, glob, budget):
            try:
                # read_file asks about files with several names; here nobody can be asked.
                linked = self._workspace.read_approval_reason(name) is not None
                data = b"" if linked else self._workspace.read_bytes(name, _MAX_FILE)
            except AgentError:
                skipped += 1
                continue
            lines = None if linked else _split_lines(data, name)
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


_MEMBERS = 100
_DIRECTORY = 2_000_000
"""Bytes of the longest list of contents that is read."""
_OLD_OFFICE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
PROBE = 8192
"""Bytes by which a file is known to be binary."""
_KINDS: tuple[tuple[bytes, str], ...] = (
    (b"PK\3\4", "zip archive"),
    (b"PK\5\6", "empty zip archive"),
    (b"\x1f\x8b", "gzip file"),
    (b"BZh", "bzip2 file"),
    (b"\xfd7zXZ\0", "xz file"),
    (b"\x28\xb5\x2f\xfd", "Zstandard file"),
    (b"7z\xbc\xaf\x27\x1c", "7-Zip archive"),
    (b"%PDF-", "PDF document"),
    (b"SQLite format 3\0", "SQLite database"),
    (b"PAR1", "Parquet file"),
    (b"ARROW1", "Arrow file"),
    (b"\x89HDF\r\n\x1a\n", "HDF5 file"),
    (b"CDF", "NetCDF file"),
    (b"\x93NUMPY", "NumPy array"),
    (b"Obj\1", "Avro file"),
    (_OLD_OFFICE, "old or encrypted Microsoft Office document"),
    (b"\x7fELF", "Linux program or library"),
    (b"MZ", "Windows program"),
    (b"II*\0", "TIFF image"),
    (b"MM\0*", "TIFF image"),
    (b"BM", "BMP image"),
    (b"OggS", "Ogg media"),
    (b"ID3", "MP3 audio"),
    (b"fLaC", "FLAC audio"),
    (b"\x80\4", "Python pickle"),
    (b"\x80\5", "Python pickle"),
)


def is_binary(data: bytes) -> bool:
    """Return whether a file that starts like this is binary, UTF-16 and UTF-32 apart."""
    start = data[:PROBE]
    if start.startswith((b"\xff\xfe", b"\xfe\xff", b"\0\0\xfe\xff")):
        return False
    if any(start.startswith(magic) for magic, _ in _KINDS if len(magic) > 2):
        return not start.startswith(b"CDF") or b"\0" in start
    if start.startswith(b"\x1f\x8b") or _is_tar(start):
        return True
    zeros = start[::2].count(0), start[1::2].count(0)
    # Text of 16-bit characters has its zeros on one side.
    return sum(zeros) > 0 and (min(zeros) > 0 or max(zeros) < len(start) // 8)


def _is_tar(start: bytes) -> bool:
    return start[257:262] == b"ustar"


def describe_binary(workspace: Workspace, path: str) -> str:
    """Describe a binary file: as a table if it holds one, else by its kind and contents."""
    problem = ""
    if table_ending(path) is not None:
        try:
            return describe_table(workspace, path)
        except NotTableError as error:
            problem = f"; not shown as a table: {error}"
    with workspace.open_file(path) as file:
        start = file.read(PROBE)
        size = file.seek(0, 2)
        summary = f"{spell(path)}: {_name_kind(start, path)}, {human_size(size)}{problem}"
        try:
            members = limit_lines([*_list_members(file, size, start)], _MEMBERS, "  … and more")
        except NotTableError as error:
            members = [f"(its contents cannot be listed: {error})"]
    return "\n".join([summary, *members] if members else [f"{summary}; open it with code"])


def _name_kind(start: bytes, path: str) -> str:
    if _is_tar(start):
        return "tar archive"
    named = next((name for magic, name in _KINDS if start.startswith(magic)), None)
    guessed = mimetypes.guess_type(path)[0]
    return f"binary file ({guessed or 'unknown type'})" if named is None else named


def _open_archive(file: BinaryIO, size: int) -> zipfile.ZipFile:
    """Return a zip archive whose list of contents is not too long; raises NotTableError."""
    file.seek(max(0, size - 65_557))
    tail = file.read(65_557)
    at = tail.rfind(b"PK\5\6")
    if at < 0 or len(tail) < at + 22:
        file.seek(0)
        if file.read(len(_OLD_OFFICE)) == _OLD_OFFICE:
            raise NotTableError("it is protected by a password, or an .xls under another name")
        raise NotTableError("it is no zip archive, or is damaged")
    (directory,) = struct.unpack_from("<I", tail, at + 12)
    if directory > _DIRECTORY:
        raise NotTableError("it holds too many files to list")
    try:
        return zipfile.ZipFile(file)
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
        raise NotTableError(f"it is damaged: {error}") from None


def _list_members(file: BinaryIO, size: int, start: bytes) -> Iterator[str]:
    """Yield the members of a zip archive."""
    if start.startswith((b"PK\3\4", b"PK\5\6")):
        with _open_archive(file, size) as archive:
            entries = archive.infolist()
        yield f"{len(entries):,} files and folders:"
        for each in entries[: _MEMBERS + 1]:
            yield f"  {spell(each.filename)}  {human_size(each.file_size)}"


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
