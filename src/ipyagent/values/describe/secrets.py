"""Strings among the variables that have a secret's name, to be redacted everywhere.

They are taken from built-in containers, plain objects and tables, without running any code of the
user's own classes.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from types import ModuleType
from typing import Any

from ipyagent.redaction import Secrecy
from ipyagent.redaction.secret_patterns import is_identifier
from ipyagent.values.describe.libraries import column_labels, table_of, table_reader
from ipyagent.values.describe.python_values import key_secrecy
from ipyagent.values.describe.safe_inspect import is_a, module_name, own_attributes
from ipyagent.values.describe.table import Column

MOST = 200
"""Strings that are taken, and cells of one column that are inspected at each end."""
_ITEMS = 200
"""Items of a container that are inspected."""
_VISITS = 5_000
_DEPTH = 4
_SHORTEST, _SHORTEST_MAYBE = 8, 12
"""Characters; for ambiguous names, shorter values are too often ordinary words."""
_AGAIN = 4
_PLAIN = re.compile(r"[+-]?[\d.,_:/ -]+|true|false|enabled|disabled|required", re.IGNORECASE)

_WORDLESS = {bool, int, float, complex, bytes, type(None), ModuleType}
"""Types without items and columns."""
_HARMLESS = _WORDLESS | {str}
"""The types of values without a name that are no secrets."""

_Item = tuple[Secrecy, object, int]


def secret_strings(variables: Mapping[str, object]) -> frozenset[str]:
    """Return up to MOST strings that variables, keys, attributes and columns name as secret."""
    return frozenset(islice(_walk(variables), MOST))


def _walk(variables: Mapping[str, object]) -> Iterator[str]:
    waiting = deque(_name_items(Secrecy.NONE, variables.items(), _DEPTH))
    seen: set[int] = set()
    kinds: dict[int, tuple[bool, bool]] = {}
    for _ in range(_VISITS):
        if not waiting:
            return
        secrecy, value, depth = waiting.popleft()
        if type(value) is str:
            if _is_secret(secrecy, value):
                yield value
        elif id(value) not in seen:
            seen.add(id(value))
            if (kind := id(type(value))) not in kinds:
                kinds[kind] = table_reader(value) is not None, _has_members(value)
            is_table, has_members = kinds[kind]
            if is_table:
                yield from _of_table(secrecy, value)
            if has_members and depth:
                waiting += _items(secrecy, value, depth)


def _items(secrecy: Secrecy, value: Any, depth: int) -> list[_Item]:
    """Return the items of a built-in container or a plain object that may be or hold a secret."""
    if type(value) in (list, tuple, set, frozenset):
        skipped = _WORDLESS if secrecy else _HARMLESS
        items = islice(value, _ITEMS)
        return [(secrecy, each, depth - 1) for each in items if type(each) not in skipped]
    members = value if type(value) is dict else own_attributes(value)
    return _name_items(secrecy, islice(members.items(), _ITEMS), depth - 1)


def _name_items(
    secrecy: Secrecy, members: Iterable[tuple[object, object]], depth: int
) -> list[_Item]:
    """Return those of the named values that may be or hold a secret."""
    items = []
    for key, each in members:
        if (kind := type(each)) not in _WORDLESS:
            own = max(secrecy, key_secrecy(key))
            if own or kind is not str:
                items.append((own, each, depth))
    return items


def _has_members(value: object) -> bool:
    """Return whether objects of its class are inspected: no classes, modules and agents are.

    An agent holds its whole conversation, redacted; in records of runs, values may be the user's.
    """
    name = module_name(type(value))
    is_own = name.startswith("ipyagent.") and not name.startswith("ipyagent.schema.")
    return not (is_own or is_a(value, type) or is_a(value, ModuleType))


def _of_table(secrecy: Secrecy, value: object) -> Iterator[str]:
    if not secrecy and not any(map(key_secrecy, column_labels(value))):
        return
    table = table_of(value)
    for column in table.columns if table else ():
        column_secrecy = max(secrecy, key_secrecy(column.label))
        if column_secrecy:
            yield from _of_column(column_secrecy, column)


def _of_column(secrecy: Secrecy, column: Column) -> Iterator[str]:
    values = column.values(slice(MOST))
    if len(values) == MOST:
        values = [*values, *column.values(slice(-MOST, None))]
    counts = Counter(value for value in values if type(value) is str)
    for text, count in counts.items():
        # Words that are repeated are categories: the strength of a password, a method.
        if _is_secret(secrecy, text) and not (count >= _AGAIN and is_identifier(text)):
            yield text


def _is_secret(secrecy: Secrecy, text: str) -> bool:
    shortest = _SHORTEST if secrecy is Secrecy.SURE else _SHORTEST_MAYBE
    return len(text) >= shortest and secrecy.hides(text) and not _PLAIN.fullmatch(text)
