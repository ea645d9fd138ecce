"""Numbers of an answer as elements of its HTML, by their places in the Markdown.

Code, addresses and formulas have none: only text is marked that is drawn as it was written. The
parser makes `<data value="0">5,076</data>` of a number, which passes the gate, and no other text
can become that; behind the gate it is named after where it comes from.
"""

from __future__ import annotations

import html
import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate

from markdown_it import MarkdownIt
from markdown_it.rules_core import StateCore
from markdown_it.rules_inline import StateInline

from ipyagent.plaintext import reveal_prose
from ipyagent.ui.transcript import AnswerNumber

_TERMINATOR = re.compile(r"[\n!#$%&*+\-:<=>@\[\\\]^_`{}~]")
"""The characters at which other rules of the parser may begin."""
_ELEMENT = re.compile(r'<data value="(\d+)">([^<]*)</data>')

NUMBERS, _BLOCK = "numbers", "block"
"""Keys of the parser's environment: all numbers; the block that is parsed, and those in it."""


def with_marked_numbers(parser: MarkdownIt) -> MarkdownIt:
    """Return a parser that marks the numbers in its environment."""
    parser.core.ruler.at("inline", _parse_blocks)
    parser.inline.ruler.at("text", _parse_text)
    return parser


def _parse_blocks(state: StateCore) -> None:
    """Parse the text of each block, with the places of the numbers in it."""
    numbers: Sequence[AnswerNumber] = state.env.get(NUMBERS, ())
    starts = [each.start for each in numbers]
    ends = [0, *accumulate(len(line) + 1 for line in state.src.split("\n"))] if numbers else []
    at = end = 0
    for token in state.tokens:
        if token.map and numbers:
            at, end = max(at, ends[token.map[0]]), ends[token.map[1]]
        if token.type != "inline":
            continue
        places: dict[int, int] = {}
        begin = 0
        for line in token.content.split("\n") if numbers else ():
            found = state.src.find(line, at, end)
            at = found + len(line) if found >= 0 else end
            if found >= 0:
                for n in range(bisect_left(starts, found), bisect_left(starts, at)):
                    text = numbers[n].text
                    if text and state.src.startswith(text, starts[n], at):
                        places[begin + starts[n] - found] = n
            begin += len(line) + 1
        state.env[_BLOCK] = token.content, places, [*places]
        token.children = []
        state.md.inline.parse(token.content, state.md, state.env, token.children)


def _parse_text(state: StateInline, silent: bool) -> bool:
    """Parse a number that is to be marked, or text up to the next one or another rule's sign."""
    content, places, starts = state.env.get(_BLOCK, ("", {}, []))
    if state.src != content:  # the description of an image
        places, starts = {}, []
    begin = state.pos
    if begin in places:
        text = state.env[NUMBERS][places[begin]].text
        state.pos += len(text)
        if not silent:
            state.push("number_open", "data", 1).attrs = {"value": str(places[begin])}
            state.push("text", "", 0).content = text
            state.push("number_close", "data", -1)
        return True
    found = _TERMINATOR.search(state.src, begin, state.posMax)
    next_one = bisect_right(starts, begin)
    following = starts[next_one : next_one + 1]
    end = min([state.posMax, *following, *([found.start()] if found else [])])
    if not silent:
        state.pending += state.src[begin:end]
    state.pos = end
    return bool(end > begin)


def name_numbers(safe: str, numbers: Sequence[AnswerNumber]) -> str:
    """Return HTML from behind the gate with each number named after where it comes from."""

    def name(found: re.Match[str]) -> str:
        number = numbers[int(found[1])]
        tag = "u" if number.trace == "not found" else "span"
        kind = f"ia-traced ia-{number.trace.replace(' ', '-')}"
        title = html.escape(reveal_prose(number.title))
        return f'<{tag} class="{kind}" title="{title}" tabindex="0">{found[2]}</{tag}>'

    return _ELEMENT.sub(name, safe)
