"""A growing Markdown text as safe HTML in blocks, of which only new ones are made."""

from __future__ import annotations

import re
from itertools import accumulate
from typing import NamedTuple

from markdown_it import MarkdownIt
from markdown_it.token import Token

from ipyagent.plaintext import reveal_prose
from ipyagent.ui.markdown_rules import with_formulas
from ipyagent.ui.sanitize import markdown_blocks

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
        self._open = markdown_blocks(rest, is_open=True)
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
