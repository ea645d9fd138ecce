"""What those who follow a run are told, and what pages may ask for beside it."""

from __future__ import annotations

import pytest
from sample import run

from ipyagent.agent.approvals import Approvals
from ipyagent.schema import (
    Event,
    Notice,
    RunFinished,
    RunStarted,
    RunState,
    RunStatus,
    StopReason,
    advance,
)
from ipyagent.ui.feed import Feed
from ipyagent.ui.page_bridge import PageBridge
from memory_pages import MemoryPages

BEGUN = RunStarted(run=run(status=RunStatus.RUNNING, stop_reason=None, duration=None))
RUN_ID = BEGUN.run.id


@pytest.fixture
def pages() -> MemoryPages:
    return MemoryPages()


@pytest.fixture
def desk(pages: MemoryPages) -> PageBridge:
    return PageBridge(pages, lambda feeds: {"live": len(feeds)}, lambda run_id, cell_id: None)  # type: ignore[arg-type]


def tell(feed: Feed, event: Event) -> None:
    """Hand an event to the feed as the stream does."""
    before = RunState(feed.run) if feed.has_begun else None
    feed(event, advance(before, event))


def begun(desk: PageBridge) -> Feed:
    feed = Feed(Approvals(), lambda: None, "cell-1")
    desk.begin(feed)
    feed.changed = lambda: None
    tell(feed, BEGUN)
    return feed


@pytest.mark.spec("P42")
def test_a_page_that_follows_twice_is_told_once(desk: PageBridge, pages: MemoryPages):
    feed, (page, out) = begun(desk), pages.add("one")
    for _ in range(2):
        desk.on_message(page, {"type": "follow", "run_id": RUN_ID})
    tell(feed, Notice(text="on"))
    assert out.types() == ["snapshot", "snapshot", "changes"]


@pytest.mark.spec("P42")
def test_a_page_that_went_is_told_nothing_more_and_is_forgotten(
    desk: PageBridge, pages: MemoryPages
):
    feed, (page, out), (other, stays) = begun(desk), pages.add("one"), pages.add("two")
    desk.on_message(page, {"type": "follow", "run_id": RUN_ID})
    desk.on_message(other, {"type": "follow", "run_id": RUN_ID})
    desk.on_message(page, {"type": "bye"})
    tell(feed, Notice(text="on"))
    assert out.types() == ["snapshot"]
    assert stays.types() == ["snapshot", "changes"]
    assert len(feed.followers) == 1


def test_fifty_reloads_leave_one_follower(desk: PageBridge, pages: MemoryPages):
    feed = begun(desk)
    for number in range(50):
        page, _ = pages.add(f"load-{number}")
        desk.on_message(page, {"type": "follow", "run_id": RUN_ID})
        desk.on_message(
            page, {"type": "bye"} if number < 49 else {"type": "follow", "run_id": RUN_ID}
        )
    assert len(feed.followers) == 1


@pytest.mark.spec("P42")
def test_a_run_that_is_on_can_be_saved_as_far_as_it_has_come(desk: PageBridge, pages: MemoryPages):
    feed, (page, out) = begun(desk), pages.add("one")
    tell(feed, Notice(text="so far"))
    desk.on_message(page, {"type": "ask", "id": 7, "what": "bundle", "run_id": RUN_ID})
    assert out.sent[-1]["id"] == 7
    saved = out.sent[-1]["value"]
    assert saved["application/vnd.ipyagent.run+json"]["status"] == "running"
    assert "so far" in saved["text/html"]


def test_a_run_that_has_ended_is_no_longer_the_desks_to_show(desk: PageBridge, pages: MemoryPages):
    feed, (page, out) = begun(desk), pages.add("one")
    tell(feed, RunFinished(status=RunStatus.DONE, stop_reason=StopReason.FINISHED, duration=1.0))
    desk.end(feed)
    desk.on_message(page, {"type": "ask", "id": 8, "what": "bundle", "run_id": RUN_ID})
    assert out.sent[-1] == {"type": "reply", "id": 8, "value": None}
