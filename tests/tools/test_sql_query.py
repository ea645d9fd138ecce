"""`query`: SQL over tables in variables and files, which reads nothing else and writes nothing."""

from __future__ import annotations

import asyncio
import gzip
import os
import sys
from decimal import Decimal
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pytest

from harness import Lab, call
from ipyagent.agent.policy import Effect, Policy
from ipyagent.errors import AgentError
from ipyagent.schema import DecidedBy, ToolResult, ToolStatus
from ipyagent.tools.namespace_tools import QueryTool, confine
from ipyagent.tools.workspace import Workspace

duckdb = pytest.importorskip("duckdb")
CANARY = "a secret that is to stay one"


class Odd:
    """A class of the user's, whose code must not run."""

    calls = 0

    def __str__(self) -> str:
        Odd.calls += 1
        return "odd"

    __repr__ = __str__


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A workspace with tables and a secret, beside a file that nothing may read."""
    root = tmp_path / "workspace"
    (root / "data").mkdir(parents=True)
    (root / "data/may.csv").write_text("shop;sold\nA;1\nB;2\n")
    (root / "data/june.csv").write_text("shop;sold\nA;3\n")
    (root / "packed.csv.gz").write_bytes(gzip.compress(b"q,w\n1,2\n"))
    (root / "lines.jsonl").write_text('{"a": 1}\n{"a": 2}\n')
    pd.DataFrame({"z": [1, 2, 3]}).to_json(root / "z.json", orient="records")
    (root / ".env").write_text(f"KEY={CANARY}")
    (tmp_path / "outside.csv").write_text(f"a\n{CANARY}\n")
    (root / "link.csv").symlink_to(tmp_path / "outside.csv")
    return root


def tables() -> dict[str, Any]:
    """Tables of the user's, and other variables."""
    keyed = pd.DataFrame({"v": [1, 2]}, index=pd.Index(["p", "q"], name="key"))
    odd = pd.DataFrame({"a": [1, 2], "o": [Odd(), Odd()], "c": [Decimal(1), None]})
    odd["k"] = pd.Categorical.from_codes([0, 1], pd.Index([Odd(), Odd()], dtype=object))
    return {"keyed": keyed, "odd": odd, "fast": pl.DataFrame({"n": [1, 2, 3]}), "word": CANARY}


def ask(root: Path, sql: str, variables: dict[str, Any] | None = None) -> ToolResult:
    """Answer a query."""
    given = tables() if variables is None else variables
    return asyncio.run(QueryTool(lambda: given, Workspace(root)).query(sql))


ANSWERS = {
    "SELECT sum(sold) AS total FROM 'data/*.csv'": [(6.0,)],
    'SELECT count(*) AS n FROM "data/may.csv"': [(2,)],
    "SELECT * FROM read_csv('data/june.csv', delim = ';', header = true)": [("A", 3)],
    "SELECT count(*) AS n FROM read_csv(['data/june.csv', 'data/may.csv'])": [(3,)],
    "SELECT count(*) AS n FROM read_csv('data/*.csv')": [(3,)],
    "FROM 'packed.csv.gz'": [(1, 2)],
    "SELECT max(a) AS m FROM 'lines.jsonl'": [(2,)],
    "SELECT max(z) AS m FROM 'z.json'": [(3,)],
    "SELECT key, v FROM Keyed WHERE v > 1": [("q", 2)],
    "SELECT a, c FROM odd": [(1, Decimal(1)), (2, None)],
    "SELECT shop FROM 'data/may.csv' JOIN odd ON sold = a ORDER BY ALL": [("A",), ("B",)],
    "PIVOT 'data/may.csv' ON shop USING max(sold)": [(1, 2)],
    "WITH t AS (SELECT 1 AS x) FROM t": [(1,)],
}


@pytest.mark.parametrize("sql", ANSWERS)
def test_a_query_reads_tables_in_variables_and_in_files(root: Path, sql: str) -> None:
    found = ask(root, sql).value
    rows = [tuple(row) for row in found.astype(object).where(found.notna(), None).to_numpy()]
    assert rows == ANSWERS[sql]
    assert Odd.calls == 0


def test_the_model_reads_the_rows_and_what_was_left_out(root: Path) -> None:
    text = ask(root, "FROM odd").output
    assert "(Columns of odd that hold objects were left out: o, k.)" in text
    many = ask(root, "SELECT i FROM range(1000000) r(i)")
    assert len(many.value) == 102_400
    assert "(There are more rows: these are the first 102,400.)" in many.output
    assert "PANDAS_SCAN" in ask(root, "EXPLAIN FROM keyed").output.upper()


def test_without_pandas_a_result_is_a_table_of_polars_or_rows(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "pandas")
    found = ask(root, "FROM 'data/june.csv'", {})
    assert found.value.to_dicts() == [{"shop": "A", "sold": 3}]
    monkeypatch.delitem(sys.modules, "polars")
    assert ask(root, "FROM 'data/june.csv'", {}).value == [{"shop": "A", "sold": 3}]


REFUSED = [
    "COPY keyed TO 'out.csv'", "ATTACH 'x.db'", "INSTALL httpfs", "LOAD httpfs", "DROP TABLE x",
    "CREATE TABLE t AS SELECT 1", "SET memory_limit = '1GB'", "SELECT 1; SELECT 2", "",
    "PRAGMA enable_logging", "CALL enable_logging()", "EXPORT DATABASE 'x'", "VACUUM",
    "INSERT INTO keyed VALUES (1)",
]  # fmt: skip


def test_only_one_statement_that_reads_is_run(root: Path) -> None:
    before = sorted(root.rglob("*"))
    for sql in REFUSED:
        with pytest.raises(AgentError, match="one statement that reads"):
            ask(root, sql)
    assert sorted(root.rglob("*")) == before


MISSED = {
    "SELECT": "SELECT clause without selection list|syntax error",
    "FROM nowhere": "nowhere does not exist\nquery reads pandas.*Tables: keyed, odd, fast",
    "FROM '.env'": "does not exist\nquery reads",
    "FROM 'link.csv'": "Cannot access file.*\nquery reads",
    "FROM '../outside.csv'": "Cannot access file.*\nquery reads",
    "FROM word": "word does not exist",
    "SELECT nothing FROM keyed": "nothing",
    "SELECT * FROM read_text('.env')": "Cannot access file",
}


@pytest.mark.parametrize("sql", MISSED)
def test_what_a_query_cannot_have_is_said(root: Path, sql: str) -> None:
    with pytest.raises(AgentError, match=f"(?s){MISSED[sql]}") as caught:
        ask(root, sql)
    assert "Did you mean" not in str(caught.value)
    assert CANARY not in str(caught.value)


def test_a_table_that_is_computed_later_is_not_and_the_ways_are_named(root: Path) -> None:
    """A plan may call the user's functions, and read any file or server."""
    called: list[object] = []
    plan = pl.LazyFrame({"a": [1]}).map_batches(called.append)  # type: ignore[arg-type]
    relation = duckdb.sql("SELECT 1 AS a")
    for value, load in ((plan, "collect"), (relation, "fetchdf")):
        with pytest.raises(AgentError, match=rf"name the files .*, or Lazy\.{load}\(\) as a"):
            ask(root, "SELECT a FROM lazy", {"Lazy": value, "a": plan})
    assert not called


def list_functions() -> list[tuple[str, str]]:
    """Return the names and kinds of all functions that DuckDB has."""
    query = "SELECT DISTINCT function_name, function_type FROM duckdb_functions() ORDER BY ALL"
    found: list[tuple[str, str]] = duckdb.connect().execute(query).fetchall()
    return [(name, kind) for name, kind in found if name.replace("_", "").isalnum()]


def test_a_naive_connection_reads_what_is_outside(root: Path) -> None:
    connection = duckdb.connect()
    for sql in ("FROM '{}'", "SELECT content FROM read_text('{}')"):
        rows = connection.execute(sql.format(root.parent / "outside.csv")).fetchall()
        assert CANARY in str(rows)


@pytest.mark.spec("E09")
def test_no_function_of_duckdb_reaches_what_is_not_named_or_writes(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(root)
    monkeypatch.setenv("A_SECRET", CANARY)
    outside = str(root.parent / "outside.csv")
    targets = [outside, ".env", "link.csv", "A_SECRET", "/proc/self/environ"]
    before = {path: path.read_bytes() for path in root.parent.rglob("*") if path.is_file()}
    functions = list_functions()
    assert len(functions) > 500
    assert {"read_text", "glob", "read_csv"} <= {name for name, _ in functions}
    with duckdb.connect() as connection:
        confine(connection, [], str(root.parent / "spill"))
        connection.execute("SET lock_configuration = true")
        for target in targets:
            for name, kind in functions:
                is_table = kind in ("table", "table_macro", "pragma")
                given = f"{name}('{target}')"
                sql = f"SELECT * FROM {given}" if is_table else f"SELECT {given}"
                try:
                    found = connection.execute(sql).fetchall()
                except duckdb.Error:
                    continue
                assert CANARY not in str(found), sql
    assert {p: p.read_bytes() for p in root.parent.rglob("*") if p.is_file()} == before


def test_settings_are_locked_and_names_of_python_mean_nothing(root: Path) -> None:
    sys.modules["__main__"].__dict__["hidden_frame"] = pd.DataFrame({"a": [CANARY]})
    try:
        with pytest.raises(AgentError, match="does not exist"):
            ask(root, "FROM hidden_frame", {})
    finally:
        del sys.modules["__main__"].__dict__["hidden_frame"]
    names = ("enable_external_access", "lock_configuration")
    found = [ask(root, f"SELECT current_setting('{each}') AS s").value.s[0] for each in names]
    assert found == [False, True]


def test_a_stopped_query_ends_at_once(root: Path) -> None:
    sql = "SELECT count(*) FROM range(100000000000) r(i) WHERE md5(i::VARCHAR) LIKE 'zz%'"

    async def stop() -> int:
        asking = asyncio.ensure_future(QueryTool(dict, Workspace(root)).query(sql))
        await asyncio.sleep(0)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        return len(asyncio.all_tasks())

    assert asyncio.run(stop()) == 1


def test_files_that_a_query_names_are_its_sources_and_paths(root: Path) -> None:
    found = QueryTool(dict, Workspace(root)).as_tool()
    sql = "FROM 'data/*.csv', 'lines.jsonl', '.env', 'link.csv', 'none.csv'"
    assert found.paths is not None
    assert found.source is not None
    assert sorted(found.paths(sql=sql)) == ["data/june.csv", "data/may.csv", "lines.jsonl"]
    assert found.source(sql="SELECT 1") is None
    assert not found.sensitive
    os.link(root / "lines.jsonl", root / "again.jsonl")
    assert found.always_asks is not None
    assert "hard link" in str(found.always_asks(sql=sql))


def test_a_pattern_is_looked_up_once_for_each_query(root: Path) -> None:
    walks = []

    class Counting(Workspace):
        def walk(self, *args: Any, **options: Any) -> Any:
            walks.append(args)
            return super().walk(*args, **options)

    query, sql = QueryTool(dict, Counting(root)), "SELECT sum(sold)::INT AS s FROM 'data/*.csv'"
    found = query.as_tool()
    for number, total in enumerate([6, 106], 1):
        assert Policy().evaluate(found, {"sql": sql}).effect is Effect.ALLOW
        assert found.source is not None
        assert found.source(sql=sql) == "data/*.csv"
        assert asyncio.run(query.query(sql)).value.s.tolist() == [total]
        assert len(walks) == number
        (root / "data/july.csv").write_text("shop;sold\nA;100\n")


def test_a_run_queries_without_a_question(root: Path) -> None:
    lab = Lab(root, tables())
    run = lab.run([{"calls": [call("query", sql="SELECT sum(v) AS s FROM keyed")]}, "Done."])
    (found,) = run.executions
    assert found.status is ToolStatus.SUCCESS, found.result
    assert found.decided_by is DecidedBy.POLICY
    assert "3" in found.result.output


def test_a_table_of_polars_can_be_queried_where_pyarrow_is_installed(root: Path) -> None:
    sql = "SELECT sum(n)::INT AS s FROM fast"
    if find_spec("pyarrow") is None:
        with pytest.raises(AgentError, match="install pyarrow"):
            ask(root, sql)
    else:
        assert ask(root, sql).value.s.tolist() == [6]
