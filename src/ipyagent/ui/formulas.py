r"""Formulas that a page may set: their commands only draw, and only where they stand.

A page's typesetter, MathJax, obeys TeX: a formula could link, cover the page or change commands for
all that follow. So it gets those formulas alone whose commands are known here, each in an element
of its own, with its source as the text: it is read where nothing sets it.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable
from itertools import count
from typing import Final

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
