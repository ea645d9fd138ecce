"""The gate between untrusted text and a page: nothing gets through that runs or loads.

A model, a file, a column name or a service may have written what is shown. In a page of Jupyter a
script has the user's power: it could press Approve. So all text reaches a page through here.
"""

from __future__ import annotations

import html
import itertools
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from html.parser import HTMLParser
from urllib.parse import urlsplit

import nh3
from linkify_it import LinkifyIt
from markdown_it import MarkdownIt
from markdown_it.token import Token

from ipyagent.kernel.threads import own_context
from ipyagent.plaintext import reveal_prose, strip_escapes
from ipyagent.ui.markdown_rules import (
    NUMBERS,
    mark_formulas,
    name_numbers,
    with_formulas,
    with_marked_numbers,
)
from ipyagent.ui.reveal import color_fences
from ipyagent.ui.transcript import AnswerNumber, Image

_LINK = re.compile(r"(?:https?://|mailto:)[^\s\x00-\x1f\x7f-\x9f]+", re.ASCII | re.IGNORECASE)
_IMAGE = re.compile(
    r"data:image/(?:png|jpeg|gif|webp);base64,[a-z0-9+/= \t\n]+", re.ASCII | re.IGNORECASE
)

_SCHEME = re.compile(r"(?:https?://|mailto:)", re.ASCII | re.IGNORECASE)


def may_link(url: str) -> bool:
    """Return whether a link may lead there: http, https and mailto, absolute."""
    return _LINK.fullmatch(url) is not None


def may_show(url: str) -> bool:
    """Return whether an image may come from there: only from the page itself."""
    return _IMAGE.fullmatch(url) is not None


def not_loaded(alt: str, url: str) -> str:
    """Return the text in the place of an image that would be fetched."""
    return f"[image not loaded: {' '.join(f'{alt} {url}'.split())}]"


def unnamed_target(url: str, text: str) -> str:
    """Return the target of a link, or "" if its own text is that address or host."""
    if not may_link(url):  # a file, or a place in the text itself
        return "" if url.startswith("#") or ":" in url or url in text else url
    try:
        parts = urlsplit(url)
        # A look-alike host is recognizable in its ASCII form.
        host = parts.netloc.rpartition("@")[2].encode("idna").decode()
    except ValueError:
        return url
    target = parts.path if parts.scheme.lower() == "mailto" else host
    named_host = re.split(r"[/?#]", _SCHEME.sub("", text.strip()), maxsplit=1)[0]
    # A name before an @ reads like a host, so such a link always gets its true one.
    return "" if named_host.lower() == target.lower() and "@" not in parts.netloc else target


def image_source(image: Image) -> str | None:
    """Return the image as a data: address; None unless it is a bitmap that a page may show."""
    url = f"data:{image.media_type};base64,{''.join(image.data.split())}"
    return url if may_show(url) else None


_RULES = ["linkify", "table", "strikethrough"]
_PARSER = with_formulas(
    with_marked_numbers(MarkdownIt("commonmark", {"html": False, "linkify": True}).enable(_RULES))
)
_PARSER.linkify = LinkifyIt(options={"fuzzy_link": False, "fuzzy_email": False})

_TEXT = {"b", "br", "code", "del", "em", "i", "ins", "kbd", "s", "samp", "small", "span", "strong"}
_TEXT |= {"data", "sub", "sup", "u", "var"}
_BLOCKS = {"blockquote", "dd", "div", "dl", "dt", "hr", "li", "ol", "p", "pre", "ul"}
_BLOCKS |= {"h1", "h2", "h3", "h4", "h5", "h6"}
_TABLES = {"caption", "table", "tbody", "td", "tfoot", "th", "thead", "tr"}
_TAGS = {"a", "img"} | _TEXT | _BLOCKS | _TABLES
_CELLS = (_TABLES - {"table"}) | {"br", "img", "script", "style"}
"""Elements that do not nest in each other, nor reopen what was left open."""
_START = re.compile(r"<([a-z][^\s/<>]*+)[^<>]*+>?", re.IGNORECASE)
_MOST_BLOCKS, _MOST_NODES = 500, 200_000
_CELL = {"align", "bgcolor", "colspan", "rowspan"}
_ATTRIBUTES = {
    "a": {"href"},
    "code": {"class"},
    "data": {"value"},
    "img": {"alt", "height", "src", "width"},
    "ol": {"start"},
    "td": _CELL,
    "th": _CELL,
}
_SCHEMES = {"data", "http", "https", "mailto"}
_LANGUAGE = re.compile(r"language-[\w+#-]{1,40}")
_COLOR = re.compile("#[0-9a-f]{6}")
_NUMBER_OR_SIDE = re.compile(r"\d{1,4}|left|right|center")


def escape(text: str) -> str:
    """Return HTML that shows exactly this text; hidden characters are made visible."""
    is_plain = text.isascii() and text.isprintable()
    return html.escape(text if is_plain else reveal_prose(text))


def markdown_to_html(text: str, numbers: tuple[AnswerNumber, ...] = ()) -> str:
    """Return Markdown as safe HTML, with its numbers marked; tags in it are shown as text."""
    return "".join(markdown_blocks(text, numbers))


MAX_MARKDOWN = 200_000
"""Characters; a longer text is shown as it was written."""


@lru_cache(maxsize=8)
def markdown_blocks(
    text: str, numbers: tuple[AnswerNumber, ...] = (), *, is_open: bool = False
) -> tuple[str, ...]:
    """Return the outermost blocks of Markdown, each as safe HTML; code of an open one is plain.

    The last ones are kept: a page shows at the end of a run what the notebook saves.
    """
    shown = strip_escapes(text)
    if len(text) > MAX_MARKDOWN:
        return (f"<pre>{escape(shown)}</pre>",)
    environment = {NUMBERS: numbers if shown == text else ()}
    # The parser's log is not the user's.
    tokens = own_context().run(_PARSER.parse, shown, environment)
    for token in tokens:
        if token.type in ("td_open", "th_open") and "style" in token.attrs:
            token.attrs = {"align": str(token.attrs["style"]).removeprefix("text-align:")}
    rendered = (_PARSER.renderer.render(each, _PARSER.options, {}) for each in _outermost(tokens))
    named = mark_formulas(name_numbers(_reduce(each), numbers) for each in rendered)
    return tuple(named if is_open else map(color_fences, named))


def _outermost(tokens: Sequence[Token]) -> Iterator[Sequence[Token]]:
    """Divide tokens at the ends of the outermost blocks."""
    begin = 0
    for index, token in enumerate(tokens, 1):
        if token.level == 0 and token.nesting <= 0:
            yield tokens[begin:index]
            begin = index


def safe_html(text: str) -> str:
    """Reduce HTML to text, tables, lists, links and images that are part of the page.

    Every other image becomes visible text, and a link whose text hides its host names it. Of much
    HTML little but the cells of tables stays markup.
    """
    return _reduce(_limit_nesting(strip_escapes(text)))


def _limit_nesting(text: str) -> str:
    """Return HTML that a parser reads in time linear in its length.

    Each block may search all open elements, and text after a cell may open all inline elements
    again. Ends are not counted: what looks like one may stand in a comment or an attribute.
    """
    tags = text.count("<")
    most_inline = _MOST_NODES // (tags + 1)
    if tags <= most_inline:
        return text
    blocks, inline = itertools.count(), itertools.count()

    def keep(match: re.Match[str]) -> str:
        name = match[1].lower()
        if name in _BLOCKS or name == "table":
            kept = next(blocks) < _MOST_BLOCKS
        else:
            kept = name in _CELLS or (name in _TAGS and next(inline) < most_inline)
        # Never nothing: what is before and behind it must not become a tag.
        return match[0] if kept else " "

    return _START.sub(keep, text)


def _reduce(text: str) -> str:
    rewriter = _Rewriter()
    rewriter.feed(_TIDY.clean(text))
    rewriter.close()
    # The sanitizer comes last, after the rewriter.
    # Entities are characters by now, so what hides is looked for last.
    return reveal_prose(_STRICT.clean("".join(rewriter.parts)))


def says_something(safe: str) -> bool:
    """Return whether HTML from `safe_html` shows anything."""
    return bool(re.sub(r"<(?!img)[^>]*>", "", safe).strip())


def _tidy_attribute(tag: str, name: str, value: str) -> str | None:
    if name == "href":
        return value
    if name in ("alt", "rel", "src"):
        return value
    pattern = {"class": _LANGUAGE, "bgcolor": _COLOR}.get(name, _NUMBER_OR_SIDE)
    return value if pattern.fullmatch(value) else None


def _strict_attribute(tag: str, name: str, value: str) -> str | None:
    may_be = {"src": may_show, "href": may_link}.get(name)
    if may_be:
        return value if may_be(value) else None
    return _tidy_attribute(tag, name, value)


_TIDY = nh3.Cleaner(_TAGS, None, _ATTRIBUTES, _tidy_attribute, url_schemes=_SCHEMES)
_STRICT = nh3.Cleaner(_TAGS, None, _ATTRIBUTES, _strict_attribute, url_schemes=_SCHEMES)


class _Rewriter(HTMLParser):
    """Copies tidy HTML; images that would be fetched, and hosts of links, become text."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=False)
        self.parts: list[str] = []
        self._links: list[tuple[str, int]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        if tag == "img" and not may_show(values.get("src", "")):
            self.parts.append(html.escape(not_loaded(values.get("alt", ""), values.get("src", ""))))
            return
        if tag == "a":
            self._links.append((values.get("href", ""), len(self.parts) + 1))
        is_kept = tag != "a" or may_link(values.get("href", ""))
        self.parts.append((is_kept and self.get_starttag_text()) or "")

    def handle_endtag(self, tag: str) -> None:
        if tag == "a" and self._links:
            url, start = self._links.pop()
            target = unnamed_target(url, "".join(self.parts[start:])) if url else ""
            end = "</a>" if may_link(url) else ""
            self.parts.append(f"{end} ({html.escape(target)})" if target else end)
        else:
            self.parts.append(f"</{tag}>")

    def handle_data(self, data: str) -> None:
        self.parts.append(data)

    def handle_entityref(self, name: str) -> None:
        self.parts.append(f"&{name};")

    def handle_charref(self, name: str) -> None:
        self.parts.append(f"&#{name};")
