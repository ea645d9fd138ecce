"""Pieces of code. Text from a prompt or from data appears in them only as a literal."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ipyagent.explorer.frame import Condition, Where
from ipyagent.explorer.workspace import Table

_WIDTH = 88
_IMPORTS = {
    "plt.": "import matplotlib.pyplot as plt",
    "pd.": "import pandas as pd",
    "pl.": "import polars as pl",
    "stats.": "from scipy import stats",
}
PLAIN = {"pstd": "std(ddof=0)", "pvar": "var(ddof=0)"}
"""Statistics that are no methods without arguments."""


def literal(value: object) -> str:
    """Return a Python literal; plain text gets double quotes, as from a formatter."""
    if isinstance(value, str) and value.isprintable() and not set(value) & {'"', "\\"}:
        return f'"{value}"'
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(literal, value))}]"
    return repr(value)


def rows(table: Table, where: Where) -> str:
    """Return the table, or its rows that meet all conditions."""
    return f"{table.name}[{mask(table, where)}]" if where else table.name


def cut(table: Table, where: Where, columns: str | Sequence[str]) -> str:
    """Return one column (a name) or several (a list) of the rows that meet all conditions."""
    if not where:
        return f"{table.name}[{literal(columns)}]"
    return f"{table.name}.loc[{mask(table, where)}, {literal(columns)}]"


def mask(table: Table, where: Where) -> str:
    """Return the test that rows meet all conditions."""
    tests = [_test(table, each) for each in where]
    return " & ".join(f"({test})" for test in tests) if len(tests) > 1 else tests[0]


def _test(table: Table, condition: Condition) -> str:
    column = f"{table.name}[{literal(condition.column)}]"
    if condition.part:
        column = f"{dates(table, column, condition.column)}.dt.{condition.part}"
    match condition.sign:
        case "null":
            return f"{column}.isna()"
        case "known":
            return f"{column}.notna()"
        case "in":
            return f"{column}.isin({literal(condition.value)})"
        case "not in":
            return f"~{column}.isin({literal(condition.value)})"
    if isinstance(condition.value, bool) and condition.sign in ("==", "!="):
        return column if condition.value == (condition.sign == "==") else f"~{column}"
    return f"{column} {condition.sign} {literal(condition.value)}"


def dates(table: Table, values: str, column: str) -> str:
    """Return code for the dates in a column, converted from text if necessary."""
    return values if table.kind(column) == "date" else f"pd.to_datetime({values})"


def print_chain(source: str, *links: str) -> list[str]:
    """Return lines that print a chain of calls: one, if it fits."""
    line = f"print({source}{''.join(links)})"
    if len(line) <= _WIDTH:
        return [line]
    start, rest = f"{source}{links[0]}", links[1:]
    if len(start) > _WIDTH:
        start, rest = source, links
    return ["print(", *(f"    {line}" for line in (start, *rest)), ")"]


def script(*lines: str) -> str:
    """Return the lines as one cell, after their imports."""
    body = "\n".join(lines)
    imports = [line for alias, line in _IMPORTS.items() if _uses(alias, body)]
    return "\n".join([*imports, *[""] * bool(imports), body])


def _uses(alias: str, body: str) -> bool:
    return bool(re.search(rf"(?<![\w.\"']){re.escape(alias)}\w", body))
