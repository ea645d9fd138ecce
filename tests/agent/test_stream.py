"""One stream, many listeners."""

import logging
from collections.abc import Iterator

import pytest

from harness import Lab, new_session
from ipyagent.agent.stream import EventStream
from ipyagent.schema import Event, Notice, RunStarted
from ipyagent.store.journal import Journal


@pytest.fixture
def aside() -> Iterator[Journal]:
    """Where the runs of the lab are not known yet."""
    journal = Journal.open(None)
    yield journal
    journal.close()


def test_a_listener_that_fails_is_left_out_and_the_others_hear_on(
    lab: Lab, caplog: pytest.LogCaptureFixture, aside: Journal
) -> None:
    lab.run(["Hello."])
    heard: list[str] = []

    def broken(event: Event) -> None:
        raise RuntimeError("a view with a bug")

    stream = EventStream(new_session(aside), [broken, lambda event: heard.append(event.type)])
    with caplog.at_level(logging.ERROR, "ipyagent"):
        for event in lab.watcher.events:
            stream.emit(event)
    assert heard == [event.type for event in lab.watcher.events]
    assert len(caplog.records) == 1


def test_every_listener_can_fold_the_same_run(lab: Lab, aside: Journal) -> None:
    run = lab.run([{"calls": [{"name": "list_files"}]}, "Done."])
    stream = EventStream(new_session(aside))
    for event in lab.watcher.events:
        stream.emit(event)
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
    stream.listeners.append(lambda event: seen.append(len(session.messages)))
    seen: list[int] = []
    lab.run(["Hello."])
    for event in lab.watcher.events:
        stream.emit(event)
    assert seen[0] == 1  # the prompt
    assert seen[-1] == 2


def test_what_the_session_cannot_take_in_is_not_shown(lab: Lab) -> None:
    lab.run(["Hello."])
    seen: list[str] = []
    stream = EventStream(lab.session, [lambda event: seen.append(event.type)])
    with pytest.raises(ValueError, match="two nodes"):
        stream.emit(lab.watcher.events[0])
    assert seen == []
