"""Tables of pandas, polars and pyarrow in a snapshot, and their difference in a line.

Columns are compared by the memory that they share, and by the cells in which they differ.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import zip_longest
from typing import Any

from typing_extensions import override

from ipyagent.plaintext import join_some, limit_lines, plural
from ipyagent.redaction import Secrecy
from ipyagent.values.describe.libraries import to_base
from ipyagent.values.describe.safe_inspect import (
    is_a,
    is_of_library,
    module_name,
    one_line,
    own_attributes,
    set_attributes,
)
from ipyagent.values.variables.arrays import (
    OBJECTS,
    ArrayPart,
    count_differences,
    count_values,
    find_owner,
    is_array,
    is_same_memory,
)
from ipyagent.values.variables.parts import CELLS_INSIDE, Opaque, Part, are_plain_keys, is_equal

PANDAS = (("pandas", "DataFrame"), ("pandas", "Series"))
KINDS = (*PANDAS, ("polars", "DataFrame"), ("polars", "Series"), ("pyarrow", "Table"))
_LOADING = ("toPandas", "fetchdf", "collect", "compute", "to_table")
"""Methods of Spark, DuckDB, polars, Dask and Arrow."""

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


def loading_call(value: object) -> str:
    """Return the call by which a table of a library comes into memory; "" if there is none."""
    cls = type(value)
    methods = (*_LOADING, "to_pandas") if hasattr(cls, "columns") else _LOADING
    return next((f".{each}()" for each in methods if callable(getattr(cls, each, None))), "")


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
    return len(find_differences(Column(None, one), Column(None, other)))


def find_differences(one: Column, other: Column) -> Sequence[int]:
    """Return the places at which two columns of pandas of one plain type differ."""
    equal = one.data == other.data
    if hasattr(equal, "to_numpy"):
        equal = equal.to_numpy(dtype=bool, na_value=False)
    differs = ~(equal | (one.data.isna() & other.data.isna()))
    found: Sequence[int] = sys.modules["numpy"].flatnonzero(differs)
    return found


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


NAMES = 5
"""Columns that are named for each kind of change."""

CELLS = 4_000_000
"""Cells of written columns that are counted: more would keep the user waiting."""

_CACHES = frozenset({"_item_cache", "_cacher", "_is_copy", "_cache"})
"""Attributes that pandas finds again."""
_AXES = ("index", "columns")
_WORDS = {
    "_attrs": "attrs changed",
    "allows_duplicate_labels": "flags changed",
    "freq": "frequency of the labels changed",
    "names": "",  # they are compared as a table's
}
"""Changes of attributes and settings."""
_INDEXED = 100_000
"""Rows up to which the labels of two indexes are looked up in each other."""


_CONTENT = ("_mgr", "_name", "_df", "_s")
"""Attributes in which tables of pandas and polars keep what they hold."""


def is_table(value: Any) -> bool:
    """Return whether the value is exactly a table or column of a library.

    Not if a column is of a type that the notebook defines: comparing would run code of the user's.
    """
    if kind_of(value) not in PANDAS:
        return kind_of(value) is not None
    dtypes = value.dtypes.array if value.ndim == 2 else [value.dtype]
    return all(map(_is_of_library, {id(type(each)): type(each) for each in dtypes}.values()))


def _is_of_library(cls: type) -> bool:
    home = module_name(cls).partition(".")[0]
    return home in {"numpy", "pandas"} or is_of_library(cls)


@dataclass(frozen=True)
class Column:
    """A column of a table: its label and its data."""

    label: object
    """None if it is not plain."""
    data: Any

    @property
    def nbytes(self) -> int:
        """The bytes of its data."""
        return int(self.data.estimated_size() if kind_of(self.data) else self.data.nbytes)

    @cached_property
    def dtype(self) -> str:
        """Its type in words."""
        return one_line(str(self.data.type if hasattr(self.data, "type") else self.data.dtype), 40)

    @property
    def name(self) -> str:
        """Its label in words."""
        return one_line(str(self.label), 40) if self.label is not None else "a column"


@dataclass(frozen=True)
class Table:
    """The parts of a table: size, columns, and the labels of rows."""

    height: int
    width: int | None
    columns: Sequence[Column]
    index: Any = None
    names: tuple[object, ...] = ()
    """The names of the labels, as far as they are plain."""

    @classmethod
    def read(cls, value: Any) -> Table:
        """Return the parts of a table of any library."""
        pairs: Iterable[tuple[Any, Any]]
        match kind_of(value):
            case ("pyarrow", _):
                pairs = zip(value.column_names, value.columns, strict=True)
            case (_, "Series"):
                pairs = [(value.name, value)]
            case ("polars", _):
                pairs = [(each.name, each) for each in value.get_columns()]
            case _:
                pairs = value.items()  # one by one: pandas counts all that live
        is_pandas = kind_of(value) in PANDAS
        columns = [Column(_plain(n), each.array if is_pandas else each) for n, each in pairs]
        width = len(columns) if len(value.shape) > 1 else None
        if not is_pandas:
            return cls(len(value), width, columns)
        names = tuple(_plain(name) for axis in value.axes for name in axis.names)
        return cls(len(value), width, columns, value.index, names)

    @property
    def nbytes(self) -> int:
        """The bytes of its columns, without those of objects in them that others may hold."""
        return sum(each.nbytes for each in self.columns)

    @property
    def size(self) -> str:
        """Its size in characters."""
        return f"{self.height:,}" + ("" if self.width is None else f" × {self.width:,}")  # noqa: RUF001


def _plain(label: object) -> object:
    return label if are_plain_keys([label]) else None


class TablePart(Part):
    """A table; a copy of it `shares` its memory until one of both is written."""

    def __init__(self, value: Any) -> None:
        super().__init__(value)
        self._copy, self.state = value, Table.read(value)
        self._is_pandas = kind_of(value) in PANDAS
        self.shares = not self._is_pandas or copies_on_write()
        self.nbytes = self.state.nbytes
        self._attrs = value.attrs if self._is_pandas else None  # pandas makes one
        self._own = _own_attributes(value)
        self._axes = value.axes if self._is_pandas else ()
        settings = _list_settings(value) if self._is_pandas else ()
        self._settings = {(id(each), n): (each, getattr(each, n)) for each, n in settings}

    @override
    def list_inside(self) -> Iterator[tuple[str, object]]:
        """Yield what may be changed without writing a cell, which is possible in pandas only."""
        if self._is_pandas:
            yield "attrs changed", self._attrs
            objects = [each.data for each in self.state.columns if each.dtype == "object"]
            if len(objects) * self.state.height <= OBJECTS:
                yield from ((CELLS_INSIDE, cell) for each in objects for cell in each.tolist())

    @override
    def copy(self, *, wholly: bool) -> None:
        self.shares &= not (self._is_pandas and wholly)
        self._copy = _copy_table(self._copy, shares=self.shares)
        for name, axis in zip(_AXES, () if self.shares else self._axes, strict=False):
            setattr(self._copy, name, axis.copy(deep=True))
        self.state = Table.read(self._copy)

    @override
    def is_state_of(self, now: Part) -> bool:
        return super().is_state_of(now) and self.compare(now) is None

    @override
    def describe(self, now: TablePart, secret: Secrecy) -> str:
        parts = compare_tables(self.state, now.state, exact=not self.shares)
        is_same = self.identity.address == now.identity.address
        return " · ".join([*parts, *(self._compare_attributes(now) if is_same else ())])

    @override
    def put_back(self, value: object) -> None:
        # In place: containers, other names and objects that use the table see it as it was.
        attributes, held = vars(value), vars(_copy_table(self._copy, shares=self.shares))
        kept = {name: held[name] for name in _CONTENT if name in held}
        caches: dict[str, object] = {"_item_cache": {}, "_is_copy": None}  # of pandas 2
        kept |= {name: caches[name] for name in caches if name in attributes}
        attributes.clear()
        attributes.update(self._own | kept)
        for (_, name), (each, setting) in self._settings.items():
            if getattr(each, name) is not setting:  # other tables may share the index
                setattr(each, name, setting)
        for name, axis in zip(_AXES, self._axes, strict=False):
            copied = getattr(self._copy, name)
            setattr(value, name, axis if is_same_index(axis, copied) else copied)

    @override
    def size(self, *, is_live: bool) -> int:
        is_shared = self.shares and is_live
        return 0 if self.value is None else self._written_bytes if is_shared else self.nbytes

    @cached_property
    def _written_bytes(self) -> int:
        """The bytes of what the call has written, or dropped."""
        old, new = key_columns(self.state, Table.read(self.value))
        kept = (old[key] for key in old if key in new and is_same(old[key].data, new[key].data))
        return self.nbytes - sum(each.nbytes for each in kept)

    def _compare_attributes(self, now: TablePart) -> Iterable[str]:
        own, other, held = self._own, now._own, now._settings
        changed = [name for name in own | other if own.get(name) is not other.get(name)]
        for key, (_, setting) in self._settings.items():
            changed += [key[1]] if key in held and held[key][1] is not setting else []
        return dict.fromkeys(filter(None, (_WORDS.get(n, "attributes changed") for n in changed)))


class DerivedPart(Opaque):
    """A table or array of a class made from the library's: its content is only compared."""

    def __init__(self, value: object) -> None:
        super().__init__(value)
        base = read_base(value)
        self._content: list[Part] = [TablePart(e) if is_table(e) else ArrayPart(e) for e in base]
        self.nbytes = sum(each.nbytes for each in self._content)
        self.shares = all(each.shares for each in self._content)

    @override
    def copy(self, *, wholly: bool) -> None:
        for each in self._content:
            each.copy(wholly=wholly)

    @override
    def compare(self, now: Any, secret: Secrecy = Secrecy.NONE) -> str | None:
        pairs = zip_longest(self._content, now._content)
        texts = [one.compare(new, secret) if one and new else "" for one, new in pairs]
        found = [each for each in texts if each is not None]
        return " · ".join(dict.fromkeys(found)) if found else super().compare(now, secret)

    @override
    def trim(self) -> None:
        self._content, self.nbytes = [], 0

    @override
    def size(self, *, is_live: bool) -> int:
        return super().size(is_live=is_live) + (0 if self.shares else self.nbytes)


def read_base(value: object) -> list[Any]:
    """Return the content of a table or array of a subclass, and its mask; [] of all else.

    These are objects of the library's own classes: no code of the subclass runs.
    """
    numpy = sys.modules.get("numpy")
    if numpy is not None and is_a(value, numpy.ndarray):
        masks = filter(is_array, [own_attributes(value).get("_mask")])
        return [numpy.ndarray.view(value, numpy.ndarray), *masks]
    for library, name in KINDS:
        base = getattr(sys.modules.get(library), name, None)
        if base is not None and is_a(value, base):
            return [*filter(is_table, [to_base(value, base)])]
    return []


def _own_attributes(table: object) -> dict[str, object]:
    """Return the attributes of a table beside its content, such as those of the user's."""
    own = set_attributes(table)
    return {name: own[name] for name in own if name not in _CONTENT and name not in _CACHES}


def _copy_table(table: Any, *, shares: bool) -> Any:
    if kind_of(table) in PANDAS:
        return table.copy(deep=not shares)
    return table.clone() if hasattr(table, "clone") else table


def _list_settings(table: Any) -> Iterator[tuple[object, str]]:
    """Yield objects of a table of pandas, and names of their settings."""
    yield table.flags, "allows_duplicate_labels"
    for axis in table.axes:
        yield from ((axis, name) for name in ("names", "freq") if hasattr(axis, name))


def copies_on_write() -> bool:
    """Return whether a copy of a pandas table shares its memory until one of both is written."""
    pandas = sys.modules["pandas"]
    if int(pandas.__version__.partition(".")[0]) >= 3:
        return True
    return pandas.get_option("mode.copy_on_write") is True


def compare_tables(before: Table, after: Table, *, exact: bool = False) -> Iterator[str]:
    """Yield how two tables differ, part by part. `exact`: all cells are compared."""
    old, new = key_columns(before, after)
    pairs = [(old[key], new[key]) for key in old if key in new]
    suspects = [(o, n) for o, n in pairs if not is_same(o.data, n.data)]
    stays, stayed, texts = align_rows(before, after)
    is_relabelled = texts and pairs and before.height == after.height
    if is_relabelled and all(count_cells(o.data, n.data) == 0 for o, n in suspects):
        stays, stayed, texts = slice(None), slice(None), ["other row labels"]
    if before.size != after.size:
        yield f"{before.size} → {after.size}{' rows' if before.width is None else ''}"
    yield from _compare_labels(old, new, same_rows=not texts)
    if before.names != after.names:
        yield "names of the labels changed"
    changed = [f"{o.name}: {o.dtype} → {n.dtype}" for o, n in suspects if o.dtype != n.dtype]
    yield from limit_lines(changed, NAMES, "the types of {} more")
    same_types = [(o, n) for o, n in suspects if o.dtype == n.dtype and stays is not None]
    most = len(suspects) if exact else max(1, CELLS // max(1, before.height))
    values = []
    for o, n in same_types[:most]:
        if (count := count_cells(o.data[stays], n.data[stayed])) != 0:
            label = "" if o.label is None else f"{o.name}: "
            values.append(f"{label}{count_values(count)} changed")
    yield from limit_lines(values, NAMES, "values in {} more changed")
    if len(same_types) > most:
        yield f"{len(same_types) - most} more columns were written"
    yield from texts


def align_rows(before: Table, after: Table) -> tuple[Any, Any, list[str]]:
    """Return the rows of each that both tables have, in order; None if that is not known.

    And in words, which were dropped, added or reordered.
    """
    one, other, more = before.index, after.index, after.height - before.height
    if not more and (one is None or is_same_index(one, other)):
        return slice(None), slice(None), []
    is_alike = one is not None and one.nlevels == other.nlevels
    is_small = is_alike and max(len(one), len(other)) <= _INDEXED
    if not (is_small and all(has_safe_labels(i) and i.is_unique for i in (one, other))):
        text = f"{plural(abs(more), 'row')} {'added' if more > 0 else 'dropped'}"
        return None, None, [text if more else "other row labels"]
    stays, stayed = one.isin(other), other.isin(one)
    counts = (int((~stays).sum()), "dropped"), (int((~stayed).sum()), "added")
    texts = [f"{plural(count, 'row')} {verb}" for count, verb in counts if count]
    if one[stays].equals(other[stayed]):
        return stays, stayed, texts
    return None, None, texts or ["rows reordered"]


_Keyed = dict[tuple[object, int], Column]


def key_columns(*tables: Table) -> list[_Keyed]:
    """Return the columns, each by its label and how many before it have that label, too.

    By position if labels are no names.
    """
    labels = [each.label for table in tables for each in table.columns]
    is_by_label = tables[0].width is not None and None not in labels
    found: list[_Keyed] = []
    for table in tables:
        counts = Counter[object]()
        found.append({})
        for each in table.columns:
            label = each.label if is_by_label else None
            found[-1][label, counts[label]] = each
            counts[label] += 1
    return found


def _compare_labels(old: _Keyed, new: _Keyed, *, same_rows: bool) -> Iterator[str]:
    pairs = [(key, key) for key in old if key in new]
    gone, came = [key for key in old if key not in new], [key for key in new if key not in old]
    if same_rows and max(len(gone), len(came)) <= NAMES:  # one that holds the very same is renamed
        pairs += [(k, n) for k in gone for n in came if is_same(old[k].data, new[n].data)]
    # Hashed first: some missing labels cannot be compared with others.
    labels = [(old[key], new[other]) for key, other in pairs]
    others = [
        (o, n) for o, n in labels if {o.label} != {n.label} and not is_equal(o.label, n.label)
    ]
    renamed = [f"{o.name} renamed {n.name}" for o, n in others]
    yield from limit_lines(renamed, NAMES, "{} more renamed")
    stay, stayed = ({pair[side] for pair in pairs} for side in (0, 1))
    added = [f"{new[key].name} ({new[key].dtype})" for key in came if key not in stayed]
    dropped = [old[key].name for key in gone if key not in stay]
    for sign, names in ("+", added), ("-", dropped):
        if names:
            yield f"{sign} {join_some(names, NAMES)}"
    if not gone and not came and [id(new[key]) for key in old] != [*map(id, new.values())]:
        yield "columns reordered"


def has_safe_labels(index: Any) -> bool:
    """Return whether finding labels runs no code of the user's."""
    if index.nlevels > 1:
        return all(map(has_safe_labels, index.levels))
    return bool(index.dtype != object or index.inferred_type == "string")
