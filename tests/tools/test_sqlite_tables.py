"""Tables of SQLite databases: read by the standard library, without running what a schema holds."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from ipyagent.tools.tables import MOST_BYTES, describe_table
from ipyagent.tools.tables.sample import NotTableError
from ipyagent.tools.workspace import Workspace

TIMES = "\N{MULTIPLICATION SIGN}"


def describe(root: Path, name: str) -> str:
    return describe_table(Workspace(root), name, MOST_BYTES)


def refused(root: Path, name: str, data: bytes | None = None) -> str:
    """Why a file is not described."""
    if data is not None:
        (root / name).write_bytes(data)
    with pytest.raises(NotTableError) as caught:
        describe(root, name)
    return str(caught.value)


def database(root: Path, *statements: str, name: str = "t.db") -> Path:
    path = root / name
    path.unlink(missing_ok=True)
    connection = sqlite3.connect(path)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()
    return path


MANY = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {}) "


def test_tables_of_a_database_are_described(tmp_path: Path) -> None:
    database(
        tmp_path,
        "CREATE TABLE people (id INTEGER PRIMARY KEY, name TEXT)",
        MANY.format(500) + "INSERT INTO people SELECT i, 'n' || i FROM n",
        'CREATE TABLE "odd ""name" (a)',
        "PRAGMA journal_mode=WAL",
    )
    before = sorted(tmp_path.iterdir())
    text = describe(tmp_path, "t.db")
    assert text.startswith(f"t.db: SQLite table 'people', 500 rows {TIMES} 2 columns")
    assert "id      integer, key" in text
    assert "\n1,n1\n" in text
    assert "SQLite table 'odd \"name', 0 rows" in text
    assert sorted(tmp_path.iterdir()) == before, "no journal beside it"


def test_rows_in_the_write_ahead_log_are_rows(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "t.db", isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("CREATE TABLE t (a)")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    for count in (3_000, 1):
        connection.execute(MANY.format(count) + "INSERT INTO t SELECT i FROM n")
        before = (tmp_path / "t.db").read_bytes()
        rows = connection.execute("SELECT count(*) FROM t").fetchone()[0]
        assert f"'t', {rows:,} rows" in describe(tmp_path, "t.db")
        assert (tmp_path / "t.db").read_bytes() == before
    connection.execute("BEGIN")
    connection.execute("INSERT INTO t VALUES (1)")
    assert "3,001 rows" in describe(tmp_path, "t.db"), "not committed"
    connection.execute("COMMIT")
    log = (tmp_path / "t.db-wal").read_bytes()
    for data in (log[:1_000], log[:-5], b"\xff" * 100, log[:8] + b"\0" * 100):
        (tmp_path / "t.db-wal").unlink()
        (tmp_path / "t.db-wal").write_bytes(data)
        assert "t.db: SQLite table 't', " in describe(tmp_path, "t.db")
    connection.close()


def test_what_an_index_of_texts_keeps_is_no_table_of_the_user(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "t.db")
    connection.executescript(
        "CREATE TABLE notes (a); INSERT INTO notes VALUES (1); CREATE TABLE found_on (b);"
        "CREATE VIRTUAL TABLE found USING fts5(a); INSERT INTO found VALUES ('x'), ('y'), ('z');"
    )
    connection.commit()
    connection.close()
    text = describe(tmp_path, "t.db")
    assert text.startswith("t.db: SQLite table 'notes', 1 rows")
    assert "found_on" in text
    assert "found_data" not in text
    assert "virtual or internal tables, not read" in text


def test_a_view_that_never_ends_is_not_run(tmp_path: Path) -> None:
    endless = MANY.replace(" WHERE i < {}", "") + "SELECT i FROM n"
    database(tmp_path, "CREATE TABLE t (a)", f"CREATE VIEW v AS {endless}")
    text = describe(tmp_path, "t.db")
    assert "view v, not run" in text
    assert "SQLite table 't', 0 rows" in text


def test_a_schema_cannot_run_functions(tmp_path: Path) -> None:
    slow = "hex(zeroblob(900000))"
    path = database(tmp_path, f"CREATE TABLE t (a, b AS ({slow}))", "INSERT INTO t VALUES (1)")
    plain = sqlite3.connect(path)
    assert len(plain.execute("SELECT b FROM t").fetchone()[0]) == 1_800_000, "a plain reader does"
    plain.close()
    assert "1 generated columns, not computed" in describe(tmp_path, "t.db")


def test_a_large_database_is_read_in_part(tmp_path: Path) -> None:
    path = database(
        tmp_path,
        "CREATE TABLE t (a INTEGER, b TEXT)",
        MANY.format(40) + "INSERT INTO t SELECT i, hex(zeroblob(500000)) FROM n",
    )
    assert path.stat().st_size > 32_000_000
    text = describe(tmp_path, "t.db")
    assert text.startswith(f"t.db: SQLite table 't', rows not counted {TIMES} 2 columns")
    assert "only the first 4 MB" in text
    assert "\n1,0000" in text


def test_damaged_databases_say_so(tmp_path: Path) -> None:
    path = database(tmp_path, "CREATE TABLE t (a)")
    data = bytearray(path.read_bytes())
    data[100:200] = b"\xff" * 100
    assert "cannot be read" in refused(tmp_path, "t.db", bytes(data))
    assert "no SQLite database" in refused(tmp_path, "u.db", b"x" * 1_000)
    database(tmp_path, name="empty.db")
    assert "no SQLite database" in refused(tmp_path, "empty.db")
