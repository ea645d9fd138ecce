"""Tools for the user's own variables."""

from __future__ import annotations

import difflib
from collections.abc import Awaitable, Callable

from ipyagent.errors import InvalidArgumentsError
from ipyagent.globs import text_pattern
from ipyagent.kernel.describe import describe
from ipyagent.kernel.namespace import Namespace, digest
from ipyagent.schema import Preview, ToolResult
from ipyagent.tools.base import Tool, Where, tool
from ipyagent.tools.rehearsed import Rehearser
from ipyagent.tools.tracked_namespace import TrackedNamespace
from ipyagent.tools.workspace import Workspace


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
        from ipyagent.tools.rehearsal import CodeRehearser  # most prompts run no code

        assert workspace is not None  # noqa: S101
        return CodeRehearser(sourced, workspace)

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
