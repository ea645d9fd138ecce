"""The module that draws cards: it is sent once to a page that lacks it, and to no other."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from card_modules import MODULE_COLOUR, count_modules
from deciding import press
from playwright.sync_api import Browser
from scripts import LOAD, python, script

from conftest import Lab, Make, Notebook, opened_in

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(280)]

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
