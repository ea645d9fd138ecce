"""Values that are written in C: what of them can be read, so that a change is noticed.

What cannot be read counts as changed, so that each type that is here spares questions.
"""

from __future__ import annotations

import contextvars
import io
import itertools
import operator
import pickle
import re
import struct
import sys
import threading
import types
import weakref
import zlib
from collections import namedtuple
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from types import FunctionType
from typing import Any

from ipyagent.imports import is_of_package
from ipyagent.kernel.describe.safe_inspect import is_a, module_name, type_name
from ipyagent.kernel.rehearsal.databases import is_connection, is_readable, read_connection

Reader = Callable[[], list[object]]
"""Reads the parts of a value: objects, and text that stands for what is no object."""


def _digest(data: object) -> str:
    view = memoryview(data)  # type: ignore[arg-type]
    return f"{view.nbytes} {zlib.crc32(view)}"


_FieldOfTuple = type(vars(namedtuple("One", "field"))["field"])
_READ: Mapping[type, Callable[[Any], list[object]]] = {
    contextvars.ContextVar: lambda variable: [variable.get(None)],
    weakref.ReferenceType: lambda reference: [reference()],
    memoryview: lambda view: [view.obj, _digest(view.tobytes())],
    itertools.count: lambda numbers: [repr(numbers)],
}
_MADE_ANEW = ("pydantic_core", "pyproj")
"""Libraries that keep in C what they make of a class or a text, and do not change."""
_CACHED = type(lru_cache(abs))
_UNCHANGING = frozenset(
    {
        re.Match,
        struct.Struct,
        types.TracebackType,
        operator.itemgetter,
        operator.attrgetter,
        _FieldOfTuple,
    }
)
"""Types whose values never change, and lead to what code reaches by other names."""
_CONTENT = frozenset(
    {
        *(str, bytes, bytearray, int, float, complex),
        *(bool, types.NoneType, pickle.PickleBuffer),
        *(tuple, list, dict, set, frozenset),
    }
)
_PICKLING = ("__reduce_ex__", "__reduce__", "__getstate__")
_BUILT_IN = frozenset(
    {object, tuple, list, dict, set, frozenset, str, bytes, int, float, complex, BaseException}
)
"""Classes of which Python tells all that their objects lead to."""


def find_reader(value: Any) -> Reader | None:
    """Return how to read an opaque value; None if it cannot be read."""
    kind, home = type(value), module_name(type(value)).partition(".")[0]
    if kind in _UNCHANGING or home in _MADE_ANEW:
        return list
    if (read := _READ.get(kind)) is not None:
        return partial(_try, read, value)
    if is_connection(value):
        return partial(read_connection, value) if is_readable(value) else None
    if is_closed_file(value):
        return lambda: [str(value.closed)]
    if kind is _CACHED and not value.cache_info().currsize:
        return lambda: [*vars(value).values()]
    if is_a(value, threading.local):
        return lambda: [*vars(value).values()]
    if home == "_thread":  # a lock, of which its text tells whether it is locked
        return lambda: [repr(value)]
    if home == "pandas" and kind is sys.modules[home].Categorical:
        return lambda: [_digest(value.codes.tobytes()), value.dtype]
    if home == "sklearn" and hasattr(value, "get_arrays"):  # its state counts who reads it
        return lambda: [*map(_digest, value.get_arrays())]
    if home == "lxml" and hasattr(value, "getroottree"):
        return lambda: [_digest(sys.modules["lxml.etree"].tostring(value.getroottree()))]
    return partial(_try, _read_pickled, value) if _is_pickled(value) else None


def is_closed_file(value: Any) -> bool:
    """Return whether a value is a file of Python's own that was closed."""
    return module_name(type(value)) == "_io" and bool(value.closed)


def _try(read: Callable[[Any], list[object]], value: object) -> list[object]:
    try:
        return read(value)
    except ValueError as error:  # it is closed, or was released
        return [str(error)]


def _is_pickled(value: object) -> bool:
    """Return whether a library tells all that a value holds, to save it."""
    kind = type(value)
    functions = [
        each for name in _PICKLING if is_a(each := getattr(kind, name, None), FunctionType)
    ]
    if any(is_own_module(sys.modules.get(each.__module__)) for each in functions):
        return False
    if module_name(kind) == "itertools":  # it warns
        return False
    try:
        return isinstance(value.__reduce_ex__(pickle.HIGHEST_PROTOCOL), tuple)
    except Exception:
        return False


def _read_pickled(value: object) -> list[object]:
    """Return checksums of what a library tells to save a value, and what that leads to."""
    pickler = _Pickler()
    pickler.dump(value.__reduce_ex__(pickle.HIGHEST_PROTOCOL)[1:])
    return pickler.read()


class _Pickler(pickle.Pickler):
    """Pickles text, numbers and arrays, and keeps what else it meets as it is."""

    def __init__(self) -> None:
        self._stream = io.BytesIO()
        self._arrays: list[pickle.PickleBuffer] = []
        self._parts: list[object] = []
        super().__init__(self._stream, pickle.HIGHEST_PROTOCOL, buffer_callback=self._arrays.append)

    def persistent_id(self, obj: object) -> int | None:
        """Return the number of what is kept; None if it is pickled."""
        kind = type(obj)
        home = module_name(kind).partition(".")[0]
        if kind in _CONTENT or home == "numpy" or type_name(kind) == "cython_function_or_method":
            return None
        self._parts.append(obj)
        return len(self._parts)

    def read(self) -> list[object]:
        """Return checksums of what was pickled, and all that was kept."""
        data = [self._stream.getbuffer(), *(each.raw() for each in self._arrays)]
        return [*map(_digest, data), *self._parts]


def is_built_in(cls: type) -> bool:
    """Return whether all that objects of a class of Python's own lead to can be found."""
    is_error = issubclass(cls, BaseException) and cls.__basicsize__ == BaseException.__basicsize__
    return cls in _BUILT_IN or (is_error and cls.__module__ == "builtins")


def is_own_module(module: object) -> bool:
    """Return whether a module is the user's, not one of an installed library."""
    if not is_a(module, types.ModuleType):
        return False
    members = module.__dict__
    path = members.get("__file__")
    if members.get("__name__") == "__main__":
        return True
    if type(path) is not str or is_of_package(path):
        return False
    return not path.startswith((f"{sys.base_prefix}/lib", f"{sys.prefix}/lib"))
