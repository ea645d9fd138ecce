"""Values that are written in C: what of them can be read, so that a change is noticed.

What cannot be read counts as changed, so that each type that is here spares questions.
"""

from __future__ import annotations

import array
import contextvars
import io
import itertools
import operator
import pickle
import random
import re
import sys
import types
import weakref
import zlib
from collections import namedtuple
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import Any
from xml.etree.ElementTree import Element

from ipyagent.kernel.describe.safe_inspect import module_name

Reader = Callable[[], list[object]]
"""Reads the parts of a value: objects, and text that stands for what is no object."""


def _digest(data: object) -> str:
    view = memoryview(data)  # type: ignore[arg-type]
    return f"{view.nbytes} {zlib.crc32(view)}"


def _read_stream(stream: io.StringIO | io.BytesIO) -> list[object]:
    content = stream.getvalue()
    return [str(stream.tell()), content if type(content) is str else _digest(content)]


_FieldOfTuple = type(vars(namedtuple("One", "field"))["field"])
_READ: Mapping[type, Callable[[Any], list[object]]] = {
    contextvars.ContextVar: lambda variable: [variable.get(None)],
    weakref.ReferenceType: lambda reference: [reference()],
    array.array: lambda numbers: [numbers.typecode, _digest(numbers)],
    memoryview: lambda view: [view.obj, _digest(view.tobytes())],
    io.StringIO: _read_stream,
    io.BytesIO: _read_stream,
    random.Random: lambda source: [repr(source.getstate())],
    Element: lambda node: [node.tag, node.text, node.tail, node.attrib, *node],
    itertools.count: lambda numbers: [repr(numbers)],
}
_CACHED = type(lru_cache(abs))
_UNCHANGING = frozenset(
    {re.Match, types.TracebackType, operator.itemgetter, operator.attrgetter, _FieldOfTuple}
)
"""Types whose values never change, and lead to what code reaches by other names."""
_RANDOM = {"Generator", "RandomState", "PCG64", "MT19937", "PCG64DXSM", "Philox", "SFC64"}
_BUILT_IN = frozenset(
    {object, tuple, list, dict, set, frozenset, str, bytes, int, float, complex, BaseException}
)
"""Classes of which Python tells all that their objects lead to."""


def find_reader(value: Any) -> Reader | None:
    """Return how to read an opaque value; None if it cannot be read."""
    kind, home = type(value), module_name(type(value)).partition(".")[0]
    if kind in _UNCHANGING or home == "pydantic_core":  # made of a class, which is looked into
        return list
    if (read := _READ.get(kind)) is not None:
        return partial(_try, read, value)
    if is_closed_file(value):
        return lambda: [str(value.closed)]
    if kind is _CACHED and not value.cache_info().currsize:
        return lambda: [*vars(value).values()]
    if home == "_thread":  # a lock, of which its text tells whether it is locked
        return lambda: [repr(value)]
    if home == "numpy" and kind.__name__ in _RANDOM:
        return lambda: [pickle.dumps(_read_random(value)).hex()]
    if home == "pandas" and kind is sys.modules[home].Categorical:
        return lambda: [_digest(value.codes.tobytes()), value.dtype]
    return None


def is_closed_file(value: Any) -> bool:
    """Return whether a value is a file of Python's own that was closed."""
    return module_name(type(value)) == "_io" and bool(value.closed)


def _try(read: Callable[[Any], list[object]], value: object) -> list[object]:
    try:
        return read(value)
    except ValueError as error:  # it is closed, or was released
        return [str(error)]


def _read_random(source: Any) -> object:
    """Return the state of numpy's generators of random numbers."""
    bits = getattr(source, "bit_generator", source)
    return bits.state if hasattr(bits, "state") else bits.get_state(legacy=False)


def is_built_in(cls: type) -> bool:
    """Return whether all that objects of a class of Python's own lead to can be found."""
    is_error = issubclass(cls, BaseException) and cls.__basicsize__ == BaseException.__basicsize__
    return cls in _BUILT_IN or (is_error and cls.__module__ == "builtins")
