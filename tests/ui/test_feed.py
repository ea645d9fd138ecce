"""What those who follow a run are told, and what pages may ask for beside it."""

from __future__ import annotations

from typing import Any

import pytest
from sample import run

from ipyagent.agent.approvals import Approvals
from ipyagent.kernel.pages import Page
from ipyagent.schema import Notice, RunFinished, RunStarted, RunStatus, StopReason
from ipyagent.ui.desk import Desk
from ipyagent.ui.feed import Feed

BEGUN = RunStarted(run=run(status=RunStatus.RUNNING, stop_reason=None, duration=None))
RUN_ID = BEGUN.run.id


class Out:
    """The kernel's end of a page's comm: what was sent there."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []

    def send(self, message: dict[str, Any]) -> None:
        self.sent.append(message)

    def ops(self) -> list[str]:
        """What the run said to the page."""
        return [each["message"]["op"] for each in self.sent if each["op"] == "run"]


class Open:
    """Pages that are connected, without a kernel."""

    def __init__(self) -> None:
        self.pages: list[Page] = []

    def all(self) -> list[Page]:
        return list(self.pages)

    def add(self, name: str) -> tuple[Page, Out]:
        out = Out()
        self.pages.append(Page(name, (name,), (), _out=out, _in=None))
        return self.pages[-1], out


@pytest.fixture
def pages() -> Open:
    return Open()


@pytest.fixture
def desk(pages: Open) -> Desk:
    return Desk(pages, lambda feeds: {"live": len(feeds)}, lambda run_id, cell_id: None)  # type: ignore[arg-type]


def begun(desk: Desk) -> Feed:
    feed = Feed(Approvals(), lambda: None, "cell-1")
    desk.begin(feed)
    feed.changed = lambda: None
    feed(BEGUN)
    return feed


@pytest.mark.spec("P42")
def test_a_page_that_follows_twice_is_told_once(desk: Desk, pages: Open):
    feed, (page, out) = begun(desk), pages.add("one")
    for _ in range(2):
        desk.heard(page, {"kind": "follow", "run_id": RUN_ID})
    feed(Notice(text="on"))
    assert out.ops() == ["snapshot", "snapshot", "events"]


@pytest.mark.spec("P42")
def test_a_page_that_went_is_told_nothing_more_and_is_forgotten(desk: Desk, pages: Open):
    feed, (page, out), (other, stays) = begun(desk), pages.add("one"), pages.add("two")
    desk.heard(page, {"kind": "follow", "run_id": RUN_ID})
    desk.heard(other, {"kind": "follow", "run_id": RUN_ID})
    desk.heard(page, {"kind": "bye"})
    feed(Notice(text="on"))
    assert out.ops() == ["snapshot"]
    assert stays.ops() == ["snapshot", "events"]
    assert len(feed.followers) == 1


def test_fifty_reloads_leave_one_follower(desk: Desk, pages: Open):
    feed = begun(desk)
    for number in range(50):
        page, _ = pages.add(f"load-{number}")
        desk.heard(page, {"kind": "follow", "run_id": RUN_ID})
        desk.heard(page, {"kind": "bye"} if number < 49 else {"kind": "follow", "run_id": RUN_ID})
    assert len(feed.followers) == 1


@pytest.mark.spec("P42")
def test_a_run_that_is_on_can_be_saved_as_far_as_it_has_come(desk: Desk, pages: Open):
    feed, (page, out) = begun(desk), pages.add("one")
    feed(Notice(text="so far"))
    desk.heard(page, {"kind": "ask", "id": 7, "what": "bundle", "run_id": RUN_ID})
    assert out.sent[-1]["id"] == 7
    saved = out.sent[-1]["value"]
    assert saved["application/vnd.ipyagent.run+json"]["status"] == "running"
    assert "so far" in saved["text/html"]


def test_a_run_that_has_ended_is_no_longer_the_desks_to_show(desk: Desk, pages: Open):
    feed, (page, out) = begun(desk), pages.add("one")
    feed(RunFinished(status=RunStatus.DONE, stop_reason=StopReason.FINISHED, duration=1.0))
    desk.end(feed)
    desk.heard(page, {"kind": "ask", "id": 8, "what": "bundle", "run_id": RUN_ID})
    assert out.sent[-1] == {"op": "reply", "id": 8, "value": None}
