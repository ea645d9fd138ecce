"""A question is found wherever the user is, by eye, by keyboard and by screen reader."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from playwright.sync_api import Page, expect
from rich_run import saved_run
from scripted_notebooks import (
    HOLD,
    LOAD,
    LONG,
    Side,
    call,
    plan,
    python,
    script,
    scroll_away,
    writing,
)
from user_actions import APPROVE, press, press_until, where_asked

from ipyagent.schema import Run
from ipyagent.ui.static_html import saved_bundle

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.same_page]

AXE = Path(__file__).parents[2] / "labextension/node_modules/axe-core/axe.min.js"
THEMES = ["JupyterLab Light", "JupyterLab Dark"]
ACTIVE = "() => window.jupyterapp.shell.currentWidget.content.activeCellIndex"

VIOLATIONS = """async () => {
    const { violations } = await axe.run({ include: [['[data-ipyagent]'], ['.ipyagent-tab']] });
    return violations.flatMap(({ id, nodes }) => nodes.map(({ html, failureSummary }) =>
        `${id}: ${html.slice(0, 300)}: ${failureSummary}`));
}"""


def violations(page: Page) -> list[str]:
    """What axe-core finds in our elements."""
    page.add_script_tag(path=AXE)
    return list(page.evaluate(VIOLATIONS))


def unfold(page: Page) -> None:
    """Open all that is folded in cards."""
    opening = "folds => folds.forEach(fold => (fold.open = true))"
    page.locator("[data-ipyagent=run] details").evaluate_all(opening)


def in_theme(page: Page, theme: str) -> None:
    change = "theme => window.jupyterapp.commands.execute('apputils:change-theme', { theme })"
    page.evaluate(change, theme)
    is_light = "true" if "Light" in theme else "false"
    page.wait_for_selector(f"body[data-jp-theme-light={is_light}]", state="attached")


def toast(book: Any) -> Any:
    return book.page.locator(".Toastify__toast", has_text="ipyagent asks")


def test_run_all_stays_with_each_question(jupyterlab: Any, notebook: Any) -> None:
    option = script(jupyterlab.folder, "all", python("x = 1"), "Done.")
    ask = f"%%agent {option}\nGo."
    book = notebook(LOAD, ask, *[LONG] * 3, ask, *[LONG] * 3)
    book.start_all()
    for index in (1, 5):
        book.expect_state(index, "waiting")
        approve = book.run(index).locator("[data-ipyagent=approve]")
        expect(approve).to_be_in_viewport()
        press(approve)
        book.expect_state(index, "done")
    assert book.page.evaluate(ACTIVE) == 5
    expect(toast(book)).to_have_count(0)


def test_who_has_moved_meanwhile_is_not_moved_back(jupyterlab: Any, notebook: Any) -> None:
    book = held_up(jupyterlab, notebook, "moved")
    book.start_all()
    scroll_away(book, 5)
    (jupyterlab.folder / "moved.txt").touch()
    expect(toast(book)).to_be_visible()
    expect(book.run(2)).not_to_be_in_viewport()
    assert book.page.evaluate(ACTIVE) == 5


def test_a_toast_goes_when_the_question_is_answered_elsewhere(
    jupyterlab: Any, notebook: Any
) -> None:
    book = held_up(jupyterlab, notebook, "elsewhere")
    book.start_all()
    scroll_away(book, 5)
    (jupyterlab.folder / "elsewhere.txt").touch()
    expect(toast(book)).to_be_visible()
    side = Side(book.page).open()
    expect(toast(book)).to_have_count(0)
    side.press("jump", side.approvals)
    press(where_asked(book.page))
    book.expect_state(2, "done")
    assert book.page.evaluate("() => document.activeElement !== document.body")


def test_in_a_small_window_a_toast_goes_by_itself_and_names_stay_legible(
    jupyterlab: Any, notebook: Any
) -> None:
    book = held_up(jupyterlab, notebook, "small")
    book.page.set_viewport_size({"width": 600, "height": 450})
    book.start_all()
    scroll_away(book, 5)
    (jupyterlab.folder / "small.txt").touch()
    expect(toast(book)).to_be_visible()
    expect(toast(book)).to_have_count(0)
    book.expect_state(2, "waiting")
    header = book.run(2).locator(".ia-header")
    header.scroll_into_view_if_needed()
    assert header.evaluate("header => header.scrollWidth <= header.clientWidth")


def held_up(lab: Any, notebook: Any, name: str) -> Any:
    """A notebook whose agent asks once there is a file, with much below it."""
    ask = f"%%agent {writing(lab.folder, name)}\nGo."
    return notebook(LOAD, HOLD.format(name=f"{name}.txt"), ask, *[LONG] * 3)


def test_a_question_is_reached_and_decided_by_keys_alone(jupyterlab: Any, notebook: Any) -> None:
    book = notebook(LOAD, f"%%agent {writing(jupyterlab.folder, 'alone')}\nGo.", *[LONG] * 3)
    book.start_all()
    book.expect_state(1, "waiting")
    card = book.run(1).locator("[data-ipyagent=tool]").last
    book.page.keyboard.press("Control+Shift+C")
    book.page.keyboard.press("Escape")
    press_until(book, APPROVE, card, "success")
    book.expect_done(4)
    assert book.page.evaluate("() => document.activeElement !== document.body")


def test_escape_leaves_a_field_for_its_cell_and_keeps_what_is_written(
    jupyterlab: Any, notebook: Any
) -> None:
    book = notebook("1", f"%%agent {writing(jupyterlab.folder, 'left')}\nGo.", LOAD)
    for index in (2, 1):
        book.start(index)
    book.expect_state(1, "waiting")

    def write_and_leave(name: str) -> None:
        field = book.run(1).locator(f"[data-ipyagent={name}]")
        field.click()
        book.page.keyboard.type("and ")
        book.page.keyboard.press("Escape")
        for key, active in (("ArrowUp", 0), ("ArrowDown", 1)):
            book.page.keyboard.press(key)
            book.page.wait_for_function(f"({ACTIVE})() === {active}")
        is_editor = field.get_attribute("contenteditable") is not None
        (expect(field).to_contain_text if is_editor else expect(field).to_have_value)(
            re.compile("and ")
        )

    write_and_leave("reason")
    write_and_leave("say")
    book.run(1).locator("[data-ipyagent=edit]").click()
    write_and_leave("arguments")
    book.run(1).locator("[data-ipyagent=cancel-edit]").click()
    press(book.run(1).locator("[data-ipyagent=approve]"))
    book.expect_state(1, "done")
    write_and_leave("follow-up")


@pytest.mark.parametrize("theme", THEMES)
def test_axe_finds_nothing_while_a_run_waits(jupyterlab: Any, notebook: Any, theme: str) -> None:
    listing = f"```python\n{'a + ' * 90}a\n```"
    option = script(jupyterlab.folder, "axe", python("a = 1", thinking="Hm."), listing)
    insert = script(
        jupyterlab.folder, "axe-cell", {"calls": [call("insert_cell", source="b = 2")]}, "."
    )
    planned = script(jupyterlab.folder, "axe-plan", plan("axe"))
    book = notebook(
        LOAD,
        f"%%agent {option}\nGo.",
        f"%%agent {insert}\nGo.",
        f"%%agent {planned} --plan\nGo.",
        "1/0",
    )
    in_theme(book.page, theme)
    Side(book.page).open()
    book.start(4)
    book.expect_done(4)
    book.start_all()
    # The second inserts a cell below itself; the plan has a card of its own.
    for index in (1, 2, 4):
        expect(book.run(index).last).to_have_attribute("data-state", "waiting")
        approve = where_asked(book.page)
        expect(approve).to_have_count(1)
        assert violations(book.page) == []
        press(approve)
        book.expect_done(index)
    unfold(book.page)
    assert violations(book.page) == []


@pytest.mark.parametrize("theme", THEMES)
def test_axe_finds_nothing_in_a_saved_run(notebook: Any, theme: str) -> None:
    output = nbformat.v4.new_output("display_data", saved_bundle(Run.from_dict(saved_run())))
    book = notebook(nbformat.v4.new_code_cell("%%agent", outputs=[output, output]), ready=False)
    in_theme(book.page, theme)
    unfold(book.page)
    assert violations(book.page) == []
