"""Existing values that code can reach, compared before and after: was anything changed inside?

It looks into containers, tables, functions, modules, classes and their objects, in a rehearsal's
process only. What it cannot see inside counts as changed: a look must not be a change that nobody
noticed. A capture that shares a table's memory does not notice writes that pass pandas: in a fork,
a page of memory is shared with the kernel until one of both writes to it, and the system tells
which pages are this process's own, so nothing has to be copied or read.
"""

from __future__ import annotations

import ctypes
import functools
import gc
import mmap
import re
import sys
import types
import zlib
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from ipyagent.kernel.describe.safe_inspect import (
    ancestors,
    class_dict,
    is_a,
    module_name,
    own_attributes,
    type_name,
)
from ipyagent.kernel.rehearsal.memory import read_page_flags
from ipyagent.kernel.rehearsal.opaque_values import find_reader, is_built_in, is_own_module
from ipyagent.kernel.variables.arrays import views_of_same_memory
from ipyagent.kernel.variables.captures import FIXED, Allowance, is_atom
from ipyagent.kernel.variables.checkpoint import capture
from ipyagent.kernel.variables.columns import PANDAS, find_memory, kind_of, memory_owners
from ipyagent.kernel.variables.containers import MADE_BY_STATEMENT
from ipyagent.kernel.variables.reach import names_in, reach_anything, without_shell
from ipyagent.kernel.variables.tables import TableCapture, copies_on_write

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


_MOST_VALUES, TOO_MUCH = 200_000, "too much to look through"
_UNLIMITED = 1 << 62
_FIXED = frozenset(
    {
        *(*FIXED, re.Pattern, slice, types.CodeType, types.MemberDescriptorType),
        *(types.WrapperDescriptorType, types.MethodDescriptorType, types.GetSetDescriptorType),
        types.ClassMethodDescriptorType,
    }
)
"""Types whose values never change, and lead to none that do."""
_MAPPINGS = frozenset({dict, OrderedDict, defaultdict, Counter})
_LEADING = frozenset(
    {
        *(list, tuple, deque, set, frozenset, functools.partial, property, staticmethod),
        *(classmethod, types.MethodType, types.MethodWrapperType, types.MappingProxyType),
        *(types.GenericAlias, types.UnionType),
    }
)
"""Types whose values are no more than what they lead to."""
_HELD_ELSEWHERE = (types.ModuleType, types.FunctionType, types.MethodType, type)
"""Types of what is referred to, never copied: modules or other objects hold it, too."""
_HEADS = ("__name__", "__qualname__", "__bases__")
_CACHES = ("__abstractmethods__", "_abc_impl", "__weakref__", "__dict__")
_WEAK_BEFORE, _DICT_BEFORE = 1 << 3, 1 << 4
"""Flags of classes: what lies before an object's own memory."""


class UnseenError(Exception):
    """Raised for a value that cannot be compared with what it was."""


class State:
    """One object's state: the parts that it had, and a way to read them again."""

    def __init__(
        self,
        read: Callable[[], list[object] | dict[str, object]],
        children: Iterable[object] | None = None,
        grows: Callable[[str], bool] = lambda name: False,
    ) -> None:
        """`children` are looked into as well, by default all parts.

        `grows` tells of a name whether it is no change that it is new.
        """
        self._read, self._grows = read, grows
        self.is_elsewhere = False
        # They are kept, so that no other object gets their place in memory.
        self._parts = self._name_parts()
        self.children = list(self._parts.values() if children is None else children)

    def is_unchanged(self) -> bool:
        """Return whether the parts are what they were."""
        before, now = self._parts, self._name_parts()
        return (
            before.keys() <= now.keys()
            and all(map(self._grows, now.keys() - before.keys()))
            and all(
                now[name] is part or (type(now[name]) is type(part) is str and now[name] == part)
                for name, part in before.items()
            )
        )

    def _name_parts(self) -> dict[Any, object]:
        parts = self._read()
        return dict(enumerate(parts)) if isinstance(parts, list) else parts


class WatchedValues:
    """The values of some variables, and all that can be reached from them, as they were."""

    def __init__(
        self, variables: Mapping[str, object], names: Iterable[str], last: Collection[str] = ()
    ) -> None:
        """`last` are told of what no other one leads to."""
        self.unseen: dict[str, str] = {}
        """The variables that hold something opaque, and what it is."""
        self.led_to = set[str]()
        """The variables that share something with one of the last."""
        self._variables, self._last = variables, last
        # A table that has a name is told of by it, not by what leads to it.
        ordered = sorted(
            names, key=lambda name: (name in last, kind_of(variables[name]) not in PANDAS)
        )
        self._states: dict[str, list[State]] = {name: [] for name in ordered}
        # The arrays of pandas are kept: a table may get others, which is no write.
        self._memory: list[tuple[str, object, object]] = []
        self._known: dict[int, tuple[str, object]] = {}
        """By id: the variable in which an object was found first, and the object."""
        self._released: Collection[str] = ()
        self._elsewhere: set[int] = set()
        """The ids of what leads on to what others hold, and of all that was found there."""
        self._new: set[int] | None = None
        self._constants: set[int] = set()
        for name in self._states:
            try:
                self._walk(name)
            except UnseenError as error:
                self.unseen[name] = str(error)
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

    def let_go(self, names: Collection[str]) -> None:
        """Count the data that was found in these variables as new: nothing else holds it."""
        self._released = names

    def list_changed_elsewhere(self) -> list[str]:
        """Return the variables by which something was changed that is no data of theirs."""
        return [
            name
            for name, states in self._states.items()
            if not all(each.is_unchanged() for each in states if each.is_elsewhere)
        ]

    def is_old(self, value: object) -> bool:
        """Return whether this very object was there before, in reach or not."""
        if self._new is None:  # all that was there is frozen
            self._new = {id(each) for each in gc.get_objects()}
            modules = [m for m in list(sys.modules.values()) if is_a(m, types.ModuleType)]
            libraries = [m for m in modules if not is_own_module(m)]
            self._constants = {id(each) for m in libraries for each in m.__dict__.values()}
        if id(value) in self._known:
            name = self._known[id(value)][0]
            return name not in self._released or id(value) in self._elsewhere
        if id(value) in self._constants:
            return True
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
            if id(one) in self._known and name in self._last:
                self.led_to.add(self._known[id(one)][0])
            if id(one) in self._known or type(one) in _FIXED:
                continue
            if len(self._known) > _MOST_VALUES:
                raise UnseenError(TOO_MUCH)
            self._known[id(one)] = name, one
            state = _capture(one, self._variables)
            self._states[name].append(state)
            if id(one) in self._elsewhere or any(is_a(one, each) for each in _HELD_ELSEWHERE):
                state.is_elsewhere = True
                self._elsewhere |= {id(one), *map(id, state.children)}
            if module_name(type(one)).partition(".")[0] == "pandas":
                self._memory += [(name, each, _read(each)) for each in find_memory(one)]
                if kind_of(one) in PANDAS and not copies_on_write():
                    self._known |= {id(each): (name, each) for each in memory_owners(one)}
            waiting += state.children


def _capture(value: Any, variables: Mapping[str, object]) -> State:
    kind = type(value)
    if kind in _MAPPINGS:
        return State(lambda: _read_mapping(value))
    if kind is bytearray:
        return State(lambda: [value.decode("latin-1")])
    if kind in _LEADING:
        return State(lambda: gc.get_referents(value))
    if kind is types.BuiltinFunctionType:
        owner = value.__self__
        return State(lambda: [] if is_a(owner, types.ModuleType) else [owner])
    if kind is types.FunctionType:
        return _capture_function(value, variables)
    if is_a(value, types.ModuleType):
        return _capture_module(value)
    if is_a(value, type):
        return _capture_class(value)
    if (state := _capture_data(value) or _capture_instance(value)) is not None:
        return state
    if (read := find_reader(value)) is not None:
        return State(read)
    raise UnseenError(type_name(kind))


def _capture_data(value: Any) -> State | None:
    """Return the state of a table, a column, an array or their labels; None if it is none."""
    kind, home = type(value), module_name(type(value)).partition(".")[0]
    library: Any = sys.modules.get(home)
    if home == "pyarrow" and kind.__name__.endswith(("Array", "Table", "Type", "Schema", "Field")):
        return State(list)  # they never change
    if home == "numpy" and issubclass(kind, library.ndarray):
        cells = library.ndarray.view(value, library.ndarray)
        return State(lambda: [*_read_array(cells, library), *own_attributes(value).values()])
    if kind_of(value) in PANDAS:
        objects = [each for array in value._mgr.arrays for each in _list_objects(array)]
        before = _capture_table(value)
        return State(
            lambda: [
                before.is_changed(value),
                value.name if kind is library.Series else None,
                *_list_added(value),
            ],
            [kind, value.attrs, *value.axes, *objects, *_list_added(value)],
        )
    if home == "pandas" and is_a(value, library.Index):
        levels = [*value.levels] if hasattr(value, "levels") else []
        children = [*(levels or _list_objects(value))]
        return State(lambda: [*value.names, getattr(value, "freqstr", None)], children)
    if home in ("numpy", "pandas") and is_atom(value):
        return State(list)
    if home == "polars" and kind_of(value):
        table = _capture_table(value)
        return State(lambda: [table.is_changed(value)], [])
    return None


def _capture_table(value: object) -> TableCapture:
    """Return the state of a table as a snapshot keeps it; raises UnseenError."""
    found = capture(value, Allowance(_UNLIMITED, _UNLIMITED))
    if not isinstance(found, TableCapture):
        raise UnseenError("column that pandas does not define")
    return found


def _read_mapping(value: Mapping[object, object]) -> list[object]:
    pairs = (part for pair in value.items() for part in pair)
    return [getattr(value, "default_factory", None), *own_attributes(value).values(), *pairs]


def _read_array(array: Any, numpy: types.ModuleType) -> list[object]:
    """Return a checksum of an array, or the objects in it."""
    dtype = array.dtype
    found: list[object] = [f"{array.shape} {dtype.str} {dtype.names} {array.flags.writeable}"]
    if dtype.hasobject or dtype.kind == "T":
        return [*found, *array.ravel().tolist()]
    data = numpy.ascontiguousarray(array).reshape(-1).view("u1") if array.size else b""
    return [*found, str(zlib.crc32(data))]


def _list_added(table: object) -> list[object]:
    """Return the attributes that were set on a table of pandas, which itself adds accessors."""
    added = own_attributes(table).items()
    return [each for name, each in added if name[:1] != "_" and not hasattr(type(table), name)]


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

    children = read()
    if "__name__" not in scope or is_own_module(sys.modules.get(scope["__name__"])):
        names = [*names_in(function.__code__)]
        reached = [*names, *(without_shell(variables) if reach_anything(names) else ())]
        children += [scope[name] for name in reached if name in scope]
    return State(read, children)


def _capture_module(module: types.ModuleType) -> State:
    is_own = is_own_module(module)
    # A library fills its own private names when it is first used, and may import more.
    lazy = {
        name
        for name, each in module.__dict__.items()
        if name[:2] == "__" or (not is_own and name[:1] == "_" and each is None)
    }

    def read() -> dict[str, object]:
        members = dict(module.__dict__).items()
        return {n: m for n, m in members if n not in lazy and not is_a(m, types.ModuleType)}

    members = [each for name, each in module.__dict__.items() if name[:2] != "__"]
    children = members if is_own else [each for each in members if is_a(each, type)]

    def grows(name: str) -> bool:
        """Return whether a library may have filled the name itself, as when it is first used."""
        new = module.__dict__[name]
        if is_own or not (is_a(new, types.FunctionType) or is_a(new, type)):
            return name[:1] == "_"
        return not is_own_module(sys.modules.get(getattr(new, "__module__", "")))

    return State(read, children, grows)


def _capture_class(cls: type) -> State:
    def read() -> dict[str, object]:
        heads = {f".{n}": type.__dict__[n].__get__(cls) for n in _HEADS}
        return {**heads, **{n: m for n, m in class_dict(cls).items() if n not in _CACHES}}

    if not is_own_module(sys.modules.get(module_name(cls))):
        # A library itself adds private names to its classes.
        return State(read, [], lambda name: name[:1] == "_")
    return State(read, [*read().values(), *cls.__bases__])


def _capture_instance(value: object) -> State | None:
    """Return the state of an object that is all in Python; None if a part of it is in C."""
    kind = type(value)
    if not all(is_built_in(cls) or _has_only_slots(cls) for cls in ancestors(kind)):
        return None
    own_attributes(value)  # makes its dictionary, which is one of the things that it leads to
    home = module_name(kind)
    if home == "builtins" or is_own_module(sys.modules.get(home)):
        return State(lambda: [kind, *gc.get_referents(value)])
    if ctypes.c_void_p in map(type, own_attributes(value).values()):
        return None  # what it holds is elsewhere

    def read() -> dict[str, object]:
        held = getattr(value, "__dict__", None)
        others = (each for each in gc.get_referents(value) if each is not held)
        parts = own_attributes(value) | {f".{n}": each for n, each in enumerate(others)}
        return {name: part for name, part in parts.items() if name != "_cache"}

    # A library keeps there, under private names, what it has computed.
    return State(read, grows=lambda name: name[:1] == "_")


def _has_only_slots(cls: type) -> bool:
    """Return whether objects of a class hold only slots and a dictionary, nothing in C."""
    members, flags = class_dict(cls), cls.__flags__
    if not flags & MADE_BY_STATEMENT or cls.__base__ is None:
        return False
    slots = [type(each) is types.MemberDescriptorType for each in members.values()]
    slots.append("__weakref__" in members and not flags & _WEAK_BEFORE)
    slots.append("__dict__" in members and not flags & _DICT_BEFORE)
    return cls.__basicsize__ - cls.__base__.__basicsize__ == 8 * sum(slots)
