"""Cells that say what is to hold of their run, in a real kernel."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernels import Kernel, python, script

ENVIRONMENT = {"IPYAGENT_AGENT__CONFIRM_MODE": "yolo"}


def replies(folder: Path, name: str = "script") -> str:
    return script(folder, python("total = sum(rows)"), "The total is 6.", name=name)


@pytest.mark.spec("H27")
def test_a_failed_expectation_is_seen_and_raises_only_where_that_is_asked_for(
    fresh: Kernel, tmp_path: Path
) -> None:
    fresh.run("rows = [1, 2, 3]")
    cell = "%%agent {} --expect near(6)\nAdd up the rows.\n--expect total > 9"
    seen = fresh.run(cell.format(replies(tmp_path)))
    assert seen.status == "ok"
    assert seen.run["prompt"] == "Add up the rows."
    assert [each.get("found", "") for each in seen.run["expected"]] == ["", "total = 6"]
    assert "Not as expected: total > 9: total = 6" in str(seen.messages)
    assert fresh.run("%agent expect").stdout.splitlines() == [
        "--expect near(6)",
        "--expect called('run_python')",
        "--expect 'total' in variables",
    ]
    raised = fresh.run(cell.format(f"{replies(tmp_path, 'again')} --raise"))
    assert raised.status == "error"
    assert "Not as expected: total > 9" in raised.content["evalue"]


def test_what_cannot_be_checked_is_refused_before_the_run(fresh: Kernel, tmp_path: Path) -> None:
    wrong = fresh.run(f"%%agent {replies(tmp_path)} --expect near(\nAdd.")
    assert "--expect near(: this is not a Python expression" in str(wrong.messages)
    plan = fresh.run(f"%%agent {replies(tmp_path)} --plan --expect near(6)\nAdd.")
    assert "--expect is about an answer, and --plan has none: leave one of them out" in str(
        plan.messages
    )
