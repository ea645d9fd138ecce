"""The effects of code on the variables of a copy: what is different, and what of it is plain data.

Of the rest, what the code has made for its own output can be left on the copy.
"""

from __future__ import annotations

import builtins
import gc
import re
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, MutableMapping
from contextlib import suppress
from dataclasses import dataclass
from types import BuiltinFunctionType, FrameType, FunctionType, ModuleType
from typing import Any, Literal

from ipyagent.json_types import JsonDict
from ipyagent.kernel.describe import kind
from ipyagent.kernel.describe.safe_inspect import ancestors, module_name
from ipyagent.kernel.rehearsal.opaque_values import is_closed_file
from ipyagent.kernel.rehearsal.plain_cells import NotPlainError
from ipyagent.kernel.rehearsal.plain_data import is_same_data, write_all
from ipyagent.kernel.rehearsal.watched_values import TOO_MUCH, WatchedValues
from ipyagent.kernel.variables.arrays import is_array
from ipyagent.kernel.variables.captures import is_atom
from ipyagent.kernel.variables.columns import kind_of
from ipyagent.kernel.variables.reach import (
    is_of_shell,
    list_names,
    loaded_names,
    names_of_loops,
    stored_names,
    without_shell,
)
from ipyagent.schema import VariableChange

_BY_SHELL = re.compile(r"_{1,3}|_i{1,3}|_i?[0-9]+|_oh|_dh|_ih|_exit_code|In|Out")
"""Names that the shell binds anew; what they hold are objects that others hold, too."""
_BY_PYTHON = frozenset({"__builtins__", "__warningregistry__", "__annotations__"})
_DRAWINGS = re.compile(r"(matplotlib|mpl_toolkits|seaborn)(\.|$)")
"""Modules whose objects serve the code that makes them, even if it does not use them."""


@dataclass(frozen=True)
class Kernel:
    """The kernel as it is when code runs on a copy of it, where earlier code may have run."""

    names: Collection[str]
    own: Collection[str]
    """Variables that the run has made: changed, they can be adopted like new ones."""
    modules: Collection[str]
    """The names of the modules that are loaded."""


class VariableEffects:
    """The effects of code on the variables of a copy."""

    def __init__(self, code: str, bindings: Mapping[str, object], kernel: Kernel) -> None:
        """Note the variables as they are before the code runs."""
        self._code, self._kernel = code, kernel
        self._shared = _list_shared(code, bindings)
        self.before = dict(bindings)
        self._after = self.before
        names = (name for name in self.before if type(name) is str)
        self._only_here = {name for name in names if name not in kernel.names}
        self._reached = list_names(code, self.before)
        is_plain = self._only_here.isdisjoint(self._reached)
        # A variable that is only here may lead to any of the others.
        watched = self._reached if is_plain else without_shell(self.before)
        self._watched = WatchedValues(self.before, watched, self._only_here)
        self.changes: list[VariableChange] = []
        self.written: list[str] = []
        """Variables whose memory was written past pandas."""
        self.again: list[str] = []
        """Names that only loops bind, and that the kernel has: they keep what they hold there."""
        self.items: list[str] = []
        """New names that only loops bind, for what is more than a number or a text."""
        self.passing: list[str] = []
        """New names for what can be left on the copy."""

    def compare(self, bindings: Mapping[str, object], told: Mapping[str, VariableChange]) -> None:
        """Find out what is different after the code; `told` is what a snapshot noticed.

        Raises OSError.
        """
        self._after, own = dict(bindings), self._kernel.own
        self.written = self._watched.list_written()
        inside = {*self._watched.list_changed(), *self.written}
        found = list_changes(self.before, self._after, inside, told, self._shared)
        self.changes = [*self._without_left(found)]
        bound = names_of_loops(self._code).difference(inside, own)
        loops = [each for each in self.changes if each.name in bound]
        self.again = [each.name for each in loops if each.change == "changed"]
        self.items = [
            each.name
            for each in loops
            if each.change == "created" and not is_atom(self._after[each.name])
        ]
        self.passing = [name for name in self._list_new() if _is_drawing(self._after[name])]

    def write_data(self) -> tuple[JsonDict | None, list[memoryview]]:
        """Return the data that the kernel can adopt, and its bytes; none if that is not all.

        What is no data becomes `passing`, if the code itself uses some of it.
        """
        changes, own = self.changes, self._kernel.own
        changed = {each.name for each in changes if each.change == "changed" and each.name in own}
        if not changed.isdisjoint(self._watched.list_changed_elsewhere()):
            return None, []
        self._watched.let_go(changed)
        known, modules = self._list_known(changed), self._kernel.modules
        kept = [name for name in self._list_new() if name not in {*self.passing, *self.items}]
        special = [name for name in kept if _is_only_here(self._after[name], modules)]
        data = [name for name in kept if name not in special]
        found: tuple[JsonDict | None, list[memoryview]] = None, []
        try:
            found = self._write([*data, *changed], known)
        except NotPlainError:
            special += [name for name in data if self._is_special(name, known)]
            data = [name for name in data if name not in special]
            with suppress(NotPlainError):
                found = self._write([*data, *changed], known)
        if loaded_names(self._code).isdisjoint(special):  # they may be what the code is for
            return (None, []) if special else found
        self.passing += special
        return found

    def list_unclear(self) -> Iterator[str]:
        """Yield what may have changed, but cannot be seen."""
        for name in self.written:
            yield f"writes into the memory of {name}, past pandas"
        reached = {*self._reached, *self._watched.led_to}
        for name, what in self._watched.unseen.items():
            if name in reached and (name not in self._only_here or what == TOO_MUCH):
                yield f"may change {name}, in which is a {what}"

    def take_back_loops(self, bindings: MutableMapping[str, object]) -> None:
        """Give names that only loops bound what they hold in the kernel.

        What refers to a name there must be the same.
        """
        bindings.update({name: self.before[name] for name in self.again})

    def _list_new(self) -> list[str]:
        return [each.name for each in self.changes if each.change == "created"]

    def _list_known(self, changed: Collection[str]) -> dict[str, object]:
        """Return the variables that the kernel has as well: not what the shell bound anew.

        A name that only a loop bound has what it held before.
        """
        now = {**self._after, **{name: self.before[name] for name in self.again}}
        return {
            name: now.get(name, value)
            for name, value in self.before.items()
            if name not in changed
            and name not in self._only_here
            and (now.get(name, value) is value or not _BY_SHELL.fullmatch(name))
        }

    def _write(
        self, names: Iterable[str], known: Mapping[str, object]
    ) -> tuple[JsonDict, list[memoryview]]:
        """Return variables as data that may refer to `known` ones; raises NotPlainError."""
        values = {name: self._after[name] for name in names}
        return write_all(values, known, self._watched.is_old, self._watched.is_in_table)

    def _is_special(self, name: str, known: Mapping[str, object]) -> bool:
        """Return whether a value is no data, however little it is; tables and arrays are."""
        value = self._after[name]
        if is_array(value) or kind_of(value) is not None:
            return False
        with suppress(NotPlainError):
            self._write([name], known)
            return False
        return True

    def _without_left(self, changes: Iterable[VariableChange]) -> Iterator[VariableChange]:
        """Yield the changes of what the kernel has; what is only here can be new there."""
        for each in changes:
            name = each.name
            if name not in self._only_here:
                yield each
            elif name in self._after and self._after[name] is not self.before[name]:
                yield each.model_copy(update={"change": "created"})


def list_changes(
    before: Mapping[str, object],
    after: Mapping[str, object],
    inside: set[str],
    told: Mapping[str, VariableChange],
    shared: Collection[str] = (),
) -> Iterator[VariableChange]:
    """Yield the variables that are new, hold something else, were changed inside, or are gone.

    To read the same table once more is no change unless the first is `shared`, and a file that was
    closed is none to keep. `told` are the changes that a snapshot has noticed, with what is
    different in words.
    """
    change: Literal["created", "changed", "deleted"]
    noticed = inside | told.keys()
    for name, value in {**before, **after}.items():
        if type(name) is not str or name in _BY_PYTHON:
            continue
        is_kept = name in before and name in after and before[name] is value
        if (is_kept or _BY_SHELL.fullmatch(name)) and name not in noticed:
            continue
        if name not in before and vars(builtins).get(name, before) is value:
            continue  # as `display` in notebooks: it has this name anyway
        is_settled = name not in before or name in inside or name in shared
        if not is_settled and is_same_data(before[name], after.get(name)):
            continue
        if is_closed_file(value) and (name not in before or is_closed_file(before[name])):
            continue
        change = "created" if name not in before else "changed" if name in after else "deleted"
        found = told.get(name) or VariableChange(name=name, change=change, type=kind(value))
        yield found.model_copy(update={"change": change})


def _is_drawing(value: Any, depth: int = 3) -> bool:
    """Return whether a value is of a module in `_DRAWINGS`, or holds only values that are."""
    if any(_DRAWINGS.match(module_name(each)) for each in ancestors(type(value))):
        return True
    numpy = sys.modules.get("numpy")
    if numpy is not None and type(value) is numpy.ndarray and value.dtype.hasobject:
        value = value.ravel().tolist()
    is_filled = isinstance(value, list | tuple) and value and depth
    return bool(is_filled) and all(_is_drawing(each, depth - 1) for each in value)


def _list_shared(code: str, variables: Mapping[str, object]) -> set[str]:
    """Return the tables and arrays that code binds anew, and that something else holds, too.

    A copy is not that one, even if it is equal: what is done to it must leave that one as it is.
    """
    return {
        name
        for name in stored_names(code) & variables.keys()
        if (is_array(variables[name]) or kind_of(variables[name]) is not None)
        and _is_held_elsewhere(name, variables)
    }


def _is_held_elsewhere(name: str, variables: Mapping[str, object]) -> bool:
    """Return whether something but its name and the shell's history holds a variable's value."""
    value, nothing = variables[name], object()
    others = sys.getrefcount(value) - sys.getrefcount(nothing)
    holders = [each for each in gc.get_referrers(value) if type(each) is not FrameType]
    held = [one for each in holders for one in gc.get_referents(each)]
    names = [each for each in variables if variables[each] is variables[name]]
    return (
        any(each != name and not _BY_SHELL.fullmatch(each) for each in names)
        or not all(_is_the_shells(each, variables) for each in holders)
        # A container of nothing but arrays and numbers is not found.
        or others > sum(one is variables[name] for one in held)
    )


def _is_the_shells(holder: object, variables: Mapping[str, object]) -> bool:
    """Return whether this is where the shell keeps variables, outputs and the last result."""
    if type(holder) is not dict:
        return is_of_shell(holder)
    outputs = variables.get("Out", variables)
    return (
        holder is variables
        or holder is outputs
        or holder.get("Out") is outputs
        or any(is_of_shell(each) and vars(each) is holder for each in gc.get_referrers(holder))
    )


def _is_only_here(value: object, loaded: Collection[str]) -> bool:
    """Return whether a value is a module that is not `loaded` in the kernel, or defined in one.

    Functions and classes of the notebook's own are defined here as well.
    """
    if isinstance(value, ModuleType):
        return value.__name__ not in loaded
    home = str(getattr(value, "__module__", ""))
    is_definition = isinstance(value, FunctionType | BuiltinFunctionType | type)
    return is_definition and (home == "__main__" or home not in loaded)
