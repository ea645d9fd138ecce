"""What a user decides on is drawn whole; the live view is held to the same table of cases."""

from __future__ import annotations

import json
import sys
import unicodedata
from pathlib import Path
from typing import Any

import pytest

from ipyagent.ui.reveal import reveal, reveal_diff

CASES = json.loads(Path(__file__).with_name("reveal_cases.json").read_text(encoding="utf-8"))


def text_of(case: dict[str, Any]) -> str:
    """The case's text; a pair in it is a string and how often it is repeated."""
    parts = case["text"]
    return "".join(part if isinstance(part, str) else part[0] * part[1] for part in parts)


@pytest.mark.spec("H17")
@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_text_is_drawn_as_the_table_says(case: dict[str, Any]):
    draw = reveal_diff if case.get("diff") else reveal
    assert draw(text_of(case)) == case["shown"]
    assert draw(case["shown"]) == case["shown"]


@pytest.mark.spec("H17")
def test_every_character_that_hides_is_named_between_letters():
    kinds = {"Cc", "Cf", "Cs", "Zl", "Zp"}
    hidden = [c for c in map(chr, range(sys.maxunicode + 1)) if unicodedata.category(c) in kinds]
    missed = [c for c in hidden if c not in "\n\t" and reveal(f"a{c}b") != f"a⟨U+{ord(c):04X}⟩b"]
    assert len(hidden) > 2_000
    assert not missed
