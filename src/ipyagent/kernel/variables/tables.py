"""Captures of tables of pandas, polars and pyarrow, and their difference in a line."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from typing_extensions import override

from ipyagent.kernel.describe.libraries import pandas_memory
from ipyagent.kernel.describe.safe_inspect import module_name, one_line
from ipyagent.kernel.variables.arrays import count_values
from ipyagent.kernel.variables.captures import Allowance, Capture
from ipyagent.kernel.variables.columns import count_cells, is_polars, is_same, is_same_index
from ipyagent.kernel.variables.plain_values import are_plain_keys, is_equal
from ipyagent.phrases import join_some, plural
from ipyagent.redaction import Secrecy

NAMES = 5
"""Columns that are named for each kind of change."""

CELLS = 4_000_000
"""Cells of written columns that are counted: more would keep the user waiting."""

_INDEXED = 100_000
"""Rows up to which the labels of two indexes are looked up in each other."""


def _is_pandas(value: object, *names: str) -> bool:
    pandas = sys.modules.get("pandas")
    return pandas is not None and any(type(value) is getattr(pandas, name) for name in names)


def is_table(value: Any) -> bool:
    """Return whether the value is exactly a table or column of a library, with its own storage."""
    if is_polars(value, "DataFrame", "Series") or is_arrow(value):
        return True
    if not _is_pandas(value, "DataFrame", "Series"):
        return False
    series = _is_pandas(value, "Series")
    dtypes = [value.dtype] if series else {id(each): each for each in value.dtypes.array}.values()
    return all(module_name(type(each)).partition(".")[0] in {"numpy", "pandas"} for each in dtypes)


def is_arrow(value: object) -> bool:
    """Return whether the value is exactly a table of pyarrow, which never changes."""
    return type(value) is getattr(sys.modules.get("pyarrow"), "Table", None)


@dataclass(frozen=True)
class _Column:
    label: object
    """None if it is not plain."""
    data: Any

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
        if is_arrow(value):
            columns = [*map(_Column, value.column_names, value.columns)]
            return cls(value.num_rows, value.num_columns, columns)
        if is_polars(value, "Series"):
            return cls(value.len(), None, [_Column(value.name, value)])
        if is_polars(value, "DataFrame"):
            columns = [_Column(each.name, each) for each in value.get_columns()]
            return cls(value.height, value.width, columns)
        series = _is_pandas(value, "Series")
        items = [(value.name, value)] if series else value.items()
        columns = [_Column(_plain(label), each.array) for label, each in items]
        names = [name for axis in value.axes for name in axis.names]
        width = None if series else len(columns)
        return cls(len(value.index), width, columns, value.index, tuple(map(_plain, names)))

    @property
    def size(self) -> str:
        """Its size in characters."""
        return f"{self.height:,}" + ("" if self.width is None else f" × {self.width:,}")  # noqa: RUF001


def _plain(label: object) -> object:
    return label if are_plain_keys([label]) else None


class TableCapture(Capture):
    """A copy of a table, which `shares` its memory until one of both is written."""

    can_rebind = True

    def __init__(self, value: Any, *, shares: bool) -> None:
        super().__init__(value)
        self._shares = shares
        if is_arrow(value):
            self._copy = value
        elif is_polars(value, "DataFrame", "Series"):
            self._copy = value.clone()
        else:
            self._copy = value.copy(deep=not shares)

    @classmethod
    def take(cls, value: Any, allowance: Allowance) -> TableCapture | None:
        """Return the capture; None if it may not be copied."""
        if not _is_pandas(value, "DataFrame", "Series"):
            return cls(value, shares=True)
        frame = _is_pandas(value, "DataFrame")
        size = pandas_memory(value) if frame else int(value.memory_usage())
        if _copies_on_write():
            return cls(value, shares=True) if size <= allowance.limit else None
        return cls(value, shares=False) if allowance.spend(size) else None

    @cached_property
    def state(self) -> Table:
        """The parts of the copy."""
        return Table.read(self._copy)

    @override
    def is_changed(self, value: object) -> bool:
        return bool(self.summarize(value, Secrecy.NONE))

    @override
    def summarize(self, value: object, secret: Secrecy) -> str:
        if type(value) is not self.type or not is_table(value):
            return ""
        return compare_tables(self.state, Table.read(value), exact=not self._shares)


def _copies_on_write() -> bool:
    """Return whether a copy of a pandas table shares its memory until one of both is written."""
    pandas = sys.modules["pandas"]
    if int(pandas.__version__.partition(".")[0]) >= 3:
        return True
    return pandas.get_option("mode.copy_on_write") is True


def compare_tables(before: Table, after: Table, *, exact: bool = False) -> str:
    """Return how two tables differ; "" if they do not. `exact`: all cells are compared."""
    parts = []
    if before.size != after.size:
        noun = " rows" if before.width is None else ""
        parts.append(f"{before.size} → {after.size}{noun}")
    same_rows = before.height == after.height and (
        before.index is None or is_same_index(before.index, after.index)
    )
    pairs = list(_pair_columns(before, after))
    parts += _compare_labels(before, after, pairs, same_rows)
    suspects = [(old, new) for old, new in pairs if not is_same(old.data, new.data)]
    types = [f"{o.name}: {o.dtype} → {n.dtype}" for o, n in suspects if o.dtype != n.dtype]
    parts += types[:NAMES]
    if len(types) > NAMES:
        parts.append(f"the types of {len(types) - NAMES} more")
    moves = None if same_rows else _find_moves(before.index, after.index)
    if same_rows or moves is not None:
        same_types = [(old, new) for old, new in suspects if old.dtype == new.dtype]
        if moves is not None and moves.reordered:
            same_types = []
        most = len(suspects) if exact else max(1, CELLS // max(1, before.height))
        parts += _compare_values(same_types, most, moves)
    if not same_rows:
        parts += _count_rows(after.height - before.height, moves)
    return " · ".join(parts)


def _pair_columns(before: Table, after: Table) -> Iterator[tuple[_Column, _Column]]:
    """Yield the columns that both tables have, by label; by position if labels are no names."""
    labels = [[each.label for each in table.columns] for table in (before, after)]
    unnamed = before.width is None or any(None in each for each in labels)
    if unnamed or any(len({*each}) < len(each) for each in labels):
        if len(before.columns) == len(after.columns):
            yield from zip(before.columns, after.columns, strict=True)
        return
    known = {each.label: each for each in after.columns}
    yield from ((each, known[each.label]) for each in before.columns if each.label in known)


def _compare_labels(
    before: Table, after: Table, pairs: list[tuple[_Column, _Column]], same_rows: bool
) -> Iterator[str]:
    stay = {id(each) for pair in pairs for each in pair}
    gone = [each for each in before.columns if id(each) not in stay]
    new = [each for each in after.columns if id(each) not in stay]
    relabelled = [(o, n) for o, n in pairs if not is_equal(o.label, n.label)]
    if same_rows and max(len(gone), len(new)) <= NAMES:  # one that holds the very same is renamed
        relabelled += [(o, n) for o in gone for n in new if is_same(o.data, n.data)]
    stay |= {id(each) for pair in relabelled for each in pair}
    yield from (f"{o.name} renamed {n.name}" for o, n in relabelled[:NAMES])
    if len(relabelled) > NAMES:
        yield f"{len(relabelled) - NAMES} more renamed"
    if added := [f"{each.name} ({each.dtype})" for each in new if id(each) not in stay]:
        yield f"+ {join_some(added, NAMES)}"
    if dropped := [each.name for each in gone if id(each) not in stay]:
        yield f"- {join_some(dropped, NAMES)}"
    order = [id(other) for _, other in pairs]
    if not gone and not new and order != [id(each) for each in after.columns]:
        yield "columns reordered"
    if before.names != after.names:
        yield "names of the labels changed"


def _compare_values(
    suspects: list[tuple[_Column, _Column]], most: int, moves: _Moves | None
) -> Iterator[str]:
    """Yield the columns whose values changed, and how many; `most` columns are looked at."""
    changed = []
    for old, new in suspects[:most]:
        pair = (old.data, new.data)
        if moves is not None:
            pair = (old.data[moves.stays], new.data[moves.stayed])
        if (count := count_cells(*pair)) != 0:
            changed.append((old, count))
    for old, count in changed[:NAMES]:
        text = f"{count_values(count)} changed"
        yield f"{old.name}: {text}" if old.label is not None else text
    if len(changed) > NAMES:
        yield f"values in {len(changed) - NAMES} more changed"
    if len(suspects) > most:
        yield f"{len(suspects) - most} more columns were written"


class _Moves(NamedTuple):
    """The rows that both of two tables have, as masks of each."""

    stays: Any
    stayed: Any
    reordered: bool


def _count_rows(more: int, moves: _Moves | None) -> Iterator[str]:
    """Yield what became of the rows, of which there are that many more."""
    dropped, added = max(0, -more), max(0, more)
    if moves is not None:
        dropped, added = (len(mask) - int(mask.sum()) for mask in moves[:2])
    if dropped:
        yield f"{plural(dropped, 'row')} dropped"
    if added:
        yield f"{plural(added, 'row')} added"
    if not dropped and not added:
        yield "rows reordered" if moves is not None else "other row labels"


def _find_moves(one: Any, other: Any) -> _Moves | None:
    """Return which rows two indexes share; None if only the number of rows tells."""
    if one is None or max(len(one), len(other)) > _INDEXED:
        return None
    if not all(_has_safe_labels(index) and index.is_unique for index in (one, other)):
        return None
    stays, stayed = one.isin(other), other.isin(one)
    return _Moves(stays, stayed, not one[stays].equals(other[stayed]))


def _has_safe_labels(index: Any) -> bool:
    """Return whether finding labels runs no code of the user's."""
    if index.nlevels > 1:
        return all(map(_has_safe_labels, index.levels))
    return bool(index.dtype != object or index.inferred_type == "string")
