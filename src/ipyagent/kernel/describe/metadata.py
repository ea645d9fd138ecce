"""Descriptions by metadata: data that is large, lazy or elsewhere is described and never read."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from ipyagent.kernel.describe.safe_inspect import class_dict, module_name, one_line, type_name
from ipyagent.kernel.describe.table import COLUMNS, NAMED, align_columns, label_text
from ipyagent.phrases import human_size

T = TypeVar("T")

ENTRIES = 20
"""Tables, arrays or groups inside that are named in a line."""
NOT_COMPUTED = "not computed"


@dataclass(frozen=True)
class LazyTable:
    """A table that nobody has computed: its columns, and facts about it."""

    kind: str
    columns: Sequence[tuple[str, str]] | None
    """Labels and types; None: they cannot be known without computing."""
    facts: Sequence[str]
    """Size, partitions, place: shortest first."""
    library: str
    more: Sequence[str] = ()
    """Facts that are given in detail only."""

    def text(self, detail: bool) -> str:
        """Return it in one line, or in detail with a line for each column."""
        tail = f", {', '.join(self.facts)} [{self.library}]"
        if self.columns is None:
            return f"{self.kind}{tail}" + "".join(f"\n{each}" for each in self.more if detail)
        head = f"{self.kind}, {len(self.columns):,} columns"
        if not detail:
            return f"{head} ({_name_columns(self.columns)}){tail}"
        rows = [["column", "dtype"], *([*each] for each in self.columns[:COLUMNS])]
        if len(self.columns) > COLUMNS:
            rows.append([f"… {len(self.columns) - COLUMNS:,} more"])
        return "\n".join([head + tail, *self.more, "", align_columns(rows)])


def _name_columns(columns: Sequence[tuple[str, str]]) -> str:
    named = [f"{label}: {dtype}" for label, dtype in columns[:NAMED]]
    if len(columns) > NAMED:
        named.append(f"… {len(columns) - NAMED:,} more")
    return ", ".join(named)


def describe_entries(head: str, entries: Sequence[str], count: int, detail: bool) -> str:
    """Return what lies in a database, file or group, behind the words for it.

    `entries` are the first of `count`.
    """
    more = [f"… {count - len(entries):,} more"] if count > len(entries) else []
    if detail:
        return "\n".join([head, *(f"  {each}" for each in (*entries, *more))])
    return f"{head}: {'; '.join([*entries, *more])}" if entries else head


def name_types(types: Iterable[tuple[object, object]], *homes: str) -> list[tuple[str, str]]:
    """Return the columns of a lazy table, from their labels and types."""
    return [(label_text(label), dtype_text(dtype, *homes)) for label, dtype in types]


def dtype_text(dtype: object, *homes: str) -> str:
    """Return a type's text if its class is one of the `homes`' own, else the class's name."""
    cls = type(dtype)
    if cls is str:
        return one_line(str(dtype))
    return one_line(str(dtype)) if is_library_class(cls, *homes) else type_name(cls)


def is_library_class(cls: type, *homes: str) -> bool:
    """Return whether the class is really one of these packages' own, whatever it says of itself."""
    return module_name(cls).partition(".")[0] in homes and is_of_module(cls)


def is_of_module(cls: type) -> bool:
    """Return whether the module that a class names has this very class under its name."""
    module = sys.modules.get(module_name(cls))
    return module is not None and class_dict_of(module).get(type_name(cls)) is cls


def class_dict_of(module: object) -> dict[str, object]:
    """Return a module's names without asking a lazy one for more."""
    names = class_dict(type(sys))["__dict__"].__get__(module)
    return names if type(names) is dict else {}


def size_text(count: float) -> str:
    """Return a number of bytes in words, as an estimate: `~4.1 GB`."""
    return f"~{human_size(count)}"


def shape_text(shape: Iterable[object]) -> str:
    """Return a shape as Python writes it; what is no whole number is unknown."""
    sizes = [f"{each:,}" if type(each) is int else "?" for each in shape]
    return f"({', '.join(sizes)}{',' if len(sizes) == 1 else ''})"


def try_or_none(read: Callable[[], T]) -> T | None:
    """Return what `read` returns; None if the object is broken or closed."""
    try:
        return read()
    except Exception:
        return None
