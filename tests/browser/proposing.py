"""Notebooks whose agent proposes changes of them."""

from __future__ import annotations

from typing import Any

from deciding import await_active
from playwright.sync_api import Locator, expect
from reloading import PANEL
from scripts import LOAD, script

CELLS = f"{PANEL}.content.model.sharedModel.cells"

PLOT = "import pandas as pd\n\nsales = pd.DataFrame({'q': [3, 4]})\nsales.plot(title='Sales')"

BETTER = PLOT.replace("title='Sales'", "title='Sales by quarter', grid=True")


class Book:
    """A notebook whose second cell asks an agent that makes these calls, one in each step."""

    def __init__(
        self, lab: Any, notebook: Any, name: str, calls: list[Any], *cells: str, options: str = ""
    ) -> None:
        replies = [*({"calls": [each]} for each in calls), "Done."]
        agent = f"%%agent {script(lab.folder, name, *replies)} {options}\nImprove this notebook."
        self.book = notebook(LOAD, agent, *cells)
        self.page, self.file = self.book.page, lab.folder / self.book.name

    def ask(self) -> Book:
        for index in (0, 1):
            self.book.start(index)
        return self

    def sources(self) -> list[str]:
        """Of all cells but the first two, as the document has them."""
        sources: list[str] = self.page.evaluate(f"() => {CELLS}.map(cell => cell.source)")
        return sources[2:]

    def cell_at(self, index: int) -> Locator:
        return self.page.locator(f".jp-Cell[data-windowed-list-index='{index}']")

    def scroll_to(self, index: int) -> None:
        """Also where cells that are far away are not in the page."""
        self.page.evaluate(f"at => {PANEL}.content.scrollToItem(at, 'center')", index)
        expect(self.cell_at(index)).to_be_visible()

    def proposals(self) -> Locator:
        return self.page.locator("[data-ipyagent=proposal]")

    def waits(self) -> None:
        """The first run loads much."""
        expect(self.proposals()).to_have_count(1)

    def accept(self) -> None:
        self.see().click()

    def see(self) -> Locator:
        """Bring the proposal into sight; return the button that accepts it."""
        accept = self.proposals().locator("[data-ipyagent=approve]")
        await_active(accept)
        return accept

    def expect_sources(self, *sources: str) -> None:
        told = f"JSON.stringify({CELLS}.map(cell => cell.source).slice(2))"
        wanted = f"wanted => {told} === JSON.stringify(wanted)"
        # Not with each frame: a page of large figures draws none for a while.
        self.page.wait_for_function(wanted, arg=list(sources), polling=100)

    def undo(self) -> None:
        self.book.command("notebook:undo-cell-action")

    def redo(self) -> None:
        self.book.command("notebook:redo-cell-action")
