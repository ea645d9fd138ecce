"""The README tells the truth."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from repository import ROOT

README = (ROOT / "README.md").read_text()
RUN_JSON = "application/vnd.ipyagent.run+json"


def test_the_python_example_prints_what_it_says(tmp_path: Path) -> None:
    (block,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    (claimed,) = re.findall(r"print\(.*#\s*(.*)", block)
    (tmp_path / "example.py").write_text(block)
    done = subprocess.run(
        [sys.executable, "example.py"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == claimed


@pytest.mark.kernel
def test_the_cells_do_what_they_ask_for_on_the_embedded_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(ROOT / "notebooks" / "data", tmp_path / "data")
    monkeypatch.setenv("IPYAGENT_LLM__MODEL", "offline/explorer")
    monkeypatch.setenv("IPYAGENT_AGENT__CONFIRM_MODE", "yolo")
    sources = re.findall(r"```ipython\n(.*?)\n```", README, re.DOTALL)
    cells = [nbformat.v4.new_code_cell(source) for source in sources]
    notebook = nbformat.v4.new_notebook(cells=cells)
    where = {"metadata": {"path": str(tmp_path)}}
    NotebookClient(notebook, kernel_name="python3", resources=where).execute()
    asked = [cell for cell in cells if cell.source.startswith("%%agent")]
    assert len(asked) >= 5
    for cell in asked:
        run = cell.outputs[0].data[RUN_JSON]
        calls = [each["status"] for step in run["steps"] for each in step["executions"]]
        assert set(calls) == {"success"}, (cell.source, run["steps"])


def test_the_pictures_and_the_pages_that_it_leads_to_are_there() -> None:
    pictures = re.findall(r'(?:src|srcset)="([^"]+)"', README)
    pages = re.findall(r"\]\((?!https?://|#)([^)]+)\)", README)
    assert pictures
    assert pages
    for path in (*pictures, *pages):
        assert (ROOT / path).is_file(), path


def test_every_notebook_of_the_tour_is_named() -> None:
    for path in (ROOT / "notebooks").glob("*.ipynb"):
        assert f"(notebooks/{path.name})" in README
