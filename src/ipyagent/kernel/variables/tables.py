"""Captures of tables of pandas, polars and pyarrow, and their difference in a line."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from typing_extensions import override

from ipyagent.kernel.describe.metadata import is_of_module
from ipyagent.kernel.describe.safe_inspect import (
    ancestors,
    module_name,
    one_line,
    own_attributes,
)
from ipyagent.kernel.variables.arrays import count_values
from ipyagent.kernel.variables.captures import (
    Allowance,
    Capture,
    Live,
    Undone,
    are_plain_keys,
    is_equal,
)
from ipyagent.kernel.variables.columns import (
    KINDS,
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
_ATTRS = "attrs"
_AXES = ("index", "columns")
_INDEXED = 100_000
"""Rows up to which the labels of two indexes are looked up in each other."""


_CONTENT = ("_mgr", "_attrs", "_flags", "_name", "_df", "_s")
"""Attributes in which tables of pandas and polars keep what they hold."""


def is_table(value: object) -> bool:
    """Return whether the value is a table or column of a library, also of a subclass.

    Not if a column is of a type that the notebook defines: comparing would run code of the user's.
    """
    plain = plain_table(value)
    if plain is None or kind_of(plain) not in PANDAS:
        return plain is not None
    dtypes = plain.dtypes.array if plain.ndim == 2 else [plain.dtype]
    return all(map(_is_of_library, {id(type(each)): type(each) for each in dtypes}.values()))


def _is_of_library(cls: type) -> bool:
    home = module_name(cls).partition(".")[0]
    return home in {"numpy", "pandas"} or (home != "__main__" and is_of_module(cls))


def plain_table(value: object) -> Any:
    """Return a table as its library's class, with the same content; None if it is not a table."""
    if kind_of(value):
        return value
    tables = [getattr(sys.modules.get(home), name, None) for home, name in KINDS]
    base = next((cls for cls in ancestors(type(value)) if any(cls is t for t in tables)), None)
    own = own_attributes(value)
    if base is None or base is type(value) or not {"_mgr", "_df", "_s"} & own.keys():
        return None
    plain: Any = object.__new__(base)
    vars(plain).update({name: own[name] for name in _CONTENT if name in own})
    vars(plain).update({"_item_cache": {}, "_is_copy": None})  # pandas 2 needs them
    return plain


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
        value = plain_table(value)
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
        self._shares, plain = shares, plain_table(value)
        self._copy = _copy_table(plain, shares=shares)
        self._own = _own_attributes(value)
        axes = plain.axes if kind_of(plain) in PANDAS else ()
        self._axes = [(axis, list(axis.names), _frequency(axis)) for axis in axes]
        for number, axis in enumerate(() if shares else axes):
            setattr(self._copy, _AXES[number], axis.copy(deep=True))
        self._attrs = getattr(plain, _ATTRS, None)
        self._inside: dict[str, ContainerCapture] = {}
        for name, objects in _objects_in(self._attrs, parts):
            with suppress(TooLargeError):
                self._inside[name] = ContainerCapture(objects, capture_inside)
                self._inside[name].is_inside = True

    @classmethod
    def take(
        cls, value: object, allowance: Allowance, capture_inside: Callable[[object], Capture | None]
    ) -> TableCapture | None:
        """Return the capture; None if it may not be copied."""
        is_pandas = kind_of(plain_table(value)) in PANDAS
        shares = not is_pandas or copies_on_write()
        parts = Table.read(value)
        is_small = allowance.spend(parts.nbytes, shares=shares)
        shares &= not (is_pandas and allowance.copies_all)
        return cls(value, parts, capture_inside, shares=shares) if is_small else None

    @cached_property
    def state(self) -> Table:
        """The parts of the copy."""
        return Table.read(self._copy)

    @override
    def forget_if_dead(self) -> None:
        if self.identity.value is None:
            self._copy, self._attrs, self._inside = None, None, {}
            self.__dict__.pop("state", None)

    @override
    def restore(self, live: Live, problems: list[str]) -> object:
        # In place: containers, other names and objects that use the table see it as it was.
        table = self._value
        if self.is_inside and self.is_changed(table):
            _put_back(table, _copy_table(self._copy, shares=self._shares), self._own)
            for inside in self._inside.values():
                inside.restore(live, problems)
            if self._attrs is not None:
                object.__setattr__(table, "_attrs", self._attrs)
            plain = plain_table(table)
            for number, (axis, names, frequency) in enumerate(self._axes):
                axis.names = names  # other tables may share the index
                if frequency is not _frequency(axis):
                    axis.freq = frequency
                kept = self._copy.axes[number]
                setattr(plain, _AXES[number], axis if is_same_index(axis, kept) else kept)
            if (flag := _flag(self._copy)) is not None:
                plain.flags.allows_duplicate_labels = flag
        return table

    @override
    def size(self, live: Collection[int]) -> int:
        if not self.is_held:
            return 0
        is_shared = self._shares and id(self._value) in live
        return self._written_bytes if is_shared else self.state.nbytes

    @cached_property
    def _written_bytes(self) -> int:
        """The bytes of what the call has written, or dropped."""
        kept = _pair_columns(self.state, Table.read(self._value))
        return self.state.nbytes - sum(o.nbytes for o, n in kept if is_same(o.data, n.data))

    @override
    def compare(self, value: object, secret: Secrecy) -> str | None:
        return self.summarize(value, secret) or None  # each change has its words: once is enough

    @override
    def matches(self, found: Capture) -> bool:
        if not isinstance(found, TableCapture) or not super().matches(found):
            return False
        return self._compare(found.state) == ""

    @override
    def describe_return(self, value: object, secret: Secrecy, undone: Undone) -> str:
        if type(value) is not self.type or not is_table(value):
            return ""
        return ", ".join(compare_tables(Table.read(value), self.state, BACK))

    @override
    def summarize(self, value: object, secret: Secrecy) -> str:
        if type(value) is not self.type or not is_table(value):
            return ""
        summary = self._compare(Table.read(value))
        inside = self._compare_inside(value) if self.identity.is_same(value) else ()
        return " · ".join(filter(None, (summary, *inside)))

    def _compare(self, now: Table) -> str:
        return " · ".join(compare_tables(self.state, now, exact=not self._shares))

    def _compare_inside(self, value: object) -> Iterator[str]:
        plain, own = plain_table(value), _own_attributes(value)
        for name, each in self._inside.items():
            is_replaced = name == _ATTRS and getattr(plain, _ATTRS) is not self._attrs
            if is_replaced or each.is_changed(value):
                yield f"{name} changed"
        if own.keys() != self._own.keys() or any(own[n] is not self._own[n] for n in own):
            yield "attributes changed"
        if any(frequency is not _frequency(axis) for axis, _, frequency in self._axes):
            yield "frequency of the labels changed"
        if _flag(plain) != _flag(self._copy):
            yield "flags changed"


def _own_attributes(table: object) -> dict[str, object]:
    """Return the attributes that a table has beside its content, such as those of a subclass."""
    own = own_attributes(table)
    return {name: own[name] for name in own if name not in _CONTENT and name not in _CACHES}


def _copy_table(table: Any, *, shares: bool) -> Any:
    if kind_of(table) in PANDAS:
        return table.copy(deep=not shares)
    return table.clone() if hasattr(table, "clone") else table


def _objects_in(attributes: object, parts: Table) -> Iterator[tuple[str, object]]:
    """Yield what may be changed without writing a cell, which is possible in pandas only."""
    if attributes is None:
        return
    yield _ATTRS, attributes
    columns = [each.data for each in parts.columns if each.dtype == "object"]
    if columns and len(columns) * parts.height <= OBJECTS:
        yield "objects in cells", [each.tolist() for each in columns]


def _flag(table: object) -> object:
    """Return the only flag that a table of pandas has; None for others."""
    return getattr(getattr(table, "flags", None), "allows_duplicate_labels", None)


def _frequency(axis: object) -> object:
    return getattr(axis, "freq", None) if hasattr(axis, "inferred_freq") else None


def _put_back(table: Any, content: Any, own: Mapping[str, object]) -> None:
    """Let a table hold what another one holds, and its `own` attributes."""
    held = own_attributes(content)
    for forget in {"_cache", "_cacher"} & own_attributes(table).keys():
        object.__delattr__(table, forget)
    if "_item_cache" in own_attributes(table):  # pandas 2 keeps columns there
        object.__setattr__(table, "_item_cache", {})
    for gone in _own_attributes(table).keys() - own.keys():
        object.__delattr__(table, gone)
    held = {name: held[name] for name in ("_mgr", "_name", "_df", "_s") if name in held}
    for name, value in (*held.items(), *own.items()):
        object.__setattr__(table, name, value)


def copies_on_write() -> bool:
    """Return whether a copy of a pandas table shares its memory until one of both is written."""
    pandas = sys.modules["pandas"]
    if int(pandas.__version__.partition(".")[0]) >= 3:
        return True
    return pandas.get_option("mode.copy_on_write") is True


@dataclass(frozen=True)
class Words:
    """The words for a difference between two tables."""

    has_size: bool = True
    columns: tuple[str, str] = "+ {}", "- {}"
    rows: str = "{} {}"
    values: str = "{}: {} changed"


FORWARD = Words()
BACK = Words(
    has_size=False,
    columns=("brings back {}", "removes {}"),
    rows="{1} {0}",
    values="{1} in {0}",
)
"""What going back from the first to the second table does."""


def compare_tables(
    before: Table, after: Table, words: Words = FORWARD, *, exact: bool = False
) -> list[str]:
    """Return how two tables differ, part by part. `exact`: all cells are compared."""
    parts = []
    if before.size != after.size and words.has_size:
        parts.append(f"{before.size} → {after.size}{' rows' if before.width is None else ''}")
    pairs = list(_pair_columns(before, after))
    stays, stayed, texts = _align_rows(before, after, words)
    data = [(old.data, new.data) for old, new in pairs]
    is_relabelled = texts and data and before.height == after.height
    if is_relabelled and all(is_same(*each) or count_cells(*each) == 0 for each in data):
        stays, stayed, texts = slice(None), slice(None), ["other row labels"]
    parts += _compare_labels(before, after, pairs, not texts, words)
    suspects = [(old, new) for old, new in pairs if not is_same(old.data, new.data)]
    changed = [f"{o.name}: {o.dtype} → {n.dtype}" for o, n in suspects if o.dtype != n.dtype]
    parts += limit_lines(changed, NAMES, "the types of {} more")
    if stays is not None:
        same_types = [(old, new) for old, new in suspects if old.dtype == new.dtype]
        most = len(suspects) if exact else max(1, CELLS // max(1, before.height))
        parts += _compare_values(same_types, most, stays, stayed, words)
    return [*parts, *texts]


def _align_rows(before: Table, after: Table, words: Words) -> tuple[Any, Any, list[str]]:
    """Return the rows of each that both tables have, in order; None if that is not known.

    And in words, which were dropped, added or reordered.
    """
    one, other, more = before.index, after.index, after.height - before.height
    added, dropped = ("added", "dropped") if words is FORWARD else ("brings back", "removes")
    if not more and (one is None or is_same_index(one, other)):
        return slice(None), slice(None), []
    is_alike = one is not None and one.nlevels == other.nlevels
    is_small = is_alike and max(len(one), len(other)) <= _INDEXED
    if not (is_small and all(_has_safe_labels(i) and i.is_unique for i in (one, other))):
        text = words.rows.format(plural(abs(more), "row"), added if more > 0 else dropped)
        return None, None, [text if more else "other row labels"]
    stays, stayed = one.isin(other), other.isin(one)
    counts = (int((~stays).sum()), dropped), (int((~stayed).sum()), added)
    texts = [words.rows.format(plural(count, "row"), verb) for count, verb in counts if count]
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
    before: Table,
    after: Table,
    pairs: list[tuple[_Column, _Column]],
    same_rows: bool,
    words: Words,
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
    for form, names in zip(words.columns, (added, dropped), strict=True):
        if names:
            noun = "" if words is FORWARD else "column " if len(names) == 1 else "columns "
            yield form.format(noun + join_some(names, NAMES))
    order = [id(other) for _, other in pairs]
    if not gone and not new and order != [id(each) for each in after.columns]:
        yield "columns reordered"
    if before.names != after.names:
        yield "names of the labels changed"


def _compare_values(
    suspects: list[tuple[_Column, _Column]], most: int, stays: Any, stayed: Any, words: Words
) -> Iterator[str]:
    """Yield the columns whose values changed, and how many; `most` columns are looked at."""
    texts = []
    for old, new in suspects[:most]:
        if (count := count_cells(old.data[stays], new.data[stayed])) != 0:
            form = "{1} changed" if old.label is None else words.values
            texts.append(form.format(old.name, count_values(count)))
    yield from limit_lines(texts, NAMES, "values in {} more changed")
    if len(suspects) > most:
        yield f"{len(suspects) - most} more columns were written"


def _has_safe_labels(index: Any) -> bool:
    """Return whether finding labels runs no code of the user's."""
    if index.nlevels > 1:
        return all(map(_has_safe_labels, index.levels))
    return bool(index.dtype != object or index.inferred_type == "string")
