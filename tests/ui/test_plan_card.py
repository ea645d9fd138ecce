"""A plan on the live card: what is sent while it waits, and what clicks on it do."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from sample import call, run
from test_card import Wire

from ipyagent.agent.approvals import Answer
from ipyagent.schema import (
    DecidedBy,
    Decision,
    PlanProposed,
    PlanStep,
    Question,
    Run,
    RunFinished,
    RunStarted,
    RunStatus,
    Scope,
    StopReason,
    ToolExecution,
)
from ipyagent.ui.questions import parse_click

PLAN = (
    PlanStep(call=call("p1", "send", {"to": "me", "api_key": "sk-1"}), note="first"),
    PlanStep(call=call("p2", "run_python", {"code": "1"})),
)
DRAFT = run(id="plan", plan=PLAN, plan_id="abc", status=RunStatus.DRAFT, stop_reason=None)
ASK = ToolExecution(call=call("c1", "ask_user", {}), question=Question(text="Which?"))
CALL = ToolExecution(call=call("c1", "fetch", {}))
EDITED = [{"call": {"id": "p2", "name": "run_python", "arguments": {"code": "2"}}, "note": ""}]
DENIED = RunFinished(status=RunStatus.CANCELLED, stop_reason=StopReason.DENIED, duration=1)


@pytest.fixture
def wire(monkeypatch: pytest.MonkeyPatch) -> Iterator[Wire]:
    wire = Wire(monkeypatch)
    yield wire
    wire.card.close()


def proposed(wire: Wire, draft: Run = DRAFT) -> str:
    """Bring the card to where a plan waits; returns the approval's id."""
    approval = wire.approvals.open_plan(draft, "digest")
    wire.tell(PlanProposed(run=draft, approval_id=approval.id))
    return approval.id


def started() -> RunStarted:
    return RunStarted(run=DRAFT.model_copy(update={"status": RunStatus.RUNNING}))


@pytest.mark.spec("P28", "P42")
def test_a_page_that_was_loaded_anew_gets_the_plan_and_its_buttons_work(wire: Wire):
    approval = proposed(wire)
    (snapshot,) = wire.heard(type="init", id="page-1")
    plan = snapshot["transcript"]["plan"]
    assert plan["approval"]["id"] == approval
    assert [step["id"] for step in plan["steps"]] == ["p1", "p2"]
    assert wire.decide(approval, "approve") == []
    assert wire.approvals.get(approval).answer.result() == Answer(
        Decision.APPROVED, DecidedBy.BUTTON
    )


@pytest.mark.spec("P41")
@pytest.mark.parametrize("event", [started(), DENIED])
def test_a_plan_has_no_buttons_once_it_was_decided_on(wire: Wire, event: RunStarted | RunFinished):
    proposed(wire)
    wire.tell(event)
    (snapshot,) = wire.heard(type="resync")
    assert snapshot["transcript"]["plan"]["approval"] is None


def test_a_plan_that_nobody_is_asked_about_has_no_buttons(wire: Wire):
    wire.tell(PlanProposed(run=DRAFT))
    (snapshot,) = wire.heard(type="resync")
    assert snapshot["transcript"]["plan"]["approval"] is None


@pytest.mark.spec("P28")
def test_an_edited_plan_is_an_answer_that_holds_it(wire: Wire):
    approval = proposed(wire)
    wire.decide(approval, "edit", plan=EDITED)
    answer = wire.approvals.get(approval).answer.result()
    assert (answer.decision, answer.by) == (Decision.APPROVED, DecidedBy.BUTTON)
    assert [step.call.arguments for step in answer.plan or ()] == [{"code": "2"}]


@pytest.mark.spec("P05", "P23")
@pytest.mark.parametrize(
    ("first", "told"), [("approve", "approved"), ("deny", "denied"), ("edit", "edited")]
)
def test_the_second_click_is_told_what_became_of_the_plan(wire: Wire, first: str, told: str):
    approval = proposed(wire)
    assert wire.decide(approval, first, plan=EDITED) == []
    assert wire.page.now["plan"]["late"] is None
    wire.decide(approval, "approve")
    late = wire.page.now["plan"]["late"]
    assert late.pop("at").startswith("20")
    assert late == {"decision": told}


def test_of_two_proposals_only_the_newer_one_has_buttons(wire: Wire):
    first = proposed(wire)
    wire.decide(first, "edit", plan=EDITED)
    second = proposed(wire, DRAFT.model_copy(update={"id": "plan-2", "plan": PLAN[1:]}))
    wire.decide(first, "approve")
    assert wire.page.now["plan"]["late"]["decision"] == "edited"
    assert not wire.approvals.get(second).answer.done()


@pytest.mark.spec("H15")
def test_a_plan_is_whole_where_it_is_decided_on_and_nowhere_else(wire: Wire):
    proposed(wire)
    assert "sk-1" in json.dumps(wire.sent)
    assert "sk-1" in json.dumps(wire.heard(type="resync"))
    wire.tell(started())
    assert "sk-1" not in json.dumps([wire.sent[-1], wire.heard(type="resync")])


@pytest.mark.parametrize(
    ("message", "about"),
    [
        ({"decision": "always"}, CALL),
        ({"decision": "folder"}, CALL),
        ({"decision": "folder"}, CALL.model_copy(update={"scopes": (Scope.SESSION,)})),
        ({"decision": "always"}, DRAFT),
        ({"decision": "approve"}, ASK),
        ({"decision": "answer", "text": "x"}, CALL),
        ({"decision": "answer", "text": "x"}, DRAFT),
        ({"decision": "answer", "text": " "}, ASK),
        ({"decision": "answer", "text": ["x"]}, ASK),
        ({"decision": "edit", "plan": EDITED}, CALL),
        ({"decision": "edit", "plan": []}, DRAFT),
        ({"decision": "edit", "plan": [{"call": {"id": "x"}}]}, DRAFT),
        ({"decision": "edit", "plan": "all"}, DRAFT),
        ({"decision": ["approve"]}, CALL),
        ({}, CALL),
    ],
)
def test_the_page_is_believed_only_what_it_was_offered(
    message: dict[str, Any], about: ToolExecution | Run
):
    assert parse_click(message, about) is None


@pytest.mark.parametrize(
    ("word", "scope"), [("approve", Scope.ONCE), ("always", "session"), ("folder", "folder")]
)
def test_what_it_was_offered_counts(word: str, scope: Scope):
    both = CALL.model_copy(update={"scopes": (Scope.SESSION, Scope.FOLDER)})
    answer = parse_click({"decision": word}, both)
    assert answer == Answer(Decision.APPROVED, DecidedBy.BUTTON, scope=Scope(scope))


def test_a_question_is_answered_in_words_or_declined():
    answer = parse_click({"decision": "answer", "text": " North "}, ASK)
    assert answer == Answer(Decision.APPROVED, DecidedBy.BUTTON, text="North")
    declined = parse_click({"decision": "deny", "reason": ""}, ASK)
    assert declined == Answer(Decision.DENIED, DecidedBy.BUTTON)
