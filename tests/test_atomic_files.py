from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest

import ipyagent
from ipyagent.atomic_files import lock_file, open_lock, replace_file, try_lock


def test_a_file_is_replaced_as_a_whole_and_is_its_owners_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text("before")
    path.chmod(0o644)
    replace_file(path, "äfter")
    assert path.read_text("utf-8") == "äfter"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [each.name for each in tmp_path.iterdir()] == ["a.json"]


def test_a_link_is_replaced_and_what_it_leads_to_stays(tmp_path: Path) -> None:
    (tmp_path / "other").write_text("mine")
    path = tmp_path / "a.json"
    path.symlink_to("other")
    replace_file(path, "after")
    assert (tmp_path / "other").read_text() == "mine"
    assert not path.is_symlink()


def test_a_failure_changes_nothing_and_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.json"
    path.write_text("before")
    with pytest.raises(UnicodeEncodeError):
        replace_file(path, "a\ud800")
    monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError(28, "full")))
    with pytest.raises(OSError, match="full"):
        replace_file(path, "after")
    assert path.read_text() == "before"
    assert [each.name for each in tmp_path.iterdir()] == ["a.json"]


def test_a_new_file_is_synced_before_it_takes_the_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, seen = tmp_path / "a.json", []
    monkeypatch.setattr(os, "fsync", lambda _: seen.append(path.exists()))
    replace_file(path, "after")
    assert seen == [False]


def test_of_two_processes_one_waits_for_the_other(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    code = "import sys, pathlib; from ipyagent.atomic_files import *\n"
    code += "print(try_lock(open_lock(pathlib.Path(sys.argv[1]))))"

    def other() -> str:
        command = [sys.executable, "-c", code, str(path)]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    with lock_file(path):
        assert other() == "False"
    assert other() == "True"


def test_a_lock_is_no_link_and_not_inherited(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("elsewhere")
    with pytest.raises(OSError, match="symbolic"):
        open_lock(tmp_path / "link")
    handle = open_lock(tmp_path / "lock")
    try:
        assert not os.get_inheritable(handle)
        assert try_lock(handle)
    finally:
        os.close(handle)


def test_no_other_room_writes_or_locks_files_of_its_own() -> None:
    root = Path(ipyagent.__file__).parent
    found = [
        str(path.relative_to(root))
        for path in sorted(root.rglob("*.py"))
        if re.search(r"\bmkstemp\(|\bflock\(", path.read_text("utf-8"))
    ]
    assert found == ["atomic_files.py"]
