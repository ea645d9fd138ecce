"""The live card's end of the connection, without a browser: what is sent, and what clicks do."""

from __future__ import annotations

import copy
import inspect
import json
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from comm import get_comm_manager
from ipykernel.comm.comm import BaseComm
from sample import BEGUN, call, run
from test_plans_drawn import DRAFT as WAITING_PLAN

from harness import Follower
from ipyagent import schema as s
from ipyagent.agent.approvals import Answer, Approvals
from ipyagent.errors import NoFrontendError
from ipyagent.kernel.drivers import Cell
from ipyagent.kernel.pages import TARGET, Pages
from ipyagent.kernel.shell import Frontend, Surface
from ipyagent.ui import card, plain_view
from ipyagent.ui.card import DRAWING, HANDSHAKE, LiveCard, card_module, patience
from ipyagent.ui.page_bridge import PageBridge
from ipyagent.ui.questions import parse_click
from ipyagent.ui.static_html import RUN_MIME
from page_blocks import PageBlocks

CALL = call("c1", "fetch", {"url": "https://x.example", "api_key": "sk-1"})


ASKED = s.ToolExecution(call=CALL, sensitive=True)


RETRY = s.RetryScheduled(step=1, attempt=1, of=2, delay=30, reason="Busy.")


class Wire:
    """Both directions of a card's comm, as the kernel sees them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.approvals, self.stops = Approvals(), list[str]()
        self.sent: list[dict[str, Any]] = []
        self.page = PageBlocks()
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
        for event in (BEGUN, s.StepStarted(step=1), s.ToolStarted(step=1, execution=ASKED)):
            self.tell(event)
        self.tell(s.ApprovalRequested(step=1, call_id="c1", approval_id=approval.id))
        return approval.id

    def decided(self, decision: s.Decision = s.Decision.APPROVED) -> None:
        by = s.DecidedBy.BUTTON
        self.tell(s.ApprovalDecided(step=1, call_id="c1", decision=decision, by=by))


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
    (shown,) = wire.page.calls()
    assert shown["status"] == "awaiting_approval"
    assert shown["approval"]["id"] == approval
    wire.decide(approval, "approve")
    assert wire.approvals.pending() == []


@pytest.mark.spec("P42")
def test_the_card_pushes_and_nobody_polls(wire: Wire):
    wire.ask()
    assert [message["type"] for message in wire.sent] == ["snapshot", *["changes"] * 3]
    assert [message["seq"] for message in wire.sent] == [1, 2, 3, 4]
    (snapshot,) = wire.heard(type="resync")
    assert snapshot["seq"] == 4
    wire.tell(s.Notice(text="on"))
    assert wire.sent[-1]["seq"] == 5


@pytest.mark.spec("P42")
async def test_a_snapshot_has_what_is_streaming_and_what_is_waited_for(wire: Wire):
    for event in (BEGUN, s.StepStarted(step=1), RETRY):
        wire.tell(event)
    (waiting,) = wire.heard(type="init", id="page-1")
    assert waiting["type"] == "snapshot"
    assert "Retry 1/2" in wire.page.html
    assert 25 < wire.page.own("r/s1/w")["seconds"] <= 30
    wire.tell(s.MessageStarted(step=1))
    wire.tell(s.MessageDelta(step=1, kind="text", text="Rev"))
    wire.tell(s.MessageDelta(step=1, kind="text", text="enue"))
    (streaming,) = wire.heard(type="init", id="page-2")
    assert "r/s1/w" not in wire.page.blocks
    text = wire.page.blocks["r/s1/x/0"]
    assert (text["html"], text["more"]) == ("<p>Rev</p>\n", "enue")
    wire.card.feed.flush()
    assert wire.sent[-1] == streaming  # the snapshot holds the text that was on its way


def test_calls_that_wait_together_are_one_review_until_one_is_left(wire: Wire):
    first = wire.ask()
    second = ASKED.model_copy(update={"call": CALL.model_copy(update={"id": "c2"})})
    other = wire.approvals.open_call(second)
    wire.tell(s.ToolStarted(step=1, execution=second))
    assert "r/s1/r" not in wire.page.blocks
    wire.tell(s.ApprovalRequested(step=1, call_id="c2", approval_id=other.id))
    assert wire.page.own("r/s1/r") == {"type": "review", "approvals": [first, other.id]}
    keys = [each.key for each in wire.page.list()]
    assert keys.index("r/s1/r") == keys.index("r/s1/c0") - 1
    assert "2 changes" in wire.page.html
    wire.decided()
    assert "r/s1/r" not in wire.page.blocks


@pytest.mark.spec("P23")
def test_the_second_click_is_told_what_had_been_decided_and_when(wire: Wire):
    approval = wire.ask()
    assert wire.decide(approval, "approve") == []
    wire.decided()
    (told,) = wire.decide(approval, "deny")
    (change,) = told["set"]
    assert (change["key"], change["own"]["approval"]) == ("r/s1/c0/a", None)
    assert change["own"]["late"].pop("at").startswith("20")
    assert change["own"]["late"] == {"decision": "approved"}


@pytest.mark.spec("P23")
def test_a_click_between_the_decision_and_its_event_is_answered_after_it(wire: Wire):
    approval = wire.ask()
    wire.approvals.decide(approval, Answer(s.Decision.DENIED, s.DecidedBy.MAGIC))
    assert wire.decide(approval, "approve") == []
    wire.decided(s.Decision.DENIED)
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
    assert ".ipyagent-card" in module["style"]


def test_stop_stops(wire: Wire):
    wire.heard(type="stop")
    assert wire.stops == ["stop"]


@pytest.mark.spec("H15")
def test_secrets_reach_the_page_only_where_a_person_decides_about_them(wire: Wire):
    waved = ASKED.model_copy(update={"decision": s.Decision.AUTO, "decided_by": s.DecidedBy.POLICY})
    assert "sk-1" in json.dumps(s.ToolStarted(step=1, execution=waved).to_dict())
    message = {"role": "assistant", "content": (CALL,)}
    wire.tell(BEGUN)
    wire.tell(s.StepStarted(step=1))
    wire.tell(s.MessageFinished.model_validate({"step": 1, "message": message}))
    wire.tell(s.ToolStarted(step=1, execution=waved))
    snapshot = wire.heard(type="resync")
    assert "sk-1" not in json.dumps([wire.sent, snapshot])
    wire.ask()
    assert "sk-1" in json.dumps(wire.sent[-2])
    assert "sk-1" in json.dumps(wire.heard(type="resync"))
    done = {"decision": s.Decision.APPROVED, "decided_by": s.DecidedBy.BUTTON}
    done |= {"status": s.ToolStatus.SUCCESS, "result": s.ToolResult(output="ok")}
    wire.decided()
    wire.tell(s.ToolFinished(step=1, execution=ASKED.model_copy(update=done)))
    assert "sk-1" not in json.dumps([wire.sent[-1], wire.heard(type="init", id="page-2")])


# Whether a page shows the card


@pytest.fixture
def desk() -> Iterator[PageBridge]:
    """That of a kernel that nobody listens to."""
    pages = Pages(lambda _page, _message: None)
    session = SimpleNamespace(send=lambda *_args, **_details: None)
    pages.open(SimpleNamespace(session=session, iopub_socket=None, get_parent=dict))
    yield PageBridge(pages, lambda _feeds: {"panel": {"set": []}}, lambda _run, _cell: None)
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


PLAN = (
    s.PlanStep(call=call("p1", "send", {"to": "me", "api_key": "sk-1"}), note="first"),
    s.PlanStep(call=call("p2", "run_python", {"code": "1"})),
)


DRAFT = run(id="plan", plan=PLAN, plan_id="abc", status=s.RunStatus.DRAFT, stop_reason=None)


ASK = s.ToolExecution(call=call("c1", "ask_user", {}), question=s.Question(text="Which?"))


FETCH = s.ToolExecution(call=call("c1", "fetch", {}))


EDITED = [{"id": "p2", "name": "run_python", "note": "", "arguments": {"code": "2"}}]


DENIED = s.RunFinished(status=s.RunStatus.CANCELLED, stop_reason=s.StopReason.DENIED, duration=1)


def proposed(wire: Wire, draft: s.Run = DRAFT) -> str:
    """Bring the card to where a plan waits; returns the approval's id."""
    approval = wire.approvals.open_plan(draft, "digest")
    wire.tell(s.PlanProposed(run=draft, approval_id=approval.id))
    return approval.id


def started() -> s.RunStarted:
    return s.RunStarted(run=DRAFT.model_copy(update={"status": s.RunStatus.RUNNING}))


@pytest.mark.spec("P28", "P42")
def test_a_page_that_was_loaded_anew_gets_the_plan_and_its_buttons_work(wire: Wire):
    approval = proposed(wire)
    wire.heard(type="init", id="page-1")
    plan = wire.page.own("r/p/a")
    assert (plan["run_id"], plan["approval"]["id"]) == ("plan", approval)
    assert [step["id"] for step in plan["calls"]] == ["p1", "p2"]
    assert wire.decide(approval, "approve") == []
    assert wire.approvals.get(approval).answer.result() == Answer(
        s.Decision.APPROVED, s.DecidedBy.BUTTON
    )


@pytest.mark.spec("P41")
@pytest.mark.parametrize("event", [started(), DENIED])
def test_a_plan_has_no_buttons_once_it_was_decided_on(
    wire: Wire, event: s.RunStarted | s.RunFinished
):
    proposed(wire)
    wire.tell(event)
    wire.heard(type="resync")
    assert "r/p" in wire.page.blocks
    assert wire.page.own("r/p/a") is None


def test_a_plan_that_nobody_is_asked_about_has_no_buttons(wire: Wire):
    wire.tell(s.PlanProposed(run=DRAFT))
    wire.heard(type="resync")
    assert "r/p" in wire.page.blocks
    assert wire.page.own("r/p/a") is None


@pytest.mark.spec("P28")
def test_an_edited_plan_is_an_answer_that_holds_it(wire: Wire):
    approval = proposed(wire)
    wire.decide(approval, "edit", calls=EDITED)
    answer = wire.approvals.get(approval).answer.result()
    assert (answer.decision, answer.by) == (s.Decision.APPROVED, s.DecidedBy.BUTTON)
    assert [step.call.arguments for step in answer.plan or ()] == [{"code": "2"}]


@pytest.mark.spec("P05", "P23")
@pytest.mark.parametrize(
    ("first", "told"), [("approve", "approved"), ("deny", "denied"), ("edit", "edited")]
)
def test_the_second_click_is_told_what_became_of_the_plan(wire: Wire, first: str, told: str):
    approval = proposed(wire)
    assert wire.decide(approval, first, calls=EDITED) == []
    assert wire.page.own("r/p/a")["late"] is None
    wire.decide(approval, "approve")
    late = wire.page.own("r/p/a")["late"]
    assert late.pop("at").startswith("20")
    assert late == {"decision": told}


def test_of_two_proposals_only_the_newer_one_has_buttons(wire: Wire):
    first = proposed(wire)
    wire.decide(first, "edit", calls=EDITED)
    second = proposed(wire, DRAFT.model_copy(update={"id": "plan-2", "plan": PLAN[1:]}))
    wire.decide(first, "approve")
    assert wire.page.own("r/p/a")["late"]["decision"] == "edited"
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
        ({"decision": "always"}, FETCH),
        ({"decision": "folder"}, FETCH),
        ({"decision": "folder"}, FETCH.model_copy(update={"scopes": (s.Scope.SESSION,)})),
        ({"decision": "always"}, DRAFT),
        ({"decision": "approve"}, ASK),
        ({"decision": "answer", "text": "x"}, FETCH),
        ({"decision": "answer", "text": "x"}, DRAFT),
        ({"decision": "answer", "text": " "}, ASK),
        ({"decision": "answer", "text": ["x"]}, ASK),
        ({"decision": "edit", "calls": [*EDITED, *EDITED]}, FETCH),
        ({"decision": "edit", "calls": []}, DRAFT),
        ({"decision": "edit", "calls": [{"id": "x"}]}, DRAFT),
        ({"decision": "edit", "calls": "all"}, DRAFT),
        ({"decision": ["approve"]}, FETCH),
        ({}, FETCH),
    ],
)
def test_the_page_is_believed_only_what_it_was_offered(
    message: dict[str, Any], about: s.ToolExecution | s.Run
):
    assert parse_click(message, about) is None


@pytest.mark.parametrize(
    ("word", "scope"), [("approve", s.Scope.ONCE), ("always", "session"), ("folder", "folder")]
)
def test_what_it_was_offered_counts(word: str, scope: s.Scope):
    both = FETCH.model_copy(update={"scopes": (s.Scope.SESSION, s.Scope.FOLDER)})
    answer = parse_click({"decision": word}, both)
    assert answer == Answer(s.Decision.APPROVED, s.DecidedBy.BUTTON, scope=s.Scope(scope))


def test_a_question_is_answered_in_words_or_declined():
    answer = parse_click({"decision": "answer", "text": " North "}, ASK)
    assert answer == Answer(s.Decision.APPROVED, s.DecidedBy.BUTTON, text="North")
    declined = parse_click({"decision": "deny", "reason": ""}, ASK)
    assert declined == Answer(s.Decision.DENIED, s.DecidedBy.BUTTON)


HEADLESS = Frontend(Surface.TERMINAL, can_input=False)


@pytest.fixture
def published(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What IPython is given to publish."""
    published: list[dict[str, Any]] = []
    monkeypatch.setattr(card, "publish_display_data", lambda data, **more: published.append(data))
    return published


def test_a_notebook_keeps_the_plan_and_how_it_is_decided_on(published: list[dict[str, Any]]):
    view = card.NotebookView(Cell(), Approvals())
    tell = Follower(view)
    tell(s.PlanProposed(run=WAITING_PLAN, approval_id="a1"))
    assert len(published) == 1
    tell(s.PlanWaiting())
    assert published[1][RUN_MIME]["status"] == "draft"
    assert "%agent approve 0a1b2c" in published[1]["text/html"]
    assert view.card.widget.comm is None


@pytest.mark.parametrize("make", [lambda: card.NotebookView(Cell(), Approvals()), card.MirrorView])
def test_a_plan_that_is_denied_is_published_when_it_is_over(
    make: Any, published: list[dict[str, Any]]
):
    tell = Follower(make())
    tell(s.PlanProposed(run=WAITING_PLAN))
    tell(DENIED)
    assert published[-1][RUN_MIME]["status"] == "cancelled"


def test_without_a_front_end_the_mirror_is_published_once(published: list[dict[str, Any]]):
    tell = Follower(card.MirrorView())
    tell(s.PlanProposed(run=WAITING_PLAN))
    assert published == []
    tell(s.PlanWaiting())
    assert [each[RUN_MIME]["status"] for each in published] == ["draft"]


async def test_without_input_the_terminal_says_how_the_plan_is_decided_on(
    capsys: pytest.CaptureFixture[str],
):
    approvals = Approvals()
    view = plain_view.TerminalView(Cell(), approvals, HEADLESS)
    tell = Follower(view)
    tell(s.PlanProposed(run=WAITING_PLAN, approval_id="a1"))
    with pytest.raises(NoFrontendError):
        await view.ask(approvals.open_plan(WAITING_PLAN, "digest"))
    tell(s.PlanWaiting())
    assert "This plan waits for `%agent approve 0a1b2c`" in capsys.readouterr().out


def test_ipykernel_asks_the_comm_where_its_messages_go() -> None:
    route = getattr(BaseComm, "_reply_subshell_for", None)
    assert route is not None, (
        "BaseComm._reply_subshell_for is gone: a click may wait behind a blocked cell. See how "
        "ipykernel routes comm messages now (`shell_main`), try a click while a tool blocks the "
        "main thread in JupyterLab, and change ui/card.py"
    )
    assert list(inspect.signature(route).parameters) == ["self", "data", "default"]
