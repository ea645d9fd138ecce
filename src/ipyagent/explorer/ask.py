"""A sentence as its rule sees it: the table, and the question about it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from ipyagent.explorer.chunks import Token
from ipyagent.explorer.grammar import Sentence, values
from ipyagent.explorer.markdown import code
from ipyagent.explorer.names import fresh, words
from ipyagent.explorer.snippets import Condition, Where, script
from ipyagent.explorer.steps import MisfitError, Step, Task
from ipyagent.explorer.workspace import Table, Workspace


@dataclass(frozen=True)
class SentenceRule:
    """Sentences of one form, with their possible and their required clauses."""

    pattern: str
    build: Callable[[Ask], Step]
    allows: str = ""
    needs: str = ""


@dataclass(frozen=True)
class Ask:
    """One sentence about one table."""

    sentence: Sentence
    workspace: Workspace
    table: Table

    def all(self, *tags: str) -> list[Any]:
        """Return the values of the core's tokens with these tags, in order."""
        return values(self.sentence.core, *tags)

    def has(self, tag: str) -> bool:
        """Return whether the core has such a token."""
        return any(each.tag == tag for each in self.sentence.core)

    def says(self, word: str) -> bool:
        """Return whether the core has this very word."""
        return any(each.text.lower() == word for each in self.sentence.core)

    @property
    def columns(self) -> list[str]:
        """The columns that the core names, each once."""
        return list(dict.fromkeys(self.all("COL")))

    @property
    def by(self) -> list[str]:
        """The columns to group by."""
        return list(dict.fromkeys(values(self.sentence.clause("by"), "COL")))

    def group_by(self, key: str) -> Ask:
        """Return the same question, grouped by a column."""
        clause = ("by", (Token("COL", key, key),))
        clauses = (*self.sentence.clauses, clause)
        return replace(self, sentence=replace(self.sentence, clauses=clauses))

    @property
    def period(self) -> str | None:
        """The length of time to group by."""
        return next(iter(values(self.sentence.clause("period"), "PERIOD")), None)

    @property
    def colour(self) -> str | None:
        """The column that colors a plot."""
        return next(iter(values(self.sentence.clause("colour"), "COL")), None)

    @property
    def digits(self) -> int | None:
        """The decimals to round to."""
        if "digits" not in self.sentence.clause_names:
            return None
        numbers = values(self.sentence.clause("digits"), "NUMBER")
        if numbers and not (isinstance(numbers[0], int) and 0 <= numbers[0] <= 12):
            raise MisfitError("I can round to 0 to 12 decimals.")
        return int(numbers[0]) if numbers else 0

    @cached_property
    def where(self) -> Where:
        """Return the conditions that rows have to meet."""
        return conditions(self.table, self.sentence.clause("where"))

    @property
    def about(self) -> str:
        """The table and its conditions, in Markdown."""
        tests = " and ".join(f"{code(str(each))}" for each in self.where)
        return code(self.table.name) + (f" where {tests}" if tests else "")

    @property
    def number(self) -> str:
        """The one column that the core names, if it holds numbers."""
        if len(self.columns) != 1:
            raise MisfitError("I need exactly one column of numbers for that.")
        return self.numeric(*self.columns)[0]

    def numeric(self, *columns: str) -> list[str]:
        """Return the columns, if they hold numbers."""
        return self._of_kind("number", "numbers", columns)

    def groups(self, *columns: str) -> list[str]:
        """Return the columns, if they can be grouped by: anything but decimal fractions."""
        for column in columns:
            if (self.table.columns or {}).get(column, "").lower().startswith(("float", "decimal")):
                raise MisfitError(f"{code(column)} holds decimal numbers, which form no groups.")
        return list(columns)

    def _of_kind(self, kind: str, plural: str, columns: Sequence[str]) -> list[str]:
        for column in columns:
            if self.table.kind(column) != kind:
                dtype = (self.table.columns or {}).get(column, "unknown")
                raise MisfitError(f"{code(column)} is {dtype}, but this needs {plural}.")
        return list(columns)

    def name(self, wanted: str) -> str:
        """Return an unused variable name like this."""
        return fresh(wanted, self.workspace.variables)

    def python(
        self, rule: str, lines: Sequence[str], answer: Callable[[str], str], *drop: str
    ) -> Task:
        """Return a task that runs these lines, and deletes names that only the code needed.

        Otherwise each answer would leave a table behind that the next question could be about.
        """
        lines = [*lines, f"del {', '.join(drop)}"] if drop else lines
        arguments = {"code": script(*lines)}
        return Task(f"{rule} ({self.table.name})", "run_python", arguments, answer)

    def pandas_only(self, what: str) -> None:
        """Refuse tables of other libraries than pandas."""
        if self.table.library == "polars":
            raise MisfitError(
                f"{what} work for pandas tables only; {code(self.table.name)} is polars."
            )


def conditions(table: Table, tokens: Sequence[Token]) -> Where:
    """Return the conditions of a where-clause; raises MisfitError if they make no sense."""
    found: list[Condition] = []
    column, sign, between = None, "==", False
    for token in tokens:
        match token.tag:
            case "COL":
                column, sign, between = token.value, "==", False
            case "OP" | "OVER":
                sign = token.value
            case "BETWEEN":
                between, sign = True, ">="
            case "VALUE" | "QUOTED" | "NUMBER" | "DATE" | "BOOL":
                found.append(_condition(table, column, sign, token))
                column, sign = (found[-1].column, "<=") if between else (None, "==")
    equal = [each.column for each in found if each.sign == "=="]
    if len(equal) != len(set(equal)):
        raise MisfitError("No row can have two values in one column; compare them instead.")
    return tuple(found)


def _year_column(table: Table, number: float) -> str | None:
    """Return the column that `in 2007` is about."""
    years = [each for each in table.of_kind("number") if words(each) == ("year",)]
    return years[0] if len(years) == 1 and 1000 <= number < 3000 else None


def _date_column(table: Table) -> str | None:
    """Return the column that `after 2024-01-31` is about."""
    dates = table.of_kind("date")
    return dates[0] if len(dates) == 1 else None


def _condition(table: Table, column: str | None, sign: str, token: Token) -> Condition:
    value = token.value
    if token.tag == "VALUE":
        if column not in (None, value[0]):
            raise MisfitError(f"{code(token.text)} is no value of {code(str(column))}.")
        column, value = value
    if token.tag == "BOOL":
        value = value == "true"
    if column is None and token.tag in ("NUMBER", "DATE"):
        column = _date_column(table) if token.tag == "DATE" else _year_column(table, value)
    if column is None:
        raise MisfitError(f"I don't know which column {code(token.text)} is about.")
    kinds = {"VALUE": "text", "QUOTED": "text", "NUMBER": "number", "DATE": "date", "BOOL": "bool"}
    if table.kind(column) != kinds[token.tag]:
        dtype = (table.columns or {}).get(column, "unknown")
        raise MisfitError(f"{code(column)} is {dtype}; {code(token.text)} doesn't fit it.")
    return Condition(column, sign, value)
