"""The button on a finished card takes a run back: first what would happen, then done."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import expect
from scripts import LOAD, call, script

pytestmark = [pytest.mark.browser, pytest.mark.same_page, pytest.mark.slow]


def test_a_finished_run_is_taken_back_from_its_card(jupyterlab: Any, notebook: Any) -> None:
    calls = [
        call("run_python", code="n = 2\nnew = [1]"),
        call("insert_cell", source="print('inserted')"),
    ]
    option = script(jupyterlab.folder, "undone", {"calls": calls}, "Done.")
    book = notebook(LOAD, "n = 1", f"%%agent {option} --confirm yolo\nChange something.", "n")
    for index in (0, 1, 2):
        book.start(index)
    card = book.run(2)
    expect(card).to_have_attribute("data-state", "done", timeout=90_000)
    book.expect_done(2)  # a run ends a moment before its cell, and until then nothing is taken back
    sources = "jupyterapp.shell.currentWidget.content.model.sharedModel.cells.map(c => c.source)"
    assert "print('inserted')" in book.page.evaluate(f"() => {sources}")
    card.locator("[data-ipyagent=undo]").click()
    report = card.locator("[data-ipyagent=undo-report]")
    expect(report).to_contain_text("n would be as it was before run")
    expect(report).to_contain_text("cell 3 of this notebook would be")
    card.locator("[data-ipyagent=undo-cancel]").click()
    card.locator("[data-ipyagent=undo]").click()
    card.locator("[data-ipyagent=undo-confirm]").click()
    expect(card.locator(".ipyagent-chip")).to_have_text("done · taken back")
    expect(card.locator("[data-ipyagent=undo]")).to_have_text("Redo…")
    assert "print('inserted')" not in book.page.evaluate(f"() => {sources}")
    book.start(3)
    expect(book.output(3)).to_contain_text("1")
