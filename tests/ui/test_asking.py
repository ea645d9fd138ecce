"""Answers as people type them."""

import pytest

from ipyagent.schema import Decision
from ipyagent.ui.asking import understand


@pytest.mark.parametrize("text", ["y", "Y", " yes ", "approve", "ok", "Yes."])
def test_yes_approves_once(text: str) -> None:
    answer = understand(text)
    assert answer is not None
    assert (answer.decision, answer.always) == (Decision.APPROVED, False)


@pytest.mark.parametrize("text", ["a", "always"])
def test_always_approves_for_the_session(text: str) -> None:
    answer = understand(text)
    assert answer is not None
    assert (answer.decision, answer.always) == (Decision.APPROVED, True)


@pytest.mark.parametrize(
    ("text", "reason"), [("n", None), ("No, too slow", "too slow"), ("deny because", "because")]
)
def test_no_denies_with_the_reason(text: str, reason: str | None) -> None:
    answer = understand(text)
    assert answer is not None
    assert (answer.decision, answer.reason) == (Decision.DENIED, reason)


@pytest.mark.parametrize("text", ["", " ", "maybe", "yess", "yolo", "1", "not now", "aye"])
def test_anything_else_is_asked_again(text: str) -> None:
    assert understand(text) is None
