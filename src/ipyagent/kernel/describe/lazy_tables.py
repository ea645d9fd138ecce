"""Descriptions of Arrow's tables and datasets, and of polars' lazy tables, by their schemas.

Of Arrow's no file is opened. To resolve the columns of a plan, polars reads footers of files, asks
servers, and calls the functions of `map_elements` and of Python scans. So it is asked only about
plans that rest on tables in memory or on local files, and in a call that refuses the user's
functions.
"""

from __future__ import annotations

import mmap
import re
import stat
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Generic, Protocol, TypeVar

from ipyagent.kernel.describe.metadata import (
    NOT_COMPUTED,
    LazyTable,
    name_types,
    size_text,
    try_or_none,
)
from ipyagent.kernel.describe.safe_inspect import type_name
from ipyagent.phrases import plural
from ipyagent.redaction import Secrecy

_FILES = 1_000  # files whose sizes are asked for


class _Schema(Protocol):
    names: Sequence[str]
    types: Sequence[object]


class _Table(Protocol):
    schema: _Schema
    num_rows: int
    nbytes: int


class _Dataset(Protocol):
    schema: _Schema
    files: Sequence[str]
    filesystem: object


class _Reader(Protocol):
    schema: _Schema


def arrow_table(value: _Table, secret: Secrecy, detail: bool) -> str:
    """Describe a table or record batch in memory: columns, rows, bytes."""
    facts = [plural(value.num_rows, "row"), size_text(value.nbytes)]
    return _describe(value, value.schema, facts, detail)


def arrow_dataset(value: _Dataset, secret: Secrecy, detail: bool) -> str:
    """Describe a dataset by its schema and its files, of which none is opened."""
    facts = _file_facts(value) if type_name(type(value)) == "FileSystemDataset" else []
    return _describe(value, value.schema, [*facts, "not read"], detail)


def _file_facts(value: _Dataset) -> list[str]:
    files = value.files
    local = type_name(type(value.filesystem)) == "LocalFileSystem" and len(files) <= _FILES
    size = sum(_file_size(each) for each in files) if local else 0
    return [plural(len(files), "file"), *([f"{size_text(size)} on disk"] if size else [])]


def _file_size(path: str) -> int:
    try:
        status = Path(path).stat()
    except OSError:
        return 0
    return status.st_size if stat.S_ISREG(status.st_mode) else 0


def arrow_reader(value: _Reader, secret: Secrecy, detail: bool) -> str:
    """Describe a reader of record batches, which can be read only once."""
    return _describe(value, value.schema, ["not read"], detail)


def _describe(value: object, schema: _Schema, facts: Iterable[str], detail: bool) -> str:
    columns = name_types(zip(schema.names, schema.types, strict=True), "pyarrow")
    return LazyTable(type_name(type(value)), columns, [*facts], "pyarrow").text(detail)


T = TypeVar("T")

_HARMLESS = "<frozen abc>"  # how `isinstance` asks whether something is a file


class ForeignCodeError(Exception):
    """Python code would have been run."""


class _GuardedCall(threading.Thread, Generic[T]):
    """A call in a thread of its own, where each Python function that is entered is looked at.

    A profile function belongs to its thread: the user's own one, in theirs, stays.
    """

    def __init__(self, call: Callable[[], T], allowed: tuple[str, ...]) -> None:
        super().__init__(name="ipyagent-describe", daemon=True)
        self._call, self._allowed = call, (_HARMLESS, *allowed)
        self.result: T | None = None

    def run(self) -> None:
        """Call the function; a failure leaves no result."""
        sys.setprofile(self._check)
        try:
            self.result = self._call()
        except BaseException:  # what Rust code panics with is no Exception
            self.result = None
        finally:
            sys.setprofile(None)

    def _check(self, frame: FrameType, event: str, argument: object) -> None:
        if event == "call" and not frame.f_code.co_filename.startswith(self._allowed):
            raise ForeignCodeError


def call_guarded(call: Callable[[], T], seconds: float, *allowed: str) -> T | None:
    """Return what a compiled function returns; None if it fails, or takes too long.

    It fails where it would run Python code of files whose path begins with none of `allowed`.
    """
    thread = _GuardedCall(call, allowed)
    thread.start()
    thread.join(seconds)
    return thread.result


_SECONDS = 0.05
_PLAN = 65_536  # bytes of a plan that is read; a longer one holds a table
_MEMORY = 400_000_000  # bytes of a process in which writing a plan, with its tables, takes no time
_UNFIT = (b"://", b"infer_schema_length\xc0")
"""Parts that a plan must not hold: the address of a server, types that only a whole file tells."""
_ANONYMOUS = re.compile(r"^RssAnon:\s+(\d+) kB$", re.MULTILINE)


class _Plan(Protocol):
    def _node_name(self) -> str: ...
    def serialize_binary(self, file: mmap.mmap) -> None: ...
    def collect_schema(self) -> Mapping[str, object]: ...


class _LazyFrame(Protocol):
    _ldf: _Plan


def polars_lazy(value: _LazyFrame, secret: Secrecy, detail: bool) -> str:
    """Describe a LazyFrame, with its columns if they can be known without work."""
    columns = _resolve_columns(value._ldf) if _rests_on_local_data(value._ldf) else None
    more = [] if columns is not None else ["columns: not known before it is computed"]
    return LazyTable("LazyFrame", columns, [NOT_COMPUTED], "polars", more).text(detail)


def _resolve_columns(plan: _Plan) -> list[tuple[str, str]] | None:
    types = f"{Path(sys.modules['polars'].__file__ or '').parent / 'datatypes'}/"
    schema = call_guarded(plan.collect_schema, _SECONDS, types)
    return None if schema is None else name_types(schema.items(), "polars")


def _rests_on_local_data(plan: _Plan) -> bool:
    """Return whether the plan rests on tables in memory and local files, and on nothing else."""
    root = try_or_none(lambda: plan._node_name())
    if root == "DataFrameScan":
        return True
    # A plan is written with the tables in it: where there may be large ones, that takes seconds.
    if root != "Scan" and _anonymous_memory() > _MEMORY:
        return False
    with mmap.mmap(-1, _PLAN) as buffer:  # it refuses what is longer, and has no Python code
        call_guarded(partial(plan.serialize_binary, buffer), _SECONDS)
        written = buffer[: buffer.tell()]
    return 0 < len(written) < _PLAN and not any(each in written for each in _UNFIT)


def _anonymous_memory() -> int:
    """Return the memory of this process that no file backs, in bytes."""
    try:
        found = _ANONYMOUS.search(Path("/proc/self/status").read_text())
    except OSError:  # no Linux
        found = None
    return int(found[1]) * 1024 if found else _MEMORY + 1
