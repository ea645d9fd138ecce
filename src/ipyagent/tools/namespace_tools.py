"""Tools for the user's own variables: to list, describe and query them, and to run code.

Also the authors of a variable: runs, calls and cells. `query` runs SQL over tables, in variables
and in files, by DuckDB, and can only read: its database is in memory and ends with the query. It
reaches no file but those that the query names and the workspace has opened for it, loads no
extension and runs no Python code.
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import difflib
import os
import re
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from importlib.util import find_spec
from typing import TYPE_CHECKING

from ipyagent.errors import AgentError, InvalidArgumentsError
from ipyagent.globs import text_pattern
from ipyagent.kernel.namespace import Namespace, digest
from ipyagent.kernel.shell import CellNote
from ipyagent.plaintext import ellipsize, spell
from ipyagent.schema import Preview, Run, ToolExecution, ToolResult, VariableChange
from ipyagent.syntax import root_name, try_parse
from ipyagent.tools.base import Tool, Where, tool
from ipyagent.tools.file_tools import FilePattern
from ipyagent.tools.tracked_namespace import TrackedNamespace
from ipyagent.tools.workspace import Workspace
from ipyagent.values.describe import compact_value, describe
from ipyagent.values.describe.safe_inspect import one_line
from ipyagent.values.variables.tables import PANDAS, kind_of, loading_call

if TYPE_CHECKING:
    import pandas as pd
    from duckdb import DuckDBPyConnection

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
                    undone = ", taken back" if call.call.id in run.taken_back else ""
                    who = f"run {run.id}, call {call.call.id}{undone}"
                    line = code_line(_code(call), name, column)
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
            line = code_line(note.code, name, column)
            yield Author(note.at, note.changes[name], f"your cell{number}", line)


def code_line(code: str, name: str, column: str = "") -> str:
    """Return the line of code that most likely changed a variable, or one column of it."""
    lines, tree = code.splitlines(), try_parse(code)
    sets = sorted(_find_changes(tree, name)) if tree else []
    word = re.compile(rf"(?<![\w.]){re.escape(name)}(?!\w)")
    found = [lines[number - 1] for number in sets] or [each for each in lines if word.search(each)]
    found = [each for each in found if column in each] or found
    first = next(filter(str.strip, lines), "")
    return ellipsize(one_line((found or [first])[-1].strip(), LINE), LINE)


def _find_changes(tree: ast.Module, name: str) -> Iterator[int]:
    """Yield the numbers of the lines that bind a name, or change in place what it stands for."""
    for each in ast.walk(tree):
        match each:
            case ast.FunctionDef(name=bound) | ast.AsyncFunctionDef(name=bound):
                pass
            case ast.ClassDef(name=bound):
                pass
            case ast.alias(name=module, asname=given):
                bound = given or module.partition(".")[0]
            case ast.Name(ctx=ast.Store() | ast.Del()):
                bound = each.id
            case (
                ast.Attribute(ctx=ast.Store() | ast.Del())
                | ast.Subscript(ctx=ast.Store() | ast.Del())
            ):
                bound = root_name(each)
            # The last expression usually only shows something.
            case ast.Expr(value=ast.Call(func=ast.Attribute())) if each is not tree.body[-1]:
                bound = root_name(each.value)
            case ast.Call(keywords=keywords) if any(k.arg == "inplace" for k in keywords):
                bound = root_name(each)
            case _:
                continue
        if bound == name:
            yield each.lineno


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
        preview=lambda code, **_: Preview(kind="code", language="python", text=code),
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


def _unknown_variable_message(name: str, names: list[str]) -> str:
    close = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    if close:
        return f"there is no variable {name!r}; did you mean {', '.join(close)}?"
    if not name.isidentifier():
        return f"{name!r} is not a variable's name; use run_python to evaluate an expression"
    return f"there is no variable {name!r}; list_variables names the ones that exist"


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
        self._checked: dict[str, dict[str, list[str]]] = {}
        """The files of queries that were checked and have not run: patterns are looked up once."""

    def as_tool(self) -> Tool:
        """Return it as a tool, which needs no approval."""
        return tool(
            where=Where.LOOP,
            gives_way=True,  # others name their tools so, too
            paths=lambda sql: [path for paths in self._find_files(sql).values() for path in paths],
            source=lambda sql: "\n".join(map(spell, self._list_names(sql))) or None,
            always_asks=self._find_concern,
        )(self.query)

    async def query(self, sql: str) -> ToolResult:
        """Answer a SQL query (DuckDB) over tables and files: FROM sales, FROM 'data/*.csv'.

        Only reads. Use it for large files: they may be larger than memory.
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
                for name, paths in (self._checked.pop(sql, {}) or self._find_files(sql)).items()
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

    def _list_names(self, sql: str) -> Iterator[str]:
        """Yield the files that a query names, and its patterns."""
        for name in {text or other for text, other in _QUOTED.findall(sql)}:
            is_named = "*" in name or "?" in name or self._workspace.is_file(name)
            if is_named and _FILE.fullmatch(name):
                yield name

    def _find_files(self, sql: str) -> dict[str, list[str]]:
        """Return the files of the workspace that a query names, by the name or pattern."""
        found = dict[str, list[str]]()
        for name in self._list_names(sql):
            if self._workspace.is_file(name):
                found[name] = [self._workspace.relative_path(name)]
            else:
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
        self._checked[sql] = self._find_files(sql)
        paths = (path for several in self._checked[sql].values() for path in several)
        return next(filter(None, map(self._workspace.read_approval_reason, paths)), None)

    def _explain(self, error: Exception) -> AgentError:
        """Return the error for the model; DuckDB proposes its own tables."""
        text = str(error).partition("Did you mean")[0].rstrip("!? \n")
        tables = [name for name, value in {**self._variables()}.items() if _is_table(value)]
        there = f". Tables: {', '.join(tables)}" if tables else ""
        is_missing = type(error).__name__ in ("CatalogException", "PermissionException")
        words = {each.lower() for each in re.findall(r"\w+", text)}
        for name, value in self._variables().items() if is_missing else ():
            if name.lower() in words and (load := loading_call(value)):
                there = (
                    f". {name} is a {type(value).__name__}, which a query does not compute: name "
                    f"the files that it reads, or {name}{load} as a variable if it fits in memory"
                )
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
