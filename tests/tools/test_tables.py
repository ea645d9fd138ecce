"""Tables in files as they are described: those of pandas, and databases of SQLite."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import sqlite3
import zipfile
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import openpyxl
import pandas as pd
import polars as pl
import pytest

from ipyagent.tools.tables import MOST_BYTES, describe_table, table_ending
from ipyagent.tools.tables.sample import NotTableError, approximate
from ipyagent.tools.workspace import Workspace

NARROW, QUOTE = "\u202f", "\N{RIGHT SINGLE QUOTATION MARK}"


def describe(root: Path, name: str, data: str | bytes | None = None) -> str:
    """The description of a file, with this content if it is given."""
    if data is not None:
        (root / name).write_bytes(data.encode() if isinstance(data, str) else data)
    text = describe_table(Workspace(root), name, MOST_BYTES)
    assert len(text.encode()) <= MOST_BYTES
    return text


def refused(root: Path, name: str, data: str | bytes | None = None) -> str:
    """Why a file is not described."""
    with pytest.raises(NotTableError) as caught:
        describe(root, name, data)
    return str(caught.value)


def profile(text: str) -> dict[str, list[str]]:
    """The rows of the profile by column: dtype, nulls, unique, values."""
    block = next(part for part in text.split("\n\n") if part.startswith("column"))
    rows = [[cell for cell in line.split("  ") if cell] for line in block.splitlines()[1:]]
    return {row[0]: [cell.strip() for cell in row[1:]] for row in rows}


def workbook(*sheets: list[list[Any]]) -> bytes:
    book, buffer = openpyxl.Workbook(), io.BytesIO()
    for number, rows in enumerate(sheets):
        sheet = book.active if number == 0 else book.create_sheet()
        for row in rows:
            sheet.append(row)
    book.save(buffer)
    return buffer.getvalue()


def written(write: Callable[[io.BytesIO], object]) -> bytes:
    buffer = io.BytesIO()
    write(buffer)
    return buffer.getvalue()


def packed(name: str, data: bytes) -> bytes:
    return written(lambda file: zipfile.ZipFile(file, "w").writestr(name, data))


def rows_of(count: int, line: str = "{n},name {n}\n") -> str:
    return "".join(line.format(n=n) for n in range(count))


FRAME = pd.DataFrame({"a": [1, 2], "b": ["x", None]})
PRICES = b"city;v\nOslo;1,5\nRome;2,5\n"
LONG_CELL = "\n".join(f'line {n}, ""said""' for n in range(120))
FILES: list[tuple[str, str | bytes, str]] = [
    # separators
    ("t.csv", "id,name\n1,Anna\n2,\n", ""),
    ("t.csv", "a|b\n1|2\n", "sep='|'"),
    ("t.csv", "city\tv\nOslo, N\t1\nRome, I\t2\n", "sep='\\t'"),
    ("t.csv", "city^v\nOslo^1\nRome^2\n", "sep='^'"),
    ("t.csv", '"height" "weight" "name"\n"1" 1.5 60 "a"\n"2" 1.6 70 "b"\n', "sep='\\\\s+'"),
    ("t.csv", " yr  mo  v\n1990   1  -2.5\n1990   2   3.5\n", "sep='\\\\s+'"),
    ("t.csv", "1.5e-3 2.5e+1\n" * 5, "sep='\\\\s+', header=None"),
    ("t.tsv", "city\tv\nOslo\t1\nRome\t2\n", "sep='\\t'"),
    ("t.csv", b"sep=;\n" + PRICES, "sep=';', skiprows=1, decimal=','"),
    # lines above, beside and below the rows
    ("t.csv", "Sales report 2024\nPrinted 3 May\n\ncity,v\nOslo,1\nRome,2\n", "skiprows=3"),
    ("t.csv", "Sales, 2024\nPrinted, May\n\ncity,v\nOslo,1\nRome,2\n", "skiprows=3"),
    ("t.csv", "Sales 2024,,\ncity,v,n\nOslo,1,2\nRome,3,4\n", "skiprows=1"),
    ("t.csv", "# by hand\ncity,v\nOslo,1\n# later\nRome,2\n", "comment='#'"),
    ("t.csv", "a,b\n1,2\n# a remark\n3,4\n", "comment='#'"),
    ("t.csv", "#chrom\tstart\nx\t1\ny\t2\n", "sep='\\t'"),
    ("t.csv", "a,b\n#DIV/0!,2\n#N/A,4\n5,6\n", ""),
    ("t.csv", "Oslo,1\nRome,2\n", "header=None"),
    ("t.csv", "country,1960,1961,1962\nx,1.5,2,3\ny,1.5,2,3\n", ""),
    ("t.csv", "a,b\nr1,1,2\nr2,3,4\n", ""),
    ("t.csv", "city,v\nOslo,100,\nRome,103,\n", "usecols=range(0, 2)"),
    ("t.csv", "city,v\nOslo,100,10,,\n".replace("v\n", "v,n\n"), "usecols=range(0, 3)"),
    ("t.csv", "\n".join([",".join("ab"), *["1,2"] * 300, "3,4"]), ""),
    # signs and codes
    ("t.csv", PRICES, "sep=';', decimal=','"),
    ("t.csv", "a;b\nx;1.234,5\ny;5,5\n", "sep=';', decimal=',', thousands='.'"),
    ("t.csv", f"a;b\nx;1{NARROW}234,5\ny;5,5\n",
     f"sep=';', decimal=',', thousands={NARROW!r}, engine='python'"),
    ("t.csv", f"a;b\nx;1{QUOTE}234.5\ny;5.5\n", f"sep=';', thousands={QUOTE!r}, engine='python'"),
    ("t.csv", 'a,b\nx,"1,234"\ny,"2,236"\n', "thousands=','"),
    ("t.csv", "a;b\nx;1,234,567\ny;1,234\n", "sep=';', thousands=','"),
    ("t.csv", "a;b\nx;1,234\ny;5,678\n", "sep=';'"),  # may be either: it stays text
    ("t.csv", "a;b;c\nx;1,5;1.5\n", "sep=';'"),  # a number would change
    ("t.csv", "ip;v\n1.2.3;1.234,5\n", "sep=';', decimal=',', thousands='.', dtype={'ip': str}"),
    ("t.csv", 'a,l\n"1,234","1,2,3"\n', "thousands=',', dtype={'l': str}"),
    ("t.csv", "d;v\n31.01.2024;1.234,5\n",
     "sep=';', decimal=',', thousands='.', dtype={'d': str}"),
    ("t.csv", "a,b\nx,-\ny,2\nz,5\n", "na_values=['-']"),
    ("t.csv", "a,b\n-,-\ny,2\nz,5\n", "na_values={'b': ['-']}"),
    ("t.csv", "a,b\nx,none\ny,2\n", ""),
    ("t.csv", "zip,n\n02013,1\n02014,2\n", "dtype={'zip': str}"),
    ("t.csv", "id,n\n12345678901234567,1\n,2\n", "dtype={'id': str}"),
    ("t.csv", 'a,b\n1, "x, y"\n2, "z, w"\n', "skipinitialspace=True"),
    # quotes
    ("t.csv", 'city,v\n"Os\\"lo, N",1\n"Rome",2\n', "escapechar='\\\\'"),
    ("t.csv", 'a,b\n"5 pipe,1\n6 pipe,2\n', "quoting=3"),
    ("t.csv", "id,text,score\n" + "".join(f'{n},"{LONG_CELL}",{n / 4}\n' for n in range(50)), ""),
    # encodings
    ("t.csv", "city;v\nKöln;1\nOslo;2\n".encode("cp1252"), "sep=';', encoding='cp1252'"),
    ("t.csv", "city;v\nKöln;1\nOslo;2\n".encode("utf-16"), "sep=';', encoding='utf-16'"),
    ("t.csv", "preis €,b\nKöln,1\nUlm,2\n".encode("utf-16-le"), "encoding='utf-16-le'"),
    ("t.csv", "preis €,ort\n1,Köln\n2,Ulm\n".encode("iso8859_15"), "encoding='iso8859_15'"),
    ("t.csv", "cena,miasto\n1,Łódź Wrocław\n".encode("cp1250"), "encoding='cp1250'"),
    ("t.csv", "a,b\n1,2\n".encode("utf-8-sig"), ""),
    ("t.csv", ("city,v\n" + rows_of(5_000) + "Köln,5\n").encode("cp1252"), "encoding='cp1252'"),
    # packed
    ("t.csv.gz", gzip.compress(PRICES, mtime=0), "sep=';', decimal=','"),
    ("t.csv.bz2", bz2.compress(PRICES), "sep=';', decimal=','"),
    ("t.csv.zip", packed("t.csv", PRICES), "sep=';', decimal=','"),
    ("t.tsv.xz", lzma.compress(PRICES.replace(b";", b"\t")), "sep='\\t', decimal=','"),
    # JSON
    ("t.json", json.dumps([{"a": 1, "b": "x"}, {"a": None, "b": "y"}]), ""),
    ("t.json", json.dumps([{"zip": "02013"}, {"zip": "02014"}]), "dtype={'zip': str}"),
    ("t.json", '{"columns": ["a", "v"], "index": [0, 1], "data": [[5, 1], [6, 2]]}',
     "orient='split'"),
    ("t.json", '{"0": {"a": "x", "v": 1}, "1": {"a": "y", "v": 2}}', "orient='index'"),
    ("t.json", '{"a": {"0": "x", "1": "y"}, "v": {"0": 1, "1": 2}}', ""),
    ("t.json", '[{"v": 1}, {"v": 2}]'.encode("utf-8-sig"), "encoding='utf-8-sig'"),
    ("t.jsonl", '{"v": 1}\n{"v": 2}\n', "lines=True"),
    ("t.json.gz", gzip.compress(b'[{"v": 1}, {"v": 2}]', mtime=0), ""),
    # Excel
    ("t.xlsx", workbook([["a", "b"], [1, "x"], [2, "y"]]), ""),
    ("t.xlsx", workbook([["Report"], [], ["zip", "n"], ["02013", 1], ["02014", 2]]),
     "skiprows=2, dtype={'zip': str}"),
    ("t.xlsx", workbook([], [["day"], [date(2024, 1, 31)]]), "sheet_name='Sheet1'"),
    # declared types
    ("t.dta", written(lambda file: FRAME.to_stata(file, write_index=False)), ""),
]  # fmt: skip
"""The name of a file, its content, and the options of the call beside the file's name."""

READERS = {"csv": "csv", "tsv": "csv", "json": "json", "jsonl": "json", "xlsx": "excel"}


def test_a_file_is_described_as_the_call_loads_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    wrong = {}
    for name, data, options in FILES:
        reader = READERS.get(name.split(".")[1], "stata")
        call = f"pd.read_{reader}({name!r}{', ' if options else ''}{options})"
        try:
            text = describe(tmp_path, name, data)
        except NotTableError as error:
            text = f"\n{error}"
        said = text.splitlines()[1].removeprefix("read with: ")
        found = []
        if said != call:
            found.append(f"{said}, not {call}")
        else:
            frame = eval(said, {"pd": pd})
            size = f", {len(frame):,} rows × {frame.shape[1]} columns"
            found += [] if size in text.splitlines()[0] else [f"{text.splitlines()[0]}, not {size}"]
            types = [row[0] for row in profile(text).values()]
            found += [] if types == [str(each) for each in frame.dtypes] else [f"{types}"]
        if found:
            wrong[name, data] = found
    assert wrong == {}


def test_a_plain_file_gets_the_form_of_a_variable(tmp_path: Path) -> None:
    assert describe(tmp_path, "t.csv", "id,name,born\n1,Anna,1952-03-01\n2,,1957-10-12\n") == (
        "t.csv: CSV file, 2 rows × 3 columns\n"
        "read with: pd.read_csv('t.csv')\n\n"
        "column  dtype  nulls  unique  values\n"
        "id      int64  0      2       1 to 2\n"
        "name    str    1      1       Anna\n"
        "born    str    0      2       1952-03-01, 1957-10-12\n\n"
        "first lines and the last one:\n"
        "  id,name,born\n  1,Anna,1952-03-01\n  2,,1957-10-12"
    )


def test_oddities_of_a_file_are_said_as_of_a_variable(tmp_path: Path) -> None:
    text = describe(tmp_path, "t.csv", "city,n\nOslo,1\noslo,2\nRome,4\nRome,4\nsum,11\n")
    assert "1 repeated rows" in text
    assert "city: Oslo and oslo differ only in case or blanks" in text
    assert "the last row is the sum of the rows above in n" in text


@pytest.mark.slow
def test_of_a_large_file_both_ends_are_read_and_rows_are_counted(tmp_path: Path) -> None:
    rows = rows_of(200_000)
    text = describe(tmp_path, "t.csv", f"id,name\n{rows}")
    assert "CSV file, 200,000 rows × 2 columns" in text
    assert "types, nulls, unique: from " in text
    assert profile(text)["id"][1].startswith("0 of ")
    text = describe(tmp_path, "t.csv", f"id,name\n{rows}unknown,last\n")
    assert profile(text)["id"][0] == "str", "the end is read, too"
    cells = "".join(f'{n},"a\nb"\n' for n in range(200_000))
    assert "200,000 rows" in describe(tmp_path, "t.csv", f"id,text\n{cells}"), "not lines"


def test_about_has_two_digits() -> None:
    assert [approximate(n) for n in (99, 34_449, 1_234_567, 99_600_000, 2_500_000_000)] == [
        *("about 99", "about 34,000", "about 1.2 M", "about 100 M", "about 2.5 G")
    ]


def test_each_visible_sheet_has_a_line(tmp_path: Path) -> None:
    sheets = [["a"], [1]], [["b", "c"], [1, 2]], [["d"], [1]], [["e"], [1]]
    book = openpyxl.load_workbook(io.BytesIO(workbook(*sheets)))
    book["Sheet2"].sheet_state, book["Sheet3"].sheet_state = "hidden", "veryHidden"
    text = describe(tmp_path, "t.xlsx", written(book.save))
    assert "Sheet2" not in text
    assert "Sheet3" not in text
    assert text.startswith("t.xlsx: Excel sheet 'Sheet', 1 rows × 1 columns")
    assert "Excel sheet 'Sheet1', 1 rows × 2 columns (b: int64, c: int64)" in text
    assert "pd.read_excel('t.xlsx', sheet_name='Sheet1')" in text


def test_polars_reads_what_pandas_would_need_pyarrow_for(tmp_path: Path) -> None:
    pytest.importorskip("polars")
    frame = pl.DataFrame({"id": [1, 2, None], "name": ["a", "b", "c"]})
    for name, write in {"t.parquet": frame.write_parquet, "t.feather": frame.write_ipc}.items():
        text = describe(tmp_path, name, written(write))
        assert ", 3 rows × 2 columns" in text
        assert profile(text)["id"][1:] == ["1", "3", "1 to 2"] or "1 to 2" in text


def test_arrays_are_described_by_shape_and_type(tmp_path: Path) -> None:
    numpy = pytest.importorskip("numpy")
    array = numpy.arange(6.0).reshape(2, 3)
    text = describe(tmp_path, "t.npy", written(lambda file: numpy.save(file, array)))
    assert "shape (2, 3), float64" in text
    assert "read with: np.load('t.npy')" in text
    text = describe(tmp_path, "t.npz", written(lambda file: numpy.savez(file, first=array)))
    assert "first: shape (2, 3), float64" in text
    objects = numpy.array([print], dtype=object)
    data = written(lambda file: numpy.save(file, objects, allow_pickle=True))
    assert "ValueError" in refused(tmp_path, "t.npy", data), "nothing is unpickled"


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        ("t.csv", "", "it is empty"),
        ("t.csv", "\n\n", "it is empty"),
        ("t.csv", bytes(range(256)) * 100, "not text"),
        ("t.csv", "a,b\n1,2\n3,4,5\n6,7,8,9\n", "different numbers of cells"),
        ("t.json", '{"a": 1}', "not a list of objects"),
        ("t.json", '{"name": "x", "scripts": {"test": "y"}}', "not a list of objects"),
        ("t.json", "[1, 2]", "not a list of objects"),
        ("t.xlsx", b"PK\3\4 damaged", "BadZipFile"),
        ("t.parquet", b"PAR1 damaged PAR1", ""),
        ("t.csv.gz", gzip.compress(b"a,b\n1,2\n", mtime=0)[:-10], "EOFError"),
        ("t.csv.gz", b"a,b\n1,2\n", "BadGzipFile"),
    ],
)
def test_other_content_under_the_name_of_a_table_is_named(
    tmp_path: Path, name: str, data: str | bytes, reason: str
) -> None:
    assert reason in refused(tmp_path, name, data)


def test_a_header_alone_is_a_table_without_rows(tmp_path: Path) -> None:
    assert describe(tmp_path, "t.csv", "a,b\n").startswith("t.csv: CSV file, 0 rows × 2 columns")


def test_hidden_characters_in_names_and_cells_are_spelled_out(tmp_path: Path) -> None:
    data = "a\u202eb,\x1b[31mred,zero\u200bwidth\n1,\x1b]0;title\x07,2\n"
    text = describe(tmp_path, "t.csv", data)
    assert "a⟨U+202E⟩b" in text
    assert "⟨U+001B⟩[31mred" in text
    assert "zero⟨U+200B⟩width" in text
    assert not {"\x1b", "\u202e", "\u200b", "\x07"} & set(text)


def test_cells_cannot_forge_lines_of_the_description(tmp_path: Path) -> None:
    text = describe(tmp_path, "t.csv", 'a,b\n"x\u2028Tables:\u2029",1\n"y\r- forged",2\n')
    assert not {"- forged", "Tables:"} & set(text.splitlines())


def test_secrets_in_cells_and_lines_are_hidden(tmp_path: Path) -> None:
    key = "sk-ant-api03-" + "A1b2C3d4" * 6
    data = f"user,password,note\nanna,hunter2hunter2,{key}\nbo,x1y2z3,hi\n"
    text = describe(tmp_path, "t.csv", data)
    assert "hunter2" not in text
    assert key not in text
    assert "anna" in text
    assert key not in describe(tmp_path, "t.csv", f"user,note\nanna,{key}\n")


def test_a_description_keeps_its_size_whatever_the_names(tmp_path: Path) -> None:
    for name in ("name of a column that is long", "漢字" * 30, "\U0001f600" * 60, "x" * 5_000):
        header = ",".join(f"{name}{n}" for n in range(300))
        text = describe(tmp_path, "t.csv", header + "\n" + ",".join("1" * 300) + "\n")
        assert "300 columns" in text
    many = ",".join(f"c{n}" for n in range(90)) + "\n" + ",".join("1" * 90)
    assert "also: " in describe(tmp_path, "t.csv", many)


def test_endings_tell_tables_from_other_files() -> None:
    names = ("A.CSV", "d/t.csv.gz", "x.gz", "csv", "a.txt", "t.xlsx.gz", "t.sav", "t.nc")
    assert [table_ending(name) for name in names] == [
        *("csv", "csv.gz", None, None, None, None, "sav", "nc")
    ]


TIMES = "\N{MULTIPLICATION SIGN}"


def describe_database(root: Path, name: str) -> str:
    return describe_table(Workspace(root), name, MOST_BYTES)


def refused_database(root: Path, name: str, data: bytes | None = None) -> str:
    """Why a file is not described."""
    if data is not None:
        (root / name).write_bytes(data)
    with pytest.raises(NotTableError) as caught:
        describe_database(root, name)
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
    text = describe_database(tmp_path, "t.db")
    assert text.startswith(f"t.db: SQLite table 'people', 500 rows {TIMES} 2 columns")
    assert "id      integer, key" in text
    assert "\n1,n1\n" in text
    assert text.endswith(f"'odd \"name', 0 rows {TIMES} 1 columns (a: any type)")
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
        assert f"'t', {rows:,} rows" in describe_database(tmp_path, "t.db")
        assert (tmp_path / "t.db").read_bytes() == before
    connection.execute("BEGIN")
    connection.execute("INSERT INTO t VALUES (1)")
    assert "3,001 rows" in describe_database(tmp_path, "t.db"), "not committed"
    connection.execute("COMMIT")
    log = (tmp_path / "t.db-wal").read_bytes()
    for data in (log[:1_000], log[:-5], b"\xff" * 100, log[:8] + b"\0" * 100):
        (tmp_path / "t.db-wal").unlink()
        (tmp_path / "t.db-wal").write_bytes(data)
        assert "t.db: SQLite table 't', " in describe_database(tmp_path, "t.db")
    connection.close()


def test_what_an_index_of_texts_keeps_is_no_table_of_the_user(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "t.db")
    connection.executescript(
        "CREATE TABLE notes (a); INSERT INTO notes VALUES (1); CREATE TABLE found_on (b);"
        "CREATE VIRTUAL TABLE found USING fts5(a); INSERT INTO found VALUES ('x'), ('y'), ('z');"
    )
    connection.commit()
    connection.close()
    text = describe_database(tmp_path, "t.db")
    assert text.startswith("t.db: SQLite table 'notes', 1 rows")
    assert "found_on" in text
    assert "found_data" not in text
    assert "virtual or internal tables, not read" in text


def test_a_view_that_never_ends_is_not_run(tmp_path: Path) -> None:
    endless = MANY.replace(" WHERE i < {}", "") + "SELECT i FROM n"
    database(tmp_path, "CREATE TABLE t (a)", f"CREATE VIEW v AS {endless}")
    text = describe_database(tmp_path, "t.db")
    assert "view v, not run" in text
    assert "SQLite table 't', 0 rows" in text


def test_a_schema_cannot_run_functions(tmp_path: Path) -> None:
    slow = "hex(zeroblob(900000))"
    path = database(tmp_path, f"CREATE TABLE t (a, b AS ({slow}))", "INSERT INTO t VALUES (1)")
    plain = sqlite3.connect(path)
    assert len(plain.execute("SELECT b FROM t").fetchone()[0]) == 1_800_000, "a plain reader does"
    plain.close()
    assert "1 generated columns, not computed" in describe_database(tmp_path, "t.db")


def test_a_large_database_is_read_in_part(tmp_path: Path) -> None:
    path = database(
        tmp_path,
        "CREATE TABLE t (a INTEGER, b TEXT)",
        MANY.format(40) + "INSERT INTO t SELECT i, hex(zeroblob(500000)) FROM n",
    )
    assert path.stat().st_size > 32_000_000
    text = describe_database(tmp_path, "t.db")
    assert text.startswith(f"t.db: SQLite table 't', rows not counted {TIMES} 2 columns")
    assert "only the first 4 MB" in text
    assert "\n1,0000" in text


def test_damaged_databases_say_so(tmp_path: Path) -> None:
    path = database(tmp_path, "CREATE TABLE t (a)")
    data = bytearray(path.read_bytes())
    data[100:200] = b"\xff" * 100
    assert "cannot be read" in refused_database(tmp_path, "t.db", bytes(data))
    assert "not a SQLite database" in refused_database(tmp_path, "u.db", b"x" * 1_000)
    database(tmp_path, name="empty.db")
    assert "not a SQLite database" in refused_database(tmp_path, "empty.db")
