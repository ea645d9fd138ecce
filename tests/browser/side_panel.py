"""The side panel and what is around it, driven as a user does."""

from __future__ import annotations

from typing import Any

from deciding import press
from playwright.sync_api import Locator, Page, expect
from scripts import call, script

TODOS = [{"content": "Load", "status": "completed"}, {"content": "Plot", "status": "pending"}]


class Side:
    """The side panel of a page, and what is around it."""

    def __init__(self, page: Page) -> None:
        self.page = page

    def open(self) -> Side:
        self.page.evaluate("() => window.jupyterapp.commands.execute('ipyagent:show-panel')")
        expect(self.element).to_be_visible()
        return self

    @property
    def element(self) -> Locator:
        return self.page.locator("#ipyagent-panel")

    @property
    def status(self) -> Locator:
        return self.page.locator("[data-ipyagent=status]")

    @property
    def tab(self) -> Locator:
        return self.page.locator(".ipyagent-tab")

    @property
    def approvals(self) -> Locator:
        return self.find("panel-approval")

    @property
    def runs(self) -> Locator:
        return self.find("panel-run")

    def find(self, name: str) -> Locator:
        return self.element.locator(f"[data-ipyagent={name}]")

    def press(self, name: str, within: Locator | None = None) -> None:
        press((within or self.element).locator(f"[data-ipyagent={name}]"))


def scroll_away(book: Any, index: int) -> None:
    """Go on to another cell, as a user does: by a click, and the wheel."""
    scroll = "index => window.jupyterapp.shell.currentWidget.content.scrollToItem(index, 'start')"
    book.page.evaluate(scroll, index)
    book.prompt(index).click()


LONG = "#\n" * 60
"""A cell that takes up the screen."""

HOLD = "import os, time\nwhile not os.path.exists({name!r}): time.sleep(0.02)"
"""A cell that holds up those after it until there is such a file."""


def writing(folder: Any, name: str) -> str:
    """A script that asks once, and then answers."""
    code = f"made = 'made in {name}'"
    calls = [call("todo_write", todos=TODOS), call("run_python", code=code)]
    return script(folder, name, {"calls": calls}, f"Done in {name}.")
