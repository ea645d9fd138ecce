"""New columns: the sum, difference, product or ratio of two."""

from __future__ import annotations

from ipyagent.llm.explorer.ask import Ask, Rule
from ipyagent.llm.explorer.markdown import block, code, number
from ipyagent.llm.explorer.snippets import literal
from ipyagent.llm.explorer.steps import MisfitError, Step

_WORDS = {"+": "plus", "-": "minus", "*": "times", "/": "divided by"}


def _new(ask: Ask) -> Step:
    if len(ask.columns) != 2:
        raise MisfitError("I need two different columns to make a new one from.")
    a, b = ask.numeric(*ask.columns)
    sign = _sign(ask)
    name = next(iter(ask.all("NAME")))
    if name in (ask.table.columns or {}):
        raise MisfitError(f"{code(name)} is a column already; choose another name.")
    table = ask.table.name
    if ask.table.library == "polars":
        made = f"(pl.col({literal(a)}) {sign} pl.col({literal(b)})).alias({literal(name)})"
        lines = [f"{table} = {table}.with_columns({made})"]
        writer = f"{table}[{literal(name)}].describe().write_csv()"
        heading = ["statistic", "value"]
    else:
        lines = [f"{table}[{literal(name)}] = {table}[{literal(a)}] {sign} {table}[{literal(b)}]"]
        writer = f'{table}[{literal(name)}].describe().to_csv(index_label="statistic")'
        heading = ["statistic", name]
    lines.append(f"print({writer})")

    def answer(output: str) -> str:
        found = dict(block(output, heading))
        spread = (
            f"from {number(found['min'])} to {number(found['max'])}, mean {number(found['mean'])}"
        )
        return (
            f"Added **{code(name)}** to {code(table)}: {code(a)} {_WORDS[sign]} {code(b)} "
            f"({number(found['count'])} values, {spread})."
        )

    return ask.python(f"new column {name} = {a} {sign} {b}", lines, answer)


def _sign(ask: Ask) -> str:
    if signs := ask.all("ARITH"):
        return str(signs[0])
    if ask.has("RATIO"):
        return "/"
    if ask.has("DIFFERENCE"):
        return "-"
    if ask.all("STAT") == ["sum"]:
        return "+"
    raise MisfitError("I can add, subtract, multiply and divide two columns.")


_MADE = "(COL ARITH COL | (RATIO|DIFFERENCE|STAT) (OF|BETWEEN) COL (AND|TO) COL)"


def _unnamed(ask: Ask) -> Step:
    raise MisfitError("Please name the new column, as in “Add a column ratio = a / b”.")


RULES = (
    Rule(f"NEW COLUMNS? (FOR|AS|OF)? AS? NAME (EQ|AS|STOP|WITH|IN|IS|FOR) {_MADE}", _new),
    Rule(f"NEW COLUMNS? (WITH|FOR|AS|OF)? {_MADE}", _unnamed),
)
