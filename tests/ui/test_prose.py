"""Prose of a model shows what hides in it, and leaves alone what its script needs."""

from __future__ import annotations

import html
import json
import sys
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from pictures import render, run_html
from sample import run, said, text

from ipyagent.plaintext import reveal_prose
from ipyagent.schema import Message, Step, ThinkingContent
from ipyagent.ui.plain_view import ProseFilter
from ipyagent.ui.reveal import reveal, reveal_diff

HIDING = {
    "an override": ("report\u202efdp.exe", "report⟨U+202E⟩fdp.exe"),
    "an embedding": ("a\u202bb\u202c", "a⟨U+202B⟩b⟨U+202C⟩"),
    "an isolate": ("a\u2066b\u2069", "a⟨U+2066⟩b⟨U+2069⟩"),
    "a zero-width space": ("pay\u200bpal", "pay⟨U+200B⟩pal"),
    "a joiner between Latin letters": ("pay\u200dpal", "pay⟨U+200D⟩pal"),
    "a selector after a letter": ("a\ufe0fb", "a⟨U+FE0F⟩b"),
    "a directional mark in Latin text": ("a\u200fb", "a⟨U+200F⟩b"),
    "a soft hyphen": ("a\u00adb", "a⟨U+00AD⟩b"),
    "a tag": ("a\U000e0041b", "a⟨U+E0041⟩b"),
    "words in tags behind a flag": ("🏴\U000e0068\U000e0069", "🏴⟨U+E0068⟩⟨U+E0069⟩"),
    "a filler": ("a\u3164b", "a⟨U+3164⟩b"),
    "an override beside Hebrew": ("שלום \u202eabc", "שלום ⟨U+202E⟩abc"),
}
HONEST = [
    "Größe ≥ 3, naïve café",
    "👩\u200d💻 ❤\ufe0f 1\ufe0f\u20e3 ⚠\ufe0f 🏳\ufe0f\u200d🌈 👨\u200d👩\u200d👧",
    "🤷🏽\u200d♀\ufe0f ©\ufe0f",
    "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",
    "می\u200cخواهم",
    "क्\u200dष and क्\u200cष",
    "שלום\u200f (abc)!",
    "مرحبا\u200e 12",
    "ไทย\u200bไทย",
    "葛\U000e0100城",
    "⠀⣀⣤⣶",
]


def views(words: str) -> dict[str, str]:
    """The words as an answer, in all views that are text, with its thinking."""
    message: Message = said(ThinkingContent(thinking=words), text(words))
    kept = run((Step(number=1, message=message, thinking_seconds=1.0),), verbose=1)
    return {
        "HTML": html.unescape(run_html(kept)),
        "text": render(kept),
    }


@pytest.mark.spec("D5", "H17")
@pytest.mark.parametrize(("words", "shown"), HIDING.values(), ids=HIDING)
def test_what_hides_is_spelt_out_in_answers_and_thinking(words: str, shown: str):
    assert reveal_prose(words) == shown
    for view, seen in views(words).items():
        assert seen.count(shown) == 2, view
        assert words not in seen, view


@pytest.mark.parametrize("words", HONEST)
def test_what_a_script_needs_stays(words: str):
    assert reveal_prose(words) == words
    for view, seen in views(words).items():
        assert seen.count(words) == 2, view


def test_an_entity_does_not_hide_either():
    seen = views("report&#8238;fdp.exe")
    assert seen["HTML"].count("report⟨U+202E⟩fdp.exe") == 2


@pytest.mark.parametrize("words", [*(words for words, _ in HIDING.values()), *HONEST])
def test_prose_in_pieces_reads_as_a_whole_one_does(words: str):
    for cut in range(len(words) + 1):
        prose = ProseFilter()
        seen = prose.feed(words[:cut]) + prose.feed(words[cut:]) + prose.flush()
        if "\U000e0067" not in words:  # the flag of a country in Britain: cut, it is spelt out
            assert seen == reveal_prose(words), cut


# Every character that hides


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
