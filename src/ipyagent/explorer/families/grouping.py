"""Statistics by groups."""

from __future__ import annotations

from ipyagent.explorer.families.statistic import (
    StatisticQuestion,
    expressions,
    sentence_case,
    title,
)
from ipyagent.explorer.markdown import (
    block,
    cell,
    code,
    codes,
    label,
    number,
    numbers,
    table,
)
from ipyagent.explorer.snippets import literal, print_chain, rows
from ipyagent.explorer.steps import MisfitError, Step

MAX_GROUPS = 30  # that one may ask for
MOST = 500  # that are printed


def by_group(question: StatisticQuestion, top: tuple[int, str] | None = None) -> Step:
    """Compute statistics by groups; `top` keeps the highest (max) or lowest (min) ones."""
    ask = question.ask
    keys = ask.groups(*ask.by)
    if set(keys) & set(question.columns):
        raise MisfitError("A column can't be measured and grouped by at the same time.")
    if len(question.columns) > 1:
        raise MisfitError("With groups I compute statistics of one column at a time.")
    column = question.columns[0]
    stats = list(dict.fromkeys([*question.stats, "count"]))
    if set(keys) & set(stats):
        raise MisfitError("I can't group by a column that is named like a statistic.")
    by = question.stats[0] if len(keys) == 1 else None
    polars = ask.table.library == "polars"
    links = (_polars if polars else _pandas)(question, stats, by, bool(top and top[1] == "min"))
    writer = ".write_csv()" if polars else ".to_csv()"
    lines = print_chain(rows(ask.table, ask.where), *links, f".head({MOST})", writer)
    request = f"{', '.join(map(title, question.stats))} of {column} by {', '.join(keys)}"
    return ask.python(
        request, lines, lambda out: _describe_groups(question, block(out, [*keys, *stats]), top)
    )


def _pandas(
    question: StatisticQuestion, stats: list[str], by: str | None, ascending: bool
) -> list[str]:
    keys, column = question.ask.by, question.columns[0]
    key = literal(keys[0] if len(keys) == 1 else keys)
    order = [f".sort_values({literal(by)}, ascending={ascending})"] if by else []
    return [
        f".groupby({key}, dropna=False)[{literal(column)}]",
        f".agg({literal(stats)})",
        *order,
        *question.rounding,
    ]


def _polars(
    question: StatisticQuestion, stats: list[str], by: str | None, ascending: bool
) -> list[str]:
    keys, column = literal(question.ask.by), question.columns[0]
    order = f"{literal(by)}, descending={not ascending}, nulls_last=True" if by else keys
    return [
        f".group_by({keys})",
        f".agg({expressions(column, stats)})",
        f".sort({order})",
        *question.rounding,
    ]


def _describe_groups(
    question: StatisticQuestion, found: list[list[str]], top: tuple[int, str] | None
) -> str:
    ask, column, keys = question.ask, question.columns[0], question.ask.by
    if not found:
        return f"There are no rows in {ask.about}."
    named = [row for row in found if all(row[: len(keys)])]
    kept = named[: top[0]] if top and top[0] > 1 else found
    stat = ", ".join(title(each) for each in question.stats if each != "count")
    head = f"**{sentence_case(stat)} of {code(column)} by {codes(keys)}** in {ask.about}"
    if top and top[0] == 1:
        head = _winner(question, named, top[1])
    elif top:
        which = f"{_end(top[1])} {stat} of {code(column)}"
        head = f"**The {len(kept)} {codes(keys)} with the {which}** in {ask.about}"
    stats = list(dict.fromkeys([*question.stats, "count"]))
    shown = table([*map(label, keys), *map(title, stats)], _body(question, kept), left=len(keys))
    return f"{head}\n\n{shown}"


def _body(question: StatisticQuestion, found: list[list[str]]) -> list[list[str]]:
    width = len(question.ask.by)
    measured = numbers([row[width:] for row in found], question.ask.digits)
    return [[*map(cell, row[:width]), *values] for row, values in zip(found, measured, strict=True)]


def _winner(question: StatisticQuestion, found: list[list[str]], end: str) -> str:
    """Return the group with the highest or lowest value; all of them in a tie."""
    ask, at = question.ask, len(question.ask.by)
    best = found[0][at] if found else ""
    winners = [" / ".join(map(cell, row[:at])) for row in found if row[at] == best]
    verb = "has" if len(winners) == 1 else "have"
    statistic = f"{title(question.stats[0])} {code(question.columns[0])}"
    return (
        f"**{', '.join(winners)}** {verb} the {_end(end)} {statistic}: "
        f"**{number(best, ask.digits)}** (in {ask.about})."
    )


def _end(end: str) -> str:
    return "highest" if end == "max" else "lowest"
