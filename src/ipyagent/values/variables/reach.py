"""The variables that code may reach: its names, and those that the user's functions in it use.

Those that a run has made on copies of the kernel are its own until other code may have kept them.
"""

from __future__ import annotations

import ast
import dis
import functools
import gc
import re
import types
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from ipyagent.plaintext import word_set
from ipyagent.syntax import root_name, try_parse
from ipyagent.values.describe.safe_inspect import ancestors, class_dict, module_name, type_name
from ipyagent.values.variables.parts import is_class

_WORD = re.compile(r"[^\W\d]\w*")

FUNCTIONS = 200
"""Functions that are followed."""


@functools.lru_cache(maxsize=1)
def parse_nodes(code: str) -> list[ast.AST] | None:
    """Return the nodes of code; None if it is no Python, which IPython may understand."""
    tree = try_parse(code)
    return None if tree is None else [*ast.walk(tree)]


Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def list_definitions(code: str) -> list[Definition]:
    """Return the definitions of functions and classes in code, but for those inside of others."""
    match parse_nodes(code):
        case [ast.Module(body=body), *_]:
            return [node for node in body if isinstance(node, Definition)]
    return []


def loaded_names(code: str) -> set[str]:
    """Return the names that code loads; none for what is no plain Python."""
    return {*_names(parse_nodes(code) or [], ast.Load)}


def stored_names(code: str) -> set[str]:
    """Return the names that code binds by assignments, loops and the like."""
    return {*_names(parse_nodes(code) or [])}


def attributes_set(code: str | types.CodeType) -> set[str]:
    """Return the names of attributes that code may set: texts in it may be names, too."""
    if isinstance(code, types.CodeType):
        inside = [each for each in code.co_consts if isinstance(each, types.CodeType)]
        found = {each for each in code.co_consts if type(each) is str}
        found |= {e.argval for e in dis.get_instructions(code) if e.opname == "STORE_ATTR"}
        return found.union(*map(attributes_set, inside))
    nodes = parse_nodes(code)
    if nodes is None:
        return {*_WORD.findall(code)}
    texts = {each.value for each in nodes if isinstance(each, ast.Constant)}
    set_ = {e.attr for e in nodes if isinstance(e, ast.Attribute) and type(e.ctx) is not ast.Load}
    return set_ | {each for each in texts if isinstance(each, str)}


def names_of_loops(code: str) -> set[str]:
    """Return the names that only loops and `with` assign; none for what is no plain Python."""
    nodes = parse_nodes(code) or []
    loops = [node.target for node in nodes if isinstance(node, ast.For | ast.AsyncFor)]
    files = [node.optional_vars for node in nodes if isinstance(node, ast.withitem)]
    passing = [name for each in (*loops, *files) if each for name in _names(ast.walk(each))]
    every = Counter(_names(nodes))
    return {name for name, count in Counter(passing).items() if every[name] == count}


def _names(nodes: Iterable[ast.AST], context: type[ast.expr_context] = ast.Store) -> Iterator[str]:
    names = (node for node in nodes if isinstance(node, ast.Name))
    return (name.id for name in names if isinstance(name.ctx, context))


def list_changed_inside(code: str) -> dict[str, bool]:
    """Return the names whose objects code may change; True if it does so by more than a call.

    By assignments to parts of them, methods called for their effect, functions that get them.
    """
    found: dict[str, bool] = {}
    for node in parse_nodes(code) or []:
        match node:
            case ast.Attribute(ctx=ctx) | ast.Subscript(ctx=ctx) if type(ctx) is not ast.Load:
                found[root_name(node)] = True
            case ast.AugAssign(ast.Name(name)) | ast.keyword("out", ast.Name(name)):
                found[name] = True
            case ast.Expr(ast.Call() as call) | ast.Expr(ast.Await(ast.Call() as call)):
                is_method = isinstance(call.func, ast.Attribute)
                given = () if root_name(call.func) in {"print", "display"} else call.args
                for each in (call.func, *given) if is_method else given:
                    found.setdefault(root_name(each), False)
    return found


def reachable_names(
    code: str, variables: Mapping[str, object], functions: Iterable[object] = ()
) -> list[str]:
    """Return the variables that code and functions may change, those in the code's text first."""
    words = dict.fromkeys(_WORD.findall(code))
    found = {name: variables[name] for name in words if name in variables}
    waiting = [*functions, *found.values()]
    seen, followed = set(map(id, waiting)), 0
    while waiting and followed < FUNCTIONS:
        value = waiting.pop()
        cls = type(value)  # its methods may write to it
        if module_name(cls) == "__main__" and variables.get(type_name(cls)) is cls:
            found[type_name(cls)] = cls
        for function in _functions_of(value):
            followed += 1
            scope = function.__globals__
            for name in names_in(function.__code__):
                if name in variables and scope.get(name) is variables[name]:
                    value = found.setdefault(name, variables[name])
                    if id(value) not in seen:
                        seen.add(id(value))
                        waiting.append(value)
    return [*found]


_LEADING = {
    *map(id, (tuple, types.CellType, types.MethodType, functools.partial)),
    *map(id, (staticmethod, classmethod, property)),
}
"""The ids of types of what leads to functions: the hash of a type may be the user's code."""


def _functions_of(value: Any, depth: int = 5) -> Iterator[types.FunctionType]:
    """Yield the functions in Python that calling a value, or its methods, may run."""
    cls = type(value)
    if depth == 0:
        return
    if cls is types.FunctionType:
        yield value
        parts = [value.__closure__]
    elif id(cls) in _LEADING:
        parts = [*value[:FUNCTIONS]] if cls is tuple else gc.get_referents(value)
    else:
        parts = _methods_of(value if is_class(value) else cls)
    for each in parts:
        yield from _functions_of(each, depth - 1)


def _methods_of(cls: type) -> list[object]:
    """Return the members, but for classes, of a class that was defined in the notebook."""
    own = [base for base in ancestors(cls) if module_name(base) in {"__main__", ""}]
    members = [each for base in own for each in list(class_dict(base).values())]
    return [each for each in members if not is_class(each)]


def names_in(code: types.CodeType) -> Iterator[str]:
    """Yield the names that code uses, and the code in it."""
    yield from code.co_names
    for each in code.co_consts:
        if type(each) is types.CodeType:
            yield from names_in(each)


_ANYTHING = word_set(
    "globals locals vars exec gc inspect importlib ctypes builtins get_ipython f_back f_globals "
    "f_locals _getframe __globals__ __main__ __import__ __builtins__"
)
"""Names by which code reaches variables that it does not name."""
_ALONE = frozenset({"eval", "compile"})
"""The same, but not as methods: of tables, regular expressions and models."""
_SPELLED = re.compile(r"__\w+__|get_ipython|_getframe|\bf_(back|globals|locals)\b")
"""Such names in texts, where they are hardly by chance."""
_SHELLS = ("IPython", "ipykernel")


def list_names(code: str, variables: Mapping[str, object]) -> list[str]:
    """Return the variables that code may change: all but the shell's own if it is dynamic."""
    found = dict.fromkeys(reachable_names(code, variables))
    nodes = parse_nodes(code)
    if nodes is None or any(map(_reaches_anything, nodes)):
        found |= dict.fromkeys(without_shell(variables))
    return [*found]


def reach_anything(names: Iterable[str]) -> bool:
    """Return whether code that uses such names may reach variables that it does not name."""
    return not (_ANYTHING | _ALONE).isdisjoint(names)


def _reaches_anything(node: ast.AST) -> bool:
    match node:
        case ast.Name(id=name):
            return name in _ANYTHING or name in _ALONE
        case ast.Attribute(attr=name):
            return name in _ANYTHING
        case ast.ImportFrom(module=str(name)) | ast.alias(name=name):
            return not _ANYTHING.isdisjoint(name.split("."))
        case ast.Call(func=ast.Attribute(attr="query" | "eval"), args=texts):
            return not all(isinstance(each, ast.Constant) for each in texts)
        case ast.Constant(value=str(text)):
            return _SPELLED.search(text) is not None
    return False


def without_shell(variables: Mapping[str, object]) -> list[str]:
    """Return the names of all variables but what leads to the shell, which always differs."""
    return [name for name, value in variables.items() if not is_of_shell(value)]


def is_of_shell(value: Any) -> bool:
    """Return whether a value is an object of the shell's own, or a method of one."""
    kind = type(value)
    if kind is types.MethodType:
        return is_of_shell(value.__self__)
    homes = (module_name(base).partition(".")[0] for base in ancestors(kind))
    return any(home in _SHELLS for home in homes)


@dataclass(frozen=True)
class Adoption:
    """Data that was read, to be bound to names."""

    values: dict[str, object]
    shared: set[str]
    """The names, also existing ones, of which another one holds a part."""
    gone: list[str] = field(default_factory=list)
    """The names of the run's own variables that code deleted."""
    random: Mapping[str, object] = field(default_factory=dict)
    """The states of random numbers that code has advanced."""


class OwnVariables:
    """The variables that a run made on copies, as long as nothing else holds what is in them."""

    def __init__(self) -> None:
        self._values: dict[str, object] = {}
        self._runs = 0

    @contextmanager
    def during_run(self) -> Iterator[None]:
        """Begin with none, and forget all in the end: then they are the user's.

        While there is another run, none has any: it could not be told whose they are.
        """
        self._values, self._runs = {}, self._runs + 1
        try:
            yield
        finally:
            self._values, self._runs = {}, self._runs - 1

    def add(self, adoption: Adoption) -> None:
        """Note what was adopted."""
        values = (self._values | adoption.values) if self._runs == 1 else {}
        lost = {*adoption.shared, *adoption.gone}
        self._values = {name: each for name, each in values.items() if name not in lost}

    def names(self, bindings: Mapping[str, object]) -> frozenset[str]:
        """Return those that still hold what was adopted."""
        values = self._values.items()
        return frozenset(name for name, value in values if bindings.get(name) is value)

    def let_go(self, code: str, variables: Mapping[str, object], functions: object) -> None:
        """Forget those that code, or functions, may give to others."""
        if not self._values:
            return
        for name in [*self._values] if functions else list_names(code, variables):
            self._values.pop(name, None)
