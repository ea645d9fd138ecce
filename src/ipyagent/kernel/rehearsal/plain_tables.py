"""Tables, columns and indexes of pandas as nodes of JSON and raw bytes."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from ipyagent.kernel.rehearsal.plain_nodes import (
    BadDataError,
    Node,
    NotPlainError,
    array_node,
    get_library,
    read_array,
    read_scalar,
    write_scalar,
)

_MASKED = frozenset(
    {f"{sign}Int{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64)}
    | {"Float32", "Float64", "boolean"}
)


def write_table(value: Any, buffers: list[memoryview]) -> Node | None:
    """Return the node of a table, column or index; None if it is none. Raises NotPlainError."""
    pandas = sys.modules.get("pandas")
    if pandas is None:
        return None
    if type(value) not in (pandas.DataFrame, pandas.Series):
        return _write_index(value, buffers) if isinstance(value, pandas.Index) else None
    if value.attrs or not value.flags.allows_duplicate_labels:
        raise NotPlainError("it has attributes of its own")
    index = _write_index(value.index, buffers)
    if type(value) is pandas.Series:
        return ["column", _write_values(value, buffers), index, _label(value.name, buffers)]
    columns = [_write_values(value.iloc[:, i], buffers) for i in range(value.shape[1])]
    return ["table", columns, _write_index(value.columns, buffers), index]


def read_table(node: Node, buffers: Sequence[memoryview]) -> Any:
    """Return the table, column or index of a node; raises BadDataError."""
    pandas = get_library("pandas")
    match node:
        case ["table", list(columns), labels, rows]:
            names, index = _read_index(labels, buffers), _read_index(rows, buffers)
            arrays = [_read_values(each, buffers) for each in columns]
            if len(arrays) != len(names) or any(len(each) != len(index) for each in arrays):
                raise BadDataError
            table = pandas.DataFrame(dict(enumerate(arrays)), index=index, copy=False)
            table.columns = names
            return table
        case ["column", values, rows, name]:
            index, array = _read_index(rows, buffers), _read_values(values, buffers)
            if len(array) != len(index):
                raise BadDataError
            label, kind = _read_label(name, buffers), getattr(array, "dtype", None)
            return pandas.Series(array, index=index, name=label, dtype=kind, copy=False)
    return _read_index(node, buffers)


def _write_values(column: Any, buffers: list[memoryview]) -> Node:
    """Return the node of the values of a column or an index."""
    array, dtype, kind = column.array, column.dtype, type(column.dtype).__name__
    if kind == "CategoricalDtype":
        codes, categories = array_node(array.codes, buffers), array.categories
        return ["categories", codes, _write_index(categories, buffers), bool(array.ordered)]
    if kind == "StringDtype":
        missing = "nan" if dtype.na_value is not sys.modules["pandas"].NA else "NA"
        texts = [each if type(each) is str else None for each in array.tolist()]
        return ["texts", dtype.storage, missing, texts]
    if kind == "DatetimeTZDtype":
        instants = sys.modules["pandas"].DatetimeIndex(array).tz_convert(None).to_numpy()
        return ["zoned", array_node(instants, buffers), str(dtype)]
    if str(dtype) in _MASKED:
        mask, values = array.isna(), array.to_numpy(dtype.numpy_dtype, na_value=0)
        return ["masked", str(dtype), array_node(values, buffers), array_node(mask, buffers)]
    if not isinstance(dtype, sys.modules["numpy"].dtype):
        raise NotPlainError(f"it has a column of {dtype}")
    plain = column.to_numpy()
    if not dtype.hasobject:
        return array_node(plain, buffers)
    items = [write_scalar(each, buffers) for each in plain.tolist()]
    if None in items:
        raise NotPlainError("it has a column of other objects")
    return ["objects", items]


def _read_values(node: Any, buffers: Sequence[memoryview]) -> Any:
    pandas, numpy = get_library("pandas"), get_library("numpy")
    match node:
        case ["array", *_]:
            return read_array(node, buffers)
        case ["categories", codes, categories, bool(ordered)]:
            labels = _read_index(categories, buffers)
            return pandas.Categorical.from_codes(read_array(codes, buffers), labels, ordered)
        case ["masked", str(name), data, mask] if name in _MASKED:
            values, missing = read_array(data, buffers), read_array(mask, buffers)
            made = pandas.array(values, dtype=name)
            if missing.dtype != bool or made.dtype.numpy_dtype != values.dtype:
                raise BadDataError
            made[missing] = pandas.NA
            return made
        case ["texts", ("python" | "pyarrow") as storage, ("nan" | "NA") as missing, list(texts)]:
            if any(type(each) is not str for each in texts if each is not None):
                raise BadDataError
            value = float("nan") if missing == "nan" else pandas.NA
            return pandas.array(texts, dtype=pandas.StringDtype(storage, na_value=value))
        case ["objects", list(items)]:
            made = numpy.empty(len(items), object)
            for i, each in enumerate(items):
                made[i] = _read_label(each, buffers)
            return made
        case ["zoned", values, str(name)] if name.startswith("datetime64["):
            instants = read_array(values, buffers)
            if instants.dtype.kind != "M":
                raise BadDataError
            zone = pandas.api.types.pandas_dtype(name).tz
            return pandas.DatetimeIndex(instants).tz_localize("UTC").tz_convert(zone).array
    raise BadDataError


def _write_index(index: Any, buffers: list[memoryview]) -> Node:
    pandas = sys.modules["pandas"]
    names = [_label(name, buffers) for name in index.names]
    if type(index) is pandas.RangeIndex:
        return ["range", index.start, index.stop, index.step, names]
    if type(index) is pandas.MultiIndex:
        levels = [_write_index(each, buffers) for each in index.levels]
        return ["levels", levels, [array_node(each, buffers) for each in index.codes], names]
    if type(index) not in (pandas.Index, pandas.DatetimeIndex, pandas.CategoricalIndex):
        raise NotPlainError(f"it has an index of {type(index).__name__}")
    freq = getattr(index, "freqstr", None)
    return ["index", _write_values(index, buffers), names, freq]


def _read_index(node: Any, buffers: Sequence[memoryview]) -> Any:
    pandas = get_library("pandas")
    match node:
        case ["range", int(start), int(stop), int(step), list(names)] if step:
            index = pandas.RangeIndex(start, stop, step)
        case ["levels", list(levels), list(codes), list(names)]:
            index = pandas.MultiIndex(
                [_read_index(each, buffers) for each in levels],
                [read_array(each, buffers) for each in codes],
            )
        case ["index", values, list(names), (None | str()) as freq]:
            array = _read_values(values, buffers)
            index = pandas.Index(array, dtype=getattr(array, "dtype", None), copy=False)
            if freq is not None:
                index = pandas.DatetimeIndex(index, freq=freq)
        case _:
            raise BadDataError
    index.names = [_read_label(each, buffers) for each in names]
    return index


def _label(name: Any, buffers: list[memoryview]) -> Node:
    if type(name) is tuple:
        return ["labels", [_label(each, buffers) for each in name]]
    node = write_scalar(name, buffers)
    if node is None:
        raise NotPlainError("it has other names than text and numbers")
    return node


def _read_label(node: Any, buffers: Sequence[memoryview]) -> Any:
    match node:
        case ["labels", list(parts)]:
            return tuple(_read_label(each, buffers) for each in parts)
    value = read_scalar(node, buffers)
    if value is NotImplemented:
        raise BadDataError
    return value
