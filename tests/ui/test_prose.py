"""Markdown as a page gets it while it grows: blocks of HTML, each made once."""

import hostile
import pytest
from bs4 import BeautifulSoup
from hypothesis import given, strategies as st
from inspection import dangers

from growth import LINEAR, growth
from ipyagent.ui.live_blocks import Prose
from ipyagent.ui.sanitize import MAX_MARKDOWN, markdown_blocks, markdown_to_html

PART = (
    "## Part\n\nText with **bold** words, `code` and $x_1$, for *some* lines.\n\n"
    "1. one\n2. two\n   ```python\n   x = 1\n   ```\n3. three\n\n"
    "| a | b |\n|--|--|\n| 1 | 2 |\n\n"
    "$$\n\\frac{1}{2}\n$$\n\n"
    "````md\n```python\nx = 1\n```\n\n````\n"
    "> quoted\n> twice\n\n"
)
LIST = "- an item of a list that goes on and on\n"
LINE = "x = [1, 2, 3]  # a line\n\n"


def grown(text: str, size: int) -> list[tuple[tuple[str, ...], str]]:
    """What a page has while a text grows by `size` characters at a time."""
    prose = Prose()
    return [prose.update(text[: end + size]) for end in range(0, len(text), size)]


def words(html: str) -> str:
    return "".join(BeautifulSoup(html, "html.parser").text.split())


@pytest.mark.parametrize("size", [1, 2, 7, 16, 100])
def test_blocks_that_are_complete_are_those_of_the_whole_text(size: int) -> None:
    text = PART + LIST * 12 + PART
    whole = markdown_blocks(text)
    for blocks, _ in grown(text, size):
        done = blocks[:-2]  # the last one may become an item of the list before it
        assert done == whole[: len(done)]


@pytest.mark.parametrize("size", [1, 3, 50])
def test_all_words_that_are_there_are_shown(size: int) -> None:
    text = "Some *words* in a\nparagraph, a [link](https://x.example) and more. " * 20
    prose = Prose()
    for end in range(0, len(text), size):
        blocks, tail = prose.update(text[:end])
        plain = words(markdown_to_html(text[:end]))
        assert words("".join(blocks) + tail).startswith(plain[: len(plain) // 2])
        assert len(words("".join(blocks) + tail)) >= len(plain) - 4


def test_plain_words_are_sent_as_they_come() -> None:
    prose = Prose()
    (first,), _ = prose.update("Begin with *this*")
    blocks, tail = prose.update("Begin with *this* and go on")
    assert (blocks, tail) == ((first,), " and go on")
    blocks, tail = prose.update("Begin with *this* and go on *here*")
    assert (blocks[0], tail) == ("<p>Begin with <em>this</em> and go on <em>here</em></p>\n", "")


def test_open_code_is_code_and_its_own_fence_ends_it() -> None:
    prose = Prose()
    (open_block,), _ = prose.update("````md\n```\nx\n```\n")
    assert BeautifulSoup(open_block, "html.parser").text.strip() == "```\nx\n```"
    blocks, _ = prose.update("````md\n```\nx\n```\n````\nand")
    assert blocks == (open_block, "<p>and</p>\n")


def test_a_text_that_is_written_again_begins_again() -> None:
    prose = Prose()
    prose.update("void *x*")
    assert prose.update("val") == (("<p>val</p>\n",), "")


def test_a_text_behind_words_hides_nothing() -> None:
    prose = Prose()
    prose.update("*x* pay " + "word " * 100)
    _, tail = prose.update("*x* pay " + "word " * 100 + "re\u202efdp.exe")
    assert tail == " re⟨U+202E⟩fdp.exe"


@given(st.lists(st.sampled_from(hostile.ALL), min_size=1, max_size=3), st.integers(1, 9))
def test_a_text_is_safe_wherever_it_is_cut(payloads: list[str], size: int) -> None:
    for blocks, _ in grown("\n\nand ".join(payloads), size):
        assert [found for each in blocks for found in dangers(each)] == []


@pytest.mark.parametrize(
    "piece",
    [PART, LIST, "word ", f"```text\n{LINE * 9}```\nend\n", LINE, "$$\n" + "x + y\n" * 40],
    ids=["mixed", "list", "words", "code", "lines", "formula"],
)
def test_a_growing_text_takes_linear_time(piece: str) -> None:
    assert growth(lambda count: grown((piece * count)[: 60 * count], 50), 100) < LINEAR


def test_a_very_long_text_stays_as_it_was_written() -> None:
    text = "*a* " * (MAX_MARKDOWN // 4 + 1)
    (block,) = markdown_blocks(text)
    assert block.startswith("<pre>*a* *a* ")
    assert Prose().update(text)[0] == (block,)


@pytest.mark.parametrize("piece", [">", "[a](", "*a "])
def test_text_that_no_parser_likes_is_shown(piece: str) -> None:
    assert markdown_to_html(piece * 20_000)


def test_a_bare_address_is_a_link() -> None:
    html = markdown_to_html("See https://x.example/2024?a=1, not a@b.c or `https://y.example`.")
    (link,) = BeautifulSoup(html, "html.parser").select("a")
    assert link["href"] == link.text == "https://x.example/2024?a=1"
