"""Tools for the user's own variables, and the authors of a variable: runs, calls and cells."""

from __future__ import annotations

import difflib
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from ipyagent.errors import InvalidArgumentsError
from ipyagent.globs import text_pattern
from ipyagent.kernel.namespace import Namespace, digest
from ipyagent.kernel.shell import CellNote
from ipyagent.phrases import ellipsize
from ipyagent.schema import Preview, Run, ToolExecution, ToolResult, VariableChange
from ipyagent.tools.base import Tool, Where, tool
from ipyagent.tools.tracked_namespace import TrackedNamespace
from ipyagent.tools.workspace import Workspace
from ipyagent.values.describe import describe
from ipyagent.values.describe.safe_inspect import one_line

if TYPE_CHECKING:
    from ipyagent.tools.rehearsal import Rehearser

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


def namespace_tools(
    namespace: Namespace,
    *,
    variables: bool = True,
    python: bool = True,
    description_of: Callable[[str], str] = lambda path: "",
    find_author: Callable[[str], str] = lambda name: "",
    workspace: Workspace | None = None,
) -> list[Tool]:
    """Return `list_variables`, `inspect_variable` and `run_python` for one namespace.

    `find_author` says who made a variable, for the user. Code can be rehearsed if its `workspace`
    is known.
    """
    sourced = TrackedNamespace(namespace, description_of)

    @tool(where=Where.MAIN)
    def list_variables(pattern: str | None = None) -> ToolResult:
        """List variables with types and shapes; pattern is a glob like df*."""
        found = namespace.variables()
        if pattern is not None:
            found = {k: v for k, v in found.items() if text_pattern(pattern).match(k)}
        nothing = "There are no variables" + (f" matching {pattern!r}." if pattern else " yet.")
        return ToolResult(output=digest(found) or nothing)

    def check_variable(name: str) -> None:
        known = namespace.variables()
        if name not in known:
            raise InvalidArgumentsError(_unknown_variable_message(name, list(known)))

    @tool(where=Where.MAIN, requires=check_variable)
    def inspect_variable(name: str) -> ToolResult:
        """Describe a variable: a table's columns, types, nulls and first rows."""
        check_variable(name)
        value = namespace.variables()[name]
        result = ToolResult(output=describe(name, value, detail=True), value=value)
        if not (author := find_author(name)):
            return result
        texts = {"output": f"{result.output}\n{author}", "for_model": result.output}
        return result.model_copy(update=texts)

    def make_rehearser() -> Rehearser:
        from ipyagent.tools.rehearsal import Rehearser  # most prompts run no code

        assert workspace is not None  # noqa: S101
        return Rehearser(sourced, workspace)

    @tool(
        where=Where.MAIN,
        sensitive=True,
        preview=_preview_code,
        reaches_out=True,
        command="code",
        effects=lambda preview: sourced.analyze(preview.text),
        make_rehearser=make_rehearser if workspace is not None else None,
    )
    def run_python(code: str, keep: bool = False) -> ToolResult | Awaitable[ToolResult]:
        """Run a cell among the live variables; %magics, !commands and await work.

        Returns prints, last expression, figures, errors, new names. Data, imports and
        functions stay; keep=true (asked about) keeps models, classes, settings too.
        """
        return sourced.run(code)

    looking = [list_variables, inspect_variable] if variables else []
    return [*looking, run_python] if python else looking


def _preview_code(code: str, keep: bool = False) -> Preview:
    return Preview(kind="code", language="python", text=code)


def _unknown_variable_message(name: str, names: list[str]) -> str:
    close = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    if close:
        return f"there is no variable {name!r}; did you mean {', '.join(close)}?"
    if not name.isidentifier():
        return f"{name!r} is not a variable's name; use run_python to evaluate an expression"
    return f"there is no variable {name!r}; list_variables names those there are"
