"""What those who follow a run are told, and what pages may ask for beside it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any

import pytest
from sample import run

from ipyagent.agent.approvals import Approvals
from ipyagent.schema import (
    Event,
    Message,
    MessageDelta,
    MessageFinished,
    MessageStarted,
    Notice,
    PlanProposed,
    Role,
    RunFinished,
    RunStarted,
    RunState,
    RunStatus,
    StepFinished,
    StepStarted,
    StopReason,
    TokenUsage,
    ToolCall,
    ToolExecution,
    ToolFinished,
    ToolOutput,
    ToolResult,
    ToolStarted,
    ToolStatus,
    Totals,
    advance,
)
from ipyagent.ui.feed import INTERVAL, Feed
from ipyagent.ui.page_bridge import PageBridge
from ipyagent.ui.transcribe.run import Live, transcribe
from memory_pages import MemoryPages
from virtual_time import run_in_virtual_time

BEGUN = RunStarted(run=run(status=RunStatus.RUNNING, stop_reason=None, duration=None))
RUN_ID = BEGUN.run.id


@pytest.fixture
def pages() -> MemoryPages:
    return MemoryPages()


@pytest.fixture
def desk(pages: MemoryPages) -> PageBridge:
    return PageBridge(pages, lambda feeds: {"live": len(feeds)}, lambda run_id, cell_id: None)


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


class StreamedText:
    """A feed that is told pieces of a reply, and the times at which its page gets messages."""

    def __init__(self) -> None:
        self.feed = Feed(Approvals(), lambda: None)
        self.state: RunState | None = None
        for event in (BEGUN, StepStarted(step=1), MessageStarted(step=1)):
            self.tell(event)
        self.times: list[float] = []
        loop = asyncio.get_running_loop()
        self.feed.follow(lambda message: None)
        self.feed.followers.append(lambda message: self.times.append(loop.time()))

    def tell(self, event: Event) -> None:
        self.state = advance(self.state, event)
        self.feed(event, self.state)

    def add(self, text: str) -> None:
        self.tell(MessageDelta(step=1, kind="text", text=text))


def test_events_of_one_turn_of_the_loop_are_one_message_and_the_end_does_not_wait() -> None:
    async def follow() -> None:
        feed, sent, state = Feed(Approvals(), lambda: None), list[Any](), None
        feed.followers.append(sent.append)
        for turn in (
            (BEGUN, StepStarted(step=1), MessageStarted(step=1)),
            (StepFinished(step=1), Notice(text="Careful.")),
        ):
            before = len(sent)
            for event in turn:
                state = advance(state, event)
                feed(event, state)
            assert len(sent) == before
            await asyncio.sleep(0)
            assert len(sent) == before + 1
        ended = RunFinished(status=RunStatus.DONE, stop_reason=StopReason.FINISHED, duration=1.0)
        feed(ended, advance(state, ended))
        assert len(sent) == 3
        await asyncio.sleep(0)
        assert len(sent) == 3

    run_in_virtual_time(follow())


def test_the_first_piece_and_the_first_after_a_pause_do_not_wait() -> None:
    async def stream() -> list[float]:
        page = StreamedText()
        page.add("One ")
        assert page.times == [0.0]
        page.add("two ")
        assert page.times == [0.0]
        await asyncio.sleep(10 * INTERVAL)
        page.add("three.")
        return page.times

    assert run_in_virtual_time(stream()) == [0.0, INTERVAL, 10 * INTERVAL]


def test_no_rate_of_pieces_sends_more_than_thirty_messages_a_second() -> None:
    async def stream(rate: int) -> list[float]:
        page = StreamedText()
        for _ in range(2 * rate):
            page.add("word ")
            await asyncio.sleep(1 / rate)
        return page.times

    for rate in (10, 100, 1_000):
        times = run_in_virtual_time(stream(rate))
        assert min(20, rate) <= len(times) <= 2 * 30
        assert times[0] == 0.0


def test_text_is_sent_in_time_though_chunks_never_let_a_timer_run() -> None:
    async def stream() -> list[float]:
        page, loop = StreamedText(), asyncio.get_running_loop()
        for _ in range(1_000):
            page.add("word ")
            loop._jumping.seconds += 0.001
        return page.times

    assert len(run_in_virtual_time(stream())) == pytest.approx(1 / INTERVAL, abs=1)


def take_step(feed: Feed, state: RunState, number: int) -> RunState:
    """Let a run take a step of one call, and count it."""
    call = ToolCall(id=f"c{number}", name="read_file", arguments={"path": "a.txt"})
    execution = ToolExecution(call=call, status=ToolStatus.RUNNING)
    message = Message(role=Role.ASSISTANT, content=(call,))
    usage = TokenUsage(prompt_tokens=10, completion_tokens=1)
    done = {"status": ToolStatus.SUCCESS, "result": ToolResult(output="x")}
    for event in (
        StepStarted(step=number),
        MessageStarted(step=number),
        MessageFinished(step=number, message=message, usage=usage, cost_usd=0.5),
        ToolStarted(step=number, execution=execution),
        ToolFinished(step=number, execution=execution.model_copy(update=done)),
        StepFinished(step=number),
    ):
        state = advance(state, event)
        feed(event, state)
    return state


def count_lines(work: Callable[[], RunState]) -> tuple[int, RunState]:
    """How many lines of Python are run: loops are seen, and the machine's load is not."""
    count = 0

    def trace(frame: FrameType, event: str, argument: object) -> object:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        state = work()
    finally:
        sys.settrace(before)
    return count, state


def test_a_step_of_a_long_run_costs_no_more_than_one_of_a_short_run():
    feed, sent = Feed(Approvals(), lambda: None), list[Any]()
    feed.followers.append(sent.append)
    state = advance(None, BEGUN)
    feed(BEGUN, state)
    first = len(state.run.steps) + 1
    lines = []
    for number in range(first, first + 300):
        count, state = count_lines(partial(take_step, feed, state, number))
        lines.append(count)
    assert lines[-1] < 1.2 * lines[10]
    assert sent[-1]["seq"] > 300
    # What is not added up anew is right all the same.
    assert state.totals == Totals.of(state.run)
    assert state.totals.usage == TokenUsage.sum(step.usage for step in state.run.steps)
    assert feed.transcript == transcribe(state.run, Live())
    assert feed.totals.cost_usd == 150


def test_the_sums_of_another_run_begin_anew():
    feed = Feed(Approvals(), lambda: None)
    state = take_step(feed, take_step(feed, advance(None, BEGUN), 2), 3)
    assert state.totals.cost_usd == 1
    for event in (RunStarted(run=BEGUN.run), PlanProposed(run=BEGUN.run)):
        assert advance(state, event).totals == Totals.of(BEGUN.run)


def test_the_last_lines_of_a_running_call_are_at_its_line_until_its_result():
    call = ToolCall(id="c1", name="run_python", arguments={"code": "train()"})
    ended = ToolExecution(call=call, status=ToolStatus.SUCCESS, result=ToolResult(output="done"))
    outputs = [ToolOutput(step=1, call_id="c1", text=text) for text in ("one", "one\ntwo")]
    feed, state = Feed(Approvals(), lambda: None), None
    shown = []

    async def listen() -> None:
        nonlocal state
        for event in (
            BEGUN,
            StepStarted(step=1),
            ToolStarted(step=1, execution=ToolExecution(call=call)),
            *outputs,
            ToolFinished(step=1, execution=ended),
        ):
            state = advance(state, event)
            feed(event, state)
            shown.extend(each.live for step in feed.transcript.steps for each in step.calls)

    asyncio.run(listen())
    assert shown == ["", "one", "one\ntwo", ""]
