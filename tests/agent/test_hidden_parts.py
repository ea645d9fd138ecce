"""What is hidden from a model cannot come back through it: neither lost on disk, nor told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness import YES, Lab, call
from ipyagent.agent.approvals import Answer, Approval
from ipyagent.redaction import HIDDEN
from ipyagent.schema import DecidedBy, Decision, PlanStep, ToolExecution

SECRET = "ghp_0123456789abcdefghij0123456789abcdef"
INI = f"[api]\napi_key = {SECRET}\nn = 3\n"


@pytest.fixture
def settings(tmp_path: Path) -> Path:
    path = tmp_path / "settings.ini"
    path.write_text(INI)
    return path


def back_again(request: Any) -> dict[str, Any]:
    """A model that writes back what it has read, with one number changed."""
    read = request.messages[-1].tool_results[0].content[0].text
    lines = [line.split("\t", 1)[1] for line in read.splitlines() if "\t" in line]
    content = "\n".join(lines).replace("n = 3", "n = 4") + "\n"
    return {"calls": [call("write_file", path="settings.ini", content=content)]}


def test_a_file_is_not_written_back_without_its_secret(lab: Lab, settings: Path) -> None:
    reading = {"calls": [call("read_file", path="settings.ini")]}
    run = lab.run([reading, back_again, "Sorry."], answer=YES)
    assert HIDDEN in run.results[0].output
    assert SECRET not in run.results[0].output
    assert run.executions[1].status == "failed"
    assert "would be lost" in str(run.results[1].error)
    assert settings.read_text() == INI
    assert lab.watcher.asked == []


def test_what_is_around_a_secret_can_be_changed_and_the_question_does_not_tell_it(
    lab: Lab, settings: Path
) -> None:
    edit = call("edit_file", path="settings.ini", old_string="n = 3", new_string="n = 4")
    run = lab.run([{"calls": [edit]}, "Done."], answer=YES)
    assert run.executions[0].status == "success"
    assert settings.read_text() == INI.replace("n = 3", "n = 4")
    (approval,) = lab.watcher.asked
    assert isinstance(approval.subject, ToolExecution)
    assert "n = 4" in approval.subject.preview.text
    assert SECRET not in approval.subject.preview.text


def test_code_with_a_hidden_part_is_not_run(lab: Lab) -> None:
    run = lab.run([{"calls": [call("run_python", code=f"token = '{SECRET}'")]}, "Oh."], answer=YES)
    assert run.executions[0].status == "failed"
    assert "token" not in lab.variables


def test_the_key_in_the_settings_is_hidden_too(lab: Lab) -> None:
    key = "tr0ub4dor&3"
    run = lab.run([f"My key is {key}."], settings={"llm": {"api_key": key}})
    assert run.output == f"My key is {HIDDEN}."


def test_a_plan_into_which_a_secret_is_typed_stays_as_it_was(lab: Lab) -> None:
    typed = call("run_python", code=f"token = '{SECRET}'")
    steps = (PlanStep.model_validate({"call": {"id": "x", **typed}}),)
    changing = [Answer(Decision.APPROVED, DecidedBy.BUTTON, plan=steps), YES]

    def decide(approval: Approval) -> Answer:
        return changing.pop(0)

    run = lab.run([{"calls": [call("run_python", code="token = 1")]}], plan=True, answer=decide)
    assert run.output == "1 of 1 step done."
    assert lab.variables["token"] == 1
    assert SECRET not in str(lab.session.journal.runs(lab.session.id))
