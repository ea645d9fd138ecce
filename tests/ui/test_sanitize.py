from __future__ import annotations

import re

import hostile
import pytest
from hypothesis import given
from hypothesis import strategies as st
from inspection import controls, dangers, markdown_dangers
from markdown_it import MarkdownIt
from nbconvert.filters import markdown2html

from ipyagent.plaintext import visible
from ipyagent.ui.markdown import block_quote, fence, literal
from ipyagent.ui.sanitize import escape, markdown_to_html, safe_html, safe_markdown

PERMISSIVE = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
# What nbconvert itself adds to headings, highlighted code and cells.
NBCONVERT = re.compile(
    r"<h[1-6] id=.*>|<a class='anchor-link'>|<a href=['\"]#.*>|<div class='highlight.*'>"
    r"|<(span|pre) class='[a-z0-9 ]*'>|<code class='language-[\w+#.-]*'>"
    r"|<t[dh] style='text-align:\w+'>"
)

SYNTAX = ["`", "$", "\\", "*", "~~", "<", ">", "[", "](", ")", "!", "\n", "\n\n", "- ", "> ", "1. "]
SYNTAX += ["    ", "```", "|", "&#10;", "&lt;", "a", " ", "$$", "{", "\\[", "\\]", "\\begin{x}"]
pieces = st.lists(
    st.sampled_from(hostile.HTML) | st.sampled_from(hostile.MARKDOWN) | st.sampled_from(SYNTAX),
    max_size=12,
).map("".join)


def nbconvert_dangers(markdown: str) -> list[str]:
    """What nbconvert's own Markdown renderer, which allows raw HTML, makes of it."""
    found = dangers(markdown2html(markdown))
    return [each for each in found if not NBCONVERT.fullmatch(each)]


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


@pytest.mark.spec("A27")
def test_markdown_for_others_is_dead_in_permissive_renderers():
    assert len([p for p in hostile.ALL if markdown_dangers(p)]) > 100
    assert {p: found for p in hostile.ALL if (found := markdown_dangers(safe_markdown(p)))} == {}


@pytest.mark.spec("A27")
def test_markdown_for_others_is_dead_in_nbconvert_too():
    assert len([p for p in hostile.MARKDOWN if nbconvert_dangers(p)]) > 20
    assert {p: f for p in hostile.ALL if (f := nbconvert_dangers(safe_markdown(p)))} == {}


@given(pieces)
def test_no_mixture_gets_through(mixture: str):
    markdown = safe_markdown(mixture)
    assert markdown_dangers(markdown) == []
    assert nbconvert_dangers(markdown) == []
    assert markdown_dangers(block_quote(mixture)) == []
    assert dangers(markdown_to_html(mixture)) == []
    assert dangers(safe_html(mixture)) == []


@given(pieces)
def test_outside_of_fences_markdown_has_nothing_that_renderers_disagree_about(mixture: str):
    closing, outside = "", []
    for line in safe_markdown(mixture).split("\n"):
        fence = line[: len(line) - len(line.lstrip("`"))]
        if closing:
            closing = "" if line == closing else closing
        elif len(fence) >= 3:
            closing = fence
        else:
            outside.append(line)
    assert closing == ""
    assert not set("<$\\") & set("\n".join(outside))


def test_ordinary_markdown_keeps_its_meaning():
    text = """\
# Title with *emphasis*

Two lines
of **text** with `code[0]`, ~~mistakes~~, snake_case, 5 > 3, *a & b*, 100 % and $5.

- one
- two
  1. first
  2. second

3. third

   with a second paragraph
4. fourth

| left | right | `x` |
|:-----|------:|:-:|
| a    | 1     | 2 |

> quoted
> text

```python
if a < b:
    print("<b>", "`", r"\\n", "$x$")
```

Hard\\
break, [example.com](https://example.com/a_b?c=d&e=f), Hello!

1\\. not a list, 2024\\. neither, \\# nor a heading

---

![figure](data:image/png;base64,AAAA)
"""
    again = safe_markdown(text)
    assert PERMISSIVE.render(again) == PERMISSIVE.render(text)
    assert safe_markdown(again) == again


def test_code_in_lists_keeps_its_text():
    shown = markdown_to_html(safe_markdown("- ```\n  if a < b:\n      x = f(`y`)\n  ```"))
    assert "if a" in shown
    assert "&nbsp;&nbsp;&nbsp;&nbsp;" in shown


def test_remote_images_become_text_that_tells_what_was_not_loaded():
    expected = "[image not loaded: a figure https://evil.example/x.png?d=1]"
    assert markdown_to_html("![a figure](https://evil.example/x.png?d=1)") == f"<p>{expected}</p>\n"
    assert safe_html('<img alt="a figure" src="https://evil.example/x.png?d=1">') == expected
    literally = PERMISSIVE.render(safe_markdown("![a figure](https://evil.example/x.png?d=1)"))
    assert literally == f"<p>{expected}</p>\n"


def test_bitmaps_in_the_page_are_kept():
    assert hostile.GIF in safe_html(f"<img src='{hostile.GIF}' width=10>")
    assert hostile.GIF in markdown_to_html(f"![x]({hostile.GIF})")
    assert hostile.GIF in safe_markdown(f"![x]({hostile.GIF})")


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
        ("[out](/logout)", "out"),
    ],
)
def test_a_link_tells_where_it_leads(link: str, shown: str):
    from bs4 import BeautifulSoup

    for html in (markdown_to_html(link), PERMISSIVE.render(safe_markdown(link))):
        assert BeautifulSoup(html, "html.parser").get_text().strip() == shown


def test_links_tell_nothing_to_where_they_lead():
    html = safe_html("<a href='https://x.example' target=_blank>x</a>")
    assert html == '<a href="https://x.example" rel="noopener noreferrer">x</a> (x.example)'


def test_tables_keep_their_alignment():
    assert '<td align="right">1</td>' in markdown_to_html("|a|\n|--:|\n|1|")


@pytest.mark.parametrize("text", ["<b>&\"'", "a\x1b[31mb", "\ud800"])
def test_escaped_text_is_text(text: str):
    assert dangers(f"<p title>{escape(text)}</p>".replace(" title", "")) == []
    assert not set("<>\"'") & set(escape(text))
    assert not controls(escape(text))
    escape(text).encode()


def test_no_fence_can_be_closed_from_inside():
    for inner in ("```", "````\n```", "~~~", "`" * 12, "", "``\x1b[m`"):
        (token,) = PERMISSIVE.parse(fence(f"{inner}\n<b>", "python"))
        assert token.type == "fence"
        assert token.content == f"{visible(inner)}\n<b>\n"


@pytest.mark.parametrize("language", ["{raw} html", 'x" y', "<b>", "a`b", "\n"])
def test_a_fence_names_only_languages(language: str):
    assert fence("x", language) == "```\nx\n```"


def test_literal_text_is_one_line_of_text():
    for payload in hostile.ALL:
        assert "\n" not in literal(payload)
        (_, inline, _) = PERMISSIVE.parse(f"x{literal(payload)}x")
        assert {child.type for child in inline.children or []} == {"text"}


def test_no_tex_command_reaches_the_page():
    naive = PERMISSIVE.render("$\\href{javascript:alert(1)}{x}$")
    assert "\\href" in naive
    assert "\\href" not in PERMISSIVE.render(safe_markdown("$\\href{javascript:alert(1)}{x}$"))
