"""The checklist: given whole each time, checked, and told back."""

from __future__ import annotations

from typing import Any

import pytest

from ipyagent.errors import InvalidArgumentsError
from ipyagent.tools.notes import todo_tool

TODO = todo_tool()


def write(*todos: Any) -> str:
    """What the tool says to a checklist as a model sends it."""
    return str(TODO.function(**TODO.check_arguments({"todos": list(todos)})))


@pytest.mark.spec("N16")
def test_the_checklist_is_told_back_with_its_count() -> None:
    assert not TODO.sensitive
    said = write(
        {"content": "Load\nthe data", "status": "completed", "activeForm": "Loading"},
        {"content": "Clean it", "status": "in_progress", "active_form": "Cleaning it"},
        {"content": "Plot it", "status": "pending"},
        {"content": "Tell"},
    )
    assert said == "1 of 4 done\n[x] Load the data\n[~] Cleaning it\n[ ] Plot it\n[ ] Tell"
    assert write({"content": "Go", "status": "in_progress"}) == "0 of 1 done\n[~] Go"


@pytest.mark.spec("N16")
def test_an_empty_list_clears_it() -> None:
    assert write() == "The checklist is empty."


@pytest.mark.spec("N16")
@pytest.mark.parametrize(("busy", "warns"), [(0, False), (1, False), (2, True), (3, True)])
def test_more_than_one_task_at_a_time_is_warned_about(busy: int, warns: bool) -> None:
    said = write({"content": "a"}, *[{"content": "b", "status": "in_progress"}] * busy)
    assert (f"Warning: {busy} tasks are in_progress" in said) == warns


@pytest.mark.spec("N16")
@pytest.mark.parametrize(
    "wrong",
    [
        {"content": ""},
        {"content": "x", "status": "done"},
        {"content": "x", "priority": "high"},
        {"status": "pending"},
        "x",
        None,
    ],
)
def test_what_is_no_task_is_refused(wrong: Any) -> None:
    with pytest.raises(InvalidArgumentsError, match=r"todo_write: todos\.0"):
        write(wrong)


@pytest.mark.spec("N16")
def test_a_hundred_tasks_are_the_most() -> None:
    assert write(*[{"content": "x"}] * 100).startswith("0 of 100 done")
    with pytest.raises(InvalidArgumentsError, match="at most 100"):
        write(*[{"content": "x"}] * 101)
    for wrong in ({}, {"todos": "x"}, {"todos": None}):
        with pytest.raises(InvalidArgumentsError):
            TODO.check_arguments(wrong)


@pytest.mark.spec("N16")
def test_the_model_is_told_the_names_and_the_states() -> None:
    said = str(TODO.definition().input_schema)
    for word in ("content", "status", "active_form", "pending", "in_progress", "completed"):
        assert f"'{word}'" in said
