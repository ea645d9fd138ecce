"""One stream, many listeners."""

import logging

import pytest

from harness import Lab
from ipyagent.agent.stream import EventStream
from ipyagent.schema import Event, Notice, RunStarted


def test_a_listener_that_fails_is_left_out_and_the_others_hear_on(
    lab: Lab, caplog: pytest.LogCaptureFixture
) -> None:
    lab.run(["Hello."])
    heard: list[str] = []

    def broken(event: Event) -> None:
        raise RuntimeError("a view with a bug")

    stream = EventStream([broken, lambda event: heard.append(event.type)])
    with caplog.at_level(logging.ERROR, "ipyagent"):
        for event in lab.watcher.events:
            stream.emit(event)
    assert heard == [event.type for event in lab.watcher.events]
    assert len(caplog.records) == 1


def test_every_listener_can_fold_the_same_run(lab: Lab) -> None:
    run = lab.run([{"calls": [{"name": "list_files"}]}, "Done."])
    stream = EventStream()
    for event in lab.watcher.events:
        stream.emit(event)
    assert stream.run == run


def test_nothing_comes_before_the_start(lab: Lab) -> None:
    run = lab.run(["Hello."])
    with pytest.raises(ValueError, match="before run_started"):
        EventStream().emit(Notice(text="too early"))
    stream = EventStream()
    with pytest.raises(RuntimeError):
        _ = stream.run
    stream.emit(RunStarted(run=run))
    assert stream.run is run
