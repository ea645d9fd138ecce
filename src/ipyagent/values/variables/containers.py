"""Plain containers in a snapshot: a shallow copy of each, put back in place."""

from __future__ import annotations

import collections
import copy
import types
from collections.abc import Iterable, Iterator
from functools import cached_property
from operator import is_
from typing import Any

from typing_extensions import override

from ipyagent.phrases import join_some, plural
from ipyagent.redaction import Secrecy
from ipyagent.values.describe.metadata import is_of_module
from ipyagent.values.describe.preview import key_secrecy, preview
from ipyagent.values.describe.safe_inspect import class_dict, instance_dict, module_name, slots
from ipyagent.values.variables.parts import (
    INSIDE,
    PLAIN,
    Part,
    are_plain_keys,
    closes_itself,
    is_equal,
    summarize_scalars,
    text_length,
)

NAMES = 5
"""Keys that a summary names."""

_DICTS = (dict, collections.OrderedDict, collections.Counter, collections.defaultdict)
_WITH_ATTRIBUTES = ("__main__", "collections")
_PYTHON_SIZE = type("", (), {}).__basicsize__
"""Bytes of an object that holds nothing but attributes."""
_SEQUENCES = (list, collections.deque, bytearray, tuple)
_KNOWN = set(map(id, (set, *_SEQUENCES, *_DICTS)))


_FOUND_OUT = ("_has_canonical_format", "_has_sorted_indices")
"""Attributes in which arrays of scipy keep what they found out about themselves."""


def is_container(value: object) -> bool:
    """Return whether the value is exactly a built-in container, or consists of attributes."""
    return id(type(value)) in _KNOWN or _attributes(value) is not None


def _attributes(value: object) -> dict[str, object] | None:
    """Return the attributes of an object that consists of them; None for others, or if guarded.

    Such are objects of the notebook's classes and of dataclasses, and sparse arrays of scipy.
    """
    cls = type(value)
    if id(cls) in _KNOWN:
        return None
    is_made = cls.__basicsize__ <= _PYTHON_SIZE and not cls.__itemsize__
    is_own = module_name(cls) in _WITH_ATTRIBUTES or "__dataclass_fields__" in class_dict(cls)
    if not (is_made and is_own) and not _is_sparse(value) and cls is not types.SimpleNamespace:
        return None
    found = None if slots(cls) or closes_itself(cls) else instance_dict(value)
    # A table of a subclass is more than the attributes that it has.
    return None if found is None or {"_mgr", "_df", "_s"} & found.keys() else found


def _is_sparse(value: object) -> bool:
    return module_name(type(value)).startswith("scipy.sparse.") and is_of_module(type(value))


class ContainerPart(Part):
    """A container: the keys of a dict or the items of a set, and values.

    `start` is the number of entries at the beginning that are left out, because they stay.
    """

    start = 0

    def __init__(self, value: Any) -> None:
        super().__init__(value)
        attributes = _attributes(value)
        self._target: Any = value if attributes is None else attributes
        cls: type = type(self._target)  # an object of the user's can lie about its class
        self.is_set = cls is set
        self.factory = value.default_factory if cls is _DICTS[-1] else None
        self.keys: list[object] = []
        self.values: list[Any] = []
        if cls in _DICTS:
            items = self._target
            if attributes is not None:
                items = {name: v for name, v in attributes.items() if name not in _FOUND_OUT}
            self.keys, self.values = [*items], [*items.values()]
        elif self.is_set:
            self.keys = [*value]
        else:
            self.values = [*value]
        self.count = len(self.keys or self.values)

    @override
    def list_inside(self) -> Iterable[tuple[str, object]]:
        # Most lists are of numbers or text alone.
        values = self.values if set(map(id, map(type, self.values))) - PLAIN else []
        return ((INSIDE, each) for each in values)

    @cached_property
    @override
    def mark(self) -> object:
        # A value that is not plain counts as itself.
        values = [(id(type(v)), v if id(type(v)) in PLAIN else id(v)) for v in self.values]
        keys = frozenset(self.keys) if self.is_set else tuple(self.keys)
        home = 0 if self.type is tuple else self.identity.address
        return hash((home, id(self.factory), keys, *values))

    @override
    def compare(self, now: ContainerPart, secret: Secrecy = Secrecy.NONE) -> str | None:
        return self.describe(now, secret) if self.differs(now) else None

    def differs(self, now: ContainerPart) -> bool:
        """Return whether a container of the same kind holds something else."""
        if self.count != now.count or self.factory is not now.factory:
            return True
        keys, values = now.keys[self.start :], now.values[self.start :]
        if all(map(is_, self.values, values)) and all(map(is_, self.keys, keys)):
            return False
        if self.is_set:  # they may be in another order
            return not are_plain_keys(keys) or set(keys) != set(self.keys)
        return any(
            True for pair in ((self.keys, keys), (self.values, values)) for _ in _differences(*pair)
        )

    @override
    def describe(self, now: ContainerPart, secret: Secrecy) -> str:
        return " · ".join(_summarize(self, now, secret))

    @override
    def put_back(self, value: Any) -> None:
        target = self._target
        if type(target) is _DICTS[-1]:
            target.default_factory = self.factory
        if isinstance(target, list | bytearray):
            target[self.start :] = type(target)(self.values)
        elif isinstance(target, dict):
            for key in ContainerPart(value).keys[self.start :]:
                del target[key]
            for key, held in zip(self.keys, self.values, strict=True):
                target[key] = held
        elif not isinstance(target, tuple):
            target.clear()
            fill = target.update if isinstance(target, set) else target.extend
            fill(self.keys or self.values)

    @override
    def trim(self) -> None:
        if isinstance(self._target, list | dict):
            now = ContainerPart(self.value)
            same = _count_same(self.values, now.values[self.start :])
            if now.keys or self.keys:
                same = min(same, _count_same(self.keys, now.keys[self.start :]))
            self.start += same
            del self.keys[:same], self.values[:same]

    @override
    def complete(self, now: ContainerPart | None) -> ContainerPart:
        now, whole = now or ContainerPart(self.value), copy.copy(self)
        whole.keys = [*now.keys[: self.start], *self.keys]
        whole.values = [*now.values[: self.start], *self.values]
        whole.start = 0
        return whole

    @override
    def release(self) -> None:
        super().release()
        self._target, self.keys, self.values = None, [], []

    @override
    def size(self, *, is_live: bool) -> int:
        texts = 0 if is_live else sum(map(text_length, self.values))
        return texts + 8 * (len(self.keys) + len(self.values))


def _differences(some: Iterable[object], others: Iterable[object]) -> Iterator[int]:
    """Yield the place of each pair that differs; most are of one object, which is seen at once."""
    pairs = enumerate(zip(some, others, strict=False))
    return (at for at, (one, other) in pairs if one is not other and not is_equal(one, other))


def _count_same(some: list[object], others: list[object]) -> int:
    """Return how many entries at the beginning are the same."""
    return next(_differences(some, others), min(len(some), len(others)))


def _summarize(before: ContainerPart, after: ContainerPart, secret: Secrecy) -> Iterator[str]:
    """Yield what differs."""
    safe = secret is Secrecy.NONE and are_plain_keys(before.keys) and are_plain_keys(after.keys)
    if (before.keys or after.keys) and not before.is_set and safe:
        yield from _summarize_items(before, after)
        return
    if before.count != after.count:
        yield f"{before.count:,} → {plural(after.count, 'item')}"
    elif before.is_set and before.differs(after):
        yield "items changed"
    if count := sum(1 for _ in _differences(before.values, after.values)):
        yield f"{plural(count, 'item')} changed"


def _summarize_items(before: ContainerPart, after: ContainerPart) -> Iterator[str]:
    """Yield which keys came, went, and hold something else."""
    old, new = (dict(zip(part.keys, part.values, strict=True)) for part in (before, after))
    for sign, some, others in ("+", new, old), ("-", old, new):
        if keys := [_spell_key(key) for key in some if key not in others]:
            yield f"{sign} {join_some(keys, NAMES)}"
    changed = [key for key in old if key in new and not is_equal(old[key], new[key])]
    if len(changed) == 1:
        (key,) = changed
        values = summarize_scalars(old[key], new[key], key_secrecy(key))
        yield f"{_spell_key(key)}: {values}" if values else f"{_spell_key(key)} changed"
    elif changed:
        yield f"{plural(len(changed), 'value')} changed"


def _spell_key(key: object) -> str:
    return preview(key, limit=30, depth=1)
