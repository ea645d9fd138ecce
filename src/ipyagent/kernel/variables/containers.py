"""Captures of plain containers: a shallow copy of each one inside, put back in place."""

from __future__ import annotations

import collections
import types
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property
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
    PLAIN,
    Capture,
    Live,
    are_plain_keys,
    closes_itself,
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
_KNOWN = set(map(id, (list, set, collections.deque, bytearray, tuple, *_DICTS)))


class TooLargeError(Exception):
    """The containers hold more than a snapshot looks at, or keys of the user's classes."""


_FOUND_OUT = ("_has_canonical_format", "_has_sorted_indices")
"""Attributes in which scipy's sparse arrays keep what they found out about themselves."""


def is_container(value: object) -> bool:
    """Return whether the value is exactly a built-in container, or a dataclass's object."""
    return id(type(value)) in _KNOWN or _attributes(value) is not None


def _attributes(value: object) -> dict[str, object] | None:
    """Return the attributes of an object that consists of them; None for others, or if guarded.

    Such are those of dataclasses, of classes of the notebook's, and sparse arrays of scipy.
    """
    cls = type(value)
    is_made = cls.__basicsize__ <= _PYTHON_SIZE and all(
        base.__flags__ & MADE_BY_STATEMENT for base in ancestors(cls)[:-1]
    )
    is_own = module_name(cls) in _WITH_ATTRIBUTES or "__dataclass_fields__" in class_dict(cls)
    if not (is_made and is_own) and not _is_sparse(cls) and cls is not types.SimpleNamespace:
        return None
    if slots(cls) or closes_itself(cls):
        return None
    getter = next(class_dict(b)["__dict__"] for b in ancestors(cls) if "__dict__" in class_dict(b))
    found = getter.__get__(value) if type(getter) in _GETTERS else None
    return found if type(found) is dict else None


def _is_sparse(cls: type) -> bool:
    return module_name(cls).startswith("scipy.sparse.") and is_of_module(cls)


class _Part:
    """One container and what it held: the keys of a dict or the items of a set, and values."""

    def __init__(self, container: Any) -> None:
        self.container = container
        attributes = _attributes(container)
        self._target: Any = container if attributes is None else attributes
        # By the type, because an object of the user's can lie about its class.
        self.is_set = type(container) is set
        self.factory = container.default_factory if type(container) is _DICTS[-1] else None
        self.keys: list[object] = []
        self.values: list[Any] = []
        if isinstance(self._target, dict):
            held = self._target
            if attributes is not None and _is_sparse(type(container)):
                held = {name: each for name, each in held.items() if name not in _FOUND_OUT}
            self.keys, self.values = list(held), list(held.values())
        elif isinstance(self._target, set):
            self.keys = list(self._target)
        else:
            self.values = list(self._target)

    def put_back(self) -> None:
        """Restore what the container held, in place."""
        target = self._target
        if type(target) is _DICTS[-1]:
            target.default_factory = self.factory
        if isinstance(target, bytearray):
            target[:] = bytes(self.values)  # of a fixed size while a memoryview looks into it
        elif isinstance(target, dict):
            target.clear()
            for key, value in zip(self.keys, self.values, strict=True):
                target[key] = value
        elif not isinstance(target, tuple):
            target.clear()
            fill = target.update if isinstance(target, set) else target.extend
            fill(self.keys or self.values)

    def __len__(self) -> int:
        return len(self.keys) or len(self.values)

    def differs(self, now: _Part) -> bool:
        """Return whether a container of the same kind holds something else."""
        if len(self) != len(now) or self.factory is not now.factory:
            return True
        if self.is_set:  # they may be in another order
            return not are_plain_keys(now.keys) or set(now.keys) != set(self.keys)
        pairs = (self.keys, now.keys), (self.values, now.values)
        return any(True for pair in pairs for _ in _differences(*pair))


def _differences(some: Iterable[object], others: Iterable[object]) -> Iterator[bool]:
    """Yield True for each pair that differs; most are of one object, which is seen at once."""
    pairs = zip(some, others, strict=False)
    return (True for one, other in pairs if one is not other and not is_equal(one, other))


class ContainerCapture(Capture):
    """The contents of a container and of all plain containers in it.

    `capture_inside` takes a capture of an object in one, such as a table; None: it is not followed.
    """

    def __init__(self, value: object, capture_inside: Callable[[object], Capture | None]) -> None:
        super().__init__(value)
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
                    found.is_inside = True
                    self._inside.append((found, each))

    @override
    def is_changed(self, value: object) -> bool:
        return any(part.differs(_Part(part.container)) for part in self._parts) or any(
            found.is_changed(each) for found, each in self._inside
        )

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
        return copies + inside + (0 if id(self._parts[0].container) in live else texts)

    @override
    def summarize(self, value: object, secret: Secrecy) -> str:
        if type(value) is not self.type:
            return ""
        summary = " · ".join(_summarize(self._parts[0], _Part(value), secret))
        return summary or ("changed inside" if value is self._value else "")


@contextmanager
def _noting(problems: list[str], value: object) -> Iterator[None]:
    """Go on after an error, with a note of what stays as it is."""
    try:
        yield
    except Exception as error:  # such as a bytearray that something looks into
        problems.append(f"its {type_name(type(value))} stays as it is ({one_line(str(error))})")


def _holders(values: Iterable[object]) -> Iterable[object]:
    """Return the values, or none if all are plain: most lists are of numbers or text."""
    return values if set(map(id, map(type, values))) - PLAIN else ()


def _summarize(before: _Part, after: _Part, secret: Secrecy) -> Iterator[str]:
    safe = secret is Secrecy.NONE and are_plain_keys(before.keys) and are_plain_keys(after.keys)
    if (before.keys or after.keys) and not before.is_set and safe:
        yield from _summarize_items(before, after)
        return
    if len(before) != len(after):
        yield f"{len(before):,} → {plural(len(after), 'item')}"
    elif before.is_set and before.differs(after):
        yield "items changed"
    if count := sum(_differences(before.values, after.values)):
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
