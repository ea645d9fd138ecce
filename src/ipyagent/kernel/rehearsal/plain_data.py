"""Plain data as JSON and raw bytes: tables, arrays, numbers, text, and containers of these.

The reader trusts nothing: it makes objects of Python, numpy and pandas from checked parts, and runs
no code but theirs. Nothing is unpickled, nothing is imported.

Tables, columns and indexes of pandas are taken apart into plain values and put together again.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from types import BuiltinFunctionType, FunctionType, ModuleType
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


Node = list[Any]
"""A value as JSON: its kind, then its parts."""
Existing = Mapping[str, object]
"""The variables as they are: their objects are referred to by name."""

_DEPTH, _MOST_NODES, _MOST_BYTES = 50, 300_000, 48 << 20
_CONTAINERS: Mapping[str, Callable[[list[Any]], Any]] = {
    "list": list,
    "tuple": tuple,
    "set": set,
    "frozenset": frozenset,
}
_KINDS = {make: name for name, make in _CONTAINERS.items()}
_MEMBERS = (FunctionType, BuiltinFunctionType, type)
"""Types of values that are referred to by the module that defines them."""
_NAME = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")
_DTYPE = re.compile(r"[<>|][biufcSUmM]\d{1,5}(\[\d{0,4}[a-zA-Z]{1,2}\])?")
"""Types of plain numbers, text and times; no other can be asked for."""


def write_all(
    values: Mapping[str, object], existing: Existing, is_old: Callable[[object], bool]
) -> tuple[dict[str, Node], list[memoryview]]:
    """Return the nodes of values, and the bytes in them.

    `is_old` tells whether an object was there before, so that a copy would not be the same. Raises
    NotPlainError for anything that would not come back exactly as it is.
    """
    writer, checker = _Writer(existing, is_old), _Writer(existing, lambda value: False)
    nodes = {name: writer.write(value) for name, value in values.items()}
    try:
        again = read_all(nodes, writer.buffers, existing)
    except BadDataError as error:
        raise NotPlainError(str(error)) from None
    if {name: checker.write(value) for name, value in again.items()} != nodes:
        raise NotPlainError("it would be something else")
    if checker.buffers != writer.buffers:
        raise NotPlainError("it would hold something else")
    return nodes, writer.buffers


def read_all(
    nodes: Mapping[str, object], buffers: Sequence[memoryview], existing: Existing
) -> dict[str, Any]:
    """Return the values of nodes by name; raises BadDataError, whatever is wrong."""
    reader = _Reader(buffers, existing)
    try:
        return {name: reader.read(node) for name, node in nodes.items()}
    except BadDataError:
        raise
    except Exception as error:
        raise BadDataError(str(error)) from None


class _Writer:
    """Writes values as nodes and buffers."""

    def __init__(self, existing: Existing, is_old: Callable[[object], bool]) -> None:
        self.buffers: list[memoryview] = []
        self._existing = {id(value): name for name, value in existing.items()}
        self._is_old = is_old
        self._modules = {id(module): name for name, module in list(sys.modules.items())}
        self._written: dict[int, int] = {}
        self._keep: list[object] = []
        self._owners: set[int] = set()
        """The arrays whose memory was written: two that share it would be two copies."""
        self._count = 0

    def write(self, value: Any, depth: int = _DEPTH, *, is_part: bool = False) -> Node:
        """Return the node of a value; raises NotPlainError.

        A part of a table is copied even if it was there before: others do not see it.
        """
        self._count += 1
        if self._count > _MOST_NODES or not depth:
            raise NotPlainError("it is too large")
        if (scalar := self._write_scalar(value)) is not None:
            return scalar
        if (name := self._existing.get(id(value))) is not None and not is_part:
            return ["variable", name]
        if type(value) is ModuleType and id(value) in self._modules:
            return ["module", self._modules[id(value)]]
        if (place := _place_in_module(value)) is not None:
            return ["member", *place]
        if id(value) in self._written:
            return ["again", self._written[id(value)]]
        if not is_part and type(value) is not tuple and self._is_old(value):
            raise NotPlainError("it is a part of what is there")
        self._written[id(value)] = len(self._written)
        self._keep.append(value)
        kind = type(value)
        if kind is dict:
            pairs = [[self.write(each, depth - 1) for each in pair] for pair in value.items()]
            return ["dict", pairs]
        if kind in _KINDS:
            nodes = [self.write(each, depth - 1, is_part=is_part) for each in value]
            if kind in (set, frozenset):  # scalars, and tuples of them: their order says nothing
                nodes.sort(key=json.dumps)
            return [_KINDS[kind], nodes]
        numpy = sys.modules.get("numpy")
        if numpy is not None and kind is numpy.ndarray:
            return self._write_array(value, numpy, is_part=is_part)
        name, *parts = take_apart(value)
        return [name, *(self.write(each, depth - 1, is_part=True) for each in parts)]

    def _write_scalar(self, value: Any) -> Node | None:
        kind, numpy = type(value), sys.modules.get("numpy")
        if value is None or kind is bool or kind is str:
            return ["plain", value]
        if kind is int:
            return ["int", hex(value)]
        for home in ("math", "numpy"):  # which code compares by identity, as `in` does
            if kind is float and value is getattr(sys.modules.get(home), "nan", None):
                return ["missing", home]
        if kind in (float, complex):
            numbers = [value] if kind is float else [value.real, value.imag]
            return [kind.__name__, *(each.hex() if each == each else "nan" for each in numbers)]
        if kind is bytes:
            return ["bytes", self._add_buffer(memoryview(value))]
        if numpy is None or not isinstance(value, numpy.generic):
            return None
        is_plain = kind is value.dtype.type and _DTYPE.fullmatch(value.dtype.str)
        return ["scalar", value.dtype.str, value.tobytes().hex()] if is_plain else None

    def _write_array(self, array: Any, numpy: Any, *, is_part: bool) -> Node:
        base, flags = array.base, array.flags
        if not is_part and not flags.writeable:
            raise NotPlainError("it is a view that cannot be written")
        if (
            not is_part
            and base is not None
            and (type(base) is not type(array) or self._is_old(base))
        ):
            raise NotPlainError("it is a part of what is there")
        owner = id(array if base is None else base)
        if owner in self._owners and not is_part:
            raise NotPlainError("it shares its memory")
        self._owners.add(owner)
        if not _DTYPE.fullmatch(array.dtype.str):
            raise NotPlainError(f"it is an array of {array.dtype}")
        order = "F" if flags.f_contiguous and not flags.c_contiguous else "C"
        data = numpy.ascontiguousarray(array.T if order == "F" else array)
        raw = memoryview(data.reshape(-1).view("u1")) if data.nbytes else memoryview(b"")
        return ["array", array.dtype.str, list(array.shape), order, self._add_buffer(raw)]

    def _add_buffer(self, view: memoryview) -> int:
        self.buffers.append(view)
        if sum(each.nbytes for each in self.buffers) > _MOST_BYTES:
            raise NotPlainError("it is too large")
        return len(self.buffers) - 1


class _Reader:
    """Makes values of nodes and buffers."""

    def __init__(self, buffers: Sequence[memoryview], existing: Existing) -> None:
        self._buffers, self._existing = buffers, existing
        self._made: list[Any] = []
        self._count = 0

    def read(self, node: object, depth: int = _DEPTH) -> Any:
        """Return the value of a node; raises BadDataError."""
        self._count += 1
        if self._count > _MOST_NODES or not depth:
            raise BadDataError
        match node:
            case ["plain", None | bool() | str() as value]:
                return value
            case ["int", str(text)] if len(text) < 100_000:
                return int(text, 16)
            case ["missing", ("math" | "numpy") as home]:
                return sys.modules[home].nan
            case ["float", str(text)]:
                return float.fromhex(text)
            case ["complex", str(real), str(imaginary)]:
                return complex(float.fromhex(real), float.fromhex(imaginary))
            case ["bytes", int(number)]:
                return bytes(self._buffer(number))
            case ["scalar", str(dtype), str(text)]:
                return self._numbers(dtype, bytes.fromhex(text))[0]
            case ["again", int(number)] if 0 <= number < len(self._made):
                return self._made[number]
            case ["variable", str(name)] if name in self._existing:
                return self._existing[name]
            case ["module", str(name)] if _NAME.fullmatch(name):
                return sys.modules[name]
            case ["member", str(name), str(member)] if _NAME.fullmatch(name):
                found = vars(sys.modules[name])[member]
                if isinstance(found, _MEMBERS):
                    return found
            case [str(kind), *parts]:
                return self._read_object(kind, parts, depth - 1)
        raise BadDataError

    def _read_object(self, kind: str, parts: list[Any], depth: int) -> Any:
        place = len(self._made)
        made: Any = {} if kind == "dict" else []
        self._made.append(made)
        if kind == "dict":
            for key, value in parts[0]:
                made[self.read(key, depth)] = self.read(value, depth)
            return made
        if kind == "array":
            made = self._read_array(*parts)
        else:
            made.extend(
                self.read(each, depth) for each in (parts[0] if kind in _CONTAINERS else parts)
            )
            if kind != "list":
                make = _CONTAINERS.get(kind) or (lambda read: put_together(kind, read))
                made = make(made)
        self._made[place] = made
        return made

    def _read_array(self, dtype: str, shape: list[int], order: str, number: int) -> Any:
        if len(shape) > 32 or any(type(each) is not int or each < 0 for each in shape):
            raise BadDataError
        # Of the very length: numpy would take what it needs.
        return self._numbers(dtype, bytearray(self._buffer(number)), shape).reshape(
            shape, order="F" if order == "F" else "C"
        )

    def _numbers(self, dtype: str, raw: bytes | bytearray, shape: Sequence[int] = (1,)) -> Any:
        numpy = sys.modules["numpy"]
        if not _DTYPE.fullmatch(dtype):
            raise BadDataError
        kind, size = numpy.dtype(dtype), 1
        for each in shape:
            size *= each
        if size * kind.itemsize != len(raw):
            raise BadDataError
        return numpy.frombuffer(raw, kind) if raw else numpy.empty(size, kind)

    def _buffer(self, number: int) -> memoryview:
        if not 0 <= number < len(self._buffers):
            raise BadDataError
        return self._buffers[number]


def _place_in_module(value: object) -> tuple[str, str] | None:
    """Return the module and name of a function or class that a module defines."""
    module, name = (getattr(value, each, None) for each in ("__module__", "__name__"))
    if not isinstance(value, _MEMBERS) or type(module) is not str or type(name) is not str:
        return None
    found = sys.modules.get(module)
    if type(found) is not ModuleType or vars(found).get(name) is not value:
        return None
    return module, name
