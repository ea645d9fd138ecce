"""Notebooks with agent cells that run again without a model, a key, a journal or anybody there."""

import shutil
from pathlib import Path
from typing import Any

import nbformat
import pytest
import yaml
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

pytestmark = pytest.mark.kernel

RUN_JSON = "application/vnd.ipyagent.run+json"
LOAD = "%load_ext ipyagent"
NUMBERS = "numbers = [1, 2, 3]"
ASKS = "%%agent -m {model} --confirm yolo\nAdd up the numbers."
ANSWER = "%%agent -m {model} --confirm yolo\nIs that much?"


@pytest.fixture(autouse=True)
def _own_user(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path_factory.mktemp("user")))


def execute(folder: Path, *sources: str) -> list[Any]:
    """Execute cells as nbclient does; return the runs."""
    cells = [nbformat.v4.new_code_cell(source) for source in (LOAD, *sources)]
    notebook = nbformat.v4.new_notebook(cells=cells)
    resources = {"metadata": {"path": str(folder)}}
    NotebookClient(notebook, kernel_name="python3", resources=resources).execute()
    nbformat.write(notebook, folder / "analysis.ipynb")
    outputs = [output for cell in cells for output in cell.outputs]
    return [each.data[RUN_JSON] for each in outputs if RUN_JSON in each.get("data", {})]


def record(folder: Path) -> list[Any]:
    code = "total = sum(numbers)\nopen('total.txt', 'w').write(str(total))"
    say = {"calls": [{"name": "run_python", "arguments": {"code": code}}]}
    for name, replies in (("one", [say, "It is 6."]), ("two", ["No."])):
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(replies))
    cells = ASKS.format(model="scripted/one.yaml"), ANSWER.format(model="scripted/two.yaml")
    return execute(folder, NUMBERS, *cells)


def forget(folder: Path) -> None:
    """Leave the notebook alone, as a repository does."""
    shutil.rmtree(folder / ".ipyagent")
    for each in ("one.yaml", "two.yaml", "total.txt"):
        (folder / each).unlink()


KEYLESS = ASKS.format(model="openai/gpt-5"), ANSWER.format(model="openai/gpt-5")


def test_a_saved_notebook_runs_again_without_model_key_and_journal(tmp_path: Path) -> None:
    recorded = record(tmp_path)
    forget(tmp_path)
    runs = execute(tmp_path, NUMBERS, *KEYLESS)
    assert [run["stop_reason"] for run in runs] == ["finished", "finished"], runs
    assert [run["replayed"]["run_id"] for run in runs] == [run["id"] for run in recorded]
    assert (tmp_path / "total.txt").read_text() == "6"
    forget_journal = tmp_path / ".ipyagent"
    shutil.rmtree(forget_journal)
    again = execute(tmp_path, NUMBERS, *KEYLESS)
    assert [run["replayed"]["run_id"] for run in again] == [run["id"] for run in recorded]


def test_a_cell_that_delegates_runs_again_in_another_folder_without_its_journal(
    tmp_path: Path,
) -> None:
    home, abroad = tmp_path / "home", tmp_path / "abroad"
    for each in (home, abroad):
        each.mkdir()
    code = "total = sum(numbers)\nopen('total.txt', 'w').write(str(total))"
    task = {"calls": [{"name": "delegate", "arguments": {"task": "Add them up."}}]}
    work = {"calls": [{"name": "run_python", "arguments": {"code": code}}]}
    replies = [task, work, "It is 6.", "The agent says 6."]
    (home / "one.yaml").write_text(yaml.safe_dump(replies))
    asks = "%%agent -m {model} --confirm yolo\nLet another agent add up the numbers."
    (recorded,) = execute(home, NUMBERS, asks.format(model="scripted/one.yaml"))
    assert (home / "total.txt").read_text() == "6"
    shutil.copy(home / "analysis.ipynb", abroad)
    (run,) = execute(abroad, NUMBERS, asks.format(model="openai/gpt-5"))
    assert run["stop_reason"] == "finished", run["error"]
    assert run["replayed"]["run_id"] == recorded["id"]
    assert run["children"][0]["replayed"]["run_id"] == recorded["children"][0]["id"]
    assert (abroad / "total.txt").read_text() == "6"
    careful = asks.format(model="openai/gpt-5").replace(" --confirm yolo", "")
    for each in (".ipyagent/state.db", "total.txt"):
        (abroad / each).unlink()
    (run,) = execute(abroad, NUMBERS, careful)
    assert run["stop_reason"] == "unattended"
    assert not (abroad / "total.txt").exists()


def test_another_parameter_is_named_and_the_notebook_goes_on(tmp_path: Path) -> None:
    record(tmp_path)
    forget(tmp_path)
    first, second = execute(tmp_path, "numbers = [1, 2, 4]", *KEYLESS)
    assert first["stop_reason"] == "differs"
    assert "total has another content" in first["error"]
    assert second["stop_reason"] == "finished"


def test_a_cell_that_must_be_replayed_fails_the_notebook(tmp_path: Path) -> None:
    with pytest.raises(CellExecutionError, match="Nothing is recorded"):
        execute(tmp_path, "%%agent --replay\nAdd up the numbers.")
