"""The part of a look that the kernel takes over beside data: imports, functions, random numbers.

Imports and functions are resolved by the text of the code, which the user sees, never by a report.
"""

from __future__ import annotations
import __future__

import ast
import linecache
import random
import sys
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, MutableMapping
from contextlib import suppress
from types import ModuleType
from typing import Any
from zlib import crc32

from ipyagent.kernel.variables.reach import parse_nodes

_PYTHON, _NUMPY = " random", " numpy"
"""Where the states of random numbers stand among adopted variables: no variable has such a name."""


def resolve_names(
    code: str, names: Collection[str], bindings: MutableMapping[str, object]
) -> dict[str, object]:
    """Return what the code itself says that names are: loaded modules, their members, functions.

    Only those that nothing but imports and definitions at its top level binds. `bindings` are the
    globals of the functions.
    """
    nodes = parse_nodes(code) or [ast.Module([], [])]
    every = Counter(name for node in nodes for name, _ in _list_bindings(node))
    body = nodes[0].body if isinstance(nodes[0], ast.Module) else []
    found = dict[str, object]()
    for node in body:
        for name, source in _list_bindings(node):
            every[name] -= 1
            if name in names:
                found.pop(name, None)
                with suppress(LookupError, TypeError, AttributeError):
                    found[name] = _resolve(source, code, bindings)
    return {name: value for name, value in found.items() if not every[name]}


def _list_bindings(node: ast.AST) -> Iterator[tuple[str, ast.AST | tuple[str, str]]]:
    """Yield the names that a node binds, each with a definition, or a module and its member."""
    match node:
        case ast.Import(names=aliases):
            for each in aliases:
                root = each.name.partition(".")[0]
                yield each.asname or root, (each.name if each.asname else root, "")
        case ast.ImportFrom(module=module, names=aliases, level=level):
            for each in aliases:
                yield each.asname or each.name, ("" if level else module or "", each.name)
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name, node
        case ast.Name(id=name, ctx=ast.Store()):
            yield name, node


def _resolve(
    source: ast.AST | tuple[str, str], code: str, bindings: MutableMapping[str, object]
) -> object:
    """Return a loaded module, its member, or a function; raises LookupError for anything else."""
    if isinstance(source, tuple):
        module, member = source
        if member and f"{module}.{member}" not in sys.modules:
            return vars(sys.modules[module])[member]
        return sys.modules[f"{module}.{member}" if member else module]
    if not isinstance(source, ast.FunctionDef | ast.AsyncFunctionDef) or source.decorator_list:
        raise LookupError
    defaults = (*source.args.defaults, *source.args.kw_defaults)
    if not all(each is None or isinstance(each, ast.Constant) for each in defaults):
        raise LookupError
    name, made = f"<look {crc32(code.encode()):x}>", dict[str, object]()
    # Tracebacks find the source here.
    linecache.cache[name] = (len(code), None, code.splitlines(True), name)
    flags = __future__.annotations.compiler_flag  # they are not evaluated
    exec(compile(ast.Module([source], []), name, "exec", flags), bindings, made)  # type: ignore[arg-type]  # noqa: S102
    return made[source.name]


def read_random_states(variables: Mapping[str, Any]) -> dict[str, object]:
    """Return the states of random numbers as plain data: Python's, numpy's, and of its generators.

    The last by the names of variables.
    """
    states: dict[str, object] = {_PYTHON: random.getstate()}
    if (numpy := _find_numpy_random()) is not None:
        states[_NUMPY] = numpy.get_state()
        bits = [
            (n, each.bit_generator)
            for n, each in variables.items()
            if type(each) is numpy.Generator
        ]
        states |= {f" {name}": each.state for name, each in bits if type(each) is numpy.PCG64}
    return states


def is_random_state(name: str) -> bool:
    """Return whether this is the name of a state among adopted variables."""
    return name[:1] == " "


def restore_random_states(states: Mapping[str, Any], variables: Mapping[str, Any]) -> None:
    """Go on with random numbers where a look has ended; a state that makes no sense is ignored."""
    for name, state in states.items():
        with suppress(Exception):
            if name == _PYTHON:
                random.setstate(state)
            elif name == _NUMPY:
                _find_numpy_random().set_state(state)
            elif type(variables[name[1:]]) is _find_numpy_random().Generator:
                variables[name[1:]].bit_generator.state = state


def _find_numpy_random() -> Any:
    numpy = sys.modules.get("numpy")
    return sys.modules.get("numpy.random") if isinstance(numpy, ModuleType) else None
