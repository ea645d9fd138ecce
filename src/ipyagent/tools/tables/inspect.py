"""Descriptions of tables in files, by the kind of file, and the files that a prompt names.

The first rows of Parquet and Arrow files are read by a library that is installed, in a process of
its own. Its decoder is native code: on a damaged file it may end its process, fill the memory, or
return what lies behind the file's bytes. It gets only small files, and only when a tool is called.
"""

from __future__ import annotations

import json
import logging
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ipyagent.errors import AgentError
from ipyagent.json_types import JsonDict
from ipyagent.kernel.describe.safe_inspect import one_line
from ipyagent.kernel.describe.table import COLUMNS, HEAD
from ipyagent.plaintext import spell
from ipyagent.tools import path_rules
from ipyagent.tools.path_rules import Entry
from ipyagent.tools.tables import delimited, parquet, records, spreadsheet, sqlite
from ipyagent.tools.tables.sample import LOOK, Effort, NotTableError, Sample, SampleColumn, Source
from ipyagent.tools.workspace import Workspace

ARROW_MAGIC = b"ARROW1"
ARROW_ENDINGS = ("feather", "arrow", "ipc")
LIBRARIES = ("pyarrow", "polars")
"""The libraries that decode, in the order in which they are tried."""

_MOST = 64_000_000
"""Bytes of the largest file that is decoded, and of a row group once it is unpacked."""
_SECONDS = 20
_VARIABLES = ("PATH", "LD_LIBRARY_PATH", "SYSTEMROOT")
_CHILD = Path(__file__).with_name("decoder_process.py")
_NO_LIBRARY = 3
"""The exit status of a decoder that finds none of the libraries."""


def first_rows(source: Source) -> list[JsonDict]:
    """Return the first rows of a Parquet file; none if no library is there, or it fails."""
    if not source.effort.decode or source.size > _MOST:
        return []
    try:
        rows: list[JsonDict] = _decode(source, "parquet")["rows"]
    except NotTableError:  # the footer alone is still useful
        return []
    return rows


def read_arrow(source: Source) -> Sample:
    """Return the table in an Arrow file; raises NotTableError if it cannot be read."""
    if not source.read_at(0, 8).startswith(ARROW_MAGIC):
        raise NotTableError("it is no Arrow file")
    if not source.effort.decode or source.size > _MOST:
        raise NotTableError("its content is read by inspect_file, up to 64 MB, or with code")
    table = _decode(source, "arrow")
    rows: list[JsonDict] = table["rows"]
    columns = [
        SampleColumn(name, one_line(dtype, 40), [row.get(name) for row in rows])
        for name, dtype in table["columns"]
    ]
    return Sample("Arrow file", columns, table["width"], table["total"], len(rows), declared=True)


def _decode(source: Source, form: str) -> JsonDict:
    """Return columns, width, first rows and number of rows; raises NotTableError."""
    limits = json.dumps({"rows": HEAD, "columns": COLUMNS, "bytes": _MOST, "seconds": _SECONDS})
    try:
        ended = subprocess.run(  # noqa: S603
            [sys.executable, "-E", "-P", str(_CHILD), form, limits, *LIBRARIES],
            input=source.read_at(0, _MOST),
            capture_output=True,
            timeout=_SECONDS,
            check=False,
            cwd=_CHILD.anchor,  # nothing of the workspace is imported
            env={name: os.environ[name] for name in _VARIABLES if name in os.environ},
        )
    except (OSError, subprocess.TimeoutExpired):
        raise NotTableError("it takes too long to decode") from None
    if ended.returncode == _NO_LIBRARY:
        raise NotTableError(f"neither {' nor '.join(LIBRARIES)} is installed, which read it")
    if ended.returncode < 0:
        raise NotTableError(f"it is damaged (its decoder ended by signal {-ended.returncode})")
    try:
        table = json.loads(ended.stdout)
    except ValueError:
        raise NotTableError("it is damaged (its decoder failed)") from None
    if "error" in table:
        raise NotTableError(f"it cannot be decoded: {one_line(table['error'], 60)}")
    return dict(table)


log = logging.getLogger("ipyagent")

_LINE_BYTES = 500


def _read_parquet(source: Source) -> list[Sample]:
    sample = parquet.read_parquet(source)
    rows = first_rows(source)
    if not rows:
        return [sample]
    columns = [
        replace(each, values=[row.get(str(each.label)) for row in rows], unique=None)
        for each in sample.columns
    ]
    facts = sample.facts[:-1]  # what the examples are
    return [replace(sample, columns=columns, sampled=len(rows), facts=facts)]


def _single(read: Callable[[Source], Sample]) -> Callable[[Source], Sequence[Sample]]:
    return lambda source: [read(source)]


_PACKED = re.compile(r"(?:csv|tsv|json|jsonl|ndjson)\.(?:gz|bz2|xz)|csv\.zip")
_READERS: Mapping[str, Callable[[Source], Sequence[Sample]]] = {
    **dict.fromkeys(delimited.ENDINGS, _single(delimited.read_delimited)),
    **dict.fromkeys(records.ENDINGS, _single(records.read_records)),
    **dict.fromkeys(parquet.ENDINGS, _read_parquet),
    **dict.fromkeys(ARROW_ENDINGS, _single(read_arrow)),
    **dict.fromkeys(spreadsheet.ENDINGS, spreadsheet.read_workbook),
    **dict.fromkeys(sqlite.ENDINGS, sqlite.read_database),
}


def table_ending(path: str) -> str | None:
    """Return the ending by which a file is read as a table; None for other files."""
    name = path.lower().rpartition("/")[2]
    parts = name.split(".")
    last_two, last = ".".join(parts[-2:]), parts[-1]
    if len(parts) > 2 and _PACKED.fullmatch(last_two):
        return last_two
    return last if len(parts) > 1 and last in _READERS else None


def list_tables(files: Iterable[Entry]) -> list[str]:
    """Return the paths of those files that are tables by their names."""
    return [
        entry.path
        for entry in files
        if table_ending(entry.path) is not None and not path_rules.is_sensitive(entry.path)
    ]


def describe_table(
    workspace: Workspace, path: str, effort: Effort = LOOK, limit: int | None = None
) -> str:
    """Describe the table in a file, in at most `limit` bytes if there is one.

    Raises NotTableError if it holds none, and AgentError if it cannot be read.
    """
    samples = read_samples(workspace, path, effort)
    start = f"{spell(path)}: "
    lines = [each.table().line() for each in samples[1:]]
    more = "".join(f"\n\n{line[:_LINE_BYTES]}" for line in lines)
    if limit is not None:
        room = max(0, limit // 3) if more else 0
        more = more.encode()[:room].decode(errors="ignore")
        limit -= len((start + more).encode())
    return start + samples[0].table().detail(limit) + more


def read_samples(workspace: Workspace, path: str, effort: Effort) -> Sequence[Sample]:
    """Return samples of the tables in a file, the main one first; raises as describe_table."""
    ending = table_ending(path)
    if ending is None:
        raise NotTableError("its name does not end like that of a table")
    with workspace.open_file(path) as file:
        size = file.seek(0, 2)
        try:
            return _READERS[ending.partition(".")[0]](Source(path, size, file, effort))
        except (AgentError, NotTableError):
            raise
        except Exception as error:  # a damaged file fails in as many ways as it can be damaged
            log.info("%s is not described", path, exc_info=True)
            raise NotTableError(f"it is damaged ({type(error).__name__})") from None


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
