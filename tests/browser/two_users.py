"""`make collaboration`: two users work in one document by jupyter-collaboration.

Where that is installed all documents are shared, so these run in an environment of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, expect
from scripted_notebooks import LOAD, call, python, script
from user_actions import press, where_asked

from conftest import Lab, Make, Notebook, opened_in
from patience import PATIENCE, wait_until

pytestmark = [pytest.mark.browser, pytest.mark.timeout(240)]

OUTPUTS = """(name) => {
    const isIt = widget => widget.context?.path.endsWith(name);
    const panel = [...window.jupyterapp.shell.widgets('main')].find(isIt);
    return panel.content.model.cells.get(1).outputs.length;
}"""
SHARED = "() => window.jupyterapp.shell.currentWidget.context.model.collaborative"

Visit = Callable[[Notebook], Notebook]


@pytest.fixture
def first(jupyterlab: Lab, chromium: Browser, request: pytest.FixtureRequest) -> Iterator[Make]:
    """Make a notebook, in the first user's page."""
    with opened_in(jupyterlab, chromium, request) as make:
        yield make


@pytest.fixture
def visit(jupyterlab: Lab, chromium: Browser) -> Iterator[Visit]:
    """Open a notebook in the second user's page."""
    context = chromium.new_context(viewport={"width": 1200, "height": 900})
    context.set_default_timeout(PATIENCE * 1_000)
    yield lambda book: Notebook(jupyterlab, context.new_page(), book.name).open().ready()
    context.close()


def begin(jupyterlab: Lab, first: Make, visit: Visit, *replies: Any) -> tuple[Notebook, Notebook]:
    """Run an agent in the first page, with the second one open."""
    option = script(jupyterlab.folder, "shared", *replies)
    book = first(LOAD, f"%%agent {option}\nBegin.")
    book.start(0)
    book.expect_done(0)
    other = visit(book)
    assert other.page.evaluate(SHARED)
    book.start(1)
    return book, other


def expect_one_card(book: Notebook, state: str) -> None:
    """Expect one card, not a second one a moment later."""
    expect(book.run(1)).to_have_attribute("data-state", state)
    book.page.wait_for_timeout(3_000)
    expect(book.run(1)).to_have_count(1)
    wait_until(lambda: book.page.evaluate(OUTPUTS, book.name) == 1)


@pytest.mark.parametrize("who", [0, 1])
def test_either_user_approves_on_the_one_card_that_both_see(
    jupyterlab: Lab, first: Make, visit: Visit, who: int
) -> None:
    books = begin(jupyterlab, first, visit, python("a = 1"), "Done.")
    for book in books:
        expect_one_card(book, "waiting")
    press(books[who].run(1).locator("[data-ipyagent=approve]"))
    for book in books:
        expect_one_card(book, "done")
    (output,) = books[0].save().cells[1].outputs
    assert output["data"]["application/vnd.ipyagent.run+json"]["status"] == "done"


def test_a_run_is_brought_to_its_end_when_the_user_who_began_it_has_left(
    jupyterlab: Lab, first: Make, visit: Visit
) -> None:
    book, other = begin(jupyterlab, first, visit, python("a = 1"), "Done.")
    expect_one_card(other, "waiting")
    book.page.close()
    press(other.run(1).locator("[data-ipyagent=approve]"))
    expect_one_card(other, "done")


def test_a_cell_of_the_agent_is_inserted_once(jupyterlab: Lab, first: Make, visit: Visit) -> None:
    insert = {"calls": [call("insert_cell", source="new = 1")]}
    books = begin(jupyterlab, first, visit, insert, "Done.")
    press(where_asked(books[1].page))
    for book in books:
        expect_one_card(book, "done")
        expect(book.page.locator(".jp-InputArea .cm-content", has_text="new = 1")).to_have_count(1)
