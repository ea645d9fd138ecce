"""The tool `query`: SQL over tables, in variables and in files, by DuckDB. It can only read.

The database is in memory and ends with the query. It reaches no file but those that the query
names and the workspace has opened for it, loads no extension and runs no Python code.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from importlib.util import find_spec
from typing import TYPE_CHECKING

from ipyagent.errors import AgentError, InvalidArgumentsError
from ipyagent.plaintext import spell
from ipyagent.schema import ToolResult
from ipyagent.tools.base import Tool, Where, tool
from ipyagent.tools.file_tools import FilePattern
from ipyagent.tools.workspace import Workspace
from ipyagent.values.describe import compact_value
from ipyagent.values.describe.safe_inspect import one_line
from ipyagent.values.variables.tables import PANDAS, kind_of

if TYPE_CHECKING:
    import pandas as pd
    from duckdb import DuckDBPyConnection

_READERS = {"csv": "read_csv", "tsv": "read_csv", "parquet": "read_parquet"} | dict.fromkeys(
    ("json", "jsonl", "ndjson"), "read_json"
)
_FILE = re.compile(rf".+\.({'|'.join(_READERS)})(?:\.(gz|zst))?", re.IGNORECASE | re.DOTALL)
_PACKED = {None: "", "gz": ", compression = 'gzip'", "zst": ", compression = 'zstd'"}
_QUOTED = re.compile(r"'((?:[^']|'')*)'|\"((?:[^\"]|\"\")*)\"")
_READS = re.compile(r"\bread_\w+\s*\([^()]*\)", re.IGNORECASE)
_PLAIN = frozenset(
    {type(None), bool, int, float, str, bytes, Decimal, date, datetime, time, timedelta}
)
"""Types of objects in a column of pandas; DuckDB would call the code of others."""
_KINDS = frozenset({"SELECT", "EXPLAIN", "MULTI"})
"""Kinds of statements that may run; the last is that of PIVOT."""
_VECTOR = 2_048
"""Rows that DuckDB returns at once."""
_MOST_FILES, _ROWS = 500, 50 * _VECTOR
"""Files that a query may name, and rows of its result."""
_SPILL, _AGAIN = "10GB", 0.05
"""The most that lies in its folder, and seconds until a query is interrupted once more."""
_ADVICE = (
    "query reads pandas, polars and Arrow tables by their names, and CSV, Parquet and JSON files "
    "of the workspace by their paths in quotes: FROM 'data/*.csv'"
)


class QueryTool:
    """The tool that answers queries."""

    def __init__(self, variables: Callable[[], Mapping[str, object]], workspace: Workspace) -> None:
        self._variables, self._workspace = variables, workspace

    def as_tool(self) -> Tool:
        """Return it as a tool, which needs no approval."""
        return tool(
            where=Where.LOOP,
            paths=lambda sql: [path for paths in self._find_files(sql).values() for path in paths],
            source=lambda sql: "\n".join(map(spell, self._find_files(sql))) or None,
            always_asks=self._find_concern,
        )(self.query)

    async def query(self, sql: str) -> ToolResult:
        """Answer a SQL query (DuckDB) over tables and files: FROM sales, FROM 'data/*.csv'.

        Only reads. Use it for large files: what is more than memory is no problem.
        """
        import duckdb  # most prompts send no query

        with contextlib.ExitStack() as stack:
            connection = stack.enter_context(duckdb.connect(":memory:"))
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="ipyagent-"))
            job = asyncio.to_thread(self._answer, connection, sql, folder)
            answering = asyncio.ensure_future(job)
            try:
                return await asyncio.shield(answering)
            except asyncio.CancelledError:
                while not answering.done():  # it may not have begun
                    connection.interrupt()
                    await asyncio.wait([answering], timeout=_AGAIN)
                answering.exception()
                raise
            except duckdb.Error as error:
                raise self._explain(error) from None

    def _answer(self, connection: DuckDBPyConnection, sql: str, folder: str) -> ToolResult:
        kinds = [each.type.name for each in connection.extract_statements(sql)]
        if len(kinds) != 1 or kinds[0] not in _KINDS:
            raise InvalidArgumentsError("a query is one statement that reads, such as SELECT")
        with contextlib.ExitStack() as files:
            opened = {
                name: [files.enter_context(self._workspace.open_file(path)) for path in paths]
                for name, paths in self._find_files(sql).items()
            }
            places = {
                name: [f"/proc/self/fd/{each.fileno()}" for each in several]
                for name, several in opened.items()
            }
            confine(connection, [place for each in places.values() for place in each], folder)
            for name, several in places.items():
                connection.execute(_write_view(name, several))
            notes = list(self._register(connection, sql))
            connection.execute("SET lock_configuration = true")
            connection.execute(_READS.sub(lambda found: _name_places(found[0], places), sql))
            if kinds == ["EXPLAIN"]:
                return ToolResult(output="\n".join(plan for _, plan in connection.fetchall()))
            return _make_result(connection, notes)

    def _register(self, connection: DuckDBPyConnection, sql: str) -> Iterator[str]:
        """Show the tables that the query names; yield what of them it does not see."""
        words = {each.lower() for each in re.findall(r"\w+", sql)}
        for name, value in {**self._variables()}.items():
            if name.lower() in words and _is_table(value):
                if kind_of(value) in PANDAS:
                    value, hidden = _drop_objects(value)
                    if hidden:
                        yield f"(Columns of {name} that hold objects were left out: {hidden}.)"
                elif find_spec("pyarrow") is None:
                    raise AgentError(f"to query {name}, a table of polars, install pyarrow")
                connection.register(name, value)

    def _find_files(self, sql: str) -> dict[str, list[str]]:
        """Return the files of the workspace that a query names, by the name or pattern."""
        found = dict[str, list[str]]()
        for name in {text or other for text, other in _QUOTED.findall(sql)}:
            if not _FILE.fullmatch(name):
                continue
            if self._workspace.is_file(name):
                found[name] = [self._workspace.relative_path(name)]
            elif "*" in name or "?" in name:
                with contextlib.suppress(AgentError):
                    found[name] = self._match_files(FilePattern(name))
        return {name: paths for name, paths in found.items() if paths}

    def _match_files(self, pattern: FilePattern) -> list[str]:
        files, _ = self._workspace.find_files()
        named = sorted(each.path for each in files if pattern.matches(each.path))
        if len(named) > _MOST_FILES:
            raise InvalidArgumentsError(f"a query reads at most {_MOST_FILES} files")
        return [path for path in named if self._workspace.is_file(path)]

    def _find_concern(self, sql: str) -> str | None:
        paths = (path for several in self._find_files(sql).values() for path in several)
        return next(filter(None, map(self._workspace.read_approval_reason, paths)), None)

    def _explain(self, error: Exception) -> AgentError:
        """Return the error for the model; DuckDB proposes its own tables."""
        text = str(error).partition("Did you mean")[0].rstrip("!? \n")
        tables = [name for name, value in {**self._variables()}.items() if _is_table(value)]
        there = f". Tables: {', '.join(tables)}" if tables else ""
        is_missing = type(error).__name__ in ("CatalogException", "PermissionException")
        return InvalidArgumentsError(f"{text}\n{_ADVICE}{there}" if is_missing else text)


def confine(connection: DuckDBPyConnection, places: list[str], folder: str) -> None:
    """Let a database reach no more than these files, and its own folder for what is too large."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 4
    for setting in (
        "python_enable_replacements = false",
        f"allowed_paths = [{', '.join(map(_quote, places))}]",
        f"memory_limit = '{memory}B'",
        f"temp_directory = {_quote(folder)}",
        f"max_temp_directory_size = '{_SPILL}'",
        "enable_external_access = false",
    ):
        connection.execute(f"SET {setting}")


def _quote(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _write_view(name: str, places: list[str]) -> str:
    """Return the statement that shows files under the name by which a query names them."""
    kind, packed = _FILE.fullmatch(name).groups()  # type: ignore[union-attr]
    options = _PACKED[packed and packed.lower()]
    listed = ", ".join(map(_quote, places))
    view = '"' + name.replace('"', '""') + '"'
    return f"CREATE VIEW {view} AS FROM {_READERS[kind.lower()]}([{listed}]{options})"


def _name_places(call: str, places: Mapping[str, list[str]]) -> str:
    """Return a call of a reading function with the places of the files that it names."""

    def replace(found: re.Match[str]) -> str:
        several = places.get(found[1] or found[2] or "")
        if several is None:
            return found[0]
        listed = ", ".join(map(_quote, several))
        return listed if "[" in call or len(several) == 1 else f"[{listed}]"

    return _QUOTED.sub(replace, call)


def _is_table(value: object) -> bool:
    kind = kind_of(value)
    return kind is not None and kind[1] != "Series"


def _drop_objects(table: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """Return a table without the columns that hold objects, and the names of these."""
    if any(name is not None for name in table.index.names):
        table = table.reset_index()
    kept = [number for number in range(table.shape[1]) if _is_plain(table.iloc[:, number])]
    gone = [one_line(str(each)) for n, each in enumerate(table.columns) if n not in kept]
    return table.iloc[:, kept] if gone else table, ", ".join(gone)


def _is_plain(column: pd.Series | pd.Index) -> bool:
    """Return whether a column of pandas holds only values that DuckDB reads by its own code."""
    dtype = column.dtype
    if type(dtype).__name__ == "CategoricalDtype":
        return _is_plain(dtype.categories)
    if type(dtype).__module__.partition(".")[0] not in ("numpy", "pandas"):
        return False
    return dtype.kind != "O" or str(dtype) != "object" or _PLAIN.issuperset(map(type, column))


def _make_result(connection: DuckDBPyConnection, notes: list[str]) -> ToolResult:
    """Return the first rows, as a table if a library for tables is loaded."""
    if "pandas" in sys.modules:
        value: object = connection.fetch_df_chunk(_ROWS // _VECTOR)
    else:
        names = [column[0] for column in connection.description or ()]
        rows = connection.fetchmany(_ROWS)
        value = [dict(zip(names, row, strict=True)) for row in rows]
        if (polars := sys.modules.get("polars")) is not None:
            value = polars.DataFrame(rows, schema=names, orient="row")
    if connection.fetchone() is not None:
        notes.append(f"(There are more rows: these are the first {_ROWS:,}.)")
    plain = str(value)
    text = "\n".join([compact_value(value, plain) or plain, *notes])
    return ToolResult(output=text, value=value)
