"""Python code as a tree."""

from __future__ import annotations

import ast
from contextlib import suppress

_TRIES = 20


def parse(code: str, name: str = "<code>") -> ast.Module:
    """Return the tree of code, which may await; raises what `ast.parse` raises.

    Before Python 3.11.8, threads that parse at the same time could make each other fail with a
    SystemError (https://github.com/python/cpython/issues/106905). Then it is tried again.
    """
    for _ in range(_TRIES):
        with suppress(SystemError):
            return ast.parse(code, name)
    return ast.parse(code, name)


def try_parse(code: str) -> ast.Module | None:
    """Return the tree of code; None if it is not plain Python."""
    try:
        return parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def root_name(node: ast.AST) -> str:
    """Return the name from which attributes, items and calls lead to a value; "" if none does."""
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""
