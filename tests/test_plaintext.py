from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

import ipyagent
from growth import LINEAR, growth
from ipyagent.plaintext import (
    cite,
    clean_text,
    ellipsize,
    excerpt,
    first_line,
    flatten,
    join_some,
    join_words,
    limit_lines,
    plural,
    spell,
    strip_escapes,
    visible,
)

NAIVE = re.compile(r"\x1b\[[0-9;]*m")

SEQUENCES = {
    "colour": ("\x1b[31;1mred\x1b[0m", "red"),
    "8-bit CSI": ("\x9b31mred\x9b0m", "red"),
    "private mode": ("\x1b[?25lhidden cursor\x1b[?25h", "hidden cursor"),
    "cursor home and clear": ("\x1b[H\x1b[2Jfresh", "fresh"),
    "CSI with intermediates": ("\x1b[0 qbar", "bar"),
    "colon parameters": ("\x1b[38:2::255:0:0mred", "red"),
    "title with BEL": ("\x1b]0;evil\x07ok", "ok"),
    "title with ST": ("\x1b]0;evil\x1b\\ok", "ok"),
    "title with 8-bit ST": ("\x9d0;evil\x9cok", "ok"),
    "link": ("\x1b]8;;http://x\x1b\\text\x1b]8;;\x1b\\", "text"),
    "clipboard": ("\x1b]52;c;ZXZpbA==\x07ok", "ok"),
    "charset": ("\x1b(Bok", "ok"),
    "charset, 96": ("\x1b-Aok", "ok"),
    "two intermediates": ("\x1b$(Cok", "ok"),
    "DCS": ("\x1bPq#0;2;0;0;0\nsixel\x1b\\ok", "ok"),
    "8-bit DCS": ("\x90payload\x9cok", "ok"),
    "PM": ("\x1b^payload\x1b\\ok", "ok"),
    "APC": ("\x1b_Gf=24;payload\x1b\\ok", "ok"),
    "SOS": ("\x1bXpayload\x1b\\ok", "ok"),
    "8-bit SOS, PM, APC": ("\x98a\x9c\x9eb\x9c\x9fc\x9cok", "ok"),
    "BEL inside DCS": ("\x1bPa\x07b\x1b\\ok", "ok"),
    "wrapped for tmux": ("\x1bPtmux;\x1b\x1b]0;evil\x07\x1b\\ok", "ok"),
    "string ended by CAN": ("\x1b]0;evil\x18ok", "ok"),
    "string ended by another sequence": ("\x1b]0;evil\x1b[31mok", "ok"),
    "reset": ("\x1bcok", "ok"),
    "application keypad": ("\x1b=ok\x1b>", "ok"),
    "single shift": ("\x1bNx\x8ey", "xy"),
    "NUL inside CSI": ("\x1b[3\x001mred", "red"),
    "backspace inside CSI": ("\x1b[3\x081mred", "red"),
    "ESC inside ESC": ("\x1b\x1b[31m[31m", "[31m"),
    "lone ESC": ("\x1b", ""),
    "cut inside CSI": ("ok\x1b[38;5", "ok"),
    "cut inside OSC": ("ok\x1b]0;evil", "ok"),
    "cut inside a charset": ("ok\x1b(", "ok"),
    "unterminated title": ("\x1b]0;evil\nnext line", "\nnext line"),
    "unterminated DCS": ("\x1bPevil\nnext line", "\nnext line"),
}


@pytest.mark.spec("D5", "H17")
@pytest.mark.parametrize(("text", "left"), SEQUENCES.values(), ids=SEQUENCES)
def test_every_form_of_sequence_goes_entirely(text: str, left: str):
    assert strip_escapes(text) == left


@pytest.mark.spec("D5")
def test_a_pattern_for_colours_alone_leaves_most_sequences_in():
    survivors = [name for name, (text, left) in SEQUENCES.items() if NAIVE.sub("", text) != left]
    assert len(survivors) == len(SEQUENCES) - 1


@pytest.mark.spec("D5", "H17")
@pytest.mark.parametrize("code", [*range(0x20), *range(0x7F, 0xA0)])
def test_no_control_character_survives_but_newline_and_tab(code: int):
    kept = {0x09: "a\tb", 0x0A: "a\nb"}
    after = strip_escapes(f"a{chr(code)}b")
    if code in kept:
        assert after == kept[code]
    else:
        assert after in {"ab", "a", "b"}
        assert NAIVE.sub("", f"a{chr(code)}b") == f"a{chr(code)}b"


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("one\r\ntwo\r\n", "one\ntwo\n"),
        ("one\r\r\ntwo", "one\ntwo"),
        (" 10%\r 50%\r100%\ndone", "100%\ndone"),
        ("100%\r", "100%"),
        ("long line\rshort", "shortline"),
        ("Downloading 10%\r\x1b[KDone", "Done"),
        ("Downloading 10%\x1b[2K\rDone", "Done"),
        ("kept\nDownloading\x1b[2KDone", "kept\nDone"),
    ],
)
def test_lines_read_as_a_terminal_would_leave_them(text: str, left: str):
    assert strip_escapes(text) == left


def test_text_without_escapes_is_untouched():
    text = "Größe ≥ 3\n\t日本語 🐧 é \u202e"
    assert strip_escapes(text) == text


def test_lone_surrogates_are_replaced_so_that_the_text_can_be_sent():
    naive = "a\udc80b"
    with pytest.raises(UnicodeEncodeError):
        naive.encode()
    assert strip_escapes(naive).encode().decode().startswith("a\ufffd")


ALPHABET = st.sampled_from([*map(chr, range(0xA0)), "[", "]", "P", "\\", ";", "m", "\x1b", "\x9c"])


@given(st.text(ALPHABET | st.characters(), max_size=60))
def test_whatever_comes_in_nothing_that_acts_comes_out(text: str):
    once = strip_escapes(text)
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]", once)
    assert strip_escapes(once) == once


@pytest.mark.slow
@pytest.mark.parametrize(
    "unit", ["\x1b]", "\x9d", "\x1b[", "\x1bP", "\x90", "\r", "x\r\n", "\r\x1b["]
)
def test_the_time_grows_with_the_length_not_with_its_square(unit: str):
    assert growth(lambda count: strip_escapes(unit * count), 50_000) < LINEAR


def test_every_character_that_hides_is_spelt_out():
    missed = []
    for code in range(sys.maxunicode + 1):
        char = chr(code)
        hides = unicodedata.category(char) in {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
        if hides and char not in "\n\t" and visible(char) != f"⟨U+{code:04X}⟩":
            missed.append(code)
    assert not missed


@pytest.mark.parametrize(
    "code", [0x202E, 0x200B, 0xE0041, 0x2066, 0xFE0F, 0xE0100, 0x3164, 0x0D, 0x1B]
)
def test_text_with_a_hidden_character_reads_differently(code: int):
    assert visible(f"rm {chr(code)}x") == f"rm ⟨U+{code:04X}⟩x"


def test_ordinary_text_reads_as_it_is():
    text = "Größe ≥ 3 日本語 🐧\n\tprint('é')\u00a0%"
    assert visible(text) == text


@given(
    st.text(
        st.sampled_from("aé日🐧\n\t\u00a0\u200b\u202e\ufe0f\u3164") | st.characters(), max_size=20
    )
)
def test_a_text_reads_as_its_characters_do_one_by_one(text: str):
    assert visible(text) == "".join(map(visible, text))


HOSTILE = "a\x1b[31m\u202e\n\t b"


@pytest.mark.parametrize(
    ("function", "safe"),
    [
        (strip_escapes, "a\u202e\n\t b"),
        (visible, "a⟨U+001B⟩[31m⟨U+202E⟩\n\t b"),
        (clean_text, "a⟨U+202E⟩\n\t b"),
        (cite, "a⟨U+001B⟩[31m⟨U+202E⟩↵\t b"),
        (flatten, "a⟨U+001B⟩[31m⟨U+202E⟩ b"),
        (lambda text: excerpt(text, 80), "a⟨U+202E⟩ b"),
        (lambda text: excerpt(text, 5), "a⟨U+…"),
        (spell, "a\\x1b[31m\\u202e\\n\\t b"),
    ],
)
def test_each_way_to_make_a_text_safe(function: Callable[[str], str], safe: str) -> None:
    assert function(HOSTILE) == safe


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
        if path.name != "plaintext.py" and "ui" not in path.parts
        for line in path.read_text("utf-8").splitlines()
        if BY_HAND.search(line)
    ]
    assert found == []
