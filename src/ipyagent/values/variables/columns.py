"""Columns of tables: whether they share memory, and in how many cells they differ."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from ipyagent.values.describe.safe_inspect import module_name
from ipyagent.values.variables.arrays import count_differences, find_owner, is_array, is_same_memory

PANDAS = (("pandas", "DataFrame"), ("pandas", "Series"))
KINDS = (*PANDAS, ("polars", "DataFrame"), ("polars", "Series"), ("pyarrow", "Table"))

_PARTS = (
    *("_data", "_mask", "_left", "_right", "_levels", "_codes", "_categories"),
    *("_sparse_values", "_pa_array"),
)
"""Attributes of pandas in which an index or an extension array keeps its memory."""


def kind_of(value: object) -> tuple[str, str] | None:
    """Return library and name of the class if the value is exactly a table or column of one."""
    cls = type(value)
    kinds = (each for each in KINDS if cls is getattr(sys.modules.get(each[0]), each[1], None))
    return next(kinds, None)


def is_same(one: Any, other: Any) -> bool:
    """Return whether two columns surely hold the same, as far as can be seen without counting."""
    if one is other or getattr(one, "_pa_array", one) is getattr(other, "_pa_array", other):
        return True
    if kind_of(one):
        if one.dtype != other.dtype or one.len() != other.len():
            return False
        if one.dtype.is_object():  # comparing would run code of the user's
            return True
        with suppress(Exception):  # text and missing values have no such view
            if is_same_memory(*(each.to_numpy(allow_copy=False) for each in (one, other))):
                return True
        return bool(one.equals(other))
    if _is_arrow(one):
        return bool(one.equals(other))
    arrays, others = _memory_of(one), _memory_of(other)
    if not arrays or len(arrays) != len(others) or not all(map(is_array, arrays + others)):
        return False
    return all(map(is_same_memory, arrays, others)) and is_same_type(one, other)


def count_cells(one: Any, other: Any) -> int | None:
    """Return in how many cells two columns of one type differ; None: they do, but not how often."""
    if kind_of(one):
        return None if one.dtype.is_nested() else int(one.ne_missing(other).sum())
    if _is_arrow(one):
        return 0 if one.equals(other) else None
    if not is_same_type(one, other):
        return None
    left, right = (getattr(data, "_ndarray", None) for data in (one, other))
    if left is not None and right is not None and left.dtype == right.dtype:
        return count_differences(left, right)
    if getattr(getattr(one.dtype, "subtype", None), "kind", "") == "O" or one.equals(other):
        return 0
    return _count_extended(one, other)


def _count_extended(one: Any, other: Any) -> int | None:
    """Return in how many cells two nullable or Arrow columns of pandas differ."""
    if one.dtype.type is list or one.dtype.type is dict:  # nested values of Arrow
        return None
    equal = one == other
    if hasattr(equal, "to_numpy"):
        equal = equal.to_numpy(dtype=bool, na_value=False)
    return len(one) - int((equal | (one.isna() & other.isna())).sum())


def is_same_type(one: Any, other: Any) -> bool:
    """Return whether two columns have one type, without comparing objects in categories."""
    left, right = one.dtype, other.dtype
    if left is right:
        return True
    categories = [getattr(dtype, "categories", None) for dtype in (left, right)]
    if any(each is None for each in categories):
        return bool(left == right)
    return left.ordered == right.ordered and is_same_index(*categories)


def is_same_index(one: Any, other: Any) -> bool:
    """Return whether two indexes of pandas hold the same labels in the same order."""
    if one is other or one.is_(other):
        return True
    if len(one) != len(other) or type(one) is not type(other) or not is_same_type(one, other):
        return False
    pandas = sys.modules["pandas"]
    if type(one) is pandas.MultiIndex:
        return all(map(is_same_index, one.levels, other.levels)) and all(
            bool((left == right).all()) for left, right in zip(one.codes, other.codes, strict=True)
        )
    left, right = one.array, other.array
    return is_same(left, right) or count_cells(left, right) == 0


def _is_arrow(data: object) -> bool:
    return type(data) is getattr(sys.modules.get("pyarrow"), "ChunkedArray", None)


def _memory_of(data: object) -> list[object]:
    plain = getattr(data, "_ndarray", None)
    return [*find_memory(data)] if plain is None else [plain]


def find_memory(value: Any) -> Iterator[Any]:
    """Yield the arrays and Arrow buffers that hold the cells of a table, or labels, of pandas."""
    waiting = [*value._mgr.arrays] if kind_of(value) in PANDAS else [value]
    while waiting:
        part = waiting.pop()
        home = module_name(type(part)).partition(".")[0]
        if home == "numpy" and is_array(part):
            yield part
        elif home == "pyarrow" and _is_arrow(part):
            buffers = (each for chunk in part.chunks for each in chunk.buffers())
            yield from (each for each in buffers if each is not None)
        elif home == "pandas":
            own = getattr(part, "__dict__", {})
            waiting += [own[name] for name in _PARTS if name in own]
            waiting += [getattr(part, "_ndarray", None), getattr(part, "_dtype", None)]
            waiting.extend(part if isinstance(part, list) else ())


def memory_owners(value: object) -> Iterator[object]:
    """Yield the arrays that own the memory of an array, or of a table or index of pandas."""
    is_of_pandas = module_name(type(value)).partition(".")[0] == "pandas"
    for each in (value,) if is_array(value) else find_memory(value) if is_of_pandas else ():
        if is_array(owner := find_owner(each)):
            yield owner
