"""Statistics of columns: of all rows, of some rows, by groups; and the top of a table."""

from __future__ import annotations

from dataclasses import dataclass

from ipyagent.llm.explorer.ask import Ask, Rule
from ipyagent.llm.explorer.markdown import (
    block,
    cell,
    code,
    codes,
    figures,
    label,
    number,
    percent,
    table,
)
from ipyagent.llm.explorer.snippets import literal, rows, selected
from ipyagent.llm.explorer.steps import MisfitError, Step

_TITLES = {
    "std": "standard deviation",
    "var": "variance",
    "min": "minimum",
    "max": "maximum",
    "skew": "skewness",
    "count": "values",
}
_SUMMARY = ["count", "mean", "std", "min", "median", "max"]
_MAX_GROUPS = 30


def title(stat: str) -> str:
    """What a statistic is called in an answer."""
    return _TITLES.get(stat, stat)


@dataclass(frozen=True)
class Question:
    """What is asked: statistics of columns, perhaps by groups."""

    ask: Ask
    columns: list[str]
    stats: list[str]

    @property
    def rounding(self) -> str:
        """The code that rounds, if that was asked for."""
        return "" if self.ask.digits is None else f".round({self.ask.digits})"


def _stats(ask: Ask) -> list[str]:
    """The statistics that the core names, spelled as pandas and polars do."""
    found: list[str] = []
    for stat in ask.all("STAT", "EXTREME"):
        found += ["min", "max"] if stat == "range" else [stat]
    return list(dict.fromkeys(found))


def _statistics(ask: Ask) -> Step:
    stats = _stats(ask)
    if {"quartiles", "mode"} & set(stats):
        return _special(ask, stats)
    ordered = {"min", "max"} >= set(stats) and all(ask.table.kind(c) == "date" for c in ask.columns)
    if not ordered:
        ask.numeric(*ask.columns)
    question = Question(ask, ask.columns, stats)
    return by_group(question) if ask.by else _overall(question)


def _special(ask: Ask, stats: list[str]) -> Step:
    if len(stats) > 1 or len(ask.columns) > 1 or ask.by:
        raise MisfitError("I compute modes and quartiles of one column at a time, without groups.")
    return _mode(ask) if stats == ["mode"] else quantiles(ask, [0.25, 0.5, 0.75])


def _overall(question: Question) -> Step:
    ask, stats = question.ask, list(dict.fromkeys(["count", *question.stats]))
    if ask.table.library == "polars":
        lines = _overall_polars(question, stats)
    else:
        source = _columns_of(ask, question.columns)
        made = f"{source}.agg({literal(stats)}){question.rounding}"
        lines = [f'print({made}.to_csv(index_label="statistic"))']

    def answer(output: str) -> str:
        found = {row[0]: row[1:] for row in block(output, ["statistic", *question.columns])}
        return _overall_answer(question, found)

    return ask.python(
        f"{', '.join(question.stats)} of {', '.join(question.columns)}", lines, answer
    )


def _columns_of(ask: Ask, columns: list[str]) -> str:
    if not ask.where:
        return f"{ask.table.name}[{literal(columns)}]"
    return f"{rows(ask.table, ask.where)}[{literal(columns)}]"


def _overall_polars(question: Question, stats: list[str]) -> list[str]:
    if len(question.columns) > 1:
        raise MisfitError("For polars tables I compute statistics of one column at a time.")
    column = question.columns[0]
    chain = [
        rows(question.ask.table, question.ask.where),
        f".select({', '.join(expression(column, stat) for stat in stats)})",
        f'.unpivot(variable_name="statistic", value_name={literal(column)})',
        *[f".with_columns(cs.float(){question.rounding})"] * bool(question.rounding),
        ".write_csv()",
    ]
    return ["print(", *(f"    {link}" for link in chain), ")"]


def expression(column: str, stat: str) -> str:
    """A named polars expression of one statistic."""
    call = "skew(bias=False)" if stat == "skew" else f"{stat}()"
    return f"{stat}=pl.col({literal(column)}).{call}"


def _overall_answer(question: Question, found: dict[str, list[str]]) -> str:
    ask, digits = question.ask, question.ask.digits
    counts = [number(each) for each in found["count"]]
    if set(counts) == {"0"}:
        return f"There are no values to compute from in {ask.about}."
    if len(question.columns) == len(question.stats) == 1:
        stat, column = question.stats[0], question.columns[0]
        return (
            f"The {title(stat)} of {code(column)} is **{number(found[stat][0], digits)}** "
            f"({counts[0]} values in {ask.about})."
        )
    heading = ["", *map(label, question.columns)]
    body = [[title(s), *(number(v, digits) for v in found[s])] for s in question.stats]
    body.append(["values", *counts])
    return f"**{codes(question.columns)}** in {ask.about}\n\n{table(heading, body)}"


def _mode(ask: Ask) -> Step:
    column = ask.columns[0]
    if ask.table.library == "polars":
        source = f"{rows(ask.table, ask.where)}[{literal(column)}].drop_nulls()"
        line = f"print({source}.value_counts(sort=True).head(5).write_csv())"
    else:
        line = f"print({rows(ask.table, ask.where)}[{literal(column)}].value_counts().head(5).to_csv())"

    def answer(output: str) -> str:
        found = block(output, [column, "count"])
        if not found:
            return f"{code(column)} has no values in {ask.about}."
        most = found[0][1]
        winners = [number(value) for value, count in found if count == most]
        verb = "is" if len(winners) == 1 else "are"
        return f"The most common value of {code(column)} {verb} **{', '.join(winners)}** ({most} times, in {ask.about})."

    return ask.python(f"mode of {column}", [line], answer)


def quantiles(ask: Ask, shares: list[float]) -> Step:
    """Quantiles of one column."""
    column = ask.numeric(*ask.columns)[0]
    source = f"{rows(ask.table, ask.where)}[{literal(column)}]"
    if ask.table.library == "polars":
        lines = [
            'print("quantile", "value", sep=",")',
            *(f'print({q}, {source}.quantile({q}, "linear"), sep=",")' for q in shares),
        ]
    else:
        rounding = "" if ask.digits is None else f".round({ask.digits})"
        made = f"{source}.quantile({shares}){rounding}"
        lines = [f'print({made}.rename("value").to_csv(index_label="quantile"))']

    def answer(output: str) -> str:
        found = block(output, ["quantile", "value"])
        body = [[percent(q), number(value, ask.digits)] for q, value in found]
        if len(body) == 1:
            return f"{body[0][0]} of the values of {code(column)} in {ask.about} lie at or below **{body[0][1]}**."
        return f"**Quantiles of {code(column)}** in {ask.about}\n\n{table(['quantile', 'value'], body)}"

    return ask.python(f"quantiles of {column}", lines, answer)


def _percentile(ask: Ask) -> Step:
    share = float(ask.all("NUMBER")[0])
    share = share / 100 if share > 1 else share
    if not 0 <= share <= 1:
        raise MisfitError("A percentile lies between 0 and 100.")
    return quantiles(ask, [round(share, 6)])


def _summary(ask: Ask) -> Step:
    columns = ask.columns or ask.table.of_kind("number")
    if not columns:
        raise MisfitError(f"{code(ask.table.name)} has no columns of numbers to summarise.")
    if ask.table.library == "polars" and len(columns) > 1:
        raise MisfitError("For polars tables I summarise one column at a time; or say “Profile”.")
    question = Question(ask, ask.numeric(*columns), _SUMMARY)
    return by_group(question) if ask.by else _overall(question)


def by_group(question: Question, top: tuple[int, str] | None = None) -> Step:
    """Statistics by groups; `top` keeps so many, the highest (max) or the lowest (min)."""
    ask = question.ask
    keys = ask.groups(*ask.by)
    if set(keys) & set(question.columns):
        raise MisfitError("A column can't be measured and grouped by at the same time.")
    if len(question.columns) > 1:
        raise MisfitError("With groups I compute statistics of one column at a time.")
    column = question.columns[0]
    stats = [*question.stats, *["count"] * ("count" not in question.stats)]
    name = ask.name(f"{column}_by_{'_'.join(keys)}")
    order = (question.stats[0] if len(keys) == 1 or top else None, bool(top and top[1] == "min"))
    lines = _group_lines(question, name, stats, order)
    what = f"{', '.join(map(title, question.stats))} of {column} by {', '.join(keys)}"
    return ask.python(
        what, lines, lambda output: _group_answer(question, output, [*keys, *stats], name, top)
    )


def _group_lines(
    question: Question, name: str, stats: list[str], order: tuple[str | None, bool]
) -> list[str]:
    ask, column = question.ask, question.columns[0]
    by, ascending = order
    polars = ask.table.library == "polars"
    source, keys = rows(ask.table, ask.where), ask.by
    if polars:
        chain = [
            f".group_by({literal(keys)})",
            f".agg({', '.join(expression(column, stat) for stat in stats)})",
            f".sort({literal(by)}, descending={not ascending}, nulls_last=True)"
            if by
            else f".sort({literal(keys)})",
        ]
        chain += [f".with_columns(cs.float(){question.rounding})"] * bool(question.rounding)
    else:
        chain = [
            f".groupby({literal(keys)}, dropna=False)[{literal(column)}]",
            f".agg({literal(stats)})",
            *([f".sort_values({literal(by)}, ascending={ascending})"] * bool(by)),
            *([question.rounding] * bool(question.rounding)),
            ".reset_index()",
        ]
    writer = "write_csv()" if polars else "to_csv(index=False)"
    body = [f"    {link}" for link in (source, *chain)]
    return [
        f"{name} = (",
        *body,
        ")",
        f'print(len({name}), "groups")',
        f"print({name}.head({_MAX_GROUPS}).{writer})",
    ]


def _group_answer(
    question: Question, output: str, heading: list[str], name: str, top: tuple[int, str] | None
) -> str:
    ask, column, digits = question.ask, question.columns[0], question.ask.digits
    keys, stats = heading[: len(ask.by)], heading[len(ask.by) :]
    (groups,) = figures(output, r"(\d+) groups")
    found = block(output, heading)
    if not found:
        return f"There are no rows in {ask.about}."
    named = [row for row in found if all(row[: len(keys)])] if top else found
    kept = named[: top[0]] if top else found
    body = [
        [*map(cell, row[: len(keys)]), *_values(stats, row[len(keys) :], digits)] for row in kept
    ]
    shown = [*map(label, keys)] + [title(s) for s in stats]
    said = ", ".join(title(stat) for stat in question.stats if stat != "count") or "values"
    heads = f"**{said[0].upper()}{said[1:]} of {code(column)} by {codes(keys)}** in {ask.about}"
    if top and top[0] == 1:
        heads = _winner(question, named, keys, stats, top[1])
        body = [
            [*map(cell, row[: len(keys)]), *_values(stats, row[len(keys) :], digits)]
            for row in found
        ]
    rest = (
        "" if top or int(groups) <= len(body) else f"\n\nThe first {len(body)} of {groups} groups."
    )
    return f"{heads}\n\n{table(shown, body, left=len(keys))}{rest}\n\nThe table is in {code(name)}."


def _values(stats: list[str], cells: list[str], digits: int | None) -> list[str]:
    return [
        number(value, None if stat == "count" else digits)
        for stat, value in zip(stats, cells, strict=True)
    ]


def _winner(
    question: Question, found: list[list[str]], keys: list[str], stats: list[str], end: str
) -> str:
    """Who has the highest or lowest value; all of them where there is a tie."""
    stat, at = question.stats[0], len(keys)
    best = found[0][at] if found else ""
    winners = [" / ".join(map(cell, row[:at])) for row in found if row[at] == best]
    value = number(best, question.ask.digits)
    verb = "has" if len(winners) == 1 else "have"
    which = "highest" if end == "max" else "lowest"
    column = code(question.columns[0])
    about = question.ask.about
    return f"**{', '.join(winners)}** {verb} the {which} {title(stat)} of {column} in {about}: **{value}**."


def _which(ask: Ask) -> Step:
    """`which species has the highest mean body mass`, `top 3 islands by mean body mass`."""
    key, *measured = ask.columns
    if len(measured) != 1:
        raise MisfitError("I need one column to group by and one to measure.")
    ask.numeric(*measured)
    count = next(iter(ask.all("NUMBER")), 1)
    if not (isinstance(count, int) and 0 < count <= _MAX_GROUPS):
        raise MisfitError(f"I can show 1 to {_MAX_GROUPS} groups.")
    stats = [stat for stat in ask.all("STAT") if stat in ("mean", "median", "sum", "std")]
    if len(stats) != 1:
        raise MisfitError("To rank groups I need one of mean, median, sum or standard deviation.")
    end = ask.all("EXTREME", "TOP")[0]
    return by_group(Question(_grouped(ask, key), measured, stats), (count, end))


def _highest(ask: Ask) -> Step:
    """`highest mean body mass by species`."""
    end, stat = ask.all("EXTREME")[0], ask.all("STAT")[0]
    if not ask.by or stat not in ("mean", "median", "sum", "std"):
        raise MisfitError("To find the highest or lowest I need something like “mean … by …”.")
    return by_group(Question(ask, ask.numeric(*ask.columns), [stat]), (1, end))


def _grouped(ask: Ask, key: str) -> Ask:
    from dataclasses import replace

    from ipyagent.llm.explorer.lexer import Token

    if ask.by:
        raise MisfitError("I can rank groups by one column only.")
    clause = ("by", (Token("COL", key, key),))
    return replace(ask, sentence=replace(ask.sentence, clauses=(*ask.sentence.clauses, clause)))


def _top_rows(ask: Ask) -> Step:
    """`top 5 rows by body mass`."""
    column = next(iter([*ask.columns, *ask.by]), "")
    if len(ask.by) + len(ask.columns) != 1:
        raise MisfitError("I need one column to rank the rows by.")
    ask.numeric(column)
    count = ask.all("NUMBER")[0]
    if not (isinstance(count, int) and 0 < count <= _MAX_GROUPS):
        raise MisfitError(f"I can show 1 to {_MAX_GROUPS} rows.")
    highest = ask.all("TOP", "EXTREME")[0] == "max"
    heading = list(ask.table.columns or {})
    lines, source = selected(ask.table, ask.where, ask.name("selected"))
    if ask.table.library == "polars":
        sort = f"sort({literal(column)}, descending={highest}, nulls_last=True).head({count})"
        lines.append(f"print({source}.{sort}.write_csv())")
    else:
        pick = "nlargest" if highest else "nsmallest"
        lines.append(f"print({source}.{pick}({count}, {literal(column)}).to_csv(index=False))")

    def answer(output: str) -> str:
        body = [[number(value) for value in row] for row in block(output, heading)]
        which = "highest" if highest else "lowest"
        shown = table([*map(label, heading)], body, left=len(heading))
        return f"**The {len(body)} rows with the {which} {code(column)}** in {ask.about}\n\n{shown}"

    return ask.python(f"rows with the {'highest' if highest else 'lowest'} {column}", lines, answer)


_STATS = "(STAT|EXTREME) (AND (STAT|EXTREME))*"
_ALL = "where by digits"
RULES = (
    Rule(f"{_STATS} (VALUES? (OF|FOR|IN))? (OF|IN|FOR)? COL (AND COL)* VALUES?", _statistics, _ALL),
    Rule(f"COL {_STATS}", _statistics, _ALL),
    Rule(
        "NUMBER QUANTILE (OF|IN|FOR)? COL | QUANTILE NUMBER (OF|IN|FOR) COL",
        _percentile,
        "where digits",
    ),
    Rule("SUMMARY (OF|FOR|IN|ON)? (COL (AND COL)*)? | COL SUMMARY", _summary, _ALL),
    Rule("COL (HAS|IS WITH|WITH) EXTREME STAT (OF|IN|FOR)? COL", _which, "where digits"),
    Rule("TOP NUMBER COL BY STAT (OF|IN|FOR)? COL", _which, "where digits"),
    Rule("EXTREME STAT (OF|IN|FOR)? COL", _highest, _ALL),
    Rule("TOP NUMBER ROWS? (BY? COL)? | TOP NUMBER COL VALUES?", _top_rows, "where by"),
    Rule("NUMBER EXTREME COL VALUES? | EXTREME NUMBER COL VALUES?", _top_rows, "where"),
    Rule("NUMBER ROWS? WITH EXTREME COL | ROWS WITH NUMBER EXTREME COL", _top_rows, "where"),
)
