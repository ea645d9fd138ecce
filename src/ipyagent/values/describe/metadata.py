"""Words for the metadata of data that is large, lazy or elsewhere: it is described, never read."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from ipyagent.phrases import human_size
from ipyagent.values.describe.safe_inspect import class_dict, module_name, one_line, type_name
from ipyagent.values.describe.table import COLUMNS, NAMED, align_columns, label_text

T = TypeVar("T")

ENTRIES = 20
"""Tables, arrays or groups inside that are named."""
_LIBRARIES = (
    *("anndata", "cupy", "dask", "duckdb", "_duckdb", "h5py", "ibis", "networkx", "numpy"),
    *("pandas", "polars", "pyarrow", "scipy", "sparse", "sqlalchemy", "torch", "xarray", "zarr"),
)
"""Packages whose own classes are asked for their metadata."""


def describe_columns(
    kind: str, columns: Sequence[tuple[str, str]] | None, tail: str, more: str, detail: bool
) -> str:
    """Return a table by labels and types of its columns; None: they cannot be known.

    `tail` are facts for each form, `more` are lines for the detailed one.
    """
    if columns is None:
        return f"{kind}{tail}{more if detail else ''}"
    head = f"{kind}, {len(columns):,} columns"
    rest = len(columns) - (COLUMNS if detail else NAMED)
    left_out = [f"… {rest:,} more"] if rest > 0 else []
    if not detail:
        named = [f"{label}: {dtype}" for label, dtype in columns[:NAMED]]
        return f"{head} ({', '.join([*named, *left_out])}){tail}"
    rows = [["column", "dtype"], *([*each] for each in columns[:COLUMNS])]
    return f"{head}{tail}{more}\n\n{align_columns([*rows, *([each] for each in left_out)])}"


def describe_entries(head: str, entries: Sequence[str], detail: bool) -> str:
    """Return what lies in a database, file or group, behind the words for it."""
    rest = len(entries) - ENTRIES
    found = [*entries[:ENTRIES], *([f"… {rest:,} more"] if rest > 0 else [])]
    if detail:
        return "\n".join([head, *(f"  {each}" for each in found)])
    return f"{head}: {'; '.join(found)}" if found else head


def name_types(types: Iterable[tuple[object, object]]) -> list[tuple[str, str]]:
    """Return the columns of a table, from their labels and types."""
    return [(label_text(label), dtype_text(dtype)) for label, dtype in types]


def dtype_text(dtype: object) -> str:
    """Return a type's text if its class is a library's own, else the class's name."""
    own = type(dtype) is str or is_library_class(type(dtype), *_LIBRARIES)
    return one_line(str(dtype)) if own else type_name(type(dtype))


def is_known_class(cls: type) -> bool:
    """Return whether the class is one whose members compute nothing."""
    return is_library_class(cls, *_LIBRARIES)


def is_library_class(cls: type, *homes: str) -> bool:
    """Return whether the class is really one of these packages' own, whatever it says of itself."""
    return module_name(cls).partition(".")[0] in homes and is_of_module(cls)


def is_of_module(cls: type) -> bool:
    """Return whether the module that a class names has this very class under its name."""
    module = sys.modules.get(module_name(cls))
    return module is not None and class_dict_of(module).get(type_name(cls)) is cls


def class_dict_of(module: object) -> dict[str, object]:
    """Return a module's names without asking a lazy one for more."""
    names = class_dict(type(sys))["__dict__"].__get__(module)
    return names if type(names) is dict else {}


def size_text(count: float) -> str:
    """Return a number of bytes in words, as an estimate: `~4.1 GB`; "" if it is unknown."""
    return "" if math.isnan(count) else f"~{human_size(count)}"


def shape_text(shape: Iterable[object]) -> str:
    """Return a shape as Python writes it; what is no whole number is unknown."""
    sizes = [f"{each:,}" if type(each) is int else "?" for each in shape]
    return f"({', '.join(sizes)}{',' if len(sizes) == 1 else ''})"


def describe_array(array: Any, chunks: Sequence[object] | None = None) -> str:
    """Return shape, type, size and chunks of an array: numpy's, or one with the same members."""
    dtype = dtype_text(array.dtype)
    if array.shape is None:
        return f"empty, {dtype}"  # a dataset of HDF5
    parts = f"chunks {shape_text(chunks)}" if chunks else None
    return join_facts(f"shape {shape_text(array.shape)}", dtype, size_text(array.nbytes), parts)


def join_facts(*facts: str | None) -> str:
    """Return the facts that are known, behind one another."""
    return ", ".join(filter(None, facts))


def try_or_none(read: Callable[[], T]) -> T | None:
    """Return what `read` returns; None if the object is broken or closed."""
    try:
        return read()
    except Exception:
        return None
