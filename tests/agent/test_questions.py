"""`ask_user`: a question to the person, whose answer is the call's result."""

from __future__ import annotations

import pytest

from harness import Clock, Lab, Watcher, call
from ipyagent.agent.approvals import Answer, Approval
from ipyagent.schema import DecidedBy, Decision, Question, ToolExecution, ToolStatus

WHICH = call("ask_user", question="Which year?", choices=["2024", "2025"])


def said(text: str) -> Answer:
    return Answer(Decision.APPROVED, DecidedBy.BUTTON, text=text)


def asked(watcher: Watcher) -> list[Question | None]:
    return [
        each.subject.question for each in watcher.asked if isinstance(each.subject, ToolExecution)
    ]


def test_the_answer_is_the_result_and_the_model_reads_it(lab: Lab) -> None:
    run = lab.run([{"calls": [WHICH]}, "2025 it is."], answer=said("2025"))
    (execution,) = run.executions
    assert asked(lab.watcher) == [Question(text="Which year?", choices=("2024", "2025"))]
    assert (execution.status, execution.result and execution.result.output) == ("success", "2025")
    assert execution.question == Question(text="Which year?", choices=("2024", "2025"))
    assert lab.client
    assert lab.client.requests[1].messages[-1].tool_results[0].content[0].text == "2025"


@pytest.mark.parametrize("mode", ["yolo", "confirm-sensitive", "confirm-all"])
def test_a_question_goes_to_the_person_whatever_runs_unasked(lab: Lab, mode: str) -> None:
    lab.run([{"calls": [WHICH]}, "Thanks."], answer=said("neither"), confirm_mode=mode)
    assert len(lab.watcher.asked) == 1


def test_always_is_no_answer_to_a_question(lab: Lab) -> None:
    run = lab.run([{"calls": [WHICH]}, {"calls": [WHICH]}, "Thanks."], answer=said("2024"))
    assert len(lab.watcher.asked) == 2
    assert all(execution.scopes == () for execution in run.executions)


def test_without_a_person_a_question_is_declined_at_once(lab: Lab) -> None:
    run = lab.run([{"calls": [WHICH]}, "I guess 2025."], confirm_mode="yolo")
    assert (run.output, run.outcome) == ("I guess 2025.", "success")
    assert run.executions[0].status is ToolStatus.DENIED
    assert "Nobody answered: nobody is here" in (run.results[0].error or "")


def test_the_time_that_a_person_takes_is_not_the_runs(lab: Lab, clock: Clock) -> None:
    def slowly(approval: Approval) -> Answer:
        clock.advance(601)
        return said("2024")

    run = lab.run([{"calls": [WHICH]}, "Thanks."], answer=slowly, max_seconds=600)
    assert run.output == "Thanks."


@pytest.mark.parametrize(
    "arguments",
    [
        {"question": ""},
        {"question": "?", "choices": [""]},
        {"question": "?", "choices": [str(n) for n in range(9)]},
        {"question": "?", "choice": ["a"]},
    ],
)
def test_a_broken_question_is_not_asked(lab: Lab, arguments: dict[str, object]) -> None:
    run = lab.run([{"calls": [call("ask_user", **arguments)]}, "Sorry."], answer=said("x"))
    assert run.executions[0].status is ToolStatus.FAILED
    assert lab.watcher.asked == []
