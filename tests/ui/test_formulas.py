"""Formulas in Markdown and in outputs: what a page may set, and what stays code."""

from __future__ import annotations

import pytest
from bs4 import BeautifulSoup, Tag
from inspection import dangers

from growth import LINEAR, growth
from ipyagent.ui.parts import media_html
from ipyagent.ui.sanitize import formula_html, markdown_to_html, may_set
from ipyagent.ui.transcript import Display

BLOCKS = {"$$", "\\[", "``"}

FORMULAS = [
    "$x^2$",
    "\\(x^2\\)",
    "a $$x^2$$ b",
    "$$x^2$$",
    "$$\nx^2\n$$",
    "\\[\n\\begin{aligned}a &= b \\\\\nc &= d\\end{aligned}\n\\]",
    "\\[x^2\\]",
    "```math\nx^2\n```",
    "- one: $x$\n- two",
    "| a |\n|---|\n| $x$ |",
    "text\n$$\nx\n$$\nmore",
    "(about $x$).",
    "**$x$**",
    "$\\text{a \\$ sign}$",
    "5 $\\mu$m",
    "5$\\mu$m",
    "$\\approx$5",
]

PRICES_AND_OTHERS = [
    "It costs $5 and $10.",
    "From $5-$10 a month, or $20/month for two ($40/year).",
    "US$5/US$6, 5$ or 6$",
    "$HOME and $PATH",
    "\\$x\\$",
    "`$x$` and `\\(x\\)`",
    "```\n$x$\n$$y$$\n```",
    "    $x$",
    "Between $ 5 and 6 $",
    "$$",
    "$$$$",
    "$x\n\ny$",
    "$$\nx\n\ny\n$$",
    "a \\( b",
    "$a `b$ c`",
    "\\\\host\\C$\\users and D$\\data",
]


def marked(markdown: str) -> list[Tag]:
    """The formulas in Markdown that a page may set."""
    return BeautifulSoup(markdown_to_html(markdown), "html.parser").select("code.ia-formula")


@pytest.mark.parametrize("text", FORMULAS)
def test_a_formula_is_code_that_a_page_sets(text: str) -> None:
    (formula,) = marked(text)
    assert {"tex2jax_process", "mathjax_process"} <= {*formula["class"]}
    assert formula.text.strip("$\n") in text
    assert formula.text[0] in "$\\"
    assert formula.parent is not None
    assert (formula.parent.name == "div") == (len(text.split("\n$$\n")) > 1 or text[:2] in BLOCKS)


@pytest.mark.parametrize("text", PRICES_AND_OTHERS)
def test_a_price_is_no_formula(text: str) -> None:
    assert marked(text) == []
    assert "math" not in markdown_to_html(text)


@pytest.mark.parametrize("piece", ["$$\nx\n", "$x ", "\\(x ", "$"])
def test_formulas_that_never_end_take_linear_time(piece: str) -> None:
    assert growth(lambda count: markdown_to_html(piece * count), 300) < LINEAR


SET = [
    r"\hat\beta = (X^\top X)^{-1}X^\top y",
    r"\operatorname{Var}(b) = \sigma^2 \begin{pmatrix} \sum x_i & 1 \\ 0 & n \end{pmatrix}^{-1}",
    r"\hat\rho_{xy}=\frac{\sum_{i=1}^n (x_i-\bar x)(y_i-\bar y)}{\sqrt{\sum (x_i-\bar x)^2}}",
    r"\mathcal{N}(\mu,\,\sigma^2), \quad \mathbb{E}[X] = \int_{-\infty}^{\infty} x\,\mathrm{d}x",
    r"f(x) = \begin{cases} 1 & x > 0 \\ 0 & \text{otherwise, 5\%} \end{cases}",
    r"\lim_{n \to \infty} \left(1 + \tfrac{1}{n}\right)^n = e \approx 2.718",
    r"\begin{array}{c|cc} a & b & c \\ \hline 1 & 2 & 3 \end{array}",
    r"\underbrace{a}_{\text{both}} \stackrel{\text{iid}}{\sim} \chi^2_k \implies \lVert x \rVert",
    r"\operatorname*{argmax}_\theta \prod_{i} p(y_i \mid x_i; \boldsymbol{\theta})",
    r"\displaystyle \left[\begin{matrix}\frac{x}{2} & \sin{\left(x \right)}\end{matrix}\right]",
    r"P(A \cap B) = P(A)\,P(B) \iff A \perp B, \ \forall A \in \Omega \setminus \{\emptyset\}",
    r"\boxed{\binom{n}{k} = \dfrac{n!}{k!\,(n-k)!}} \xrightarrow{d} \widehat{\theta} \tag{1}",
    "\n\\begin{aligned}\na &= b \\\\\n&\\quad + c\n\\end{aligned}\n",
]

NOT_SET = {
    "links": r"\href{https://e.example}{x} | \url{https://e.example} | \ref{a}\label{a}",
    "loads": r"\includegraphics{https://e.example/x.png} | \require{html} | \input{a}",
    "styles": r"\class{ia-note}{x} | \cssId{kernel}{x} | \style{position:fixed}{x}",
    "names": r"\data{ipyagent=approve}{x} | \htmlData{a=b}{x} | \id{kernel}{x}",
    "covers": r"""\rule{9999em}{9999em} | \raise 50em {x} | \lower5em{x} | \rlap{x} | \llap{x}
        | \kern-50em x | \mkern-999mu x | \hskip-9em x | \hspace{-9em}x | \mspace{-9mu}x
        | \mathllap{x} | \smash{x} | \moveleft 9em {x} | \bbox[border:9em solid]{x}
        | a \\[9999em] b | a \\ [9em] b | a \\*[9em] b | \above9em | \genfrac{}{}{9em}{}{a}{b}
        | \begin{array}{p{9999em}}a\end{array} | \begin{array}{@{\hskip9em}l}a\end{array}
        | \Huge x | \tiny x | \bigskip""",
    "hides": r"\color{white}x | \textcolor{white}{x} | \phantom{x} | x % y | \colorbox{red}{x}",
    "defines": r"""\def\x{\x\x}\x | \newcommand{\x}{y}\x | \gdef\x{y} | \let\x=y | \global\let\a\b
        | \renewcommand\a{} | \DeclareMathOperator{\x}{y} | \csname def\endcsname | \unicode{65}
        | \begin{x}\end{x} | \newenvironment{a}{}{} | \verb.a. | \mathchoice{a}{b}{c}{d}""",
    "is incomplete": r"\frac{1 | 1} | }{ | \left( x | x \right) | \begin{cases}",
    "ends early": r"a$b | \text{$x$} | a \) b | a \] b | \(a",
    "is unknown": r"\nosuchthing{x} | \BEGIN{cases} | \alphaa | \Alpha | \é",
    "repeats": r"\begin{array}{*{99999}{c}}a\end{array} | \begin{array}a\end{array}",
}


@pytest.mark.parametrize("tex", SET)
def test_what_formulas_are_made_of_is_set(tex: str) -> None:
    assert may_set(tex)
    assert [each.text for each in marked(f"So ${tex.strip()}$.")] == [f"${tex.strip()}$"]


@pytest.mark.spec("A27")
@pytest.mark.parametrize("why", NOT_SET)
def test_a_formula_is_not_set_that_does_more_than_draw(why: str) -> None:
    refused = [tex.strip() for tex in NOT_SET[why].split(" | ")]
    assert [tex for tex in refused if may_set(tex) or may_set(f"{SET[0]} {tex} {SET[1]}")] == []
    shown = {tex: markdown_to_html(f"```math\n{tex}\n```") for tex in refused}
    assert [tex for tex, html in shown.items() if "ia-formula" in html or dangers(html)] == []
    assert [tex for tex, html in shown.items() if "language-math" in html] == []
    texts = {tex: BeautifulSoup(html, "html.parser").text for tex, html in shown.items()}
    assert [tex for tex, text in texts.items() if tex not in text] == []


@pytest.mark.parametrize(
    "tex",
    ["x" * 2_001, "{" * 51 + "x" + "}" * 51, r"\left(" * 51 + r"\right)" * 51, "x\\", " ", ""],
)
def test_a_formula_is_not_set_that_is_too_much_or_nothing(tex: str) -> None:
    assert not may_set(tex)


def test_in_html_that_tools_show_nothing_is_a_formula() -> None:
    html = (
        "<code class='language-math'>$x$</code><code class='ia-formula mathjax_process'>$x$</code>"
    )
    shown = media_html(Display(data={"text/html": f"<p>{html}</p>$x$"}, label=""))
    assert "ia-formula" not in shown
    assert "mathjax" not in shown


def test_latex_of_an_output_is_a_formula_beside_its_text() -> None:
    latex, plain = r"$\displaystyle x^{2}$", "x**2"
    shown = media_html(Display(data={"text/latex": latex, "text/plain": plain}, label=""))
    soup = BeautifulSoup(shown, "html.parser")
    assert [each.text for each in soup.select(".ia-latex > .ia-formula + pre")] == [plain]
    assert [each.text for each in soup.select(".ia-formula")] == [latex]
    refused = media_html(
        Display(data={"text/latex": r"$\href{a}{b}$", "text/plain": "x"}, label="")
    )
    assert refused == "<pre><code>x</code></pre>"
    bare = formula_html(r"\begin{aligned}x &= y\end{aligned}")
    assert BeautifulSoup(bare, "html.parser").text == r"$$\begin{aligned}x &= y\end{aligned}$$"


def test_of_very_many_formulas_the_first_are_set() -> None:
    assert len(marked("$x$ " * 600 + "\n\n" + "$y$ " * 600)) == 500
