"""Correlations: of two columns, of one with the others, of all."""

from __future__ import annotations

from ipyagent.explorer.ask import Ask, SentenceRule
from ipyagent.explorer.markdown import block, code, figures, label, number, table
from ipyagent.explorer.snippets import cut, literal, print_chain, rows
from ipyagent.explorer.steps import MisfitError, Step

_TESTS = {"pearson": "pearsonr", "spearman": "spearmanr", "kendall": "kendalltau"}


def _method(ask: Ask) -> str:
    return str(next(iter(ask.all("METHOD")), "pearson"))


def _two(ask: Ask) -> Step:
    if len(ask.columns) != 2:
        raise MisfitError("I need two different columns to correlate.")
    a, b = ask.numeric(*ask.columns)
    lines = (_two_polars if ask.table.library == "polars" else _two_pandas)(ask, a, b)
    request = f"{_method(ask)} correlation of {a} and {b}"
    return ask.python(request, lines, lambda output: _describe_correlation(ask, a, b, output))


def _two_pandas(ask: Ask, a: str, b: str) -> list[str]:
    method, points = _method(ask), cut(ask.table, ask.where, [a, b])
    how = "" if method == "pearson" else f"method={literal(method)}"
    lines = [
        f'print("rows", len({points}.dropna()))',
        f'print("correlation", {points}.corr({how}).iloc[0, 1])',
    ]
    if ask.has("PVALUE"):
        lines.append(f'print("p", stats.{_TESTS[method]}(*{points}.dropna().to_numpy().T).pvalue)')
    return lines


def _two_polars(ask: Ask, a: str, b: str) -> list[str]:
    method = _method(ask)
    if method == "kendall" or ask.has("PVALUE"):
        raise MisfitError("For polars tables I compute Pearson and Spearman correlations only.")
    how = "" if method == "pearson" else f", method={literal(method)}"
    points = f"{rows(ask.table, ask.where)}.select({literal([a, b])}).drop_nulls()"
    made = f"{points}.select(pl.corr({literal(a)}, {literal(b)}{how})).item()"
    return [f'print("rows", len({points}))', f'print("correlation", {made})']


def _describe_correlation(ask: Ask, a: str, b: str, output: str) -> str:
    (n,), (r,) = figures(output, r"rows (\d+)"), figures(output, r"correlation (\S+)")
    p = figures(output, r"p (\S+)")[0] if ask.has("PVALUE") else ""
    if r in ("nan", "None"):
        return f"The correlation is not defined: {n} rows of {ask.about} have both values."
    strength = _strength(float(r))
    tested = f", p = {float(p):.3g}" if p else ""
    return (
        f"{_method(ask).capitalize()} correlation of {code(a)} and {code(b)}: **{number(r, 3)}** "
        f"({strength}{tested}; {n} rows of {ask.about})."
    )


def _strength(r: float) -> str:
    size = "strong" if abs(r) >= 0.7 else "moderate" if abs(r) >= 0.4 else "weak"
    return f"{size}, {'positive' if r > 0 else 'negative'}" if abs(r) >= 0.1 else "hardly any"


def _numbers(ask: Ask) -> list[str]:
    columns = ask.table.of_kind("number")
    if len(columns) < 2:
        raise MisfitError(f"{code(ask.table.name)} has fewer than two columns of numbers.")
    ask.pandas_only("Correlation matrices")
    return columns


def _matrix(ask: Ask) -> Step:
    columns = _numbers(ask)
    how = f"method={literal(_method(ask))}" if ask.has("METHOD") else ""
    source = cut(ask.table, ask.where, columns)
    lines = print_chain(source, f".corr({how})", '.to_csv(index_label="column")')

    def answer(output: str) -> str:
        found = block(output, ["column", *columns])
        body = [[label(row[0]), *(number(value, 2) for value in row[1:])] for row in found]
        title = f"**Correlations** ({_method(ask).capitalize()}) in {ask.about}"
        shown = table(["", *map(label, columns)], body)
        return f"{title}\n\n{shown}"

    return ask.python("correlation matrix", lines, answer)


def _with_others(ask: Ask) -> Step:
    column = ask.number
    columns = _numbers(ask)
    how = f"method={literal(_method(ask))}" if ask.has("METHOD") else ""
    links = [f".corr({how})[{literal(column)}]", f".drop({literal(column)})", '.rename("r")']
    source = cut(ask.table, ask.where, columns)
    lines = print_chain(source, *links, '.to_csv(index_label="column")')

    def answer(output: str) -> str:
        found = sorted(block(output, ["column", "r"]), key=lambda row: -abs(float(row[1] or 0)))
        body = [[label(name), number(r, 3)] for name, r in found]
        title = f"**Correlation with {code(column)}** ({_method(ask).capitalize()}) in {ask.about}"
        return f"{title}\n\n{table(['column', 'r'], body)}"

    return ask.python(f"correlations with {column}", lines, answer)


_P = "((AND|WITH) PVALUE)?"
_VIA = "((BY|WITH|VIA)? METHOD)?"
_TO = "(AND|WITH|VS|TO)"
RULES = (
    SentenceRule(
        f"METHOD? CORR METHOD? (OF|BETWEEN|IN|FOR)? COL {_TO} COL {_VIA} {_P}", _two, "where"
    ),
    SentenceRule(
        f"ASK? COL (AND|IS) COL METHOD? CORR | ASK? COL CORR (WITH|TO) COL {_P}", _two, "where"
    ),
    SentenceRule(f"CORR IS COL {_TO} COL {_P} | COL IS CORR (WITH|TO) COL", _two, "where"),
    SentenceRule("COL (AND|VS) COL METHOD? CORR", _two, "where"),
    SentenceRule(f"METHOD? (MATRIX|CORR) {_VIA}", _matrix, "where"),
    SentenceRule(f"METHOD? (MATRIX|CORR) (BETWEEN|OF|FOR|IN) COLUMNS {_VIA}", _matrix, "where"),
    SentenceRule(f"METHOD? CORR (WITH|OF|TO) COL {_VIA}", _with_others, "where"),
    SentenceRule("COLUMNS IS? CORR (WITH|TO) COL", _with_others, "where"),
)
