"""Parts of calls in code: the names and keywords by which they are judged."""

from __future__ import annotations

import ast

from ipyagent.tools.static_analysis import library_tables
from ipyagent.tools.static_analysis.effects import UNKNOWN_EFFECTS, WRITES


def reads_input(name: str) -> bool:
    """Return whether a function of that name reads the file or address that it is given."""
    if name in library_tables.NO_READERS:
        return False
    return name == "load" or name.startswith(("read_", "scan_", "load_", "open_", "fetch_"))


def kinds_touched_by(name: str) -> list[str]:
    """Return the effects of a method or attribute of that name."""
    kinds = [kind for kind, names in library_tables.METHODS.items() if name in names]
    if name.startswith(library_tables.WRITERS) and WRITES not in kinds:
        kinds.append(WRITES)
    return kinds


def leads_elsewhere(part: str) -> bool:
    """Return whether a part of a library leads to another module."""
    return (
        part.startswith("_")
        or part in library_tables.METHODS[UNKNOWN_EFFECTS] | library_tables.OTHER_MODULES
    )


def takes_code(node: ast.Call) -> bool:
    """Return whether a call names a module to draw with, or shows data that a page may run."""
    backends = {None, "matplotlib", "plotly", "agg"}
    named = any(
        not isinstance(value, ast.Constant) or value.value not in backends
        for value in keyword_values(node, "backend")
    )
    name = called_name(node.func)
    raw = name == "display" and bool(keyword_values(node, "raw") or _has_double_star(node))
    return named or raw or name in {"publish_display_data", "display_javascript", "display_html"}


def _has_double_star(node: ast.Call) -> bool:
    return any(each.arg is None for each in node.keywords)


def called_name(func: ast.expr) -> str:
    """Return the last name of the callee; empty if it has none."""
    match func:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""


def keyword_values(node: ast.Call, *names: str) -> list[ast.expr]:
    """Return the values given by one of those names."""
    return [each.value for each in node.keywords if each.arg in names]
