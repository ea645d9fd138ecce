"""Functions that rows of the table of intents name: they choose a row, or make the code of one."""

from __future__ import annotations

from collections.abc import Callable

from ipyagent.explorer.binding import PERIODS, bind
from ipyagent.explorer.finishing import FINISH, describe_groups, describe_statistics
from ipyagent.explorer.markdown import block, cell, code, numbers, table
from ipyagent.explorer.names import fresh, usable
from ipyagent.explorer.query import Query, title
from ipyagent.explorer.rendering import Env, Intent, capitalize, intent_named, render
from ipyagent.explorer.snippets import PLAIN, dates, literal, print_chain
from ipyagent.explorer.steps import MisfitError, Part

_SUMMARY = ["mean", "std", "min", "median", "max"]
_ENDINGS = {
    "csv": "to_csv({}, index=False)", "tsv": 'to_csv({}, sep="\\t", index=False)',
    "xlsx": "to_excel({}, index=False)", "json": 'to_json({}, orient="records")',
    "parquet": "to_parquet({}, index=False)",
}  # fmt: skip


def make_part(row: Intent, query: Query) -> Part:
    """Return the part for a row; raises MisfitError if the columns do not suit it."""
    env = bind(row, query)
    if row.build:
        made = BUILD[row.build](query, env)
        if isinstance(made, Part):
            return made
        if isinstance(made, str):
            return make_part(intent_named(made), query)
    return render(row, env, FINISH.get(row.finish))


def size(query: Query, env: Env) -> None:
    """Refuse to count the rows where something else may be meant."""
    if not query.has("SIZE", "ROWS", "COLUMNS", "LINES"):
        query.refuse_strangers()


# Statistics.


def statistics(query: Query, env: Env) -> Part | None:
    """Compute statistics of columns: of all rows, by groups, or by periods."""
    library, stats = query.frame.options.get("LIBRARY", ""), list[str]()
    for stat in query.all("STAT", "EXTREME"):
        stat = {"std": "pstd", "var": "pvar"}.get(stat, stat) if library == "numpy" else stat
        stats += ["min", "max"] if stat == "range" else [stat]
    stats = list(dict.fromkeys(stats)) or ([] if not query.columns else ["mean"])
    if query.frame.period:
        return by_period(query, stats)
    if stats == ["mode"]:
        return make_part(intent_named("most common value"), query)
    columns = [c for c in env.lists["cols"] if c not in query.by]
    ends_of_dates = set(stats) <= {"min", "max"} and set(columns) <= set(query.table.date_columns)
    if not ends_of_dates:
        query.numeric(*columns)
    if "sum" in stats and len(columns) > 1 and query.columns:
        raise MisfitError("Of each column, or of both row by row? Ask for one, or add a column.")
    return by_group(query, columns, stats) if query.by else overall(query, columns, stats, library)


def overall(query: Query, columns: list[str], stats: list[str], library: str = "") -> Part:
    """Compute statistics of all rows in question."""
    values, lines = query.name("values"), list[str]()
    for column in columns:
        lines += [f"{values} = {query.cut(column)}.dropna()"]
        made = [_expression(values, stat, library) for stat in stats]
        lines += [f'print("figures", {", ".join([f"{values}.count()", *made])})']

    def answer(output: str) -> str:
        return describe_statistics(query, columns, stats, output, library)

    request = f"{', '.join(stats)} of {', '.join(columns)}"
    return query.part(request, lines, answer, values)


def _expression(values: str, stat: str, library: str) -> str:
    if library == "scipy" and stat in ("skew", "kurt"):
        return f"stats.{'skew' if stat == 'skew' else 'kurtosis'}({values})"
    if stat == "iqr":
        return f"{values}.quantile(0.75) - {values}.quantile(0.25)"
    if stat == "quartiles":
        return ", ".join(f"{values}.quantile({q})" for q in (0.25, 0.5, 0.75))
    if stat.startswith("quantile"):
        return f"{values}.quantile({stat.removeprefix('quantile ')})"
    return f"{values}.{PLAIN.get(stat, f'{stat}()')}"


def all_statistics(query: Query, env: Env) -> Part | None:
    """Compute statistics of all columns of numbers, if they are asked for: `averages`."""
    plural = all(t.text.lower().endswith("s") for t in query.frame.core if t.tag == "STAT")
    if query.frame.entity or not (query.has("COLUMNS") or plural):
        raise MisfitError("Of which column?")
    return statistics(query, env)


def by_category(query: Query, env: Env) -> str:
    """Count rows by categories."""
    return "rows by category"


def percentile(query: Query, env: Env) -> Part:
    """Compute a percentile."""
    share = float(query.all("NUMBER")[0])
    share = share / 100 if share > 1 else share
    if not 0 <= share <= 1:
        raise MisfitError("A percentile lies between 0 and 100.")
    return overall(query, env.lists["col"], [f"quantile {round(share, 6)}"])


def summary(query: Query, env: Env) -> Part | str:
    """Summarize columns: `describe a`, `summary of a by b`, `a by b`."""
    columns = [c for c in env.lists["cols"] if query.columns or query.table.kind(c) == "number"]
    columns = [c for c in columns if c not in query.by]
    if (
        query.columns
        and not query.by
        and all(query.table.kind(c) in ("text", "bool") for c in columns)
    ):
        return "rows by category"
    query.numeric(*columns)
    if query.by:
        more = [] if query.has("SUMMARY") else ["sum"]
        return by_group(
            query, columns, ["mean"] if len(columns) > 1 else ["count", *_SUMMARY, *more]
        )
    return overall(query, columns, _SUMMARY)


def by_group(
    query: Query, columns: list[str], stats: list[str], top: tuple[int, str] | None = None
) -> Part:
    """Compute statistics by groups; `top` keeps the highest (max) or lowest (min) ones."""
    keys = query.groups(*query.by)
    if set(keys) & set(columns):
        raise MisfitError("A column can't be measured and grouped by at the same time.")
    if set(stats) & {"iqr", "kurt", "quartiles", "mode", "pstd", "pvar"} or (
        len(columns) > 1 < len(stats)
    ):
        raise MisfitError("By groups I compute means, medians, sums, deviations and ends.")
    asked = list(dict.fromkeys([*stats, "count"]))
    if set(keys) & set(asked):
        raise MisfitError("I can't group by a column that is named like a statistic.")
    in_order = len(keys) > 1 or (top is None and query.table.kind(keys[0]) == "number")
    order = (
        []
        if in_order or len(columns) > 1
        else [f".sort_values({literal(stats[0])}, ascending={bool(top and top[1] == 'min')})"]
    )
    key = literal(keys[0] if len(keys) == 1 else keys)
    single = len(columns) == 1
    chosen = literal(columns[0]) if single else literal(columns)
    aggregated = f".agg({literal(asked)})" if single else f".{stats[0]}()"
    rounding = [] if query.digits is None else [f".round({query.digits})"]
    links = [
        f".groupby({key}, dropna=False)[{chosen}]",
        aggregated,
        *order,
        *rounding,
        ".head(500)",
        ".to_csv()",
    ]
    heading = [*keys, *(asked if single else columns)]
    request = f"{', '.join(map(title, stats))} of {', '.join(columns)} by {', '.join(keys)}"

    def answer(output: str) -> str:
        return describe_groups(query, columns, stats, block(output, heading), heading, top)

    return query.part(request, print_chain(query.rows, *links), answer)


def best_group(query: Query, env: Env) -> Part:
    """Find the group that leads: `which species has the highest mean body mass`."""
    stat = next(iter(query.all("STAT")), "mean")
    if stat not in ("mean", "median", "sum", "std"):
        raise MisfitError("To rank groups I need a mean, median, sum or deviation.")
    many = next(iter(query.all("NUMBER")), 1)
    if not (isinstance(many, int) and 0 < many <= 30):
        raise MisfitError("I can show the first 1 to 30.")
    query.frame.by = env.lists["key"]
    return by_group(query, env.lists["col"], [stat], (many, env.code["end"]))


def compare(query: Query, env: Env) -> Part:
    """Compare the groups of a column."""
    query.frame.by = env.lists["key"]
    return by_group(query, env.lists["col"], ["mean", "median", "std"])


def by_period(query: Query, stats: list[str]) -> Part:
    """Compute statistics, or counts if there are none, by periods of time."""
    period, when = query.frame.period, query.date_column
    if set(stats) & {"mode", "quartiles", "iqr", "kurt"} or query.by or len(query.columns) > 1:
        raise MisfitError(
            "By periods I compute means, medians, sums, deviations and ends of one column."
        )
    if query.columns and not query.all("STAT", "EXTREME"):
        stats = ["sum", "mean", "median"]
    column = query.number if query.columns else when
    asked = list(dict.fromkeys([*stats, "count"]))
    values = dates(query.data, f"{query.rows}[{literal(when)}]", when)
    letter = literal(PERIODS[period])
    links = [
        f".groupby({values}.dt.to_period({letter}))[{literal(column)}]",
        f".agg({literal(asked)})",
    ]
    lines = print_chain(query.rows, *links, f".to_csv(index_label={literal(period)})")

    def answer(output: str) -> str:
        found = block(output, [period, *asked])
        measured = numbers([row[1:] for row in found], query.digits)
        body = [[cell(row[0]), *m] for row, m in zip(found, measured, strict=True)]
        names = [title(each) for each in asked] if stats else ["rows"]
        what = f"{capitalize(asked[0])} of {code(column)}" if stats else "Rows"
        note = f"{period.capitalize()}s without rows are left out."
        return (
            f"**{what} by {period}** in {query.about}\n\n{table([period, *names], body)}\n\n{note}"
        )

    return query.part(f"{', '.join(asked)} of {column} by {period}", lines, answer)


def period_that_leads(query: Query, env: Env) -> None:
    """Add the part of dates that periods are compared by."""
    period = query.all("PERIOD")[0]
    parts = {"month": "month_name()", "day": "day_name()", "year": "year", "quarter": "quarter"}
    env.say("part", parts.get(period, 'to_period("W")'))
    env.code["quoted_period"], env.lists["period"] = literal(period), [period]
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
    own = query.all("PERIOD")
    if query.has("WHEN") or own:
        has_own = own and own[0] in (query.table.columns or {})
        wanted.append(own[0] if has_own else query.date_column)
    query.also[:] = list(dict.fromkeys(wanted))
    texts = [
        c
        for c in wanted
        if query.table.kind(c) in ("text", "bool") and c not in query.table.date_columns
    ]
    repeated = [c for c in texts if c not in query.table.keys]
    if len(repeated) == 1 == len(wanted) and query.frame.tags.startswith("COL "):
        env.put("key", repeated[0])
        env.put("keys", repeated)
        if not query.frame.entity:
            return render(intent_named("row and group that lead"), env, FINISH["leader"])
    return None


# Changes.


def fill(query: Query, env: Env) -> None:
    """Add what gaps are filled with: a statistic of the column, or a value."""
    column = env.lists["col"][0] if "col" in env.lists else ""
    if not column:
        raise MisfitError("Fill the gaps of which column?")
    values = f"{query.data.name}[{literal(column)}]"
    query.pandas_only("Changes")
    if stats := query.all("STAT", "MODE"):
        stat = stats[0] or "mode"
        if stat not in ("mean", "median", "mode", "min", "max"):
            raise MisfitError(
                "I fill gaps with a mean, a median, the most common value, or a value."
            )
        if stat != "mode":
            query.numeric(column)
        env.say("filling", f"{values}.{stat}()" + "[0]" * (stat == "mode"), f"its {stat}")
        return
    given = [
        v[1] if isinstance(v, tuple) else v
        for v in query.all("NUMBER", "QUOTED", "VALUE", "UNKNOWN")
    ]
    if len(given) != 1:
        raise MisfitError("Fill the gaps with what: the median, the mean, or a value?")
    if (query.table.kind(column) == "number") != isinstance(given[0], int | float):
        raise MisfitError(f"{code(str(given[0]))} doesn't fit {code(column)}.")
    env.put("filling", given[0])


def new_name(query: Query, env: Env) -> None:
    """Add the new name of a column."""
    query.pandas_only("Changes")
    name = str(query.all("NAME", "QUOTED", "UNKNOWN")[-1])
    if name in (query.table.columns or {}):
        raise MisfitError(f"{code(name)} is a column already; choose another name.")
    env.put("new", name)


def kind(query: Query, env: Env) -> None:
    """Add the conversion of a column."""
    query.pandas_only("Changes")
    values = f"{query.data.name}[{env.code['col']}]"
    made = {
        "datetime": "pd.to_datetime({})", "number": "pd.to_numeric({})",
        "text": '{}.astype("string")',
        "category": '{}.astype("category")',
    }  # fmt: skip
    env.say("converted", made[next(iter(query.all("KIND")), "number")].format(values))


def date_part(query: Query, env: Env) -> None:
    """Add the part of dates that becomes a column."""
    query.pandas_only("Changes")
    part = next(iter(query.all("PERIOD")))
    if part == "week":
        raise MisfitError("I extract years, quarters, months and days.")
    env.say("part", part)
    env.put("new", fresh(part, query.table.columns or {}))


def arithmetic(query: Query, env: Env) -> None:
    """Add the parts of a new column: a column, a sign, and a column or a number."""
    parts, signs = [*query.columns, *query.all("NUMBER")], query.all("ARITH")
    other = "/" if query.has("RATIO") else "-" if query.has("DIFFERENCE") else "+"
    sign = signs[0] if signs else other
    if (
        len(parts) != 2
        or (sign == "/" and parts[1] == 0)
        or (not signs and query.all("STAT") not in ([], ["sum"]))
    ):
        raise MisfitError("I make a new column of two different columns, or of one and a number.")
    if not (names := query.all("NAME")):
        raise MisfitError("Please name the new column, as in “Add a column ratio = a / b”.")
    name = names[0] if usable(names[0]) else fresh(names[0], query.table.columns or {})
    if name in (query.table.columns or {}):
        raise MisfitError(f"{code(name)} is a column already; choose another name.")
    env.put("new", name)
    env.put("a", parts[0])
    env.put("b", parts[1])
    table_name, is_column = query.data.name, isinstance(parts[1], str)
    if is_column:
        env.code["b"] = (
            f"pl.col({literal(parts[1])})" if query.polars else f"{table_name}[{literal(parts[1])}]"
        )
    words_of = {"+": "plus", "-": "minus", "*": "times", "/": "divided by"}
    env.say("sign", sign, words_of[sign])


def file(query: Query, env: Env) -> None:
    """Add the file that rows are saved to."""
    path = query.path
    ending = path.rpartition(".")[2].lower()
    if ending not in _ENDINGS:
        raise MisfitError("I save to .csv, .tsv, .xlsx, .json and .parquet.")
    if path in query.workspace.files:
        raise MisfitError(
            f"{code(path)} is there already, so I leave it alone; choose another name."
        )
    env.put("path", path)
    env.say("writer", _ENDINGS[ending].format(literal(path)))


def file_of_groups(query: Query, env: Env) -> None:
    """Add the file that statistics by groups are saved to, and their code."""
    file(query, env)
    if not query.path.endswith(".csv"):
        raise MisfitError("I save such results to a .csv file.")
    columns = query.numeric(*query.columns) or [
        c for c in query.table.of_kind("number") if c not in query.by
    ]
    groups = f"{query.rows}.groupby({literal(query.groups(*query.by))})"
    stat = next(iter(query.all("STAT")), "")
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


def plot(query: Query, env: Env) -> Part | str:
    """Choose the plot that is named, or the one that suits the columns."""
    chart = next(iter(query.all("CHART")), "")
    stats, columns = query.all("STAT", "EXTREME"), query.columns
    keys = list(dict.fromkeys([*query.by, *[query.frame.colour] * bool(query.frame.colour)]))
    texts = [
        c
        for c in columns
        if query.table.kind(c) in ("text", "bool") and c not in query.table.date_columns
    ]
    numeric = [c for c in columns if query.table.kind(c) == "number"]
    if (
        len(keys) > 1
        or len(stats) > 1
        or set(stats) & {"mode", "range", "quartiles", "iqr", "kurt"}
    ):
        raise MisfitError("I can split a plot by one column, and draw one statistic of it.")
    if query.frame.period:
        return _draw(
            "plot by periods",
            query,
            chart or ("bar" if not stats or stats == ["sum"] else "line"),
            ("bar", "line"),
        )
    if stats:
        return _draw("bar chart of a statistic", query, chart or "bar", ("bar", "line"))
    if (
        query.has("COUNT", "SHARE")
        or chart == "pie"
        or (not numeric and (texts or (keys and not columns)))
    ):
        if chart == "pie":
            return "pie chart of counts"
        return _draw("bar chart of counts", query, chart or "bar", ("bar",))
    if not columns and not keys:
        return "histograms of all columns"
    split = keys or texts
    along = [
        c
        for c in [*columns, *keys]
        if c in query.table.date_columns or (c.lower() == "year" and query.has("OVER"))
    ]
    if chart == "line" or (
        not chart and along and len(numeric) >= 1 and len(columns) + len(keys) == 2
    ):
        return "line plot"
    if chart == "bar":
        return _draw(
            "bar chart of a statistic" if split else "bar chart of counts", query, chart, ("bar",)
        )
    if chart == "scatter" or (not chart and len(numeric) == 2):
        return "scatter plot by groups" if keys else "scatter plot"
    kind = (
        "histogram"
        if chart == "hist" or query.has("DISTRIBUTION") or (not chart and not split)
        else "box plot"
    )
    return f"{kind} by groups" if split else kind


def _draw(name: str, query: Query, chart: str, possible: tuple[str, ...]) -> Part:
    if chart not in possible:
        raise MisfitError("Of counts and statistics I draw bar charts only.")
    row = intent_named(name)
    env = bind(row, query)
    env.say("drawn", "plot" if chart == "line" else "bar")
    env.text["kind"] = "Line" if chart == "line" else "Bar"
    in_order = chart == "line" or (
        "key" in env.lists and query.table.kind(env.lists["key"][0]) == "number"
    )
    env.say("order", "" if in_order else ".sort_values(ascending=False)")
    if not query.all("STAT", "EXTREME"):
        stat = "count" if not query.columns or name.endswith("counts") else "mean"
        env.say("stat", stat, title(stat) if stat != "count" else "number")
        env.code["quoted_stat"], env.lists["stat"] = literal(stat), [stat]
        env.text["Stat"] = "Rows" if stat == "count" else "Mean"
    return render(row, env, None)


BUILD: dict[str, Callable[[Query, Env], Part | str | None]] = {
    each.__name__: each
    for each in (
        *(
            size,
            statistics,
            all_statistics,
            by_category,
            percentile,
            summary,
            best_group,
            compare,
            period_that_leads,
            top_values,
            leader,
        ),
        *(fill, new_name, kind, date_part, arithmetic, file, file_of_groups, roles, plot),
    )
}
