"""Origins of names and expressions in code, and texts that libraries run, as far as can be read.

An origin is the full name of something in a library ("pandas.read_csv"), or one of the kinds below.
Order is ignored: a name may stand for everything that is ever bound to it. Libraries run or fetch
expressions, formulas, markup and addresses.
"""

from __future__ import annotations

import ast
import builtins
import re
import sys
import types
from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from ipyagent.tools.static_analysis import BUFFERS, MODULES, PATHS, PLAIN
from ipyagent.values.describe.safe_inspect import (
    ancestors,
    class_dict,
    is_a,
    module_name,
    type_name,
)

DATA, LOCAL, MADE, PARAMETER = "<data>", "<local>", "<made>", "<parameter>"
PATH, FILE, BUFFER = "<path>", "<file>", "<buffer>"
OPAQUE, UNKNOWN = "<opaque>", "<unknown>"

Origins = frozenset[str]
_PASSES = 4  # of a chain of aliases
_MOST_ITEMS = 1_000
_SAME = {"posix": "os", "nt": "os", "_io": "io", "_thread": "threading", "posixpath": "os.path"}
_SHOWN = frozenset({"display"})  # IPython has it among the built-in names


def is_library(origin: str) -> bool:
    """Return whether an origin is the full name of something in a library."""
    return not origin.startswith("<")


def root_of(name: str) -> str:
    """Return the first part of a full name."""
    return name.partition(".")[0]


class NameOrigins:
    """The names of a piece of code, and of the variables that it runs among."""

    def __init__(self, tree: ast.AST, variables: Mapping[str, object]) -> None:
        self.variables = variables
        self._texts: dict[str, list[ast.expr]] = {}
        self._bound: dict[str, Origins] = {}
        bindings = [each for node in ast.walk(tree) for each in _bindings(node)]
        self.stored = {name for name, _ in bindings}
        for _ in range(_PASSES):
            for name, value in bindings:
                found = frozenset({value}) if isinstance(value, str) else self.origins_of(value)
                self._bound[name] = self._bound.get(name, frozenset()) | found
        for name, value in bindings:
            if isinstance(value, ast.expr):
                self._texts.setdefault(name, []).append(value)

    def origins_of(self, node: ast.expr) -> Origins:
        """Return the objects that an expression may stand for."""
        match node:
            case ast.Name(id=name):
                return self._origins_of_name(name)
            case ast.Attribute(value=value, attr=attr):
                return frozenset(_attribute_origin(base, attr) for base in self.origins_of(value))
            case ast.Call(func=func):
                return frozenset(map(_call_origin, self.origins_of(func)))
            case ast.BinOp(left=left, right=right):
                return frozenset(
                    {PATH if PATH in self.origins_of(left) | self.origins_of(right) else DATA}
                )
            case ast.IfExp(body=body, orelse=other):
                return self.origins_of(body) | self.origins_of(other)
            case ast.BoolOp(values=values):
                return frozenset().union(*map(self.origins_of, values))
            case ast.NamedExpr(value=value) | ast.Await(value=value):
                return self.origins_of(value)
            case ast.Lambda():
                return frozenset({LOCAL})
        return frozenset({DATA})

    def bound_expressions(self, node: ast.expr) -> list[ast.expr]:
        """Return the expressions that a name was bound to, or the expression itself."""
        if isinstance(node, ast.Name) and node.id in self._texts:
            return self._texts[node.id]
        known = self.variables.get(node.id) if isinstance(node, ast.Name) else None
        if isinstance(known, str):
            return [ast.Constant(value=known)]
        return [node]

    def _origins_of_name(self, name: str) -> Origins:
        found = self._bound.get(name, frozenset())
        if name in self.variables:
            found |= {origin_of(self.variables[name])}
        if found or name in self.stored:
            return found or frozenset({DATA})
        if name in _SHOWN:
            return frozenset({LOCAL})
        return frozenset({f"builtins.{name}" if hasattr(builtins, name) else UNKNOWN})


def _attribute_origin(base: str, attr: str) -> str:
    if is_library(base):
        return f"{base}.{attr}"
    return f"{PATH}.{attr}" if base == PATH else DATA


def _call_origin(function: str) -> str:
    if function in PATHS or function.startswith(f"{PATH}."):
        return PATH
    if function in BUFFERS:
        return BUFFER
    if function in {"builtins.open", "io.open"}:
        return FILE
    return MADE if is_library(function) or function in {LOCAL, MADE} else DATA


def _bindings(node: ast.AST) -> Iterator[tuple[str, ast.expr | str]]:
    """Yield each name that a node binds, with its expression or origin."""
    match node:
        case ast.Import() | ast.ImportFrom():
            yield from _import_bindings(node)
        case ast.Assign(targets=targets, value=value):
            for target in targets:
                yield from _target_bindings(target, value)
        case (
            ast.AnnAssign(target=target, value=ast.expr() as value)
            | ast.NamedExpr(target=target, value=value)
        ):
            yield from _target_bindings(target, value)
        case ast.withitem(context_expr=value, optional_vars=ast.Name(id=name)):
            yield name, value
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name, LOCAL
        case ast.arg(arg=name):
            yield name, PARAMETER
        case (
            ast.ExceptHandler(name=str(name))
            | ast.MatchAs(name=str(name))
            | ast.MatchStar(name=str(name))
            | ast.MatchMapping(rest=str(name))
        ):
            yield name, DATA
        case (
            ast.withitem(optional_vars=ast.expr() as target)
            | ast.For(target=target)
            | ast.AsyncFor(target=target)
            | ast.comprehension(target=target)
            | ast.AugAssign(target=target)
        ):
            yield from _target_bindings(target, DATA)


def _import_bindings(node: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, str]]:
    module = f"{node.module or ''}." if isinstance(node, ast.ImportFrom) else ""
    for each in node.names:
        if module:
            yield each.asname or each.name, module + each.name
        else:
            root = root_of(each.name)
            yield each.asname or root, each.name if each.asname else root


def _target_bindings(
    target: ast.expr, value: ast.expr | str
) -> Iterator[tuple[str, ast.expr | str]]:
    match target, value:
        case ast.Name(id=name), _:
            yield name, value
        case ast.Starred(value=inner), _:
            yield from _target_bindings(inner, DATA)
        case ((ast.Tuple(elts=names) | ast.List(elts=names)), _):
            values = value.elts if isinstance(value, ast.Tuple | ast.List) else []
            for n, each in enumerate(names):
                is_known = len(values) == len(names)
                yield from _target_bindings(each, values[n] if is_known else DATA)


def origin_of(value: Any) -> str:
    """Return the origin of a variable's value, without running any of its own code."""
    cls = type(value)
    if is_a(value, types.ModuleType):
        name = types.ModuleType.__getattribute__(value, "__dict__").get("__name__", "")
        real = sys.modules.get(name) is value
        return _SAME.get(name, str(name)) if real else OPAQUE
    if cls is types.FunctionType or cls is types.BuiltinFunctionType:
        return _qualified_origin(value.__module__, value.__name__)
    if is_a(value, type):
        return _qualified_origin(module_name(value), type_name(value))
    return _object_origin(value)


def _qualified_origin(module: object, name: str) -> str:
    root = root_of(module) if type(module) is str else ""
    root = _SAME.get(root, root)
    known = root in PLAIN or root in MODULES or root in {"os", "sys", "pathlib", "builtins"}
    return f"{root}.{name}" if known else OPAQUE


def _object_origin(value: object) -> str:
    """Return the origin of an object that is neither a module, a function nor a class."""
    if _holds_code(value):
        return OPAQUE
    for base in ancestors(type(value)):
        root = root_of(module_name(base))
        if root == "pathlib":
            return PATH
        if root == "_io":
            return FILE
        if root in {"builtins", "abc", "typing"}:
            continue
        if root in MODULES:
            return f"{root}.{type_name(base)}"
        return DATA if root in PLAIN or root in {"_decimal", "_struct", "_random"} else OPAQUE
    return OPAQUE if type(value) in _RUNNING else DATA


def _holds_code(value: object) -> bool:
    """Return whether an object holds code that its use would run."""
    roots = {root_of(module_name(base)) for base in ancestors(type(value))}
    if roots & _HOLDERS or type(value) in _LAZY or is_a(value, defaultdict):
        return True
    if any("__call__" in class_dict(base) for base in ancestors(type(value))):
        return True
    items = islice(_container_items(value), _MOST_ITEMS)
    return any(not is_a(each, dict) and origin_of(each) != DATA for each in items)


def _container_items(value: Any) -> Iterator[object]:
    """Yield the items of a container of Python, numpy or pandas that may be code."""
    for kind in (list, tuple, set, frozenset, dict):
        if is_a(value, kind):
            yield from dict.values(value) if kind is dict else kind.__iter__(value)
            return
    cls, pandas = type(value), sys.modules.get("pandas")
    if f"{module_name(cls)}.{type_name(cls)}" == "numpy.ndarray" and value.dtype.kind == "O":
        yield from value.flat
    elif pandas and cls in (pandas.Series, pandas.Index) and str(value.dtype) == "object":
        yield from value.to_numpy()
    elif pandas and cls is pandas.DataFrame:
        for number, dtype in enumerate(value.dtypes):
            if str(dtype) == "object":
                yield from islice(value.iloc[:, number].to_numpy(), _MOST_ITEMS // 10)


_HOLDERS = frozenset({"functools", "operator", "contextlib", "itertools", "weakref", "collections"})
_LAZY = (map, filter, zip, enumerate, reversed, types.MappingProxyType, property)
_RUNNING = (types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType, types.MethodType)


_CALL = re.compile(r"([\w.]*)\s*\(")
_INDIRECT = re.compile(r"[\])'\"`]\s*\(|\blambda\b|\bfor\b")
VARIABLE = re.compile(r"@\s*(\w+)")
"""A variable in the text of `df.query` or `df.eval`."""
_OPERATORS = frozenset({"", "and", "or", "not", "in"})
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_ABOUT_TEXT = ("builtins.", "re.", "json.", "textwrap.", "urllib.parse", "string.", "difflib.")
_TEXT_HOLDERS = frozenset(
    {"Series", "DataFrame", "Index", "array", "Categorical", "HTML", "Markdown"}
)
SETTINGS = re.compile(
    r"module://|^(?:plotting|compute)\.|^(?:text\.usetex|savefig\.directory|.*\.preamble|.*_path)$"
)
"""Settings that import a module or start a program, and values that do."""


def is_safe_expression(text: str) -> bool:
    """Return whether the text of `df.query` or `df.eval` calls nothing."""
    if "__" in text or "._" in text or _INDIRECT.search(text):
        return False
    return all(name.lower() in _OPERATORS for name in _CALL.findall(text))


def fetches_address(function: str, node: ast.expr) -> bool:
    """Return whether a library's function is given an address, and not to work on its text."""
    if function.startswith(_ABOUT_TEXT) or function.rpartition(".")[2] in _TEXT_HOLDERS:
        return False
    if isinstance(node, ast.JoinedStr) and node.values:
        node = node.values[0]
    return (
        isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and bool(_ADDRESS.match(node.value))
    )
