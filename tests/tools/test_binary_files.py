"""Binary files: described by kind, size and contents; tables among them as tables."""

from __future__ import annotations

import sqlite3
import zipfile
from pathlib import Path

import pytest

from ipyagent.errors import InvalidArgumentsError
from ipyagent.tools.file_tools import FileReadTools, describe_binary, is_binary
from ipyagent.tools.workspace import Workspace


def describe(root: Path, name: str, data: bytes | None = None) -> str:
    if data is not None:
        (root / name).write_bytes(data)
    return describe_binary(Workspace(root), name)


@pytest.mark.parametrize("data", [b"plain", "wide".encode("utf-16"), "wide".encode("utf-16-le")])
def test_text_is_not_binary(data: bytes) -> None:
    assert not is_binary(data)


def test_kinds_are_known_by_their_first_bytes(tmp_path: Path) -> None:
    for start, kind in {
        b"%PDF-1.7": "PDF document",
        b"\x93NUMPY": "NumPy array",
        b"\x89HDF\r\n\x1a\n": "HDF5 file",
        b"PAR1": "Parquet file",
        b"\x28\xb5\x2f\xfd": "Zstandard file",
    }.items():
        data = start + b"\0" * 100
        assert is_binary(data)
        assert describe(tmp_path, "x", data).startswith(f"x: {kind}, 1")
    assert describe(tmp_path, "x.dat", b"\1\0\2\0\0") == (
        "x.dat: binary file (unknown type), 5 B; open it with code"
    )


def test_the_contents_of_zip_archives_are_listed(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("data/t.csv", "a,b\n1,2\n")
        archive.writestr("evil\x1b[2J\n../../x", "")
    text = describe(tmp_path, "a.zip")
    assert text.splitlines()[1:] == [
        "2 files and folders:",
        "  data/t.csv  8 B",
        r"  evil\x1b[2J\n../../x  0 B",
    ]
    with zipfile.ZipFile(tmp_path / "b.zip", "w") as archive:
        for number in range(150):
            archive.writestr(f"{number}", "")
    lines = describe(tmp_path, "b.zip").splitlines()
    assert lines[1] == "150 files and folders:"
    assert lines[-1] == "  … and more"
    assert len(lines) == 102
    assert "cannot be listed" in describe(tmp_path, "c.zip", b"PK\3\4 nothing")


def test_reading_a_binary_file_describes_it(tmp_path: Path) -> None:
    tools = FileReadTools(Workspace(tmp_path))
    connection = sqlite3.connect(tmp_path / "t.db")
    connection.execute("CREATE TABLE t (a, b)")
    connection.close()
    for read in (tools.read_file, tools.inspect_file):
        assert "t.db: SQLite table 't', 0 rows" in str(read("t.db"))
    (tmp_path / "other.db").write_bytes(b"\0\1\2" * 100)
    text = str(tools.read_file("other.db"))
    assert text.startswith("other.db: binary file")
    assert "not shown as a table: it is no SQLite database" in text


def test_tables_are_described_and_their_lines_shown_with_a_limit(tmp_path: Path) -> None:
    tools = FileReadTools(Workspace(tmp_path))
    (tmp_path / "t.csv").write_text('id,text\n1,"' + "long " * 100 + '"\n2,short\n')
    text = str(tools.read_file("t.csv"))
    assert text.startswith("t.csv: CSV file, 2 rows")
    assert text.endswith("(read_file with a limit shows its lines.)")
    assert tools.inspect_file("t.csv") in text
    lines = str(tools.read_file("t.csv", limit=2)).splitlines()
    assert lines[0] == "     1\tid,text"
    assert lines[1].startswith('     2\t1,"long')
    assert len(lines[1]) < 80
    assert "cells cut at 60 characters" in lines[-1]
    assert "3\t2,short" in str(tools.read_file("t.csv", offset=3))


def test_text_is_not_inspected_but_read(tmp_path: Path) -> None:
    tools = FileReadTools(Workspace(tmp_path))
    (tmp_path / "a.txt").write_text("hello")
    with pytest.raises(InvalidArgumentsError, match="read_file shows it"):
        tools.inspect_file("a.txt")
    (tmp_path / "settings.json").write_text('{"a": 1}')
    with pytest.raises(
        InvalidArgumentsError, match=r"not a list of objects, .*; read_file shows it"
    ):
        tools.inspect_file("settings.json")
    assert '{"a": 1}' in str(tools.read_file("settings.json"))
