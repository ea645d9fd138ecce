"""Values taken apart into plain parts, and put together again.

Arrays, tables, columns and indexes of pandas and polars, moments and spans of time, and what the
standard library has of numbers, times and containers. To put columns of polars together starts none
of its threads: those do not survive a fork, so that there would be no rehearsal with polars any
more. To take them apart, on the copy, may.
"""

from __future__ import annotations

import builtins
import re
import sys
from array import array as packed
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import partial
from itertools import accumulate
from math import prod
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple
from uuid import UUID

from ipyagent.values.describe.safe_inspect import module_name
from ipyagent.values.variables.arrays import is_array
from ipyagent.values.variables.parts import are_plain_keys


class NotPlainError(Exception):
    """Raised for a value that is not plain data, and for data that makes no sense."""


PLAIN_TYPE = re.compile(r"[<>|][biufcSUmM]\d{1,5}(\[\d{0,4}[a-zA-Z]{1,2}\])?")
"""Types of plain numbers, text and times; no other can be asked for."""


_LARGEST = 128 << 20
"""Bytes of a view, which repeats cells where it does not step on."""


_MOST_TEXTS = 10_000_000
"""Texts in a column."""


def make_array(dtype: str, shape: list[int], order: str, raw: bytes | memoryview) -> Any:
    """Return an array of all of these bytes; raises NotPlainError, or what numpy raises."""
    _check_type(dtype, shape)
    numpy = sys.modules["numpy"]
    cells = numpy.frombuffer(raw, dtype) if raw else numpy.empty(0, dtype)
    # A copy has its own memory, as what code makes: it can be resized.
    return cells.reshape(shape, order="F" if order == "F" else "C").copy(order="K")


def make_view(
    owner: object,
    dtype: str,
    shape: list[int],
    strides: list[int],
    offset: int,
    *,
    is_writeable: bool,
) -> object:
    """Return a view of an array's memory; raises NotPlainError for one beyond it."""
    _check_type(dtype, shape)
    numpy = sys.modules["numpy"]
    if not is_array(owner) or prod(shape) * max(1, numpy.dtype(dtype).itemsize) > _LARGEST:
        raise NotPlainError
    memory = numpy.asarray(owner)  # itself
    if memory.dtype.hasobject or not (memory.flags.c_contiguous or memory.flags.f_contiguous):
        raise NotPlainError
    cells = memory.reshape(-1, order="A").view("u1")
    view = numpy.ndarray(shape, dtype, cells, offset, strides)
    view.flags.writeable = view.flags.writeable and is_writeable is True
    return view


def _check_type(dtype: str, shape: list[int]) -> None:
    if not PLAIN_TYPE.fullmatch(dtype) or any(type(e) is not int or e < 0 for e in shape):
        raise NotPlainError


def pack_texts(cells: list[str | None]) -> tuple[bytes, bytes]:
    """Return the lengths of texts in characters, -1 for None, and all of them in UTF-8."""
    lengths = packed("i", [-1 if each is None else len(each) for each in cells])
    text = "".join(each for each in cells if each is not None)
    return lengths.tobytes(), text.encode(errors="surrogatepass")


def unpack_texts(sizes: bytes, data: bytes) -> list[str | None]:
    """Return the texts that were packed; raises NotPlainError."""
    lengths = packed("i", sizes)
    if len(lengths) > _MOST_TEXTS:
        raise NotPlainError
    text = data.decode(errors="surrogatepass")
    ends = [*accumulate(max(size, 0) for size in lengths)]
    if (ends[-1] if ends else 0) != len(text):
        raise NotPlainError
    pairs = zip(ends, lengths, strict=True)
    return [None if size < 0 else text[end - size : end] for end, size in pairs]


_CELLS: Mapping[str, str] = {
    **{f"{sign}Int{8 * size}": f"{code}{size}" for sign, code in (("", "i"), ("U", "u"))
       for size in (1, 2, 4, 8)},
    "Float32": "f4", "Float64": "f8", "Boolean": "b1",
    "Date": "i4", "Time": "i8",
}  # fmt: skip
"""The types of columns of numbers, days and times of day, and of the numbers that they are."""
_UNITS = ("ms", "us", "ns")


def _take_polars(value: Any) -> tuple[object, ...]:
    """Return the kind of a table or column, and its parts; raises NotPlainError."""
    polars = sys.modules["polars"]
    if type(value) is polars.Series:
        return "polars column", _take_column(value)
    if type(value) is not polars.DataFrame or (value.height and not value.width):
        raise NotPlainError
    return "polars table", [*map(_take_column, value.get_columns())]


def _take_column(values: Any) -> tuple[object, ...]:
    """Return name, type and cells, and where they are missing."""
    name = type(values.dtype).__name__
    keys = [each for each in ("time_unit", "time_zone") if hasattr(values.dtype, each)]
    details = [getattr(values.dtype, each) for each in keys]
    if name in ("String", "Enum"):
        categories = values.dtype.categories.to_list() if name == "Enum" else None
        return values.name, name, categories, *pack_texts(values.to_list())
    if name not in _CELLS and not details:
        raise NotPlainError
    numbers = values.to_physical()
    missing = numbers.is_null().to_numpy().copy() if values.null_count() else None
    cells = numbers.fill_null(False if name == "Boolean" else 0).to_numpy().copy()
    return values.name, name, details, cells, missing


def _make_column(column: object) -> object:
    polars, numpy = sys.modules["polars"], sys.modules["numpy"]
    match column:
        case (str(name), "String", None, bytes() as sizes, bytes() as data):
            return polars.Series(name, unpack_texts(sizes, data), dtype=polars.String)
        case (str(name), "Enum", list(categories), bytes() as sizes, bytes() as data):
            if all(type(each) is str for each in categories):
                dtype = polars.Enum(categories)
                return polars.Series(name, unpack_texts(sizes, data), dtype=dtype)
        case (str(name), str(kind), list(details), numpy.ndarray() as cells, missing):
            dtype = _make_type(kind, details, polars)
            if cells.ndim != 1 or cells.dtype != numpy.dtype(_CELLS.get(kind, "i8")):
                raise NotPlainError
            match missing:
                case None:
                    return polars.Series(name, cells, dtype=dtype)
                case numpy.ndarray() as gone if gone.dtype == bool and gone.shape == cells.shape:
                    pairs = zip(cells.tolist(), gone.tolist(), strict=True)
                    kept = [None if is_gone else cell for cell, is_gone in pairs]
                    return polars.Series(name, kept, dtype=dtype)
    raise NotPlainError


def _make_type(name: str, details: list[object], polars: ModuleType) -> object:
    match name, details:
        case "Datetime", [str(unit), (None | str()) as zone] if unit in _UNITS:
            return polars.Datetime(unit, zone)
        case "Duration", [str(unit)] if unit in _UNITS:
            return polars.Duration(unit)
        case _, [] if name in _CELLS:
            return getattr(polars, name)
    raise NotPlainError


_MASKED = frozenset(
    {f"{sign}Int{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64)}
    | {"Float32", "Float64", "boolean"}
)
_TEXTS: Mapping[type, Callable[[str], object]] = {
    type(Path()): Path,
    date: date.fromisoformat,
    time: time.fromisoformat,
    datetime: datetime.fromisoformat,
    Decimal: Decimal,
    UUID: UUID,
}
"""Types of values that a text says wholly, and how it is read."""


class CellContainer(NamedTuple):
    """A container in a cell of a table, which is not the table's alone."""

    container: object


HOLDERS = frozenset({Counter, OrderedDict, defaultdict, deque, CellContainer})
"""Types whose parts are others' objects, too."""
IN_CELLS = frozenset({list, dict, set})
_SPANS = ("Timestamp", "Timedelta", "Period", "Interval")
"""Moments and spans of time in pandas."""
_INDEXES = ("Index", "CategoricalIndex", "IntervalIndex", "PeriodIndex")
_SCALARS = frozenset(
    {type(None), bool, int, float, complex, str, bytes, timedelta, Fraction, *_TEXTS}
)
_LONGEST = 5_000
"""Characters of a text that a value is made of."""
_MOST_ALIKE = 1_000
"""Keys that may have the same hash: each is compared with all others."""
_PARTS = frozenset({type(None), int, str, list, tuple, dict, set, type})
"""Types of the parts of values that are no tables: to read them runs no code of others."""


def take_apart(value: Any) -> tuple[object, ...]:
    """Return the kind of a value, and its parts; raises NotPlainError for what is not plain."""
    kind, pandas = type(value), sys.modules.get("pandas")
    if kind in _STANDARD:
        take, _ = _STANDARD[kind]
        return kind.__name__, *take(value)
    if module_name(kind) == "numpy.random._generator":
        return "Generator", *_take_generator(value)
    if module_name(kind).partition(".")[0] == "polars":
        return _take_polars(value)
    if pandas is None:
        raise NotPlainError
    if kind in map(vars(pandas).get, _SPANS):
        return kind.__name__, *_take_span(value, pandas)
    return _take_table(value, pandas)


def _spell(value: object) -> str:
    """Return a value's text; raises NotPlainError if there is more to it."""
    if not hasattr(value, "isoformat"):
        return str(value)
    zone = getattr(value, "tzinfo", None)
    if getattr(value, "fold", 0) or not (zone is None or zone is UTC):
        raise NotPlainError
    return str(value.isoformat())


def check_keys(keys: Sequence[object]) -> None:
    """Raise NotPlainError for keys that are code of the user's, or would take very long to put."""
    if not are_plain_keys(keys):
        raise NotPlainError
    if len(keys) > _MOST_ALIKE and max(Counter(map(hash, keys)).values()) > _MOST_ALIKE:
        raise NotPlainError


def _read_pairs(items: object) -> dict[Any, Any]:
    """Return the dict of pairs; raises NotPlainError for any that came from elsewhere."""
    if type(items) is not tuple or any(type(each) is not tuple for each in items):
        raise NotPlainError
    check_keys([key for key, _ in items])
    return dict(items)


def _make_mapping(kind: Callable[..., object], items: object) -> object:
    return kind(_read_pairs(items))


def _make_defaults(factory: Any, items: object) -> object:
    if factory is None or vars(builtins).get(factory.__name__) is factory:
        return defaultdict(factory, _read_pairs(items))
    raise NotPlainError  # it is called for each key that is missing


def _make_fraction(over: object, under: object) -> object:
    if type(over) is not int or type(under) is not int:
        raise NotPlainError
    return Fraction(over, under)


def _take_generator(value: Any) -> tuple[object, ...]:
    """Return the state of numpy's usual generator of random numbers, and what it was seeded by."""
    bits, numpy = value.bit_generator, sys.modules["numpy"]
    seed = bits.seed_seq
    if type(bits) is not numpy.random.PCG64 or type(seed) is not numpy.random.SeedSequence:
        raise NotPlainError
    return bits.state, seed.entropy, seed.spawn_key, seed.n_children_spawned


def _make_generator(
    state: object, entropy: object, spawn_key: tuple[object, ...], spawned: object
) -> object:
    random = sys.modules["numpy"].random  # which numpy loads late
    entropies = entropy if type(entropy) is list else [entropy]
    if any(type(each) is not int for each in (*entropies, *spawn_key)):
        raise NotPlainError
    seed = random.SeedSequence(entropy, spawn_key=spawn_key, n_children_spawned=spawned)
    bits = random.PCG64(seed)
    bits.state = state
    return random.Generator(bits)


def _take_span(value: Any, pandas: ModuleType) -> tuple[object, ...]:
    """Return the parts of a moment or span of time in pandas."""
    match type(value).__name__:
        case "Timestamp":
            zone = None if value.tz is None else str(value.tz)
            is_folded = zone is None and value.fold
            if is_folded or pandas.Timestamp(0, tz=zone).tz is not value.tz:
                raise NotPlainError
            return value.asm8, zone
        case "Timedelta":
            return (value.asm8,)
        case "Period":
            return value.ordinal, value.freqstr
    return value.left, value.right, value.closed


def _take_table(value: Any, pandas: ModuleType) -> tuple[object, ...]:
    """Return the kind of a table, column or index, and its parts; raises NotPlainError."""
    if type(value) in (pandas.DataFrame, pandas.Series):
        if value.attrs or not value.flags.allows_duplicate_labels:
            raise NotPlainError
        if type(value) is pandas.Series:
            return "column", _take_values(value), value.index, value.name
        columns = [_take_values(value.iloc[:, i]) for i in range(value.shape[1])]
        return "table", columns, value.columns, value.index
    if not isinstance(value, pandas.Index):
        raise NotPlainError
    names = [*value.names]
    if type(value) is pandas.RangeIndex:
        return "row numbers", value.start, value.stop, value.step, names
    if type(value) is pandas.MultiIndex:
        return "levels", [*value.levels], [*value.codes], names
    dated = type(value) in (pandas.DatetimeIndex, pandas.TimedeltaIndex)
    frequency = value.freq if dated else None
    if not dated and type(value) not in map(vars(pandas).get, _INDEXES):
        raise NotPlainError
    if frequency is not None and not _is_plain_frequency(frequency, pandas):
        raise NotPlainError
    return "index", _take_values(value), names, frequency and frequency.freqstr


def _is_plain_frequency(frequency: Any, pandas: ModuleType) -> bool:
    """Return whether its text says all about it: not which days are holidays."""
    with suppress(ValueError):
        return bool(pandas.tseries.frequencies.to_offset(frequency.freqstr) == frequency)
    return False


def put_together(kind: str, parts: list[Any]) -> object:
    """Return the value of such parts, which may be anything.

    Raises NotPlainError, or what its type raises.
    """
    if kind in _MAKERS:
        if any(type(e) not in _PARTS or (type(e) is str and len(e) > _LONGEST) for e in parts):
            raise NotPlainError
        return _MAKERS[kind](*parts)
    if kind in ("polars column", "polars table"):
        columns = [*map(_make_column, parts if kind == "polars column" else parts[0])]
        return columns[0] if kind == "polars column" else sys.modules["polars"].DataFrame(columns)
    pandas = sys.modules["pandas"]
    match kind, parts:
        case "Timestamp", [moment, (None | str()) as zone]:
            stamp = pandas.Timestamp(moment)
            return stamp if zone is None else stamp.tz_localize("UTC").tz_convert(zone)
        case "Timedelta", [length]:
            return pandas.Timedelta(length)
        case "Period", [int(ordinal), str(freq)]:
            return pandas.Period(ordinal=ordinal, freq=freq)
        case "Interval", [left, right, str(closed)]:
            return pandas.Interval(left, right, closed)
        case "table", [list(columns), pandas.Index() as names, pandas.Index() as index]:
            arrays = [_put_values(each) for each in columns]
            if len(arrays) != len(names) or any(len(each) != len(index) for each in arrays):
                raise NotPlainError
            # Of a bare array of objects pandas 3 makes texts.
            cells = (
                pandas.Series(each, index=index, dtype=object) if each.dtype == object else each
                for each in arrays
            )
            table = pandas.DataFrame(dict(enumerate(cells)), index=index, copy=False)
            table.columns = names
            return table
        case "column", [values, pandas.Index() as index, label]:
            array = _put_values(values)
            if len(array) != len(index):
                raise NotPlainError
            name = _check_label(label)
            return pandas.Series(array, index=index, name=name, dtype=array.dtype, copy=False)
        case "row numbers", [int(start), int(stop), int(step), list(names)] if step:
            index = pandas.RangeIndex(start, stop, step)
        case "levels", [list(levels), list(codes), list(names)]:
            index = pandas.MultiIndex(levels, codes)
        case "index", [values, list(names), (None | str()) as freq]:
            array = _put_values(values)
            index = pandas.Index(array, dtype=array.dtype, copy=False)
            index = index if freq is None else type(index)(index, freq=freq)
        case _:
            raise NotPlainError
    index.names = [_check_label(each) for each in names]
    return index


_STANDARD: Mapping[type, tuple[Callable[[Any], tuple[object, ...]], Callable[..., object]]] = {
    **{kind: (lambda value: (_spell(value),), read) for kind, read in _TEXTS.items()},
    **{
        kind: (lambda value: (tuple(value.items()),), partial(_make_mapping, kind))
        for kind in (Counter, OrderedDict)
    },
    timedelta: (lambda value: (value.days, value.seconds, value.microseconds), timedelta),
    range: (lambda value: (value.start, value.stop, value.step), range),
    Fraction: (lambda value: (value.numerator, value.denominator), _make_fraction),
    deque: (lambda value: (tuple(value), value.maxlen), deque),
    defaultdict: (
        lambda value: (value.default_factory, tuple(value.items())),
        _make_defaults,
    ),
    CellContainer: (lambda value: (value.container,), lambda container: container),
}
"""Types of the standard library: how a value is taken apart, and made of its parts."""
_MAKERS = {
    "Generator": _make_generator,
    **{kind.__name__: make for kind, (_, make) in _STANDARD.items()},
}


def _take_values(column: Any) -> object:
    """Return the values of a column or an index as an array, or as their kind and parts."""
    array, dtype, kind = column.array, column.dtype, type(column.dtype).__name__
    pandas = sys.modules["pandas"]
    if kind == "CategoricalDtype":
        return "categories", array.codes, array.categories, bool(array.ordered)
    if kind == "StringDtype":
        missing = "NA" if dtype.na_value is pandas.NA else "nan"
        texts = [each if type(each) is str else None for each in array.tolist()]
        return "texts", dtype.storage, missing, *pack_texts(texts)
    if kind == "PeriodDtype":
        return "periods", array.asi8, str(dtype)
    if kind == "IntervalDtype":
        return "intervals", array.left, array.right, array.closed
    if kind == "DatetimeTZDtype":
        with suppress(TypeError):  # of some zones the text says nothing
            if repr(pandas.api.types.pandas_dtype(str(dtype)).tz) == repr(dtype.tz):
                instants = pandas.DatetimeIndex(array).tz_convert(None)
                return "zoned", instants.to_numpy(), str(dtype)
        raise NotPlainError
    if str(dtype) in _MASKED:
        # Views, as those of other columns are: what was written once is not written "again".
        mask, values = array.isna().view(), array.to_numpy(dtype.numpy_dtype, na_value=0).view()
        return "masked", str(dtype), values, mask
    if not isinstance(dtype, sys.modules["numpy"].dtype):
        raise NotPlainError
    plain = column.to_numpy()
    if not dtype.hasobject:
        return plain
    cells = plain.tolist()
    if all(type(each) is str or each is None for each in cells):
        return "strings", *pack_texts(cells)
    return "objects", [CellContainer(each) if type(each) in IN_CELLS else each for each in cells]


def _put_values(values: object) -> Any:
    pandas, numpy = sys.modules["pandas"], sys.modules["numpy"]
    match values:
        case numpy.ndarray():
            return values
        case ("categories", numpy.ndarray() as codes, pandas.Index() as categories, bool(ordered)):
            return pandas.Categorical.from_codes(codes, categories, ordered)
        case ("masked", str(name), numpy.ndarray() as data, numpy.ndarray() as mask):
            if name in _MASKED:
                return type(pandas.array([], dtype=name))(data, mask)
        case (
            "texts",
            ("python" | "pyarrow") as storage,
            ("nan" | "NA") as missing,
            bytes() as sizes,
            bytes() as data,
        ):
            # The first pandas 2 knows no other missing value than NA, and no name for it.
            other = {"na_value": float("nan")} if missing == "nan" else {}
            dtype = pandas.StringDtype(storage, **other)
            return pandas.array(unpack_texts(sizes, data), dtype=dtype)
        case ("strings", bytes() as sizes, bytes() as data):
            return _make_objects(unpack_texts(sizes, data))
        case ("periods", numpy.ndarray() as ordinals, str(name)) if ordinals.dtype == "i8":
            return pandas.arrays.PeriodArray(ordinals, dtype=pandas.PeriodDtype(name))
        case ("intervals", pandas.Index() as left, pandas.Index() as right, str(closed)):
            return pandas.arrays.IntervalArray.from_arrays(left, right, closed)
        case ("objects", list(items)):
            return _make_objects([e if type(e) in IN_CELLS else _check_label(e) for e in items])
        case ("zoned", numpy.ndarray() as instants, str(name)) if name.startswith("datetime64["):
            if instants.dtype.kind == "M":
                return pandas.DatetimeIndex(instants).tz_localize("UTC").astype(name).array
    raise NotPlainError


def _make_objects(items: Sequence[object]) -> object:
    # Unlike an assignment, this takes no list for a row of cells.
    return sys.modules["numpy"].fromiter(items, object, len(items))


def _check_label(label: Any) -> object:
    """Return a scalar, or a tuple of them; raises NotPlainError for any other label."""
    kind, name = type(label), type(label).__name__
    if kind is tuple:
        return tuple(map(_check_label, label))
    pandas, numpy = sys.modules["pandas"], sys.modules["numpy"]
    is_missing = label is pandas.NaT or label is pandas.NA
    is_span = name in _SPANS and kind is getattr(pandas, name)
    if not (kind in _SCALARS or is_missing or is_span or kind is getattr(numpy, name, None)):
        raise NotPlainError
    return label
