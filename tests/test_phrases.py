from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

import ipyagent
from ipyagent.phrases import (
    ellipsize,
    first_line,
    join_some,
    join_words,
    limit_lines,
    plural,
)

BY_HAND = re.compile(r"- 1\]\}?(?:…| \+ \"…)|\} and \{last\}|'s' (?:if|\*)")


@given(st.text(max_size=20), st.integers(1, 20))
def test_a_text_is_cut_only_where_it_is_too_long(text: str, limit: int) -> None:
    cut = ellipsize(text, limit)
    assert len(cut) <= limit
    assert cut == text if len(text) <= limit else cut == text[: limit - 1] + "…"


@pytest.mark.parametrize(
    ("words", "joined"),
    [([], ""), (["a"], "a"), (["a", "b"], "a and b"), (["a", "b", "c"], "a, b and c")],
)
def test_words_are_joined_as_in_a_sentence(words: list[str], joined: str) -> None:
    assert join_words(words) == joined


def test_of_many_words_the_others_are_counted() -> None:
    assert join_some(["a", "b"], 2) == "a, b"
    assert join_some(["a", "b", "c", "d"], 2) == "a, b and 2 more"


def test_of_many_lines_the_others_are_counted() -> None:
    assert limit_lines(["a", "b"], 2) == ["a", "b"]
    assert limit_lines(["a"] * 1_502, 2, "… {:,} more") == ["a", "a", "… 1,500 more"]


@pytest.mark.parametrize(
    ("text", "line"), [("", ""), ("\n \n", ""), ("\n a\nb", "a"), ("a \r\nb", "a")]
)
def test_the_first_line_is_the_first_that_holds_something(text: str, line: str) -> None:
    assert first_line(text) == line


def test_one_thing_is_not_plural() -> None:
    assert [plural(n, "line") for n in (0, 1, 2_000)] == ["0 lines", "1 line", "2,000 lines"]


def test_no_other_room_below_the_views_does_that_by_hand() -> None:
    root = Path(ipyagent.__file__).parent
    found = [
        f"{path.relative_to(root)}: {line.strip()}"
        for path in sorted(root.rglob("*.py"))
        if path.name != "phrases.py" and "ui" not in path.parts
        for line in path.read_text("utf-8").splitlines()
        if BY_HAND.search(line)
    ]
    assert found == []
