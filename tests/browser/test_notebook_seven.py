"""The same in Notebook 7, which has no side bars of JupyterLab's and no status bar."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from deciding import decide_on_two_cells, press
from playwright.sync_api import expect

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def script(folder: Any, name: str, *replies: Any) -> str:
    (folder / f"{name}.yaml").write_text(yaml.safe_dump(list(replies)))
    return f"-m scripted/{name}.yaml"


def test_an_agent_cell_is_added_asks_and_is_still_there_when_reopened(
    notebook_seven: Any, seventh: Any
) -> None:
    call = {"name": "run_python", "arguments": {"code": "answer = 6 * 7"}}
    option = script(notebook_seven.folder, "seven", {"calls": [call]}, "It is **42**.")
    book = seventh("1")
    book.prompt(0).click()
    book.page.locator("[data-command='ipyagent:add-cell']").first.click()
    expect(book.cell(1).locator(".cm-content")).to_be_focused()
    book.page.keyboard.type("Compute.")
    book.page.keyboard.press("Control+Home")
    book.page.keyboard.press("End")
    book.page.keyboard.type(f" {option}")
    book.page.keyboard.press("Control+Enter")
    book.expect_state(1, "waiting")
    book.shot("notebook-seven")
    press(book.run(1).locator("[data-ipyagent=approve]"))
    book.expect_state(1, "done")
    book.expect_done(1)
    book.save()
    book.page.evaluate("() => window.jupyterapp.serviceManager.sessions.shutdownAll()")
    book.open()
    book.expect_state(1, "done")
    expect(book.run(1)).to_contain_text("It is 42.")
    expect(book.run(1).locator("button")).to_have_count(0)


def test_an_error_is_asked_about_and_the_keys_decide(notebook_seven: Any, seventh: Any) -> None:
    call = {"name": "run_python", "arguments": {"code": "fixed = True"}}
    option = script(notebook_seven.folder, "mend", {"calls": [call]}, "Mended.")
    book = seventh("1 / 0")
    book.start(0)
    book.expect_done(0)
    book.shot("notebook-seven-error")
    book.cell(0).locator("[data-ipyagent=fix]").click()
    expect(book.cell(1).locator(".cm-content")).to_be_focused()
    book.page.keyboard.press("Control+Home")
    book.page.keyboard.press("End")
    book.page.keyboard.type(f" {option}")
    book.page.keyboard.press("Control+Enter")
    book.expect_state(1, "waiting")
    book.prompt(1).click()
    card = book.run(1).locator("[data-ipyagent=tool]")
    expect(card).to_be_in_viewport()
    book.page.wait_for_timeout(1_000)  # What a person takes to look at it.
    book.page.keyboard.press("Control+Shift+Enter")
    book.expect_state(1, "done")
    expect(card).to_have_attribute("data-state", "success")


def test_after_a_click_the_keyboard_works(notebook_seven: Any, seventh: Any) -> None:
    call = {"name": "run_python", "arguments": {"code": "x = 1"}}
    option = script(notebook_seven.folder, "clicked", {"calls": [call]}, "Done.")
    load = "%load_ext ipyagent"
    book = seventh(load, f"%%agent {option}\nOne.", f"%%agent {option}\nTwo.")
    book.start_all()
    decide_on_two_cells(book, 1, 2)
