"""Preliminary calls, without which a prompt cannot be understood."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import PurePosixPath

from ipyagent.explorer.binding import bind
from ipyagent.explorer.files import (
    SCHEMA,
    explain_doubt,
    load_code,
    load_line,
    read_schema,
    schema_line,
)
from ipyagent.explorer.frame import Frame
from ipyagent.explorer.intents import intents
from ipyagent.explorer.markdown import block
from ipyagent.explorer.names import fresh, words
from ipyagent.explorer.query import Query
from ipyagent.explorer.rendering import render
from ipyagent.explorer.snippets import script
from ipyagent.explorer.steps import Look, Say
from ipyagent.explorer.workspace import (
    Table,
    Workspace,
    table_from_inspection,
    with_files,
    with_variables,
)


def at_variables(workspace: Workspace) -> Look:
    """List the variables."""
    learn = partial(with_variables, workspace)
    return Look("which variables there are", "list_variables", {}, learn)


def at_files(workspace: Workspace) -> Look:
    """List the files."""
    learn = partial(with_files, workspace)
    return Look("which files there are", "list_files", {"path": ".", "recursive": True}, learn)


def at_file(path: str, workspace: Workspace) -> Look | Say:
    """Load a table file that nobody has described into an unused variable, for its columns.

    If it is in doubt how to read the file, say so instead.
    """
    if doubt := explain_doubt(path, workspace):
        return doubt
    name = fresh(PurePosixPath(path).stem, workspace.variables)

    def learn(output: str) -> Workspace:
        known = workspace.with_table(Table(name, columns=read_schema(output)))
        return replace(known, loaded={**known.loaded, path: name})

    return Look(f"load {path}", "run_python", {"code": load_code(path, name, workspace)}, learn)


def at_columns(table: Table, workspace: Workspace) -> Look:
    """Get the columns of a table: by inspecting it, or else by printing them."""
    rule = f"columns of {table.name}"

    def learn(output: str) -> Workspace:
        return workspace.with_table(
            table_from_inspection(table, output) or replace(table, opaque=True)
        )

    def learn_printed(output: str) -> Workspace:
        return workspace.with_table(replace(table, columns=dict(block(output, SCHEMA))))

    if table.opaque:
        return Look(rule, "run_python", {"code": script(schema_line(table))}, learn_printed)
    return Look(rule, "inspect_variable", {"name": table.name}, learn)


def at_values(table: Table, said: Sequence[str], workspace: Workspace) -> Look:
    """Find, in each column of text, the values that begin like these words; load a file for it."""
    starts = sorted({word[:4] for text in said for word in words(text)})
    env = bind(intents()["values that begin so"], Query(Frame(), table, workspace))
    env.put("cols", table.of_kind("text"))
    env.put("pattern", "|".join(map(re.escape, starts)))
    part, path = render(env), table.path
    lines = [load_line(path, table.name, workspace)] if path else []
    lines += [*part.lines, f"del {', '.join(part.drop)}"]

    def learn(output: str) -> Workspace:
        pairs = [(column, value) for column, value in block(output, ["variable", "value"])]
        known = tuple(dict.fromkeys((*table.values, *pairs)))
        seen = replace(table, path="", values=known, looked_up=table.looked_up | {*said})
        learned = workspace.with_table(seen)
        return replace(learned, loaded={**learned.loaded, path: table.name}) if path else learned

    return Look(f"values in {table.name}", "run_python", {"code": script(*lines)}, learn)
