"""A call that nobody was asked about because it changed nothing says so, wherever it is drawn."""

from __future__ import annotations

from pathlib import Path

import pytest
from pictures import run_html
from sample import run
from test_plain_view import FIRST, ended, running, written

from harness import Follower, Lab, call
from ipyagent.plaintext import strip_escapes
from ipyagent.schema import (
    Event,
    Rehearsal,
    RehearsalOutcome,
    RunState,
    RunStatus,
    Step,
    ToolFinished,
    ToolResult,
    ToolStarted,
    ToolStatus,
)
from ipyagent.ui.plain_text import render
from ipyagent.ui.transcribe.run import Live, transcribe
from ipyagent.ui.transcript import Transcript

ON = {"look_freely": True, "rehearse_seconds": 20.0}
TRIED = running("sum(numbers)", rehearsal=Rehearsal(outcome=RehearsalOutcome.TRYING))


# The process that runs the tests is what is forked: other tests would leave threads in it.
@pytest.mark.alone
@pytest.mark.usefixtures("needs_isolation")
@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("sum(numbers)", "looked · ran on a copy, nothing changed"),
        ("total = sum(numbers)", "looked · ran on a copy, its variables were adopted"),
        ("1 / 0", "looked · ran on a copy and failed, nothing changed"),
    ],
)
def test_a_look_says_that_it_is_one_and_is_never_drawn_as_a_question(
    tmp_path: Path, code: str, words: str
) -> None:
    states: list[Transcript] = []

    def draw(event: Event, state: RunState) -> None:
        states.append(transcribe(state.run, Live(approvals=state.decisions.pending)))

    lab = Lab(tmp_path, {"numbers": [1, 2, 3]})
    replies = [{"calls": [call("run_python", code=code)]}, "Done."]
    finished = transcribe(lab.run(replies, heard=Follower(draw), **ON))
    (shown,) = finished.steps[0].calls
    assert (shown.verdict, shown.remarks) == ("looked", (words,))
    assert " looked " in render(finished)
    drawn = [each for state in states for each in state.steps[:1] for each in each.calls]
    assert drawn[0].verdict == "looking…"
    assert [*dict.fromkeys(each.verdict for each in drawn)] == ["looking…", "looked"]
    assert [each for each in drawn if each.approval or each.effects or each.is_open] == []
    assert {each.header.state for each in states} == {"running", "done"}


def test_a_look_that_goes_on_is_a_line_in_a_saved_run() -> None:
    step = Step(number=1, executions=(TRIED,))
    drawn = run((step,), status=RunStatus.RUNNING, stop_reason=None, duration=None)
    assert "<em>looking…</em>" in run_html(drawn)
    assert "… run_python sum(numbers) looking…" in render(transcribe(drawn))


@pytest.mark.parametrize("color", [True, False])
def test_a_look_that_goes_on_is_a_line_that_its_result_overwrites(color: bool) -> None:
    result = {"status": ToolStatus.SUCCESS, "result": ToolResult(output="6"), "sensitive": False}
    events = (*FIRST, ended("Sum."), ToolStarted(step=1, execution=TRIED))
    done = ToolFinished(step=1, execution=TRIED.model_copy(update=result))
    before, during = (written(*each, color=color) for each in (events[:-1], events))
    live, after = during.removeprefix(before), written(*events, done, color=color)
    if color:
        assert strip_escapes(live) == "  … run_python sum(numbers) looking…\n"
        assert after.removeprefix(during).startswith("\x1b[1A\r\x1b[J")
    else:
        assert (live, "looking" in after) == ("", False)
