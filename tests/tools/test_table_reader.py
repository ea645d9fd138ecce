"""The process that reads tables: what a hostile file cannot do, and what becomes of the process."""

from __future__ import annotations

import gzip
import io
import os
import random
import signal
import subprocess
import sys
import textwrap
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path

import openpyxl
import pandas as pd
import psutil
import pytest

from ipyagent.errors import AgentError
from ipyagent.tools import tables
from ipyagent.tools.tables import describe_table, list_tables, reader as reader_module
from ipyagent.tools.tables.reader import TableReader
from ipyagent.tools.tables.sample import NotTableError
from ipyagent.tools.workspace import Workspace
from patience import PATIENCE

FINE = "a,b\n1,2\n"


@pytest.fixture
def reader(monkeypatch: pytest.MonkeyPatch) -> Iterator[TableReader]:
    """A reader of its own."""
    own = TableReader()
    monkeypatch.setattr(tables, "table_reader", own)
    yield own
    own.stop()


def describe(root: Path, name: str = "t.csv") -> str:
    return describe_table(Workspace(root), name)


def start_with(reader: TableReader, monkeypatch: pytest.MonkeyPatch, code: str) -> psutil.Process:
    """Start a reader in which `code` runs in place of what loads a file."""
    load = f"def load(request, file, is_confined):\n{textwrap.indent(code, '    ')}"
    changed = f"""
import json, os, signal, socket, time
from ipyagent.tools.tables import loading
{load}
loading.load = load
main("""
    start = reader_module._START.replace("\nmain(", changed)
    monkeypatch.setattr(reader_module, "_START", start)
    return psutil.Process(reader.start()[0].pid)


def wait_for_end(pid: int) -> None:
    psutil.wait_procs([psutil.Process(pid)] if psutil.pid_exists(pid) else [], PATIENCE)
    assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


# --- what a file cannot do -----------------------------------------------------------------------


def test_links_pipes_and_secrets_are_no_tables(tmp_path: Path) -> None:
    root = tmp_path / "ws"
    root.mkdir()
    (tmp_path / "outside.csv").write_text(FINE)
    (root / "link.csv").symlink_to(tmp_path / "outside.csv")
    os.mkfifo(root / "pipe.csv")
    (root / "folder.csv").mkdir()
    (root / "credentials.json").write_text('[{"a": 1}, {"a": 2}]')
    (root / "fine.csv").write_text(FINE)
    (root / ".hidden").mkdir()
    (root / ".hidden" / "x.csv").write_text(FINE)
    workspace = Workspace(root)
    assert list_tables(workspace.find_files()[0]) == ["fine.csv"]
    for name in ("link.csv", "pipe.csv", "folder.csv", "credentials.json", "../outside.csv"):
        with pytest.raises(AgentError):
            describe_table(workspace, name)


TRIES = {
    "another file": "open({outside!r})",
    "the environment": "open('/proc/self/environ')",
    "the kernel's memory": "open(f'/proc/{{os.getppid()}}/maps')",
    "a list of files": "os.listdir({folder!r})",
    "a new file": "open({new!r}, 'w')",
    "a new name": "os.rename({outside!r}, {new!r})",
    "the file itself": "os.write(os.open(f'/proc/self/fd/{{file}}', os.O_RDWR), b'x')",
    "a program": "os.execv('/bin/true', ['true'])",
    "a process": "os.fork()",
    "a signal": "os.kill(os.getppid(), signal.SIGKILL)",
    "the network": "socket.create_connection(('127.0.0.1', 9))",
    "a name on the network": "socket.socket(socket.AF_UNIX)",
}


@pytest.mark.skipif(sys.platform != "linux", reason="limits only")
def test_a_library_that_a_file_has_taken_over_reaches_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reader: TableReader
) -> None:
    root = tmp_path / "ws"
    root.mkdir()
    (tmp_path / "outside.txt").write_text("secret")
    (root / "t.csv").write_text(FINE)
    places = {
        "outside": str(tmp_path / "outside.txt"),
        "folder": str(tmp_path),
        "new": str(root / "new"),
    }
    tries = {name: code.format(**places) for name, code in TRIES.items()}
    code = f"""
found = []
for name, code in {tries!r}.items():
    try:
        eval(code, globals() | locals())
    except OSError:
        continue
    found.append(name)
fine = open(f'/proc/self/fd/{{file}}').read() if is_confined else 'not confined'
return {{'kind': fine, 'text': str(found), 'call': ''}}"""
    start_with(reader, monkeypatch, code)
    text = describe(root)
    assert text == f"t.csv: {FINE}\nread with: \n[]"
    assert not (root / "new").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="limits only")
def test_memory_and_files_of_a_reader_are_limited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reader: TableReader
) -> None:
    (tmp_path / "t.csv").write_text(FINE)
    start_with(reader, monkeypatch, "bytearray(2 << 30)")
    with pytest.raises(NotTableError, match="MemoryError"):
        describe(tmp_path)


def test_bombs_are_refused(tmp_path: Path) -> None:
    """A few kilobytes that unpack to gigabytes."""
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(b"a,b\n" + b"0" * 50_000_000))
    assert "1 rows × 2 columns" in describe(tmp_path, "t.csv.gz")
    book = openpyxl.Workbook()
    book.active.append(["a", "b"])
    book.save(tmp_path / "t.xlsx")
    with zipfile.ZipFile(tmp_path / "t.xlsx") as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    sheet = next(name for name in parts if "worksheets/" in name)
    cells = b"<row><c><v>1</v></c></row>" * 4_000_000
    parts[sheet] = parts[sheet].replace(b"<sheetData>", b"<sheetData>" + cells)
    with zipfile.ZipFile(tmp_path / "t.xlsx", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    assert (tmp_path / "t.xlsx").stat().st_size < 1_000_000
    assert "rows" in describe(tmp_path, "t.xlsx"), "only its beginning is read"


def damage(choose: random.Random, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(choose.choice((1, 3, 10))):
        changed[choose.randrange(len(changed))] = choose.randrange(256)
    return bytes(changed[: choose.choice((len(changed), choose.randrange(len(changed))))])


def test_damaged_files_do_no_harm(tmp_path: Path, reader: TableReader) -> None:
    frame = pd.DataFrame({"a": [1, 2, 3], "b": ["x", "y", "z"]})
    frame.to_stata(tmp_path / "t.dta")
    frame.to_excel(tmp_path / "t.xlsx")
    frame.to_csv(tmp_path / "t.csv.gz")
    frame.to_json(tmp_path / "t.json", orient="records")
    whole = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    before = reader.start()[0].pid
    choose = random.Random(29)
    described = 0
    for number in range(48):
        name = sorted(whole)[number % len(whole)]
        (tmp_path / name).write_bytes(damage(choose, whole[name]))
        try:
            described += describe(tmp_path, name).startswith(name)
        except NotTableError:
            continue
    assert 0 < described < 48
    assert reader.start()[0].pid == before, "it has not ended"


# --- what becomes of the process -----------------------------------------------------------------


def test_a_library_that_ends_its_process_ends_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reader: TableReader
) -> None:
    (tmp_path / "t.csv").write_text(FINE)
    process = start_with(reader, monkeypatch, "os.abort()")
    with pytest.raises(NotTableError, match="its library failed"):
        describe(tmp_path)
    assert process.is_running()


def test_a_file_that_hangs_is_given_up_and_others_are_read_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reader: TableReader
) -> None:
    for name in ("t.csv", "other.csv"):
        (tmp_path / name).write_text(FINE)
    hang = "time.sleep(1_000) if request['path'] == 't.csv' else None"
    start_with(reader, monkeypatch, f"{hang}\nreturn {{'kind': 'x', 'text': '', 'call': ''}}")
    assert "first lines" in describe_table(Workspace(tmp_path), "t.csv", wait=0.0)
    assert describe(tmp_path, "other.csv").startswith("other.csv: x")
    monkeypatch.setattr(reader_module, "SECONDS", 0.1)
    (tmp_path / "t.csv").write_text(FINE + "3,4\n")
    with pytest.raises(NotTableError, match="its library failed on it"):
        describe(tmp_path)


def test_what_is_not_ready_is_described_by_its_first_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reader: TableReader
) -> None:
    (tmp_path / "t.csv").write_text("name,n\nAnna,1\nBo,2\nCy,3\n")
    ready = threading.Event()
    read = reader.read

    def wait(path: str, file: io.BufferedReader) -> object:
        ready.wait(PATIENCE)
        return read(path, file)

    monkeypatch.setattr(reader, "read", wait)
    text = describe_table(Workspace(tmp_path), "t.csv", wait=0.0)
    assert text.startswith("t.csv: CSV file, 24 B")
    assert text.endswith("first lines and the last one:\n  name,n\n  Anna,1\n  Bo,2")
    ready.set()
    assert "read with" in describe(tmp_path)
    assert "read with" in describe_table(Workspace(tmp_path), "t.csv", wait=0.0), "it is kept"


def test_a_killed_reader_is_started_again(tmp_path: Path, reader: TableReader) -> None:
    (tmp_path / "t.csv").write_text(FINE)
    assert "1 rows" in describe(tmp_path)
    process = reader.start()[0]
    process.kill()
    process.wait()
    (tmp_path / "t.csv").write_text(FINE + "3,4\n")
    assert "2 rows" in describe(tmp_path)
    assert reader.start()[0].pid != process.pid


def test_a_reader_ends_with_the_process_that_started_it(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(FINE)
    code = (
        "import os, sys; from pathlib import Path\n"
        "from ipyagent.tools import tables\n"
        "from ipyagent.tools.workspace import Workspace\n"
        "tables.describe_table(Workspace(Path(sys.argv[1])), 't.csv')\n"
        "print(tables.table_reader.start()[0].pid, flush=True)\n"
        "{}"
    )
    for end in ("", "os.kill(os.getpid(), 9)"):
        command = [sys.executable, "-c", code.format(end), str(tmp_path)]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        assert ended.returncode == (-signal.SIGKILL if end else 0)
        wait_for_end(int(ended.stdout))


def test_no_module_of_the_workspace_is_imported_and_no_key_is_passed_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reader: TableReader
) -> None:
    for name in ("pandas", "json"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'PWN')!r}, 'w')\n")
    (tmp_path / "t.csv").write_text(FINE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("OPENAI_API_KEY", "sk-canary-0123456789abcdef")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert "1 rows" in describe(tmp_path)
    assert not (tmp_path / "PWN").exists()
    assert "OPENAI_API_KEY" not in psutil.Process(reader.start()[0].pid).environ()


def test_without_pandas_there_are_first_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reader: TableReader
) -> None:
    (tmp_path / "t.csv").write_text(FINE)
    start = f"import sys; sys.modules['pandas'] = None\n{reader_module._START}"
    monkeypatch.setattr(reader_module, "_START", start)
    with pytest.raises(NotTableError, match="pandas is not installed"):
        describe(tmp_path)
    text = describe_table(Workspace(tmp_path), "t.csv", wait=PATIENCE)
    assert text.startswith("t.csv: CSV file, 8 B; not shown as a table: pandas is not installed")
    assert text.endswith("\n  a,b\n  1,2")
