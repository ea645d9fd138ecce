"""Parts of a snapshot: what one object held at one moment, to compare with and to go back to.

Of a plain container there is a shallow copy, put back in place. Comparing runs only Python's own
code.
"""

from __future__ import annotations

import collections
import copy
import datetime
import gc
import re
import types
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from operator import is_
from typing import Any

from typing_extensions import override

from ipyagent.plaintext import join_some, plural
from ipyagent.redaction import Secrecy
from ipyagent.values.describe import describe
from ipyagent.values.describe.python_values import STANDARD, key_secrecy, preview
from ipyagent.values.describe.safe_inspect import (
    ObjectIdentity,
    ancestors,
    class_dict,
    instance_dict,
    is_a,
    is_library_class,
    is_of_module,
    module_name,
    slots,
    type_name,
)

_NUMBERS = (bool, int, float, complex, str, bytes, type(None))
PLAIN = frozenset(map(id, _NUMBERS))
"""The ids of the types of plain values: the hash of a type can be code of the user's."""

FIXED = (*_NUMBERS, *STANDARD, datetime.datetime, datetime.time)
"""Types whose values never change, and lead to none that do; all can be keys."""
_TIMES = {id(datetime.datetime), id(datetime.time)}
_KEYS = set(map(id, FIXED)) - _TIMES
ATOMS = _KEYS | _TIMES | {
    id(cls)
    for cls in (
        frozenset, re.Pattern, slice,
        types.ModuleType, types.FunctionType, types.BuiltinFunctionType, types.MethodType,
    )
}  # fmt: skip
"""Types whose objects hold nothing that can be changed, or nothing that a snapshot follows."""

_LIBRARY_ATOMS = {
    "numpy": {"generic", "dtype"},
    "pandas": {
        "Index", "BaseOffset", "ExtensionDtype", "Timestamp", "Timedelta", "NaTType", "NAType",
        "Period", "Interval",
    },
    "polars": {"LazyFrame", "Expr", "DataType"},
    "pyarrow": {"_Weakrefable", "_PandasConvertible"},
}  # fmt: skip


def is_plain(value: object) -> bool:
    """Return whether the value is exactly a number, text, bytes or None."""
    return id(type(value)) in PLAIN


def is_class(value: object) -> bool:
    """Return whether the value is a class, without asking it."""
    return is_a(value, type)


def is_atom(value: object) -> bool:
    """Return whether nothing inside of the value can change, so a reference is a snapshot."""
    cls = type(value)
    if id(cls) in ATOMS:
        return True
    names = {type_name(base) for base in ancestors(cls)[:-1]}
    return is_class(value) or any(
        not names.isdisjoint(atoms) and is_library_class(cls, library)
        for library, atoms in _LIBRARY_ATOMS.items()
    )


def are_plain_keys(values: Any, depth: int = 3) -> bool:
    """Return whether all are plain, or tuples of such: hashing and comparing run no other code."""
    others = set(map(id, map(type, values))) - _KEYS
    return not others or all(_is_plain_key(each, depth) for each in values)


def _is_plain_key(value: Any, depth: int) -> bool:
    """Return whether it is plain, a scalar of numpy or pandas, or a time whose zone is no code."""
    cls = type(value)
    if cls is tuple or id(cls) in _KEYS:
        return cls is not tuple or (depth > 0 and are_plain_keys(value, depth - 1))
    if id(cls) not in _TIMES and not is_library_class(cls, "numpy", "pandas"):
        return False
    zone = getattr(value, "tzinfo", None)
    return is_atom(value) and (zone is None or is_library_class(type(zone), "datetime", "zoneinfo"))


def is_equal(one: object, other: object) -> bool:
    """Return whether two values are one object, or plain and equal; NaN equals NaN."""
    if one is other:
        return True
    if type(one) is not type(other) or not is_plain(one):
        return False
    return bool(one == other or (one != one and other != other))


UNKNOWN = 1_000_000
"""Bytes that an object of unknown size counts."""

VALUE = 40
"""Characters of a value in a summary."""

INSIDE = "changed inside"
CELLS_INSIDE = "objects in cells changed"


class Part:
    """One object, and what it held at one moment, without what the objects in it held.

    `held`: the object is kept alive, unless it does something when it is freed, such as closing.
    """

    kept = ""
    """Why a change inside of the object cannot be taken back; "" if it can."""
    is_value = False
    """True if another object that holds the same is as good."""
    place = ""
    """A change of it in words, as one of what it was found in."""
    is_in_cell = False
    """True if it was found in a table or an array."""
    nbytes = 0
    """The bytes that have to be copied."""
    shares = False
    """True if a copy shares its memory."""

    def __init__(self, value: object, *, held: bool = True) -> None:
        self.identity, self.type = ObjectIdentity(value), type(value)
        self.value: Any = value if held and not closes_itself(self.type) else None

    def list_inside(self) -> Iterable[tuple[str, object]]:
        """Return the objects in it that may change, each with the words for that."""
        return ()

    def copy(self, *, wholly: bool) -> None:
        """Make what it held independent of the object; `wholly`: nothing of it is shared."""

    def describe(self, now: Any, secret: Secrecy) -> str:
        """Return how what it held differs from another part of its kind, in words."""
        return ""

    def compare(self, now: Any, secret: Secrecy = Secrecy.NONE) -> str | None:
        """Return how what it held differs; None if another part of its kind holds the same."""
        return self.describe(now, secret) or None

    @cached_property
    def mark(self) -> object:
        """The content, noted without keeping the objects in it alive."""
        return self.identity.address

    def is_state_of(self, now: Part) -> bool:
        """Return whether another part is the same object, which holds the same."""
        is_same = self.is_value or now.value is None or self.identity.is_same(now.value)
        return is_same and type(self) is type(now) and self.mark == now.mark

    def is_changed(self, value: Any = None) -> bool:
        """Return whether the object holds something else now."""
        return self.compare(type(self)(self.value if value is None else value)) is not None

    def find(self, live: Mapping[int, object]) -> object:
        """Return the object, None if it is gone; `live` are the variables' values by their ids."""
        return self.identity.value if self.value is None else self.value

    def put_back(self, value: object) -> None:
        """Restore what the object held, in place, if that is possible."""

    def replace(self, value: object) -> object:
        """Return the object, or what stands for it."""
        return value

    def trim(self) -> None:
        """Forget what the object still holds."""

    def complete(self, now: Any) -> Part:
        """Return all that the object holds once this is put back, where it holds `now`."""
        return self

    def release(self) -> None:
        """Keep no object alive: it is only compared with."""
        self.value, self.mark = None, self.mark

    def size(self, *, is_live: bool) -> int:
        """Return the bytes that are held only by this; `is_live`: a variable holds the object."""
        return 0


class Fixed(Part):
    """A value that cannot change."""

    is_value = True

    @override
    def describe(self, now: Any, secret: Secrecy) -> str:
        return summarize_scalars(self.value, now.value, secret)

    @override
    def is_state_of(self, now: Part) -> bool:
        return type(now) is Fixed and is_equal(self.value, now.value)

    @override
    def release(self) -> None:
        pass

    @override
    def size(self, *, is_live: bool) -> int:
        return text_length(self.value)


class Opaque(Part):
    """An object of whose inside only the description is known, such as a model or a class.

    Of one `inside` of something else not even that, unless it keeps values of the notebook's.
    """

    def __init__(
        self, value: object, kept: str | None = None, *, held: bool = True, inside: bool = False
    ) -> None:
        super().__init__(value, held=held)
        self.kept = explain_type(self.type) if kept is None else kept
        self.is_followed = not inside or has_state(value)
        self.mark = _look_at(value) if self.is_followed else id(value)

    @override
    def compare(self, now: Any, secret: Secrecy = Secrecy.NONE) -> str | None:
        return "" if self.is_followed and self.mark != now.mark else None

    @override
    def size(self, *, is_live: bool) -> int:
        return 0 if is_live or self.value is None or has_state(self.value) else UNKNOWN


def has_state(value: Any) -> bool:
    """Return whether it is a class or function of the notebook's, which may keep values."""
    if is_class(value):
        return module_name(value) == "__main__"
    is_function = type(value) is types.FunctionType
    return is_function and value.__globals__.get("__name__", "__main__") == "__main__"


def _look_at(value: Any) -> object:
    """Return what is seen of an object, and of what a class or a function keeps."""
    kept: list[object] = [value]
    if is_class(value) and has_state(value):
        kept += class_dict(value).values()
    elif has_state(value):
        kept += gc.get_referents(*(value.__closure__ or ()))
        kept += (*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values())
        kept += value.__dict__.values()
    return [(id(each), describe("", each, detail=False)) for each in kept]


def explain_type(cls: type) -> str:
    """Return that changes inside an object of a class, and of its library, stay."""
    home = module_name(cls).partition(".")[0]
    name = type_name(cls) + ("" if home in {"", "__main__", "builtins"} else f" of {home}")
    return f"changes inside a {name} cannot be taken back"


def closes_itself(cls: type) -> bool:
    """Return whether objects of the class do something when they are freed, such as closing."""
    return any("__del__" in class_dict(base) for base in ancestors(cls))


def text_length(value: object) -> int:
    """Return the length of text or bytes; 0 of all else."""
    return len(value) if type(value) is str or type(value) is bytes else 0


def summarize_scalars(before: object, after: object, secret: Secrecy) -> str:
    """Return how two plain values differ; "" if they are none, or secret."""
    if secret is Secrecy.SURE or not (is_plain(before) and is_plain(after)):
        return ""
    if is_equal(before, after):
        return ""
    old, new = (preview(each, secret=secret, limit=VALUE) for each in (before, after))
    return f"{old} → {new}" if old != new else ""


def summarize_types(before: type, after: type) -> str:
    """Return how the type differs; "" if it does not."""
    one, other = type_name(before), type_name(after)
    return f"{one} → {other}" if one != other else ""


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
    def put_back(self, value: object) -> None:
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
