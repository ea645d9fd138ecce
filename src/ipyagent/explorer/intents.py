"""The table of intents: its rows, the names that fill them, and what their code printed."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib.resources import files

from ipyagent.explorer.frame import Frame, compile_pattern
from ipyagent.explorer.markdown import Rows, cell, code, codes, label, numbers, table
from ipyagent.explorer.query import Query, sentence_case, title
from ipyagent.explorer.snippets import literal


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


@cache
def intents() -> dict[str, Intent]:
    """Return the table of intents by their names, the special ones first."""
    text = files("ipyagent.explorer").joinpath("intents.toml").read_text("utf-8")
    return {row["name"]: Intent(**row) for row in tomllib.loads(text)["intent"]}


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


@dataclass
class Answer:
    """The figures that a call printed, and the rows of its table."""

    env: Env
    output: str
    figures: list[str]
    rows: Rows
    heading: list[str]

    @property
    def digits(self) -> int | None:
        """The decimals to round to."""
        asked = self.env.query.frame.digits
        return asked if asked is not None else self.env.row.digits

    def show(self) -> str:
        """Return the table in Markdown."""
        row, columns = self.env.row, self.env.query.table.columns or {}
        is_keyed = row.block.startswith("keys")
        left = len(self.env.lists["keys"]) if is_keyed else min(row.left, len(self.heading))
        names = label if self.heading[0] == "column" else cell
        measured = numbers([each[left:] for each in self.rows], self.digits)
        measured = measured or [[] for _ in self.rows]
        body = [[*map(names, each[:left]), *m] for each, m in zip(self.rows, measured, strict=True)]
        heads = [
            label(name) if name in columns and f"'{name}'" not in row.block else title(name)
            for name in self.heading
        ]
        return table(heads, body, left=left)
