"""Tables, columns and indexes of pandas, taken apart into plain values and put together again."""

from __future__ import annotations

import sys
from typing import Any


class NotPlainError(Exception):
    """Raised for a value that is not plain data."""


class BadDataError(Exception):
    """Raised for data that makes no sense."""


_MASKED = frozenset(
    {f"{sign}Int{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64)}
    | {"Float32", "Float64", "boolean"}
)
_SCALARS = frozenset({type(None), bool, int, float, complex, str, bytes})


def take_apart(value: Any) -> tuple[Any, ...]:
    """Return the kind of a table, column or index, and its parts; raises NotPlainError."""
    pandas: Any = sys.modules.get("pandas")
    if pandas is not None and type(value) in (pandas.DataFrame, pandas.Series):
        if value.attrs or not value.flags.allows_duplicate_labels:
            raise NotPlainError("it has attributes of its own")
        if type(value) is pandas.Series:
            return "column", _take_values(value), value.index, _check_label(value.name)
        columns = [_take_values(value.iloc[:, i]) for i in range(value.shape[1])]
        return "table", columns, value.columns, value.index
    if pandas is None or not isinstance(value, pandas.Index):
        raise NotPlainError(f"it is no plain data ({type(value).__name__})")
    names = [_check_label(each) for each in value.names]
    if type(value) is pandas.RangeIndex:
        return "range", value.start, value.stop, value.step, names
    if type(value) is pandas.MultiIndex:
        return "levels", [*value.levels], [*value.codes], names
    if type(value) not in (pandas.Index, pandas.DatetimeIndex, pandas.CategoricalIndex):
        raise NotPlainError(f"it has an index of {type(value).__name__}")
    return "index", _take_values(value), names, getattr(value, "freqstr", None)


def put_together(kind: str, parts: list[Any]) -> Any:
    """Return the table, column or index of such parts, which may be anything.

    Raises BadDataError, or what pandas raises.
    """
    pandas = sys.modules["pandas"]
    match kind, parts:
        case "table", [list(columns), pandas.Index() as names, pandas.Index() as index]:
            arrays = [_put_values(each) for each in columns]
            if len(arrays) != len(names) or any(len(each) != len(index) for each in arrays):
                raise BadDataError
            table = pandas.DataFrame(dict(enumerate(arrays)), index=index, copy=False)
            table.columns = names
            return table
        case "column", [values, pandas.Index() as index, label]:
            array = _put_values(values)
            if len(array) != len(index):
                raise BadDataError
            name = _check_label(label)
            return pandas.Series(array, index=index, name=name, dtype=array.dtype, copy=False)
        case "range", [int(start), int(stop), int(step), list(names)] if step:
            index = pandas.RangeIndex(start, stop, step)
        case "levels", [list(levels), list(codes), list(names)]:
            index = pandas.MultiIndex(levels, codes)
        case "index", [values, list(names), (None | str()) as freq]:
            array = _put_values(values)
            index = pandas.Index(array, dtype=array.dtype, copy=False)
            index = index if freq is None else pandas.DatetimeIndex(index, freq=freq)
        case _:
            raise BadDataError
    index.names = [_check_label(each) for each in names]
    return index


def _take_values(column: Any) -> Any:
    """Return the values of a column or an index as an array, or as their kind and parts."""
    array, dtype, kind = column.array, column.dtype, type(column.dtype).__name__
    pandas: Any = sys.modules["pandas"]
    if kind == "CategoricalDtype":
        return "categories", array.codes, array.categories, bool(array.ordered)
    if kind == "StringDtype":
        missing = "NA" if dtype.na_value is pandas.NA else "nan"
        texts = [each if type(each) is str else None for each in array.tolist()]
        return "texts", dtype.storage, missing, texts
    if kind == "DatetimeTZDtype":
        return "zoned", pandas.DatetimeIndex(array).tz_convert(None).to_numpy(), str(dtype)
    if str(dtype) in _MASKED:
        mask, values = array.isna(), array.to_numpy(dtype.numpy_dtype, na_value=0)
        return "masked", str(dtype), values, mask
    if not isinstance(dtype, sys.modules["numpy"].dtype):
        raise NotPlainError(f"it has a column of {dtype}")
    plain = column.to_numpy()
    return ("objects", plain.tolist()) if dtype.hasobject else plain


def _put_values(values: Any) -> Any:
    pandas, numpy = sys.modules["pandas"], sys.modules["numpy"]
    match values:
        case numpy.ndarray():
            return values
        case ("categories", numpy.ndarray() as codes, pandas.Index() as categories, bool(ordered)):
            return pandas.Categorical.from_codes(codes, categories, ordered)
        case ("masked", str(name), numpy.ndarray() as data, numpy.ndarray() as mask):
            made = pandas.array(data, dtype=name) if name in _MASKED else None
            if made is None or mask.dtype != bool or made.dtype.numpy_dtype != data.dtype:
                raise BadDataError
            made[mask] = pandas.NA
            return made
        case ("texts", ("python" | "pyarrow") as storage, ("nan" | "NA") as missing, list(texts)):
            if any(type(each) is not str for each in texts if each is not None):
                raise BadDataError
            value = float("nan") if missing == "nan" else pandas.NA
            return pandas.array(texts, dtype=pandas.StringDtype(storage, na_value=value))
        case ("objects", list(items)):
            made = numpy.empty(len(items), object)
            made[:] = [_check_label(each) for each in items]
            return made
        case ("zoned", numpy.ndarray() as instants, str(name)) if name.startswith("datetime64["):
            if instants.dtype.kind != "M":
                raise BadDataError
            zone = pandas.api.types.pandas_dtype(name).tz
            return pandas.DatetimeIndex(instants).tz_localize("UTC").tz_convert(zone).array
    raise BadDataError


def _check_label(label: Any) -> Any:
    """Return a scalar, or a tuple of them; raises NotPlainError for any other label."""
    numpy = sys.modules["numpy"]
    if type(label) is tuple:
        return tuple(map(_check_label, label))
    if type(label) in _SCALARS or type(label) is getattr(numpy, type(label).__name__, None):
        return label
    raise NotPlainError("it has other labels than text and numbers")
