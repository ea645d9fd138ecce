"""The notebook of a cell: which file is the kernel's own."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ipyagent.kernel.pages import OpenNotebooks, current


def shell(**variables: Any) -> Any:
    """Return a shell with the members that are read."""
    return SimpleNamespace(user_ns=variables, meta={}, displayhook=SimpleNamespace(prompt_count=4))


def test_the_server_names_the_kernels_notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("JPY_SESSION_NAME", str(tmp_path / "a" / "nb.ipynb"))
    desktop = current(shell(), tmp_path)
    assert (desktop.saved, desktop.folder) == (tmp_path / "a" / "nb.ipynb", tmp_path / "a")
    assert desktop.is_own(tmp_path / "a" / "nb.ipynb")


def test_vs_code_names_the_notebook_in_a_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("JPY_SESSION_NAME", raising=False)
    desktop = current(shell(__vsc_ipynb_file__=str(tmp_path / "nb.ipynb")), tmp_path)
    assert desktop.is_own(tmp_path / "nb.ipynb")


def test_a_notebook_name_without_a_folder_is_not_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("JPY_SESSION_NAME", "3f2a")
    desktop = current(shell(), tmp_path)
    assert (desktop.saved, desktop.folder) == (None, tmp_path)


def test_another_name_of_the_own_notebook_is_known(tmp_path: Path):
    (tmp_path / "nb.ipynb").write_text("{}")
    (tmp_path / "link.ipynb").hardlink_to(tmp_path / "nb.ipynb")
    desktop = OpenNotebooks(saved=tmp_path / "nb.ipynb")
    assert desktop.is_own(tmp_path / "link.ipynb")
    assert not desktop.is_own(tmp_path / "other.ipynb")


def test_a_plain_script_has_no_notebook_around_it(tmp_path: Path):
    assert current(None, tmp_path) == OpenNotebooks()
