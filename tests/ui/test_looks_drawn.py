"""A call that nobody was asked about because it changed nothing says so, wherever it is drawn."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness import Lab, call
from ipyagent.ui.plain_text import render
from ipyagent.ui.transcribe.run import transcribe

# The process that runs the tests is what is forked: other tests would leave threads in it.
pytestmark = pytest.mark.alone

ON = {"look_freely": True, "rehearse_seconds": 20.0}


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("sum(numbers)", "looked · ran on a copy, nothing changed"),
        ("total = sum(numbers)", "looked · ran on a copy, its variables were adopted"),
        ("1 / 0", "looked · ran on a copy and failed, nothing changed"),
    ],
)
def test_a_look_says_that_it_is_one(
    tmp_path: Path, code: str, words: str, isolation_problem: str | None
) -> None:
    if isolation_problem is not None:
        pytest.skip(isolation_problem)
    lab = Lab(tmp_path, {"numbers": [1, 2, 3]})
    run = lab.run([{"calls": [call("run_python", code=code)]}, "Done."], **ON)
    drawn = transcribe(run)
    (shown,) = drawn.steps[0].calls
    assert (shown.verdict, shown.remarks) == ("looked", (words,))
    assert " looked " in render(drawn)
