"""Captures of plain containers: a shallow copy of each one inside, put back in place."""

from __future__ import annotations

import collections
import copy
import types
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property
from operator import is_
from typing import Any

from typing_extensions import override

from ipyagent.kernel.describe.metadata import is_of_module
from ipyagent.kernel.describe.preview import key_secrecy, preview
from ipyagent.kernel.describe.safe_inspect import (
    ancestors,
    class_dict,
    module_name,
    one_line,
    slots,
    type_name,
)
from ipyagent.kernel.variables.captures import (
    ATOMS,
    NOTHING,
    PLAIN,
    Capture,
    Described,
    Live,
    Undone,
    are_plain_keys,
    closes_itself,
    explain_type,
    has_state,
    is_atom,
    is_equal,
    summarize_scalars,
    text_length,
)
from ipyagent.phrases import join_some, plural
from ipyagent.redaction import Secrecy

ELEMENTS = 100_000
"""Elements of all containers of a variable that a snapshot looks at."""
CONTAINERS = 10_000

NAMES = 5
"""Keys that a summary names."""

_DICTS = (dict, collections.OrderedDict, collections.Counter, collections.defaultdict)
_GETTERS = (types.GetSetDescriptorType, types.MemberDescriptorType)
_WITH_ATTRIBUTES = ("__main__", "collections")
MADE_BY_STATEMENT = 1 << 9
"""A flag of classes that are written in Python: their objects hold nothing else."""
_PYTHON_SIZE = object.__basicsize__ + 2 * tuple.__itemsize__
"""Bytes of an object with attributes; some classes written in C have that flag, too."""
_SEQUENCES = (list, collections.deque, bytearray, tuple)
_KNOWN = set(map(id, (set, *_SEQUENCES, *_DICTS)))


class TooLargeError(Exception):
    """The containers hold more than a snapshot looks at, or keys of the user's classes."""


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
    is_made = cls.__basicsize__ <= _PYTHON_SIZE and all(
        base.__flags__ & MADE_BY_STATEMENT for base in ancestors(cls)[:-1]
    )
    is_own = module_name(cls) in _WITH_ATTRIBUTES or "__dataclass_fields__" in class_dict(cls)
    if not (is_made and is_own) and not _is_sparse(value) and cls is not types.SimpleNamespace:
        return None
    if slots(cls) or closes_itself(cls):
        return None
    bases = (class_dict(base) for base in ancestors(cls))
    getter: Any = next((base["__dict__"] for base in bases if "__dict__" in base), None)
    found = getter.__get__(value) if type(getter) in _GETTERS else None
    # A table of a subclass is more than the attributes that it has.
    return found if type(found) is dict and not {"_mgr", "_df", "_s"} & found.keys() else None


def _is_sparse(value: object) -> bool:
    return module_name(type(value)).startswith("scipy.sparse.") and is_of_module(type(value))


class _Part:
    """One container and what it held: the keys of a dict or the items of a set, and values.

    `start` is the number of entries at the beginning that are left out, because they stay.
    """

    __slots__ = ("_target", "container", "factory", "is_set", "keys", "start", "values")

    def __init__(self, container: Any, start: int = 0) -> None:
        self.container, self.start = container, start
        attributes = _attributes(container)
        self._target: Any = container if attributes is None else attributes
        cls: type = type(self._target)  # an object of the user's can lie about its class
        self.is_set = cls is set
        self.factory = container.default_factory if cls is _DICTS[-1] else None
        self.keys: list[object] = []
        self.values: list[Any] = []
        if cls in _DICTS:
            items = self._target
            if attributes is not None and _is_sparse(container):
                items = {name: v for name, v in attributes.items() if name not in _FOUND_OUT}
            self.keys, self.values = [*items][start:], [*items.values()][start:]
        elif self.is_set:
            self.keys = [*container]
        else:
            self.values = [*container][start:]

    @property
    def fingerprint(self) -> int:
        """A number that differs if it holds something else; what is not plain counts as itself."""
        kinds = [*map(id, map(type, self.values))]
        values = self.values
        if not PLAIN.issuperset(kinds):
            values = [v if kind in PLAIN else id(v) for v, kind in zip(values, kinds, strict=True)]
        keys = frozenset(self.keys) if self.is_set else tuple(self.keys)
        return hash((id(self.container), id(self.factory), keys, *values, *kinds))

    def put_back(self) -> None:
        """Restore what the container held, in place."""
        target, pairs = self._target, zip(self.keys, self.values, strict=False)
        if type(target) is _DICTS[-1]:
            target.default_factory = self.factory
        if isinstance(target, bytearray):
            target[:] = bytes(self.values)  # of a fixed size while a memoryview looks into it
        elif isinstance(target, dict):
            for key in _Part(self.container, self.start).keys:
                del target[key]
            for key, value in pairs:
                target[key] = value
        elif isinstance(target, list):
            target[self.start :] = self.values
        elif not isinstance(target, tuple):
            target.clear()
            fill = target.update if isinstance(target, set) else target.extend
            fill(self.keys or self.values)

    def __len__(self) -> int:
        return self.start + (len(self.keys) or len(self.values))

    def differs(self, now: _Part) -> bool:
        """Return whether a container of the same kind holds something else."""
        if len(self) != len(now) or self.factory is not now.factory:
            return True
        if all(map(is_, self.values, now.values)) and all(map(is_, self.keys, now.keys)):
            return False
        if self.is_set:  # they may be in another order
            return not are_plain_keys(now.keys) or set(now.keys) != set(self.keys)
        pairs = (self.keys, now.keys), (self.values, now.values)
        return any(True for pair in pairs for _ in _differences(*pair))

    def after(self, undone: Undone) -> _Part:
        """Return the whole that the container holds once this is put back, after what is undone."""
        whole = copy.copy(undone.get(id(self.container)) or _Part(self.container))
        whole.keys = [*whole.keys[: self.start], *self.keys]
        whole.values = [*whole.values[: self.start], *self.values]
        whole.factory = self.factory
        return whole

    def is_changed(self) -> bool:
        """Return whether the container holds something else now."""
        return self.differs(_Part(self.container, self.start))

    def trim(self) -> None:
        """Forget the entries at the beginning that are still there: putting back keeps them."""
        if isinstance(self._target, list | dict) and not _is_sparse(self.container):
            now = _Part(self.container, self.start)
            same = _count_same(self.values, now.values)
            if now.keys or self.keys:
                same = min(same, _count_same(self.keys, now.keys))
            self.start += same
            del self.keys[:same], self.values[:same]


def _differences(some: Iterable[object], others: Iterable[object]) -> Iterator[int]:
    """Yield the place of each pair that differs; most are of one object, which is seen at once."""
    pairs = enumerate(zip(some, others, strict=False))
    return (at for at, (one, other) in pairs if one is not other and not is_equal(one, other))


def _count_same(some: list[object], others: list[object]) -> int:
    """Return how many entries at the beginning are the same."""
    return next(_differences(some, others), min(len(some), len(others)))


class ContainerCapture(Capture):
    """The contents of a container and of all plain containers in it.

    `capture_inside` takes a capture of an object in one, such as a table; None: it is not followed.
    """

    def __init__(
        self,
        value: object,
        capture_inside: Callable[[object], Capture | None],
        undone: Undone = NOTHING,
    ) -> None:
        super().__init__(value)
        self._parts: list[_Part] = []
        self._changed: list[_Part] = []
        """Those that held something else when this was asked last."""
        self._inside: list[tuple[Capture, object]] = []
        self.opaque = ""
        """Why not all that is inside goes back; "" if it does."""
        waiting, seen, left = [value], {id(value)}, ELEMENTS
        while waiting:
            one = waiting.pop()
            part = undone.get(id(one)) or _Part(one)
            self._parts.append(part)
            left -= len(part)
            if left < 0 or len(self._parts) > CONTAINERS or not are_plain_keys(part.keys):
                raise TooLargeError
            if self._parts[1:] and has_state(cls := type(one)) and id(cls) not in seen:
                seen.add(id(cls))
                self._inside.append((Described(cls), cls))
            # Most lists are of numbers or text alone.
            for each in part.values if set(map(id, map(type, part.values))) - PLAIN else ():
                if id(each) in seen or id(type(each)) in ATOMS:
                    continue
                seen.add(id(each))
                if is_container(each):
                    waiting.append(each)
                elif is_atom(each):
                    continue
                elif (found := capture_inside(each)) is not None:
                    found.is_inside = True
                    self._inside.append((found, each))
                else:
                    self.opaque = self.opaque or explain_type(type(each))
        self._fingerprint = hash(tuple(part.fingerprint for part in self._parts))

    @override
    def compare(self, value: object, secret: Secrecy) -> str | None:
        self._changed = [part for part in self._parts if part.is_changed()]
        is_changed = self._changed or any(f.is_changed(each) for f, each in self._inside)
        return self.summarize(value, secret) if is_changed else None

    @override
    def release(self) -> None:
        super().release()
        self._parts = []

    @override
    def is_left(self, value: object, undone: Undone) -> bool:
        if not self.identity.is_same(value) or not is_container(value):
            return False
        now = ContainerCapture(value, lambda each: None, undone)
        return now._fingerprint == self._fingerprint and all(
            found.is_state_of(each, undone) for found, each in self._inside
        )

    @override
    def drop_unchanged(self) -> None:
        root = self._parts[0]
        self._parts = [root, *(part for part in self._changed if part is not root)]
        for part in self._parts:
            part.trim()
        self._inside = [
            (found, each)
            for found, each in self._inside
            if (found.kept and not has_state(each)) or found.is_changed(each)
        ]

    @override
    def undo_in(self, undone: dict[object, Any]) -> None:
        for part in self._parts:
            undone[id(part.container)] = part.after(undone)
        for found, _ in self._inside:
            found.undo_in(undone)

    @override
    def describe_return(self, value: object, secret: Secrecy, undone: Undone) -> str:
        if type(value) is not self.type:
            return ""
        before = undone.get(self.key) or self._parts[0]
        return " · ".join(_summarize(_Part(value), before, secret))

    @override
    def restore(self, live: Live, problems: list[str]) -> object:
        if not self.is_inside:
            return self._value
        for found, each in self._inside:
            with _noting(problems, each):
                changed = found.is_changed(each)
                if changed and found.restore({id(each): each}, problems) is not each:
                    raise ValueError("it has another size")
        for part in self._parts:
            with _noting(problems, part.container):
                part.put_back()
        if kept := self.opaque or next((found.kept for found, _ in self._inside if found.kept), ""):
            problems.append(kept)
        return self._value

    @cached_property
    def _sizes(self) -> tuple[int, int]:
        """The bytes of copies, and of texts in them."""
        texts = sum(text_length(each) for part in self._parts for each in part.values)
        return 8 * sum(len(part.keys) + len(part.values) for part in self._parts), texts

    @override
    def size(self, live: Collection[int]) -> int:
        copies, texts = self._sizes
        inside = sum(found.size(live) for found, _ in self._inside)
        return copies + inside + (0 if self.identity.address in live else texts)

    @override
    def summarize(self, value: object, secret: Secrecy) -> str:
        if type(value) is not self.type:
            return ""
        root = self._parts[0]
        summary = " · ".join(_summarize(root, _Part(value, root.start), secret))
        return summary or ("changed inside" if value is self._value else "")


@contextmanager
def _noting(problems: list[str], value: object) -> Iterator[None]:
    """Go on after an error, with a note of what stays as it is."""
    try:
        yield
    except Exception as error:  # such as a bytearray that something looks into
        problems.append(f"its {type_name(type(value))} stays as it is ({one_line(str(error))})")


def _summarize(before: _Part, after: _Part, secret: Secrecy) -> Iterator[str]:
    """Yield what differs."""
    safe = secret is Secrecy.NONE and are_plain_keys(before.keys) and are_plain_keys(after.keys)
    if (before.keys or after.keys) and not before.is_set and safe:
        yield from _summarize_items(before, after)
        return
    if len(before) != len(after):
        yield f"{len(before):,} → {plural(len(after), 'item')}"
    elif before.is_set and before.differs(after):
        yield "items changed"
    if count := sum(1 for _ in _differences(before.values, after.values)):
        yield f"{plural(count, 'item')} changed"


def _summarize_items(before: _Part, after: _Part) -> Iterator[str]:
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
