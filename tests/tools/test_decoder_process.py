"""Strange Parquet and Arrow files end no kernel, and show nothing that is not in them."""

from __future__ import annotations

import io
import json
import os
import random
import struct
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from ipyagent.tools.tables import inspect
from ipyagent.tools.tables.inspect import describe_table
from ipyagent.tools.tables.sample import NotTableError
from ipyagent.tools.workspace import Workspace
from patience import PATIENCE

NAMES = ["Ada Lovelace", "Bob", "", "Grace"]
WORD = 8


def arrow_file(**options: str) -> bytes:
    buffer = io.BytesIO()
    table = pl.DataFrame({"id": [1, 2, None, 4], "name": NAMES, "l": [[1], [2, 3], None, [4]]})
    table.write_ipc(buffer, compat_level=pl.CompatLevel.oldest(), **options)
    return buffer.getvalue()


def damage(data: bytes, at: int, value: int) -> bytes:
    return data[:at] + struct.pack("<q", value) + data[at + WORD :]


def cells_of(description: str) -> list[str]:
    """The cells of the first rows in a description."""
    _, _, rows = description.partition("first 4 rows")
    return [cell for line in rows.splitlines()[2:] for cell in line.split(",")]


def check_file(folder: Path, data: bytes) -> bool:
    """Whether the file is described; what is shown of its texts must be in it."""
    (folder / "t.feather").write_bytes(data)
    try:
        text = describe_table(Workspace(folder), "t.feather")
    except NotTableError:
        return False
    texts = [cell for cell in cells_of(text) if cell.strip("-.0123456789[]… \"'")]
    foreign = [cell for cell in texts if cell.strip("\"'…").encode() not in data]
    assert not [cell for cell in foreign if cell not in ("None", "True", "False")]
    return True


def test_offsets_that_lead_out_of_the_file_show_nothing(tmp_path: Path) -> None:
    data = arrow_file()
    offsets = data.index(struct.pack("<3q", 0, len(NAMES[0]), len(NAMES[0]) + 3))
    for place in (1, 2, 4):
        for value in (2**31 - 1, 2**40, 70):
            check_file(tmp_path, damage(data, offsets + place * WORD, value))


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("os.kill(os.getpid(), 11)", "ended by signal 11"),
        ("os.write(1, b'{')", "its decoder failed"),
        ("os._exit(1)", "its decoder failed"),
        ("import json; json.dump({'error': 'Panic'}, sys.stdout)", "cannot be decoded: Panic"),
        ("import time; time.sleep(600)", "takes too long"),
    ],
)
def test_a_decoder_that_dies_ends_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, reason: str
) -> None:
    script = tmp_path / "dying.py"
    script.write_text(f"import os, sys\n{code}\n")
    monkeypatch.setattr(inspect, "_CHILD", script)
    monkeypatch.setattr(inspect, "_SECONDS", 0.5 if "sleep" in code else PATIENCE)
    (tmp_path / "t.feather").write_bytes(arrow_file())
    with pytest.raises(NotTableError, match=reason):
        describe_table(Workspace(tmp_path), "t.feather")


def test_no_module_of_the_workspace_is_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("pyarrow", "polars", "json"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'PWN')!r}, 'w')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.syspath_prepend(str(tmp_path))
    assert check_file(tmp_path, arrow_file())
    assert not (tmp_path / "PWN").exists()


def test_a_file_that_unpacks_to_more_than_the_memory_is_refused(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    zeroes = pl.DataFrame({"a": pl.zeros(40_000_000, eager=True)})  # 320 MB
    pl.concat([zeroes.rename({"a": f"a{n}"}) for n in range(8)], how="horizontal").write_ipc(
        buffer, compression="zstd"
    )
    assert len(buffer.getvalue()) < 10_000_000
    (tmp_path / "t.feather").write_bytes(buffer.getvalue())
    with pytest.raises(NotTableError):
        describe_table(Workspace(tmp_path), "t.feather")


@pytest.fixture(scope="module")
def pyarrow_python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An environment with pyarrow, which the other tests do without: pandas uses it if it can."""
    folder = tmp_path_factory.mktemp("pyarrow")
    uv = Path(sys.executable).with_name("uv")
    subprocess.run([uv, "venv", "-q", folder / "env"], check=True)
    python = str(folder / "env" / "bin" / "python")
    subprocess.run([uv, "pip", "install", "-q", "--python", python, "pyarrow"], check=True)
    return python


NAIVE = """
import sys, pyarrow as pa
batch = pa.ipc.open_file(sys.argv[1]).get_batch(0)
batch.slice(0, 5).to_pylist()
"""


@pytest.mark.slow
def test_hundreds_of_damaged_files_do_no_harm_with_pyarrow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pyarrow_python: str
) -> None:
    data = arrow_file()
    offsets = data.index(struct.pack("<3q", 0, len(NAMES[0]), len(NAMES[0]) + 3))
    far = damage(damage(data, offsets + WORD, 2**31 - 1), offsets + 2 * WORD, 2**31 - 1)
    (tmp_path / "far.feather").write_bytes(far)
    naive = [pyarrow_python, "-c", NAIVE, str(tmp_path / "far.feather")]
    assert subprocess.run(naive, check=False, capture_output=True).returncode == -11
    monkeypatch.setattr(sys, "executable", pyarrow_python)
    assert not check_file(tmp_path, far)
    choose = random.Random(29)
    described = 0
    for _ in range(300):
        damaged = data
        for _ in range(choose.choice((1, 2, 3))):
            at = choose.randrange(8, len(data) - 8) // WORD * WORD
            value = choose.choice(
                (2**31 - 1, -1, 70, 1_000, 2**20, -(2**63), choose.getrandbits(30))
            )
            damaged = damage(damaged, at, value)
        described += check_file(tmp_path, damaged)
    assert 0 < described < 300


def test_the_decoder_is_told_its_limits_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "telling.py"
    script.write_text("import json, os; print(json.dumps({'error': ' '.join(sorted(os.environ))}))")
    monkeypatch.setattr(inspect, "_CHILD", script)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-canary-0123456789abcdef")
    (tmp_path / "t.feather").write_bytes(arrow_file())
    with pytest.raises(NotTableError) as caught:
        describe_table(Workspace(tmp_path), "t.feather")
    assert "OPENAI" not in str(caught.value)
    assert json.dumps(dict(os.environ)).count("sk-canary")
