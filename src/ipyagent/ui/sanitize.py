"""The gate between untrusted text and a page: nothing gets through that runs or loads.

A model, a file, a column name or a service may have written what is shown. In a page of Jupyter a
script has the user's power: it could press Approve. So all text reaches a page through here.

Our Markdown has rules beside CommonMark: formulas, and marked numbers of an answer.

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
import itertools
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, MutableMapping, Sequence
from functools import lru_cache
from html.parser import HTMLParser
from itertools import accumulate, count
from typing import Final
from urllib.parse import urlsplit

import nh3
from linkify_it import LinkifyIt
from markdown_it import MarkdownIt
from markdown_it.common.utils import escapeHtml
from markdown_it.renderer import RendererProtocol
from markdown_it.rules_block import StateBlock
from markdown_it.rules_core import StateCore
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token
from markdown_it.utils import OptionsDict

from ipyagent.kernel.threads import own_context
from ipyagent.plaintext import reveal_prose, strip_escapes
from ipyagent.ui.reveal import color_fences
from ipyagent.ui.transcript import AnswerNumber, Image

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
        if number.call:  # a class, which all sanitizers leave
            kind += f" ia-at-{number.step}-{number.call}"
        title = html.escape(reveal_prose(number.title))
        return f'<{tag} class="{kind}" title="{title}" tabindex="0">{found[2]}</{tag}>'

    return _UNNAMED.sub("", _ELEMENT.sub(name, safe))


# The gate -----------------------------------------------------------------------------------------

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
