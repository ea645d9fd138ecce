"""Formulas in Markdown: `$…$`, `$$…$$`, `\\(…\\)` and `\\[…\\]`.

They become code in the language `math`, with their delimiters: a page draws them, and everywhere
else, as with an invalid formula, they are shown as they were written.
"""

from __future__ import annotations

import re
from collections.abc import MutableMapping, Sequence

from markdown_it import MarkdownIt
from markdown_it.common.utils import escapeHtml
from markdown_it.renderer import RendererProtocol
from markdown_it.rules_block import StateBlock
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token
from markdown_it.utils import OptionsDict

_REACH = 5_000
"""The longest formula, so that an unclosed delimiter is not searched for repeatedly."""

_CLOSING = {"$$": "$$", "\\[": "\\]", "\\(": "\\)"}

_DOLLARS = re.compile(r"\$(?![\s$])(?:[^$\\`]|\\.)*?(?<!\s)\$(?![\w$])", re.DOTALL)
"""The next dollar closes it or there is none: no space inside beside a dollar, no digit or letter
after the last, so that "$5 and $10" are prices."""


def with_formulas(parser: MarkdownIt) -> MarkdownIt:
    """Return a parser that knows formulas."""
    # Before escapes, which would turn `\(` into a bracket.
    parser.inline.ruler.before("escape", "formula", _parse_inline)
    alt = ["paragraph", "reference", "blockquote", "list"]
    parser.block.ruler.before("fence", "formula_block", _parse_block, {"alt": alt})
    parser.add_render_rule("formula", _render)
    parser.add_render_rule("formula_block", _render)
    return parser


def _render(
    renderer: RendererProtocol,
    tokens: Sequence[Token],
    index: int,
    options: OptionsDict,
    env: MutableMapping[str, object],
) -> str:
    code = f'<code class="language-math">{escapeHtml(tokens[index].content)}</code>'
    return f"<pre>{code}</pre>\n" if tokens[index].block else code


def _parse_inline(state: StateInline, silent: bool) -> bool:
    rest = state.src[state.pos : min(state.posMax, state.pos + _REACH)]
    length = _length(rest, state.src[state.pos - 1 : state.pos])
    if length and not silent:
        state.push("formula", "code", 0).content = rest[:length]
    state.pos += length
    return length > 0


def _length(text: str, before: str) -> int:
    """Return the length of the formula at the start of `text`, or 0."""
    if closing := _CLOSING.get(text[:2]):
        end = text.find(closing, 2)
        return end + 2 if end > 2 else 0
    if not text.startswith("$") or re.match(r"\w", before):
        return 0
    found = _DOLLARS.match(text)
    return found.end() if found else 0


def _parse_block(state: StateBlock, first: int, last: int, silent: bool) -> bool:
    """Parse a formula on lines of its own; a blank line ends a paragraph before it ends one."""
    begin = state.bMarks[first] + state.tShift[first]
    closing = _CLOSING.get(state.src[begin : begin + 2])
    if closing is None or closing == "\\)" or state.is_code_block(first):
        return False
    end = _last_line(state, first, last, closing)
    if end is None:
        return False
    if not silent:
        token = state.push("formula_block", "code", 0)
        token.block = True
        token.content = state.getLines(first, end + 1, state.blkIndent, False)
        token.map = [first, end + 1]
        state.line = end + 1
    return True


def _last_line(state: StateBlock, first: int, last: int, closing: str) -> int | None:
    """Return the line on which the formula ends."""
    for line in range(first, last):
        if state.isEmpty(line) or (line > first and state.sCount[line] < state.blkIndent):
            return None
        begin = state.bMarks[line] + state.tShift[line] + (2 if line == first else 0)
        before, found, after = state.src[begin : state.eMarks[line]].partition(closing)
        if found:
            is_whole = bool(before or line > first) and not after.strip()
            return line if is_whole else None
    return None
