"""Pieces of code. Text from a prompt or from data appears in them only as a literal."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ipyagent.explorer.workspace import Table

_WIDTH = 88
_IMPORTS = {
    "json.": "import json",
    "plt.": "import matplotlib.pyplot as plt",
    "pd.": "import pandas as pd",
    "pl.": "import polars as pl",
    "cs.": "import polars.selectors as cs",
    "stats.": "from scipy import stats",
}


@dataclass(frozen=True)
class Condition:
    """A test on one column, such as `species == "Adelie"`."""

    column: str
    sign: str
    value: str | int | float | bool

    def __str__(self) -> str:
        sign = "=" if self.sign == "==" else self.sign
        return f"{self.column} {sign} {self.value}"


Where = tuple[Condition, ...]


def literal(value: Any) -> str:
    """Return a Python literal; plain text gets double quotes, as from a formatter."""
    if isinstance(value, str) and value.isprintable() and not set(value) & {'"', "\\"}:
        return f'"{value}"'
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(literal, value))}]"
    return repr(value)


def rows(table: Table, where: Where) -> str:
    """Return the table, or its rows that meet all conditions."""
    if not where:
        return table.name
    if table.library == "polars":
        return f"{table.name}.filter({', '.join(_tests(table, where))})"
    return f"{table.name}[{_mask(table, where)}]"


def cut(table: Table, where: Where, columns: str | Sequence[str]) -> str:
    """Return one column (a name) or several (a list) of the rows that meet all conditions."""
    if table.library == "polars" or not where:
        return f"{rows(table, where)}[{literal(columns)}]"
    return f"{table.name}.loc[{_mask(table, where)}, {literal(columns)}]"


def _mask(table: Table, where: Where) -> str:
    tests = _tests(table, where)
    return " & ".join(f"({test})" for test in tests) if len(tests) > 1 else tests[0]


def _tests(table: Table, where: Where) -> list[str]:
    return [_test(table, each) for each in where]


def _test(table: Table, condition: Condition) -> str:
    column = _column(table, condition.column)
    if isinstance(condition.value, bool):
        return column if condition.value else f"~{column}"
    return f"{column} {condition.sign} {_operand(table, condition)}"


def _column(table: Table, column: str) -> str:
    if table.library == "polars":
        return f"pl.col({literal(column)})"
    return f"{table.name}[{literal(column)}]"


def _operand(table: Table, condition: Condition) -> str:
    if table.library == "polars" and table.kind(condition.column) == "date":
        return f"pl.lit({literal(condition.value)}).str.to_date()"
    return literal(condition.value)


def select_rows(table: Table, where: Where, name: str) -> tuple[list[str], str]:
    """Return lines that select the rows, and their name afterwards."""
    if not where:
        return [], table.name
    return [f"{name} = {rows(table, where)}"], name


def assign_chain(name: str, source: str, *links: str) -> list[str]:
    """Return lines that name a chain of calls: one, if it fits."""
    line = f"{name} = {source}{''.join(links)}"
    if len(line) <= _WIDTH:
        return [line]
    return [f"{name} = (", *_hung(source, links), ")"]


def print_chain(source: str, *links: str) -> list[str]:
    """Return lines that print a chain of calls: one, if it fits."""
    line = f"print({source}{''.join(links)})"
    if len(line) <= _WIDTH:
        return [line]
    return ["print(", *_hung(source, links), ")"]


def _hung(source: str, links: Sequence[str]) -> list[str]:
    """Return a chain, one call a line; the first beside its source, if it fits."""
    start, rest = f"{source}{links[0]}", links[1:]
    if len(start) > _WIDTH:
        start, rest = source, links
    return [f"    {line}" for line in (start, *rest)]


def script(*lines: str) -> str:
    """Return the lines as one cell, after their imports."""
    body = "\n".join(lines)
    imports = [line for alias, line in _IMPORTS.items() if _uses(alias, body)]
    return "\n".join([*imports, *[""] * bool(imports), body])


def _uses(alias: str, body: str) -> bool:
    return bool(re.search(rf"(?<![\w.\"']){re.escape(alias)}\w", body))
