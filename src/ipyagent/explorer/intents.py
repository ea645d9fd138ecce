"""The table of intents, a question that a row of it may answer, and the names in the row's code."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib.resources import files
from typing import Any

from ipyagent.explorer.frame import Frame, Where, compile_pattern, has, values_of
from ipyagent.explorer.markdown import code, codes
from ipyagent.explorer.names import fresh
from ipyagent.explorer.snippets import literal, mask
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
