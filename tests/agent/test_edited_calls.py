"""A user changes a call before it runs: it is asked about anew, and recorded with its change."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness import NO, YES, Lab, call
from ipyagent.agent.approvals import Answer
from ipyagent.errors import AgentError
from ipyagent.schema import Decision, Run, ToolEdited, ToolStatus
from ipyagent.schema.events import fold
from ipyagent.ui.questions import parse_click
from replayed import events_from_run


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


WRITE = call("write_file", path="a.txt", content="one")


def edit(**arguments: Any) -> Answer:
    return replace(YES, arguments=arguments)


def in_turn(*answers: Answer) -> Callable[[Any], Answer]:
    waiting: Iterator[Answer] = iter(answers)
    return lambda approval: next(waiting)


def run(lab: Lab, *answers: Answer, calls: Any = (WRITE,), **settings: Any) -> Run:
    return lab.run([{"calls": list(calls)}, "Done."], answer=in_turn(*answers), **settings)


def test_a_changed_call_is_asked_about_anew_and_runs_as_it_was_changed(lab: Lab, tmp_path: Path):
    done = run(lab, edit(path="b.txt", content="two"), YES)
    (execution,) = done.executions
    assert (execution.status, execution.call.arguments["path"]) == (ToolStatus.SUCCESS, "b.txt")
    assert execution.proposed == {"path": "a.txt", "content": "one"}
    assert not (tmp_path / "a.txt").exists()
    assert (tmp_path / "b.txt").read_text() == "two"
    shown = [each.subject for each in lab.watcher.asked]
    assert [each.call.arguments["path"] for each in shown] == ["a.txt", "b.txt"]
    assert "+two" in shown[1].preview.text


def test_the_model_is_told_what_ran_and_keeps_its_own_call(lab: Lab):
    run(lab, edit(path="b.txt", content="two"), YES)
    *_, answer, result = lab.client.requests[-1].messages
    assert answer.tool_calls[0].arguments["path"] == "a.txt"
    text = result.content[0].content[0].text
    assert "The user changed this call before it ran" in text
    assert '"path": "b.txt"' in text


def test_a_changed_call_that_is_denied_does_not_run(lab: Lab, tmp_path: Path):
    (execution,) = run(lab, edit(path="b.txt", content="two"), NO).executions
    assert execution.status is ToolStatus.DENIED
    assert execution.result.for_model is None  # it did not run, so nothing is said of what ran
    assert [*tmp_path.glob("*.txt")] == []


@pytest.mark.parametrize(
    ("given", "why"),
    [({"path": "b.txt"}, "content"), ({"path": "/etc/b.txt", "content": "x"}, "workspace")],
)
def test_a_change_that_cannot_run_leaves_the_call_as_it_was(
    lab: Lab, tmp_path: Path, given: dict[str, Any], why: str
):
    done = run(lab, edit(**given), YES)
    (execution,) = done.executions
    assert (execution.status, execution.proposed) == (ToolStatus.SUCCESS, None)
    assert (tmp_path / "a.txt").read_text() == "one"
    (note,) = done.notes
    assert note.startswith("The changed call cannot run, and this one stays: ")
    assert why in note


def test_a_rule_that_denies_holds_for_a_changed_call_too(lab: Lab, tmp_path: Path):
    rules = [{"effect": "deny", "tool": "write_file", "arguments": {"path": "secret/**"}}]
    (execution,) = run(
        lab, edit(path="secret/b.txt", content="x"), settings={"policy": {"rules": rules}}
    ).executions
    assert execution.status is ToolStatus.DENIED
    assert len(lab.watcher.asked) == 1
    assert [*tmp_path.glob("**/*.txt")] == []


def test_what_is_changed_back_was_not_changed(lab: Lab):
    changes = edit(path="b.txt", content="two"), edit(path="a.txt", content="one")
    (execution,) = run(lab, *changes, YES).executions
    assert (execution.call.arguments["path"], execution.proposed) == ("a.txt", None)


def test_an_approval_of_the_call_as_it_was_does_not_run_the_changed_one(lab: Lab):
    run(lab, edit(path="b.txt", content="two"), YES)
    first, second = lab.watcher.asked
    assert (first.used, second.used) == (False, True)
    with pytest.raises(AgentError, match="was not approved"):
        lab.environment.approvals.use(first, second.subject.call)


def test_the_change_is_in_the_record_and_comes_again_from_it(lab: Lab):
    done = run(lab, edit(path="b.txt", content="two"), YES)
    (told,) = [each for each in lab.watcher.events if isinstance(each, ToolEdited)]
    assert told.execution.proposed is not None
    assert Run.from_dict(done.to_dict()) == done
    again = None
    for event in events_from_run(done):
        again = fold(again, event)
    assert again.executions[0].proposed == {"path": "a.txt", "content": "one"}


def test_a_click_can_change_a_call_but_not_a_question_or_a_plan(lab: Lab):
    given = {"decision": "edit", "calls": [{"arguments": {"path": "b.txt"}}]}
    run(lab, NO)
    (asked,) = lab.watcher.asked
    answer = parse_click(given, asked.subject)
    assert (answer.decision, answer.arguments) == (Decision.APPROVED, {"path": "b.txt"})
    assert parse_click({"decision": "edit", "calls": [{"arguments": []}]}, asked.subject) is None
    question = call("ask_user", question="Which?", choices=[])
    lab.run([{"calls": [question]}, "Done."], answer=NO)
    assert parse_click(given, lab.watcher.asked[-1].subject) is None
    plan = Run.from_dict({"id": "r", "model": "m", "status": "draft", "plan": []})
    assert parse_click(given, plan) is None
