"""The effects of code on the variables of a copy: changed data, and what the kernel can adopt.

The rest stays on the copy, so it has not happened: objects of libraries and what code did to them.
"""

from __future__ import annotations

import ast
import builtins
import gc
import io
import pickle
import re
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from types import BuiltinFunctionType, FrameType, FunctionType, ModuleType
from typing import Any, Literal

from ipyagent.json_types import JsonDict
from ipyagent.rehearsal.in_kernel import is_as_written, is_in_text, resolve_names
from ipyagent.rehearsal.plain_data import is_same_data, write_all
from ipyagent.rehearsal.plain_parts import NotPlainError
from ipyagent.rehearsal.watched_values import TOO_MUCH, WatchedValues, is_data
from ipyagent.schema import ToolResult, VariableChange
from ipyagent.values.describe import kind
from ipyagent.values.describe.safe_inspect import (
    is_a,
    module_name,
    set_attributes,
    type_name,
)
from ipyagent.values.variables.arrays import is_array
from ipyagent.values.variables.parts import is_atom, is_plain
from ipyagent.values.variables.reach import (
    attributes_set,
    is_of_shell,
    list_names,
    loaded_names,
    names_of_loops,
    parse_nodes,
    stored_names,
)
from ipyagent.values.variables.tables import kind_of

_BY_SHELL = re.compile(r"_{1,3}|_i{1,3}|_i?[0-9]+|_oh|_dh|_ih|_exit_code|In|Out")
"""Names that the shell binds anew; what they hold are objects that others hold, too."""
_BY_PYTHON = frozenset({"__builtins__", "__warningregistry__", "__annotations__"})
_DRAWING = re.compile(r"(matplotlib|mpl_toolkits|seaborn|time|IPython)(\.|$)")
"""Modules whose functions change nothing that lasts beyond the output of the code."""


_SHOWING = re.compile(
    r"p?print|display|help|show|plot|draw|info|head|describe|summary|debug|warning|error"
)
"""How the names of functions begin that leave as it is what they get."""
_SETTING = re.compile(r"set|use|enable|disable|register|(simple)?filter|basicConfig|init")
"""How the names of functions begin that set something, also of a module."""
_FILLING = frozenset({"append", "insert", "extend", "update", "add", "remove", "pop", "clear"})
"""Functions that change what a module, or another object, holds."""
_MAGICS = frozenset(
    {*("matplotlib", "time", "timeit", "who", "whos", "pwd", "ls", "history"), "pinfo", "pinfo2"}
)
"""Magics that leave nothing, or what each kernel has."""
_SQL = re.compile(
    r"\s*(insert|update|delete|create|drop|alter|replace|begin|attach|set|copy|load|install)\b",
    re.IGNORECASE,
)
"""Statements for a database that change it, or its connection."""
_READS = re.compile(r"['\"]+\s*(select|with|show|describe|explain|from)\b", re.IGNORECASE)
"""Texts in code that are statements which only read a database."""
_RESOLVED = (ModuleType, FunctionType, BuiltinFunctionType, type)


class VariableEffects:
    """The effects of code on the variables of a copy."""

    def __init__(
        self, code: str, bindings: Mapping[str, object], own: Collection[str] = ()
    ) -> None:
        """Note the variables as they are before the code runs; the run has made its `own`."""
        self._code, self._own = code, own
        self._shared = _list_shared(code, bindings)
        self.before = dict(bindings)
        self._after, self._shows = self.before, False
        self._reached = list_names(code, self.before)
        self._watched = WatchedValues(self.before, self._reached, attributes_set(code))
        self._objects = {
            name: _read_public(self.before[name])
            for name in self._reached
            if not is_data(self.before[name])
        }
        named = ((name, self.before[name]) for name in self._reached)
        files = {name: each for name, each in named if isinstance(each, io.IOBase)}
        self._files = {name: (file, _can_flush(file), _tell(file)) for name, file in files.items()}
        self.changes: list[VariableChange] = []
        self.written: list[str] = []
        """Variables whose memory was written past pandas."""
        self.again: list[str] = []
        """Names that only loops bind, and that the kernel has: they keep what they hold there."""
        self.resolved: list[str] = []
        """New names of modules, functions and classes, which the kernel resolves by the code."""
        self.left: dict[str, str] = {}
        """The rest, which stays on the copy, with the names of types."""
        self.touched: list[str] = []
        """Changes that the code made to objects of libraries there, in words."""

    def compare(self, bindings: Mapping[str, object], result: ToolResult) -> None:
        """Find out what is different after the code; raises OSError."""
        self._after, self._shows = dict(bindings), result.value is not None
        told = {each.name: each for each in result.variables}
        self.written = self._watched.list_written()
        inside = {*self._watched.list_changed(), *self.written}
        changes = [*list_changes(self.before, self._after, inside, told, self._shared)]
        loops = names_of_loops(self._code)
        bound = loops.difference(inside, self._own)
        self.again = [e.name for e in changes if e.name in bound and e.change == "changed"]
        self.changes = [e for e in changes if not self._stays_here(e, inside, loops)]

    def _stays_here(
        self, change: VariableChange, inside: Collection[str], loops: Collection[str]
    ) -> bool:
        """Return whether a variable that is bound anew holds no data before and after.

        It stays on the copy, and so do names that only loops bind.
        """
        name = change.name
        if name in self.again:
            return True
        if change.change == "created":
            return name in loops and not is_plain(self._after[name])
        if change.change != "changed" or name in inside or name in self._own:
            return False
        if _is_definite(self.before[name]) or _is_definite(self._after[name]):
            return False
        self._leave(name)
        return True

    def write_data(
        self, states: Mapping[str, object], before: Mapping[str, object]
    ) -> tuple[JsonDict, list[memoryview]]:
        """Return the data that the kernel can adopt, and its bytes; the rest is left.

        `states` are those of random numbers, and what they were `before`. Imports and functions are
        not written: the kernel resolves them by the code.
        """
        changed = [e.name for e in self.changes if e.change == "changed" and e.name in self._own]
        created = [e.name for e in self.changes if e.change == "created"]
        self._watched.let_go(changed)
        known, mine = self._list_known(changed), [*created, *changed]
        definitions = {n for n in mine if isinstance(self._after[n], _RESOLVED)}
        imported = {n for n in mine if not is_data(self._after[n])}
        written = resolve_names(self._code, definitions | imported, dict(self._after))
        self.resolved = [n for n in written if is_as_written(self._after[n], written[n])]
        definitions |= {*self.resolved}
        seen = [n for n in mine if n not in definitions and is_in_text(n, self._code)]
        values = {name: self._after[name] for name in seen}
        values |= {
            name: state
            for name, state in states.items()
            if pickle.dumps(state) != pickle.dumps(before.get(name))
        }
        found: tuple[JsonDict, list[memoryview]] = {}, []
        try:
            found = self._write(values, known)
        except NotPlainError:
            values = {n: each for n, each in values.items() if self._is_plain(n, each, known)}
            with suppress(NotPlainError):
                found = self._write(values, known)
        for name in mine:
            if name not in found[0] and name not in self.resolved:
                self._leave(name)
        self.touched = [f"changes to {each}" for each in self._list_touched()]
        return found

    def list_shown(self) -> Iterator[VariableChange]:
        """Yield the changes that a user may want to know of: not the names of imports."""
        for each in self.changes:
            if each.change != "created" or not isinstance(self._after[each.name], ModuleType):
                yield each

    def list_unclear(self) -> Iterator[str]:
        """Yield what may have changed, but cannot be seen."""
        for name in self.written:
            yield f"writes into the memory of {name}, past pandas"
        for name in self._watched.unseen:
            yield f"may change {name}, in which is {TOO_MUCH}"
        for name, (file, could_flush, place) in self._files.items():
            if not _can_flush(file) and (could_flush or _tell(file) != place):
                yield f"writes to the open file {name}"

    def _leave(self, name: str) -> None:
        self.left[name] = type_name(type(self._after[name]))

    def _list_known(self, changed: Collection[str]) -> dict[str, object]:
        """Return the data that the kernel has as well: not what the shell bound anew.

        A name that only a loop bound has what it held before. An object of a library may be another
        one by now: nothing new can refer to it.
        """
        now = {**self._after, **{name: self.before[name] for name in self.again}}
        return {
            name: now.get(name, value)
            for name, value in self.before.items()
            if name not in changed
            and (now.get(name, value) is value or not _BY_SHELL.fullmatch(name))
            and (name not in self._objects or is_a(value, ModuleType))
        }

    def _write(
        self, values: Mapping[str, object], known: Mapping[str, object]
    ) -> tuple[JsonDict, list[memoryview]]:
        """Return variables as data that may refer to `known` ones; raises NotPlainError."""
        if not values:
            return {}, []
        return write_all(values, known, self._watched.is_old, self._watched.is_in_table)

    def _is_plain(self, name: str, value: object, known: Mapping[str, object]) -> bool:
        with suppress(NotPlainError):
            self._write({name: value}, known)
            return True
        return False

    def _list_touched(self) -> Iterator[str]:
        """Yield the objects of libraries, and the modules, that code itself changes."""
        nodes = parse_nodes(self._code) or [ast.Pass()]
        imported = {
            (each.asname or each.name).partition(".")[0]: sys.modules.get(each.name)
            for each in nodes
            if isinstance(each, ast.alias)
        }
        touched = dict.fromkeys(n for n, parts in self._objects.items() if self._differs(n, parts))
        shown = nodes[0].body[-1:] if self._shows and isinstance(nodes[0], ast.Module) else []
        for node in nodes:
            found = dict.fromkeys(_list_roots(node))
            if isinstance(node, ast.Expr):
                found = {} if node in shown else self._without_modules(node, found, imported)
            touched |= found
        seen = set[str]()
        for path in touched:
            if path[:1] == "%":
                yield path
            name = path.removesuffix("()")
            if name in seen:
                continue
            seen.add(name)
            value = imported.get(name) or self.before.get(name)
            is_made = name != path and isinstance(value, ModuleType)  # by a function of it
            changed: Any = self._watched.find_foreign(name) if is_data(value) else value
            is_bound_anew = self._after.get(name, value) is not value
            if changed is None or is_made or is_bound_anew or is_of_shell(changed):
                continue
            is_module = isinstance(changed, ModuleType)
            home = changed.__name__ if is_module else module_name(type(changed))
            if not _DRAWING.match(home):
                yield f"{name} ({type_name(type(value))})"

    def _without_modules(
        self, node: ast.Expr, names: Iterable[str], imported: Mapping[str, object]
    ) -> dict[str, None]:
        """Return the names without modules: their functions are called for what they show."""
        is_method = isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Attribute)
        values = {name: imported.get(name) or self.before.get(name) for name in names}
        return {n: None for n, e in values.items() if not (is_method and is_a(e, ModuleType))}

    def _differs(self, name: str, parts: Mapping[str, object]) -> bool:
        """Return whether an object has other public attributes than before."""
        value, now = self.before[name], _read_public(self.before[name])
        if name in self._files:
            file, _, place = self._files[name]
            return _tell(file) != place
        is_iterator = hasattr(type(value), "__next__") and name in loaded_names(self._code)
        return is_iterator or any(
            part is not parts.get(key) and not _is_nothing(part) for key, part in now.items()
        )


def _is_nothing(value: object) -> bool:
    """Return whether this may only be left of what an object has read when it was first used."""
    return value is None or (type(value) in (list, dict) and not value)


def _read_public(value: Any) -> dict[str, object]:
    """Return the public attributes of an object's own; none of a module."""
    if is_a(value, ModuleType) or is_a(value, type):
        return {}
    found = {name: each for name, each in set_attributes(value).items() if name[:1] != "_"}
    database = sys.modules.get("sqlite3")
    if database is not None and is_a(value, database.Connection):
        with suppress(database.Error):  # it is closed
            found["total_changes"] = sys.intern(str(value.total_changes))
    return found


def _list_roots(node: ast.AST) -> Iterator[str]:
    """Yield the names of objects on which a statement calls a method, or sets a part.

    With `()` if that is one of what the object returns.
    """
    targets: list[ast.expr] = []
    match node:
        case ast.Call(
            func=ast.Attribute(attr="run_line_magic"), args=[ast.Constant(str(name)), *_]
        ):
            if name not in _MAGICS:
                yield f"%{name}"
        case ast.Call(func=ast.Attribute(value=holder, attr=name) as called, args=given):
            is_setting = _SETTING.match(name) or (
                name in _FILLING and isinstance(holder, ast.Attribute)
            )
            match given:
                case [ast.Constant(str(text)), *_] if _SQL.match(text):
                    is_setting = True
            targets = [called] if is_setting else []
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr=name), args=[*given])) if (
            _SHOWING.match(name) or (given and _READS.match(ast.unparse(given[0])))
        ):
            targets = []
        case ast.Expr(value=ast.Call(func=ast.Attribute() as called)):
            targets = [called]
        case ast.Expr(value=ast.Call(func=ast.Name(id=name), args=arguments)) if not _SHOWING.match(
            name
        ):
            targets = [ast.Attribute(each, "") for each in arguments]
        case ast.Attribute(ctx=context) | ast.Subscript(ctx=context):
            targets = [] if isinstance(context, ast.Load) else [node]
    for part in targets:
        root: ast.expr = part
        is_made = False
        while isinstance(root, ast.Attribute | ast.Subscript | ast.Call):
            is_made |= isinstance(root, ast.Call)
            root = root.func if isinstance(root, ast.Call) else root.value
        if isinstance(root, ast.Name) and root is not part:
            yield f"{root.id}()" if is_made else root.id


def _can_flush(file: io.IOBase) -> bool:
    try:
        if not file.closed and file.writable():
            file.flush()
        return True
    except (OSError, ValueError):
        return False


def _tell(file: io.IOBase) -> int | None:
    """Return how far a file was read or written, also what cannot be flushed; None if unknown."""
    with suppress(OSError, ValueError):
        return int(getattr(file, "buffer", file).tell())
    return None


def _is_definite(value: object) -> bool:
    """Return whether a name that is bound to something else than this value is a change.

    Not what can be made again only by the code: tables that cannot be taken over, figures' axes.
    """
    home = module_name(type(value)).partition(".")[0]
    if is_array(value) and str(getattr(value, "dtype", "")) == "object":
        return any(map(is_data, getattr(value, "flat", ())))
    return is_data(value) and not (is_atom(value) and home in ("pyarrow", "polars"))


def list_changes(
    before: Mapping[str, object],
    after: Mapping[str, object],
    inside: set[str],
    told: Mapping[str, VariableChange],
    shared: Collection[str] = (),
) -> Iterator[VariableChange]:
    """Yield the variables that are new, hold something else, were changed inside, or are gone.

    To read the same table once more is no change unless the first is `shared`. `told` are the
    changes that a snapshot has noticed, with what is different in words.
    """
    change: Literal["created", "changed", "deleted"]
    for name, value in {**before, **after}.items():
        if type(name) is not str or name in _BY_PYTHON:
            continue
        is_kept = name in before and name in after and before[name] is value
        if (is_kept or _BY_SHELL.fullmatch(name)) and name not in inside:
            continue
        if name not in before and vars(builtins).get(name, before) is value:
            continue  # as `display` in notebooks: it has this name anyway
        is_settled = name not in before or name in inside or name in shared
        if not is_settled and _is_same(before[name], after.get(name)):
            continue
        change = "created" if name not in before else "changed" if name in after else "deleted"
        found = told.get(name) or VariableChange(name=name, change=change, type=kind(value))
        yield found.model_copy(update={"change": change})


def _is_same(one: object, other: object) -> bool:
    """Return whether code has made the same data, or the same function, once more."""
    if not isinstance(one, FunctionType) or not isinstance(other, FunctionType):
        return is_same_data(one, other)
    is_in_place = one.__globals__ is other.__globals__
    is_alike = is_in_place and repr(one.__annotations__) == repr(other.__annotations__)
    return is_alike and is_as_written(one, other)


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
