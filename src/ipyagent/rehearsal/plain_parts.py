"""Values taken apart into plain parts, and put together again.

Tables, columns and indexes of pandas, its moments and spans of time, and what the standard library
has of numbers, times and containers.
"""

from __future__ import annotations

import builtins
import sys
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple
from uuid import UUID

from ipyagent.rehearsal.plain_cells import (
    NotPlainError,
    make_polars,
    pack_texts,
    take_polars,
    unpack_texts,
)
from ipyagent.values.describe.safe_inspect import module_name
from ipyagent.values.variables.parts import are_plain_keys

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
_IN_CELLS = frozenset({list, dict, set})
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
    if kind in _TEXTS:
        return kind.__name__, _spell(value)
    if kind is CellContainer:
        return "held", value.container
    if kind is timedelta:
        return "timedelta", value.days, value.seconds, value.microseconds
    if kind is Fraction:
        return "Fraction", value.numerator, value.denominator
    if kind is range:
        return "range", value.start, value.stop, value.step
    if kind is Counter or kind is OrderedDict:
        return kind.__name__, tuple(value.items())
    if kind is defaultdict:
        return "defaultdict", value.default_factory, tuple(value.items())
    if kind is deque:
        return "deque", tuple(value), value.maxlen
    if module_name(kind) == "numpy.random._generator":
        return "generator", *_take_generator(value)
    if module_name(kind).partition(".")[0] == "polars":
        return take_polars(value)
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


def list_held(value: Any) -> list[object]:
    """Return what a list, a tuple, the values of a dict or the cells of a table hold, in order.

    Of cells only the containers.
    """
    kind, pandas = type(value), sys.modules.get("pandas")
    if kind is list or kind is tuple:
        return [*value]
    if kind in (dict, Counter, OrderedDict, defaultdict):
        return [*dict.values(value)]
    if pandas is not None and kind is pandas.DataFrame:
        columns = (value.iloc[:, number] for number in range(value.shape[1]))
        return [cell for column in columns for cell in list_held(column)]
    if pandas is not None and kind is pandas.Series and value.dtype == object:
        return [each for each in value.tolist() if type(each) in _IN_CELLS]
    return []


def _read_pairs(items: object) -> dict[Any, Any]:
    """Return the dict of pairs; raises NotPlainError for any that came from elsewhere."""
    if type(items) is not tuple or any(type(each) is not tuple for each in items):
        raise NotPlainError
    check_keys([key for key, _ in items])
    return dict(items)


def _make_counter(items: object) -> object:
    return Counter(_read_pairs(items))


def _make_ordered(items: object) -> object:
    return OrderedDict(_read_pairs(items))


def _make_defaults(factory: Any, items: object) -> object:
    if factory is None or vars(builtins).get(factory.__name__) is factory:
        return defaultdict(factory, _read_pairs(items))
    raise NotPlainError  # it is called for each key that is missing


def _make_queue(items: object, most: int | None) -> object:
    if type(items) is not tuple:
        raise NotPlainError
    return deque(items, most)


def _make_fraction(over: object, under: object) -> object:
    if type(over) is not int or type(under) is not int:
        raise NotPlainError
    return over / Fraction(1) / under


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


def _make_timestamp(moment: object, zone: str | None) -> object:
    stamp = sys.modules["pandas"].Timestamp(moment)
    return stamp if zone is None else stamp.tz_localize("UTC").tz_convert(zone)


def _take_table(value: Any, pandas: ModuleType) -> tuple[object, ...]:
    """Return the kind of a table, column or index, and its parts; raises NotPlainError."""
    if type(value) in (pandas.DataFrame, pandas.Series):
        if value.attrs or not value.flags.allows_duplicate_labels:
            raise NotPlainError
        if type(value) is pandas.Series:
            return "column", _take_values(value), value.index, value.name
        columns = [_take_values(value.iloc[:, i]) for i in range(value.shape[1])]
        return "table", columns, value.columns, value.index
    if pandas is None or not isinstance(value, pandas.Index):
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
    if kind.startswith("polars "):
        return make_polars(kind, parts)
    pandas = sys.modules["pandas"]
    match kind, parts:
        case "Timestamp", [moment, (None | str()) as zone]:
            return _make_timestamp(moment, zone)
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


_MAKERS: Mapping[str, Callable[..., object]] = {
    **{kind.__name__: read for kind, read in _TEXTS.items()},
    "timedelta": timedelta,
    "range": range,
    "Fraction": _make_fraction,
    "Counter": _make_counter,
    "OrderedDict": _make_ordered,
    "deque": _make_queue,
    "defaultdict": _make_defaults,
    "generator": _make_generator,
    "held": lambda container: container,
}
"""Functions that make a value of its parts."""


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
    return "objects", [CellContainer(each) if type(each) in _IN_CELLS else each for each in cells]


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
            return _make_objects([e if type(e) in _IN_CELLS else _check_label(e) for e in items])
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
