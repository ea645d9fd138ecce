"""New columns: the sum, difference, product or ratio of two."""

from __future__ import annotations

from ipyagent.explorer.ask import Ask, SentenceRule
from ipyagent.explorer.markdown import block, code, number
from ipyagent.explorer.snippets import literal
from ipyagent.explorer.steps import MisfitError, Step

_WORDS = {"+": "plus", "-": "minus", "*": "times", "/": "divided by"}


def _new(ask: Ask) -> Step:
    a, sign, b = _made_of(ask)
    name = next(iter(ask.all("NAME")))
    if name in (ask.table.columns or {}):
        raise MisfitError(f"{code(name)} is a column already; choose another name.")
    table = ask.table.name
    if ask.table.library == "polars":
        other = f"pl.col({literal(b)})" if isinstance(b, str) else literal(b)
        made = f"(pl.col({literal(a)}) {sign} {other}).alias({literal(name)})"
        lines = [f"{table} = {table}.with_columns({made})"]
        writer, heading = "describe().write_csv()", ["statistic", "value"]
    else:
        other = f"{table}[{literal(b)}]" if isinstance(b, str) else literal(b)
        lines = [f"{table}[{literal(name)}] = {table}[{literal(a)}] {sign} {other}"]
        writer, heading = 'describe().to_csv(index_label="statistic")', ["statistic", name]
    lines.append(f"print({table}[{literal(name)}].{writer})")

    def answer(output: str) -> str:
        found = dict(block(output, heading))
        count, low, mean, high = (number(found[k]) for k in ("count", "min", "mean", "max"))
        return (
            f"Added **{code(name)}** to {code(table)}: {code(a)} {_WORDS[sign]} {code(str(b))} "
            f"({count} values from {low} to {high}, mean {mean})."
        )

    return ask.python(f"new column {name} = {a} {sign} {b}", lines, answer)


def _made_of(ask: Ask) -> tuple[str, str, str | float]:
    """Return the parts of the new column: a column, a sign, and a column or a number."""
    parts, sign = [*ask.columns, *ask.all("NUMBER")], _sign(ask)
    if len(parts) != 2 or (sign == "/" and parts[1] == 0):
        raise MisfitError("I make a new column of two different columns, or of one and a number.")
    ask.numeric(*ask.columns)
    return parts[0], sign, parts[1]


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


_MADE = "(COL ARITH (COL|NUMBER) | (RATIO|DIFFERENCE|STAT) (OF|BETWEEN) COL (AND|TO) COL)"


def _unnamed_column(ask: Ask) -> Step:
    raise MisfitError("Please name the new column, as in “Add a column ratio = a / b”.")


RULES = (
    SentenceRule(f"NEW COLUMNS? (FOR|AS|OF)? AS? NAME (EQ|AS|STOP|WITH|IN|IS|FOR) {_MADE}", _new),
    SentenceRule(f"NEW COLUMNS? (WITH|FOR|AS|OF)? {_MADE}", _unnamed_column),
)
