"""Descriptions of xarray's objects: dimensions, coordinates and variables; no array is loaded."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Protocol

from ipyagent.kernel.describe.metadata import (
    ENTRIES,
    NOT_COMPUTED,
    describe_entries,
    dtype_text,
    is_library_class,
    size_text,
)
from ipyagent.kernel.describe.safe_inspect import module_name
from ipyagent.kernel.describe.table import label_text
from ipyagent.redaction import Secrecy

_HOMES = ("numpy", "xarray", "dask", "zarr", "h5py", "pandas", "cupy", "sparse")
"""The packages whose arrays are asked for their types."""


class _DType(Protocol):
    itemsize: int


class _Data(Protocol):
    dtype: _DType
    shape: Sequence[object]
    chunksize: Sequence[object]


class _Variable(Protocol):
    dims: Sequence[object]
    _data: _Data


class _Dataset(Protocol):
    sizes: Mapping[object, int]
    variables: Mapping[object, _Variable]


class _DataArray(Protocol):
    name: object
    variable: _Variable


def xarray_dataset(value: _Dataset, secret: Secrecy, detail: bool) -> str:
    """Describe a Dataset: its dimensions, and each variable with dimensions, type and state."""
    sizes, variables = value.sizes, value.variables
    names = [*(name for name in variables if name not in sizes), *sizes]
    entries = [
        _variable_text(name, variables[name]) for name in names[:ENTRIES] if name in variables
    ]
    known = [_count_bytes(each, [sizes[dim] for dim in each.dims]) for each in variables.values()]
    size = [size_text(sum(each for each in known if each is not None))] if None not in known else []
    dims = ", ".join(f"{label_text(name)}: {count:,}" for name, count in sizes.items())
    head = ", ".join([f"Dataset ({dims})", *size]) + " [xarray]"
    return describe_entries(head, entries, len(variables), detail)


def xarray_array(value: _DataArray, secret: Secrecy, detail: bool) -> str:
    """Describe a DataArray: its name, dimensions, type and state."""
    variable = value.variable
    if not _is_known(variable._data):
        return "DataArray [xarray]"
    shape = variable._data.shape
    dims = ", ".join(f"{label_text(d)}: {n}" for d, n in zip(variable.dims, shape, strict=True))
    size = _count_bytes(variable, [each for each in shape if type(each) is int])
    facts = [*_state_facts(variable), *([] if size is None else [size_text(size)])]
    name = f" {label_text(value.name)}" if value.name is not None else ""
    return f"DataArray{name} ({dims}), {', '.join(facts)} [xarray]"


def _variable_text(name: object, variable: _Variable) -> str:
    dims = ", ".join(map(label_text, variable.dims))
    return f"{label_text(name)} ({dims}): {', '.join(_state_facts(variable))}"


def _state_facts(variable: _Variable) -> list[str]:
    """Return type and state of an array: in memory, not loaded, or not computed."""
    data = variable._data
    if not _is_known(data):
        return ["unknown type"]
    dtype = dtype_text(data.dtype, "numpy", "pandas")
    match module_name(type(data)).partition(".")[0]:
        case "numpy":
            return [dtype]
        case "dask":
            chunks = ", ".join(str(each) for each in data.chunksize)
            return [dtype, f"chunks ({chunks})", NOT_COMPUTED]
    return [dtype, "not loaded"] if _is_lazy(data) else [dtype]


def _is_known(data: object) -> bool:
    """Return whether an array, and what it wraps, is a library's own: others run their code."""
    for _ in range(10):
        if not is_library_class(type(data), *_HOMES):
            return False
        if module_name(type(data)).partition(".")[0] != "xarray":
            return True
        inner = getattr(data, "array", None)
        if inner is None or inner is data:
            return True
        data = inner
    return False


def _is_lazy(data: object) -> bool:
    """Return whether the innermost array is one that xarray reads from a file."""
    while module_name(type(data)).startswith("xarray"):
        if module_name(type(data)).startswith("xarray.backends"):
            return True
        data = getattr(data, "array", None)
    return module_name(type(data)).partition(".")[0] in {"zarr", "h5py"}


def _count_bytes(variable: _Variable, shape: Sequence[int]) -> int | None:
    if not _is_known(variable._data):
        return None
    return math.prod(shape) * variable._data.dtype.itemsize
