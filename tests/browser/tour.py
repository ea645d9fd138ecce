"""`make tour`: run the notebooks in JupyterLab as a person does, and keep what they show.

Not a test: it writes into `notebooks/`. Every call is approved, but in cells tagged `deny`.
"""

from __future__ import annotations

import re
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import nbformat
import pytest
from playwright.sync_api import Error, expect

TOUR = Path(__file__).parents[2] / "notebooks"
PATIENCE = 120_000
RUN_JSON = "application/vnd.ipyagent.run+json"

SHOW = "part => part.scrollIntoView({ block: 'nearest' })"

MOMENT = 3_000  # milliseconds for a click: a look may close the question meanwhile


@pytest.fixture(scope="session")
def settings() -> dict[str, str]:
    """The default settings: the tour shows what holds with them."""
    return {}


@pytest.fixture(scope="session")
def copied(jupyterlab: Any) -> Path:
    """The tour in the server's folder, without what is left of earlier visits."""
    ignored = shutil.ignore_patterns(".*", "__pycache__", "scratch-*")
    return Path(shutil.copytree(TOUR, jupyterlab.folder / TOUR.name, ignore=ignored))


@pytest.mark.parametrize("name", sorted(path.name for path in TOUR.glob("*.ipynb")))
def test_a_person_runs_the_notebook(copied: Path, window: Any, name: str) -> None:
    cells = _code(nbformat.read(copied / name, as_version=4))
    book = window(f"{copied.name}/{name}", viewport={"width": 1200, "height": 900})
    book.command("notebook:clear-all-cell-outputs")
    for index, cell in enumerate(cells):
        book.cell(index).locator(".cm-content").click()
        book.page.keyboard.press("Control+Enter")
        _attend(book, index, deny="deny" in cell.metadata.get("tags", []))
    book.save()
    _keep(copied / name, book.lab.folder)


def _attend(book: Any, index: int, *, deny: bool) -> None:
    """Decide on whatever the cell asks, until it is done."""
    asked = book.cell(index).locator("[data-ipyagent=approve]")
    done = book.cell(index).locator(".jp-InputPrompt", has_text=re.compile(r"\[\d+\]"))
    while True:
        expect(asked.or_(done).first).to_be_visible(timeout=PATIENCE)
        if asked.count() == 0:
            # A call that was just decided on no longer asks, and the next one may.
            if done.count() > 0:
                return
            continue
        with suppress(Error):
            if deny:
                reason = book.cell(index).locator("[data-ipyagent=reason]")
                reason.fill("I still need it.", timeout=MOMENT)
                book.cell(index).locator("[data-ipyagent=deny]").click(timeout=MOMENT)
            else:
                card = asked.first.locator("xpath=ancestor::*[@data-ipyagent][1]")
                for part in (card, asked.first):
                    part.evaluate(SHOW, timeout=MOMENT)
                asked.first.click(timeout=MOMENT)


def _keep(path: Path, folder: Path) -> None:
    """Put the outputs into the tour; all else stays as it was written."""
    ran = nbformat.read(path, as_version=4)
    kept = nbformat.read(TOUR / path.name, as_version=4)
    for cell, done in zip(_code(kept), _code(ran), strict=True):
        assert cell.source == done.source
        assert not [o for o in done.outputs if o.output_type == "error"], done.outputs
        cell.outputs, cell.execution_count = done.outputs, done.execution_count
        for output in cell.outputs:
            # So that whoever runs the tour meets the model's part, and not a recording of it.
            output.get("data", {}).get(RUN_JSON, {}).pop("asked", None)
    text = nbformat.writes(kept)
    assert str(folder) not in text
    (TOUR / path.name).write_text(text + "\n", encoding="utf-8")


def _code(notebook: Any) -> list[Any]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]
