"""Rules that our Markdown has beside CommonMark: formulas, and marked numbers of an answer.

A formula, `$…$`, `$$…$$`, `\\(…\\)` or `\\[…\\]`, becomes code in the language `math`, with its
delimiters; behind the gate it is marked for pages that set formulas, or shown as it was written.
A page's typesetter, MathJax, obeys TeX: a formula could link, cover the page or change commands for
all that follow. So only those are marked whose commands are known here, each as an element of its
own, with its source as the text: it is read where nothing sets it.

Numbers are marked by their places in the Markdown. Code, addresses and formulas have none: only
text is marked that is drawn as it was written. The parser makes `<data value="0">5,076</data>` of a
number, which passes the gate, and no other text can become that; behind the gate it is named after
where it comes from.
"""

from __future__ import annotations

import html
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, MutableMapping, Sequence
from itertools import accumulate, count
from typing import Final

from markdown_it import MarkdownIt
from markdown_it.common.utils import escapeHtml
from markdown_it.renderer import RendererProtocol
from markdown_it.rules_block import StateBlock
from markdown_it.rules_core import StateCore
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token
from markdown_it.utils import OptionsDict

from ipyagent.plaintext import reveal_prose
from ipyagent.ui.transcript import AnswerNumber

_REACH = 5_000
"""The longest formula, so that an unclosed delimiter is not searched for repeatedly."""

_CLOSING = {"$$": "$$", "\\[": "\\]", "\\(": "\\)"}

_COMMAND = r"\$\\[a-zA-Z]"
_DOLLARS = re.compile(
    rf"(?P<command>(?={_COMMAND}))?\$(?![\s$])(?:[^$\\`]|\\.)*?(?<!\s)\$(?(command)(?!\$)|(?![\w$]))",
    re.DOTALL,
)
"""The next dollar closes it or there is none: no space inside beside a dollar, no digit or letter
after the last, so that "$5 and $10" are prices. No price begins with a command, as "5 $\\mu$m"."""


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
    is_word = re.match(r"\w", before) and not (before.isdigit() and re.match(_COMMAND, text))
    if not text.startswith("$") or is_word:
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


FORMULA: Final = "ia-formula tex2jax_process mathjax_process"
"""The classes of a formula: MathJax finds it by them, in code and where all else is ignored."""

_LONGEST, _DEEPEST, _MOST = 2_000, 50, 500

_DRAWING = r"""
! # $ % & , : ; > \ _ { | }
acute aleph alpha amalg angle approx approxeq arccos arcsin arctan arg ast asymp atop backslash
bar bcancel because beta bf Big big bigcap bigcirc bigcup Bigg bigg Biggl biggl Biggm biggm Biggr
biggr Bigl bigl Bigm bigm bigodot bigoplus bigotimes Bigr bigr bigsqcup bigtriangledown
bigtriangleup biguplus bigvee bigwedge binom bm bmod boldsymbol bot bowtie Box boxdot boxed
boxminus boxplus boxtimes breve bullet cal cancel cap cdot cdots cfrac check checkmark chi choose
circ circlearrowleft circlearrowright clubsuit coloneqq complement cong coprod cos cosh cot coth
csc cup curlyvee curlywedge curvearrowright dagger dashv dbinom ddagger dddot ddot ddots deg
degree Delta delta det dfrac Diamond diamond diamondsuit digamma dim displaylimits displaystyle
div dot doteq dots dotsb dotsc dotsi dotsm dotso Downarrow downarrow ell emptyset epsilon
eqqcolon equiv eta eth exists exp forall frac frown Gamma gamma gcd ge geq geqq geqslant gets gg
ggg grave gtrsim hat hbar hdashline heartsuit hline hom hookleftarrow hookrightarrow hslash iff
iiint iint Im imath impliedby implies in inf infty injlim int intop iota jmath kappa ker Lambda
lambda land langle lbrace lbrack lceil ldots le leadsto left Leftarrow leftarrow leftharpoonup
Leftrightarrow leftrightarrow leftrightarrows leq leqq leqslant lesssim lfloor lg lgroup lim
liminf limits limsup ll llcorner lll lmoustache ln lnot log Longleftarrow longleftarrow
Longleftrightarrow longleftrightarrow longmapsto Longrightarrow longrightarrow lor lrcorner
ltimes lVert lvert mapsto mathbb mathbf mathbin mathcal mathclose mathfrak mathit mathop mathopen
mathord mathpunct mathrel mathring mathrm mathscr mathsf mathtt max mbox mho mid middle min mod
models mp mu nabla ncong ne nearrow neg neq nexists ngeq ngtr ni nleq nless nmid nolimits
nonumber not notag notin nparallel nrightarrow nsubseteq nu nwarrow odot oint Omega omega omicron
ominus operatorname oplus oslash otimes overbrace overleftarrow overleftrightarrow overline
overrightarrow overset owns parallel partial perp Phi phi Pi pi pm pmb pmod Pr prec preceq prime
prod projlim propto Psi psi qquad quad rangle rbrace rbrack rceil Re rfloor rgroup rho right
Rightarrow rightarrow rightharpoonup rightleftharpoons rightrightarrows rightsquigarrow rm
rmoustache rtimes rVert rvert scriptscriptstyle scriptstyle searrow sec setminus sideset Sigma
sigma sim simeq sin sinh smallsetminus smile spadesuit sqcap sqcup sqrt sqsubset sqsubseteq
sqsupset sqsupseteq square stackrel star subset subseteq subsetneq substack succ succeq sum sup
supset supseteq supsetneq surd swarrow tag tan tanh tau tbinom text textbf textit textnormal
textrm textsf textstyle texttt tfrac therefore Theta theta tilde times to top triangle
triangleleft trianglelefteq triangleq triangleright trianglerighteq twoheadrightarrow ulcorner
underbrace underleftarrow underline underrightarrow underset Uparrow uparrow Updownarrow
updownarrow uplus Upsilon upsilon urcorner varepsilon varkappa varnothing varphi varpi varrho
varsigma vartheta Vdash vDash vdash vdots vec vee Vert vert wedge widehat widetilde wp wr xcancel
Xi xi xleftarrow xleftrightarrow xmapsto xrightarrow zeta
"""
"""Commands; those with a size, a color or an address of their own are not among them."""

_COMMANDS: Final = {*_DRAWING.split(), " ", "\n"}

_GRIDS = """
Bmatrix Vmatrix align align* aligned array bmatrix cases dcases equation equation* gather gather*
gathered matrix multline multline* pmatrix rcases smallmatrix split vmatrix
"""

_ENVIRONMENTS: Final = {*_GRIDS.split()}

_PART = re.compile(
    r"""
    (?P<other> \\\\\s*\*?\s*\[              # a row as far from the next as it says
        | \\begin\s*\{array\}(?!\s*\{[lcr|\s]*\})
        | [%$] | \\$ )                      # what hides the rest, or ends the formula
    | \\(?P<edge>begin|end)\s*\{(?P<name>[a-zA-Z]+\*?)\}
    | \\(?P<command>[a-zA-Z]+|.)
    | [{}]
    """,
    re.VERBOSE | re.DOTALL,
)

_DELIMITED = re.compile(r"\$\$(.+)\$\$|\\\[(.+)\\\]|\\\((.+)\\\)|\$(.+)\$", re.DOTALL)


def may_set(tex: str) -> bool:
    """Return whether TeX without delimiters only draws, is complete, and is not too large."""
    depth = 0
    for part in _PART.finditer(tex):
        name, command = part["name"], part["command"]
        if part["other"] or (name and name not in _ENVIRONMENTS):
            return False
        if command and command not in _COMMANDS:
            return False
        if part[0] == "{" or part["edge"] == "begin" or command == "left":
            depth += 1
        elif part[0] == "}" or part["edge"] == "end" or command == "right":
            depth -= 1
        if not 0 <= depth <= _DEEPEST:
            return False
    return depth == 0 and 0 < len(tex.strip()) <= len(tex) <= _LONGEST


def formula_html(source: str, *, is_block: bool = False) -> str:
    """Return a formula as an element that a page may set, with its delimiters; "" if it may not."""
    found = _DELIMITED.fullmatch(source.strip())
    if not may_set(found[found.lastindex or 0] if found else source):
        return ""
    text = html.escape(source.strip() if found else f"$${source}$$", quote=False)
    code = f'<code class="{FORMULA}">{text}</code>'
    return f"<div>{code}</div>\n" if is_block else code


_CODE = re.compile(r'(<pre>)?<code class="language-math">([^<]*)</code>(?:</pre>\n?)?')


def mark_formulas(blocks: Iterable[str]) -> list[str]:
    """Return blocks of HTML from behind the gate with formulas marked; very many stay code."""
    left = count(_MOST, -1)

    def mark(found: re.Match[str]) -> str:
        may_mark = next(left) > 0
        formula = may_mark and formula_html(html.unescape(found[2]), is_block=bool(found[1]))
        return formula or found[0].replace(' class="language-math"', "")

    return [_CODE.sub(mark, block) for block in blocks]


_TERMINATOR = re.compile(r"[\n!#$%&*+\-:<=>@\[\\\]^_`{}~]")
"""The characters at which other rules of the parser may begin."""
_UNNAMED = re.compile(r"</?data[^>]*>")
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

    return _UNNAMED.sub("", _ELEMENT.sub(name, safe))
