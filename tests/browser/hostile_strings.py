"""Hostile strings in every drawn field, and what a page may not make of them."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from typing import Any

from playwright.sync_api import Dialog, Page, Request
from rich_run import STORIES, saved_run, snapshot, transcript
from test_hostile_browser import SVG, VECTORS, settle

from ipyagent.schema import Run
from ipyagent.ui.static_html import RUN_MIME, saved_bundle
from ipyagent.ui.transcript import Transcript

__all__ = ["settle"]

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
    """The rich run as a page is told of it, with the next of `texts` in every text of it."""
    drawn, planned = (transcript(name).to_dict() for name in STORIES)
    drawn |= {"plan": planned["plan"]}
    replaced: dict[str, Any] = replace(drawn, texts)
    for step in replaced["steps"]:
        for call in step["calls"]:
            call["request"]["arguments"] |= {next(texts): [next(texts)]}
            kinds = ("text/html", "text/markdown", "text/latex", "image/svg+xml", next(texts))
            media = [{"type": "display", "data": {kind: next(texts)}} for kind in kinds]
            media.append({"type": "display", "data": {"image/svg+xml": SVG}})
            call["result"] = {"output": next(texts), "error": next(texts)}
            call["result"]["media"] = [{**each, "label": next(texts)} for each in media]
    return snapshot(Transcript.model_validate(replaced))


def kept(texts: Iterator[str]) -> list[dict[str, Any]]:
    """A run as notebooks keep it, with hostile texts: in its JSON alone, and in its HTML too."""
    run = saved_run()
    html = str(saved_bundle(Run.from_dict(run))["text/html"])
    forged = re.sub(r">[^<]+<", lambda _: f">{next(texts)}<", html)
    return [{"text/html": each, RUN_MIME: replace(run, texts)} for each in (html, forged)]


# What is not text: words that choose how something is drawn, and times.
KEPT = {"type", "state", "status", "tone", "kind", "decision", "answer", "media_type", "change"}
KEPT |= {"started_at", "at", "role", "trace", "created_at", "timestamp"}
KEPT |= {"decided_by", "outcome", "scopes", "stop_reason"}


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
    named: all('[id]:not([id^="ipyagent-"]), [name], [style]:not(.ia-formula *)')
        .map((e) => e.outerHTML),
    elements: all(
        'script, style, link, meta, base, iframe, object, embed, form, video, audio, svg, template'
    ).map((e) => e.outerHTML),
    foreign: all('[class]:not(.ia-formula, .ia-formula *)').flatMap((e) => [...e.classList])
        .filter((name) => !/^(ipyagent|ia)-/.test(name)),
    sources: all('img').map((e) => e.src).filter((s) => !s.startsWith('data:')),
    links: all('a').map((e) => e.protocol)
        .filter((p) => !['http:', 'https:', 'mailto:'].includes(p)),
    buttons: all('button, input, textarea, select')
        .map((e) => e.dataset.ipyagent)
        .filter((name) => !/^(copy|model|stop|undo|to-cell|keep-cells)$/.test(name))
        .filter((name) => !/^(follow-up|continue)$/.test(name)),
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
        self.page = page
        self.listeners = {"request": self.request, "dialog": self.dialog, "popup": self.popup}
        for event, listener in self.listeners.items():
            page.on(event, listener)

    def stop(self) -> None:
        for event, listener in self.listeners.items():
            self.page.remove_listener(event, listener)

    def dialog(self, dialog: Dialog) -> None:
        # JupyterLab's own question about a notebook that is left.
        if dialog.type != "beforeunload":
            self.seen.append(dialog.message)
        dialog.accept()

    def popup(self, popup: Page) -> None:
        self.seen.append(popup.url)

    def request(self, request: Request) -> None:
        url = request.url
        inside = url.startswith((self.address, "data:", "blob:"))
        if not inside or "/leak" in url:
            self.seen.append(url)


def open_all(page: Page) -> None:
    page.evaluate("document.querySelectorAll('details').forEach((each) => (each.open = true))")
    page.evaluate("document.querySelectorAll('.ia-step').forEach((e) => e.scrollIntoView())")
