"""Queries by the user's own connections to SQLite are looks; what they change is noticed."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from ipyagent.schema import RehearsalOutcome
from rehearsal_trial import in_both_ways, judge, rehearse, run_in_fork
from sampling import cases

pytestmark = in_both_ways

MAKE = "create table t(a); insert into t values (1), (2); pragma user_version = 3"


@pytest.fixture(params=["file", "memory"])
def con(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[sqlite3.Connection]:
    path = tmp_path / "it's a 100%.db" if request.param == "file" else ":memory:"
    with closing(sqlite3.connect(path)) as made:
        made.executescript(MAKE)
        yield made


def look(code: str, con: sqlite3.Connection, root: Path, **given: Any) -> dict[str, Any]:
    return rehearse(code, {"con": con, "pd": pd, "sqlite3": sqlite3, **given}, root)


def is_clean(report: dict[str, Any]) -> bool:
    return not any(report[each] for each in ("variables", "unclear", "attempts", "files"))


@pytest.mark.parametrize(
    "code",
    cases(
        [
            "con.execute('select sum(a) from t').fetchone()[0]",
            "int(pd.read_sql('select sum(a) as s from t', con).s[0])",
            "sum(row[0] for row in con.execute('select a from t'))",
            "con.cursor().execute('select 3').fetchone()[0]",
            "con.total_changes * 0 + 3",
            "[3 for row in con.execute('PRAGMA table_info(t)')][0]",
            "len(con.execute('pragma main.index_list(t)').fetchall()) + 3",
        ]
    ),
)
def test_a_query_changes_nothing(tmp_path: Path, con: sqlite3.Connection, code: str) -> None:
    report = look(code, con, tmp_path)
    assert report["result"]["output"] == "3", report
    assert is_clean(report), report
    assert con.execute("select count(*) from t").fetchone() == (2,)


def test_in_a_plain_fork_a_query_reads_through_the_descriptor_of_the_kernel(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "shop.db")) as con:
        con.executescript(MAKE)
        code = "con.execute('insert into t values (3)'); con.commit()"
        run_in_fork(code, {"con": con})
        assert con.execute("select count(*) from t").fetchone() == (3,)
        look(code, con, tmp_path)
        assert con.execute("select count(*) from t").fetchone() == (3,)


@pytest.mark.parametrize(
    "code",
    ["con.execute('select nothing from t')", "pd.read_sql('selec a from t', con)",
     "con.execute('select a from tt')"],
)  # fmt: skip
def test_a_query_that_fails_is_for_the_model(
    tmp_path: Path, con: sqlite3.Connection, code: str
) -> None:
    judged = judge(code, {"con": con, "pd": pd}, tmp_path)
    assert judged.rehearsal.outcome is RehearsalOutcome.FAILED, judged.rehearsal


WRITES = [
    "con.execute('insert into t values (3)')",
    "con.executescript('insert into t values (3)')",
    "con.execute('create table u(a)')",
    "con.execute('pragma user_version = 4')",
    "con.execute('begin immediate')",
]


@pytest.mark.parametrize("code", WRITES)
def test_a_write_to_a_file_is_asked_about(tmp_path: Path, code: str) -> None:
    with closing(sqlite3.connect(tmp_path / "shop.db")) as con:
        con.executescript(MAKE)
        judged = judge(f"{code}\nNone", {"con": con}, tmp_path)
        assert judged.result is None, (judged.result, judged.rehearsal)


STAYS = [
    "con.execute('insert into t values (3)')",
    "con.execute('create temp table u(a)')",
    "con.row_factory = sqlite3.Row",
    "con.set_trace_callback(print)",
    "con.close()",
]


@pytest.mark.parametrize("code", STAYS)
def test_a_change_of_a_connection_stays_on_the_copy_and_is_named(tmp_path: Path, code: str) -> None:
    with closing(sqlite3.connect(":memory:")) as con:
        con.executescript(MAKE)
        judged = judge(f"{code}\nNone", {"con": con, "sqlite3": sqlite3}, tmp_path)
        assert judged.result is not None, judged.rehearsal
        assert judged.rehearsal.left == ("changes to con (Connection)",)


@pytest.mark.parametrize(
    ("setting", "row"),
    [
        ("con.row_factory = sqlite3.Row", "Row 1 x"),
        ("con.text_factory = bytes", "tuple 1 b'x'"),
        ("con.row_factory = lambda cursor, row: [*row, cursor.description[0][0]]", "list 1 x a"),
    ],
)
def test_rows_are_what_the_users_connection_makes_of_them(
    tmp_path: Path, con: sqlite3.Connection, setting: str, row: str
) -> None:
    exec(setting, {"con": con, "sqlite3": sqlite3})
    query = "con.execute(\"select a, 'x' as b from t\").fetchone()"
    report = look(f"row = {query}\nprint(type(row).__name__, *row)", con, tmp_path)
    assert report["result"]["output"].strip() == row, report


@pytest.mark.parametrize("rows", [1, 50_000])
def test_what_was_not_committed_is_read_too_or_asked_about(tmp_path: Path, rows: int) -> None:
    with closing(sqlite3.connect(tmp_path / "shop.db")) as con:
        con.executescript(f"pragma cache_size = 10; {MAKE}")
        con.executemany("insert into t values (?)", [[7]] * rows)
        code = "con.execute('select count(*) from t').fetchone()[0]"
        judged = judge(code, {"con": con}, tmp_path)
        assert judged.result is None or judged.result.output == str(rows + 2), judged


@pytest.mark.parametrize("query", ["max(a) from t", "name from sqlite_master"])
@pytest.mark.parametrize("way", ["hidden", "elsewhere", "closed"])
def test_a_database_that_the_copy_does_not_see_is_asked_about(
    tmp_path: Path, way: str, query: str
) -> None:
    root = tmp_path / "workspace"
    root.mkdir()
    path = {"hidden": root / ".env", "elsewhere": tmp_path / "a.db", "closed": root / "a.db"}[way]
    with closing(sqlite3.connect(path)) as con:
        con.executescript(MAKE)
        con.close() if way == "closed" else None
        judged = judge(f"con.execute('select {query}').fetchone()", {"con": con}, root)
        is_of_code = way == "closed"
        assert (judged.result is not None) == is_of_code, judged


def test_a_database_that_is_written_by_another_program_is_read_as_it_is(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "a.db")) as con:
        con.executescript(f"pragma journal_mode = wal; {MAKE}")
        with closing(sqlite3.connect(tmp_path / "a.db")) as writer:
            writer.execute("insert into t values (9)")
            writer.commit()
            report = look("con.execute('select max(a) from t').fetchone()[0]", con, tmp_path)
        assert report["result"]["output"] == "9" or not report["result"]["success"], report
