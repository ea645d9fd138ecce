"""Descriptions of Dask's collections by what they know of themselves: nothing is computed.

Even the number of partitions can take a computation, as after `set_index`, or a look at files
elsewhere: it is told where the object, or all that it is made from, holds it already.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable
from typing import Protocol

from ipyagent.kernel.describe.libraries import pandas_memory
from ipyagent.kernel.describe.metadata import (
    NOT_COMPUTED,
    LazyTable,
    dtype_text,
    is_library_class,
    name_types,
    shape_text,
    size_text,
)
from ipyagent.kernel.describe.safe_inspect import (
    ancestors,
    class_dict,
    is_a,
    own_attributes,
    type_name,
)
from ipyagent.kernel.describe.table import label_text
from ipyagent.phrases import plural
from ipyagent.redaction import Secrecy

_LIKE_THEIR_INPUT = {
    "Binop",
    "Blockwise",
    "Elemwise",
    "Map",
    "MapPartitions",
    "Projection",
    "Unaryop",
}
_SAME_SIZE = {"ArrowStringConversion", "Repartition", "ClearDivisions"}
_DEPTH = 200  # steps of an expression that are followed


class _Frame(Protocol):
    """A table, whose columns and types stand in an empty table of pandas."""

    expr: object
    columns: Iterable[object]
    dtypes: Iterable[object]


class _Series(Protocol):
    expr: object
    name: object
    dtype: object


class _Array(Protocol):
    dtype: object
    shape: tuple[object, ...]
    npartitions: int
    chunksize: tuple[object, ...]
    nbytes: float


class _Bag(Protocol):
    npartitions: int


def dask_frame(value: _Frame, secret: Secrecy, detail: bool) -> str:
    """Describe a DataFrame of Dask by its columns, partitions and known divisions."""
    expr = value.expr
    columns = name_types(zip(value.columns, value.dtypes, strict=True), "pandas", "numpy")
    table = LazyTable(type_name(type(value)), columns, _facts(expr), "dask", _divisions(expr))
    return table.text(detail)


def dask_series(value: _Series, secret: Secrecy, detail: bool) -> str:
    """Describe a Series or Index of Dask."""
    name = f" {label_text(value.name)}" if value.name is not None else ""
    dtype = dtype_text(value.dtype, "pandas", "numpy")
    return f"{type_name(type(value))}{name} ({dtype}), {', '.join(_facts(value.expr))} [dask]"


def dask_array(value: _Array, secret: Secrecy, detail: bool) -> str:
    """Describe an array of Dask by shape, type, chunks and size."""
    size = [] if math.isnan(value.nbytes) else [size_text(value.nbytes)]
    facts = [
        f"{type_name(type(value))}, shape {shape_text(value.shape)}",
        dtype_text(value.dtype, "numpy"),
        *size,
        f"{plural(value.npartitions, 'chunk')} of {shape_text(value.chunksize)}",
        NOT_COMPUTED,
    ]
    return ", ".join(facts) + " [dask]"


def dask_bag(value: _Bag, secret: Secrecy, detail: bool) -> str:
    """Describe a Bag: how many partitions it has."""
    return f"Bag, {plural(value.npartitions, 'partition')}, {NOT_COMPUTED} [dask]"


def _facts(expr: object) -> list[str]:
    count, size = count_partitions(expr), _memory(expr)
    facts = [] if size is None else [size_text(size)]
    return [*facts, *([] if count is None else [plural(count, "partition")]), NOT_COMPUTED]


def count_partitions(expr: object, depth: int = _DEPTH) -> int | None:
    """Return the number of partitions; None if that is not known without work."""
    if not depth or not is_library_class(type(expr), "dask"):
        return None
    held = own_attributes(expr)
    if type(known := held.get("divisions")) is tuple:
        return max(len(known) - 1, 1)
    operands = _operands(expr)
    count = _count_of_source(type_name(type(expr)), operands)
    if count is not None or _defines_divisions(type(expr)) not in _LIKE_THEIR_INPUT:
        return count
    counts = [count_partitions(each, depth - 1) for each in _inputs(operands)]
    known_counts = [each for each in counts if each is not None]
    return max(known_counts, default=None) if len(known_counts) == len(counts) else None


def _count_of_source(kind: str, operands: dict[str, object]) -> int | None:
    """Return how many partitions a source of data was given, if it is one that says so."""
    if (count := _length(operands.get("_partitions"))) is not None:
        return count
    match kind:
        case "ReadParquetFSSpec":
            info = operands.get("_dataset_info_cache")
            plan = info.get("plan") if type(info) is dict else None
            count = _length(plan.get("divisions") if type(plan) is dict else None)
            return None if count is None else max(count - 1, 1)
        case "FromMap" | "FromMapProjectable" | "ReadCSV":
            iterables = operands.get("iterables")
            return _length(iterables[0]) if type(iterables) is list and iterables else None
    if (count := _length(operands.get("partitions"))) is not None:
        return count
    for name in ("divisions", "new_divisions", "user_divisions"):
        if (found := _length(operands.get(name))) is not None:
            return found - 1
    asked_for = operands.get("npartitions") or operands.get("new_partitions")
    return asked_for if type(asked_for) is int else None


def _length(value: object) -> int | None:
    return len(value) if isinstance(value, (list, tuple)) and type(value) in (list, tuple) else None


def _operands(expr: object) -> dict[str, object]:
    """Return what an expression was made with, by name."""
    held = own_attributes(expr).get("operands")
    for cls in ancestors(type(expr)):
        names = class_dict(cls).get("_parameters")
        if type(names) is list and type(held) is list:
            # Without names: what `map_partitions` passes on.
            rest = {f"*{i}": each for i, each in enumerate(held[len(names) :])}
            return {**dict(zip(names, held, strict=False)), **rest}
    return {}


def _inputs(operands: dict[str, object]) -> list[object]:
    expression = getattr(sys.modules.get("dask._expr"), "Expr", None)
    values = operands.values()
    inputs = [each for each in values if expression is not None and is_a(each, expression)]
    # Values that every partition gets have no partitions.
    return [each for each in inputs if type_name(type(each)) != "_DelayedExpr"]


def _defines_divisions(cls: type) -> str:
    """Return the name of the class that says how the expression is divided."""
    return next(
        (type_name(each) for each in ancestors(cls) if "_divisions" in class_dict(each)), ""
    )


def _divisions(expr: object) -> list[str]:
    """Return first and last division, if they are known."""
    known = own_attributes(expr).get("divisions")
    if type(known) is not tuple or known[:1] in ((), (None,)):
        return []
    return [f"divisions: {label_text(known[0])} to {label_text(known[-1])}"]


def _memory(expr: object, depth: int = _DEPTH) -> int | None:
    """Return the bytes of the pandas table that a collection is a part of, or all of."""
    for _ in range(depth):
        operands = _operands(expr)
        if type_name(type(expr)) == "FromPandas":
            frame = own_attributes(operands.get("frame")).get("_data")
            return None if frame is None else _pandas_memory(frame)
        inputs = _inputs(operands)
        if type_name(type(expr)) not in _SAME_SIZE or len(inputs) != 1:
            return None
        expr = inputs[0]
    return None


def _pandas_memory(frame: object) -> int | None:
    pandas = sys.modules.get("pandas")
    plain = pandas is not None and type(frame) is pandas.DataFrame
    return pandas_memory(frame) if plain else None
