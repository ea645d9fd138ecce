"""Columns for a row of the table of intents: what they have to be, and the names that they get."""

from __future__ import annotations

from collections.abc import Callable

from ipyagent.explorer.frame import first_of
from ipyagent.explorer.intents import Env, Intent, Query
from ipyagent.explorer.markdown import code, codes
from ipyagent.explorer.snippets import dates, literal, mask
from ipyagent.explorer.workspace import MisfitError, Table, refuse_if

PERIODS = {"day": "D", "week": "W", "month": "M", "quarter": "Q", "year": "Y"}
_METHODS = {"pearson": "pearsonr", "spearman": "spearmanr", "kendall": "kendalltau"}


def bind(row: Intent, query: Query) -> Env:
    """Return the names for a row; raises MisfitError if the columns are not what it needs."""
    env = Env(row, query)
    _common(env, query)
    if row.columns:
        _COLUMNS[row.columns.rstrip("?")](env, query, [*query.columns])
    _cuts(env, query)
    return env


def _common(env: Env, query: Query) -> None:
    """Add the names that need no column."""
    frame, row, core, data = query.frame, env.row, query.frame.core, query.data
    tests, plain = " and ".join(code(str(each)) for each in query.where), code(query.table.name)
    env.say("t", data.name)
    env.say("rows", query.rows)
    env.text |= {"about": query.about, "plain": plain, "tests": tests}
    if query.where:
        env.say("mask", mask(data, query.where))
    if frame.target:
        env.say("base", query.rows, query.about)
        target = query.rows_where((*query.where, frame.target))
        env.say("target", target, code(str(frame.target)))
    else:
        env.say("base", data.name, plain)
        env.say("target", query.rows, tests)
    if query.by:
        env.put_keys(query.by)
    ends = [e for e in query.all("EXTREME", "BESTEND", "TOP", "MOST", "HIGHER") if e]
    end = (ends or ["max"])[0]
    if frame.order:
        column, end = frame.order
        env.put("by_order", column)
    env.say("end", end, "highest" if end == "max" else "lowest")
    env.say("ascending", str(end == "min"))
    edge = first_of(core, "FIRST", default="head")
    env.say("edge", edge)
    env.text["first"] = "first" if edge == "head" else "last"
    many = first_of(core, "NUMBER", default=row.n)
    refuse_if(row.n and not (isinstance(many, int) and 0 < many <= 50), "I can show 1 to 50 rows.")
    env.say("n", str(many))
    env.say("threshold", f"{frame.options.get('THRESHOLD', row.threshold):g}")
    stats = [s for s in query.all("STAT", "EXTREME") if s]
    env.say_stat((stats or ["mean" if query.columns else "count"])[0])
    method = str(frame.options.get("METHOD") or "pearson")
    env.put("method", method)
    env.text["Method"] = method.capitalize()
    env.say("corr_test", _METHODS[method])
    env.put("number_cols", query.table.of_kind("number"))
    if frame.period:
        env.put_period(frame.period)


def _cuts(env: Env, query: Query) -> None:
    """Add code for the values of the columns, in the rows in question."""
    lists = env.lists
    for name, column in (("cut", "col"), ("cut_key", "key")):
        if column in lists:
            env.say(name, query.cut(lists[column][0]))
    if "a" in lists and "b" in lists:
        env.say("pair", query.cut([lists["a"][0], lists["b"][0]]))
    if "cols" in lists:
        env.say("cuts", query.cut(lists["cols"]))
        env.say("chosen", env.code["cuts"] if query.columns else query.rows)
    env.say("every_number", query.cut(lists["number_cols"]))
    period, tags = query.frame.period, query.frame.tags
    if period or "PERIOD " in tags or "ROLLING " in tags:
        when = query.date_column
        env.say("dates", dates(query.data, f"{query.rows}[{literal(when)}]", when))
        letter = literal(PERIODS[period or (query.all("PERIOD") or ["day"])[0]])
        by = f"{query.rows}.groupby({env.code['dates']}.dt.to_period({letter}))"
        env.say("by_period", by)


def _number(env: Env, query: Query, columns: list[str]) -> None:
    if not columns and env.row.columns == "number?":
        env.put("col", query.date_column)
    elif len(columns) != 1:
        raise MisfitError("I need exactly one column of numbers for that.")
    else:
        env.put("col", query.numeric(*columns)[0])


def _numbers(env: Env, query: Query, columns: list[str]) -> None:
    if not (every := query.table.of_kind("number")):
        raise MisfitError(f"{code(query.table.name)} has no columns of numbers.")
    others = [c for c in every if c not in query.by]
    env.put("cols", query.numeric(*columns) or others * (env.row.columns == "numbers?"))


def _any(env: Env, query: Query, columns: list[str]) -> None:
    refuse_if(not columns and env.row.columns != "anys?", "Of which column?")
    env.put("cols", columns or list(query.table.columns or {}))
    if len(columns) == 1:
        env.put("col", columns[0])


def _date(env: Env, query: Query, columns: list[str]) -> None:
    column = columns[0] if columns else query.date_column
    if column not in query.table.date_columns:
        raise MisfitError(f"{code(column)} doesn't look like a column of dates.")
    env.put("col", column)
    env.say("dates", dates(query.data, f"{query.data.name}[{literal(column)}]", column))


def _group(env: Env, query: Query, columns: list[str]) -> None:
    every = list(dict.fromkeys([*query.by, *columns]))
    refuse_if(len(every) != 1, "I need exactly one column of categories for that.")
    is_number = query.table.kind(every[0]) == "number"
    if env.row.columns == "category" and query.has("MOST"):
        refuse_if(is_number, "The most of which column?")
        query.refuse_strangers()
    if env.row.columns == "group" or not is_number:
        query.groups(*every)
    env.put("key", every[0])


def _pair(env: Env, query: Query, columns: list[str]) -> None:
    columns += [each for each in query.by if each not in columns]
    _two(env, (query.groups if env.row.columns == "two keys" else query.numeric)(*columns))


def _pair_by(env: Env, query: Query, columns: list[str]) -> None:
    _two(env, query.numeric(*columns))
    env.put("key", query.groups(*query.by, *query.frame.colour)[0])


def _two(env: Env, columns: list[str]) -> None:
    refuse_if(len(columns) != 2, "I need two different columns for that.")
    env.put("a", columns[0])
    env.put("b", columns[1])


def _along(env: Env, query: Query, columns: list[str]) -> None:
    """Bind a column of numbers, and the dates or numbers along which it is drawn."""
    columns += query.by
    if len(columns) == 1 and query.table.kind(columns[0]) == "number":
        columns.append(query.date_column)
    refuse_if(len(columns) != 2, "A line plot needs a column to draw and one to draw it over.")
    (y, x), when = columns, query.table.date_columns
    if y in when or (y.lower() == "year" and x.lower() != "year"):
        y, x = x, y
    query.numeric(*(each for each in (y, x) if each == y or each not in when))
    _two(env, [y, x])
    values = f"{query.name('line')}[{literal(x)}]"
    env.say("along", dates(query.data, values, x) if x in when else values)


def _groups(env: Env, query: Query, columns: list[str]) -> None:
    every = list(dict.fromkeys([*query.by, *columns]))
    refuse_if(not every or "count" in every or "rows" in every, "I need a column to count by.")
    numbers = any(query.table.kind(c) == "number" for c in columns)
    if numbers and query.by and not query.has("COUNT", "UNIQUE"):
        raise MisfitError("I need a statistic for numbers by groups.")
    if numbers and query.where and not query.has("COUNT", "UNIQUE", "TOP", "MODE"):
        raise MisfitError("A number under a condition is no category.")
    if query.has("SHARE") and columns and (query.by or query.where):
        raise MisfitError("A share of what? I can take one condition, or one column's values.")
    if query.has("SHARE") and columns and query.table.kind(every[0]) == "number":
        raise MisfitError(f"A share of what? {code(every[0])} holds numbers.")
    env.put_keys(query.groups(*every))


def _key_and_number(env: Env, query: Query, columns: list[str]) -> None:
    columns = list(dict.fromkeys([*query.by, *columns, *query.frame.colour]))
    numbers = [c for c in columns if query.table.kind(c) == "number"]
    keys = [c for c in columns if c not in numbers]
    keys = keys or [c for c in numbers if c in query.by] or numbers[:1]
    measured = [c for c in numbers if c not in keys]
    if len(columns) != 2 or len(keys) != 1 or len(measured) != 1:
        raise MisfitError("I need one column of numbers to measure and another one to group by.")
    env.put_keys(query.groups(*keys))
    env.put("col", measured[0])
    env.put("cols", measured)


def _two_values(table: Table, column: str) -> list[object]:
    """Return the two values of a column that has two."""
    values: list[object] = [*table.values_of(column)]
    values = [True, False] if table.kind(column) == "bool" else values
    return values if len(values) == 2 else []


def _two_groups(env: Env, query: Query, columns: list[str]) -> None:
    if (stats := query.all("STAT")) and stats not in (["mean"], ["median"]):
        raise MisfitError("I compare two groups by their means and medians.")
    if pair := query.all("PAIR"):
        (key, one), (_, other) = pair[0]
    else:
        keys = [c for c in [*columns, *query.by] if _two_values(query.table, c)]
        refuse_if(len(keys) != 1, "Which two groups?")
        key, (one, other) = keys[0], _two_values(query.table, keys[0])
        columns = [c for c in columns if c != key]
    if env.row.columns == "two groups":
        _number(env, query, columns)
    for name, value in (("key", key), ("one", one), ("other", other)):
        env.put(name, value)


def _measure(env: Env, query: Query, columns: list[str]) -> None:
    """Bind the column that rows are ranked by: the last one that has numbers or dates."""
    every, when = list(dict.fromkeys([*query.by, *columns])), query.table.date_columns
    numbers = [c for c in every if query.table.kind(c) == "number"]
    ranked = numbers or [c for c in every if c in when]
    if not ranked:
        query.numeric(*every)
        raise MisfitError("The highest of which column?")
    others = [c for c in every if c != ranked[-1]]
    if len(ranked) > 1 and not all(query.table.kind(c) == "number" for c in others):
        raise MisfitError(f"I can't tell how {codes(every)} belong together here.")
    env.put("col", ranked[-1])


def _count_values(env: Env, query: Query, columns: list[str]) -> None:
    said = [t.text.lower() for t in query.frame.core if t.tag == "COUNT"]
    asked = said and said[0].startswith(("how many", "number", "the number"))
    if len(columns) != 1 or not asked:
        raise MisfitError("I need one column whose different values are counted.")
    env.put("col", query.groups(*columns, *query.by)[0])


_COLUMNS: dict[str, Callable[[Env, Query, list[str]], None]] = {
    "number": _number, "numbers": _numbers, "any": _any, "anys": _any, "date": _date,
    "group": _group, "category": _group, "groups": _groups, "group number": _key_and_number,
    "pair": _pair, "two keys": _pair, "pair by": _pair_by, "along": _along,
    "two groups": _two_groups, "pair of groups": _two_groups,
    "ranked": _measure, "measured": _measure, "counted": _count_values,
}  # fmt: skip
