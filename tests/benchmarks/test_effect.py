"""The benchmarks of effectiveness and of questions, on some of their tasks and sessions."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

EFFECT = Path(__file__).parents[2] / "benchmarks/effect"


@pytest.fixture(scope="module")
def summary() -> Iterator[dict[str, dict[str, float]]]:
    """The sums of both harnesses: a plain task, and one in which a column is misspelt."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(EFFECT))
        import compare
        from policy import Policy
        from tasks import load_tasks

        tasks = load_tasks()
        chosen = [tasks[0], tasks[5]]
        records = list(compare.compare(chosen, lambda folder: Policy(tasks, folder)))
        yield compare.summarize(records)
    for name in ("compare", "harnesses", "policy", "questions", "tables", "tasks"):
        sys.modules.pop(name, None)


def test_both_harnesses_answer_all_of_the_tasks(summary: dict[str, dict[str, float]]) -> None:
    assert [each["right"] for each in summary.values()] == [2, 2]


def test_fewer_requests_are_sent_than_in_a_bare_loop(
    summary: dict[str, dict[str, float]],
) -> None:
    ours, bare = summary.values()
    assert ours["requests"] <= 0.7 * bare["requests"]


@pytest.mark.usefixtures("needs_isolation")
def test_in_a_session_of_analysis_only_changes_are_asked_about() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(EFFECT))
        import questions

        session = next(each for each in questions.load_sessions() if each.before)
        without, with_looks = (
            questions.list_decisions(session, looks=looks) for looks in (False, True)
        )
    assert without == ["button"] * len(session.cells)
    # What cell 3 changes came of a call that was approved, so it is the user's.
    expected = dict.fromkeys([*session.changes, 3], "button")
    assert dict(enumerate(with_looks)) == dict.fromkeys(range(len(without)), "rehearsal") | expected


def test_every_task_has_an_exact_answer_that_its_check_accepts() -> None:
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        patch.syspath_prepend(str(EFFECT))
        from tables import write_tables
        from tasks import is_right, load_tasks

        write_tables(Path(folder))
        for task in load_tasks():
            expected = task.solve(Path(folder))
            right = {name: f"The {name} is **{value}**." for name, value in expected.items()}
            assert is_right(" ".join(right.values()), expected)
            for name, value in expected.items():
                wrong = "unknown" if isinstance(value, str) else value + 1
                spoilt = right | {name: f"The {name} is **{wrong}**."}
                others = [each for other, each in expected.items() if other != name]
                assert value in others or not is_right(" ".join(spoilt.values()), expected)
