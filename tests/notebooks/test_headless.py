"""Notebooks run without anybody there, and read without a kernel."""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
import yaml
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbconvert import HTMLExporter, MarkdownExporter

pytestmark = pytest.mark.kernel

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
RUN_JSON = "application/vnd.ipyagent.run+json"
WRITES = "ran = open('ran.txt', 'w')"
FIGURE = "import matplotlib.pyplot as plt\n_ = plt.plot([1, 2])\nprint('<b>drawn</b>')"


def executed(folder: Path, *sources: str, **replies: list[Any]) -> Any:
    for name, script in replies.items():
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(script))
    cells = [nbformat.v4.new_code_cell(source) for source in ("%load_ext ipyagent", *sources)]
    notebook = nbformat.v4.new_notebook(cells=cells)
    client = NotebookClient(
        notebook, kernel_name="python3", resources={"metadata": {"path": str(folder)}}
    )
    return client.execute()


def python(code: str) -> dict[str, Any]:
    return {"calls": [{"name": "run_python", "arguments": {"code": code}}]}


@pytest.mark.spec("A47")
def test_a_sensitive_call_is_denied_without_waiting_and_the_notebook_goes_on(
    tmp_path: Path,
) -> None:
    notebook = executed(
        tmp_path,
        "%%agent -m scripted/a.yaml\nBegin.",
        "print('ran' in globals())",
        a=[python(WRITES), "I could not."],
    )
    run = notebook.cells[1].outputs[0].data[RUN_JSON]
    assert run["steps"][0]["executions"][0]["status"] == "denied"
    assert notebook.cells[2].outputs[0].text == "False\n"


def test_a_look_needs_nobody(tmp_path: Path, isolation_problem: str | None) -> None:
    if isolation_problem is not None:
        pytest.skip(isolation_problem)
    notebook = executed(
        tmp_path,
        "numbers = [1, 2, 3]",
        "%%agent -m scripted/a.yaml\nBegin.",
        "total",
        a=[python("total = sum(numbers)\ntotal"), "It is 6."],
    )
    execution = notebook.cells[2].outputs[0].data[RUN_JSON]["steps"][0]["executions"][0]
    assert (execution["status"], execution["decided_by"]) == ("success", "rehearsal")
    assert notebook.cells[3].outputs[0].data["text/plain"] == "6"


@pytest.mark.slow
def test_the_quickstart_needs_nobody_under_the_default_mode(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, isolation_problem: str | None
) -> None:
    if isolation_problem is not None:
        pytest.skip(isolation_problem)
    monkeypatch.setenv("IPYAGENT_LLM__MODEL", "offline/explorer")
    shutil.copytree(NOTEBOOKS / "data", tmp_path / "data")
    notebook = nbformat.read(NOTEBOOKS / "01_quickstart.ipynb", as_version=4)
    resources = {"metadata": {"path": str(tmp_path)}}
    NotebookClient(notebook, kernel_name="python3", resources=resources).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    runs = [output.data[RUN_JSON] for output in outputs if RUN_JSON in output.get("data", {})]
    calls = [e for run in runs for step in run["steps"] for e in step["executions"]]
    assert len(calls) > 3
    assert {call["status"] for call in calls} == {"success"}


def test_a_notebook_in_which_nothing_was_done_is_not_green(tmp_path: Path) -> None:
    with pytest.raises(CellExecutionError, match="run_python was not run") as raised:
        executed(
            tmp_path,
            "%%agent -m scripted/a.yaml --raise\nBegin.",
            "after = 1",
            a=[python(WRITES), "I could not."],
        )
    assert "RunFailedError" in str(raised.value)
    for way in ("--confirm yolo", "{effect: allow, tool: run_python}", "JupyterLab"):
        assert way in str(raised.value)


def test_what_was_seen_is_in_every_export_of_the_notebook(tmp_path: Path) -> None:
    notebook = executed(
        tmp_path,
        "%%agent -m scripted/a.yaml --confirm yolo\nBegin.",
        a=[python(FIGURE) | {"thinking": "A line will do."}, "See the **line**."],
    )
    assert len(notebook.cells[1].outputs) == 1
    assert "metadata" not in notebook or "widgets" not in notebook.metadata
    html, _ = HTMLExporter().from_notebook_node(notebook)
    assert "<strong>line</strong>" in html
    assert "A line will do." in html
    assert "data:image/png;base64," in html
    assert "<b>drawn</b>" not in html
    markdown, _ = MarkdownExporter().from_notebook_node(notebook)
    assert "<strong>line</strong>" in markdown


@pytest.mark.slow
def test_the_run_is_there_for_the_cells_that_follow(tmp_path: Path) -> None:
    notebook = executed(
        tmp_path,
        "%%agent -m scripted/a.yaml --confirm yolo -o run\nBegin.",
        "import ipyagent\nrun is ipyagent.last, run.results[0].value",
        "run.results[0]",
        a=[python("6 * 7"), "Done."],
    )
    assert notebook.cells[2].outputs[0].data["text/plain"] == "(True, 42)"
    assert "42" in notebook.cells[3].outputs[0].data["text/html"]


@pytest.mark.slow
def test_the_demonstration_approves_one_change_and_denies_another(tmp_path: Path) -> None:
    shutil.copytree(NOTEBOOKS, tmp_path / "notebooks")
    command = [sys.executable, str(tmp_path / "notebooks" / "demo.py")]
    shown = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    _, approved, denied, columns = shown.rpartition("## You decide")[2].split("\nIn [")
    assert "Run run_python?" in approved
    assert "Dropped `year`" in approved
    assert "denied by you: it is needed later" in denied
    assert ("'island'" in columns, "'year'" in columns) == (True, False)
