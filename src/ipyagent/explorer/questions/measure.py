"""A measure: code that computes named values, and a sentence about them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from ipyagent.explorer.ask import Ask
from ipyagent.explorer.chunks import Token
from ipyagent.explorer.grammar import Sentence
from ipyagent.explorer.questions.frame import Core, Frame
from ipyagent.explorer.snippets import cut, literal
from ipyagent.explorer.steps import UnreadableError
from ipyagent.explorer.workspace import Table, Workspace

Values = Mapping[str, object]
Kind = Literal["number", "count", "truth", "text"]


@dataclass(frozen=True)
class Result:
    """A named value: its code, or how it follows from the others, and words for it."""

    name: str
    code: str
    words: frozenset[str]
    kind: Kind = "number"
    derive: Callable[[Values], object] | None = None


@dataclass(frozen=True)
class Measure:
    """Values to compute: lines before them, and the sentence that reports them."""

    rule: str
    results: tuple[Result, ...]
    report: Callable[[Values], str]
    lines: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()


@dataclass(frozen=True)
class Query:
    """A core to be measured: its table, its frame, and the values that its form asks for."""

    frame: Frame
    core: Core
    raw: Core
    table: Table
    workspace: Workspace
    wanted: frozenset[str] = field(default_factory=frozenset)

    @property
    def ask(self) -> Ask:
        """The conditions and groups in the shape that the families know."""
        by = tuple(Token("COL", each, each) for each in self.frame.by)
        clauses = [("where", tuple(self.frame.where))] if self.frame.where else []
        clauses += [("by", by)] if by else []
        if self.frame.digits is not None:
            number = Token("NUMBER", self.frame.digits, "")
            clauses.append(("digits", (number,)))
        return Ask(Sentence(self.core, tuple(clauses)), self.workspace, self.table)

    @property
    def columns(self) -> list[str]:
        """The columns of the core, each once."""
        return self.ask.columns

    def has(self, mark: str) -> bool:
        """Return whether the prompt has such a word."""
        return mark in self.frame.marks

    def values(self, column: str, *, drop: bool = False) -> str:
        """Return code for a column of the rows in question."""
        links = (".drop_nulls()" if self.table.library == "polars" else ".dropna()") if drop else ""
        return cut(self.table, self.ask.where, column) + links

    def numeric(self, *columns: str) -> list[str]:
        """Return the columns, if they hold numbers."""
        return self.ask.numeric(*columns)


def print_results(results: Sequence[Result]) -> list[str]:
    """Return lines that print computed values as one line of JSON."""
    pairs = [f"{literal(each.name)}: {each.code}" for each in results if each.code]
    line = f"print(json.dumps({{{', '.join(pairs)}}}, default=str))"
    if len(line) <= 88:
        return [line]
    return ["results = {", *(f"    {pair}," for pair in pairs), "}", _PRINT]


_PRINT = "print(json.dumps(results, default=str))"


def read_results(output: str, measures: Sequence[Measure]) -> dict[str, object]:
    """Return the printed values and those that follow; raises UnreadableError if any is missing."""
    found = _last_object(output)
    for each in (result for measure in measures for result in measure.results):
        if each.code and each.name not in found:
            raise UnreadableError(f"no value {each.name}")
        if each.derive is not None:
            found[each.name] = each.derive(found)
    return found


def _last_object(output: str) -> dict[str, object]:
    for line in reversed(output.splitlines()):
        if line.startswith("{"):
            try:
                found = json.loads(line)
            except ValueError:
                continue
            if isinstance(found, dict):
                return found
    raise UnreadableError("no line of JSON")


def as_number(value: object) -> float:
    """Return a printed value as a number; not a number if there is none."""
    try:
        return float(str(value))
    except ValueError:
        return float("nan")
