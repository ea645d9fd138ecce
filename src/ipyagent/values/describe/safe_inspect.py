"""Inspection of objects without running any code of their classes.

`isinstance`, `hash`, `==`, `len`, `repr` and attribute access may all be the user's own code: slow,
failing, with side effects, or asking a database. So types are compared by identity along the real
method resolution order, and attributes are read from the dictionaries themselves.
"""

from __future__ import annotations

import sys
import types
import weakref
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from ipyagent.plaintext import ellipsize, visible

_NAME = type.__dict__["__name__"].__get__
_MRO = type.__dict__["__mro__"].__get__
_MODULE = type.__dict__["__module__"].__get__
_DICT = type.__dict__["__dict__"].__get__


class ObjectIdentity:
    """An object's identity, without keeping it alive: memory that code frees is freed."""

    __slots__ = ("_id", "_weak")

    def __init__(self, value: object) -> None:
        self._id = id(value)
        self._weak: weakref.ref[object] | None = None
        # An array that anything refers to, even weakly, cannot be resized by its owner.
        if type(value) is not getattr(sys.modules.get("numpy"), "ndarray", None):
            with suppress(TypeError):  # of numbers and plain containers only the address is known
                self._weak = weakref.ref(value)

    def is_same(self, value: object) -> bool:
        """Return whether this is the very object."""
        if self._weak is None:
            return id(value) == self._id
        return value is not None and value is self._weak()

    @property
    def address(self) -> int:
        """Its id."""
        return self._id

    @property
    def is_gone(self) -> bool:
        """True if it surely is."""
        return self._weak is not None and self._weak() is None

    @property
    def value(self) -> object:
        """The object; None if it is gone, or known by its address alone."""
        return self._weak() if self._weak is not None else None


def ancestors(cls: type) -> tuple[type, ...]:
    """Return the class and its bases, in resolution order."""
    return tuple(_MRO(cls))


def is_a(value: object, cls: type) -> bool:
    """Return what `isinstance` would, without asking the class."""
    return id(cls) in map(id, _MRO(type(value)))


def class_dict(cls: type) -> types.MappingProxyType[str, Any]:
    """Return the class's own dictionary."""
    return _DICT(cls)  # type: ignore[no-any-return]


def type_name(cls: type) -> str:
    """Return the class's name, on one line."""
    return one_line(_NAME(cls))


def module_name(cls: type) -> str:
    """Return the module in which the class was defined, or ""."""
    try:
        module = _MODULE(cls)
    except AttributeError:  # it was made in C
        return ""
    return one_line(module) if type(module) is str else ""


def is_library_class(cls: type, *homes: str) -> bool:
    """Return whether the class is really one of these packages' own, whatever it says of itself."""
    return module_name(cls).partition(".")[0] in homes and is_of_module(cls)


def is_of_module(cls: type) -> bool:
    """Return whether the module that a class names has this very class under its name."""
    module = sys.modules.get(module_name(cls))
    if module is None:
        return False
    names = module_dict(module)
    return type(names) is dict and names.get(type_name(cls)) is cls


def is_of_library(cls: type) -> bool:
    """Return whether a class is really one of a module's own, and none that was just defined."""
    return module_name(cls) != "__main__" and is_of_module(cls)


def module_dict(module: types.ModuleType) -> dict[str, object]:
    """Return the names in a module; a lazy one loads nothing."""
    names: dict[str, object] = class_dict(types.ModuleType)["__dict__"].__get__(module)
    return names


def overrides(cls: type, base: type, names: Iterable[str]) -> bool:
    """Return whether a class between `cls` and its ancestor `base` defines one of the names."""
    below = ancestors(cls)[: next(i for i, c in enumerate(ancestors(cls)) if c is base)]
    return any(name in class_dict(c) for c in below for name in names)


def instance_dict(value: object) -> dict[str, object] | None:
    """Return the instance's own dictionary; None if the class has none or hides it."""
    for cls in ancestors(type(value)):
        if "__dict__" in class_dict(cls):
            getter = class_dict(cls)["__dict__"]
            if type(getter) not in (types.GetSetDescriptorType, types.MemberDescriptorType):
                return None  # the class defines its own `__dict__`
            attributes = getter.__get__(value)
            return attributes if type(attributes) is dict else None
    return None


def own_attributes(value: object) -> dict[str, object]:
    """Return a copy of the instance's dictionary; empty if the class has none or hides it."""
    return dict(instance_dict(value) or {})


def set_attributes(value: object) -> dict[str, object]:
    """Return the instance's dictionary without what its class finds once, and keeps there.

    As properties that are cached do, and accessors of tables.
    """
    found = own_attributes(value)
    return {name: found[name] for name in found if not _is_cache(type(value), name)}


def _is_cache(cls: type, name: str) -> bool:
    """Return whether what a class has by this name reads attributes, but does not set them."""
    member = next(
        (class_dict(each)[name] for each in ancestors(cls) if name in class_dict(each)), 0
    )
    kinds = [class_dict(each) for each in ancestors(type(member))]
    special = {n for n in ("__get__", "__set__", "__call__") if any(n in each for each in kinds)}
    return special == {"__get__"}


def slots(cls: type) -> list[str]:
    """Return the names of the class's slots, inherited ones too."""
    return [
        name
        for base in ancestors(cls)
        for name, member in class_dict(base).items()
        if type(member) is types.MemberDescriptorType and not name.startswith("__")
    ]


def one_line(text: str, limit: int = 80) -> str:
    """Return the text on one line, cut to `limit` characters, with nothing invisible in it."""
    if len(text) <= limit and text.isascii() and text.isprintable():
        return text
    return visible(" ".join(ellipsize(text, limit).splitlines()))
