"""The tour in `notebooks/`: what it shows is saved with it, and it can be run again and again."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from ipyagent import Scripted

TOUR = Path(__file__).parents[2] / "notebooks"
RUN_JSON = "application/vnd.ipyagent.run+json"
NOTEBOOKS = sorted(TOUR.glob("*.ipynb"))
SCRIPTS = sorted(TOUR.glob("scripts/*.yaml"))


def asked(notebook: Any) -> list[Any]:
    return [cell for cell in notebook.cells if cell.source.startswith("%%agent")]


def told(cell: Any) -> list[tuple[str, str, list[str]]]:
    """What the runs of a cell came to; ids and times left out."""
    runs = [o.data[RUN_JSON] for o in cell.outputs if RUN_JSON in o.get("data", {})]
    return [(run["prompt"], run["status"], names(run)) for run in runs]


def names(run: Any) -> list[str]:
    return [each["call"]["name"] for step in run["steps"] for each in step["executions"]]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_each_agent_cell_has_its_run_saved_with_it(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    assert len(asked(notebook)) >= 2
    for cell in asked(notebook):
        assert [status for _, status, _ in told(cell)][-1] == "done", cell.source
        for output in cell.outputs:
            assert {"text/html", "text/plain"} <= set(output.data)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_nothing_of_the_computer_that_ran_it_is_saved(path: Path) -> None:
    text = path.read_text()
    assert not re.search(r"/(home|root|tmp|Users|work)/", text)
    assert "correct-horse" not in text.replace('db_password = \\"correct-horse-battery\\"', "")
    assert len(text) < 400_000


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_each_script_can_be_played_and_is(path: Path) -> None:
    Scripted.from_file(path)
    assert any(f"scripted/scripts/{path.name}" in each.read_text() for each in NOTEBOOKS)


@pytest.mark.slow
@pytest.mark.kernel
@pytest.mark.timeout(300)
@pytest.mark.parametrize("stem", ["05_plans_and_services", "06_sessions"])
def test_it_runs_twice_in_a_folder_that_remembers_and_leaves_it_as_it_was(
    stem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IPYAGENT_LLM__MODEL", "offline/explorer")
    monkeypatch.setenv("IPYAGENT_AGENT__CONFIRM_MODE", "yolo")
    ignored = shutil.ignore_patterns(".*", "__pycache__", "scratch-*")
    folder = Path(shutil.copytree(TOUR, tmp_path / "tour", ignore=ignored))
    saved = nbformat.read(folder / f"{stem}.ipynb", as_version=4)
    before = files(folder)
    for _ in range(2):
        ran = nbformat.read(folder / f"{stem}.ipynb", as_version=4)
        NotebookClient(
            ran, kernel_name="python3", resources={"metadata": {"path": str(folder)}}
        ).execute()
        for old, new in zip(asked(saved), asked(ran), strict=True):
            # A plan that a person has approved in its cell is approved by `%agent approve` here.
            assert told(new)[0] == told(old)[0]
        assert files(folder) == before


def files(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and not {".ipyagent", "__pycache__"} & set(path.parts)
    }
