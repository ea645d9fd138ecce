"""`pytest --agent-notebooks`: agent cells of notebooks as tests, repeated or asked live."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import nbformat
import pytest
import yaml
from nbclient import NotebookClient

from ipyagent.pytest_plugin import wilson_interval

pytest_plugins = ["pytester"]

LOAD = "%load_ext ipyagent\nrows = [int(each) for each in open('rows.txt')]"
SUM = "%%agent -m scripted/sum.yaml --confirm yolo --expect 'total == 6'\nAdd up the rows."
SAYS = "--expect near(6)\n--expect called('run_python')\n"
AGAIN = "%%agent -m scripted/again.yaml Is that much?"
CALL = {"calls": [{"name": "run_python", "arguments": {"code": "total = sum(rows)\nprint(total)"}}]}


@pytest.fixture(autouse=True)
def _own_user(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path_factory.mktemp("user")))


def write(folder: Path, *sources: str) -> Any:
    """Write a notebook that has not run."""
    notebook = nbformat.v4.new_notebook(cells=[*map(nbformat.v4.new_code_cell, sources)])
    notebook.cells.insert(0, nbformat.v4.new_markdown_cell("%%agent --expect 1"))
    nbformat.write(notebook, folder / "sales.ipynb")
    return notebook


def script(folder: Path, name: str, *replies: object) -> None:
    (folder / f"{name}.yaml").write_text(yaml.safe_dump([*replies]))


def record(folder: Path) -> None:
    """Run the notebook as its author does, and keep what a repository keeps."""
    (folder / "rows.txt").write_text("1\n2\n3\n")
    script(folder, "sum", CALL, "The total is 6.")
    script(folder, "again", "No.")
    notebook = write(folder, LOAD, f"{SUM}\n{SAYS}", AGAIN)
    resources = {"metadata": {"path": str(folder)}}
    NotebookClient(notebook, kernel_name="python3", resources=resources).execute()
    nbformat.write(notebook, folder / "sales.ipynb")
    shutil.rmtree(folder / ".ipyagent")
    for each in ("sum.yaml", "again.yaml"):
        (folder / each).unlink()


def expect(folder: Path, more: str) -> None:
    """Add an expectation to the cell, as its author does after it has run."""
    notebook = nbformat.read(folder / "sales.ipynb", as_version=4)
    notebook.cells[2].source += f"--expect {more}\n"
    nbformat.write(notebook, folder / "sales.ipynb")


@pytest.mark.kernel
@pytest.mark.spec("H27")
def test_recorded_cells_pass_without_a_model_until_a_result_or_an_expectation_differs(
    pytester: pytest.Pytester,
) -> None:
    record(pytester.path)
    expect(pytester.path, "'seven' in answer")
    result = pytester.runpytest_subprocess("--agent-notebooks", "-v")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        [
            "sales.ipynb::cell 3 Add up the rows. FAILED*",
            "sales.ipynb::cell 4 Is that much? PASSED*",
            "Not as expected: 'seven' in answer: answer = 'The total is 6.'",
        ]
    )
    assert not (pytester.path / ".ipyagent" / "state.db").exists()
    (pytester.path / "rows.txt").write_text("1\n2\n4\n")
    result = pytester.runpytest_subprocess("--agent-notebooks")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        ["The replay stopped: step 1, run_python gave another result: 6 → 7*"]
    )
    result.stdout.fnmatch_lines(["Not as expected: total == 6: total = 7"])


@pytest.mark.kernel
@pytest.mark.slow
def test_models_are_asked_live_and_their_pass_rates_stand_side_by_side(
    pytester: pytest.Pytester,
) -> None:
    record(pytester.path)
    script(pytester.path, "good", CALL, "The total is 6.", "No.")
    script(pytester.path, "bad", CALL, "The total is 7.", "No.")
    models = ("scripted/good.yaml", "scripted/bad.yaml")
    live = [option for each in models for option in ("--agent-live", each)]
    report = pytester.path / "report.xml"
    result = pytester.runpytest_subprocess(*live, "--agent-runs=2", f"--junitxml={report}")
    result.assert_outcomes(passed=3, failed=1)
    result.stdout.fnmatch_lines(
        [
            "0/2 = 0% (0% to 66%) of the runs passed",
            "run 1: Not as expected: near(6): numbers = [[]7.0]",
            "run 2: Not as expected: near(6): numbers = [[]7.0]",
            "*agent cells: runs passed, 95 % interval (Wilson)*",
            "* scripted/good.yaml *scripted/bad.yaml",
            "sales.ipynb: cell 3 Add up the rows. *2/2 = 100% (34% to 100%) *0/2 = 0% (0% to 66%)",
            "all cells * 4/4 = 100% (51% to 100%) *2/4 = 50% (15% to 85%)",
        ]
    )
    cases = ElementTree.parse(report).iter("testcase")
    found = [{p.get("name"): p.get("value") for p in case.iter("property")} for case in cases]
    assert [each["agent_model"] for each in found] == [models[0]] * 2 + [models[1]] * 2
    assert [each["agent_pass_rate"] for each in found] == ["1.0", "1.0", "0.0", "1.0"]
    assert found[2]["agent_pass_rate_high"] == "0.6576"


@pytest.mark.kernel
@pytest.mark.slow
def test_a_cell_without_a_saved_run_and_a_cell_that_fails_before_it_are_named(
    pytester: pytest.Pytester,
) -> None:
    write(pytester.path, "%load_ext ipyagent", "%%agent --fresh --expect 1 Hi.", "1 / 0", SUM)
    result = pytester.runpytest_subprocess("--agent-notebooks")
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(
        ["RunFailedError: Nothing is recorded that this cell could replay."]
    )
    result.stdout.fnmatch_lines(["cell 4 failed: ZeroDivisionError: division by zero"])


@pytest.mark.kernel
@pytest.mark.slow
def test_a_cell_that_ends_its_kernel_is_named(pytester: pytest.Pytester) -> None:
    write(pytester.path, "import os\nos._exit(1)", "%%agent --expect 1 Hi.")
    result = pytester.runpytest_subprocess("--agent-notebooks")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["cell 2 ended the kernel"])
    result.stdout.no_fnmatch_line("*DeadKernelError*")


def test_a_file_that_is_not_a_notebook_is_an_error_of_one_line(pytester: pytest.Pytester) -> None:
    for n, text in enumerate(("", "[]", '{"cells": [{"cell_type": "code"}]}')):
        (pytester.path / f"{n}.ipynb").write_text(text)
    result = pytester.runpytest_subprocess("--agent-notebooks")
    result.assert_outcomes(errors=3)
    result.stdout.fnmatch_lines([f"{n}.ipynb is not a notebook: *" for n in range(3)])
    result.stdout.no_fnmatch_line("*pytest_plugin.py*")


def test_agent_cells_in_an_old_format_are_an_error_that_names_the_way_out(
    pytester: pytest.Pytester,
) -> None:
    old = nbformat.convert(write(pytester.path, SUM), 3)
    (pytester.path / "an old one.ipynb").write_text(nbformat.writes(old, version=3))
    result = pytester.runpytest_subprocess("--agent-notebooks", "--collect-only")
    result.assert_outcomes(errors=1)
    upgrade = "jupyter nbconvert --to notebook --nbformat 4 --inplace 'an old one.ipynb'"
    result.stdout.fnmatch_lines([f"*has an old format: run `{upgrade}`"])


def test_notebooks_are_collected_only_where_that_is_asked_for(pytester: pytest.Pytester) -> None:
    write(
        pytester.path, LOAD, "%%agent\nNo test.", "%%agents --expect 1", SUM, f"%%agent Hi\n{SAYS}"
    )
    pytester.runpytest_subprocess("--collect-only", "-q").stdout.fnmatch_lines(["no tests*"])
    result = pytester.runpytest_subprocess("--agent-notebooks", "--collect-only", "-q")
    found = [line for line in result.outlines if "::" in line]
    assert found == ["sales.ipynb::cell 5 Add up the rows.", "sales.ipynb::cell 6 Hi"]
    live = ["--agent-live", "a/b", "--agent-live", "c/d"]
    result = pytester.runpytest_subprocess(*live, "--collect-only", "-q")
    assert "sales.ipynb::cell 6 Hi [c/d]" in result.outlines


def test_the_plugin_imports_nothing_until_a_notebook_runs() -> None:
    heavy = "{'pydantic', 'nbformat', 'nbclient', 'IPython', 'ipyagent.schema', 'ipyagent.config'}"
    code = f"import sys, ipyagent.pytest_plugin; print({heavy} & {{*sys.modules}})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


@pytest.mark.parametrize(
    ("passed", "runs", "low", "high"),
    [(0, 5, 0.0, 0.4345), (5, 5, 0.5655, 1.0), (4, 5, 0.3755, 0.9638), (50, 100, 0.4038, 0.5962)],
)
def test_the_interval_is_wilsons(passed: int, runs: int, low: float, high: float) -> None:
    assert wilson_interval(passed, runs) == pytest.approx((low, high), abs=1e-4)
