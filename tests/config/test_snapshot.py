"""When settings have to be read again."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ipyagent import config
from ipyagent.config.settings import snapshot
from ipyagent.config.trust import TRUST_FILE

FILES = ("pyproject.toml", "ipyagent.yaml", "mcp.json", ".mcp.json")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


def test_nothing_that_changed_gives_equal_snapshots(folder: Path) -> None:
    (folder / "ipyagent.yaml").write_text("agent: {max_steps: 3}\n")
    environ = dict(os.environ)
    assert snapshot(environ, folder) == snapshot(environ | {"OTHER": "x"}, folder)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize(
    "change",
    [
        lambda path: path.write_text("changed = true\n"),
        lambda path: path.unlink(),
        lambda path: path.chmod(0o600),
        lambda path: path.rename(path.with_suffix(".old")),
    ],
    ids=["written", "deleted", "chmod", "renamed"],
)
def test_a_file_of_the_folder_that_changed_gives_another(
    folder: Path, name: str, change: Callable[[Path], object]
) -> None:
    path = folder / name
    path.write_text("version = 1\n")
    before = snapshot({}, folder)
    change(path)
    assert snapshot({}, folder) != before


def test_a_replaced_file_of_the_same_size_and_time_gives_another(folder: Path) -> None:
    path, new = folder / "ipyagent.yaml", folder / "new"
    path.write_text("agent: {max_steps: 3}\n")
    new.write_text("agent: {max_steps: 9}\n")
    times = path.stat().st_atime_ns, path.stat().st_mtime_ns
    before = snapshot({}, folder)
    os.utime(new, ns=times)
    new.rename(path)
    assert snapshot({}, folder) != before


@pytest.mark.parametrize("make", [config.user_file, lambda: TRUST_FILE.path])
def test_the_user_s_own_files_count_too(folder: Path, make: Callable[[], Path]) -> None:
    before = snapshot({}, folder)
    make().parent.mkdir(parents=True, exist_ok=True)
    make().write_text("{}")
    assert snapshot({}, folder) != before


@pytest.mark.parametrize("name", ["IPYAGENT_MODEL", "IPYAGENT_AGENT__MAX_STEPS", "HOME"])
def test_variables_that_settings_come_from_count_too(folder: Path, name: str) -> None:
    assert snapshot({name: "a"}, folder) != snapshot({name: "b"}, folder)


def test_no_other_file_is_read_for_settings(folder: Path) -> None:
    (folder / "pyproject.toml").write_text("[tool.ipyagent.agent]\nmax_steps = 3\n")
    for name in FILES[1:]:
        (folder / name).write_text("{}")
    config.user_file().parent.mkdir(parents=True)
    config.user_file().write_text("agent: {max_steps: 4}\n")
    config.trust(folder)
    opened: set[str] = set()
    listening = [True]

    def note(event: str, arguments: tuple[object, ...]) -> None:
        if listening and event == "open":
            opened.add(str(arguments[0]))

    sys.addaudithook(note)
    config.resolve_layers(*config.base_layers({}, None, folder))
    listening.clear()
    known, _ = snapshot({}, folder)
    assert len(opened) == 6
    assert opened <= {str(path) for path, _stamp in known}
