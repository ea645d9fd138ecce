"""A capture: the state of one object at one moment, to compare with and to go back to.

Comparing runs only Python's own code.
"""

from __future__ import annotations

import datetime
import gc
import re
import sys
import types
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from typing_extensions import override

from ipyagent.kernel.describe import describe
from ipyagent.kernel.describe.metadata import is_library_class
from ipyagent.kernel.describe.preview import STANDARD, preview
from ipyagent.kernel.describe.safe_inspect import (
    ObjectIdentity,
    ancestors,
    class_dict,
    module_name,
    type_name,
)
from ipyagent.redaction import Secrecy

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
    return any(base is type for base in ancestors(type(value)))


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
    if others - {id(tuple)}:
        return all(map(_is_plain_key, values))
    return not others or (
        depth > 0 and all(are_plain_keys(v, depth - 1) for v in values if type(v) is tuple)
    )


def _is_plain_key(value: Any) -> bool:
    """Return whether it is plain, a scalar of numpy or pandas, or a time whose zone is no code."""
    cls = type(value)
    if id(cls) not in _KEYS | _TIMES and not is_library_class(cls, "numpy", "pandas"):
        return False
    if any(id(base) in _TIMES for base in ancestors(cls)):
        zone = value.tzinfo
        if zone is not None and not is_library_class(type(zone), "datetime", "zoneinfo"):
            return False
    return is_atom(value)


def is_equal(one: object, other: object) -> bool:
    """Return whether two values are one object, or plain and equal; NaN equals NaN."""
    if one is other:
        return True
    if type(one) is not type(other) or not is_plain(one):
        return False
    return bool(one == other or (one != one and other != other))


Live = Mapping[int, object]

Undone = Mapping[object, Any]
"""The states of objects, by their keys, once some calls are taken back."""
NOTHING: Undone = {}


def key_of(value: Any) -> object:
    """Return what identifies an object: of an array its cells, which a view of it shares."""
    if type(value) is getattr(sys.modules.get("numpy"), "ndarray", None):
        return value.__array_interface__["data"][0], value.shape
    return id(value)


UNKNOWN = 1_000_000
"""Bytes that an object of unknown size counts."""

VALUE = 40
"""Characters of a value in a summary."""


@dataclass
class Allowance:
    """Bytes that captures may still copy, and bytes of what may share its memory with them."""

    left: int
    limit: int
    copies_all: bool = False
    """True if tables are copied where they could share their memory: code writes past pandas."""
    only_compares: bool = False
    """True if of arrays a checksum is enough."""

    def spend(self, size: int, *, shares: bool = False) -> bool:
        """Return whether that many bytes may be copied or shared."""
        if size > min(self.limit, self.limit if shares else self.left):
            return False
        self.limit -= size
        self.left -= 0 if shares else size
        return True


class Capture:
    """The state of an object. This one knows no more than which object it was.

    `held`: the object is kept alive, unless it does something when it is freed, such as closing.
    """

    kept = ""
    """Why a change inside of the object cannot be taken back; "" if it can."""
    is_inside = False
    """True if the call changed the object itself: only then what it holds is put back."""

    def __init__(self, value: object, *, held: bool = True) -> None:
        self.identity, self.key = ObjectIdentity(value), key_of(value)
        self.type = type(value)
        self.is_held = held and not closes_itself(self.type)
        self._value: Any = value if self.is_held else None
        self.state: Any = self._value
        """What it held, to be compared."""

    def read(self, value: object) -> object:
        """Return what a value holds, to be compared; None if it is of another kind."""
        return value

    def differences(self, before: Any, after: Any, secret: Secrecy) -> str:
        """Return how two states differ, in words."""
        return summarize_scalars(before, after, secret)

    def summarize(self, value: object, secret: Secrecy) -> str:
        """Return what is different in the value, which is this object or another one."""
        now = self.read(value)
        return "" if now is None else self.differences(self.state, now, secret)

    def compare(self, value: object, secret: Secrecy) -> str | None:
        """Return what is different in the object, given once more; None if nothing is."""
        return self.summarize(value, secret) or None

    def is_changed(self, value: object) -> bool:
        """Return whether the object, given once more, holds something else now."""
        return self.compare(value, Secrecy.NONE) is not None

    def was_changed(self) -> bool:
        """Return whether the object holds something else now; False if it is not kept."""
        with suppress(Exception):  # a table library's own object can be broken
            return self._value is not None and self.is_changed(self._value)
        return False

    def is_state_of(self, value: object, undone: Undone = NOTHING) -> bool:
        """Return whether the value is this very object, and holds what it held.

        `undone` is what objects hold once newer calls are taken back.
        """
        if isinstance(found := undone.get(key_of(value)), Capture):
            return self.matches(found)
        return self.is_left(value, undone)

    def is_left(self, value: object, undone: Undone) -> bool:
        """Return the same of an object that is not in `undone` itself."""
        return self.identity.is_same(value) and not self.is_changed(value)

    def matches(self, found: Capture) -> bool:
        """Return whether it is the same state of the same object."""
        is_same = type(self) is type(found) and self.identity.address == found.identity.address
        return is_same and not self.differences(self.state, found.state, Secrecy.NONE)

    def drop_unchanged(self) -> None:
        """Forget what the call has not changed."""

    def undo_in(self, undone: dict[object, Any]) -> None:
        """Note what the object holds once the call is taken back."""
        undone[self.key] = self

    def describe_return(self, value: object, secret: Secrecy, undone: Undone) -> str:
        """Return what going back from a value does to it."""
        now = self.read(value)
        return "" if now is None else self.differences(now, self.state, secret)

    def restore(self, live: Live, problems: list[str]) -> object:
        """Return the object as it was: put back in place, or a copy in its stead.

        `live` has the objects that variables hold now, by their ids. To `problems` is added what
        cannot be put back.
        """
        return self.kept_object

    @property
    def kept_object(self) -> object:
        """The object; None if it is gone."""
        return self._value if self.is_held else self.identity.value

    @property
    def can_rebind(self) -> bool:
        """True if a name can be bound to what it held."""
        return self.is_held or self.state is not None or self.identity.value is not None

    def release(self) -> None:
        """Keep the object alive no longer: it is only compared with."""
        if self.state is self._value:
            self.state = None
        self.is_held, self._value = False, None

    def forget_if_dead(self) -> None:
        """Free what was copied if the object is gone: no variable can hold it again."""

    def size(self, live: Collection[int]) -> int:
        """Return the bytes that are held only by this; `live` are the ids of variables' values."""
        return text_length(self._value)


class Reference(Capture):
    """A value that cannot change."""

    @override
    def release(self) -> None:
        pass

    @override
    def is_left(self, value: object, undone: Undone) -> bool:
        return is_equal(self._value, value)

    @override
    def matches(self, found: Capture) -> bool:
        return isinstance(found, Reference) and is_equal(self._value, found._value)


class Described(Capture):
    """An object of whose inside only the description is known, such as a model or a class."""

    def __init__(self, value: object, kept: str | None = None, *, held: bool = True) -> None:
        super().__init__(value, held=held)
        self.kept = explain_type(self.type) if kept is None else kept
        self._look = _look_at(value)

    @override
    def compare(self, value: object, secret: Secrecy) -> str | None:
        return "" if self._look != _look_at(value) else None

    @override
    def size(self, live: Collection[int]) -> int:
        is_alone = self.is_held and id(self._value) not in live
        return UNKNOWN if is_alone and not has_state(self._value) else 0


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
