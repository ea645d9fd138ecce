"""Facts about tables as objects, from the structures that their descriptions are written from."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from types import ModuleType
from typing import Literal

from ipyagent.errors import AgentError
from ipyagent.schema.facts import ColumnFacts, Kind, TableFacts
from ipyagent.tools.tables.inspect import sample_table
from ipyagent.tools.tables.sample import NotTableError
from ipyagent.tools.workspace import Workspace
from ipyagent.values.describe.libraries import table_of
from ipyagent.values.describe.python_values import module_title
from ipyagent.values.describe.safe_inspect import type_name
from ipyagent.values.describe.table import Column, Table

_SAMPLE, _CHOICES = 1_000, 200
"""Rows whose values are looked at, and the most different values of a column of choices."""
_KINDS: dict[Kind, str] = {
    "bool": "bool", "date": "datetime|date", "number": "u?int|float|decimal|number",
    "text": "str|string|object|category|utf8|categorical|enum|text",
}  # fmt: skip
_DAY = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d.*)?")


def list_table_facts(variables: Mapping[str, object]) -> Iterator[TableFacts]:
    """Yield the facts of the tables among the variables, the newest first."""
    for name in reversed([*variables]):
        with suppress(Exception):  # a table library's own object can be broken
            table = table_of(variables[name])
            if table is not None and not table.is_series:
                library: Literal["pandas", "polars"] = (
                    "polars" if type(variables[name]).__module__.startswith("polars") else "pandas"
                )
                columns = tuple(_list_columns(table))
                yield TableFacts(name, library=library, rows=table.rows, columns=columns)


def read_file_facts(workspace: Workspace, path: str, wait: float | None = None) -> TableFacts:
    """Return the facts of a table in a file; without columns if it is not described by then."""
    with suppress(AgentError, NotTableError, TimeoutError):
        samples = sample_table(workspace, path).result(wait)
        if not isinstance(samples, str):
            columns = tuple(_list_columns(samples[0].table()))
            call, rows = samples[0].call, samples[0].total
            return TableFacts(path=path, call=call, rows=rows, columns=columns)
    return TableFacts(path=path)


def name_types(variables: Mapping[str, object]) -> dict[str, str]:
    """Return the type of each variable, or the module that it is."""
    return {
        name: module_title(value) if type(value) is ModuleType else type_name(type(value))
        for name, value in variables.items()
    }


def _list_columns(table: Table) -> Iterator[ColumnFacts]:
    for column in table.columns:
        if type(column.label) is str:
            yield _describe_column(column, column.label, table.rows)


def _describe_column(column: Column, name: str, rows: int) -> ColumnFacts:
    dtype = column.dtype.partition(" with ")[0].casefold()
    kinds = (kind for kind, names in _KINDS.items() if re.match(names, dtype))
    kind: Kind = next(kinds, "other")
    if " with " in column.dtype:  # a sign that the library does not read
        kind = "text"
    choices: tuple[str, ...] = ()
    is_key = False
    with suppress(Exception):  # some types of columns cannot do it
        if kind == "text":
            texts = [each for each in column.values(slice(_SAMPLE)) if type(each) is str]
            kind = "date" if texts and all(map(_DAY.fullmatch, texts)) else kind
            choices = tuple(dict.fromkeys(texts))
        may_be_key = kind == "text" or dtype.startswith(("int", "uint"))
        is_key = bool(may_be_key and column.unique and column.unique() == rows > 1)
    few = choices if len(choices) <= _CHOICES and kind == "text" else ()
    return ColumnFacts(name, column.dtype, kind, few, is_key)
