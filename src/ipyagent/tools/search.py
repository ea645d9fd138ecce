"""Searching the text of files."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ipyagent.errors import AgentError, InvalidArgumentsError, PathValidationError
from ipyagent.tools.base import Tool, Where, tool
from ipyagent.tools.encodings import decode_file
from ipyagent.tools.entries import Budget
from ipyagent.tools.globs import Glob
from ipyagent.tools.line_ends import with_newlines
from ipyagent.tools.names import shown
from ipyagent.tools.workspace import Workspace

MAX_FOUND = 200
_MAX_FILE = 5 * 1024 * 1024
_MAX_LINE = 300
_BEFORE = 100


def search_tools(workspace: Workspace) -> list[Tool]:
    """search_files for that workspace."""
    search = Search(workspace)
    made = tool(
        where=Where.THREAD,
        validate=search.validate,
        requires=search.require,
        paths=lambda path, **_: (workspace.named(path),),
        source=lambda **_: "files in this folder",
    )
    return [made(search.search_files)]


class Search:
    """The tool that searches."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def validate(self, query: str, path: str, pattern: str | None, regex: bool) -> None:
        """Raise AgentError for a search that can never run."""
        self._workspace.readable(path)
        _finder(query, regex)
        if pattern:
            Glob(pattern)

    def require(self, path: str, **_: object) -> None:
        """Raise AgentError where nothing is to be searched."""
        if not self._workspace.is_file(path):
            self._workspace.check_folder(path)

    def search_files(
        self, query: str, path: str = ".", pattern: str | None = None, regex: bool = False
    ) -> str:
        """Find lines that contain query, or match it as an RE2 regex, in files that fit a glob."""
        find = _finder(query, regex)
        glob = Glob(pattern) if pattern else None
        budget = Budget()
        found: list[str] = []
        skipped = 0
        for name in self._files(path, glob, budget):
            try:
                # read_file asks about files with several names; here nobody can be asked.
                linked = self._workspace.linked(name) is not None
                data = b"" if linked else self._workspace.read_bytes(name, _MAX_FILE)
            except AgentError:
                skipped += 1
                continue
            lines = None if linked else _lines(data, name)
            if lines is None:
                skipped += 1
                continue
            found.extend(_hits(name, lines, find, budget, MAX_FOUND + 1 - len(found)))
            if len(found) > MAX_FOUND or budget.spent:
                break
        return _report(found, skipped, budget)

    def _files(self, path: str, glob: Glob | None, budget: Budget) -> Iterator[str]:
        path = self._workspace.relative(path)
        if self._workspace.is_file(path):
            yield path
            return
        for entry in self._workspace.walk(path, budget):
            if entry.kind == "file" and (glob is None or glob.matches(entry.path)):
                yield entry.path if path == "." else f"{path}/{entry.path}"


def _finder(query: str, regex: bool) -> Callable[[bytes], int]:
    """Where in a line the query is found, or -1; it takes linear time, whatever the query."""
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


def _hits(
    name: str, lines: list[bytes], find: Callable[[bytes], int], budget: Budget, most: int
) -> list[str]:
    hits: list[str] = []
    for number, line in enumerate(lines, 1):
        if len(hits) == most or not budget.allows(0):
            break
        at = find(line)
        if at >= 0:
            excerpt = line[max(0, at - _BEFORE) :][:_MAX_LINE].decode(errors="replace").strip()
            hits.append(f"{shown(name)}:{number}: {excerpt}")
    return hits


def _lines(data: bytes, name: str) -> list[bytes] | None:
    """The lines in UTF-8, counted as read_file does; None for what is not text."""
    try:
        text = decode_file(data, name).text
    except PathValidationError:
        if b"\0" in data[:8192]:
            return None
        text = data.decode(errors="surrogateescape")
    return with_newlines(text).encode(errors="surrogateescape").split(b"\n")


def _report(found: list[str], skipped: int, budget: Budget) -> str:
    notes: list[str] = []
    if len(found) > MAX_FOUND:
        notes.append(f"… more than {MAX_FOUND} matches; narrow query, path or pattern")
    if budget.spent:
        notes.append("… stopped early, there is too much to search; narrow path or pattern")
    if skipped:
        notes.append(f"(not searched: {skipped} binary, large, linked or private files)")
    return "\n".join([*(found[:MAX_FOUND] or ["(no matches)"]), *notes])
