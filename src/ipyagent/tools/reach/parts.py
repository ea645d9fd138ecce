"""Parts of calls in code: the names and keywords by which they are judged."""

from __future__ import annotations

import ast

from ipyagent.tools.reach import tables
from ipyagent.tools.reach.found import UNREADABLE, WRITES


def reads_input(name: str) -> bool:
    """Return whether a function of that name reads the file or address that it is given."""
    if name in tables.NO_READERS:
        return False
    return name == "load" or name.startswith(("read_", "scan_", "load_", "open_", "fetch_"))


def kinds_of(name: str) -> list[str]:
    """Return what a method or attribute of that name touches."""
    kinds = [kind for kind, names in tables.METHODS.items() if name in names]
    if name.startswith(tables.WRITERS) and WRITES not in kinds:
        kinds.append(WRITES)
    return kinds


def leads_on(part: str) -> bool:
    """Return whether a part of a library leads to another module."""
    return part.startswith("_") or part in tables.METHODS[UNREADABLE] | tables.OTHER_MODULES


def takes_code(node: ast.Call) -> bool:
    """Return whether a call names a module to draw with, or shows data that a page may run."""
    backends = {None, "matplotlib", "plotly", "agg"}
    named = any(
        not isinstance(value, ast.Constant) or value.value not in backends
        for value in keyword(node, "backend")
    )
    name = name_of(node.func)
    raw = name == "display" and bool(keyword(node, "raw") or _spread(node))
    return named or raw or name in {"publish_display_data", "display_javascript", "display_html"}


def _spread(node: ast.Call) -> bool:
    return any(each.arg is None for each in node.keywords)


def name_of(func: ast.expr) -> str:
    """Return the last name of what is called; empty where it has none."""
    match func:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""


def keyword(node: ast.Call, *names: str) -> list[ast.expr]:
    """Return the values given by one of those names."""
    return [each.value for each in node.keywords if each.arg in names]
