"""However a plan stops waiting, all who say that one waits say the same."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness import NO, YES, call
from ipyagent.agent.approvals import Answer, Approval, Approvals
from ipyagent.agent.plan_runner import PlanRunner, decide_plan, resolve_plan
from ipyagent.config import Config
from ipyagent.errors import AgentError, NoFrontendError, SessionError
from ipyagent.kernel.drivers import Cell, drive_sync
from ipyagent.llm.scripted import Scripted
from ipyagent.magic import commands
from ipyagent.magic.notebook import Notebook
from ipyagent.schema import Decision, PlanStep, RunStatus, ToolCall
from ipyagent.ui.feed import Feed
from memory_pages import MemoryPages, Out
from planning import PlanLab

PLAN = {"calls": [call("list_files"), call("write_file", path="x", content="y")]}


@dataclass
class Place:
    """A notebook whose session has plans, and all who speak of the one that waits."""

    lab: PlanLab
    book: Notebook
    page: Out

    def check(self, plan_id: str | None, status_now: RunStatus | None = None) -> None:
        """Assert that they all name this plan (None: that none waits), or how it has ended."""
        session = self.lab.session
        stored = session.journal.session(session.id)
        self.book.tell_pages()
        panel = next(iter(self.page.sent[-1]["overview"]["approvals"]), None)
        drafts = [run.id for run in session.runs if run.status is RunStatus.DRAFT]
        assert stored.pending_run_id == plan_id
        assert session.waiting_plan_id == session.record.pending_run_id == plan_id
        assert (panel and panel["run_id"]) == plan_id
        assert drafts == ([plan_id] if plan_id else [])
        name = session.waiting_plan_name
        described = commands.describe_status(self.book)
        waits = described.partition("\nwaiting ")[2]
        assert (f"the plan {name}:" in waits) if plan_id else ("the plan" not in waits), described
        recorded = {run.id: run.status for run in session.journal.runs(session.id)}
        assert {run.id: run.status for run in session.runs} == recorded
        if status_now is not None:
            assert session.runs[-1].status is status_now

    def settle(self, answer: Answer, error: BaseException | None = None) -> None:
        """`%agent approve` or `deny`; the view cannot be opened where there is an `error`."""
        self.lab.cell, self.lab.client = Cell(), Scripted([])

        async def runner() -> PlanRunner:
            if error is not None:
                raise error
            return self.lab._runner(Config(), None)

        drive_sync(self.lab.cell, partial(resolve_plan, self.lab.session, answer, "", runner))

    def last_events(self, run_id: str) -> list[str]:
        records = self.lab.session.journal.events(self.lab.session.id)
        return [each.event.type for each in records if each.run_id == run_id]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.setenv("IPYAGENT_CHAT__PERSIST", "false")
    # As if the kernel had been started with these directories.
    monkeypatch.setattr("ipyagent.magic.notebook_settings.start_environ", lambda: dict(os.environ))
    shell = SimpleNamespace(
        user_ns={}, user_ns_hidden={}, meta={}, displayhook=SimpleNamespace(prompt_count=1)
    )
    pages: Any = MemoryPages()
    lab, book = PlanLab(tmp_path), Notebook(shell, tmp_path, pages)
    lab.session = book.sessions.get()
    return Place(lab, book, pages.add("page")[1])


@pytest.mark.spec("P20", "P45")
@pytest.mark.parametrize(
    ("answer", "ends"), [(YES, RunStatus.DONE), (NO, RunStatus.CANCELLED)], ids=["yes", "no"]
)
def test_a_plan_that_is_decided_on_waits_no_more(
    place: Place, answer: Answer, ends: RunStatus
) -> None:
    plan = place.lab.plan([PLAN])
    place.check(plan.id)
    place.settle(answer)
    place.check(None, ends)


@pytest.mark.spec("P20", "P45")
@pytest.mark.parametrize("answer", [YES, NO], ids=["yes", "no"])
@pytest.mark.parametrize("error", [AgentError("no view"), asyncio.CancelledError(), OSError("no")])
def test_a_plan_whose_view_cannot_be_opened_waits_no_more(
    place: Place, answer: Answer, error: BaseException, tmp_path: Path
) -> None:
    plan = place.lab.plan([PLAN])
    with pytest.raises((type(error), KeyboardInterrupt)):
        place.settle(answer, error)
    place.check(None, RunStatus.CANCELLED)
    assert place.last_events(plan.id)[-1] == "run_finished"
    assert not (tmp_path / "x").exists()
    place.lab.session.check_ready()
    assert place.lab.run(["Fine."]).output == "Fine."
    with pytest.raises(SessionError, match="already"):
        place.lab.session.journal.confirm(place.lab.session.id, plan.id)


@pytest.mark.spec("P20", "P45")
def test_a_plan_that_the_user_changes_gives_way_to_the_new_one(place: Place) -> None:
    seen: list[str | None] = []

    def answer(approval: Approval) -> Answer:
        seen.append(place.lab.session.waiting_plan_id)
        if len(seen) > 1:
            raise NoFrontendError("the user has gone")
        step = PlanStep(call=ToolCall(id="c1", name="list_files"))
        return Answer(Decision.APPROVED, YES.by, plan=(step,))

    waiting = place.lab.plan([PLAN], answer=answer)
    assert len(set(seen)) == 2
    place.check(waiting.id)
    assert place.lab.session.runs.get(seen[0]).status is RunStatus.CANCELLED


@pytest.mark.spec("P20", "P45")
def test_a_plan_that_is_not_the_one_that_was_shown_waits_no_more(place: Place) -> None:
    plan = place.lab.plan([PLAN])
    other = plan.model_copy(update={"plan_id": "0" * 12})
    with pytest.raises(SessionError, match="not the one that was shown"):
        decide_plan(place.lab.session, YES, other)
    place.check(None, RunStatus.CANCELLED)
    assert place.last_events(plan.id)[-1] == "run_finished"


@pytest.mark.spec("P20", "P45")
def test_a_plan_of_a_session_that_has_ended_waits_no_more(place: Place) -> None:
    plan = place.lab.plan([PLAN])
    place.lab.session.end()
    place.check(None, RunStatus.CANCELLED)
    assert place.last_events(plan.id)[-1] == "run_finished"


def test_the_facts_beside_a_run_are_looked_up_between_runs(place: Place) -> None:
    desk, feed = place.book.desk, Feed(Approvals(), lambda: None)
    assert desk is not None

    def model() -> object:
        place.book.tell_pages()
        return place.page.sent[-1]["overview"]["model"]

    before = model()
    desk.begin(feed)
    place.book.settings.set("llm.model=scripted/other")
    assert model() == before
    desk.end(feed)
    assert model() != before
