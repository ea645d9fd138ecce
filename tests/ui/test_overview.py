"""What the side panel and the status bar are told."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from sample import NOON, call
from test_plans_drawn import PLAN

from harness import new_session
from ipyagent import schema as s
from ipyagent.agent.approvals import Approvals
from ipyagent.agent.event_stream import EventStream
from ipyagent.agent.session.session import Session
from ipyagent.store.journal import Journal
from ipyagent.ui import page_bridge
from ipyagent.ui.feed import Feed
from ipyagent.ui.page_bridge import OverviewBuilder, OverviewContext
from page_blocks import words_of

CALL = call("c1", "fetch", {"url": "https://x.example", "api_key": "sk-1"})
DONE = s.RunFinished(status=s.RunStatus.DONE, stop_reason=s.StopReason.FINISHED, duration=1.5)
DRAFT = s.Run(
    id="p", cell_id="cell-p", prompt="Tidy.", model="m", status=s.RunStatus.DRAFT, plan=PLAN
)


class Kernel:
    """A session, the runs that are drawn now, and what is told of them."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self.session: Session | None = self.new_session()
        self.feeds: list[Feed] = []
        self.drawn: list[Feed] = []
        self.overview = OverviewBuilder()
        self.around = OverviewContext()
        self.streams: dict[Feed, EventStream] = {}

    def new_session(self) -> Session:
        return new_session(self.journal)

    def draw(self, *events: s.Event, cell: str = "cell", session: Session | None = None) -> Feed:
        feed = Feed(Approvals(), lambda: None, cell)
        self.feeds.append(feed)
        self.drawn.append(feed)
        self.tell(feed, *events, session=session)
        return feed

    def tell(self, feed: Feed, *events: s.Event, session: Session | None = None) -> None:
        used = session or self.session
        assert used
        stream = self.streams.setdefault(feed, EventStream(used, [feed]))
        for event in events:
            stream.emit(event)

    def run(self, name: str, *between: s.Event, session: Session | None = None) -> None:
        """One that ends."""
        self.draw(started(name), *between, DONE, cell=f"cell-{name}", session=session)
        self.feeds.clear()

    def told(self) -> Any:
        around = self.around
        if self.session is not None:
            around = replace(around, plan=self.journal.waiting_plan(self.session.id))
        return json.loads(json.dumps(self.overview(self.session, self.feeds, self.drawn, around)))

    def propose(self) -> None:
        """A plan that goes on waiting when its cell has ended."""
        assert self.session
        self.journal.draft(DRAFT, self.session.id)
        self.draw(s.PlanProposed(run=DRAFT))
        self.feeds.clear()


@pytest.fixture
def kernel() -> Iterator[Kernel]:
    journal = Journal.open(None)
    yield Kernel(journal)
    journal.close()


def started(name: str = "r", **changes: Any) -> s.RunStarted:
    run = {"id": name, "prompt": f"Prompt of {name}", "model": "m", "started_at": s.now()}
    return s.RunStarted(run=s.Run.model_validate(run | changes))


def asked(tokens: int = 10, cost: float | None = 0.5) -> tuple[s.Event, ...]:
    usage = s.TokenUsage(prompt_tokens=tokens, completion_tokens=1)
    return (
        s.StepStarted(step=1),
        s.MessageFinished(step=1, message=None, finish_reason="stop", usage=usage, cost_usd=cost),
    )


def called(execution: s.ToolExecution, *variables: s.VariableChange) -> tuple[s.Event, ...]:
    result = s.ToolResult(output="ok", variables=variables)
    ended = execution.model_copy(update={"status": s.ToolStatus.SUCCESS, "result": result})
    return (s.ToolStarted(step=1, execution=execution), s.ToolFinished(step=1, execution=ended))


def test_a_kernel_without_a_session_has_nothing_to_tell_but_the_model(kernel: Kernel):
    kernel.session, kernel.around = None, OverviewContext("offline/explorer")
    told = kernel.told()
    assert told.pop("model") == "offline/explorer"
    assert told.pop("status") == "ipyagent: offline/explorer · no runs yet"
    assert told.pop("panel") == {"set": [], "order": {}}
    assert not any(told.values())


def rows(told: Any, section: str) -> list[Any]:
    """Return the rows of a section of the panel: their words, their HTML and their data."""
    blocks = {each["key"]: each for each in told["panel"]["set"]}
    keys = told["panel"]["order"].get(f"{section}/", [])
    return [blocks[key] | {"words": words_of(blocks[key]["html"])} for key in keys]


def in_full(told: Any) -> str:
    """Return the HTML of what is asked, in full; there is one."""
    (html,) = [each["html"] for each in told["panel"]["set"] if each["key"].endswith("/call")]
    return str(html)


def words(told: Any, section: str) -> list[str]:
    return [row["words"] for row in rows(told, section)]


def heading(told: Any, section: str) -> str:
    """Return the words of a section itself; "" if it is not there."""
    html = [each["html"] for each in told["panel"]["set"] if each["key"] == section]
    return words_of(html[0]) if html else ""


def test_runs_say_where_they_are_and_what_they_took(kernel: Kernel):
    kernel.run("r1", *asked(tokens=100, cost=0.25))
    kernel.draw(started("r2"), cell="below").number = 7
    first, second = kernel.told()["runs"]
    assert (first["number"], second["number"]) == (None, 7)
    assert (first["live"], first["cell_id"]) == (False, "cell-r1")
    assert first["facts"] == ["done", "m", "101 tok", "$0.250", "1.50 s"]
    assert (second["live"], second["cell_id"]) == (True, "below")
    assert kernel.told()["status"] == "ipyagent: m · running"
    newer, older = rows(kernel.told(), "runs")
    assert older["words"] == "✓Prompt of r1done · m · 101 tok · $0.250 · 1.50 s"
    assert [each["name"] for each in newer["own"]["buttons"]] == ["jump", "stop"]
    assert [(each["name"], each["of"]) for each in older["own"]["buttons"]] == [("jump", "cell-r1")]
    assert second["prompt"] == "Prompt of r2"


def test_the_session_tells_what_all_of_its_runs_took(kernel: Kernel):
    kernel.run("r1", *asked(tokens=100, cost=0.25))
    kernel.run("r2", *asked(tokens=10, cost=None))
    assert heading(kernel.told(), "usage") == "This session: 2 runs · 112 tokens · $0.250"


def test_what_ran_here_stays_when_another_session_goes_on(kernel: Kernel):
    kernel.run("r1", *asked())
    kernel.run("aside", session=kernel.new_session())
    kernel.session = kernel.new_session()
    kernel.run("r2", *asked())
    told = kernel.told()
    assert [each["id"] for each in told["runs"]] == ["r1", "aside", "r2"]
    assert heading(told, "usage").startswith("This session: 1 run ·")


def test_a_run_of_another_session_is_told_when_it_is_over(kernel: Kernel):
    feed = kernel.draw(started("aside"), session=(other := kernel.new_session()))
    assert kernel.told()["runs"][0]["live"]
    kernel.tell(feed, DONE, session=other)
    kernel.feeds.clear()
    (run,) = kernel.told()["runs"]
    assert (run["id"], run["facts"][0], run["live"]) == ("aside", "done", False)


def test_only_the_newest_are_told(kernel: Kernel, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(page_bridge, "RUNS", 2)
    for n in range(4):
        kernel.run(f"r{n}", *asked(tokens=9))
    told = kernel.told()
    assert [each["id"] for each in told["runs"]] == ["r2", "r3"]
    assert heading(told, "usage") == "This session: 4 runs · 40 tokens · $2.00"


def test_what_has_ended_is_worked_out_once(kernel: Kernel, monkeypatch: pytest.MonkeyPatch):
    for n in range(5):
        kernel.run(f"r{n}")
    feed = kernel.draw(started("live"))
    kernel.told()
    worked_out: list[str] = []
    of = page_bridge._Digest.of
    monkeypatch.setattr(
        page_bridge._Digest, "of", lambda run, *more: worked_out.append(run.id) or of(run, *more)
    )
    kernel.tell(feed, s.StepStarted(step=1))
    kernel.told()
    assert worked_out == ["live"]


def test_a_call_that_waits_is_told_whole(kernel: Kernel):
    asked_about = s.ToolStarted(step=1, execution=s.ToolExecution(call=CALL, sensitive=True))
    waits = s.ApprovalRequested(step=1, call_id="c1", approval_id="a1")
    kernel.draw(started("r"), s.StepStarted(step=1), asked_about, waits)
    (approval,) = kernel.told()["approvals"]
    assert (approval["approval_id"], approval["run_id"]) == ("a1", "r")
    asked = approval["asked"]
    assert (asked["approval"]["id"], asked["about"]) == ("a1", "fetch")
    assert asked["calls"][0]["arguments"]["api_key"] == "sk-1"
    assert 'data-state="awaiting_approval"' in in_full(kernel.told())
    assert "sk-1" in in_full(kernel.told())
    assert (approval["change"], approval["proposal"]) == ("", None)
    assert approval["about"] == "fetch"
    (row,) = rows(kernel.told(), "asked")
    assert (row["key"], row["words"]) == ("asked/r a1", "?Prompt of rfetch")
    assert [each["label"] for each in row["own"]["buttons"]] == ["Go to it"]
    (run,) = rows(kernel.told(), "runs")
    assert 'class="ia-glyph ia-waiting"' in run["html"]
    assert run["words"] == "?Prompt of rwaiting for you · m"
    assert kernel.told()["status"] == "ipyagent: m · waiting for you"


DIFF = "--- cell 2\n+++ cell 2\n@@ -1,2 +1,2 @@\n x = 1\n-y = 2\n+y = 3\n"


CHANGED = s.CellPlace(cell_id="c", side="changed", kind="code")
BELOW = s.CellPlace(cell_id="c", side="after", kind="markdown")


@pytest.mark.parametrize(
    ("kind", "text", "cell", "shown"),
    [
        ("diff", DIFF, CHANGED, " x = 1\n-y = 2\n+y = 3\n⚠ why"),
        ("diff", DIFF + "@@ -9 +9 @@\n-a\n+b\n", CHANGED, "--- cell 2"),
        ("code", "1 + 1", BELOW, "1 + 1⚠ why"),
        ("code", "", BELOW, "It is empty.⚠ why"),
        ("code", "1 + 1", None, ""),
    ],
)
def test_a_change_of_a_cell_that_waits_is_told_by_itself(
    kernel: Kernel, kind: Any, text: str, cell: s.CellPlace | None, shown: str
) -> None:
    preview = s.Preview(kind=kind, text=text, place="cell [3]", cell=cell)
    execution = s.ToolExecution(
        call=call("c1", "change", {"source": text}), sensitive=True, preview=preview, concern="why"
    )
    waits = s.ApprovalRequested(step=1, call_id="c1", approval_id="a1")
    started_call = s.ToolStarted(step=1, execution=execution)
    kernel.draw(started("r"), s.StepStarted(step=1), started_call, waits)
    (approval,) = kernel.told()["approvals"]
    assert words_of(approval["change"]).startswith(shown.strip())
    texts = [approval["proposal"][name] for name in ("title", "about")] if cell else None
    expected = {
        CHANGED: ["a change of this cell", "the change of cell [3]"],
        BELOW: ["a new markdown cell", "the new markdown cell, cell [3]"],
    }
    assert texts == (cell and expected[cell])


def proposed(name: str, beside: str, made: str = "", side: Any = "after") -> s.ToolExecution:
    """Return a call that changes a notebook beside a cell, and made a cell there."""
    place = s.CellPlace(cell_id=beside, side=side, kind="code")
    preview = s.Preview(kind="code", text="1", cell=place)
    result = s.ToolResult(output="", cell=made) if made else None
    return s.ToolExecution(
        call=call(name, "insert_cell", {"source": "1"}),
        status="success" if made else "pending",
        preview=preview,
        result=result,
    )


@pytest.mark.parametrize(
    ("side", "beside", "place"),
    [
        ("after", "agent", "second"),
        ("after", "first", "second"),
        ("after", "title", "title"),
        ("before", "agent", "agent"),
        ("changed", "agent", "agent"),
    ],
)
def test_a_new_cell_is_proposed_below_those_that_the_run_has_inserted_there_since(
    kernel: Kernel, side: str, beside: str, place: str
):
    """Calls of one step know the same notebook; all pages show the same place."""
    made = [
        proposed("c1", "agent", "first"),
        proposed("c2", "agent", "second"),
        proposed("c3", "title", "agent", "changed"),
    ]
    waiting = proposed("w", beside, side=side)
    kernel.draw(
        started("r"),
        s.StepStarted(step=1),
        *(s.ToolStarted(step=1, execution=each) for each in (*made, waiting)),
        s.ApprovalRequested(step=1, call_id="w", approval_id="a1"),
    )
    (approval,) = kernel.told()["approvals"]
    assert approval["proposal"]["place"]["cell_id"] == place


def test_the_newest_run_has_its_tasks_told(kernel: Kernel):
    todos = [{"content": "Look", "status": "completed"}, {"content": "Plot"}]
    execution = s.ToolExecution(call=call("t", "todo_write", {"todos": todos}))
    kernel.run("r1", *asked(), *called(execution))
    assert words(kernel.told(), "plan") == ["☑Look", "☐Plot"]
    assert heading(kernel.told(), "plan") == "Plan and tasks 1 of 2 done"
    kernel.run("r2")
    assert heading(kernel.told(), "plan") == ""


def test_a_plan_that_a_cell_asks_about_is_an_approval(kernel: Kernel):
    secret = DRAFT.model_copy(update={"plan": (PLAN[0].model_copy(update={"call": CALL}),)})
    kernel.draw(s.PlanProposed(run=secret, approval_id="a1"))
    told = kernel.told()
    (approval,) = told["approvals"]
    assert approval["approval_id"] == "a1"
    assert approval["asked"]["calls"][0]["arguments"]["api_key"] == "sk-1"
    assert "sk-1" in in_full(told)
    assert approval["about"] == "a plan"


def test_a_plan_that_no_cell_asks_about_still_waits(kernel: Kernel):
    kernel.propose()
    told = kernel.told()
    (waiting,) = told["approvals"]
    assert (waiting["run_id"], waiting["cell_id"], waiting["approval_id"]) == ("p", "cell-p", "")
    assert waiting["asked"]["approval"]["question"] == "May this plan run?"
    assert waiting["asked"]["calls"] == []  # it runs as it is
    assert in_full(told).count('data-ipyagent="plan-step"') == len(PLAN)
    assert heading(told, "plan") == ""  # it is among what waits
    (row,) = rows(told, "asked")
    assert (row["key"], row["words"]) == ("asked/p ", "?Tidy.a plan")


def test_a_plan_that_was_decided_on_waits_no_more(kernel: Kernel):
    kernel.propose()
    denied = s.RunFinished(
        status=s.RunStatus.CANCELLED, stop_reason=s.StopReason.DENIED, duration=1
    )
    kernel.draw(s.PlanProposed(run=DRAFT), denied)
    kernel.feeds.clear()
    told = kernel.told()
    assert told["approvals"] == []
    assert told["runs"][-1]["facts"][0] == "cancelled"


def test_a_plan_tells_how_far_it_is(kernel: Kernel):
    run = DRAFT.model_copy(update={"status": s.RunStatus.RUNNING, "id": "p"})
    first = s.ToolExecution(call=PLAN[0].call)
    kernel.draw(s.RunStarted(run=run), s.StepStarted(step=1), *called(first))
    plan = rows(kernel.told(), "plan")
    states = ["success", "pending", "pending"]
    assert all(f'ia-{state}"' in row["html"] for state, row in zip(states, plan, strict=True))
    assert plan[0]["words"] == "✓read_file look first"
    assert [row["words"][1:11] for row in plan[1:]] == ["run_python", "write_file"]
    assert heading(kernel.told(), "plan") == "Plan and tasks 1 of 3 done"
    assert kernel.told()["status"] == "ipyagent: m · step 1 of 3"


def test_variables_say_what_became_of_them_last_and_in_which_run(kernel: Kernel):
    created = [s.VariableChange(name=n, change="created", type="int") for n in ("a", "b", "c")]
    changed = s.VariableChange(name="a", change="changed", type="DataFrame 3 × 2")
    python = s.ToolExecution(call=call("c1", "run_python", {"code": "…"}))
    kernel.run("r1", *asked(), *called(python, *created))
    kernel.run("r2", *asked(), *called(python, changed))
    assert words(kernel.told(), "variables") == [
        "a DataFrame 3 × 2 changed",
        "c int created",
        "b int created",
    ]
    opened = [row["own"] for row in rows(kernel.told(), "variables")]
    assert opened[0] == {"type": "head", "name": "a", "run_id": "r2"}
    assert [(each["name"], each["run_id"]) for each in opened[1:]] == [("c", "r1"), ("b", "r1")]


def test_a_variable_that_is_gone_cannot_be_opened(kernel: Kernel):
    python = s.ToolExecution(call=call("c1", "run_python", {"code": "del a"}))
    gone = s.VariableChange(name="a", change="deleted", type="int")
    kernel.run("r1", *asked(), *called(python, gone))
    (row,) = rows(kernel.told(), "variables")
    assert (row["words"], row["own"]) == ("a int deleted", None)


def test_runs_that_calls_began_stand_below_their_run(kernel: Kernel):
    feed = kernel.draw(started("boss"))
    assert kernel.session

    def begin(name: str, parent: str) -> tuple[Session, EventStream]:
        session = kernel.new_session()
        stream = EventStream(session, [lambda event, state: feed.show_child(event, state)])
        stream.emit(started(name, parent_id=parent))
        return session, stream

    _, stream = begin("task", "boss")
    begin("part", "task")
    (boss,) = rows(kernel.told(), "runs")
    assert words_of(boss["html"]) == (
        "▶Prompt of bossrunning · m▶Prompt of taskrunning · m▶Prompt of partrunning · m"
    )
    assert boss["html"].count('<ul class="ia-rows">') == 2
    stream.emit(DONE)
    (boss,) = rows(kernel.told(), "runs")
    assert "✓Prompt of taskdone · m · 1.50 s" in boss["words"]


def test_runs_that_calls_began_are_found_in_the_journal(kernel: Kernel):
    other = kernel.new_session()
    EventStream(other, []).emit(started("task", parent_id="boss"))
    child = s.ToolResult(output="ok", child=s.ChildRun(runs=("task",)))
    execution = s.ToolExecution(call=call("c1", "delegate", {"task": "x"}))
    ended = execution.model_copy(update={"status": s.ToolStatus.SUCCESS, "result": child})
    finished = s.ToolFinished(step=1, execution=ended)
    kernel.run("boss", *asked(), s.ToolStarted(step=1, execution=execution), finished)
    kernel.drawn.clear()
    (boss,) = rows(kernel.told(), "runs")
    assert "Prompt of task" in boss["words"]


def test_sessions_say_which_is_current_and_when_they_were_used(kernel: Kernel):
    assert kernel.session
    other = kernel.new_session()
    used = other.record.model_copy(
        update={"last_run_at": NOON, "started_at": NOON - timedelta(days=1), "name": "older"}
    )
    records = [kernel.session.record, used]
    kernel.around = OverviewContext(sessions=records, prompts={other.id: "Plot it.\nNow."})
    current, older = rows(kernel.told(), "sessions")
    assert current["words"].startswith("no prompt so farcurrent · ")
    assert current["own"] is None
    assert older["words"] == f"Plot it.older · {NOON.astimezone():%d %b %Y}"
    (resume,) = older["own"]["buttons"]
    assert (resume["name"], resume["of"]) == ("resume", other.id)
    kernel.draw(started("r", session_id=kernel.session.id))
    current, older = rows(kernel.told(), "sessions")
    assert current["words"].startswith("Prompt of rcurrent · ")
    assert older["own"] is None


def test_ten_sessions_are_listed_and_more_can_be_found(kernel: Kernel):
    records = [kernel.new_session().record for _ in range(12)]
    prompts = {each.id: f"Prompt {n}" for n, each in enumerate(records[:-1])}
    kernel.around = OverviewContext(sessions=records, prompts=prompts)
    told = kernel.told()
    assert [row["key"] for row in rows(told, "sessions")] == [
        f"sessions/{each.id}" for each in records[:10]
    ]
    assert heading(told, "sessions") == "Sessions 11"  # one has no prompt
    (section,) = [each for each in told["panel"]["set"] if each["key"] == "sessions"]
    assert section["own"] == {"type": "search"}
    assert kernel.session
    kernel.around = OverviewContext(sessions=[*records, kernel.session.record], prompts=prompts)
    assert "current" in words(kernel.told(), "sessions")[0]
    kernel.around = OverviewContext(sessions=records[:3], prompts=prompts)
    assert {each["key"]: each for each in kernel.told()["panel"]["set"]}["sessions"]["own"] is None
