"""`%agent blame` in a real kernel."""

from pathlib import Path

import pytest

from kernels import Kernel, python, script

pytestmark = pytest.mark.kernel


@pytest.mark.spec("E14")
def test_blame_names_runs_and_the_users_own_cells(fresh: Kernel, tmp_path: Path) -> None:
    fresh.run("import pandas as pd\ndf = pd.DataFrame({'a': [1, 2]})\nn = 1")
    option = script(tmp_path, python("df['c'] = 1\nn = 2"), "Done.")
    fresh.run(f"%%agent {option} --confirm yolo\nAdd a column.")
    fresh.run("df = df.head(1)")
    mine, agents, first = fresh.run("%agent blame df").stdout.splitlines()
    assert "changed · your cell [" in mine
    assert mine.endswith("df = df.head(1)")
    assert "changed: 2 × 1 → 2 × 2 · + c (int64) · run " in agents
    assert agents.endswith("df['c'] = 1")
    assert "created · your cell [" in first
    (column,) = fresh.run("%agent blame df.c").stdout.splitlines()
    assert "+ c (int64)" in column
    assert "there is no such variable" in fresh.run("%agent blame nothing").stdout
    assert "usage: %agent blame" in fresh.run("%agent blame").stdout
    look = {"calls": [{"name": "inspect_variable", "arguments": {"name": "n"}}]}
    fresh.run(f"%%agent {script(tmp_path, look, 'Done.')}\nWhat is n?")
    fresh.run("import ipyagent\nlooked = ipyagent.last.results[0]")
    assert " · run " in fresh.value("looked.output")
    assert " · run " not in fresh.value("looked.for_model")
