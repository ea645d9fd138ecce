"""Dates: their range, and statistics by day, week, month, quarter or year."""

from __future__ import annotations

import re

from ipyagent.explorer.ask import Ask, SentenceRule
from ipyagent.explorer.families.drawing import FIGURE
from ipyagent.explorer.families.statistic import expressions, sentence_case, title
from ipyagent.explorer.markdown import block, cell, code, numbers, table
from ipyagent.explorer.names import words
from ipyagent.explorer.snippets import assign_chain, literal, print_chain, rows
from ipyagent.explorer.steps import MisfitError, Step

_PANDAS = {"day": "D", "week": "W", "month": "M", "quarter": "Q", "year": "Y"}
_POLARS = {"day": "1d", "week": "1w", "month": "1mo", "quarter": "1q", "year": "1y"}
_SAYS_DATE = frozenset({"date", "day", "time", "timestamp", "datetime"})


def _date_column(ask: Ask, named: str | None = None) -> str:
    """Return the column that holds dates: the one named, or the only one there is."""
    dates = ask.table.of_kind("date") or [
        column for column in ask.table.of_kind("text") if _SAYS_DATE & set(words(column))
    ]
    if named is not None:
        if named not in dates:
            raise MisfitError(f"{code(named)} doesn't look like a column of dates.")
        return named
    if len(dates) != 1:
        raise MisfitError(f"{code(ask.table.name)} has {len(dates) or 'no'} columns of dates.")
    return dates[0]


def _dates(ask: Ask, source: str, column: str) -> str:
    """Return a column's dates in pandas, converted from text if necessary."""
    values = f"{source}[{literal(column)}]"
    return values if ask.table.kind(column) == "date" else f"pd.to_datetime({values})"


def _real_dates(ask: Ask, column: str) -> str:
    """Return a column of dates in polars, which converts no text automatically."""
    if ask.table.kind(column) != "date":
        raise MisfitError(f"{code(column)} holds text; convert it to dates first.")
    return f"pl.col({literal(column)})"


def _range(ask: Ask) -> Step:
    column = _date_column(ask, next(iter(ask.columns), None))
    name = ask.table.name
    if ask.table.library == "polars":
        dates = _real_dates(ask, column)
        lines = print_chain(
            name, f".select(first={dates}.min(), last={dates}.max())", ".write_csv()"
        )
    else:
        dates = _dates(ask, name, column)
        lines = ['print("first,last")', f'print({dates}.min(), {dates}.max(), sep=",")']

    def answer(output: str) -> str:
        ((first, last),) = block(output, ["first", "last"])
        ends = f"from **{cell(_day(first))}** to **{cell(_day(last))}**"
        return f"{code(column)} runs {ends} in {code(name)}."

    return ask.python(f"date range of {column}", lines, answer)


def _day(moment: str) -> str:
    """Return a moment without a time of midnight."""
    return re.sub(r"[ T]00:00:00(\.0+)?$", "", moment)


def _by_period(ask: Ask) -> Step:
    period = ask.period or str(next(iter(ask.all("PERIOD"))))
    stats = ask.all("STAT", "EXTREME")
    if len(ask.columns) != 1 or set(stats) & {"mode", "range", "quartiles"}:
        raise MisfitError("By periods I compute one statistic of one column.")
    column = ask.number
    return _group_by_period(ask, period, column, [*stats, "count"])


def _rows_by_period(ask: Ask) -> Step:
    return _group_by_period(ask, ask.period or "", _date_column(ask), ["count"])


def _group_by_period(ask: Ask, period: str, column: str, stats: list[str]) -> Step:
    if ask.table.library == "polars":
        lines = print_chain(*_by_polars(ask, period, column, stats), ".write_csv()")
    else:
        writer = f".to_csv(index_label={literal(period)})"
        lines = print_chain(*_by_pandas(ask, period, column), f".agg({literal(stats)})", writer)
    request = f"{', '.join(stats)} of {column} by {period}"
    return ask.python(
        request, lines, lambda out: _describe_range(ask, column, [period, *stats], out)
    )


def _by_pandas(ask: Ask, period: str, column: str) -> tuple[str, str]:
    """Return the source and the link that group by a period of time."""
    source = rows(ask.table, ask.where)
    periods = f"{_dates(ask, source, _date_column(ask))}.dt.to_period({literal(_PANDAS[period])})"
    return source, f".groupby({periods})[{literal(column)}]"


def _by_polars(ask: Ask, period: str, column: str, stats: list[str]) -> list[str]:
    """Return the source and the links that group and aggregate."""
    start = f"{_real_dates(ask, _date_column(ask))}.dt.truncate({literal(_POLARS[period])})"
    return [
        rows(ask.table, ask.where),
        f".group_by({period}={start})",
        f".agg({expressions(column, stats)})",
        f".sort({literal(period)})",
    ]


def _plot_by_period(ask: Ask) -> Step:
    """Answer `plot total revenue by month`."""
    kind, stats = next(iter(ask.all("CHART")), "bar"), ask.all("STAT", "EXTREME")
    if kind not in ("bar", "line") or set(stats) & {"mode", "range", "quartiles"}:
        raise MisfitError("By periods I draw bars or a line of one statistic.")
    period, column, (stat,) = ask.period or "", ask.number, stats
    name = ask.name(f"{column}_by_{period}")
    if ask.table.library == "polars":
        polars_lines = assign_chain(name, *_by_polars(ask, period, column, [stat]))
        x, y = f"{name}[{literal(period)}].dt.to_string()", f"{name}[{literal(stat)}]"
        writer = "write_csv()"
    else:
        polars_lines = assign_chain(name, *_by_pandas(ask, period, column), f".{stat}()")
        x, y = f"{name}.index.astype(str)", name
        writer = f"to_csv(index_label={literal(period)}, header=[{literal(stat)}])"
    lines = [
        *polars_lines,
        FIGURE,
        f"plt.{'plot' if kind == 'line' else 'bar'}({x}, {y})",
        "plt.xticks(rotation=90)",
        f"plt.ylabel({literal(f'{title(stat)} of {column}')})",
        f"plt.title({literal(f'{sentence_case(title(stat))} of {column} by {period}')})",
        f"print({name}.{writer})",
    ]
    request = f"{kind} plot of {stat} of {column} by {period}"
    return ask.python(
        request, lines, lambda out: _describe_range(ask, column, [period, stat], out), name
    )


def _describe_range(ask: Ask, column: str, heading: list[str], output: str) -> str:
    found = block(output, heading)
    measured = numbers([row[1:] for row in found], ask.digits)
    body = [[cell(_day(row[0])), *m] for row, m in zip(found, measured, strict=True)]
    period, stat, counted = heading[0], title(heading[1]), heading[1:] == ["count"]
    subject = "Rows" if counted else f"{sentence_case(stat)} of {code(column)}"
    names = ["rows"] if counted else map(title, heading[1:])
    note = f"{period.capitalize()}s without rows are left out."
    return f"**{subject} by {period}** in {ask.about}\n\n{table([period, *names], body)}\n\n{note}"


def _no_statistic(ask: Ask) -> Step:
    raise MisfitError("By periods I need a statistic, as in “total … by month”.")


RULES = (
    SentenceRule("DATES ((OF|IN)? COL)?", _range),
    SentenceRule("RESAMPLE? (STAT|EXTREME) (OF|IN)? COL", _by_period, "where digits", "period"),
    SentenceRule("PERIOD (STAT|EXTREME) (OF|IN)? COL", _by_period, "where digits"),
    SentenceRule("COUNT (OF? ROWS)? | ROWS", _rows_by_period, "where", "period"),
    SentenceRule("", _rows_by_period, "where", "period table"),
    SentenceRule("PLOT (OF|FOR)? (STAT|EXTREME) OF? COL", _plot_by_period, "where", "period"),
    SentenceRule(
        "(PLOT|NEW)? CHART (OF|FOR)? (STAT|EXTREME) OF? COL", _plot_by_period, "where", "period"
    ),
    SentenceRule("COL", _no_statistic, "where", "period"),
    SentenceRule("PERIOD COL", _no_statistic, "where"),
)
