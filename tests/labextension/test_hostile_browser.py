"""Hostile text in a real browser: nothing runs, nothing is fetched, nothing can be pressed."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

STATIC = Path(__file__).parents[2] / "src/ipyagent/ui/static"

pytestmark = [pytest.mark.browser, pytest.mark.slow]

PAGE = """<!doctype html><meta charset="utf-8"><link rel="stylesheet" href="/widget.css">
<div id="place"></div>
<script type="module">
import widget from '/widget.js';
const drawn = () => new Promise(requestAnimationFrame);
const on = (event, receive) => event === 'msg:custom' &&
    (window.receive = (message) => (receive(message), drawn()));
window.sent = [];
const model = {on, off() {}, send: (message) => window.sent.push(message)};
const made = widget();
made.initialize({model});
made.render({model, el: document.getElementById('place')});
window.ready = true;
</script>"""

SVG = """<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9" onload="top.pwned = 1">
<image href="/leak/svg.png" width="9" height="9"/><script>top.pwned = 1</script></svg>"""

VECTORS = [
    '<img src=x onerror="window.pwned = 1">',
    '<img src="/leak/img.png">',
    '<svg onload="window.pwned = 1"></svg>',
    '<details open ontoggle="window.pwned = 1">x</details>',
    '<iframe srcdoc="<script>top.pwned = 1</script>"></iframe>',
    '<style>@import "/leak/style.css"; body { background: url(/leak/body.png) }</style>',
    '<video src="/leak/video.mp4" poster="/leak/poster.png" autoplay></video>',
    '<link rel="stylesheet" href="/leak/link.css">',
    '<input autofocus onfocus="window.pwned = 1">',
    '<table background="/leak/table.png"><td>x</td></table>',
    '<button data-ipyagent="approve">Approve</button>',
    "![x](/leak/markdown.png)",
    "[x](javascript:window.pwned=1)",
]


class Site(ThreadingHTTPServer):
    """Serves the widget, and remembers what was asked for below /leak/."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.leaks: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    server: Site

    def do_GET(self) -> None:
        name = self.path.strip("/")
        if name.startswith("leak/"):
            self.server.leaks.append(self.path)
        kinds = {"": "text/html", "widget.js": "text/javascript", "widget.css": "text/css"}
        self.send_response(200 if name in kinds else 404)
        self.send_header("Content-Type", kinds.get(name, "text/plain"))
        self.end_headers()
        if name in kinds:
            self.wfile.write((STATIC / name).read_bytes() if name else PAGE.encode())

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture
def site() -> Iterator[Site]:
    server = Site()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def page(site: Site, chromium: Browser) -> Iterator[Page]:
    tab = chromium.new_page()
    tab.goto(site.url)
    tab.wait_for_function("window.ready")
    yield tab
    tab.close()


def settle(page: Any) -> None:
    """Let everything that wants to load or run do so."""
    page.wait_for_load_state("networkidle")
    page.evaluate("new Promise(done => requestAnimationFrame(() => setTimeout(done, 200)))")


@pytest.mark.slow
def test_hostile_text_set_as_markup_runs_and_leaks(site: Site, page: Any):
    page.evaluate("t => (document.getElementById('place').innerHTML = t)", "".join(VECTORS))
    settle(page)
    assert page.evaluate("window.pwned") == 1
    assert len(site.leaks) >= 5
