"""The authors of a variable: the runs, calls and cells that made or changed it, newest first."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from ipyagent.kernel.cell_notes import CellNote
from ipyagent.kernel.describe.safe_inspect import one_line
from ipyagent.phrases import ellipsize
from ipyagent.schema import Run, ToolExecution, VariableChange

LINE = 100
"""Characters of a line of code."""


@dataclass(frozen=True)
class Author:
    """One change of a variable, and who made it."""

    at: datetime
    change: str
    who: str
    code: str

    def __str__(self) -> str:
        return " · ".join(filter(None, (self.change, self.who, self.code)))


def find_authors(
    runs: Iterable[Run], notes: Iterable[CellNote], name: str, column: str = ""
) -> list[Author]:
    """Return who made and changed a variable, or one column of it, newest first."""
    found = [*_by_runs(runs, name, column), *_by_cells(notes, name, column)]
    return sorted(found, key=lambda each: each.at, reverse=True)


def _by_runs(runs: Iterable[Run], name: str, column: str) -> Iterator[Author]:
    for run in runs:
        for call in run.executions:
            for change in call.result.variables if call.result else ():
                if change.name == name and _concerns(change, column):
                    text = ": ".join(filter(None, (change.change, change.summary or change.type)))
                    who = f"run {run.id}, call {call.call.id}"
                    line = code_line(_code(call), name)
                    yield Author(call.started_at or run.started_at, text, who, line)


def _code(call: ToolExecution) -> str:
    if call.preview is not None and call.preview.kind == "code":
        return call.preview.text
    code = call.call.arguments.get("code", "")
    return code if isinstance(code, str) else ""


def _concerns(change: VariableChange, column: str) -> bool:
    """Return whether a change made or changed a column; a new table may have brought it."""
    if not column or change.change == "created" or not change.summary:
        return True
    word = rf"(?:^|[\s,+-]){re.escape(one_line(column, 40))}(?=$|[\s:,])"
    return re.search(word, change.summary) is not None


def _by_cells(notes: Iterable[CellNote], name: str, column: str) -> Iterator[Author]:
    for note in notes:
        if name in note.changes and (not column or column in note.code):
            number = "" if note.number is None else f" [{note.number}]"
            line = code_line(note.code, name)
            yield Author(note.at, note.changes[name], f"your cell{number}", line)


def code_line(code: str, name: str) -> str:
    """Return the line of code that most likely changed a variable."""
    lines = [line.strip() for line in code.splitlines() if line.strip()]
    word = rf"(?<![\w.]){re.escape(name)}(?!\w)"
    sets = rf"{word}[^=]*(?<![=!<>])=(?!=)|(?:import|def|class|del|for) .*{word}"
    for test in map(re.compile, (sets, word)):
        found = [line for line in lines if test.search(line)]
        if found:
            return ellipsize(one_line(found[-1], LINE), LINE)
    return ellipsize(one_line(lines[0], LINE), LINE) if lines else ""
