"""Search in the text of files, and patterns of their paths."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ipyagent.errors import (
    AgentError,
    InvalidArgumentsError,
    PathTraversalError,
    PathValidationError,
)
from ipyagent.globs import path_pattern
from ipyagent.plaintext import spell
from ipyagent.tools.base import Tool, Where, tool
from ipyagent.tools.path_rules import WalkBudget
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
