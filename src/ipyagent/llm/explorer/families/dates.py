"""Dates: their range, and statistics by day, week, month, quarter or year."""

from __future__ import annotations

from ipyagent.llm.explorer.ask import Ask, Rule
from ipyagent.llm.explorer.families.measures import title
from ipyagent.llm.explorer.markdown import block, cell, code, number, table
from ipyagent.llm.explorer.names import words
from ipyagent.llm.explorer.snippets import literal, selected
from ipyagent.llm.explorer.steps import MisfitError, Step

_PANDAS = {"day": "D", "week": "W", "month": "M", "quarter": "Q", "year": "Y"}
_POLARS = {"day": "1d", "week": "1w", "month": "1mo", "quarter": "1q", "year": "1y"}
_SAYS_DATE = frozenset({"date", "day", "time", "timestamp", "datetime"})


def _date_column(ask: Ask, named: str | None = None) -> str:
    """The column that holds dates: the one named, or the only one there is."""
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
    """The dates of a column in pandas, converted where they are text."""
    values = f"{source}[{literal(column)}]"
    return values if ask.table.kind(column) == "date" else f"pd.to_datetime({values})"


def _range(ask: Ask) -> Step:
    column = _date_column(ask, next(iter(ask.columns), None))
    name = ask.table.name
    if ask.table.library == "polars":
        if ask.table.kind(column) != "date":
            raise MisfitError(f"{code(column)} holds text; convert it to dates first.")
        made = f"{name}.select(first=pl.col({literal(column)}).min(), last=pl.col({literal(column)}).max())"
        lines = [f"print({made}.write_csv())"]
    else:
        dates = ask.name("dates")
        lines = [
            f"{dates} = {_dates(ask, name, column)}",
            'print("first,last")',
            f'print({dates}.min(), {dates}.max(), sep=",")',
        ]

    def answer(output: str) -> str:
        ((first, last),) = block(output, ["first", "last"])
        short = [
            text.removesuffix(" 00:00:00").removesuffix("T00:00:00.000000")
            for text in (first, last)
        ]
        return f"{code(column)} runs from **{cell(short[0])}** to **{cell(short[1])}** in {code(name)}."

    return ask.python(f"date range of {column}", lines, answer)


def _by_period(ask: Ask) -> Step:
    period = ask.period or next(iter(ask.all("PERIOD")))
    date = _date_column(ask)
    stats = [stat for stat in ask.all("STAT", "EXTREME") if stat != "mode"]
    if len(stats) != 1 or len(ask.columns) != 1 or stats[0] in ("range", "quartiles"):
        raise MisfitError("By periods I compute one statistic of one column.")
    column = ask.numeric(*ask.columns)[0]
    return _grouped(ask, date, period, column, [stats[0], "count"])


def _rows_by_period(ask: Ask) -> Step:
    date = _date_column(ask)
    return _grouped(ask, date, ask.period or "", date, ["count"])


def _grouped(ask: Ask, date: str, period: str, column: str, stats: list[str]) -> Step:
    result = ask.name(f"{column}_by_{period}")
    lines, source = selected(ask.table, ask.where, ask.name("selected"))
    if ask.table.library == "polars":
        if ask.table.kind(date) != "date":
            raise MisfitError(f"{code(date)} holds text; convert it to dates first.")
        named = ", ".join(f"{stat}=pl.col({literal(column)}).{stat}()" for stat in stats)
        lines += [
            f"{result} = (",
            f"    {source}",
            f"    .group_by({period}=pl.col({literal(date)}).dt.truncate({literal(_POLARS[period])}))",
            f"    .agg({named})",
            f"    .sort({literal(period)})",
            ")",
            f"print({result}.head(200).write_csv())",
        ]
    else:
        months = ask.name(f"{period}s")
        lines += [
            f"{months} = {_dates(ask, source, date)}.dt.to_period({literal(_PANDAS[period])})",
            f"{result} = {source}.groupby({months})[{literal(column)}].agg({literal(stats)})",
            f"print({result}.head(200).to_csv(index_label={literal(period)}))",
        ]
    return ask.python(
        f"{', '.join(stats)} of {column} by {period}",
        lines,
        lambda output: _answer(ask, column, [period, *stats], result, output),
    )


def _answer(ask: Ask, column: str, heading: list[str], result: str, output: str) -> str:
    found = block(output, heading)
    body = [
        [cell(row[0].split("T")[0]), *(number(v, ask.digits) for v in row[1:])] for row in found
    ]
    period, stat = heading[0], title(heading[1])
    what = f"{stat} of {code(column)}" if len(heading) > 2 else "rows"
    head = f"**{what[0].upper()}{what[1:]} by {period}** in {ask.about}"
    shown = [period, *("rows" if s == "count" else title(s) for s in heading[1:])]
    note = f"{period.capitalize()}s without rows are left out. The table is in {code(result)}."
    return f"{head}\n\n{table(shown, body)}\n\n{note}"


RULES = (
    Rule("DATES ((OF|IN)? COL)?", _range),
    Rule("RESAMPLE? (STAT|EXTREME) (OF|IN)? COL", _by_period, "where digits", "period"),
    Rule("PERIOD (STAT|EXTREME) (OF|IN)? COL", _by_period, "where digits"),
    Rule("COUNT (OF? ROWS)?", _rows_by_period, "where", "period"),
)
