"""The table of intents, a question that a row of it may answer, and the names in the row's code.

A row says what its columns have to be, and the names that they get.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib.resources import files
from typing import Any

from ipyagent.explorer.frame import (
    Frame,
    Where,
    compile_pattern,
    dates,
    first_of,
    has,
    literal,
    mask,
    values_of,
)
from ipyagent.explorer.text import code, codes, fresh
from ipyagent.explorer.workspace import MisfitError, Table, Workspace, refuse_if


@dataclass(frozen=True)
class Intent:
    """A row of `intents.toml`, where its fields are explained."""

    name: str
    words: str = ""
    slots: str = ""
    needs: str = ""
    columns: str = ""
    code: str = ""
    polars: str = ""
    answer: str = ""
    none: str = ""
    single: str = ""
    block: str = ""
    build: str = ""
    finish: str = ""
    names: str = ""
    n: int = 0
    left: int = 1
    digits: int | None = None
    threshold: float = 0
    yes_no: bool = False

    def fits(self, frame: Frame) -> bool:
        """Return whether a frame has these words, and fills no other slots."""
        needs, allowed = self._slots
        filled = {*frame.slots, *frame.options}
        return (
            bool(self.words)
            and (self.yes_no or not frame.asks)
            and needs <= filled <= allowed
            and bool(frame.core or needs)
            and bool(compile_pattern(self.words).fullmatch(frame.tags))
        )

    @cached_property
    def _slots(self) -> tuple[set[str], set[str]]:
        """The slots that a frame must have, and those that it may have."""
        needs = set(self.needs.split())
        return needs, needs | {*self.slots.split(), "IGNORE"}


_TABLES = tomllib.loads(files("ipyagent.explorer").joinpath("intents.toml").read_text("utf-8"))
INTENTS = {row["name"]: Intent(**row) for row in _TABLES["intent"]}
"""The rows by their names, the special ones first."""

STATISTICS: dict[str, dict[str, str]] = _TABLES["statistics"]
"""Titles of statistics, their code if they are no methods, and notes on them."""


def title(stat: str) -> str:
    """Return a statistic's name in an answer."""
    return STATISTICS.get(stat, {}).get("title", stat)


def sentence_case(text: str) -> str:
    """Return the text with a capital at its start, the rest unchanged."""
    return text[:1].upper() + text[1:]


@dataclass(frozen=True)
class Query:
    """One question about one table."""

    frame: Frame
    table: Table
    workspace: Workspace
    also: list[str] = field(default_factory=list)
    """Columns that a second question asks of the row that the first one finds."""

    def all(self, *tags: str) -> list[Any]:
        """Return the values of the core's tokens with these tags, in order."""
        return values_of(self.frame.core, *tags)

    def has(self, *tags: str) -> bool:
        """Return whether the core or the options have such a token."""
        return has(self.frame.core, *tags) or any(t in self.frame.options for t in tags)

    @cached_property
    def columns(self) -> list[str]:
        """The columns that the core names, each once."""
        return list(dict.fromkeys(self.all("COL")))

    @property
    def polars(self) -> bool:
        """True if the table is polars."""
        return self.table.library == "polars"

    @property
    def by(self) -> list[str]:
        """The columns to group by."""
        return self.frame.by

    @property
    def where(self) -> Where:
        """The conditions that rows have to meet."""
        return tuple(self.frame.where)

    @property
    def about(self) -> str:
        """The table and its conditions, in Markdown."""
        tests = " and ".join(f"{code(str(each))}" for each in self.where)
        return code(self.table.name) + (f" where {tests}" if tests else "")

    @cached_property
    def data(self) -> Table:
        """The table as code sees it: one of polars by its copy in pandas."""
        if not self.polars:
            return self.table
        return replace(self.table, name=self.name(f"{self.table.name}_copy"), library="pandas")

    @property
    def rows(self) -> str:
        """Code for the rows in question."""
        return self.rows_where(self.where)

    def rows_where(self, where: Where) -> str:
        """Return code for the rows that meet all conditions."""
        return f"{self.data.name}[{mask(self.data, where)}]" if where else self.data.name

    def cut(self, columns: str | Sequence[str]) -> str:
        """Return code for one column (a name) or several (a list) of the rows in question."""
        where = f".loc[{mask(self.data, self.where)}, " if self.where else "["
        return f"{self.data.name}{where}{literal(columns)}]"

    def categories(self, columns: Sequence[str]) -> list[str]:
        """Return those of the columns that hold text or truth values, and no dates."""
        kinds = {c: self.table.kind(c) for c in columns if c not in self.table.date_columns}
        return [c for c in columns if kinds.get(c) in ("text", "bool")]

    def numeric(self, *columns: str) -> list[str]:
        """Return the columns, if they hold numbers."""
        for column in columns:
            why = f"{code(column)} is {self.table.dtype(column)}, but this needs numbers."
            refuse_if(self.table.kind(column) != "number", why)
        return list(columns)

    def groups(self, *columns: str) -> list[str]:
        """Return the columns, if they can be grouped by: anything but decimal fractions."""
        for column in columns:
            is_decimal = self.table.dtype(column).lower().startswith(("float", "decimal"))
            refuse_if(is_decimal, f"{code(column)} holds decimal numbers, which form no groups.")
        return list(columns)

    def name(self, wanted: str) -> str:
        """Return an unused variable name like this."""
        return fresh(wanted, {*self.workspace.variables, self.table.name})

    def refuse_strangers(self) -> None:
        """Refuse to count rows where something else may be meant: airlines among flights."""
        entity = self.frame.entity
        if entity is not None and not entity.value:
            why = f"I don't know whether a row stands for one of the {code(entity.text)}."
            raise MisfitError(why, ((entity.text, "rows"),))

    @property
    def date_column(self) -> str:
        """The only column of dates; raises MisfitError if there is none, or more."""
        found = self.table.date_columns
        if len(found) != 1:
            many = f"several columns of dates, {codes(found)}" if found else "no column of dates"
            raise MisfitError(f"{code(self.table.name)} has {many}.")
        return found[0]


@dataclass
class Env:
    """The names in a row's code and sentence: as literals of Python, and as Markdown.

    Columns, values and new names get into code by `put` only, as literals.
    """

    row: Intent
    query: Query
    code: dict[str, str] = field(default_factory=dict)
    text: dict[str, str] = field(default_factory=dict)
    lists: dict[str, list[str]] = field(default_factory=dict)

    def put(self, name: str, value: object) -> None:
        """Add a column, a value or a list of columns."""
        is_list = isinstance(value, list)
        self.lists[name] = each = list(value) if isinstance(value, list) else [str(value)]
        self.code[name], self.text[name] = literal(value), codes(each) if is_list else code(each[0])

    def say(self, name: str, code: str, text: str = "") -> None:
        """Add a piece of code that is no literal, and its words."""
        self.code[name], self.text[name] = code, text or code

    def put_keys(self, keys: Sequence[str]) -> None:
        """Add the columns to group by."""
        self.put("key", keys[0])
        self.put("keys", list(keys) if len(keys) > 1 else keys[0])

    def put_period(self, period: str) -> None:
        """Add a period of time."""
        self.lists["period"] = [period]
        self.text |= {"period": period, "Period": period.capitalize()}

    def say_stat(self, stat: str, rows: str = "rows") -> None:
        """Add a statistic; where rows are counted, they have this name."""
        self.say("stat", stat, rows if stat == "count" else title(stat))
        self.lists["stat"] = [stat]
        self.text["Stat"] = "Rows" if stat == "count" else sentence_case(title(stat))


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
