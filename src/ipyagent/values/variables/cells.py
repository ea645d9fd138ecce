"""The first cells in which two states of a table differ, as lines of a diff."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from ipyagent.redaction import Secrecy
from ipyagent.values.describe.python_values import key_secrecy
from ipyagent.values.describe.safe_inspect import one_line
from ipyagent.values.variables.parts import PLAIN, VALUE
from ipyagent.values.variables.tables import (
    Column,
    Table,
    align_rows,
    find_differences,
    has_safe_labels,
    is_same,
    is_same_type,
    key_columns,
)

MOST = 3
"""Cells that are shown."""

_UNREAD = ("category", "interval", "period", "sparse")
"""Types whose values may be objects of the user's, or have no plain form."""


def show_cells(before: Table, after: Table) -> str:
    """Return the first cells of a table of pandas that differ: "-qty[3]  4", "+qty[3]  5"."""
    lines: list[str] = []
    with suppress(Exception):  # a table library's own object can be broken
        for line in _list_cells(before, after):
            lines.append(line)
            if len(lines) == 2 * MOST:
                break
    return "\n".join(lines[: len(lines) // 2 * 2])


def _list_cells(before: Table, after: Table) -> Iterator[str]:
    if before.index is None:
        return
    stays, stayed, _ = align_rows(before, after)
    old, new = key_columns(before, after)
    for key in old if stays is not None else ():
        one, other = old[key], new.get(key)
        if other is None or one.label is None or is_same(one.data, other.data):
            continue
        if key_secrecy(one.label) is not Secrecy.NONE or not is_same_type(one.data, other.data):
            continue
        if _is_plain(one) and _is_plain(other):
            labels = before.index[stays] if has_safe_labels(before.index) else range(before.height)
            was, now = Column(one.label, one.data[stays]), Column(one.label, other.data[stayed])
            for at in map(int, find_differences(was, now)[:MOST]):
                for sign, column in ("-", was), ("+", now):
                    value = one_line(str(column.data[at]), VALUE)
                    yield f"{sign}{one.name}[{one_line(str(labels[at]), VALUE)}]  {value}"


def _is_plain(column: Column) -> bool:
    """Return whether its values have a plain form, and comparing them runs no other code."""
    if column.dtype == "object":  # texts, before pandas 3
        return PLAIN.issuperset(map(id, map(type, column.data)))
    return not column.dtype.startswith(_UNREAD)
