"""Descriptions of tables in files, and the files that a prompt names.

A file is described by the library that will load it: the reader loads its first rows, and what is
described is the frame. Databases of SQLite are read here, by the standard library.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, TimeoutError as NotReadyError

from ipyagent.errors import PathValidationError
from ipyagent.json_types import JsonDict
from ipyagent.plaintext import human_size, spell
from ipyagent.tools import path_rules
from ipyagent.tools.file_change import decode_file
from ipyagent.tools.path_rules import Entry
from ipyagent.tools.tables import sample
from ipyagent.tools.tables.reader import TableReader
from ipyagent.tools.workspace import Workspace
from ipyagent.values.describe.table import write_lines

MOST_BYTES = 1_500
"""Bytes of the description that goes with a prompt."""
PROMPT_SECONDS, FACTS_SECONDS = 1.0, 20.0
"""Seconds that a prompt waits for a description, also for a client that needs the facts."""
_LINE_BYTES = 500
_LINES = 3
_START = 4_096

table_reader = TableReader()


def table_ending(path: str) -> str | None:
    """Return the ending by which a file is read as a table; None for other files."""
    packing, ending = sample.split_ending(path)
    return ".".join(filter(None, (ending, packing))) or None


def list_tables(files: Iterable[Entry]) -> list[str]:
    """Return the paths of those files that are tables by their names."""
    return [
        entry.path
        for entry in files
        if table_ending(entry.path) is not None and not path_rules.is_sensitive(entry.path)
    ]


def describe_table(
    workspace: Workspace, path: str, limit: int | None = None, wait: float | None = None
) -> str:
    """Describe the table in a file, in at most `limit` bytes if there is one.

    With `wait`, what is not ready after so many seconds, or is read by no library here, is
    described by its first lines. Raises NotTableError, and AgentError if it cannot be read.
    """
    start = f"{spell(path)}: "
    try:
        samples = sample_table(workspace, path).result(wait)
    except (NotReadyError, sample.UnreadTableError) as error:
        beginning = "" if wait is None else _describe_start(workspace, path, error)
        if beginning:
            return start + beginning
        raise sample.UnreadTableError(str(error) or "it is not read yet") from None
    if isinstance(samples, str):
        return (start + samples)[:limit]
    called = [f", read with: {each.call}" if each.call else "" for each in samples[1:]]
    lines = [f"{each.table.line()}{call}" for each, call in zip(samples[1:], called, strict=True)]
    more = "".join(f"\n\n{line[:_LINE_BYTES]}" for line in lines)
    if limit is not None:
        room = max(0, limit // 3) if more else 0
        more = more.encode()[:room].decode(errors="ignore")
        limit -= len((start + more).encode())
    return start + samples[0].table.detail(limit) + more


def sample_table(workspace: Workspace, path: str) -> Future[Sequence[sample.FileTable] | str]:
    """Return the tables in a file, the first in full; read once for each state of the file."""
    if table_ending(path) is None:
        raise sample.NotTableError("its name does not end like that of a table")
    is_database = sample.KINDS[sample.split_ending(path)[1]][1] == "sqlite"
    log = f"{path}-wal"
    with contextlib.ExitStack() as opened:
        file = opened.enter_context(workspace.open_file(path))
        status = os.fstat(file.fileno())
        beside = workspace.stat(log) if is_database else None
        known = [status, *([beside] if beside else [])]
        state = path, *((each.st_ino, each.st_size, each.st_mtime_ns) for each in known)
        closing = opened.pop_all()

    def read() -> Sequence[sample.FileTable] | str:
        with closing:
            if is_database:
                written = workspace.read_bytes(log) if beside and beside.st_size > 32 else b""
                return sample.read_database(file, status.st_size, written)
            return _unpack(table_reader.read(path, file))

    return table_reader.share(state, read)


def _unpack(found: JsonDict) -> Sequence[sample.FileTable] | str:
    """Return the tables that the reader describes, or its text."""
    others = found.pop("others", [])
    if "text" in found:
        return f"{found['kind']}\nread with: {found['call']}\n{found['text']}"
    tables = []
    for each in (found, *others):
        columns = [sample.make_column(**column) for column in each.pop("columns")]
        index = [sample.make_column(**column, is_index=True) for column in each.pop("index")]
        tables.append(
            sample.make_table(**{"kind": found["kind"], **each}, columns=columns, index=index)
        )
    return tables


def _describe_start(workspace: Workspace, path: str, error: Exception) -> str:
    """Return kind, size and first lines of a file; "" if it is not text."""
    kind, family = sample.KINDS[sample.split_ending(path)[1]]
    if family not in sample.TEXTS or sample.split_ending(path)[0]:
        return ""
    with workspace.open_file(path) as file:
        start = file.read(_START)
        size = file.seek(0, 2)
    try:
        lines = decode_file(start, path).text.splitlines()[:_LINES]
    except PathValidationError:
        return ""
    why = f"; not shown as a table: {error}" if isinstance(error, sample.UnreadTableError) else ""
    return f"{kind}, {human_size(size)}{why}\n\n{write_lines(lines)}"


MOST_TABLES = 3
"""Tables that are described beside a prompt."""
_MOST_TEXT = 20_000
_SHORTEST = 3
"""Letters of a name without its ending that is looked for; shorter ones are words of any text."""
_SEPARATORS = re.compile(r"[\s_-]+")


def find_named_tables(prompt: str, paths: Sequence[str]) -> list[str]:
    """Return up to MOST_TABLES of the paths that the prompt names, in its order.

    A path counts more than a name, and a name more than its stem.
    """
    text = _normalize(prompt[:_MOST_TEXT])
    places = _find_forms(text, paths)
    return sorted(places, key=lambda path: (places[path], path))[:MOST_TABLES]


def _normalize(text: str) -> str:
    """Return the text in lower case, with blanks, underscores and hyphens as one blank."""
    return _SEPARATORS.sub(" ", text.casefold()).strip()


def _list_forms(paths: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the forms in which a prompt can name each path."""
    for path in paths:
        name = path.rpartition("/")[2]
        stem = name[: -len(table_ending(path) or "") - 1]
        for form in dict.fromkeys((path, name, stem)):
            normal = _normalize(form)
            if len(normal) >= _SHORTEST:
                yield normal, path


def _find_forms(text: str, paths: Sequence[str]) -> dict[str, int]:
    """Return the paths that the text names, with their places; longer names win."""
    by_form: dict[str, list[str]] = {}
    for form, path in _list_forms(paths):
        if form in text:
            by_form.setdefault(form, []).append(path)
    named: dict[str, int] = {}
    for form in sorted(by_form, key=len, reverse=True):
        whole = re.compile(rf"(?<![\w/]){re.escape(form)}(?![\w/]|\.\w)")
        if match := whole.search(text):
            for path in by_form[form]:
                named.setdefault(path, match.start())
            text = whole.sub(lambda found: "\0" * len(found[0]), text)
    return named
