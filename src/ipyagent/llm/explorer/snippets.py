"""Pieces of code. Whatever comes from a prompt or from data stands in it as a literal only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ipyagent.llm.explorer.workspace import Table


@dataclass(frozen=True)
class Condition:
    """A test on one column, such as `species == "Adelie"`."""

    column: str
    sign: str
    value: str | int | float | bool

    def __str__(self) -> str:
        sign = "is" if self.sign == "==" else self.sign
        return f"{self.column} {sign} {self.value}"


Where = tuple[Condition, ...]


def literal(value: Any) -> str:
    """A Python literal; plain text gets double quotes, as a formatter would write it."""
    if isinstance(value, str) and value.isprintable() and not set(value) & {'"', "\\"}:
        return f'"{value}"'
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(literal, value))}]"
    return repr(value)


def rows(table: Table, where: Where) -> str:
    """The table, or those of its rows that meet all conditions."""
    if not where:
        return table.name
    if table.library == "polars":
        tests = [f"pl.col({literal(c.column)}) {c.sign} {_operand(table, c)}" for c in where]
        return f"{table.name}.filter({', '.join(tests)})"
    tests = [f"{table.name}[{literal(c.column)}] {c.sign} {_operand(table, c)}" for c in where]
    return f"{table.name}[{' & '.join(f'({t})' for t in tests) if len(tests) > 1 else tests[0]}]"


def _operand(table: Table, condition: Condition) -> str:
    if table.library == "polars" and table.kind(condition.column) == "date":
        return f"pl.lit({literal(condition.value)}).str.to_date()"
    return literal(condition.value)


def selected(table: Table, where: Where, name: str) -> tuple[list[str], str]:
    """Lines that pick the rows, and what to call them afterwards."""
    if not where:
        return [], table.name
    return [f"{name} = {rows(table, where)}"], name


def script(*lines: str) -> str:
    """The lines as one cell, after the import that they need."""
    body = "\n".join(lines)
    imports = [
        line
        for alias, line in (
            ("pd.", "import pandas as pd"),
            ("pl.", "import polars as pl"),
            ("cs.", "import polars.selectors as cs"),
            ("plt.", "import matplotlib.pyplot as plt"),
            ("stats.", "from scipy import stats"),
        )
        if _uses(alias, body)
    ]
    return "\n".join([*sorted(imports, key=lambda i: "." not in i), *[""] * bool(imports), body])


def _uses(alias: str, body: str) -> bool:
    import re

    return bool(re.search(rf"(?<![\w.\"']){re.escape(alias)}", body))
