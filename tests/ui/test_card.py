"""The live card's end of the connection, without a browser: what is sent, and what clicks do."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from comm import get_comm_manager
from sample import call, run

from harness import Follower
from ipyagent.agent.approvals import Answer, Approvals
from ipyagent.kernel.pages import TARGET, Pages
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
from ipyagent.ui.card import DRAWING, HANDSHAKE, LiveCard, card_module, patience
from ipyagent.ui.page_bridge import PageBridge
from page_transcript import PageTranscript

CALL = call("c1", "fetch", {"url": "https://x.example", "api_key": "sk-1"})
ASKED = ToolExecution(call=CALL, sensitive=True)
BEGUN = RunStarted(run=run(status=RunStatus.RUNNING, stop_reason=None, duration=None))
RETRY = RetryScheduled(step=1, attempt=1, of=2, delay=30, reason="Busy.")


class Wire:
    """Both directions of a card's comm, as the kernel sees them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.approvals, self.stops = Approvals(), list[str]()
        self.sent: list[dict[str, Any]] = []
        self.page = PageTranscript()
        card = LiveCard(self.approvals, lambda: self.stops.append("stop"))
        self.card, self.tell = card, Follower(card.feed)
        monkeypatch.setattr(self.card.widget.comm, "publish_msg", self._published)

    def _published(self, kind: str, data: dict[str, Any] | None = None, **_: object) -> None:
        if data and data.get("method") == "custom":
            self.sent.append(json.loads(json.dumps(data["content"])))
            self.page.receive(copy.deepcopy(self.sent[-1]))

    def heard(self, **message: object) -> list[dict[str, Any]]:
        """What is sent because the page said `message`."""
        before = len(self.sent)
        data = {"method": "custom", "content": message}
        self.card.widget.comm.handle_msg({"content": {"data": data}, "buffers": []})
        return self.sent[before:]

    def decide(self, approval: str, decision: str, **more: object) -> list[dict[str, Any]]:
        """What is sent because the user clicked."""
        answer = {"decision": decision, "reason": "", **more}
        return self.heard(type="decide", approval_id=approval, answer=answer)

    def ask(self) -> str:
        """Bring the card to where a person is asked; returns the approval's id."""
        approval = self.approvals.open_call(ASKED)
        for event in (BEGUN, StepStarted(step=1), ToolStarted(step=1, execution=ASKED)):
            self.tell(event)
        self.tell(ApprovalRequested(step=1, call_id="c1", approval_id=approval.id))
        return approval.id

    def decided(self, decision: Decision = Decision.APPROVED) -> None:
        by = DecidedBy.BUTTON
        self.tell(ApprovalDecided(step=1, call_id="c1", decision=decision, by=by))


@pytest.fixture
def wire(monkeypatch: pytest.MonkeyPatch) -> Iterator[Wire]:
    wire = Wire(monkeypatch)
    yield wire
    wire.card.close()


@pytest.mark.spec("P42")
def test_a_page_that_was_loaded_anew_gets_the_whole_state_and_its_buttons_work(wire: Wire):
    approval = wire.ask()
    (first,) = wire.heard(type="init", id="page-1")
    (second,) = wire.heard(type="init", id="page-2")
    assert second == first
    assert second["type"] == "snapshot"
    (step,) = second["transcript"]["steps"]
    (shown,) = step["calls"]
    assert shown["status"] == "awaiting_approval"
    assert shown["approval"]["id"] == approval
    wire.decide(approval, "approve")
    assert wire.approvals.pending() == []


@pytest.mark.spec("P42")
def test_the_card_pushes_and_nobody_polls(wire: Wire):
    wire.ask()
    assert [message["type"] for message in wire.sent] == ["changes"] * 4
    assert [message["seq"] for message in wire.sent] == [1, 2, 3, 4]
    (snapshot,) = wire.heard(type="resync")
    assert snapshot["seq"] == 4
    wire.tell(Notice(text="on"))
    assert wire.sent[-1]["seq"] == 5


@pytest.mark.spec("P42")
async def test_a_snapshot_has_what_is_streaming_and_what_is_waited_for(wire: Wire):
    for event in (BEGUN, StepStarted(step=1), RETRY):
        wire.tell(event)
    (waiting,) = wire.heard(type="init", id="page-1")
    (step,) = waiting["transcript"]["steps"]
    assert step["waiting"]["text"] == "Retry 1/2"
    assert 25 < step["waiting"]["seconds"] <= 30
    wire.tell(MessageStarted(step=1))
    wire.tell(MessageDelta(step=1, kind="text", text="Rev"))
    wire.tell(MessageDelta(step=1, kind="text", text="enue"))
    (streaming,) = wire.heard(type="init", id="page-2")
    (step,) = streaming["transcript"]["steps"]
    assert (step["waiting"], step["text"], step["is_streaming"]) == (None, "Revenue", True)
    wire.card.feed.flush()
    assert wire.sent[-1] == streaming  # the snapshot holds the text that was on its way


@pytest.mark.spec("P23")
def test_the_second_click_is_told_what_had_been_decided_and_when(wire: Wire):
    approval = wire.ask()
    assert wire.decide(approval, "approve") == []
    wire.decided()
    (told,) = wire.decide(approval, "deny")
    (change,) = told["changes"]
    assert change["path"] == ["steps", 0, "calls", 0, "late"]
    assert change["value"].pop("at").startswith("20")
    assert change["value"] == {"decision": "approved"}


@pytest.mark.spec("P23")
def test_a_click_between_the_decision_and_its_event_is_answered_after_it(wire: Wire):
    approval = wire.ask()
    wire.approvals.decide(approval, Answer(Decision.DENIED, DecidedBy.MAGIC))
    assert wire.decide(approval, "approve") == []
    wire.decided(Decision.DENIED)
    (call,) = wire.page.calls()
    assert call["late"]["decision"] == "denied"


def test_a_click_on_something_unknown_changes_nothing(wire: Wire):
    wire.ask()
    for message in (
        {"type": "decide", "approval_id": "a99", "answer": {"decision": "approve"}},
        {"type": "decide", "approval_id": ["a1"], "answer": {"decision": "approve"}},
        {"type": "decide", "approval_id": "a1", "answer": {"decision": "perhaps"}},
        {"type": "decide", "approval_id": "a1", "answer": "approve"},
        {"type": "decide", "approval_id": "a1", "decision": "approve"},
        {"type": "other"},
    ):
        assert wire.heard(**message) == []
    assert len(wire.approvals.pending()) == 1


def test_the_module_is_sent_to_the_card_that_asks_for_it(wire: Wire):
    (module,) = wire.heard(type="module")
    assert module["type"] == "module"
    assert module["hash"] == wire.card.widget.module_hash == card_module().hash
    assert "export" in module["source"]
    assert ".ipyagent-run" in module["style"]


def test_stop_stops(wire: Wire):
    wire.heard(type="stop")
    assert wire.stops == ["stop"]


@pytest.mark.spec("H15")
def test_secrets_reach_the_page_only_where_a_person_decides_about_them(wire: Wire):
    waved = ASKED.model_copy(update={"decision": Decision.AUTO, "decided_by": DecidedBy.POLICY})
    assert "sk-1" in json.dumps(ToolStarted(step=1, execution=waved).to_dict())
    message = {"role": "assistant", "content": (CALL,)}
    wire.tell(BEGUN)
    wire.tell(StepStarted(step=1))
    wire.tell(MessageFinished.model_validate({"step": 1, "message": message}))
    wire.tell(ToolStarted(step=1, execution=waved))
    snapshot = wire.heard(type="resync")
    assert "sk-1" not in json.dumps([wire.sent, snapshot])
    wire.ask()
    assert "sk-1" in json.dumps(wire.sent[-2])
    assert "sk-1" in json.dumps(wire.heard(type="resync"))
    done = {"decision": Decision.APPROVED, "decided_by": DecidedBy.BUTTON}
    done |= {"status": ToolStatus.SUCCESS, "result": ToolResult(output="ok")}
    wire.decided()
    wire.tell(ToolFinished(step=1, execution=ASKED.model_copy(update=done)))
    assert "sk-1" not in json.dumps([wire.sent[-1], wire.heard(type="init", id="page-2")])


# Whether a page shows the card


@pytest.fixture
def desk() -> Iterator[PageBridge]:
    """That of a kernel that nobody listens to."""
    pages = Pages(lambda _page, _message: None)
    session = SimpleNamespace(send=lambda *_args, **_details: None)
    pages.open(SimpleNamespace(session=session, iopub_socket=None, get_parent=dict))
    yield PageBridge(pages, lambda _feeds: {}, lambda _run, _cell: None)
    pages.close()


def connect(page: str) -> None:
    """A page opens its comm."""
    data = {"page": page, "client": "me", "notebooks": ["a.ipynb"]}
    content = {"comm_id": page, "target_name": TARGET, "data": data}
    get_comm_manager().comm_open(None, None, {"content": content})


@pytest.mark.parametrize(
    ("silent", "expected"), [([], HANDSHAKE), ([True], HANDSHAKE), ([True, False], DRAWING)]
)
def test_a_page_that_is_open_may_be_busy_drawing(
    desk: PageBridge, silent: list[bool], expected: float
) -> None:
    for number, is_silent in enumerate(silent):
        connect(f"page-{number}")
        desk.pages.all()[-1].silent = is_silent
    assert patience(desk) == expected


def test_a_front_end_without_the_extension_is_given_a_moment() -> None:
    assert patience(None) == HANDSHAKE
