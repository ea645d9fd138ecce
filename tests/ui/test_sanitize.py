from __future__ import annotations

from collections.abc import Callable
from html.parser import HTMLParser

import hostile
import pytest
from hypothesis import given, strategies as st
from inspection import controls, dangers
from markdown_it import MarkdownIt

from ipyagent.ui.sanitize import escape, markdown_to_html, safe_html

PERMISSIVE = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
SYNTAX = ["`", "$", "\\", "*", "~~", "<", ">", "[", "](", ")", "!", "\n", "\n\n", "- ", "> ", "1. "]
SYNTAX += ["    ", "```", "|", "&#10;", "&lt;", "a", " ", "$$", "{", "\\[", "\\]", "\\begin{x}"]
pieces = st.lists(
    st.sampled_from(hostile.HTML) | st.sampled_from(hostile.MARKDOWN) | st.sampled_from(SYNTAX),
    max_size=12,
).map("".join)


def test_the_corpus_is_as_large_as_promised():
    assert len(set(hostile.ALL)) >= 150


@pytest.mark.spec("D5", "A27")
def test_no_html_gets_through_that_runs_loads_or_forges():
    naive = [p for p in hostile.HTML if dangers(f"<div>{p}</div>")]
    assert len(naive) > 100
    assert {p: found for p in hostile.ALL if (found := dangers(safe_html(p)))} == {}


@pytest.mark.spec("D5", "A27")
def test_markdown_becomes_html_that_cannot_act():
    naive = [p for p in hostile.ALL if dangers(PERMISSIVE.render(p.replace("\ud83d", "")))]
    assert len(naive) > 100
    assert {p: found for p in hostile.ALL if (found := dangers(markdown_to_html(p)))} == {}


@given(pieces)
def test_no_mixture_gets_through(mixture: str):
    assert dangers(markdown_to_html(mixture)) == []
    assert dangers(safe_html(mixture)) == []


def test_remote_images_become_text_that_tells_what_was_not_loaded():
    expected = "[image not loaded: a figure https://evil.example/x.png?d=1]"
    assert markdown_to_html("![a figure](https://evil.example/x.png?d=1)") == f"<p>{expected}</p>\n"
    assert safe_html('<img alt="a figure" src="https://evil.example/x.png?d=1">') == expected


def test_bitmaps_in_the_page_are_kept():
    assert hostile.GIF in safe_html(f"<img src='{hostile.GIF}' width=10>")
    assert hostile.GIF in markdown_to_html(f"![x]({hostile.GIF})")


@pytest.mark.parametrize(
    ("link", "shown"),
    [
        ("[docs](https://docs.python.org/3/)", "docs (docs.python.org)"),
        ("[docs.python.org](https://docs.python.org/3/)", "docs.python.org"),
        ("<https://docs.python.org/3/>", "https://docs.python.org/3/"),
        ("[https://good.example](https://evil.example)", "https://good.example (evil.example)"),
        ("[good.example](https://good.example@evil.example)", "good.example (evil.example)"),
        ("[аpple.com](https://аpple.com)", "аpple.com (xn--pple-43d.com)"),
        ("[write](mailto:a@b.example)", "write (a@b.example)"),
        ("[out](/logout)", "out (/logout)"),
        ("[the report](q3/report.md)", "the report (q3/report.md)"),
        ("[report.md](report.md)", "report.md"),
        ("[above](#above)", "above"),
        ("[x](data:text/csv,a)", "[x](data:text/csv,a)"),
    ],
)
def test_a_link_tells_where_it_leads(link: str, shown: str):
    from bs4 import BeautifulSoup

    html = markdown_to_html(link)
    assert BeautifulSoup(html, "html.parser").get_text().strip() == shown


def test_a_file_within_a_link_is_not_told():
    assert safe_html("<a download href='data:text/csv;base64,YQ=='>Download</a>") == "Download"


def test_links_tell_nothing_to_where_they_lead():
    html = safe_html("<a href='https://x.example' target=_blank>x</a>")
    assert html == '<a href="https://x.example" rel="noopener noreferrer">x</a> (x.example)'


def test_cells_keep_their_colors_and_no_other_background():
    cells = [f"<td bgcolor={each!r}>1</td>" for each in ("#ffff00", "red", "url(x)", "#ff0")]
    kept = safe_html(f"<table><tr>{''.join(cells)}</tr></table><p bgcolor='#ffff00'>x</p>")
    assert kept.count("bgcolor") == 1
    assert '<td bgcolor="#ffff00">1</td>' in kept


def test_tables_keep_their_alignment():
    assert '<td align="right">1</td>' in markdown_to_html("|a|\n|--:|\n|1|")


@pytest.mark.parametrize("text", ["<b>&\"'", "a\x1b[31mb", "\ud800"])
def test_escaped_text_is_text(text: str):
    assert dangers(f"<p title>{escape(text)}</p>".replace(" title", "")) == []
    assert not set("<>\"'") & set(escape(text))
    assert not controls(escape(text))
    escape(text).encode()


class Depth(HTMLParser):
    """Counts the elements of HTML that was written by a parser, and how deep they nest."""

    nodes = depth = deepest = 0

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.nodes += 1
        self.depth += tag not in {"br", "hr", "img"}
        self.deepest = max(self.deepest, self.depth)

    def handle_endtag(self, tag: str) -> None:
        self.depth -= 1


def bold(count: int) -> str:
    """Inline elements that are all different: a parser opens each again in the next block."""
    return "".join(f"<b class=b{number}>" for number in range(count))


@pytest.mark.parametrize(
    "deep",
    [
        lambda n: "<div>" * n,
        lambda n: "<div>" * (n // 2) + "<div></div>" * (n // 2),
        lambda n: "<div><!--</div>-->" * n,
        lambda n: '<div title="</div>">' * n,
        lambda n: "<svg>" + "<td>" * n + "</p>" * n,
        lambda n: "<d<b>iv>" * n,
        lambda n: "".join(f"<p><b class=b{number}>" for number in range(n)),
        lambda n: bold(n // 50) + "<p>x" * n,
        lambda n: f"<table>{bold(n // 50)}" + "x<tr>" * n,
        lambda n: "<ul><li>" * n,
    ],
)
def test_what_nests_without_end_costs_no_more_than_its_length(deep: Callable[[int], str]) -> None:
    """A parser looks through all open elements at each, and repeats some of them."""
    for count in (1_000, 4_000):
        html = deep(count)
        found = Depth()
        found.feed(safe_html(html))
        assert found.deepest < 1_200
        assert found.nodes < 2 * html.count("<") + 200_000


def test_a_long_table_stays_one_and_a_long_answer_stays_markup() -> None:
    rows = "<tr><td>1</td><td>2</td></tr>\n" * 2_000
    table = f"<div><table><tbody>{rows}</tbody></table><p>2000 rows</p></div>"
    assert safe_html(table) == table
    assert markdown_to_html("- **a** `b`\n" * 2_000).count("<strong>") == 2_000
