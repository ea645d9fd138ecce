"""From a row of the table of intents to code, and from what it printed to a sentence."""

from __future__ import annotations

import ast
import csv
import re
import tomllib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib.resources import files

from ipyagent.explorer.frame import Frame, compile_pattern
from ipyagent.explorer.markdown import (
    Rows,
    block,
    cell,
    code,
    codes,
    label,
    number,
    numbers,
    percent,
    table,
)
from ipyagent.explorer.query import Query, sentence_case, title
from ipyagent.explorer.snippets import literal
from ipyagent.explorer.steps import Part, UnreadableError


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
def intents() -> tuple[Intent, ...]:
    """Return the table of intents, the special ones first."""
    text = files("ipyagent.explorer").joinpath("intents.toml").read_text("utf-8")
    return tuple(Intent(**row) for row in tomllib.loads(text)["intent"])


@cache
def intent_named(name: str) -> Intent:
    """Return the row of a name."""
    return next(each for each in intents() if each.name == name)


@dataclass
class Env:
    """The names in a row's code and sentence: as literals of Python, and as Markdown.

    Columns, values and new names get into code by `put` only, as literals.
    """

    query: Query
    code: dict[str, str] = field(default_factory=dict)
    text: dict[str, str] = field(default_factory=dict)
    lists: dict[str, list[str]] = field(default_factory=dict)

    def put(self, name: str, value: object) -> None:
        """Add a column, a value or a list of columns."""
        if isinstance(value, list):
            self.code[name], self.text[name] = literal(value), codes(value)
            self.lists[name] = value
        else:
            self.code[name], self.text[name] = literal(value), code(str(value))
            self.lists[name] = [str(value)]

    def say(self, name: str, code: str, text: str = "") -> None:
        """Add a piece of code that is no literal, and its words."""
        self.code[name], self.text[name] = code, text or code


Finish = Callable[["Answer"], str]


@dataclass
class Answer:
    """The figures that a call printed, and the rows of its table."""

    row: Intent
    env: Env
    output: str
    figures: list[str]
    rows: Rows
    heading: list[str]

    @property
    def digits(self) -> int | None:
        """The decimals to round to."""
        asked = self.env.query.digits
        return asked if asked is not None else self.row.digits

    def show(self, share: int | None = None) -> str:
        """Return the table in Markdown; `share` is the column whose shares are added."""
        left = min(self.row.left, len(self.heading))
        if self.row.block.startswith("keys"):
            left = len(self.env.lists["keys"])
        heads = [self.head(each) for each in self.heading]
        if left == len(self.heading):
            body = [[cell(value) for value in row] for row in self.rows]
        else:
            measured = numbers([row[left:] for row in self.rows], self.digits)
            names = label if self.heading[0] == "column" else cell
            body = [
                [*map(names, row[:left]), *m] for row, m in zip(self.rows, measured, strict=True)
            ]
        if share is not None:
            total = sum(float(row[share]) for row in self.rows)
            heads = [*heads, "share"]
            body = [
                [*line, percent(row[share], total)]
                for line, row in zip(body, self.rows, strict=True)
            ]
        return table(heads, body, left=left)

    def head(self, name: str) -> str:
        """Return a heading: names of columns as code, statistics with their titles."""
        is_column = name in (self.env.query.table.columns or {})
        return label(name) if is_column and f"'{name}'" not in self.row.block else title(name)


def render(row: Intent, env: Env, finish: Finish | None) -> Part:
    """Return the part that runs a row's code, and says what came out."""
    query = env.query
    for name in row.names.split():
        env.say(name, query.name(name))
    template = row.code
    if query.polars and row.polars:
        template, env.code["t"] = row.polars, query.table.name
    lines = [line for line in _fill(template, env.code).splitlines() if line.strip()]

    def answer(output: str) -> str:
        return _answer(row, env, output, finish)

    drop = [env.code[name] for name in row.names.split()]
    of = (
        env.text.get("a")
        or env.text.get("col")
        or env.text.get("keys")
        or env.text.get("key")
        or ""
    )
    rule = f"{row.name} of {of.replace('`', '')}" if of else row.name
    return Part(
        f"{rule} ({query.table.name})",
        tuple(lines),
        answer,
        tuple(drop),
        query.polars and not row.polars,
    )


_PIECE = r'"[^"{]*"|\{\w+\}'
_SIDE_BY_SIDE = re.compile(rf"(?:{_PIECE})(?: (?:{_PIECE}))+")


def _fill(template: str, names: dict[str, str]) -> str:
    """Put names into a template; texts side by side, as in `"mean of " {col}`, become one."""

    def join(found: re.Match[str]) -> str:
        pieces = re.findall(_PIECE, found[0])
        if not any(each.startswith('"') for each in pieces):
            return found[0]
        codes = (each if each.startswith('"') else names[each[1:-1]] for each in pieces)
        text = literal("".join(str(ast.literal_eval(each)) for each in codes))
        return text.replace("{", "{{").replace("}", "}}")

    return _SIDE_BY_SIDE.sub(join, template.strip("\n")).format_map(names)


def _answer(row: Intent, env: Env, output: str, finish: Finish | None) -> str:
    figures = _figures(output) if "figures" in row.code or "figures" in row.polars else []
    heading = _heading(row, env, output)
    rows = block(output, heading) if heading else []
    given = Answer(row, env, output, figures, rows, heading)
    if finish is not None:
        return finish(given)
    template = row.answer
    if row.none and figures and figures[0] == "0":
        template = row.none
    if row.single and figures and figures[-1] == "1":
        template = row.single
    shown = given.show() if heading and "{table}" in template else ""
    said = _Words(given, shown)
    return re.sub(r"\{(\w+)\}", lambda found: said[found[1]], template)


class _Words(dict[str, str]):
    """The words of a sentence: names of the row, and figures by their place."""

    def __init__(self, given: Answer, shown: str) -> None:
        figures, query = given.figures, given.env.query
        super().__init__(given.env.text, table=shown, **_count_rows(given))
        self["types"] = _types(query)
        for place, value in enumerate(figures):
            self[str(place)] = number(
                value, None if re.fullmatch(r"-?\d+", value) else given.digits
            )
            self[f"s{place}"] = _significant(value, query.digits)
        if (
            len(figures) > 1
            and re.fullmatch(r"\d+", figures[0])
            and re.fullmatch(r"\d+", figures[1])
        ):
            self["p"] = percent(*figures[:2])
        if figures and re.fullmatch(r"[-\d.e+]+|nan", figures[-1]):
            level = float(query.frame.options.get("ALPHA", 0.05))
            below = float(figures[-1]) < level
            self.update(
                level=f"{level:g}", sig="" if below else "not ", dep="not " if below else ""
            )
            self["follows"] = "does not follow" if below else "is compatible with"
            self["strength"] = _strength(figures[0])

    def __missing__(self, name: str) -> str:
        raise UnreadableError(f"nothing was printed for {name}")


def _count_rows(given: Answer) -> dict[str, str]:
    """Return the number of rows that are shown, and the first of them."""
    many = len(given.rows)
    top = given.rows[0] if given.rows else ["", ""]
    return {
        "count": "row" if many == 1 else f"{many} rows",
        "top": cell(top[0]),
        "top1": number(top[-1], given.digits),
    }


def _types(query: Query) -> str:
    rows = [f"| {label(c)} | {cell(dtype)} |" for c, dtype in (query.table.columns or {}).items()]
    return "\n".join(["| column | type |", "|---|---|", *rows])


def _strength(r: str) -> str:
    size = abs(float(r)) if re.fullmatch(r"-?[\d.]+(e-?\d+)?", r) else 0.0
    if size < 0.1:
        return "hardly any"
    word = "strong" if size >= 0.7 else "moderate" if size >= 0.4 else "weak"
    return f"{word}, {'positive' if float(r) > 0 else 'negative'}"


def _significant(value: str, digits: int | None) -> str:
    """Return a number with the decimals that were asked for, or with four digits that matter."""
    try:
        return f"{float(value):.4g}" if digits is None else number(value, digits)
    except ValueError:
        return value


def _figures(output: str) -> list[str]:
    """Return the values that the code printed; raises UnreadableError."""
    if found := re.search(r"^figures (\S.*)$", output, re.MULTILINE):
        return found[1].split()
    raise UnreadableError("no figures")


def _heading(row: Intent, env: Env, output: str) -> list[str]:
    """Return the heading of the table that a row's code prints."""
    if row.block == "every":
        return list(env.query.table.columns or {})
    found: list[str] = []
    for part in re.findall(r"'[^']*'|\S+", row.block):
        if part.startswith("'"):
            found.append(part.strip("'"))
        elif part == "...":
            starts = [line for line in output.splitlines() if line.startswith(found[0])]
            found = _split(starts)
        else:
            found += env.lists[part]
    return found


def _split(lines: list[str]) -> list[str]:
    if not lines:
        raise UnreadableError("no table")
    return next(csv.reader(lines[:1]))


def capitalize(text: str) -> str:
    """Return the title of a statistic at the beginning of a sentence."""
    return sentence_case(title(text))
