"""One stream, many listeners."""

import asyncio
import logging
from collections.abc import Iterator

import pytest

from harness import Lab, new_session
from ipyagent.agent.event_stream import INTERVAL, EventStream
from ipyagent.redaction import HIDDEN, Redactor
from ipyagent.schema import Event, MessageDelta, Notice, RunStarted, RunState
from ipyagent.schema.events import Kind
from ipyagent.store.journal import Journal
from virtual_time import run_in_virtual_time


@pytest.fixture
def aside() -> Iterator[Journal]:
    """Where the runs of the lab are not known yet."""
    journal = Journal.open(None)
    yield journal
    journal.close()


def test_a_listener_that_fails_is_left_out_and_the_others_hear_on(
    lab: Lab, caplog: pytest.LogCaptureFixture, aside: Journal
) -> None:
    run = lab.run(["Hello."])
    heard: list[str] = []

    def broken(event: Event, state: RunState) -> None:
        raise RuntimeError("a view with a bug")

    stream = EventStream(
        new_session(aside), [broken, lambda event, state: heard.append(event.type)]
    )
    with caplog.at_level(logging.ERROR, "ipyagent"):
        for event in lab.watcher.events:
            stream.emit(event)
    assert heard == [event.type for event in lab.watcher.events]
    assert len(caplog.records) == 1
    assert stream.run == run


def test_nothing_comes_before_the_start(lab: Lab, aside: Journal) -> None:
    run = lab.run(["Hello."])
    with pytest.raises(ValueError, match="before run_started"):
        EventStream(new_session(aside)).emit(Notice(text="too early"))
    stream = EventStream(new_session(aside))
    with pytest.raises(RuntimeError):
        _ = stream.run
    stream.emit(RunStarted(run=run))
    assert stream.run is run


def test_the_session_knows_what_happened_before_anybody_is_shown_it(
    lab: Lab, aside: Journal
) -> None:
    stream = EventStream(session := new_session(aside))
    stream.listeners.append(lambda event, state: seen.append(len(session.conversation.messages)))
    seen: list[int] = []
    lab.run(["Hello."])
    for event in lab.watcher.events:
        stream.emit(event)
    assert seen[0] == 1  # the prompt
    assert seen[-1] == 2


def test_what_the_session_cannot_take_in_is_not_shown(lab: Lab) -> None:
    lab.run(["Hello."])
    seen: list[str] = []
    stream = EventStream(lab.session, [lambda event, state: seen.append(event.type)])
    with pytest.raises(ValueError, match="two nodes"):
        stream.emit(lab.watcher.events[0])
    assert seen == []


TOKEN, KNOWN = "ghp_" + "a1B2c3D4" * 5, "tr0ub4dor&3-stable"
THOUGHT, ANSWER = "Put what the tool returned into words.", "342 points, correlation 0.60."


def streamed(deltas: list[tuple[Kind, str]], aside: Journal, lab: Lab) -> list[tuple[str, str]]:
    """What listeners are told of a reply that comes in these pieces; kinds that follow as one."""
    told: list[tuple[str, str]] = []

    def listen(event: Event, state: RunState) -> None:
        if isinstance(event, MessageDelta):
            if told and told[-1][0] == event.kind:
                told[-1] = event.kind, told[-1][1] + event.text
            else:
                told.append((event.kind, event.text))

    stream = EventStream(new_session(aside), [listen], Redactor([KNOWN]))
    for event in lab.run(["Hello."]) and lab.watcher.events:
        if isinstance(event, MessageDelta):
            for kind, text in deltas:
                stream.emit(event.model_copy(update={"kind": kind, "text": text}))
            deltas = []
        else:
            stream.emit(event)
    return told


def test_thinking_is_over_when_the_answer_begins_wherever_the_pieces_end(lab: Lab) -> None:
    for cut in range(1, len(THOUGHT)):
        aside = Journal.open(None)
        deltas: list[tuple[Kind, str]] = [
            ("thinking", THOUGHT[:cut]),
            ("thinking", THOUGHT[cut:]),
            ("text", ANSWER[:cut]),
            ("text", ANSWER[cut:]),
        ]
        assert streamed(deltas, aside, lab) == [("thinking", THOUGHT), ("text", ANSWER)]
        aside.close()


@pytest.mark.spec("H15")
@pytest.mark.parametrize("secret", [TOKEN, KNOWN])
@pytest.mark.parametrize("between", ["", "Meanwhile, "])
def test_a_secret_in_pieces_is_hidden_also_where_another_kind_comes_between(
    secret: str, between: str, lab: Lab
) -> None:
    for cut in range(1, len(secret)):
        aside = Journal.open(None)
        deltas: list[tuple[Kind, str]] = [
            ("text", f"It is {secret[:cut]}"),
            *([("thinking", between)] if between else []),
            ("text", f"{secret[cut:]} here."),
        ]
        told = streamed(deltas, aside, lab)
        aside.close()
        text = "".join(said for kind, said in told if kind == "text")
        assert text.startswith("It is ")
        assert text.endswith(" here.")
        assert HIDDEN in text
        shown = text.replace(HIDDEN, "")
        assert not any(secret[at : at + 4] in shown for at in range(len(secret) - 3)), cut


@pytest.mark.spec("H15")
def test_a_call_is_there_while_it_is_written_without_its_secrets(lab: Lab) -> None:
    code = "total = 0\nprint('begun \\u00e9', \"x\")\n" + f"key = {TOKEN!r}\n" + "total += 1\n" * 60
    arguments = {"code": code, "api_key": "hunter2-and-more", "timeout": 12}
    calls = [
        {"name": "run_python", "arguments": arguments},
        {"name": "look", "arguments": {"n": 1}},
    ]
    pieces: list[MessageDelta] = []

    def heard(event: Event) -> None:
        if isinstance(event, MessageDelta) and event.kind == "call":
            pieces.append(event)

    lab.run([{"calls": calls, "delay": 0.004}, "Done."], heard=heard)
    first = [each for each in pieces if each.call == 1]
    assert {each.name for each in first} == {"run_python"}
    assert len(first) > 5
    written = "".join(each.text for each in first)
    assert len(written) > len(code) / 2
    assert f"{code}\n".replace(TOKEN, HIDDEN).startswith(written[: len(code) // 2])
    assert "hunter2" not in written
    assert TOKEN[:12] not in written


class Reply:
    """A reply that streams in, and what listeners are told of it at which time."""

    def __init__(self, lab: Lab, aside: Journal) -> None:
        self.told: list[tuple[float, str]] = []
        self.stream = EventStream(new_session(aside), [self.listen], Redactor([KNOWN]))
        for event in lab.run(["Hello."]) and lab.watcher.events:
            if isinstance(event, MessageDelta):
                self.step = event.step
                break
            self.stream.emit(event)

    def listen(self, event: Event, state: RunState) -> None:
        if isinstance(event, MessageDelta):
            self.told.append((asyncio.get_running_loop().time(), event.text))

    def add(self, text: str) -> None:
        self.stream.emit(MessageDelta(step=self.step, kind="text", text=text))


def test_pieces_within_an_interval_become_one_and_the_first_does_not_wait(
    lab: Lab, aside: Journal
) -> None:
    reply = Reply(lab, aside)

    async def stream() -> None:
        for text in ("The ", "North ", "lost ", "most."):
            reply.add(text)
        assert [text for _, text in reply.told] == ["The "]
        await asyncio.sleep(3 * INTERVAL)
        reply.add(" Then")

    run_in_virtual_time(stream())
    assert reply.told == [(0.0, "The "), (INTERVAL, "North lost "), (3 * INTERVAL, "most. ")]


def test_the_end_of_a_reply_passes_on_what_still_waits(lab: Lab, aside: Journal) -> None:
    reply = Reply(lab, aside)

    async def stream() -> None:
        for text in ("The ", "key", " is", " a"):
            reply.add(text)
        reply.stream.end_reply()

    run_in_virtual_time(stream())
    assert [text for _, text in reply.told] == ["The ", "key is ", "a"]
