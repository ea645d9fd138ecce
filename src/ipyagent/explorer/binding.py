"""Columns for a row of the table of intents: what they have to be, and the names that they get."""

from __future__ import annotations

from ipyagent.explorer.markdown import code, codes
from ipyagent.explorer.query import Query, title
from ipyagent.explorer.rendering import Env, Intent, capitalize
from ipyagent.explorer.snippets import dates, literal, mask
from ipyagent.explorer.steps import MisfitError
from ipyagent.explorer.workspace import Table

PERIODS = {"day": "D", "week": "W", "month": "M", "quarter": "Q", "year": "Y"}
_METHODS = {"pearson": "pearsonr", "spearman": "spearmanr", "kendall": "kendalltau"}


def bind(row: Intent, query: Query) -> Env:
    """Return the names for a row; raises MisfitError if the columns are not what it needs."""
    env = Env(query)
    _common(row, query, env)
    columns, by = query.columns, query.by
    every = list(dict.fromkeys([*by, *columns]))
    colour = [query.frame.colour] * bool(query.frame.colour)
    match row.columns:
        case "number" | "number?" | "numbers" | "numbers?":
            _numbers(row, query, env)
        case "any" | "anys" | "anys?":
            _any(row, query, env)
        case "pair":
            _two(env, query.numeric(*[*columns, *(b for b in by if b not in columns)]))
        case "pair by":
            _two(env, query.numeric(*columns))
            env.put("key", query.groups(*by, *colour)[0])
        case "two keys":
            _two(env, query.groups(*[*columns, *(b for b in by if b not in columns)]))
        case "along":
            _along(query, env, [*columns, *by])
        case "group" | "category" | "group?":
            _group(row, query, env, every)
        case "groups":
            _groups(query, env, every)
        case "group number":
            _key_and_number(query, env, list(dict.fromkeys([*every, *colour])))
        case "two groups" | "pair of groups":
            _two_groups(query, env, row.columns == "two groups")
        case "ranked" | "measured":
            _measure(query, env, every)
        case "counted":
            _count_values(query, env)
        case "date":
            _date(query, env)
    _cuts(query, env)
    return env


def _common(row: Intent, query: Query, env: Env) -> None:
    """Add the names that need no column."""
    frame = query.frame
    env.say("t", query.data.name)
    env.say("rows", query.rows)
    env.say("base", query.rows, query.about)
    env.text["about"], env.text["plain"] = query.about, code(query.table.name)
    env.text["tests"] = " and ".join(code(str(each)) for each in query.where)
    if query.where:
        env.say("mask", mask(query.data, query.where))
    env.say("target", query.rows, env.text["tests"])
    if frame.target:
        env.say("target", query.rows_where((*query.where, frame.target)), code(str(frame.target)))
    else:
        env.say("base", query.data.name, env.text["plain"])
    if by := query.by:
        env.put("keys", by if len(by) > 1 else by[0])
        env.lists["keys"] = list(by)
        env.put("key", by[0])
    ends = query.all("EXTREME", "BESTEND", "TOP", "MOST", "HIGHER")
    end = next((e for e in ends if e), "max")
    if frame.order:
        env.put("by_order", frame.order[0])
        end = frame.order[1]
    env.say("end", end, "highest" if end == "max" else "lowest")
    env.say("ascending", str(end == "min"))
    first = next(iter(query.all("FIRST")), "head")
    env.say("edge", str(first))
    env.text["first"] = "first" if first == "head" else "last"
    many = next(iter(query.all("NUMBER")), row.n)
    if row.n and not (isinstance(many, int) and 0 < many <= 50):
        raise MisfitError("I can show 1 to 50 rows.")
    env.say("n", str(many))
    env.say("threshold", f"{frame.options.get('THRESHOLD', row.threshold):g}")
    stat = next(
        (s for s in query.all("STAT", "EXTREME") if s), "count" if not query.columns else "mean"
    )
    env.say("stat", str(stat), title(str(stat)) if stat != "count" else "rows")
    env.lists["stat"] = [str(stat)]
    env.code["quoted_stat"] = literal(str(stat))
    env.text["Stat"] = capitalize(str(stat)) if stat != "count" else "Rows"
    method = str(frame.options.get("METHOD") or "pearson")
    env.put("method", method)
    env.text["Method"] = method.capitalize()
    env.say("corr_test", _METHODS[method])
    env.put("number_cols", query.table.of_kind("number"))
    if frame.period:
        env.lists["period"], env.text["period"] = [frame.period], frame.period
        env.code["quoted_period"] = literal(frame.period)


def _cuts(query: Query, env: Env) -> None:
    """Add code for the values of the columns, in the rows in question."""
    for name, column in (("cut", "col"), ("cut_key", "key"), ("cuts", "cols")):
        if column in env.lists:
            chosen: str | list[str] = env.lists[column] if name == "cuts" else env.lists[column][0]
            env.say(name, query.cut(chosen))
    if "a" in env.lists and "b" in env.lists:
        env.say("pair", query.cut([env.lists["a"][0], env.lists["b"][0]]))
    if "cols" in env.lists:
        env.say("chosen", query.cut(env.lists["cols"]) if query.columns else query.rows)
    env.say("every_number", query.cut(env.lists["number_cols"]))
    if query.frame.period or "PERIOD " in query.frame.tags or "ROLLING " in query.frame.tags:
        when = query.date_column
        env.say("dates", dates(query.data, f"{query.rows}[{literal(when)}]", when))
        period = query.frame.period or next(iter(query.all("PERIOD")), "day")
        env.say(
            "by_period",
            f"{query.rows}.groupby({env.code['dates']}.dt.to_period({literal(PERIODS[period])}))",
        )


def _numbers(row: Intent, query: Query, env: Env) -> None:
    columns = query.columns
    if row.columns.startswith("numbers"):
        every = [c for c in query.number_columns if c not in query.by]
        env.put("cols", query.numeric(*columns) or (every if row.columns == "numbers?" else []))
    else:
        counts = row.columns == "number?" and not columns
        env.put("col", query.date_column if counts else query.number)


def _any(row: Intent, query: Query, env: Env) -> None:
    columns = query.columns
    if not columns and row.columns != "anys?":
        raise MisfitError("Of which column?")
    env.put("cols", columns or list(query.table.columns or {}))
    if len(columns) == 1:
        env.put("col", columns[0])


def _date(query: Query, env: Env) -> None:
    column = query.columns[0] if query.columns else query.date_column
    if column not in query.table.date_columns:
        raise MisfitError(f"{code(column)} doesn't look like a column of dates.")
    env.put("col", column)
    values = f"{query.data.name}[{literal(column)}]"
    env.say("dates", dates(query.data, values, column))


def _group(row: Intent, query: Query, env: Env, every: list[str]) -> None:
    if len(every) != 1:
        raise MisfitError("I need exactly one column of categories for that.")
    is_number = query.table.kind(every[0]) == "number"
    if row.columns == "category" and query.has("MOST"):
        if is_number:
            raise MisfitError("The most of which column?")
        query.refuse_strangers()
    if row.columns == "group" or not is_number:
        query.groups(*every)
    env.put("key", every[0])


def _two(env: Env, columns: list[str]) -> None:
    if len(columns) != 2:
        raise MisfitError("I need two different columns for that.")
    env.put("a", columns[0])
    env.put("b", columns[1])


def _along(query: Query, env: Env, columns: list[str]) -> None:
    """Bind a column of numbers, and the dates or numbers along which it is drawn."""
    if len(columns) == 1 and query.table.kind(columns[0]) == "number":
        columns = [*columns, query.date_column]
    if len(columns) != 2:
        raise MisfitError("A line plot needs a column to draw and one to draw it over.")
    y, x = columns
    when = query.table.date_columns
    if y in when or (y.lower() == "year" and x.lower() != "year"):
        y, x = x, y
    query.numeric(y)
    if x not in when:
        query.numeric(x)
    _two(env, [y, x])
    values = f"{query.name('line')}[{literal(x)}]"
    env.say("along", dates(query.data, values, x) if x in when else values)


def _groups(query: Query, env: Env, every: list[str]) -> None:
    if not every or "count" in every or "rows" in every:
        raise MisfitError("I need a column to count by.")
    numbers = any(query.table.kind(c) == "number" for c in query.columns)
    if numbers and query.by and not query.has("COUNT", "UNIQUE"):
        raise MisfitError("I need a statistic for numbers by groups.")
    if numbers and query.where and not query.has("COUNT", "UNIQUE", "TOP", "MODE"):
        raise MisfitError("A number under a condition is no category.")
    if query.has("SHARE") and (query.columns and (query.by or query.where)):
        raise MisfitError("A share of what? I can take one condition, or one column's values.")
    if query.has("SHARE") and query.columns and query.table.kind(every[0]) == "number":
        raise MisfitError(f"A share of what? {code(every[0])} holds numbers.")
    query.groups(*every)
    env.put("keys", every if len(every) > 1 else every[0])
    env.lists["keys"] = every


def _key_and_number(query: Query, env: Env, columns: list[str]) -> None:
    numbers = [c for c in columns if query.table.kind(c) == "number"]
    keys = [c for c in columns if c not in numbers]
    keys = keys or [c for c in numbers if c in query.by] or numbers[:1]
    measured = [c for c in numbers if c not in keys]
    if len(columns) != 2 or len(keys) != 1 or len(measured) != 1:
        raise MisfitError("I need one column of numbers to measure and another one to group by.")
    query.groups(*keys)
    env.put("key", keys[0])
    env.put("keys", keys)
    env.put("col", measured[0])


def two_values(table: Table, column: str) -> list[object]:
    """Return the two values of a column that has two."""
    values: list[object] = (
        [True, False] if table.kind(column) == "bool" else list(table.values_of(column))
    )
    return values if len(values) == 2 else []


def _two_groups(query: Query, env: Env, measured: bool) -> None:
    columns, pair = query.columns, query.all("PAIR")
    if (stats := query.all("STAT")) and stats not in (["mean"], ["median"]):
        raise MisfitError("I compare two groups by their means and medians.")
    if pair:
        (key, one), (_, other) = pair[0]
    else:
        keys = [c for c in [*columns, *query.by] if two_values(query.table, c)]
        if len(keys) != 1:
            raise MisfitError("Which two groups?")
        key, (one, other) = keys[0], two_values(query.table, keys[0])
        columns = [c for c in columns if c != key]
    if measured:
        if len(columns) != 1:
            raise MisfitError("I need exactly one column of numbers for that.")
        env.put("col", query.numeric(*columns)[0])
    env.put("key", key)
    env.put("one", one)
    env.put("other", other)


def _measure(query: Query, env: Env, every: list[str]) -> None:
    """Bind the column that rows are ranked by: the last one that has numbers or dates."""
    when = query.table.date_columns
    ranked = [c for c in every if query.table.kind(c) == "number"] or [
        c for c in every if c in when
    ]
    if not ranked:
        query.numeric(*every)
        raise MisfitError("The highest of which column?")
    others = [c for c in every if c != ranked[-1]]
    if len(ranked) > 1 and not all(query.table.kind(c) == "number" for c in others):
        raise MisfitError(f"I can't tell how {codes(every)} belong together here.")
    env.put("col", ranked[-1])


def _count_values(query: Query, env: Env) -> None:
    token = query.token("COUNT")
    asked = token is not None and token.text.lower().startswith(
        ("how many", "number", "the number")
    )
    if len(query.columns) != 1 or not asked:
        raise MisfitError("I need one column whose different values are counted.")
    env.put("col", query.groups(*query.columns)[0])
    query.groups(*query.by)
