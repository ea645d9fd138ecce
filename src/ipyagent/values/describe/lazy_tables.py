"""Plans of lazy tables: what of them can be known without computing, reading or asking a server.

To resolve the columns of a plan, polars reads footers of files, asks servers, and calls the
functions of `map_elements` and of Python scans. So it is asked only about plans that rest on tables
in memory or on local files, and in a call that refuses the user's functions. Even the number of
partitions can take Dask a computation, as after `set_index`, or a look at files elsewhere: it is
given where the object, or all that it is made from, holds it already.
"""

from __future__ import annotations

import math
import mmap
import re
import stat
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, Generic, TypeVar

from ipyagent.phrases import plural
from ipyagent.values.describe.libraries import pandas_memory
from ipyagent.values.describe.metadata import is_library_class, join_facts, size_text, try_or_none
from ipyagent.values.describe.safe_inspect import (
    ancestors,
    class_dict,
    is_a,
    own_attributes,
    type_name,
)
from ipyagent.values.describe.table import label_text

T = TypeVar("T")
_Object = Any  # of a library

_FILES = 1_000  # files whose sizes are asked for


def find_file_facts(dataset: _Object) -> str:
    """Return number and size of the files of a dataset of Arrow, of which none is opened."""
    if type_name(type(dataset)) != "FileSystemDataset":
        return ""
    files = dataset.files
    local = type_name(type(dataset.filesystem)) == "LocalFileSystem" and len(files) <= _FILES
    size = sum(map(_measure_file, files)) if local else 0
    return join_facts(plural(len(files), "file"), f"{size_text(size)} on disk" if size else None)


def _measure_file(path: str) -> int:
    status = try_or_none(lambda: Path(path).stat())
    return status.st_size if status and stat.S_ISREG(status.st_mode) else 0


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


def resolve_columns(plan: _Object) -> tuple[_Object, ...] | None:
    """Return the columns of a plan of polars; None if they cannot be known without work."""
    if not _rests_on_local_data(plan):
        return None
    types = f"{Path(sys.modules['polars'].__file__ or '').parent / 'datatypes'}/"
    schema = call_guarded(plan.collect_schema, _SECONDS, types)
    return None if schema is None else (schema.keys(), schema.values())


def _rests_on_local_data(plan: _Object) -> bool:
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


# Dask ---------------------------------------------------------------------------------------------

_LIKE_THEIR_INPUT = {
    *("Binop", "Blockwise", "Elemwise", "Map", "MapPartitions", "Projection", "Unaryop"),
}
"""Classes whose way to divide is that of their input: others may compute to know it."""
_SAME_SIZE = {"ArrowStringConversion", "Repartition", "ClearDivisions"}
_DEPTH = 200  # steps of an expression that are followed


def count_partitions(expr: object, depth: int = _DEPTH) -> int | None:
    """Return the number of partitions; None if that is not known without work."""
    if not depth or not is_library_class(type(expr), "dask"):
        return None
    operands = _name_operands(expr)
    held = {**operands, **own_attributes(expr)}
    known = (_measure(held[name], less) for name, less in _SOURCES.items() if name in held)
    count = next((each for each in known if each is not None), None)
    owners = (each for each in ancestors(type(expr)) if "_divisions" in class_dict(each))
    if count is not None or type_name(next(owners, object)) not in _LIKE_THEIR_INPUT:
        return count
    expression = sys.modules["dask._expr"].Expr
    # Values that every partition gets have no partitions.
    inputs = [
        count_partitions(each, depth - 1)
        for each in operands.values()
        if is_a(each, expression) and type_name(type(each)) != "_DelayedExpr"
    ]
    counts = [each for each in inputs if each is not None]
    return max(counts, default=None) if len(counts) == len(inputs) else None


_SOURCES = {
    "divisions": 1, "_partitions": 0, "_dataset_info_cache": 1, "iterables": 0, "partitions": 0,
    "new_divisions": 1, "user_divisions": 1, "npartitions": 0, "new_partitions": 0,
}  # fmt: skip
"""What an expression was made with, and by how much its length exceeds the partitions."""


def _measure(value: object, less: int) -> int | None:
    """Return a number of partitions from what an expression was made with."""
    if type(value) is dict:
        plan = value.get("plan")
        value = plan.get("divisions") if type(plan) is dict else None
    if type(value) is list and type(next(iter(value), None)) in (list, tuple):
        value = value[0]
    if isinstance(value, (list, tuple)) and type(value) in (list, tuple):
        return max(len(value) - less, 1)
    return value if type(value) is int else None


def _name_operands(expr: object) -> dict[str, object]:
    """Return what an expression was made with, by name; numbered is what it passes on."""
    held = own_attributes(expr).get("operands")
    for cls in ancestors(type(expr)):
        names = class_dict(cls).get("_parameters")
        if type(names) is list and type(held) is list:
            rest = [f"*{i}" for i in range(len(held) - len(names))]
            return dict(zip([*names, *rest], held, strict=False))
    return {}


def describe_divisions(expr: _Object) -> str:
    """Return a line with the first and the last division, if they are known."""
    known = own_attributes(expr).get("divisions")
    if type(known) is not tuple or known[:1] in ((), (None,)):
        return ""
    return f"\ndivisions: {label_text(known[0])} to {label_text(known[-1])}"


def find_memory(expr: _Object) -> float:
    """Return the bytes of the pandas table that a collection is all of; nan if it is not."""
    pandas = sys.modules["pandas"]
    kind = type_name(type(expr))
    while kind in (*_SAME_SIZE, "FromPandas"):
        operands = own_attributes(expr).get("operands")
        expr = operands[0] if type(operands) is list else None
        if kind == "FromPandas":
            expr = own_attributes(expr).get("_data")
        kind = type_name(type(expr))
    return pandas_memory(expr) if type(expr) is pandas.DataFrame else math.nan
