"""Functions that rows of the table of intents name: they choose a row, or make the code of one."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from ipyagent.explorer.answers import describe_statistics, render
from ipyagent.explorer.frame import first_of, literal
from ipyagent.explorer.intents import (
    INTENTS,
    STATISTICS,
    Env,
    Intent,
    Query,
    bind,
    sentence_case,
    title,
)  # fmt: skip
from ipyagent.explorer.text import code, codes, fresh, usable
from ipyagent.explorer.workspace import MisfitError, Part, Table, refuse_if

_SUMMARY = ["mean", "std", "min", "median", "max"]
_NOT_OF_GROUPS = {"range", "kurt", *(s for s, each in STATISTICS.items() if "code" in each)}
_ENDINGS = {
    "csv": "to_csv({}, index=False)", "tsv": 'to_csv({}, sep="\\t", index=False)',
    "xlsx": "to_excel({}, index=False)", "json": 'to_json({}, orient="records")',
    "parquet": "to_parquet({}, index=False)",
}  # fmt: skip
_CHANGES = re.compile(r"^\{t\}(\[.*\])? = ", re.MULTILINE)


def make_part(row: Intent, query: Query) -> Part:
    """Return the part for a row; raises MisfitError if the columns do not suit it."""
    if query.polars and not row.polars and _CHANGES.search(row.code):
        table = code(query.table.name)
        raise MisfitError(f"Changes work for pandas tables only; {table} is polars.")
    env = bind(row, query)
    made = BUILD[row.build](query, env) if row.build in BUILD else row.build
    if isinstance(made, Part):
        return made
    return make_part(INTENTS[made], query) if made else render(env)


def _render_as(name: str, env: Env) -> Part:
    """Return the part for another row with the same names."""
    return render(replace(env, row=INTENTS[name]))


def size(query: Query, env: Env) -> None:
    """Refuse to count the rows where something else may be meant."""
    if not query.has("SIZE", "ROWS", "COLUMNS", "LINES"):
        query.refuse_strangers()


# Statistics.


def statistics(query: Query, env: Env) -> Part | str | None:
    """Compute statistics of columns: of all rows, by groups, or by periods."""
    library, stats = query.frame.options.get("LIBRARY", ""), list[str]()
    for stat in query.all("STAT", "EXTREME"):
        own = STATISTICS.get(stat, {}).get(library, stat)
        stats += ["min", "max"] if stat == "range" else [own]
    stats = list(dict.fromkeys(stats)) or ["mean"]
    if query.frame.period:
        return by_period(query, env, stats)
    columns = [c for c in env.lists["cols"] if c not in query.by]
    ends_of_dates = {*stats} <= {"min", "max"} and {*columns} <= {*query.table.date_columns}
    if not ends_of_dates:
        query.numeric(*columns)
    if "sum" in stats and len(columns) > 1 and query.columns:
        raise MisfitError("Of each column, or of both row by row? Ask for one, or add a column.")
    if query.by:
        return by_group(query, env, columns, stats)
    return overall(query, columns, stats)


def overall(query: Query, columns: list[str], stats: list[str]) -> Part:
    """Compute statistics of all rows in question."""
    values, lines = query.name("values"), list[str]()
    ways = [STATISTICS.get(stat, {}).get("code", f"{{0}}.{stat}()") for stat in ["count", *stats]]
    for column in columns:
        lines.append(f"{values} = {query.cut(column)}.dropna()")
        lines.append(f'print("figures", {", ".join(ways).format(values)})')
    answer = partial(describe_statistics, query, columns, stats)
    rule = f"{', '.join(stats)} of {', '.join(columns)} ({query.table.name})"
    return Part(rule, tuple(lines), answer, (values,), query.polars)


def all_statistics(query: Query, env: Env) -> Part | str | None:
    """Compute statistics of all columns of numbers, if they are asked for: `averages`."""
    plural = all(t.text.lower().endswith("s") for t in query.frame.core if t.tag == "STAT")
    refuse_if(query.frame.entity or not (query.has("COLUMNS") or plural), "Of which column?")
    return statistics(query, env)


def percentile(query: Query, env: Env) -> None:
    """Add the share of a percentile."""
    share = float(query.all("NUMBER")[0])
    share = share / 100 if share > 1 else share
    refuse_if(not 0 <= share <= 1, "A percentile lies between 0 and 100.")
    env.say("share", str(round(share, 6)))


def summary(query: Query, env: Env) -> Part | str:
    """Summarize columns: `describe a`, `summary of a by b`, `a by b`."""
    kinds = {c: query.table.kind(c) for c in env.lists["cols"] if c not in query.by}
    columns = [c for c, kind in kinds.items() if query.columns or kind == "number"]
    if query.columns and not query.by and {*kinds.values()} <= {"text", "bool"}:
        return "rows by category"
    query.numeric(*columns)
    if not query.by:
        return overall(query, columns, _SUMMARY)
    single = ["count", *_SUMMARY, *["sum"] * (not query.has("SUMMARY"))]
    return by_group(query, env, columns, single if len(columns) == 1 else ["mean"])


def by_group(
    query: Query, env: Env, columns: list[str], stats: list[str], many: int | None = None
) -> Part:
    """Compute statistics by groups; `many` of the highest or lowest ones, if it is a number."""
    keys, single = query.groups(*query.by), len(columns) == 1
    refuse_if(not columns, "Of which column?")
    refuse_if({*keys} & {*columns}, "A column can't be measured and grouped by at the same time.")
    if {*stats} & _NOT_OF_GROUPS or (len(columns) > 1 < len(stats)):
        raise MisfitError("By groups I compute means, medians, sums, deviations and ends.")
    asked = list(dict.fromkeys([*stats, "count"]))
    refuse_if({*keys} & {*asked}, "I can't group by a column that is named like a statistic.")
    in_order = len(keys) > 1 or (many is None and query.table.kind(keys[0]) == "number")
    ascending = many is not None and env.code["ascending"] == "True"
    order = f"\n    .sort_values({literal(stats[0])}, ascending={ascending})"
    env.put_keys(keys)
    env.put("measured", columns if len(columns) > 1 else columns[0])
    env.lists |= {"columns": columns, "shown": asked if single else columns}
    env.lists["top"] = [str(many or 0)]
    env.say("aggregated", f"agg({literal(asked)})" if single else f"{stats[0]}()")
    env.say("order", "" if in_order or not single else order)
    env.say("rounding", "" if query.frame.digits is None else f"\n    .round({query.frame.digits})")
    titles = [title(each) for each in stats]
    env.text["stat"] = ", ".join(t for t, s in zip(titles, stats, strict=True) if s != "count")
    env.text["rule"] = f"{', '.join(titles)} of {', '.join(columns)} by {', '.join(keys)}"
    return _render_as("statistics by groups", env)


def best_group(query: Query, env: Env) -> Part:
    """Find the group that leads: `which species has the highest mean body mass`."""
    stat = first_of(query.frame.core, "STAT", default="mean")
    if stat not in ("mean", "median", "sum", "std"):
        raise MisfitError("To rank groups I need a mean, median, sum or deviation.")
    many = first_of(query.frame.core, "NUMBER", default=1)
    refuse_if(not (isinstance(many, int) and 0 < many <= 30), "I can show the first 1 to 30.")
    query.frame.by = env.lists["key"]
    return by_group(query, env, env.lists["col"], [stat], many)


def compare(query: Query, env: Env) -> Part:
    """Compare the groups of a column."""
    query.frame.by = env.lists["key"]
    return by_group(query, env, env.lists["col"], ["mean", "median", "std"])


def by_period(query: Query, env: Env, stats: list[str]) -> Part:
    """Compute statistics by periods of time."""
    if {*stats} & _NOT_OF_GROUPS or query.by or len(query.columns) > 1:
        raise MisfitError(
            "By periods I compute means, medians, sums, deviations and ends of one column."
        )
    stats = stats if query.all("STAT", "EXTREME") else ["sum", "mean", "median"]
    env.put("col", *query.numeric(*query.columns))
    env.put("asked", list(dict.fromkeys([*stats, "count"])))
    env.text["Stat"] = sentence_case(title(stats[0]))
    period = env.text["period"]
    env.text["rule"] = f"{', '.join(env.lists['asked'])} of {query.columns[0]} by {period}"
    return _render_as("statistic by periods", env)


def period_that_leads(query: Query, env: Env) -> None:
    """Add the part of dates that periods are compared by."""
    period = query.all("PERIOD")[0]
    parts = {"month": "month_name()", "day": "day_name()", "year": "year", "quarter": "quarter"}
    env.say("part", parts.get(period, 'to_period("W")'))
    env.put_period(period)
    env.text["measured"] = code(query.columns[0]) if query.columns else "rows"
    if not query.columns:
        query.refuse_strangers()
        env.text["stat"] = "number"


# Rankings.


def top_values(query: Query, env: Env) -> str:
    """Choose the most frequent values of categories, or the rows with the highest numbers."""
    is_number = query.table.kind(env.lists["key"][0]) == "number"
    return "top rows" if is_number and query.has("TOP") else "rows by category"


def leader(query: Query, env: Env) -> Part | None:
    """Choose between the row that leads, and the row beside the group that leads on average."""
    wanted = [c for c in query.columns if c not in env.lists["col"]] + query.also
    own = [period for period in query.all("PERIOD") if period in (query.table.columns or {})]
    if query.has("WHEN", "PERIOD"):
        wanted.append(own[0] if own else query.date_column)
    query.also[:] = list(dict.fromkeys(wanted))
    texts = [c for c in query.categories(wanted) if c not in query.table.keys]
    beside = len(texts) == 1 == len(wanted) and query.frame.tags.startswith("COL ")
    if not beside or query.frame.entity:
        return None
    env.put_keys(texts)
    return _render_as("row and group that lead", env)


# Changes.


def fill(query: Query, env: Env) -> None:
    """Add what gaps are filled with: a statistic of the column, or a value."""
    refuse_if("col" not in env.lists, "Fill the gaps of which column?")
    (column,) = env.lists["col"]
    if stats := query.all("STAT", "MODE"):
        stat = stats[0] or "mode"
        if stat not in ("mean", "median", "mode", "min", "max"):
            raise MisfitError(
                "I fill gaps with a mean, a median, the most common value, or a value."
            )
        if stat != "mode":
            query.numeric(column)
        values = f"{query.data.name}[{literal(column)}]"
        env.say("filling", f"{values}.{stat}()" + "[0]" * (stat == "mode"), f"its {stat}")
        return
    given = query.all("NUMBER", "QUOTED", "VALUE", "UNKNOWN")
    given = [v[1] if isinstance(v, tuple) else v for v in given]
    refuse_if(len(given) != 1, "Fill the gaps with what: the median, the mean, or a value?")
    if (query.table.kind(column) == "number") != isinstance(given[0], int | float):
        raise MisfitError(f"{code(str(given[0]))} doesn't fit {code(column)}.")
    env.put("filling", given[0])


def new_name(query: Query, env: Env) -> None:
    """Add the new name of a column."""
    _put_new(query, env, str(query.all("NAME", "QUOTED", "UNKNOWN")[-1]))


def _put_new(query: Query, env: Env, name: str) -> None:
    if name in (query.table.columns or {}):
        raise MisfitError(f"{code(name)} is a column already; choose another name.")
    env.put("new", name)


def kind(query: Query, env: Env) -> None:
    """Add the conversion of a column."""
    made = {
        "datetime": "pd.to_datetime({})", "number": "pd.to_numeric({})",
        "text": '{}.astype("string")', "category": '{}.astype("category")',
    }  # fmt: skip
    values = f"{query.data.name}[{env.code['col']}]"
    env.say("converted", made[first_of(query.frame.core, "KIND", default="number")].format(values))


def date_part(query: Query, env: Env) -> None:
    """Add the part of dates that becomes a column."""
    part = query.all("PERIOD")[0]
    refuse_if(part == "week", "I extract years, quarters, months and days.")
    env.say("part", part)
    env.put("new", fresh(part, query.table.columns or {}))


def arithmetic(query: Query, env: Env) -> None:
    """Add the parts of a new column: a column, a sign, and a column or a number."""
    parts, signs = [*query.columns, *query.all("NUMBER")], query.all("ARITH")
    other = "/" if query.has("RATIO") else "-" if query.has("DIFFERENCE") else "+"
    sign = (signs or [other])[0]
    divides_by_zero = sign == "/" and parts[1:] == [0]
    if len(parts) != 2 or divides_by_zero or not (signs or query.all("STAT") in ([], ["sum"])):
        raise MisfitError("I make a new column of two different columns, or of one and a number.")
    if not (names := query.all("NAME")):
        raise MisfitError("Please name the new column, as in “Add a column ratio = a / b”.")
    name = names[0] if usable(names[0]) else fresh(names[0], query.table.columns or {})
    _put_new(query, env, name)
    env.put("a", parts[0])
    env.put("b", parts[1])
    if isinstance(parts[1], str):
        column = literal(parts[1])
        env.code["b"] = f"pl.col({column})" if query.polars else f"{query.data.name}[{column}]"
    env.say("sign", sign, {"+": "plus", "-": "minus", "*": "times", "/": "divided by"}[sign])


def file(query: Query, env: Env) -> None:
    """Add the file that rows are saved to."""
    path = query.frame.path
    ending = path.rpartition(".")[2].lower()
    refuse_if(ending not in _ENDINGS, "I save to .csv, .tsv, .xlsx, .json and .parquet.")
    if path in query.workspace.files:
        raise MisfitError(
            f"{code(path)} is there already, so I leave it alone; choose another name."
        )
    env.put("path", path)
    env.say("writer", _ENDINGS[ending].format(literal(path)))


def file_of_groups(query: Query, env: Env) -> None:
    """Add the file that statistics by groups are saved to, and their code."""
    file(query, env)
    refuse_if(not query.frame.path.endswith(".csv"), "I save such results to a .csv file.")
    numbers = [c for c in query.table.of_kind("number") if c not in query.by]
    columns = query.numeric(*query.columns) or numbers
    groups = f"{query.rows}.groupby({literal(query.groups(*query.by))})"
    stat = first_of(query.frame.core, "STAT", default="")
    env.put("cols", columns)
    env.say("stat", stat, stat or "number of rows")
    env.say("grouped", f"{groups}[{literal(columns)}].{stat}()" if stat else f"{groups}.size()")


def roles(query: Query, env: Env) -> None:
    """Tell the column that explains (b) from the one that is explained (a)."""
    tags, (y, x) = query.frame.tags, query.columns
    if "COL PREDICTS COL" in tags or "COL INDEPENDENT" in tags:
        x, y = query.columns
    elif not ("COL VS COL" in tags or "PREDICTS COL" in tags or "DEPENDENT" in tags):
        raise MisfitError("Which column explains the other? Say “regression of `y` on `x`”.")
    env.put("a", y)
    env.put("b", x)


# Plots.


def plot(query: Query, env: Env) -> str:
    """Choose the plot that is named, or the one that suits the columns."""
    chart, stats = first_of(query.frame.core, "CHART"), query.all("STAT", "EXTREME")
    columns, keys = query.columns, list(dict.fromkeys([*query.by, *query.frame.colour]))
    numeric = [c for c in columns if query.table.kind(c) == "number"]
    if len(keys) > 1 or len(stats) > 1 or {*stats} & _NOT_OF_GROUPS:
        raise MisfitError("I can split a plot by one column, and draw one statistic of it.")
    texts = query.categories(columns)
    split = keys or texts
    counts = query.has("COUNT", "SHARE") or (not numeric and (texts or (keys and not columns)))
    dates = query.table.date_columns
    over = [c for c in columns + keys if c in dates or (c.lower() == "year" and query.has("OVER"))]
    along = not chart and over and numeric and len(columns) + len(keys) == 2
    spread = chart == "hist" or query.has("DISTRIBUTION") or not (chart or split)
    choices = (
        (query.frame.period, "plot by periods"),
        (stats, "bar chart of a statistic"),
        (chart == "pie", "pie chart of counts"),
        (counts, "bar chart of counts"),
        (not columns and not keys, "histograms of all columns"),
        (chart == "line" or along, "line plot"),
        (chart == "bar", "bar chart of a statistic" if split else "bar chart of counts"),
        (
            chart == "scatter" or (not chart and len(numeric) == 2),
            "scatter plot by groups" if keys else "scatter plot",
        ),
        (spread, "histogram by groups" if split else "histogram"),
        (True, "box plot by groups" if split else "box plot"),
    )
    return next(name for fits, name in choices if fits)


def draw(query: Query, env: Env) -> None:
    """Add bars or a line, and what they show if no statistic is named."""
    stats, counts = query.all("STAT", "EXTREME"), env.row.name.endswith("counts")
    default = "line" if query.frame.period and stats not in ([], ["sum"]) else "bar"
    chart = first_of(query.frame.core, "CHART", default=default)
    if chart not in (("bar",) if counts else ("bar", "line")):
        raise MisfitError("Of counts and statistics I draw bar charts only.")
    env.say("drawn", "plot" if chart == "line" else "bar")
    env.text["kind"] = chart.capitalize()
    key = env.lists.get("key", [""])[0]
    in_order = chart == "line" or query.table.kind(key) == "number"
    env.say("order", "" if in_order else ".sort_values(ascending=False)")
    if not stats:
        env.say_stat("count" if counts or not query.columns else "mean", "number")


# Two tables.


def two_tables(query: Query, other: Table, key: str | None, *, joins: bool) -> Part:
    """Compare two tables as a whole or by a key, or join them by a column that both have."""
    one, mine, theirs = query.table, query.table.columns or {}, other.columns or {}
    both = [c for c in mine if c in theirs]
    name = "comparison of two tables by a key" if key else "comparison of two tables"
    row = INTENTS["join" if joins else name]
    env = bind(replace(row, columns=""), query)
    env.say("other", other.name, code(other.name))
    env.say("joined", query.name(f"{one.name}_{other.name}"))
    env.text["joined"] = code(env.code["joined"])
    keys = [key] if key else both if joins else []
    if joins and (len(keys) != 1 or keys[0] not in both):
        raise MisfitError(f"By which column? Both have {codes(both) if both else 'none'}.")
    shared = [c for c in both if c != key] if key else [c for c in both if mine[c] == theirs[c]]
    if not joins and (not shared or (key and key not in theirs)):
        need = f"{code(key)} and one more column" if key else "a column of the same type"
        raise MisfitError(f"Both tables need {need} in common.")
    only = {one.name: {*mine} - {*theirs}, other.name: {*theirs} - {*mine}}
    notes = [f"- Only in {code(n)}: {codes(sorted(c))}\n" for n, c in only.items() if c]
    if types := [c for c in both if mine[c] != theirs[c]]:
        notes.append(f"- Of different types: {codes(types)}\n")
    env.text |= {"width": str(len(mine)), "other_width": str(len(theirs))}
    env.text |= {"notes": "".join(notes), "many": str(len(shared))}
    env.put("shared", shared)
    if keys:
        env.put("key", keys[0])
    return render(env)


BUILD: dict[str, Callable[[Query, Env], Part | str | None]] = {
    each.__name__: each
    for each in (
        size, statistics, all_statistics, percentile, summary, best_group, compare,
        period_that_leads, top_values, leader, fill, new_name, kind, date_part, arithmetic, file,
        file_of_groups, roles, plot, draw,
    )
}  # fmt: skip
