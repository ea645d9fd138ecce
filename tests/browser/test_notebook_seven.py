"""The same in Notebook 7, which has no side bars of JupyterLab's and no status bar."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import expect
from scripted_notebooks import HOLD, LONG, reload, script, scroll_away
from user_actions import decide_on_two_cells, press

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def test_after_a_click_the_keyboard_works(notebook_seven: Any, seventh: Any) -> None:
    call = {"name": "run_python", "arguments": {"code": "x = 1"}}
    option = script(notebook_seven.folder, "clicked", {"calls": [call]}, "Done.")
    load = "%load_ext ipyagent"
    book = seventh(load, f"%%agent {option}\nOne.", f"%%agent {option}\nTwo.")
    book.start_all()
    decide_on_two_cells(book, 1, 2)


def test_a_cell_that_was_decided_on_after_a_reload_has_its_number(
    notebook_seven: Any, seventh: Any
) -> None:
    call = {"name": "run_python", "arguments": {"code": "x = 1"}}
    option = script(notebook_seven.folder, "reloaded", {"calls": [call]}, "Done.")
    book = seventh("%load_ext ipyagent", f"%%agent {option}\nOne.")
    for index in (0, 1):
        book.start(index)
    book.expect_state(1, "waiting")
    reload(book)
    book.expect_state(1, "waiting")
    expect(book.prompt(1)).to_have_text("[*]:")
    press(book.run(1).locator("[data-ipyagent=approve]"))
    book.expect_state(1, "done")
    expect(book.prompt(1)).to_have_text("[2]:")


def test_a_question_out_of_sight_is_found_and_code_becomes_a_cell(
    notebook_seven: Any, seventh: Any
) -> None:
    call = {"name": "run_python", "arguments": {"code": "x = 1"}}
    option = script(notebook_seven.folder, "lost", {"calls": [call]}, "Done.")
    load = "%load_ext ipyagent"
    book = seventh(load, HOLD.format(name="go.txt"), f"%%agent {option}\nOne.", LONG, LONG, "1")
    for index in range(3):
        book.start(index)
    scroll_away(book, 5)
    (notebook_seven.folder / "go.txt").touch()
    toast = book.page.locator(".Toastify__toast", has_text="ipyagent asks: run_python")
    expect(toast).to_be_visible()
    book.shot("notebook-seven-toast")
    toast.get_by_role("button", name="Show").click()
    press(book.run(2).locator("[data-ipyagent=approve]"))
    book.expect_done(2)
    expect(toast).to_have_count(0)
    book.run(2).locator("[data-ipyagent=keep-cells]").click()
    expect(book.cell(3)).to_contain_text("x = 1")
    book.command("notebook:undo-cell-action")
    expect(book.cell(3)).to_contain_text("#")
