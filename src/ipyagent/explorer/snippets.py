"""Pieces of code. Text from a prompt or from data appears in them only as a literal.

They leave the user's names alone: imports give way to other names.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Collection, Iterator
from dataclasses import replace

from ipyagent.explorer.frame import Condition, Where
from ipyagent.explorer.names import fresh
from ipyagent.explorer.workspace import Look, Step, Table, Task, Workspace

_IMPORTS = {
    "plt": "import matplotlib.pyplot as plt",
    "pd": "import pandas as pd",
    "pl": "import polars as pl",
    "stats": "from scipy import stats",
}
PLAIN = {
    "pstd": "{0}.std(ddof=0)", "pvar": "{0}.var(ddof=0)",
    "iqr": "{0}.quantile(0.75) - {0}.quantile(0.25)",
    "quartiles": "{0}.quantile(0.25), {0}.quantile(0.5), {0}.quantile(0.75)",
}  # fmt: skip
"""Statistics that are no methods without arguments."""


def literal(value: object) -> str:
    """Return a Python literal; plain text gets double quotes, as from a formatter."""
    if isinstance(value, str) and value.isprintable() and not set(value) & {'"', "\\"}:
        return f'"{value}"'
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(literal, value))}]"
    return repr(value)


def mask(table: Table, where: Where) -> str:
    """Return the test that rows meet all conditions."""
    tests = [_test(table, each) for each in where]
    return " & ".join(f"({test})" for test in tests) if len(tests) > 1 else tests[0]


def _test(table: Table, condition: Condition) -> str:
    column = f"{table.name}[{literal(condition.column)}]"
    if condition.part:
        column = f"{dates(table, column, condition.column)}.dt.{condition.part}"
    if condition.sign in ("null", "known"):
        return f"{column}.{'isna' if condition.sign == 'null' else 'notna'}()"
    if condition.sign in ("in", "not in"):
        return f"{'~' * (condition.sign == 'not in')}{column}.isin({literal(condition.value)})"
    if isinstance(condition.value, bool) and condition.sign in ("==", "!="):
        return column if condition.value == (condition.sign == "==") else f"~{column}"
    return f"{column} {condition.sign} {literal(condition.value)}"


def dates(table: Table, values: str, column: str) -> str:
    """Return code for the dates in a column, converted from text if necessary."""
    return values if table.kind(column) == "date" else f"pd.to_datetime({values})"


def script(*lines: str) -> str:
    """Return the lines as one cell, after their imports."""
    body = "\n".join(lines)
    used = rf"(?<![\w.\"'])({'|'.join(_IMPORTS)})\.\w"
    aliases = {found[1] for found in re.finditer(used, body)}
    imports = [line for alias, line in _IMPORTS.items() if alias in aliases]
    return "\n".join([*imports, *[""] * bool(imports), body])


def touches(code: str, name: str, columns: Collection[str]) -> bool:
    """Return whether code changes a table, or what it prints may depend on these columns."""
    tree = ast.parse(code)
    above = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    return any(
        (isinstance(node, ast.Constant) and node.value in columns)
        or (isinstance(node, ast.Name) and node.id == name and not _narrows(node, above))
        for node in ast.walk(tree)
    )


def _narrows(rows: ast.AST, above: dict[ast.AST, ast.AST]) -> bool:
    """Return whether only the number of rows, or named columns of them, are used."""
    match user := above[rows]:
        case ast.Call(func=ast.Name("len")):
            return True
        case ast.Subscript(slice=ast.Constant() | ast.List(), ctx=ast.Load()) if user.value is rows:
            return True
        case ast.Subscript(value=value, ctx=ast.Load()) if value is rows:
            return _narrows(user, above)
        case ast.Attribute(attr="shape" | "size"):
            return True
    match user, above[user]:
        case ast.Attribute(attr="loc"), ast.Subscript(slice=ast.Tuple()):
            return True
        case ast.Attribute(attr="value_counts"), ast.Call(args=[_, *_]):
            return True
        case (ast.Attribute(attr="groupby"), ast.Call(args=[_, *_]) as call) | (
            ast.Attribute(attr="dropna"),
            ast.Call(keywords=[_, *_]) as call,
        ):
            return _narrows(call, above)
    return False


def spare_names_in(step: Task | Look, workspace: Workspace) -> Step:
    """Return the step with code that binds no name of the user's, but what they asked for."""
    if step.tool != "run_python":
        return step
    code = spare_names(step.arguments["code"], workspace)
    return replace(step, arguments={**step.arguments, "code": code})


def spare_names(code: str, workspace: Workspace) -> str:
    """Return the code with other names for imports that the user's variables have.

    Functions of Python whose names are the user's, such as `list`, are called by their full names.
    """
    tree = ast.parse(code)
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    taken = {*workspace.variables, *workspace.modules, *(node.id for node in names)}
    lines, renamed = code.splitlines(), dict[str, str]()
    for line, name, module in _imports(tree):
        known = workspace.modules.get(name)  # more names may be taken than a listing names
        if known != module if known else workspace.is_cut or name in workspace.variables:
            short = module.rpartition(".")[2]
            wanted = module.replace(".", "_") if short == name else short
            is_there = workspace.modules.get(wanted) == module
            new = renamed[name] = wanted if is_there else fresh(wanted, {*taken, name})
            lines[line - 1] = f"import {module}" + (f" as {new}" if new != module else "")
    bound = {node.id for node in names if not isinstance(node.ctx, ast.Load)}
    hidden = {n.id for n in names if hasattr(builtins, n.id)} & workspace.variables - bound
    module = fresh("builtins", taken) if hidden else ""
    renamed |= {name: f"{module}.{name}" for name in hidden}
    for node in sorted(names, key=lambda node: node.col_offset, reverse=True):
        if node.id in renamed:
            text = lines[node.lineno - 1].encode()
            end = node.col_offset + len(node.id.encode())
            start, rest = text[: node.col_offset].decode(), text[end:].decode()
            lines[node.lineno - 1] = f"{start}{renamed[node.id]}{rest}"
    if hidden:
        lines.insert(0, "import builtins" + (f" as {module}" if module != "builtins" else ""))
    return "\n".join(lines) if renamed else code


def _imports(tree: ast.Module) -> Iterator[tuple[int, str, str]]:
    """Yield the line of each import, the name that it binds, and the module."""
    for node in tree.body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            (alias,) = node.names
            package = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
            yield node.lineno, alias.asname or alias.name, f"{package}{alias.name}"
