"""Statistics of columns: of all rows or of some; modes and quantiles."""

from __future__ import annotations

from ipyagent.explorer.ask import Ask, SentenceRule
from ipyagent.explorer.families.grouping import by_group
from ipyagent.explorer.families.statistic import StatisticQuestion, expressions, title
from ipyagent.explorer.markdown import block, code, codes, label, number, table
from ipyagent.explorer.snippets import cut, literal, print_chain, rows
from ipyagent.explorer.steps import MisfitError, Step

_SUMMARY = ["count", "mean", "std", "min", "median", "max"]


def _statistics(ask: Ask) -> Step:
    stats = _stats(ask)
    if {"quartiles", "mode"} & set(stats):
        return _special(ask, stats)
    ends_of_dates = set(stats) <= {"min", "max"} and {*map(ask.table.kind, ask.columns)} == {"date"}
    if not ends_of_dates:
        ask.numeric(*ask.columns)
    if "sum" in stats and len(ask.columns) > 1:
        raise MisfitError("Of each column, or of both row by row? Ask for one, or add a column.")
    question = StatisticQuestion(ask, ask.columns, stats)
    return by_group(question) if ask.by else _overall(question)


def _stats(ask: Ask) -> list[str]:
    """Return the statistics that the core names, spelled as in pandas and polars."""
    found: list[str] = []
    for stat in ask.all("STAT", "EXTREME"):
        found += ["min", "max"] if stat == "range" else [stat]
    return list(dict.fromkeys(found))


def _special(ask: Ask, stats: list[str]) -> Step:
    if len(stats) > 1 or len(ask.columns) > 1 or ask.by:
        raise MisfitError("I find modes and quartiles of one column at a time, without groups.")
    return _mode(ask) if stats == ["mode"] else _quantiles(ask, [0.25, 0.5, 0.75])


def _overall(question: StatisticQuestion) -> Step:
    ask, stats = question.ask, list(dict.fromkeys(["count", *question.stats]))
    if ask.table.library == "polars":
        lines = _overall_polars(question, stats)
    else:
        links = [f".agg({literal(stats)})", *question.rounding, '.to_csv(index_label="statistic")']
        lines = print_chain(cut(ask.table, ask.where, question.columns), *links)

    def answer(output: str) -> str:
        found = {row[0]: row[1:] for row in block(output, ["statistic", *question.columns])}
        return _describe_statistics(question, found)

    request = f"{', '.join(question.stats)} of {', '.join(question.columns)}"
    return ask.python(request, lines, answer)


def _overall_polars(question: StatisticQuestion, stats: list[str]) -> list[str]:
    if len(question.columns) > 1:
        raise MisfitError("For polars tables I compute statistics of one column at a time.")
    column = question.columns[0]
    return print_chain(
        rows(question.ask.table, question.ask.where),
        f".select({expressions(column, stats)})",
        f'.unpivot(variable_name="statistic", value_name={literal(column)})',
        *question.rounding,
        ".write_csv()",
    )


def _describe_statistics(question: StatisticQuestion, found: dict[str, list[str]]) -> str:
    ask, digits = question.ask, question.ask.digits
    counts = [number(each) for each in found["count"]]
    if set(counts) == {"0"}:
        return f"There are no values to compute from in {ask.about}."
    if len(question.columns) == len(question.stats) == 1:
        stat, column = question.stats[0], question.columns[0]
        value = number(found[stat][0], digits)
        return (
            f"The {title(stat)} of {code(column)} is **{value}** "
            f"({counts[0]} values in {ask.about})."
        )
    stats = [stat for stat in question.stats if stat != "count"]
    body = [[title(stat), *(number(each, digits) for each in found[stat])] for stat in stats]
    shown = table(["", *map(label, question.columns)], [*body, ["values", *counts]])
    return f"**{codes(question.columns)}** in {ask.about}\n\n{shown}"


def _mode(ask: Ask) -> Step:
    column = ask.columns[0]
    source = cut(ask.table, ask.where, column)
    if ask.table.library == "polars":
        links = [".drop_nulls()", ".value_counts(sort=True)", ".head(5)", ".write_csv()"]
    else:
        links = [".value_counts()", ".head(5)", ".to_csv()"]

    def answer(output: str) -> str:
        found = block(output, [column, "count"])
        if not found:
            return f"{code(column)} has no values in {ask.about}."
        times = found[0][1]
        most = [number(value) for value, count in found if count == times]
        if len(most) == 5:
            return f"{code(column)} has many most common values, each {times} times in {ask.about}."
        verb = "value of {} is" if len(most) == 1 else "values of {} are"
        sentence = f"The most common {verb.format(code(column))} **{', '.join(most)}**"
        return f"{sentence} ({times} times in {ask.about})."

    return ask.python(f"mode of {column}", print_chain(source, *links), answer)


def _most_common(ask: Ask) -> Step:
    if ask.all("STAT") != ["mode"]:
        raise MisfitError("I know which value is the most common, nothing else that one can be.")
    return _mode(ask)


def _percentile(ask: Ask) -> Step:
    share = float(ask.all("NUMBER")[0])
    share = share / 100 if share > 1 else share
    if not 0 <= share <= 1:
        raise MisfitError("A percentile lies between 0 and 100.")
    return _quantiles(ask, [round(share, 6)])


def _quantiles(ask: Ask, shares: list[float]) -> Step:
    column = ask.number
    source = cut(ask.table, ask.where, column)
    if ask.table.library == "polars":
        made = [f'print({q}, {source}.quantile({q}, "linear"), sep=",")' for q in shares]
        lines = ['print("quantile,value")', *made]
    else:
        rounding = [] if ask.digits is None else [f".round({ask.digits})"]
        links = [f".quantile({shares})", *rounding, '.rename("value")']
        lines = print_chain(source, *links, '.to_csv(index_label="quantile")')

    def answer(output: str) -> str:
        found = block(output, ["quantile", "value"])
        body = [[f"{float(q):.10g}", number(value, ask.digits)] for q, value in found]
        if len(body) == 1:
            share, value = body[0]
            return f"The {share} quantile of {code(column)} is **{value}** (in {ask.about})."
        shown = table(["quantile", "value"], body)
        return f"**Quantiles of {code(column)}** in {ask.about}\n\n{shown}"

    return ask.python(f"quantiles of {column}", lines, answer)


def _summary(ask: Ask) -> Step:
    columns = ask.columns or ask.table.of_kind("number")
    if not columns:
        raise MisfitError(f"{code(ask.table.name)} has no columns of numbers to summarise.")
    if ask.table.library == "polars" and len(columns) > 1:
        raise MisfitError("For polars tables I summarise one column at a time; or say “Profile”.")
    question = StatisticQuestion(ask, ask.numeric(*columns), _SUMMARY)
    return by_group(question) if ask.by else _overall(question)


_STATS = "(STAT|EXTREME) (AND (STAT|EXTREME))*"
_ALL = "where by digits"
RULES = (
    SentenceRule(
        f"{_STATS} (VALUES? (OF|FOR|IN))? (OF|IN|FOR)? COL (AND COL)* VALUES?", _statistics, _ALL
    ),
    SentenceRule(f"COL {_STATS}", _statistics, _ALL),
    SentenceRule("COL IS STAT", _most_common, "where"),
    SentenceRule("NUMBER QUANTILE (OF|IN|FOR)? COL", _percentile, "where digits"),
    SentenceRule("QUANTILE NUMBER (OF|IN|FOR) COL", _percentile, "where digits"),
    SentenceRule("COL", _summary, "where digits", "by"),
    SentenceRule("SUMMARY (OF|FOR|IN|ON)? (COL (AND COL)*)? | COL SUMMARY", _summary, _ALL),
)
