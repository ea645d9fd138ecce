"""Measures that choose: the most common value, the best group, the row or column that leads."""

from __future__ import annotations

from functools import partial

from ipyagent.explorer.markdown import cell, code, number
from ipyagent.explorer.names import words
from ipyagent.explorer.questions.describing import TITLES, WORDS
from ipyagent.explorer.questions.measure import Measure, Query, Result, Values
from ipyagent.explorer.snippets import literal, rows
from ipyagent.explorer.steps import MisfitError


def mode(query: Query) -> list[Measure]:
    """Return the most common value, and how often it occurs."""
    (column,) = query.columns
    query.ask.pandas_only("Most common values")
    if any(each.column == column for each in query.ask.where):
        raise MisfitError(f"{code(column)} is restricted to some values already.")
    counts = query.ask.name("counts")
    lines = (f"{counts} = {query.values(column)}.value_counts()",)
    tied = f"{counts}.index[{counts} == {counts}.max()]"
    results = (
        Result("most common", f"list(map(str, {tied}))", frozenset()),
        Result("times", f"{counts}.max()", frozenset({"frequency", "count", "times"}), "count"),
        Result("first", "", _MOST | frozenset(words(column)), "text", _only_one),
    )

    def report(values: Values) -> str:
        most, times = values["most common"], number(str(values["times"]))
        names = ", ".join(map(cell, most if isinstance(most, list) else []))
        where = query.ask.about
        return f"The most common {code(column)} is **{names}** (**{times}** times in {where})."

    return [Measure(f"most common {column}", results, report, lines, (counts,))]


_MOST = frozenset({"most", "common", "frequent", "mode", "value", "name"})


def _only_one(values: Values) -> object:
    found = values["most common"]
    return found[0] if isinstance(found, list) and len(found) == 1 else None


def most_missing(query: Query) -> list[Measure]:
    """Return the column with the most missing values, if it is one."""
    query.ask.pandas_only("Comparisons of missing values")
    gaps = query.ask.name("missing")
    lines = (f"{gaps} = {rows(query.table, query.ask.where)}.isna().sum()",)
    tied = f"list({gaps}.index[{gaps} == {gaps}.max()])"
    results = (
        Result("most missing", tied, frozenset()),
        Result("missing", f"{gaps}.max()", frozenset({"count", "number", "missing"}), "count"),
        Result(
            "column",
            "",
            frozenset({"column", "name", "variable"}),
            "text",
            lambda v: (
                one[0] if isinstance(one := v["most missing"], list) and len(one) == 1 else None
            ),
        ),
    )

    def report(values: Values) -> str:
        if not int(str(values["missing"])):
            return f"No column of {code(query.table.name)} has missing values."
        most = values["most missing"]
        names = [f"**{code(str(each))}**" for each in (most if isinstance(most, list) else [])]
        return f"{', '.join(names)} has the most missing values: {values['missing']}."

    return [Measure("column with the most missing values", results, report, lines, (gaps,))]


def best_group(query: Query) -> list[Measure]:
    """Return the group with the highest or lowest statistic, and that statistic."""
    key, column = query.columns
    if query.frame.by not in ([], [key]):
        raise MisfitError("I can group by one column only.")
    query.ask.groups(key)
    query.ask.pandas_only("Rankings of groups")
    stat = query.ask.all("STAT")[0]
    if stat not in ("mean", "median", "sum", "std", "var"):
        raise MisfitError("To rank groups I need a mean, median, sum or standard deviation.")
    query.numeric(column)
    end = query.ask.all("EXTREME")[0]
    groups = query.ask.name("groups")
    source = rows(query.table, query.ask.where)
    lines = (f"{groups} = {source}.groupby({literal(key)})[{literal(column)}].{stat}()",)
    end_word = "highest" if end == "max" else "lowest"
    title = f"{end_word} {TITLES[stat]} of {column}"
    return [_extreme_of(query, groups, title, lines, key, f"{WORDS[stat]} {column}", end)]


def _extreme_of(
    query: Query, series: str, title: str, lines: tuple[str, ...], key: str, said: str, end: str
) -> Measure:
    tied = f"{series}.index[{series} == {series}.{end}()]"
    of_name = frozenset({"name", "group", *words(key)})
    results = (
        Result("tied", f"list(map(str, {tied}))", frozenset()),
        Result(title, f"{series}.{end}()", frozenset(words(said)) | {end, "value"}),
        Result(key, "", of_name, "text", _first_tied),
    )
    return Measure(title, results, partial(_report_extreme, query, title, key), lines, (series,))


def _first_tied(values: Values) -> object:
    found = values["tied"]
    return found[0] if isinstance(found, list) and len(found) == 1 else None


def _report_extreme(query: Query, title: str, key: str, values: Values) -> str:
    tied = values["tied"]
    names = ", ".join(map(cell, tied if isinstance(tied, list) else []))
    value = number(str(values[title]), query.frame.digits)
    return f"The {code(key)} with the {title} is **{names}**: **{value}** (in {query.ask.about})."


def extreme_row(query: Query) -> list[Measure]:
    """Return what a column holds in the row with the highest or lowest value of another."""
    label, column = query.columns
    query.ask.pandas_only("Look-ups of rows")
    query.numeric(column)
    end = query.ask.all("EXTREME")[0]
    series = query.ask.name("by_row")
    source = rows(query.table, query.ask.where)
    lines = (f"{series} = {source}.set_index({literal(label)})[{literal(column)}]",)
    title = f"{'highest' if end == 'max' else 'lowest'} {column}"
    return [_extreme_of(query, series, title, lines, label, column, end)]
