"""Captures of tables of pandas, polars and pyarrow, and their difference in a line."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from typing_extensions import override

from ipyagent.kernel.describe.metadata import is_of_module
from ipyagent.kernel.describe.safe_inspect import (
    module_name,
    one_line,
    set_attributes,
)
from ipyagent.kernel.variables.arrays import count_values
from ipyagent.kernel.variables.captures import (
    Allowance,
    Capture,
    Live,
    are_plain_keys,
    is_equal,
)
from ipyagent.kernel.variables.columns import (
    PANDAS,
    count_cells,
    is_same,
    is_same_index,
    kind_of,
)
from ipyagent.kernel.variables.containers import ContainerCapture, TooLargeError
from ipyagent.phrases import join_some, limit_lines, plural
from ipyagent.redaction import Secrecy

NAMES = 5
"""Columns that are named for each kind of change."""

CELLS = 4_000_000
"""Cells of written columns that are counted: more would keep the user waiting."""

OBJECTS = 10_000
"""Cells of a table that are looked into if they hold objects."""

_CACHES = frozenset({"_item_cache", "_cacher", "_is_copy", "_cache"})
"""Attributes that pandas finds again."""
_AXES = ("index", "columns")
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
    return home in {"numpy", "pandas"} or (home != "__main__" and is_of_module(cls))


@dataclass(frozen=True)
class _Column:
    label: object
    """None if it is not plain."""
    data: Any

    @property
    def nbytes(self) -> int:
        return int(self.data.estimated_size() if kind_of(self.data) else self.data.nbytes)

    @cached_property
    def dtype(self) -> str:
        return one_line(str(self.data.type if hasattr(self.data, "type") else self.data.dtype), 40)

    @property
    def name(self) -> str:
        return one_line(str(self.label), 40) if self.label is not None else "a column"


@dataclass(frozen=True)
class Table:
    """The parts of a table: size, columns, and the labels of rows."""

    height: int
    width: int | None
    columns: Sequence[_Column]
    index: Any = None
    names: tuple[object, ...] = ()
    """The names of the labels, as far as they are plain."""

    @classmethod
    def read(cls, value: Any) -> Table:
        """Return the parts of a table of any library."""
        match kind_of(value):
            case ("pyarrow", _):
                columns = [*map(_Column, value.column_names, value.columns)]
                return cls(value.num_rows, len(columns), columns)
            case ("polars", "Series"):
                return cls(value.len(), None, [_Column(value.name, value)])
            case ("polars", _):
                columns = [_Column(each.name, each) for each in value.get_columns()]
                return cls(value.height, len(columns), columns)
        is_series = kind_of(value) == ("pandas", "Series")
        series = [(value.name, value)] if is_series else value.items()
        columns = [_Column(_plain(label), each.array) for label, each in series]
        names = tuple(_plain(name) for axis in value.axes for name in axis.names)
        width = None if is_series else len(columns)
        return cls(len(value.index), width, columns, value.index, names)

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


class TableCapture(Capture):
    """A copy of a table, which `shares` its memory until one of both is written."""

    def __init__(
        self,
        value: Any,
        parts: Table,
        capture_inside: Callable[[object], Capture | None],
        *,
        shares: bool,
    ) -> None:
        super().__init__(value)
        self._shares, self._copy = shares, _copy_table(value, shares=shares)
        self._own = _own_attributes(value)
        axes = value.axes if kind_of(value) in PANDAS else ()
        self._axes = [(axis, list(axis.names), _frequency(axis)) for axis in axes]
        for number, axis in enumerate(() if shares else axes):
            setattr(self._copy, _AXES[number], axis.copy(deep=True))
        self.state: Table = Table.read(self._copy)
        self._inside: dict[str, ContainerCapture] = {}
        for name, objects in _objects_in(value, parts):
            with suppress(TooLargeError):
                self._inside[name] = ContainerCapture(objects, capture_inside)
                self._inside[name].is_inside = True

    @classmethod
    def take(
        cls, value: object, allowance: Allowance, capture_inside: Callable[[object], Capture | None]
    ) -> TableCapture | None:
        """Return the capture; None if it may not be copied."""
        is_pandas = kind_of(value) in PANDAS
        shares = not is_pandas or copies_on_write()
        parts = Table.read(value)
        is_small = allowance.spend(parts.nbytes, shares=shares)
        shares &= not (is_pandas and allowance.copies_all)
        return cls(value, parts, capture_inside, shares=shares) if is_small else None

    @override
    def read(self, value: Any) -> Table | None:
        return Table.read(value) if type(value) is self.type and is_table(value) else None

    @override
    def differences(self, before: Table, after: Table, secret: Secrecy) -> str:
        return " · ".join(compare_tables(before, after, exact=not self._shares))

    @override
    def forget_if_dead(self) -> None:
        if self.identity.value is None:
            self._copy, self._own, self._inside = None, {}, {}
            self.state = Table(0, 0, ())

    @override
    def restore(self, live: Live, problems: list[str]) -> object:
        # In place: containers, other names and objects that use the table see it as it was.
        table = self._value
        if self.is_inside and self.is_changed(table):
            self._put_back(table)
            for inside in self._inside.values():
                inside.restore(live, problems)
            for number, (axis, names, frequency) in enumerate(self._axes):
                axis.names = names  # other tables may share the index
                if frequency is not _frequency(axis):
                    axis.freq = frequency
                kept = self._copy.axes[number]
                setattr(table, _AXES[number], axis if is_same_index(axis, kept) else kept)
            if (flag := _flag(self._copy)) is not None:
                table.flags.allows_duplicate_labels = flag
        return table

    def _put_back(self, table: Any) -> None:
        attributes, held = vars(table), vars(_copy_table(self._copy, shares=self._shares))
        kept = {name: held[name] for name in _CONTENT if name in held}
        caches: dict[str, object] = {"_item_cache": {}, "_is_copy": None}  # of pandas 2
        kept |= {name: caches[name] for name in caches if name in attributes}
        attributes.clear()
        attributes.update(self._own | kept)

    @override
    def size(self, live: Collection[int]) -> int:
        is_shared = self._shares and id(self._value) in live
        return 0 if not self.is_held else self._written_bytes if is_shared else self.state.nbytes

    @cached_property
    def _written_bytes(self) -> int:
        """The bytes of what the call has written, or dropped."""
        kept = _pair_columns(self.state, Table.read(self._value))
        return self.state.nbytes - sum(o.nbytes for o, n in kept if is_same(o.data, n.data))

    @override
    def summarize(self, value: object, secret: Secrecy) -> str:
        inside = self._compare_inside(value) if self.identity.is_same(value) else ()
        return " · ".join(filter(None, (super().summarize(value, secret), *inside)))

    def _compare_inside(self, value: object) -> Iterator[str]:
        own = _own_attributes(value)
        changed = {name for name in own | self._own if own.get(name) is not self._own.get(name)}
        for name, each in self._inside.items():
            if f"_{name}" in changed or each.is_changed(value):
                yield f"{name} changed"
        if changed - {"_attrs"}:
            yield "attributes changed"
        if any(frequency is not _frequency(axis) for axis, _, frequency in self._axes):
            yield "frequency of the labels changed"
        if _flag(value) != _flag(self._copy):
            yield "flags changed"


def _own_attributes(table: object) -> dict[str, object]:
    """Return the attributes of a table beside its content, such as those of the user's."""
    own = set_attributes(table)
    return {name: own[name] for name in own if name not in _CONTENT and name not in _CACHES}


def _copy_table(table: Any, *, shares: bool) -> Any:
    if kind_of(table) in PANDAS:
        return table.copy(deep=not shares)
    return table.clone() if hasattr(table, "clone") else table


def _objects_in(table: Any, parts: Table) -> Iterator[tuple[str, object]]:
    """Yield what may be changed without writing a cell, which is possible in pandas only."""
    if kind_of(table) not in PANDAS:
        return
    yield "attrs", table.attrs
    columns = [each.data for each in parts.columns if each.dtype == "object"]
    if columns and len(columns) * parts.height <= OBJECTS:
        yield "objects in cells", [each.tolist() for each in columns]


def _flag(table: object) -> object:
    """Return the only flag that a table of pandas has; None for others."""
    return getattr(getattr(table, "flags", None), "allows_duplicate_labels", None)


def _frequency(axis: object) -> object:
    return getattr(axis, "freq", None) if hasattr(axis, "inferred_freq") else None


def copies_on_write() -> bool:
    """Return whether a copy of a pandas table shares its memory until one of both is written."""
    pandas = sys.modules["pandas"]
    if int(pandas.__version__.partition(".")[0]) >= 3:
        return True
    return pandas.get_option("mode.copy_on_write") is True


def compare_tables(before: Table, after: Table, *, exact: bool = False) -> list[str]:
    """Return how two tables differ, part by part. `exact`: all cells are compared."""
    parts = []
    if before.size != after.size:
        parts.append(f"{before.size} → {after.size}{' rows' if before.width is None else ''}")
    pairs = list(_pair_columns(before, after))
    stays, stayed, texts = _align_rows(before, after)
    data = [(old.data, new.data) for old, new in pairs]
    is_relabelled = texts and data and before.height == after.height
    if is_relabelled and all(is_same(*each) or count_cells(*each) == 0 for each in data):
        stays, stayed, texts = slice(None), slice(None), ["other row labels"]
    parts += _compare_labels(before, after, pairs, not texts)
    suspects = [(old, new) for old, new in pairs if not is_same(old.data, new.data)]
    changed = [f"{o.name}: {o.dtype} → {n.dtype}" for o, n in suspects if o.dtype != n.dtype]
    parts += limit_lines(changed, NAMES, "the types of {} more")
    if stays is not None:
        same_types = [(old, new) for old, new in suspects if old.dtype == new.dtype]
        most = len(suspects) if exact else max(1, CELLS // max(1, before.height))
        parts += _compare_values(same_types, most, stays, stayed)
    return [*parts, *texts]


def _align_rows(before: Table, after: Table) -> tuple[Any, Any, list[str]]:
    """Return the rows of each that both tables have, in order; None if that is not known.

    And in words, which were dropped, added or reordered.
    """
    one, other, more = before.index, after.index, after.height - before.height
    if not more and (one is None or is_same_index(one, other)):
        return slice(None), slice(None), []
    is_alike = one is not None and one.nlevels == other.nlevels
    is_small = is_alike and max(len(one), len(other)) <= _INDEXED
    if not (is_small and all(_has_safe_labels(i) and i.is_unique for i in (one, other))):
        text = f"{plural(abs(more), 'row')} {'added' if more > 0 else 'dropped'}"
        return None, None, [text if more else "other row labels"]
    stays, stayed = one.isin(other), other.isin(one)
    counts = (int((~stays).sum()), "dropped"), (int((~stayed).sum()), "added")
    texts = [f"{plural(count, 'row')} {verb}" for count, verb in counts if count]
    if one[stays].equals(other[stayed]):
        return stays, stayed, texts
    return None, None, texts or ["rows reordered"]


def _pair_columns(before: Table, after: Table) -> Iterator[tuple[_Column, _Column]]:
    """Yield the columns that both tables have, by label; by position if labels are no names."""
    labels = [each.label for table in (before, after) for each in table.columns]
    if before.width is None or None in labels:
        if len(before.columns) == len(after.columns):
            yield from zip(before.columns, after.columns, strict=True)
        return
    known = dict(_number_columns(after))
    yield from ((each, known[key]) for key, each in _number_columns(before) if key in known)


def _number_columns(table: Table) -> Iterator[tuple[tuple[object, int], _Column]]:
    """Yield the columns, each with its label and how many before it have that label, too."""
    counts = Counter[object]()
    for each in table.columns:
        yield (each.label, counts[each.label]), each
        counts[each.label] += 1


def _compare_labels(
    before: Table, after: Table, pairs: list[tuple[_Column, _Column]], same_rows: bool
) -> Iterator[str]:
    stay, matched = {id(each) for pair in pairs for each in pair}, [*pairs]
    gone = [each for each in before.columns if id(each) not in stay]
    new = [each for each in after.columns if id(each) not in stay]
    if same_rows and max(len(gone), len(new)) <= NAMES:  # one that holds the very same is renamed
        matched += [(o, n) for o in gone for n in new if is_same(o.data, n.data)]
    stay |= {id(each) for pair in matched for each in pair}
    # Hashed first: some missing labels cannot be compared with others.
    others = [
        (o, n) for o, n in matched if {o.label} != {n.label} and not is_equal(o.label, n.label)
    ]
    renamed = [f"{o.name} renamed {n.name}" for o, n in others]
    yield from limit_lines(renamed, NAMES, "{} more renamed")
    added = [f"{each.name} ({each.dtype})" for each in new if id(each) not in stay]
    dropped = [each.name for each in gone if id(each) not in stay]
    for sign, names in ("+", added), ("-", dropped):
        if names:
            yield f"{sign} {join_some(names, NAMES)}"
    order = [id(other) for _, other in pairs]
    if not gone and not new and order != [id(each) for each in after.columns]:
        yield "columns reordered"
    if before.names != after.names:
        yield "names of the labels changed"


def _compare_values(
    suspects: list[tuple[_Column, _Column]], most: int, stays: Any, stayed: Any
) -> Iterator[str]:
    """Yield the columns whose values changed, and how many; `most` columns are looked at."""
    texts = []
    for old, new in suspects[:most]:
        if (count := count_cells(old.data[stays], new.data[stayed])) != 0:
            label = "" if old.label is None else f"{old.name}: "
            texts.append(f"{label}{count_values(count)} changed")
    yield from limit_lines(texts, NAMES, "values in {} more changed")
    if len(suspects) > most:
        yield f"{len(suspects) - most} more columns were written"


def _has_safe_labels(index: Any) -> bool:
    """Return whether finding labels runs no code of the user's."""
    if index.nlevels > 1:
        return all(map(_has_safe_labels, index.levels))
    return bool(index.dtype != object or index.inferred_type == "string")
