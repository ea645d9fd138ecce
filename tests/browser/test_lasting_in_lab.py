"""Sessions and their traces in JupyterLab: a restart, a killed kernel, the graph, a countdown."""

from __future__ import annotations

import json
import re
from typing import Any
from urllib.parse import unquote
from xml.etree import ElementTree

import pytest
from playwright.sync_api import expect
from scripts import LOAD, python, script

from ipyagent.schema import Message, Node, Role
from ipyagent.ui.reveal import shorten

pytestmark = [pytest.mark.browser, pytest.mark.slow]

MARKUP = [
    "<script>window.pwned = 1</script>",
    "<img src=x onerror=window.pwned=1>",
    "<a href='javascript:window.pwned=1'>x</a>",
    "</foreignObject></svg><iframe srcdoc='<script>window.pwned=1</script>'>",
    '"]:::end_\nclick n0 call alert(1)',
    'click n0 "javascript:window.pwned=1"',
    "%%{init: {'securityLevel': 'loose'}}%%",
    "end --> n0; style n0 fill:url(https://example.invalid)",
    "#quot;]#35; &lt;b&gt; fa:fa-car @{ img: x }",
    "`**bold** _it_ [x](javascript:1)` $$x^2$$",
]
"""What means something to HTML, Mermaid, Markdown or KaTeX."""


@pytest.mark.spec("P10", "P06", "H26")
def test_a_session_survives_its_kernel_and_a_broken_run_is_told(
    jupyterlab: Any, notebook: Any
) -> None:
    dies = "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)"
    first = script(jupyterlab.folder, "lives", "I will remember **that**.")
    second = script(jupyterlab.folder, "dies", python(dies, text="This may end badly."))
    third = script(jupyterlab.folder, "goes_on", "You said: *remember 42*.")
    book = notebook(
        LOAD,
        f"%%agent {first}\nRemember 42.",
        f"%%agent {second} --confirm yolo\nDo something rash.",
        LOAD,
        f"%%agent {third}\nWhat did I say?",
        "%agent runs",
        "%agent session graph",
    )
    for index in (0, 1):
        book.start(index)
        book.expect_done(index)
    book.start(2)
    # JupyterLab says that the kernel died, and has started another by then.
    dialog = book.page.locator(".jp-Dialog")
    expect(dialog).to_contain_text("restart")
    dialog.locator("button.jp-mod-accept").click()
    book.ready()
    for index in (3, 4, 5, 6):
        book.start(index)
        book.expect_done(index)
    expect(book.run(4)).to_contain_text("The kernel ended while run")
    expect(book.run(4)).to_contain_text("remember 42")
    expect(book.output(5)).to_contain_text("failed")
    graph = book.output(6).locator(".jp-RenderedMermaid img")
    expect(graph).to_be_visible()
    expect(graph).to_have_attribute("alt", re.compile("Conversation of [0-9]+ nodes"))
    book.output(6).scroll_into_view_if_needed()
    book.shot("session-graph")


@pytest.mark.spec("M01", "A08")
def test_a_retry_counts_down_and_can_be_stopped(jupyterlab: Any, notebook: Any) -> None:
    (jupyterlab.folder / "config.yaml").write_text("llm: {retry: {initial_delay: 30}}")
    option = script(
        jupyterlab.folder, "retry", {"error": {"kind": "unavailable", "message": "Overloaded."}}
    )
    book = notebook(LOAD, f"%%agent {option} --config config.yaml\nBegin.")
    book.start_all()
    card = book.run(1)
    expect(card).to_contain_text("Overloaded.")
    expect(card).to_contain_text("in 28 s")
    book.shot("countdown")
    card.locator("[data-ipyagent=stop]").click()
    book.expect_done(1)
    book.expect_state(1, "cancelled")


@pytest.mark.spec("N24", "D5", "H17")
def test_text_in_a_drawn_graph_stays_text(jupyterlab: Any, notebook: Any) -> None:
    nodes = [Node(id=f"n{n}", data=Message.of(Role.USER, each)) for n, each in enumerate(MARKUP)]
    graph = {"nodes": {node.id: node.to_dict() for node in nodes}, "head_ids": ["n0"]}
    (jupyterlab.folder / "hostile.json").write_text(json.dumps(graph))
    book = notebook(LOAD, "import ipyagent\nipyagent.Session.load('hostile.json')")
    book.start_all()
    image = book.output(1).locator(".jp-RenderedMermaid img")
    expect(image).to_be_visible()
    svg = unquote(image.get_attribute("src")).removeprefix("data:image/svg+xml,")
    elements = list(ElementTree.fromstring(svg).iter())
    texts = ["".join(each.itertext()) for each in elements if each.get("class") == "nodeLabel"]
    wanted = [f"user · n{n}{shorten(each)}" for n, each in enumerate(MARKUP)]
    assert [text.replace(" · ◀ head", "").replace("\u2060", "") for text in texts] == wanted
    names = {each.tag.rpartition("}")[2] for each in elements}
    assert not names & {"script", "iframe", "a", "img", "image", "form", "input", "object", "math"}
    assert [name for each in elements for name, _ in each.items() if name.startswith("on")] == []
