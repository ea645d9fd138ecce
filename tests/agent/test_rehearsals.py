"""What can never run is refused in a dry run and in a plan as it is in a real run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness import YES, Lab, call
from ipyagent.schema import Run, ToolStatus
from ipyagent.services.skills import Skills
from ipyagent.tools.base import Tool, tool
from planning import PlanLab

IMPOSSIBLE = [
    (call("read_file", path="../../etc/passwd"), "escapes the workspace"),
    (call("read_file", path=".env"), "the agent does not read it"),
    (call("list_files", path="/etc"), "escapes the workspace"),
    (call("list_files", pattern="../*"), "escapes the workspace"),
    (call("search_files", query="x", path=".."), "escapes the workspace"),
    (call("search_files", query="x", pattern="/etc/*"), "escapes the workspace"),
    (call("search_files", query=""), "query is empty"),
    (call("search_files", query="(", regex=True), "not a valid RE2 expression"),
    (call("write_file", path="../x", content=""), "escapes the workspace"),
    (call("write_file", path=".ipyagent/state.db", content=""), "private state"),
    (call("edit_file", path="../x", old_string="a", new_string="b"), "escapes the workspace"),
    (call("edit_file", path="a.txt", old_string="", new_string="b"), "old_string is empty"),
    (call("delete_file", path="a.txt"), "delete_file is disabled"),
    (call("read_notebook", path="../x.ipynb"), "escapes the workspace"),
    (call("edit_cell", cell=0, source="1", path="/etc/x.ipynb"), "escapes the workspace"),
    (call("insert_cell", source="1", path="../x.ipynb"), "escapes the workspace"),
    (call("get_skill", name="nope"), "Skill 'nope' does not exist"),
]
"""Calls that no earlier step can make possible."""

MISSING = [
    (call("read_file", path="new.txt"), "new.txt: no such file or folder"),
    (call("list_files", path="new"), "new: no such file or folder"),
    (call("list_files", path="new", pattern="*", recursive=True), "new: no such file or folder"),
    (call("search_files", query="x", path="new"), "new: no such file or folder"),
    (call("inspect_variable", name="new"), "there is no variable 'new'"),
    (call("edit_file", path="new.txt", old_string="a", new_string="b"), "no such file"),
    (call("read_notebook", path="new.ipynb"), "new.ipynb"),
    (call("edit_cell", cell=7, source="1", path="new.ipynb"), "new.ipynb"),
]
"""Calls of what an earlier step may make."""


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    lab = Lab(tmp_path)
    (lab.environment.workspace.root / "a.txt").write_text("a")
    (lab.environment.workspace.root / ".env").write_text("KEY=x")
    return lab


@pytest.fixture
def plan_lab(tmp_path: Path) -> PlanLab:
    lab = PlanLab(tmp_path)
    (lab.environment.workspace.root / "a.txt").write_text("a")
    return lab


def skills(lab: Lab) -> list[Tool]:
    return [Skills(lab.environment.workspace, None).tool()]


def error_of(run: Run) -> str:
    (execution,) = run.executions
    assert execution.status is ToolStatus.FAILED
    assert execution.started_at is None
    return (execution.result and execution.result.error) or ""


@pytest.mark.spec("A56")
@pytest.mark.parametrize(("step", "says"), [*IMPOSSIBLE, *MISSING])
def test_a_dry_run_refuses_what_a_real_run_refuses(
    lab: Lab, step: dict[str, Any], says: str
) -> None:
    replies = [{"calls": [step]}, "I see."]
    dry = lab.run(replies, tools=skills(lab), dry_run=True)
    real = lab.run(replies, tools=skills(lab), answer=YES)
    assert says in error_of(dry)
    assert error_of(dry) == error_of(real)
    assert lab.watcher.asked == []


BEFORE = call("write_file", path="b.txt", content="a")
"""A step that makes none of the impossible possible."""


@pytest.mark.spec("A56", "P28")
@pytest.mark.parametrize(
    ("steps", "says"),
    [
        *(([step], says) for step, says in (*IMPOSSIBLE, *MISSING)),
        *(([BEFORE, step], says) for step, says in IMPOSSIBLE),
    ],
)
def test_nothing_impossible_is_put_before_the_user(
    plan_lab: PlanLab, steps: list[dict[str, Any]], says: str
) -> None:
    better = {"calls": [call("list_files")]}
    run = plan_lab.plan([{"calls": steps}, better], tools=skills(plan_lab))
    assert [each.call.name for each in run.plan] == ["list_files"]
    assert says in plan_lab.client.requests[1].messages[-1].tool_results[-1].text


@pytest.mark.spec("A56", "P28")
@pytest.mark.parametrize(("step", "says"), MISSING)
def test_a_step_may_need_what_an_earlier_step_makes(
    plan_lab: PlanLab, step: dict[str, Any], says: str
) -> None:
    first = call("write_file", path="new.txt", content="a")
    run = plan_lab.plan([{"calls": [first, step]}], tools=skills(plan_lab))
    assert [each.call.name for each in run.plan] == ["write_file", step["name"]]


@pytest.mark.spec("A56")
def test_a_step_that_only_looks_makes_nothing(plan_lab: PlanLab) -> None:
    steps = [call("list_files"), call("read_file", path="new.txt")]
    run = plan_lab.plan([{"calls": steps}, "I cannot."])
    assert run.plan == ()


@pytest.mark.spec("A56")
def test_a_tool_of_ones_own_has_its_own_checks(lab: Lab) -> None:
    def check(n: int) -> None:
        if n > 3:
            raise ValueError("at most 3")

    @tool(validate=check)
    def count(n: int) -> int:
        """Count."""
        return n

    calls = [call("count", n=9), call("count", n=1)]
    run = lab.run([{"calls": calls}, "Done."], tools=[count], dry_run=True)
    assert [each.output for each in run.results] == [
        "ValueError: at most 3",
        "Dry run: not executed.",
    ]


@pytest.mark.spec("A56")
def test_the_json_of_a_dry_run_says_that_it_was_dry(lab: Lab) -> None:
    calls = [call("list_files"), call("read_file", path="..")]

    def outcomes(told: dict[str, Any]) -> dict[str, tuple[bool | None, bool]]:
        return {t["name"]: (t["success"], "dry_run" in t) for t in told["tools_used"]}

    told = lab.run([{"calls": calls}, "Done."], dry_run=True).to_output_dict()
    assert told["dry_run"] is True
    assert outcomes(told) == {"list_files": (None, True), "read_file": (False, True)}
    told = lab.run([{"calls": calls}, "Done."]).to_output_dict()
    assert told["dry_run"] is False
    assert outcomes(told) == {"list_files": (True, False), "read_file": (False, False)}
