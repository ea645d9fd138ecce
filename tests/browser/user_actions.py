"""What users do on a page: decide on calls, by mouse and keyboard, and use commands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from playwright.sync_api import Locator, Page, expect

from patience import wait_until

APPROVE, DENY = "Control+Shift+Enter", "Control+Shift+Backspace"


LATER = (
    *("model", "show-question", "undo", "to-cell", "keep-cells", "ask-anew", "copy", "request"),
    "run-changed",
)


"""Buttons that decide on nothing: they are there when a run is over."""


DECISIONS = f"button:not({', '.join(f'[data-ipyagent={name}]' for name in LATER)})"


"""The buttons of a card that is on; the one to take it back comes when it has ended."""


PLACE = "document.activeElement.closest('.jp-Cell')"


# Where the cards stand that ask, and what of their notebook is on the screen.
PLACES = """() => {
    const box = element => element?.getBoundingClientRect().toJSON();
    return [...document.querySelectorAll('[data-ipyagent=approve]')].map(button => {
        const view = button.closest('.jp-WindowedPanel-outer');
        const card = button.parentElement.closest('[data-ipyagent]');
        return { card: box(card), button: box(button), view: box(view), at: view?.scrollTop };
    });
}"""


def holds_soon(check: Callable[[], None]) -> bool:
    """Say whether this expectation is met within its own time."""
    try:
        check()
    except AssertionError:
        return False
    return True


def await_active(button: Locator) -> None:
    """Wait for a button that is active once its whole call was in sight: scroll there."""
    card = button.locator("xpath=ancestor::*[@data-ipyagent][1]")

    def is_active() -> bool:
        # What is above may still find its room, and push it away.
        for part in (card, button):
            part.evaluate("part => part.scrollIntoView({ block: 'nearest' })")
        return holds_soon(lambda: expect(button).to_be_enabled(timeout=1_000))

    wait_until(is_active, lambda: button.page.evaluate(PLACES))


def press(button: Locator) -> None:
    """Click it, as a user does who has read what it is about."""
    await_active(button)
    button.click()


def where_asked(page: Page, name: str = "approve") -> Locator:
    """The button of that name at the face that has the buttons now."""
    return page.locator(f"[data-ipyagent={name}]:visible").first


def press_until(book: Any, keys: str, card: Any, state: str) -> None:
    """As a user does who is told to read first: once more only if nothing was decided."""
    expect(card.locator("[data-ipyagent=deny]")).to_be_visible()
    undecided = card.locator("[data-ipyagent=deny]:enabled")

    def is_decided() -> bool:
        book.page.keyboard.press(keys)
        return holds_soon(lambda: expect(undecided).to_have_count(0, timeout=1_000))

    wait_until(is_decided)
    expect(card).to_have_attribute("data-state", state)


def decide_on_two_cells(book: Any, first: int, second: int) -> None:
    """Approve in the first with the mouse, work on by keys, and approve in the second by keys."""
    book.expect_state(first, "waiting")
    press(book.run(first).locator("[data-ipyagent=approve]"))
    book.expect_done(first)
    book.expect_state(second, "waiting")
    book.page.wait_for_function(f"{PLACE} !== null")
    cells = book.page.locator(".jp-Notebook .jp-Cell")
    count = cells.count()
    for key in ("Escape", "a"):
        book.page.keyboard.press(key)
    expect(cells).to_have_count(count + 1)
    at = "() => window.jupyterapp.shell.currentWidget.content.activeCellIndex"
    assert book.page.evaluate(at) == first
    book.page.keyboard.press("ArrowDown")
    assert book.page.evaluate(at) == first + 1
    # Wherever the focus is, as long as nothing is written there.
    book.page.evaluate("() => document.activeElement.blur()")
    card = book.run(second + 1).locator("[data-ipyagent=tool]")
    press_until(book, APPROVE, card, "success")
    book.expect_done(second + 1)


def the_plan(book: Any, index: int) -> Any:
    """The card of the plan, below that of the run that proposed it."""
    return book.run(index).nth(1)


ADD = "[data-command='ipyagent:add-cell']"


def is_enabled(book: Any, command: str) -> bool:
    check = "command => window.jupyterapp.commands.isEnabled(command)"
    return bool(book.page.evaluate(check, command))


def await_enabled(book: Any, command: str) -> None:
    check = "command => window.jupyterapp.commands.isEnabled(command)"
    book.page.wait_for_function(check, arg=command)


def to_command_mode(book: Any, index: int) -> None:
    book.prompt(index).click()


def source(book: Any, index: int) -> str:
    """What a cell holds; the editor draws only the lines that are in view."""
    get = "index => window.jupyterapp.shell.currentWidget.content.widgets[index].model"
    return str(book.page.evaluate(f"{get}.sharedModel.getSource()", index))


def actions(book: Any, index: int) -> Any:
    return book.cell(index).locator("[data-ipyagent=fix], [data-ipyagent=explain]")
