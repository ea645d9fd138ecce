"""Preliminary calls, without which a prompt cannot be understood."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import PurePosixPath

from ipyagent.explorer.families.files import (
    SCHEMA,
    explain_doubt,
    load_code,
    read_schema,
    schema_line,
)
from ipyagent.explorer.markdown import block
from ipyagent.explorer.names import fresh
from ipyagent.explorer.snippets import literal, print_chain, script
from ipyagent.explorer.steps import Look, Say
from ipyagent.explorer.workspace import (
    Table,
    Workspace,
    table_from_inspection,
    with_files,
    with_variables,
)

_MAX_VALUES = 500  # of the text columns together
_DIFFERENT = (".melt()", ".dropna()", ".drop_duplicates()", f".head({_MAX_VALUES})")


def at_variables(workspace: Workspace) -> Look:
    """List the variables."""
    learn = partial(with_variables, workspace)
    return Look("which variables there are", "list_variables", {}, learn)


def at_files(workspace: Workspace) -> Look:
    """List the files."""
    learn = partial(with_files, workspace)
    return Look("which files there are", "list_files", {"path": ".", "recursive": True}, learn)


def at_file(path: str, workspace: Workspace, *, values: bool = False) -> Look | Say:
    """Load a table file into an unused variable, for its columns, and perhaps their values.

    If it is in doubt how to read the file, say so instead.
    """
    if doubt := explain_doubt(path, workspace):
        return doubt
    name = fresh(PurePosixPath(path).stem, workspace.variables)
    texts = f'{name}.select_dtypes(["object", "string", "category"])'
    lines = print_chain(texts, *_DIFFERENT, ".to_csv(index=False)") if values else []

    def learn(output: str) -> Workspace:
        table = Table(name, columns=read_schema(output))
        if values:
            pairs = block(output, ["variable", "value"])
            table = replace(table, values=tuple((column, value) for column, value in pairs))
        known = workspace.with_table(table)
        return replace(known, loaded={**known.loaded, path: name})

    code = "\n".join([load_code(path, name, workspace), *lines])
    return Look(f"load {path}", "run_python", {"code": code}, learn)


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


def at_values(table: Table, workspace: Workspace) -> Look:
    """Get the values of a table's text columns."""
    texts = f"{table.name}[{literal(table.of_kind('text'))}]"
    if table.library == "polars":
        links = [".unpivot()", ".drop_nulls()", ".unique(maintain_order=True)"]
        lines = print_chain(texts, *links, f".head({_MAX_VALUES})", ".write_csv()")
    else:
        lines = print_chain(texts, *_DIFFERENT, ".to_csv(index=False)")

    def learn(output: str) -> Workspace:
        pairs = tuple((column, value) for column, value in block(output, ["variable", "value"]))
        return workspace.with_table(replace(table, values=pairs))

    return Look(f"values in {table.name}", "run_python", {"code": script(*lines)}, learn)
