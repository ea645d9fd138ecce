"""Captures of plain containers: a shallow copy of each one inside, put back in place."""

from __future__ import annotations

import collections
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import compress, starmap, tee
from operator import is_not
from typing import Any

from typing_extensions import override

from ipyagent.kernel.describe.metadata import is_of_module
from ipyagent.kernel.describe.preview import key_secrecy, preview
from ipyagent.kernel.describe.safe_inspect import ancestors, class_dict, module_name, slots
from ipyagent.kernel.variables.captures import Capture, summarize_scalars
from ipyagent.kernel.variables.plain_values import PLAIN, are_plain_keys, is_atom, is_equal
from ipyagent.phrases import join_some, plural
from ipyagent.redaction import Secrecy

ELEMENTS = 100_000
"""Elements of all containers of a variable that a snapshot looks at."""
CONTAINERS = 10_000

NAMES = 5
"""Keys that a summary names."""

_DICTS = (dict, collections.OrderedDict, collections.Counter, collections.defaultdict)
_KNOWN = set(map(id, (list, set, collections.deque, bytearray, tuple, *_DICTS)))


class TooLargeError(Exception):
    """The containers hold more than a snapshot looks at, or keys of the user's classes."""


def is_container(value: object) -> bool:
    """Return whether the value is exactly a built-in container, or a dataclass's object."""
    return id(type(value)) in _KNOWN or _attributes(value) is not None


def _attributes(value: object) -> dict[str, Any] | None:
    """Return the attributes of a dataclass's object; None if it is none, or guards them.

    Sparse arrays of scipy likewise consist of their attributes.
    """
    cls = type(value)
    is_sparse = module_name(cls).startswith("scipy.sparse.") and is_of_module(cls)
    if "__dataclass_fields__" not in class_dict(cls) and not is_sparse:
        return None
    if slots(cls):
        return None
    getter = next(class_dict(b)["__dict__"] for b in ancestors(cls) if "__dict__" in class_dict(b))
    found = getter.__get__(value) if type(getter) is types.GetSetDescriptorType else None
    return found if type(found) is dict else None


class _Part:
    """One container and what it held: the keys of a dict or set, and values."""

    def __init__(self, container: Any) -> None:
        self.container = container
        attributes = _attributes(container)
        target: Any = container if attributes is None else attributes
        self.keys: list[Any] = []
        self.values: Sequence[Any] = ()
        if isinstance(target, dict):
            # The methods of dict pass by the order that an OrderedDict keeps beside it.
            cls: Any = collections.OrderedDict if type(target) is collections.OrderedDict else dict
            self.keys, self.values = list(cls.keys(target)), list(cls.values(target))
        elif isinstance(target, set):
            self.keys = list(target)
        else:
            self.values = bytes(target) if isinstance(target, bytearray) else list(target)

    def __len__(self) -> int:
        return len(self.keys) or len(self.values)

    def is_changed(self) -> bool:
        """Return whether it holds something else now."""
        return self.differs(_Part(self.container))

    def differs(self, now: _Part) -> bool:
        """Return whether a container of the same kind holds something else."""
        if len(self.keys) != len(now.keys) or len(self.values) != len(now.values):
            return True
        if isinstance(self.container, set):  # they may be in another order
            return not are_plain_keys(now.keys) or set(now.keys) != set(self.keys)
        return any(_differences(self.keys, now.keys)) or self.values_differ(now)

    def values_differ(self, now: _Part) -> bool:
        """Return whether the values in it are other ones."""
        if isinstance(self.values, bytes):
            return self.values != now.values
        return any(_differences(self.values, now.values))


def _differences(some: Iterable[object], others: Iterable[object]) -> Iterator[bool]:
    """Yield True for each pair that differs; most are of one object, which is seen at once."""
    first, second = tee(zip(some, others, strict=False))
    suspects = compress(first, starmap(is_not, second))
    return (True for one, other in suspects if not is_equal(one, other))


class ContainerCapture(Capture):
    """The contents of a container and of all plain containers in it.

    `capture_inside` takes a capture of an object in one, such as a table; None: it is not followed.
    """

    can_rebind = True

    def __init__(self, value: Any, capture_inside: Callable[[object], Capture | None]) -> None:
        super().__init__(value)
        self._value = value
        self._parts: list[_Part] = []
        self._inside: list[tuple[Capture, object]] = []
        waiting, seen, left = [value], {id(value)}, ELEMENTS
        while waiting:
            part = _Part(waiting.pop())
            self._parts.append(part)
            left -= len(part)
            if left < 0 or len(self._parts) > CONTAINERS or not are_plain_keys(part.keys):
                raise TooLargeError
            for each in _holders(part.values):
                if id(each) in seen or is_atom(each):
                    continue
                seen.add(id(each))
                if is_container(each):
                    waiting.append(each)
                elif (found := capture_inside(each)) is not None:
                    self._inside.append((found, each))

    @override
    def is_changed(self, value: object) -> bool:
        return any(part.is_changed() for part in self._parts) or any(
            found.is_changed(each) for found, each in self._inside
        )

    @override
    def summarize(self, value: Any, secret: Secrecy) -> str:
        if type(value) is not self.type:
            return ""
        summary = " · ".join(_summarize(self._parts[0], _Part(value), secret))
        return summary or ("changed inside" if value is self._value else "")


def _holders(values: Iterable[Any]) -> Iterable[Any]:
    """Return the values, or none if all are plain: most lists are of numbers or text."""
    return values if set(map(id, map(type, values))) - PLAIN else ()


def _summarize(before: _Part, after: _Part, secret: Secrecy) -> Iterator[str]:
    is_mapping = bool(before.keys or after.keys) and not isinstance(before.container, set)
    safe = secret is Secrecy.NONE and are_plain_keys(before.keys) and are_plain_keys(after.keys)
    if is_mapping and safe:
        yield from _summarize_items(before, after)
        return
    if len(before) != len(after):
        yield f"{len(before):,} → {plural(len(after), 'item')}"
    elif before.keys and before.differs(after) and not is_mapping:
        yield "items changed"
    if isinstance(before.values, bytes) and isinstance(after.values, bytes):
        pairs = zip(before.values, after.values, strict=False)
        count = sum(one != other for one, other in pairs)
    else:
        count = sum(_differences(before.values, after.values))
    if count:
        yield f"{plural(count, 'item')} changed"


def _summarize_items(before: _Part, after: _Part) -> Iterator[str]:
    """Yield which keys came, went, and hold something else."""
    old, new = (dict(zip(part.keys, part.values, strict=True)) for part in (before, after))
    for sign, some, others in ("+", new, old), ("-", old, new):
        if keys := [key for key in some if key not in others]:
            yield f"{sign} {join_some([_spell_key(key) for key in keys], NAMES)}"
    changed = [key for key in old if key in new and not is_equal(old[key], new[key])]
    if len(changed) == 1:
        (key,) = changed
        values = summarize_scalars(old[key], new[key], key_secrecy(key))
        yield f"{_spell_key(key)}: {values}" if values else f"{_spell_key(key)} changed"
    elif changed:
        yield f"{plural(len(changed), 'value')} changed"


def _spell_key(key: object) -> str:
    return preview(key, limit=30, depth=1)
