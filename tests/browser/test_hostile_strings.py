"""Hostile strings in every drawn field, in JupyterLab and in the widget: they are only text."""

from __future__ import annotations

import itertools
import re

import pytest
from hostile_strings import ATOMS, FOUND, NOTHING, Watch, hostile, open_all, replace, strings
from playwright.sync_api import Page
from rich_run import live_run, saved_run, snapshot
from test_hostile_browser import Site, page, settle, site

from ipyagent.schema import Run
from ipyagent.ui.static_html import saved_bundle

__all__ = ["page", "site"]

pytestmark = [pytest.mark.browser, pytest.mark.slow]


@pytest.mark.spec("H17")
def test_the_widget_draws_hundreds_of_hostile_strings_as_text(site: Site, page: Page) -> None:
    texts = itertools.cycle(strings(400))
    watch = Watch(page, site.url)
    for seq in range(4):
        page.evaluate("m => receive(m)", {**hostile(texts), "seq": seq})
        open_all(page)
        settle(page)
        assert page.evaluate(FOUND, "#place") == NOTHING
    assert watch.seen == []
    assert site.leaks == []


def test_python_alone_draws_hostile_strings_as_text(site: Site, page: Page) -> None:
    """Without the gate of the page: what is sent to it is harmless as it is."""
    watch = Watch(page, site.url)
    texts = itertools.cycle(filter(None, strings(400)))
    runs = [Run.from_dict(replace(saved_run(), texts)) for _ in range(8)]
    html = "".join(str(saved_bundle(run)["text/html"]) for run in runs)
    html = re.sub("<style>.*?</style>", "", html)
    page.evaluate("html => (document.getElementById('place').innerHTML = html)", html)
    open_all(page)
    settle(page)
    found = page.evaluate(FOUND, "#place")
    others = [name for name in found["foreign"] if not OURS.fullmatch(name)]
    links = [protocol for protocol in found["links"] if protocol != ":"]  # one that leads nowhere
    assert found | {"foreign": others, "links": links} == NOTHING
    assert watch.seen == []
    assert site.leaks == []


@pytest.mark.spec("H17")
def test_the_gate_alone_lets_no_hostile_html_through(site: Site, page: Page) -> None:
    """As if nothing had been escaped: parts of a card, and blocks of a text."""
    watch = Watch(page, site.url)
    texts = [*ATOMS, *strings(1_000), *(SHADOW.format(each) for each in ATOMS), NAMED]
    blocks = {"r": '<div class="ipyagent-card"></div>', "r/x": '<div class="ia-markdown"></div>'}
    for number, text in enumerate(texts):
        blocks |= {f"r/x/{number}": text, f"r/n{number}": text}
    order = {"": ["r"], "r": [key for key in blocks if key.count("/") == 1]}
    order["r/x"] = [key for key in blocks if key.count("/") == 2]
    drawn = [{"key": key, "html": html, "more": "", "own": None} for key, html in blocks.items()]
    whole = {"type": "snapshot", "seq": 0, "set": drawn, "order": order, "gone": {}}
    page.evaluate("m => receive(m)", whole)
    open_all(page)
    settle(page)
    assert page.evaluate("document.querySelectorAll('#place *').length") > len(texts)
    assert page.evaluate(FOUND, "#place") == NOTHING
    assert page.evaluate(JUDGED) is True
    assert watch.seen == []
    assert site.leaks == []


SHADOW = "<div><template shadowrootmode=closed shadowrootclonable>{}</template></div>"

# Names that take properties of the document in which they are parsed.
NAMED = "<img name=createElement><img name=createDocumentFragment><img name=body>"

OURS = re.compile(r"(tex2jax|mathjax)_ignore|language-[\w+#-]+")

# Whether the browser's own sanitizer finds nothing to remove.
JUDGED = """() => {
    const [once, twice] = [0, 1].map(() => document.implementation.createHTMLDocument().body);
    once.innerHTML = document.getElementById('place').innerHTML;
    twice.setHTML(once.innerHTML, { sanitizer: { removeElements: [], removeAttributes: [] } });
    return twice.innerHTML === once.innerHTML;
}"""

LONG = {
    "a word": "x" * 1_000_000,
    "hidden characters": "a\u202e" * 100_000,
    "quotes": ">" * 10_000 + "x",
    "lists": "".join(f"{'  ' * n}- x\n" for n in range(1_000)),
    "links": "[a](" * 100_000,
    "stars": "*a **b " * 60_000,
    "backticks": "`a``" * 100_000,
    "dollars": "$a$b" * 100_000,
    "formulas": "$x$ " * 20_000,
    "braces": "$" + "{" * 10_000 + "}" * 10_000 + "$",
    "roots": "$" + r"\sqrt{" * 700 + "}" * 700 + "$",
    "fractions": "$" + r"\frac{1}{x} " * 400 + "$\n\n" * 20,
    "elements": "<b>" * 10_000 + "x" + "</b>" * 10_000,
    "cells": "|a" * 2_000 + "|\n" + "|-" * 2_000 + "|\n" + ("|b" * 2_000 + "|\n") * 40,
    "added and removed": "@@ -1 +1 @@\n" + "-a\n+b\n" * 50_000,
}


@pytest.mark.parametrize("name", LONG)
def test_no_string_holds_up_the_page(page: Page, name: str) -> None:
    """Each comes to so many elements at most, and the page answers."""
    text = LONG[name]
    run = saved_run()
    step = run["steps"][1]
    step["message"]["content"] = [
        {"type": "thinking", "thinking": text},
        {"type": "text", "text": text},
    ]
    execution = step["executions"][0]
    execution["preview"] = {"kind": "diff", "text": text, "language": "diff"}
    execution["result"]["output"] = text
    kinds = ("text/html", "text/markdown", "text/latex")
    execution["result"]["displays"] = [{"data": {kind: text}} for kind in kinds]
    execution["concern"] = execution["reason"] = text[:5_000]
    run["steps"] = [step]
    page.evaluate("m => receive(m)", snapshot(live_run(run)))
    assert page.evaluate("document.querySelectorAll('#place *').length") < 400_000
    page.evaluate("new Promise(requestAnimationFrame)")
