"""The live card's end of the connection, without a browser: what is sent, and what clicks do."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from sample import call, run

from ipyagent.agent.approvals import Answer, Approvals
from ipyagent.schema import (
    ApprovalDecided,
    ApprovalRequested,
    DecidedBy,
    Decision,
    MessageDelta,
    MessageFinished,
    MessageStarted,
    Notice,
    RetryScheduled,
    RunStarted,
    RunStatus,
    StepStarted,
    ToolExecution,
    ToolFinished,
    ToolResult,
    ToolStarted,
    ToolStatus,
)
from ipyagent.ui.card import LiveCard

CALL = call("c1", "fetch", {"url": "https://x.example", "api_key": "sk-1"})
ASKED = ToolExecution(call=CALL, sensitive=True)
BEGUN = RunStarted(run=run(status=RunStatus.RUNNING, stop_reason=None, duration=None))
RETRY = RetryScheduled(step=1, attempt=1, of=2, delay=30, reason="Busy.")


class Wire:
    """Both directions of a card's comm, as the kernel sees them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.approvals, self.stops = Approvals(), list[str]()
        self.sent: list[dict[str, Any]] = []
        self.card = LiveCard(self.approvals, lambda: self.stops.append("stop"))
        monkeypatch.setattr(self.card.widget.comm, "publish_msg", self._published)

    def _published(self, kind: str, data: dict[str, Any] | None = None, **_: object) -> None:
        if data and data.get("method") == "custom":
            self.sent.append(json.loads(json.dumps(data["content"])))

    def heard(self, **message: object) -> list[dict[str, Any]]:
        """What is sent because the page said `message`."""
        before = len(self.sent)
        data = {"method": "custom", "content": message}
        self.card.widget.comm.handle_msg({"content": {"data": data}, "buffers": []})
        return self.sent[before:]

    def ask(self) -> str:
        """Bring the card to where a person is asked; returns the approval's id."""
        approval = self.approvals.open(ASKED)
        for event in (BEGUN, StepStarted(step=1), ToolStarted(step=1, execution=ASKED)):
            self.card(event)
        self.card(ApprovalRequested(step=1, call_id="c1", approval_id=approval.id))
        return approval.id

    def decided(self, decision: Decision = Decision.APPROVED) -> None:
        by = DecidedBy.BUTTON
        self.card(ApprovalDecided(step=1, call_id="c1", decision=decision, by=by))


@pytest.fixture
def wire(monkeypatch: pytest.MonkeyPatch) -> Iterator[Wire]:
    wire = Wire(monkeypatch)
    yield wire
    wire.card.close()


@pytest.mark.spec("P42")
def test_a_page_that_was_loaded_anew_gets_the_whole_state_and_its_buttons_work(wire: Wire):
    approval = wire.ask()
    (first,) = wire.heard(kind="init", id="page-1")
    (second,) = wire.heard(kind="init", id="page-2")
    assert second == first
    assert second["op"] == "snapshot"
    assert second["approvals"] == {"c1": approval}
    (step,) = second["run"]["steps"]
    assert step["executions"][0]["status"] == "awaiting_approval"
    wire.heard(kind="decide", approval_id=approval, decision="approve", reason="")
    assert wire.approvals.pending() == []


@pytest.mark.spec("P42")
def test_the_card_pushes_and_nobody_polls(wire: Wire):
    wire.ask()
    assert [message["op"] for message in wire.sent] == ["events"] * 4
    assert [message["seq"] for message in wire.sent] == [1, 2, 3, 4]
    (snapshot,) = wire.heard(kind="resync")
    assert snapshot["seq"] == 4
    wire.card(Notice(text="on"))
    assert wire.sent[-1]["seq"] == 5


@pytest.mark.spec("P42")
async def test_a_snapshot_has_what_is_streaming_and_what_is_waited_for(wire: Wire):
    for event in (BEGUN, StepStarted(step=1), RETRY):
        wire.card(event)
    (waiting,) = wire.heard(kind="init", id="page-1")
    assert 25 < waiting["retry"]["delay"] <= 30
    wire.card(MessageStarted(step=1))
    wire.card(MessageDelta(step=1, kind="text", text="Rev"))
    wire.card(MessageDelta(step=1, kind="text", text="enue"))
    (streaming,) = wire.heard(kind="init", id="page-2")
    assert streaming["retry"] is None
    assert streaming["open"] == {"step": 1, "text": "Revenue", "thinking": ""}
    wire.card.feed.flush()
    assert wire.sent[-1] == streaming  # the snapshot holds the deltas that were on their way


@pytest.mark.spec("P23")
def test_the_second_click_is_told_what_had_been_decided_and_when(wire: Wire):
    approval = wire.ask()
    assert wire.heard(kind="decide", approval_id=approval, decision="approve", reason="") == []
    wire.decided()
    (late,) = wire.heard(kind="decide", approval_id=approval, decision="deny", reason="")
    assert late.pop("at").startswith("20")
    assert late == {"op": "late", "call_id": "c1", "decision": "approved"}


@pytest.mark.spec("P23")
def test_a_click_between_the_decision_and_its_event_is_answered_after_it(wire: Wire):
    approval = wire.ask()
    wire.approvals.decide(approval, Answer(Decision.DENIED, DecidedBy.MAGIC))
    assert wire.heard(kind="decide", approval_id=approval, decision="approve", reason="") == []
    wire.decided(Decision.DENIED)
    assert [message["op"] for message in wire.sent[-2:]] == ["events", "late"]
    assert wire.sent[-1]["decision"] == "denied"


def test_a_click_on_something_unknown_changes_nothing(wire: Wire):
    wire.ask()
    for message in (
        {"kind": "decide", "approval_id": "a99", "decision": "approve"},
        {"kind": "decide", "approval_id": ["a1"], "decision": "approve"},
        {"kind": "decide", "approval_id": "a1", "decision": "perhaps"},
        {"kind": "other"},
    ):
        assert wire.heard(**message) == []
    assert len(wire.approvals.pending()) == 1


def test_stop_stops(wire: Wire):
    wire.heard(kind="stop")
    assert wire.stops == ["stop"]


@pytest.mark.spec("H15")
def test_secrets_reach_the_page_only_where_a_person_decides_about_them(wire: Wire):
    waved = ASKED.model_copy(update={"decision": Decision.AUTO, "decided_by": DecidedBy.POLICY})
    assert "sk-1" in json.dumps(ToolStarted(step=1, execution=waved).to_dict())
    message = {"role": "assistant", "content": (CALL,)}
    wire.card(BEGUN)
    wire.card(StepStarted(step=1))
    wire.card(MessageFinished.model_validate({"step": 1, "message": message}))
    wire.card(ToolStarted(step=1, execution=waved))
    snapshot = wire.heard(kind="resync")
    assert "sk-1" not in json.dumps([wire.sent, snapshot])
    wire.ask()
    assert "sk-1" in json.dumps(wire.sent[-2])
    assert "sk-1" in json.dumps(wire.heard(kind="resync"))
    done = {"decision": Decision.APPROVED, "decided_by": DecidedBy.BUTTON}
    done |= {"status": ToolStatus.SUCCESS, "result": ToolResult(output="ok")}
    wire.decided()
    wire.card(ToolFinished(step=1, execution=ASKED.model_copy(update=done)))
    assert "sk-1" not in json.dumps([wire.sent[-1], wire.heard(kind="init", id="page-2")])
