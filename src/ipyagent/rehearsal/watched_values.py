"""The user's data that code can reach, compared before and after: was any of it changed?

Data is plain: containers, tables, arrays, functions, and objects of classes that the notebook or
the workspace defines. An object of a library keeps caches, counters and connections of its own,
which stay on the copy and are nobody's change; they are not looked into.

In a fork, a page of memory is shared with the kernel until one of both writes to it, and the system
tells which pages are this process's own. So arrays are neither copied nor read.
"""

from __future__ import annotations

import ctypes
import functools
import gc
import mmap
import re
import sys
import types
import weakref
import zlib
from array import array
from collections import ChainMap, Counter, OrderedDict, UserDict, UserList, defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from contextvars import ContextVar
from typing import Any

from ipyagent.imports import is_of_package
from ipyagent.rehearsal.system import read_page_flags
from ipyagent.values.describe.safe_inspect import (
    ancestors,
    class_dict,
    is_a,
    module_name,
    own_attributes,
    set_attributes,
)
from ipyagent.values.variables.arrays import views_of_same_memory
from ipyagent.values.variables.checkpoint import Allowance, Capture
from ipyagent.values.variables.parts import FIXED, is_atom
from ipyagent.values.variables.reach import attributes_set, names_in, reach_anything, without_shell
from ipyagent.values.variables.tables import (
    PANDAS,
    TablePart,
    copies_on_write,
    find_memory,
    kind_of,
    memory_owners,
)

_PAGE = mmap.PAGESIZE
_SMALL = 8 * _PAGE
"""Bytes up to which all of an array is kept and compared."""
_OWN = bytes(flags & 0b100001 == 1 for flags in range(256))
"""By a page's flags: whether it is mapped only here (bit 56) and not one of a file (bit 61), which
was only read."""


def _read(array: Any) -> object:
    """Return what is different once something was written into an array, or a buffer of Arrow."""
    if not hasattr(array, "strides"):
        return read_pages(array.address, array.address + array.size)
    if array.nbytes < _SMALL:
        return array.flags.writeable, array.tobytes()
    steps = [(n - 1) * step for n, step in zip(array.shape, array.strides, strict=True)]
    start = array.__array_interface__["data"][0]
    end = start + sum(each for each in steps if each > 0) + array.itemsize
    start += sum(each for each in steps if each < 0)
    return array.flags.writeable, read_pages(start, end)


def read_pages(start: int, end: int) -> tuple[list[int], int]:
    """Return which whole pages are this process's own, and a checksum of these and the edges.

    Raises OSError.
    """
    first, last = -(-start // _PAGE), end // _PAGE
    pages = _list_own_pages(first, last) if first < last else []
    edges = [(start, min(first * _PAGE, end)), (max(last * _PAGE, first * _PAGE), end)]
    checksum = 0
    for begin, stop in [*edges, *((page * _PAGE, (page + 1) * _PAGE) for page in pages)]:
        checksum = zlib.crc32(ctypes.string_at(begin, max(0, stop - begin)), checksum)
    return pages, checksum


def _list_own_pages(first: int, last: int) -> list[int]:
    """Return the pages of a stretch that this process has written, or made."""
    flags = read_page_flags(first, last).translate(_OWN)
    return [first + each.start() for each in re.finditer(b"\1", flags)]


_MOST_VALUES = 200_000
TOO_MUCH = "too much to look through"
_UNLIMITED = 1 << 62
_FIXED = frozenset({*FIXED, re.Pattern, slice, types.CodeType})
"""Types whose values never change, and lead to none that do."""
_MAPPINGS = frozenset({dict, OrderedDict, defaultdict, Counter})
_LEADING = frozenset(
    {
        *(list, tuple, deque, set, frozenset, functools.partial, property, staticmethod),
        *(classmethod, types.MethodType, types.MappingProxyType, types.SimpleNamespace),
        *(types.BuiltinFunctionType, types.MethodWrapperType),
    }
)
"""Types whose values are no more than what they lead to."""
_BUFFERS = (bytearray, array, memoryview, ctypes.c_int.__mro__[-2])
"""Types of memory that is read as bytes; the last is that of all values of C."""
_WRAPPERS = frozenset({ChainMap, UserDict, UserList})
"""Containers of the standard library that are written in Python."""
_HEADS = ("__name__", "__qualname__", "__bases__")
_CACHES = ("__abstractmethods__", "_abc_impl", "__weakref__", "__dict__")


class TooMuchError(Exception):
    """Raised where there is more data than can be compared with what it was."""


class State:
    """The parts of one object as they were, and a way to read them again."""

    def __init__(
        self,
        read: Callable[[], list[object] | dict[str, object]],
        children: Iterable[object] | None = None,
    ) -> None:
        """`children` are looked into as well, by default all parts."""
        self._read = read
        # They are kept, so that no other object gets their place in memory.
        self._parts = self._name_parts()
        self.children = list(self._parts.values() if children is None else children)

    def is_unchanged(self) -> bool:
        """Return whether the parts are what they were."""
        before, now = self._parts, self._name_parts()
        return before.keys() == now.keys() and all(
            now[name] is part or (type(now[name]) is type(part) is str and now[name] == part)
            for name, part in before.items()
        )

    def _name_parts(self) -> dict[Any, object]:
        parts = self._read()
        return dict(enumerate(parts)) if isinstance(parts, list) else parts


class WatchedValues:
    """The values of some variables, and all data that can be reached from them, as they were."""

    def __init__(
        self, variables: Mapping[str, object], names: Iterable[str], attributes: Iterable[str] = ()
    ) -> None:
        """Note the variables with these `names`; the code may set these `attributes`."""
        self.unseen: set[str] = set()
        """The variables with more data than can be compared."""
        self._variables, self._set = variables, {*attributes}
        shown = (each for name, each in variables.items() if name[:1] != "_" and name != "Out")
        self._named = {id(each) for each in shown if is_data(each)}
        # A table that has a name is reported by it, not by what leads to it.
        ordered = sorted(names, key=lambda name: not _is_table(variables[name]))
        self._states: dict[str, list[State]] = {name: [] for name in ordered}
        # The arrays of pandas are kept: a table may get others, which is no write.
        self._memory: list[tuple[str, object, object]] = []
        self._known: dict[int, tuple[str, object]] = {}
        """By id: the variable in which an object was found first, and the object."""
        self._released: Collection[str] = ()
        self._new: set[int] | None = None
        for name in self._states:
            try:
                self._walk(name)
            except TooMuchError:
                self.unseen.add(name)
        gc.freeze()

    def list_changed(self) -> list[str]:
        """Return the variables that were changed inside."""
        return [
            name
            for name, states in self._states.items()
            if not all(each.is_unchanged() for each in states)
        ]

    def list_written(self) -> list[str]:
        """Return the variables whose tables' memory was written, and those that share it.

        Raises OSError.
        """
        written = [(name, array) for name, array, before in self._memory if _read(array) != before]
        others = (
            (name, part)
            for name, value in self._variables.items()
            if type(name) is str and name[:1] != "_"
            for part in find_memory(value)
        )
        sharing = views_of_same_memory([array for _, array in written], others)
        return [*dict.fromkeys([*(name for name, _ in written), *sharing])]

    def find_foreign(self, name: str) -> object:
        """Return an object of a library that a variable's data holds, None if there is none."""
        held = (each for state in self._states.get(name, [])[:1] for each in state.children)
        return next((each for each in held if not is_data(each) and not is_atom(each)), None)

    def let_go(self, names: Collection[str]) -> None:
        """Count the data that was found in these variables as new: nothing else holds it."""
        self._released = names

    def is_old(self, value: object) -> bool:
        """Return whether this very object was there before, in reach or not."""
        if self._new is None:  # all that was there is frozen
            self._new = {id(each) for each in gc.get_objects()}
        if id(value) in self._known:
            return self._known[id(value)][0] not in self._released
        return gc.is_tracked(value) and id(value) not in self._new

    def is_in_table(self, owner: object) -> bool:
        """Return whether an array holds cells of a table that was there before."""
        return any(
            each is owner and name not in self._released
            for name, memory, _ in self._memory
            for each in memory_owners(memory)
        )

    def _walk(self, name: str) -> None:
        waiting = [self._variables[name]]
        while waiting:
            one = waiting.pop()
            if id(one) in self._known or type(one) in _FIXED:
                continue
            if len(self._known) > _MOST_VALUES:
                raise TooMuchError
            self._known[id(one)] = name, one
            if (state := _capture(one, self._variables, self._set)) is None:
                # A library's parts are its own, unless they are the value of another variable.
                held = [*gc.get_referents(one), *own_attributes(one).values()]
                waiting += [each for each in held if id(each) in self._named]
                continue
            self._states[name].append(state)
            if isinstance(one, types.FunctionType):
                self._set |= attributes_set(one.__code__)
            if module_name(type(one)).partition(".")[0] == "pandas":
                self._memory += [(name, each, _read(each)) for each in find_memory(one)]
                if kind_of(one) in PANDAS and not copies_on_write():
                    self._known |= {id(each): (name, each) for each in memory_owners(one)}
            waiting += state.children


def is_data(value: Any) -> bool:
    """Return whether a value is the user's data, which code may change only after a question."""
    if _is_definition(value):
        return _is_own(value)
    kind = type(value)
    is_plain = any(kind in kinds for kinds in (_FIXED, _MAPPINGS, _LEADING, _WRAPPERS))
    is_plain = is_plain or any(is_a(value, each) for each in _BUFFERS)
    return is_plain or is_atom(value) or _is_table(value) or _is_cells(value) or _is_own(kind)


def _is_definition(value: object) -> bool:
    return any(is_a(value, each) for each in (type, types.FunctionType, types.ModuleType))


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


def _capture(
    value: Any, variables: Mapping[str, object], attributes: Collection[str]
) -> State | None:
    """Return the state of data; None for an object of a library.

    `attributes` are those that the code may set, as far as they are known in the end.
    """
    kind = type(value)
    if kind in _MAPPINGS:
        return State(lambda: _read_mapping(value))
    if any(is_a(value, each) for each in _BUFFERS):
        return State(lambda: [str(memoryview(value).tobytes()), *own_attributes(value).values()])
    if kind in _LEADING:
        return State(lambda: gc.get_referents(value))
    if kind in (weakref.ref, ContextVar):
        return State(list, [value() if kind is weakref.ref else value.get(None)])
    if (state := _capture_table(value)) is not None:
        return state
    if kind not in _WRAPPERS and not _is_own(value if _is_definition(value) else kind):
        return None
    if kind is types.FunctionType:
        return _capture_function(value, variables)
    if is_a(value, types.ModuleType):
        return _capture_module(value)
    if is_a(value, type):
        return State(lambda: _read_class(value))
    return _capture_instance(value, attributes)


def _is_own(definition: Any) -> bool:
    """Return whether the user defines a class or function, or has written a module."""
    if is_a(definition, types.ModuleType):
        return is_own_module(definition)
    if type(definition) is types.FunctionType:
        name = definition.__globals__.get("__name__", "__main__")
        return is_own_module(sys.modules.get(name))
    return any(is_own_module(sys.modules.get(module_name(each))) for each in ancestors(definition))


def _is_table(value: object) -> bool:
    """Return whether a value is a table or a column of pandas, or of a class made from these."""
    pandas: Any = sys.modules.get("pandas")
    if pandas is None:
        return False
    bases = ancestors(type(value))
    return any(base is pandas.DataFrame or base is pandas.Series for base in bases)


def _is_cells(value: object) -> bool:
    """Return whether a value is an array of numpy, or a table or column of polars."""
    numpy: Any = sys.modules.get("numpy")
    return (numpy is not None and is_a(value, numpy.ndarray)) or kind_of(value) is not None


def _capture_table(value: Any) -> State | None:
    """Return the state of a table, a column, an array or their labels; None if it is none."""
    kind, home = type(value), module_name(type(value)).partition(".")[0]
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None and is_a(value, numpy.ndarray):
        return State(functools.partial(_read_array, value, numpy))
    if _is_table(value):
        pandas: Any = sys.modules["pandas"]
        objects = [each for array in value._mgr.arrays for each in _list_objects(array)]
        is_column = any(base is pandas.Series for base in ancestors(kind))
        base = pandas.Series if is_column else pandas.DataFrame
        before = _capture_columns(value if kind is base else base(value))
        return State(
            lambda: [
                before.is_changed(value if kind is base else base(value)),
                value.name if is_column else None,
                *_list_added(value),
            ],
            [value.attrs, *value.axes, *objects, *_list_added(value)],
        )
    if home == "pandas" and is_a(value, sys.modules[home].Index):
        levels = [*value.levels] if hasattr(value, "levels") else []
        children = [*(levels or _list_objects(value))]
        return State(lambda: [*value.names, getattr(value, "freqstr", None)], children)
    if home == "polars" and kind_of(value):
        table = _capture_columns(value)
        return State(lambda: [table.is_changed(value)], [])
    return None


def _capture_columns(value: object) -> TablePart:
    """Return the state of a table as a snapshot keeps it; raises TooMuchError.

    So does a column of a type that another library, or the notebook, does not define wholly.
    """
    with suppress(Exception):
        found = Capture(value, Allowance(_UNLIMITED, _UNLIMITED).copy).root
        if isinstance(found, TablePart) and not found.is_changed(value):
            return found
    raise TooMuchError


def _read_mapping(value: Mapping[object, object]) -> list[object]:
    pairs = (part for pair in value.items() for part in pair)
    return [getattr(value, "default_factory", None), *own_attributes(value).values(), *pairs]


def _read_array(array: Any, numpy: Any) -> list[object]:
    """Return what differs once an array was changed, and the objects in it."""
    cells = numpy.ndarray.view(array, numpy.ndarray)
    dtype = cells.dtype
    found: list[object] = [f"{cells.shape} {cells.strides} {dtype.str} {dtype.names}"]
    found += own_attributes(array).values()
    if dtype.hasobject or dtype.kind == "T":
        return [*found, *cells.ravel().tolist()]
    return [*found, str(_read(cells))]


def _list_added(table: object) -> list[object]:
    """Return the attributes that were set on a table of pandas."""
    return [each for name, each in set_attributes(table).items() if name[:1] != "_"]


def _list_objects(cells: Any) -> list[object]:
    """Return the objects in cells that can hold others than text and missing values."""
    if str(cells.dtype) != "object":
        return []
    return [each for each in cells.ravel().tolist() if type(each) is not str]


def _capture_function(function: types.FunctionType, variables: Mapping[str, object]) -> State:
    cells, scope = function.__closure__ or (), function.__globals__

    def read() -> list[object]:
        contents = [part for cell in cells for part in gc.get_referents(cell)]
        parts = [function.__code__, function.__defaults__, function.__kwdefaults__, *contents]
        parts += [function.__name__, function.__qualname__, function.__module__, function.__doc__]
        return [*parts, *own_attributes(function).values()]

    names = [*names_in(function.__code__)]
    reached = [*names, *(without_shell(variables) if reach_anything(names) else ())]
    return State(read, [*read(), *(scope[name] for name in reached if name in scope)])


def _capture_module(module: types.ModuleType) -> State:
    def read() -> dict[str, object]:
        members = dict(module.__dict__).items()
        return {n: m for n, m in members if n[:2] != "__" and not is_a(m, types.ModuleType)}

    return State(read)


def _read_class(cls: type) -> dict[str, object]:
    heads = {f".{n}": type.__dict__[n].__get__(cls) for n in _HEADS}
    return {
        ".type": type(cls),
        **heads,
        **{n: m for n, m in class_dict(cls).items() if n not in _CACHES},
    }


def _capture_instance(value: Any, attributes: Collection[str]) -> State:
    # This makes its dictionary, which is one of the things that it leads to.
    before = frozenset(own_attributes(value))

    def read() -> dict[str, object]:
        held = getattr(value, "__dict__", None)
        others = [each for each in gc.get_referents(value) if each is not held]
        others += dict.keys(value) if is_a(value, dict) else []
        numbered = {f".{number}": each for number, each in enumerate(others)}
        # A value that a class finds and keeps is not a change; setting it to another one is.
        own = own_attributes(value).items()
        known = {name: each for name, each in own if name in before or name in attributes}
        return {**set_attributes(value), **known, **numbered}

    return State(read)
