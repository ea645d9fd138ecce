"""Hostile strings in every drawn field, in JupyterLab and in the widget: they are only text."""

from __future__ import annotations

import itertools
import json
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from playwright.sync_api import Dialog, Page

sys.path.insert(0, str(Path(__file__).parents[1] / "labextension"))
from rich_run import FIXTURES, STORIES, saved_run, snapshot
from test_hostile_browser import SVG, VECTORS, Site, page, settle, site

from ipyagent.ui.saved import TRANSCRIPT_MIME
from ipyagent.ui.static_html import RUN_MIME
from ipyagent.ui.transcribe.cut_off import CUT_OFF

__all__ = ["page", "site"]

pytestmark = [pytest.mark.browser, pytest.mark.slow]

ATOMS = [
    *VECTORS,
    "<script>window.pwned = 1</script>",
    "<math><mtext><table><mglyph><style><!--</style><img title='--><img src=1 onerror=pwned=1>'>",
    "<form><input name=attributes><input name=parentNode></form><img name=body>",
    "<p id=main style='position:fixed;inset:0;background:url(/leak/p.png)' class=jp-Dialog>x</p>",
    "<meta http-equiv=refresh content='0;url=/leak/meta'><base href='/leak/base/'>",
    "<a href='javascript:window.pwned=1' autofocus accesskey=a>x</a>",
    "<details open><summary>x</summary><iframe src='/leak/frame'></iframe></details>",
    r"$\href{javascript:window.pwned=1}{x}$ $$\includegraphics{/leak/tex.png}$$",
    r"\(\style{position:fixed;background:url(/leak/tex.css)}{x}\)",
    r"\[\class{jp-Dialog}{\id{main}{x}}\]",
    "```math\n\\url{/leak/math}\n```",
    "{{constructor.constructor('window.pwned=1')()}}${window.pwned=1}",
    "\u202e\u2066gpj.exe\u2069 a\u200b\u00adb \u0000\u001b[31m",
    "]]>--></title></style></textarea></script><svg/onload=window.pwned=1>",
    "__proto__",
]

WRAPS = [
    "{}",
    "<div title='{}'>{}</div>",
    "<svg><foreignObject>{}</foreignObject></svg>",
    "<noscript><p title='</noscript>{}'>",
    "<!--{}-->",
    "[{}]({})",
    "![{}]({} '{}')",
    "> {}",
    "| a |\n|---|\n| {} |",
    "```html\n{}\n```",
    "$\\text{{{}}}$",
    "**{}**",
]


def strings(count: int) -> list[str]:
    """Known ones put into each other, the same every time."""
    chance = random.Random(5)

    def one() -> str:
        wrap = chance.choice(WRAPS)
        inner = chance.choice(WRAPS).format(*[chance.choice(ATOMS)] * 3)
        text = wrap.format(*[inner] * 3)
        at = chance.randrange(len(text))
        return chance.choice([text, text, text.upper(), text[:at], f"{text[:at]}\0{text[at:]}"])

    return [one() for _ in range(count)]


def hostile(texts: Iterator[str]) -> dict[str, Any]:
    """The rich transcript with the next of `texts` in every text that is drawn, at any depth."""
    drawn, planned = (json.loads((FIXTURES / name).read_text())["transcript"] for name in STORIES)
    drawn |= {"plan": planned["plan"]}
    replaced: dict[str, Any] = replace(drawn, texts)
    for step in replaced["steps"]:
        for call in step["calls"]:
            call["request"]["arguments"] |= {next(texts): [next(texts)]}
            kinds = ("text/html", "text/markdown", "text/latex", "image/svg+xml", next(texts))
            media = [{"type": "display", "data": {kind: next(texts)}} for kind in kinds]
            media.append({"type": "display", "data": {"image/svg+xml": SVG}})
            call["result"] = {"output": next(texts), "error": next(texts), "tone": "error"}
            call["result"]["media"] = [{**each, "label": next(texts)} for each in media]
    return replaced


def kept(transcript: dict[str, Any]) -> dict[str, Any]:
    """The transcript as a notebook keeps it: the arguments of calls are in the run."""
    given: list[Any] = []
    calls = [call for step in transcript["steps"] for call in step["calls"]]
    for each in (*calls, *transcript["plan"]["steps"]):
        given.append(each["request"]["arguments"])
        each["request"]["arguments"] = {"at": ["given", len(given) - 1]}
    return {TRANSCRIPT_MIME: transcript, RUN_MIME: {"given": given}}


# What is not text: words that choose how something is drawn, and times.
KEPT = {"type", "state", "status", "tone", "kind", "decision", "answer", "media_type", "language"}
KEPT |= {"started_at", "at"}


def replace(value: Any, texts: Iterator[str], key: str = "") -> Any:
    if isinstance(value, dict):
        return {name: replace(item, texts, name) for name, item in value.items()}
    if isinstance(value, list):
        return [replace(item, texts, key) for item in value]
    return next(texts) if isinstance(value, str) and key not in KEPT else value


# What hostile text may have made inside `root`, and whether it reached out of it.
FOUND = """(selector) => [(inside) => [...document.querySelectorAll(selector)]
    .flatMap((root) => [...root.querySelectorAll(inside)])].map((all) => ({
    ran: window.pwned ?? null,
    named: all('[id], [name], [style]:not(math *)').map((e) => e.outerHTML),
    elements: all(
        'script, style, link, meta, base, iframe, object, embed, form, video, audio, svg, template'
    ).map((e) => e.outerHTML),
    foreign: all('[class]').flatMap((e) => [...e.classList])
        .filter((name) => !name.startsWith('ipyagent-')),
    sources: all('img').map((e) => e.src).filter((s) => !s.startsWith('data:')),
    links: all('a').map((e) => e.protocol)
        .filter((p) => !['http:', 'https:', 'mailto:'].includes(p)),
    buttons: all('button, input, textarea, select')
        .map((e) => e.dataset.ipyagent).filter((name) => !['copy', 'stop'].includes(name)),
}))[0]"""
NOTHING = {"ran": None, "named": [], "elements": [], "foreign": []}
NOTHING |= {"sources": [], "links": [], "buttons": []}

# How the page around the card looks.
AROUND = """() => ['body', '.jp-Toolbar', '.jp-InputArea'].map((selector) => {
    const element = document.querySelector(selector);
    const {backgroundColor, display, color, position} = getComputedStyle(element ?? document.body);
    return [backgroundColor, display, color, position];
})"""


class Watch:
    """What a page does that it should not."""

    def __init__(self, page: Page, address: str) -> None:
        self.address = address
        self.seen: list[str] = []
        page.on("request", lambda request: self.asked(request.url))
        page.on("dialog", self.told)
        page.on("popup", lambda popup: self.seen.append(popup.url))

    def told(self, dialog: Dialog) -> None:
        # JupyterLab's own question about a notebook that is left.
        if dialog.type != "beforeunload":
            self.seen.append(dialog.message)
        dialog.accept()

    def asked(self, url: str) -> None:
        inside = url.startswith((self.address, "data:", "blob:"))
        if not inside or "/leak" in url:
            self.seen.append(url)


def open_all(page: Page) -> None:
    page.evaluate("document.querySelectorAll('details').forEach((each) => (each.open = true))")
    page.evaluate("document.querySelectorAll('.ipyagent-step').forEach((e) => e.scrollIntoView())")


@pytest.mark.spec("H17")
def test_a_saved_notebook_draws_hundreds_of_hostile_strings_as_text(
    jupyterlab: Any, notebook: Any
) -> None:
    texts = itertools.cycle(strings(400))
    book = notebook("1", ready=False)
    watch = Watch(book.page, jupyterlab.url)
    path = jupyterlab.folder / book.name
    saved = nbformat.read(path, as_version=4)
    before = book.page.evaluate(AROUND)
    drawn = [kept(hostile(texts)) for _ in range(4)]
    outputs = [nbformat.v4.new_output("display_data", each) for each in drawn]
    saved.cells[0].outputs = outputs
    nbformat.write(saved, path)
    book.open()
    book.page.wait_for_selector("[data-ipyagent=run] >> nth=3", state="attached")
    address = book.page.url
    open_all(book.page)
    settle(book.page)
    assert book.page.evaluate(FOUND, "[data-ipyagent=run]") == NOTHING
    assert book.page.evaluate(AROUND) == before
    assert watch.seen == []
    assert book.page.url == address


@pytest.mark.spec("H17")
def test_the_widget_draws_hundreds_of_hostile_strings_as_text(site: Site, page: Page) -> None:
    texts = itertools.cycle(strings(400))
    watch = Watch(page, site.url)
    for seq in range(4):
        told = {"type": "snapshot", "seq": seq, "cut_off": CUT_OFF.to_dict()}
        page.evaluate("m => receive(m)", {**told, "transcript": hostile(texts)})
        open_all(page)
        settle(page)
        assert page.evaluate(FOUND, "#place") == NOTHING
    assert watch.seen == []
    assert site.leaks == []


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
    page.evaluate("m => receive(m)", snapshot(run))
    assert page.evaluate("document.querySelectorAll('#place *').length") < 400_000
    page.evaluate("new Promise(requestAnimationFrame)")
