"""Several pages, notebooks and connections of one kernel, in JupyterLab."""

from __future__ import annotations

from typing import Any

import nbformat
import pytest
from playwright.sync_api import Browser, expect
from reloading import (
    PANEL,
    RUN_JSON,
    begin,
    decide,
    expect_ended,
    go,
    listen,
    reload,
    until,
    waiting,
)
from scripts import LOAD, python, script

from conftest import Lab, Notebook

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(180)]

RENAME = f"""async (name) => {{
    const {{context, sessionContext: {{session}}}} = {PANEL};
    const told = [];
    for (const set of ['setPath', 'setName']) {{
        const tell = session[set].bind(session);
        session[set] = value => told[told.push(tell(value)) - 1];
    }}
    await context.rename(name);
    window.told = Promise.all(told);
}}"""
TOLD = "() => window.told"
OPEN = "(path) => window.jupyterapp.commands.execute('docmanager:open', {path})"
CLOSE = """(path) => {
    for (const widget of window.jupyterapp.shell.widgets('main')) {
        if (widget.context?.path === path) widget.dispose();
    }
}"""
SHARE = f"""async ([first, second]) => {{
    const model = {PANEL}.sessionContext.session.kernel.model;
    const kernel = {{id: model.id}};
    await window.jupyterapp.commands.execute('docmanager:open', {{path: second, kernel}});
    const panel = {PANEL};
    await panel.sessionContext.ready;
    await panel.sessionContext.changeKernel(kernel);
}}"""
HAS_RUN = f"() => {PANEL}.content.model.cells.get(1).outputs.toJSON()[0].data['{RUN_JSON}']"
CUT_NETWORK = f"""() => {PANEL}.sessionContext.session.kernel._ws.close()"""


class Shown(Notebook):
    """The notebook in front, where several are open."""

    def __init__(self, book: Notebook) -> None:
        super().__init__(book.lab, book.page, book.name)

    def cell(self, index: int) -> Any:
        return self.page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .jp-CodeCell").nth(index)


def rename(book: Notebook) -> None:
    """Give it another name; the page is still telling its session."""
    book.name = f"renamed-{book.name}"
    book.page.evaluate(RENAME, book.name)
    tab = book.page.locator(".lm-TabBar-tab.lm-mod-current", has_text="renamed-")
    expect(tab).to_be_visible()


@pytest.mark.spec("P42")
def test_a_notebook_that_is_renamed_closed_and_opened_in_the_same_page_has_its_card(
    jupyterlab: Lab, notebook: Any
) -> None:
    book = waiting(jupyterlab, notebook, "closed", python("a = 1"), "Done.")
    lines = listen(book.page)
    book.save()
    rename(book)
    book.page.evaluate(TOLD)
    book.expect_state(1, "waiting")
    book.page.evaluate(CLOSE, book.name)
    book.page.evaluate(OPEN, book.name)
    book.expect_state(1, "waiting")
    decide(book, 1, "approve")
    expect_ended(book, 1)
    assert lines() == []


@pytest.mark.spec("P42")
def test_a_notebook_closed_while_it_is_renamed_has_its_card_when_it_is_opened(
    jupyterlab: Lab, notebook: Any
) -> None:
    """JupyterLab is left with a connection of no notebook, which alone may handle comms."""
    book = waiting(jupyterlab, notebook, "leaving", python("a = 1"), "Done.")
    book.save()
    answers = []
    book.page.route("**/api/sessions/*", lambda route: answers.append((route, route.fetch())))
    rename(book)
    while len(answers) < 2:
        book.page.wait_for_timeout(50)
    book.page.evaluate(CLOSE, book.name)
    with book.page.expect_websocket():
        for route, answer in answers:
            route.fulfill(response=answer)
    book.page.unroute("**/api/sessions/*")
    book.page.evaluate(OPEN, book.name)
    book.expect_state(1, "waiting")
    decide(book, 1, "approve")
    expect_ended(book, 1)


@pytest.mark.spec("P42")
def test_two_notebooks_of_one_kernel_each_have_their_cards_whichever_is_closed(
    jupyterlab: Lab, notebook: Any
) -> None:
    option = script(jupyterlab.folder, "shared", python("a = 1"), "Done.")
    book = notebook(LOAD, f"%%agent {option}\nBegin.")
    begin(book, 0)
    book.expect_done(0)
    second = f"second-{book.name}"
    (jupyterlab.folder / second).write_text((jupyterlab.folder / book.name).read_text())
    first, book.name = book.name, second
    book.page.evaluate(SHARE, [first, second])
    expect(book.page.locator(".jp-NotebookPanel:not(.lm-mod-hidden)")).to_have_count(1)
    shown = Shown(book)
    shown.start(1)
    shown.expect_state(1, "waiting")
    book.page.evaluate(CLOSE, first)
    book.page.wait_for_function(HAS_RUN)  # until then the widget is there, and dead
    decide(shown, 1, "approve")
    shown.expect_state(1, "done")
    shown.expect_done(1)


@pytest.mark.spec("P42")
def test_of_two_notebooks_of_one_kernel_the_tools_change_that_of_the_running_cell(
    jupyterlab: Lab, notebook: Any
) -> None:
    insert = {"name": "insert_cell", "arguments": {"source": "from_the_agent = 1"}}
    option = script(jupyterlab.folder, "of-two", {"calls": [insert]}, "Done.")
    first = notebook(LOAD, "only_here = 1")
    first.start(0)
    first.expect_done(0)
    cells = [nbformat.v4.new_code_cell(f"%%agent {option} --confirm yolo\nBegin.")]
    second = f"second-{first.name}"
    nbformat.write(nbformat.v4.new_notebook(cells=cells), jupyterlab.folder / second)
    first.page.evaluate(SHARE, [first.name, second])
    shown = Shown(first)
    shown.start(0)
    shown.expect_state(0, "done")
    expect(shown.cell(1).locator(".cm-content")).to_have_text("from_the_agent = 1")


@pytest.mark.spec("P42")
def test_after_the_network_was_away_the_card_knows_what_happened(
    jupyterlab: Lab, notebook: Any, chromium: Browser
) -> None:
    book = waiting(
        jupyterlab, notebook, "offline", python(until("offline")), python("b = 2"), "Ok."
    )
    reload(book)
    decide(book, 1, "approve")
    tool = book.run(1).locator("[data-ipyagent=tool]")
    expect(tool).to_have_attribute("data-state", "running")
    # Another page keeps the server from storing what this one misses.
    other = Notebook(jupyterlab, chromium.new_page(), book.name).open()
    other.expect_state(1, "running")
    book.page.evaluate(CUT_NETWORK)
    go(jupyterlab, "offline")
    other.expect_state(1, "waiting")
    book.expect_state(1, "waiting")
    decide(book, 1, "approve")
    book.expect_state(1, "done")
    other.page.close()
