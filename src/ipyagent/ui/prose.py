"""Texts of a run as a page gets them: safe HTML in blocks, of which only new ones are made."""

from __future__ import annotations

import re
from itertools import accumulate
from typing import NamedTuple

from markdown_it import MarkdownIt
from markdown_it.token import Token

from ipyagent.plaintext import reveal_prose
from ipyagent.ui import transcript
from ipyagent.ui.markdown_rules import with_formulas
from ipyagent.ui.sanitize import markdown_blocks, markdown_to_html

_SHORT, _MIDDLE, _GROWN = 400, 1_500, 1 / 8
"""An open block up to the first length is laid out again at each sign of Markdown, up to the
second with each line, a longer one after growing by this fraction: so all work is linear."""

_MARK = len("10. x")

_WORDS = re.compile(r"""[\w ,;.'"?!:%]*""")
"""Text that looks the same as Markdown."""

_FENCE = re.compile(r"^ {0,3}(?:```|~~~)", re.MULTILINE)

_OUTLINE = with_formulas(MarkdownIt("commonmark", {"html": False}).enable("table"))
_OUTLINE.core.ruler.enableOnly(["normalize", "block"])
"""A fast parser that finds only the outermost blocks."""


class Prose:
    """A growing Markdown text: complete blocks are made once, the last one now and then."""

    def __init__(self) -> None:
        self._begin_again()

    def _begin_again(self) -> None:
        self._text = ""
        self._sealed: tuple[str, ...] = ()
        self._begin = 0
        """Where the open block begins."""
        self._open: tuple[str, ...] = ()
        self._drawn = 0
        """Where the text begins that is not in the open block."""

    def update(self, text: str) -> tuple[tuple[str, ...], str]:
        """Return the blocks of a text that goes on, and the plain text behind them."""
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        if not text.startswith(self._text):
            self._begin_again()
        added = text[len(self._text) :]
        self._text = text
        if self._is_due(added):
            self._lay_out()
        return (*self._sealed, *self._open), reveal_prose(text[self._drawn :])

    def _is_due(self, added: str) -> bool:
        if _WORDS.fullmatch(added):
            return self._drawn == 0 and bool(added)
        length, drawn = len(self._text) - self._begin, self._drawn - self._begin
        is_short = length < (_MIDDLE if "\n" in added else _SHORT)
        return is_short or length - drawn > length * _GROWN or self._has_fence(added)

    def _has_fence(self, added: str) -> bool:
        """Return whether a line that is complete now may begin or end fenced code."""
        line = self._text.rfind("\n", 0, len(self._text) - len(added)) + 1
        return "\n" in added and _FENCE.search(self._text, line) is not None

    def _lay_out(self) -> None:
        """Seal all blocks but the last, and draw that one as far as it is there."""
        outline = _outline(self._text[self._begin :])
        if outline.begin:
            begin = self._begin + outline.begin
            self._sealed += markdown_blocks(self._text[self._begin : begin])
            self._begin = begin
        rest = self._text[self._begin :]
        self._open = markdown_blocks(rest)
        # The space behind words is not drawn.
        self._drawn = self._begin + len(rest if outline.is_code else rest.rstrip())


class _Outline(NamedTuple):
    """The offset at which the open block begins, and whether that is code."""

    begin: int
    is_code: bool


def _outline(text: str) -> _Outline:
    tokens = [
        token
        for token in _OUTLINE.parse(text)
        if token.level == 0 and token.nesting >= 0 and token.map
    ]
    if not tokens:
        return _Outline(0, is_code=False)
    offsets = [0, *accumulate(len(line) + 1 for line in text.split("\n"))]
    starts = [offsets[token.map[0]] for token in tokens if token.map]
    last, (first, after) = tokens[-1], tokens[-1].map or (0, 0)
    if _is_closed(last, text[offsets[after - 1] : offsets[after]], after - first):
        return _Outline(offsets[after], is_code=False)
    # A block that begins may become a further item of the list before it.
    is_mark = len(text[starts[-1] :].strip()) <= _MARK
    begin = starts[-2:][0] if is_mark else starts[-1]
    return _Outline(begin, is_code=last.type in ("fence", "code_block"))


def _is_closed(token: Token, last_line: str, lines: int) -> bool:
    """Return whether it is fenced code whose last line, which is whole, ends it."""
    if token.type != "fence" or lines < 2:
        return False
    fence = re.escape(token.markup[0]) + f"{{{len(token.markup)},}}"
    return re.fullmatch(rf" {{0,3}}{fence}[ \t]*\n", last_line) is not None


class PageTexts:
    """Makes a transcript's Markdown into HTML, for pages; each text once."""

    def __init__(self) -> None:
        self._growing: dict[int, Prose] = {}
        self._steps: tuple[transcript.Step, ...] = ()
        self._rendered: tuple[transcript.Step, ...] = ()

    def render(self, shown: transcript.Transcript) -> transcript.Transcript:
        """Return the transcript with blocks of HTML in place of texts."""
        # Of a long run the beginning stays, and comparing objects that are the same is quick.
        start = max(0, len(self._steps) - 1)
        start = start if shown.steps[:start] == self._steps[:start] else 0
        new = [self._step(index, step) for index, step in enumerate(shown.steps[start:], start)]
        self._steps, self._rendered = shown.steps, (*self._rendered[:start], *new)
        return shown.model_copy(update={"steps": self._rendered})

    def _step(self, index: int, step: transcript.Step) -> transcript.Step:
        if index < len(self._steps) and step is self._steps[index]:
            return self._rendered[index]
        blocks, tail = self._blocks(index, step)
        calls = tuple(map(_call, step.calls))
        update = {"text": tail, "blocks": blocks, "numbers": (), "calls": calls}
        return step.model_copy(update=update)

    def _blocks(self, index: int, step: transcript.Step) -> tuple[tuple[str, ...], str]:
        if step.is_streaming:
            return self._growing.setdefault(index, Prose()).update(step.text)
        self._growing.pop(index, None)
        return markdown_blocks(step.text, step.numbers), ""


def _call(call: transcript.Call) -> transcript.Call:
    """Return the call with HTML in place of Markdown that it displays."""
    if call.result is None or not any(map(_is_markdown, call.result.media)):
        return call
    media = tuple(map(_display, call.result.media))
    return call.model_copy(update={"result": call.result.model_copy(update={"media": media})})


def _is_markdown(media: transcript.Media) -> bool:
    return isinstance(media, transcript.Display) and "text/markdown" in media.data


def _display(media: transcript.Media) -> transcript.Media:
    if not isinstance(media, transcript.Display) or "text/markdown" not in media.data:
        return media
    html = markdown_to_html(media.data["text/markdown"])
    return media.model_copy(update={"data": {"text/html": html, **media.data}})
