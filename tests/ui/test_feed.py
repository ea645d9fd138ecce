"""What the followers of a run receive, and what pages may ask for beside it."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any

import pytest
from comm.base_comm import BaseComm
from hypothesis import given, settings
from pydantic import TypeAdapter
from rich_run import CODE, STORIES
from sample import BEGUN
from strategies import runs

from ipyagent import schema as s
from ipyagent.agent.approvals import Approvals
from ipyagent.kernel.pages import Page, Pages
from ipyagent.schema.run_states import fill_from_html
from ipyagent.ui import static_html
from ipyagent.ui.feed import INTERVAL, Feed
from ipyagent.ui.live_blocks import LiveBlocks
from ipyagent.ui.messages import Protocol
from ipyagent.ui.page_bridge import PageBridge
from ipyagent.ui.transcribe import Live, Transcriber, transcribe
from ipyagent.ui.transcribe.call_texts import mask_run
from ipyagent.ui.transcript import Transcript
from memory_pages import MemoryPages
from page_blocks import PageBlocks
from replayed import events_from_run
from virtual_time import run_in_virtual_time

RUN_ID = BEGUN.run.id


@pytest.fixture
def pages() -> MemoryPages:
    return MemoryPages()


@pytest.fixture
def desk(pages: MemoryPages) -> PageBridge:
    return PageBridge(
        pages,
        lambda feeds: {"live": len(feeds), "panel": {"set": []}},
        lambda run_id, cell_id: None,
    )


def tell(feed: Feed, event: s.Event) -> None:
    """Hand an event to the feed as the stream does."""
    before = s.RunState(feed.run) if feed.has_begun else None
    feed(event, s.advance(before, event))


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
    tell(feed, s.Notice(text="on"))
    assert out.types() == ["snapshot", "snapshot", "changes"]


@pytest.mark.spec("P42")
def test_a_page_that_went_is_told_nothing_more_and_is_forgotten(
    desk: PageBridge, pages: MemoryPages
):
    feed, (page, out), (other, stays) = begun(desk), pages.add("one"), pages.add("two")
    desk.on_message(page, {"type": "follow", "run_id": RUN_ID})
    desk.on_message(other, {"type": "follow", "run_id": RUN_ID})
    desk.on_message(page, {"type": "bye"})
    tell(feed, s.Notice(text="on"))
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
    tell(feed, s.Notice(text="so far"))
    desk.on_message(page, {"type": "ask", "id": 7, "what": "bundle", "run_id": RUN_ID})
    assert out.sent[-1]["id"] == 7
    saved = out.sent[-1]["value"]
    assert saved["application/vnd.ipyagent.run+json"]["status"] == "running"
    assert "so far" in saved["text/html"]


def test_a_run_that_has_ended_is_no_longer_the_desks_to_show(desk: PageBridge, pages: MemoryPages):
    feed, (page, out) = begun(desk), pages.add("one")
    tell(
        feed,
        s.RunFinished(status=s.RunStatus.DONE, stop_reason=s.StopReason.FINISHED, duration=1.0),
    )
    desk.end(feed)
    desk.on_message(page, {"type": "ask", "id": 8, "what": "bundle", "run_id": RUN_ID})
    assert out.sent[-1] == {"type": "reply", "id": 8, "value": None}


def test_a_new_page_has_the_newest_panel_also_if_it_changes_meanwhile(pages: MemoryPages) -> None:
    version = ["old"]
    change = threading.Thread(target=lambda: bridge.publish_soon())

    def describe(_feeds: list[Feed]) -> dict[str, Any]:
        overview = {"panel": {"set": [{"key": "runs", "html": version[0]}]}}
        if version[0] == "old":
            version[0] = "new"
            change.start()
            change.join(0.2)  # without its turn, it is told before the page is
        return overview

    bridge = PageBridge(pages, describe, lambda *_: None)
    page, out = pages.add("one")
    bridge.on_message(page, {"type": "hello"})
    change.join()
    (block,) = out.sent[-1]["overview"]["panel"]["set"]
    assert block["html"] == "new"


class StreamedText:
    """A feed that is told pieces of a reply, and the times at which its page gets messages."""

    def __init__(self) -> None:
        self.feed = Feed(Approvals(), lambda: None)
        self.state: s.RunState | None = None
        for event in (BEGUN, s.StepStarted(step=1), s.MessageStarted(step=1)):
            self.tell(event)
        self.times: list[float] = []
        loop = asyncio.get_running_loop()
        self.feed.follow(lambda message: None)
        self.feed.followers.append(lambda message: self.times.append(loop.time()))

    def tell(self, event: s.Event) -> None:
        self.state = s.advance(self.state, event)
        self.feed(event, self.state)

    def add(self, text: str) -> None:
        self.tell(s.MessageDelta(step=1, kind="text", text=text))


def test_events_of_one_turn_of_the_loop_are_one_message_and_the_end_does_not_wait() -> None:
    async def follow() -> None:
        feed, sent, state = Feed(Approvals(), lambda: None), list[Any](), None
        feed.followers.append(sent.append)
        for turn in (
            (BEGUN, s.StepStarted(step=1), s.MessageStarted(step=1)),
            (s.StepFinished(step=1), s.Notice(text="Careful.")),
        ):
            before = len(sent)
            for event in turn:
                state = s.advance(state, event)
                feed(event, state)
            assert len(sent) == before
            await asyncio.sleep(0)
            assert len(sent) == before + 1
        ended = s.RunFinished(
            status=s.RunStatus.DONE, stop_reason=s.StopReason.FINISHED, duration=1.0
        )
        feed(ended, s.advance(state, ended))
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


def take_step(feed: Feed, state: s.RunState, number: int) -> s.RunState:
    """Let a run take a step of one call, and count it."""
    call = s.ToolCall(id=f"c{number}", name="read_file", arguments={"path": "a.txt"})
    execution = s.ToolExecution(call=call, status=s.ToolStatus.RUNNING)
    message = s.Message(role=s.Role.ASSISTANT, content=(call,))
    usage = s.TokenUsage(prompt_tokens=10, completion_tokens=1)
    done = {"status": s.ToolStatus.SUCCESS, "result": s.ToolResult(output="x")}
    for event in (
        s.StepStarted(step=number),
        s.MessageStarted(step=number),
        s.MessageFinished(step=number, message=message, usage=usage, cost_usd=0.5),
        s.ToolStarted(step=number, execution=execution),
        s.ToolFinished(step=number, execution=execution.model_copy(update=done)),
        s.StepFinished(step=number),
    ):
        state = s.advance(state, event)
        feed(event, state)
    return state


def count_lines(work: Callable[[], s.RunState]) -> tuple[int, s.RunState]:
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
    state = s.advance(None, BEGUN)
    feed(BEGUN, state)
    first = len(state.run.steps) + 1
    lines = []
    for number in range(first, first + 300):
        count, state = count_lines(partial(take_step, feed, state, number))
        lines.append(count)
    assert lines[-1] < 1.1 * lines[19]  # both are the last of twenty looks behind one line
    assert sent[-1]["seq"] > 300
    # What is not added up anew is right all the same.
    assert state.totals == s.Totals.of(state.run)
    assert state.totals.usage == s.TokenUsage.sum(step.usage for step in state.run.steps)
    assert feed.transcript == transcribe(state.run, Live())
    assert feed.totals.cost_usd == 150


def test_a_page_that_asks_again_is_sent_what_was_drawn_until_something_comes():
    feed, sent = Feed(Approvals(), lambda: None), list[Any]()
    state = take_step(feed, s.advance(None, BEGUN), 2)

    def ask_again() -> s.RunState:
        feed.on_message({"type": "resync"}, sent.append)
        return state

    def draw() -> s.RunState:
        assert feed.transcript.run_id == RUN_ID
        return state

    (asked, _), (drawn, _) = map(count_lines, (ask_again, draw))
    assert asked < drawn
    feed.replace(state.run.model_copy(update={"notes": ("Taken back.",)}))
    ask_again()
    before, after = sent
    assert before["seq"] == after["seq"] - 1
    assert "Taken back." in json.dumps(after["set"])
    assert "Taken back." not in json.dumps(before["set"])


def test_the_sums_of_another_run_begin_anew():
    feed = Feed(Approvals(), lambda: None)
    state = take_step(feed, take_step(feed, s.advance(None, BEGUN), 2), 3)
    assert state.totals.cost_usd == 1
    for event in (s.RunStarted(run=BEGUN.run), s.PlanProposed(run=BEGUN.run)):
        assert s.advance(state, event).totals == s.Totals.of(BEGUN.run)


def test_the_last_lines_of_a_running_call_are_at_its_line_until_its_result():
    call = s.ToolCall(id="c1", name="run_python", arguments={"code": "train()"})
    ended = s.ToolExecution(
        call=call, status=s.ToolStatus.SUCCESS, result=s.ToolResult(output="done")
    )
    outputs = [s.ToolOutput(step=1, call_id="c1", text=text) for text in ("one", "one\ntwo")]
    feed, state = Feed(Approvals(), lambda: None), None
    shown = []

    async def listen() -> None:
        nonlocal state
        for event in (
            BEGUN,
            s.StepStarted(step=1),
            s.ToolStarted(step=1, execution=s.ToolExecution(call=call)),
            *outputs,
            s.ToolFinished(step=1, execution=ended),
        ):
            state = s.advance(state, event)
            feed(event, state)
            shown.extend(each.live for step in feed.transcript.steps for each in step.calls)

    asyncio.run(listen())
    assert shown == ["", "one", "one\ntwo", ""]


FROM_RUN = TypeAdapter(Protocol.model_fields["from_run"].annotation)


async def follow(events: list[s.Event]) -> tuple[PageBlocks, Feed, list[Any]]:
    """A page that was told of every event, and what was sent."""
    sent: list[Any] = []
    feed, page, state = Feed(Approvals(), lambda: None), PageBlocks(), None
    feed.followers.append(lambda message: sent.append(json.loads(json.dumps(message))))
    for event in events:
        state = s.advance(state, event)
        feed(event, state)
        feed.flush()
    for message in json.loads(json.dumps(sent)):
        page.receive(message)
    return page, feed, sent


def whole(drawn: Transcript) -> Any:
    """A page that sees a run for the first time."""
    blocks, page = LiveBlocks(), PageBlocks()
    blocks.update(drawn)
    page.receive(json.loads(json.dumps(blocks.snapshot(0, drawn).to_dict())))
    return page


@pytest.mark.parametrize("name", STORIES)
async def test_changes_lead_to_the_whole(name: str) -> None:
    page, feed, sent = await follow(list(STORIES[name]()))
    assert [*page.list()] == [*whole(feed.transcript).list()]
    for message in sent:
        FROM_RUN.validate_python(message)


@given(run=runs)
@settings(deadline=None)
def test_changes_of_any_run_lead_to_the_whole(run: s.Run) -> None:
    page, feed, _ = asyncio.run(follow(events_from_run(run)))
    assert [*page.list()] == [*whole(feed.transcript).list()]


@given(one=runs, other=runs)
@settings(deadline=None)
def test_changes_lead_from_any_run_to_any_other(one: s.Run, other: s.Run) -> None:
    blocks, page, before = LiveBlocks(), whole(transcribe(one)), transcribe(one)
    after = transcribe(other, Live())
    blocks.update(before)
    if changes := blocks.update(after):
        page.receive(json.loads(json.dumps({**changes.to_dict(), "seq": 1})))
    assert [*page.list()] == [*whole(after).list()]


async def test_code_is_on_the_card_while_it_is_written_and_each_piece_is_sent_once() -> None:
    page, pieces = PageBlocks(), list[str]()
    feed, state = Feed(Approvals(), lambda: None), None
    feed.followers.append(lambda message: page.receive(json.loads(json.dumps(message))))
    for event in STORIES["run.json"]():
        state = s.advance(state, event)
        feed(event, state)
        feed.flush()
        if written := page.blocks.get("r/s2/w0"):
            assert "Writing run_python" in written["html"]
            pieces.append(written["more"])
    assert CODE.startswith(pieces[-1])
    assert len(pieces) == len({*pieces}) == -(-len(CODE) // 40)
    assert "r/s2/w0" not in page.blocks


async def test_a_text_that_goes_on_is_sent_once() -> None:
    events = list(STORIES["run.json"]())
    page, _, sent = await follow(events)
    assert len(json.dumps(sent)) < 3 * len(json.dumps(page.blocks))


@given(run=runs)
@settings(deadline=None)
def test_a_transcriber_that_followed_says_what_one_that_begins_says(run: s.Run) -> None:
    transcriber, state = Transcriber(), None
    for event in events_from_run(run):
        state = s.advance(state, event)
        live = Live(state.open_message)
        assert transcriber.transcribe(state.run, live) == transcribe(state.run, live)


def test_an_earlier_step_that_changed_is_drawn_again() -> None:
    first, *others = (s.Step(number=number) for number in (1, 2, 3))
    run = s.Run(id=RUN_ID, steps=(first, *others))
    transcriber = Transcriber()
    transcriber.transcribe(run)
    first = first.model_copy(update={"notes": ("Later.",)})
    changed = run.model_copy(update={"steps": (first, *others)})
    assert transcriber.transcribe(changed) == transcribe(changed)


@given(run=runs)
@settings(deadline=None)
def test_a_saved_run_is_the_run_again(run: s.Run) -> None:
    bundle = json.loads(json.dumps(static_html.saved_bundle(run)))
    saved = bundle[static_html.RUN_MIME]
    fill_from_html(saved, bundle["text/html"])
    assert s.Run.from_dict(saved) == s.Run.from_dict(mask_run(run).to_dict())


class Wire(BaseComm):
    """A comm whose messages are kept."""

    def __init__(self) -> None:
        super().__init__(target_name="ipyagent", primary=False)
        self.sent: list[Any] = []
        self.arrived = threading.Event()

    def publish_msg(self, msg_type: str, data: Any = None, *args: Any, **keys: Any) -> None:
        self.sent.append(data)
        self.arrived.set()


def test_a_page_may_reply_on_the_thread_on_which_it_asks() -> None:
    replied, wire = threading.Event(), Wire()
    page = Page("one", ("client",), (), _out=wire, _in=wire)
    answers: Any = {"models": lambda _: {"replied": replied.wait(20)}}
    bridge = PageBridge(Pages(print), lambda _: {}, lambda *_: None, answers)
    bridge.on_message(page, {"type": "ask", "id": 7, "what": "models"})
    replied.set()
    assert wire.arrived.wait(20)
    assert wire.sent == [{"type": "reply", "id": 7, "value": {"replied": True}}]


def test_a_request_that_fails_is_replied_to_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    def fail(_: object) -> dict[str, object]:
        raise RuntimeError("out of paper")

    wire = Wire()
    page = Page("one", ("client",), (), _out=wire, _in=wire)
    bridge = PageBridge(Pages(print), lambda _: {}, lambda *_: None, {"models": fail})
    bridge.on_message(page, {"type": "ask", "id": 7, "what": "models"})
    assert wire.arrived.wait(20)
    assert wire.sent == [{"type": "reply", "id": 7, "value": None}]
    assert "a page's request for models failed" in caplog.text
