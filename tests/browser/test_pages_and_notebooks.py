"""Several pages, notebooks and connections of one kernel, in JupyterLab."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import nbformat
import pytest
from playwright.sync_api import Browser, expect
from scripted_notebooks import (
    LOAD,
    PANEL,
    RUN_JSON,
    begin,
    decide,
    expect_ended,
    go,
    listen,
    python,
    reload,
    script,
    until,
    waiting,
)
from traffic import MODULE_COLOUR, HeldMessages, count_modules
from user_actions import press

from conftest import Lab, Make, Notebook, opened_in

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(280)]


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


PAGES = """\
import asyncio
from ipyagent.kernel.pages import Pages
while not get_ipython().meta[Pages].all():
    await asyncio.sleep(0.05)
print([page.notebooks for page in get_ipython().meta[Pages].all()])"""


WIDGETS_HAVE_A_SUBSHELL = """() => {
    const {kernel} = window.jupyterapp.shell.currentWidget.sessionContext.session;
    const comms = [...kernel._comms.values()].filter(each => each.targetName === 'jupyter.widget');
    return comms.length > 0 && comms.every(each => each.subshellId !== null);
}"""


def test_a_request_of_the_kernel_that_the_page_does_not_know_comes_back_as_an_error(notebook: Any):
    ask = """\
import concurrent.futures
page = get_ipython().meta[Pages].all()[0]
with concurrent.futures.ThreadPoolExecutor(1) as pool:
    future = pool.submit(page.request, "dance")
    print(type(future.exception()).__name__, future.exception())"""
    book = notebook("%load_ext ipyagent", PAGES, ask)
    for index in range(3):
        book.start(index)
        book.expect_done(index)
    expect(book.output(2)).to_contain_text("PageError this version of the page cannot do dance")


@pytest.mark.spec("P23")
def test_a_click_arrives_though_the_card_before_was_gone_before_its_subshell_was_there(
    jupyterlab: Any, notebook: Any
) -> None:
    quick = script(jupyterlab.folder, "quick", "Done.")
    asks = script(jupyterlab.folder, "asks", python("a = 1"), "Done.")
    book = notebook(LOAD, f"%%agent {quick}\nBegin.", f"%%agent {asks}\nBegin.", ready=False)
    # The kernel takes its time to make a subshell.
    subshells = HeldMessages(book.page, b"create_subshell_reply")
    book.open().ready().start(0)
    book.expect_done(0)
    expect(book.page.locator("[data-ipyagent=status]")).to_be_visible()
    subshells.begin()
    book.start(1)
    book.expect_state(1, "done")
    book.start(2)
    book.expect_state(2, "waiting")
    subshells.end()
    book.page.wait_for_function(WIDGETS_HAVE_A_SUBSHELL)
    press(book.run(2).locator("[data-ipyagent=approve]"))
    book.expect_state(2, "done")


RESTART = """() =>
    window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()"""


@pytest.fixture
def bare(bare_jupyterlab: Lab, chromium: Browser, request: pytest.FixtureRequest) -> Iterator[Make]:
    """Make, open and get ready a notebook where our extension is not."""
    with opened_in(bare_jupyterlab, chromium, request) as make:
        yield make


def two_cells(lab: Lab, make: Make, name: str) -> Notebook:
    option = script(lab.folder, name, python("x = 1"), "Done.")
    return make(LOAD, f"%%agent {option}\nOne.", f"%%agent {option}\nTwo.", ready=False)


def start(book: Notebook, index: int) -> None:
    """Load ipyagent and start a cell that asks."""
    book.start(0)
    book.expect_done(0)
    book.start(index)
    book.expect_state(index, "waiting")


def approve(book: Notebook, index: int) -> None:
    press(book.run(index).locator("[data-ipyagent=approve]"))
    book.expect_done(index)


def test_a_page_without_the_extension_gets_the_module_once(
    bare_jupyterlab: Lab, bare: Make
) -> None:
    book = two_cells(bare_jupyterlab, bare, "bare")
    modules = count_modules(book.page)
    book.open().ready()
    start(book, 1)
    assert book.page.evaluate(MODULE_COLOUR)
    approve(book, 1)
    asked = modules()
    assert asked > 0  # more than once if the machine is so busy that the page asked again
    book.page.evaluate(RESTART)
    book.ready()
    start(book, 2)
    assert modules() == asked

    book.save()
    book.open()  # in mid-run
    book.expect_state(2, "waiting")
    assert modules() > asked
    second = Notebook(book.lab, book.page.context.new_page(), book.name)
    counted = count_modules(second.page)
    second.open()
    second.expect_state(2, "waiting")
    assert counted() > 0


def test_a_page_with_the_extension_is_sent_no_module(jupyterlab: Lab, notebook: Make) -> None:
    book = two_cells(jupyterlab, notebook, "provided")
    modules = count_modules(book.page)
    book.open().ready()
    start(book, 1)
    book.open()  # in mid-run
    book.expect_state(1, "waiting")
    press(book.run(1).locator("[data-ipyagent=approve]"))
    book.expect_state(1, "done")
    assert modules() == 0


def test_notebook_seven_is_sent_no_module_either(notebook_seven: Lab, seventh: Make) -> None:
    book = two_cells(notebook_seven, seventh, "provided")
    modules = count_modules(book.page)
    book.open().ready()
    start(book, 1)
    approve(book, 1)
    assert modules() == 0
