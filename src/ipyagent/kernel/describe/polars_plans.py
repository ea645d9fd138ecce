"""Descriptions of polars' lazy tables by the columns that are known without running the plan.

To resolve a plan's columns polars reads footers of files, asks servers, and calls the functions of
`map_elements` and of Python scans. So it is asked only about plans that rest on tables in memory or
on local files, and in a call that refuses the user's functions.
"""

from __future__ import annotations

import mmap
import re
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Protocol

from ipyagent.kernel.describe.guarded_calls import call_guarded
from ipyagent.kernel.describe.metadata import (
    NOT_COMPUTED,
    LazyTable,
    dtype_text,
    try_or_none,
)
from ipyagent.kernel.describe.table import label_text
from ipyagent.redaction import Secrecy

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
    if schema is None:
        return None
    return [(label_text(name), dtype_text(kind, "polars")) for name, kind in schema.items()]


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
