"""The agent changes the open notebook: at its cells, asked for there, taken back by its undo."""

from __future__ import annotations

import re
from typing import Any

import nbformat
import pytest
from playwright.sync_api import expect
from scripted_notebooks import BETTER, CELLS, LOAD, PANEL, PLOT, Book, call
from user_actions import press, where_asked

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.same_page]


@pytest.fixture
def book(jupyterlab: Any, notebook: Any, request: pytest.FixtureRequest) -> Any:
    """Make a notebook of further cells, and an agent that calls its tools."""

    def make(calls: list[Any], *cells: str, options: str = "") -> Book:
        name = request.node.name[:40]
        return Book(jupyterlab, notebook, name, calls, *cells, options=options)

    return make


def test_a_rejected_edit_leaves_the_cell_and_says_why(book: Any) -> None:
    here = book([call("edit_cell", cell="2", source="x = 2")], "x = 1").ask()
    here.waits()
    here.proposals().locator("[data-ipyagent=reason]").fill("x is one")
    here.proposals().locator("[data-ipyagent=deny]").click()
    expect(here.proposals()).to_have_count(0)
    here.book.expect_state(1, "done")
    expect(here.book.run(1)).to_contain_text("denied by you: x is one")
    assert here.sources() == ["x = 1"]


def test_what_the_person_writes_meanwhile_is_kept(book: Any) -> None:
    here = book([call("edit_cell", cell=2, source="x = 2")], "x = 1").ask()
    here.waits()
    note = here.proposals().get_by_text("You have changed this cell since")
    expect(note).to_be_hidden()
    here.book.cell(2).locator(".cm-content").click()
    here.page.keyboard.press("End")
    here.page.keyboard.type("0")
    expect(note).to_be_visible()
    here.book.shot("edit-outdated")
    here.accept()
    here.book.expect_state(1, "done")
    expect(here.book.run(1).locator("[data-tool=edit_cell]")).to_contain_text("changed since")
    assert here.sources() == ["x = 10"]


def test_new_cells_stand_below_that_of_the_agent_in_order(book: Any) -> None:
    calls = [
        call("insert_cell", source="# Sales\n\nBy *quarter*.", kind="markdown"),
        call("insert_cell", source=PLOT),
        call("insert_cell", source="first", kind="raw", index=0),
    ]
    here = book(calls, "last = 1").ask()
    here.waits()
    expect(here.book.cell(1).locator("[data-ipyagent=proposal]")).to_contain_text("By *quarter*")
    here.book.shot("insert-proposed")
    here.accept()
    here.expect_sources("# Sales\n\nBy *quarter*.", "last = 1")
    above = here.page.locator(".jp-MarkdownCell [data-ipyagent=proposal]")
    expect(above).to_contain_text("sales.plot")
    expect(above).to_contain_text("The agent proposes a new code cell")
    here.accept()
    here.expect_sources("# Sales\n\nBy *quarter*.", PLOT, "last = 1")
    expect(here.book.cell(0).locator("[data-ipyagent=proposal]")).to_contain_text("first")
    here.book.shot("insert-first")
    here.accept()
    here.book.expect_state(1, "done")
    for _ in range(3):
        here.undo()
    here.expect_sources("last = 1")
    here.redo()
    here.expect_sources("# Sales\n\nBy *quarter*.", "last = 1")


def test_a_run_cell_has_its_outputs_and_undo_leaves_them(book: Any) -> None:
    calls = [call("edit_cell", cell=2, source="6 * 7"), call("run_cell", cell=2)]
    here = book(calls, "6 * 9").ask()
    here.waits()
    here.accept()
    here.expect_sources("6 * 7")
    trusted = f"{PANEL}.content.widgets[2].model.trusted"
    here.page.evaluate(f"() => {{ {trusted} = false }}")
    press(here.book.run(1).locator("[data-ipyagent=approve]"))
    here.book.expect_state(1, "done")
    expect(here.book.output(2)).to_contain_text("42")
    assert here.page.evaluate(f"() => {trusted}")
    expect(here.book.cell(2)).not_to_have_class(re.compile("jp-mod-dirty"))
    here.undo()
    here.expect_sources("6 * 9")
    [_, _, cell] = here.book.save().cells
    assert cell.outputs[0]["data"]["text/plain"] == "42"


def test_a_notebook_with_large_figures_is_read_and_changed(book: Any) -> None:
    figures = (
        "import os\nfrom PIL import Image\n"
        "for _ in range(8):\n"
        "    display(Image.frombytes('RGB', (700, 700), os.urandom(3 * 700 * 700)))"
    )
    here = book(
        [call("read_notebook"), call("edit_cell", cell=3, source="x = 2")], figures, "x = 1"
    )
    here.book.start(2)
    here.book.expect_done(2)
    # Its number comes before the figures do.
    expect(here.book.output(2).locator("img")).to_have_count(8)
    here.ask().waits()
    # By the key: while the page finds room for the figures, what is clicked moves away.
    here.see().press("Enter")
    here.expect_sources(figures, "x = 2")
    here.book.expect_state(1, "done")


def test_a_proposal_vanishes_wherever_it_is_decided_and_when_nobody_asks_any_more(
    book: Any,
) -> None:
    edits = [call("edit_cell", cell=2, source=f"x = {number}") for number in range(2, 5)]
    here = book(edits, "x = 1").ask()
    here.waits()
    where_asked(here.page, "deny").click()
    expect(here.proposals()).to_contain_text("x = 3")
    here.book.run(1).locator("[data-ipyagent=stop]").click()
    expect(here.proposals()).to_have_count(0)
    here.book.expect_state(1, "cancelled")
    # The card is drawn a moment before its cell fails, and a failure drops the cells that wait.
    here.book.expect_done(1)
    here.book.start(1)
    expect(here.proposals()).to_have_count(1)
    here.page.evaluate(f"() => {PANEL}.sessionContext.session.kernel.restart()")
    expect(here.proposals()).to_have_count(0)
    assert here.sources() == ["x = 1"]


def test_a_section_is_unfolded_when_something_waits_in_it(book: Any) -> None:
    heading = nbformat.v4.new_markdown_cell(
        "# Data", metadata={"jp-MarkdownHeadingCollapsed": True}
    )
    here = book([call("edit_cell", cell=3, source="x = 2")], heading, "x = 1")
    expect(here.cell_at(3)).to_be_hidden()
    here.ask().waits()
    expect(here.proposals()).to_be_visible()
    here.accept()
    here.expect_sources("# Data", "x = 2")


def test_a_proposal_goes_with_its_cell(book: Any) -> None:
    cells = [f"x = {number}" for number in range(40)]
    here = book([call("edit_cell", cell=41, source="y = 1")], *cells).ask()
    here.book.expect_state(1, "waiting")
    here.page.evaluate(
        """() => {
            const { content } = jupyterapp.shell.currentWidget;
            content.notebookConfig = { ...content.notebookConfig, windowingMode: 'full' };
        }"""
    )
    reason = here.proposals().locator("[data-ipyagent=reason]")
    here.scroll_to(41)
    reason.fill("not so fast")
    for index in (0, 41):
        here.scroll_to(index)
    expect(reason).to_have_value("not so fast")
    here.page.evaluate(f"() => {PANEL}.content.moveCell(41, 5)")
    here.scroll_to(5)
    expect(here.cell_at(5).locator("[data-ipyagent=proposal]")).to_be_visible()
    expect(reason).to_have_value("not so fast")
    expect(here.proposals().get_by_text("You have changed")).to_be_hidden()
    here.page.evaluate(f"() => {CELLS.replace('cells', 'deleteCell(5)')}")
    expect(here.proposals()).to_have_count(0)


ASK = """\
import concurrent.futures
from pathlib import Path
from ipyagent.kernel.pages import Pages

def ask(*requests):
    def all_of_them():
        [page] = get_ipython().meta[Pages].all()
        return [page.request(what, **details) for what, details in requests]
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        return pool.submit(all_of_them).result()
"""

CHANGE = """\
import asyncio
while not Path("typed.txt").exists():
    await asyncio.sleep(0.05)
[told] = ask(("cells", {}))
last = told["cells"][-1]
changed = dict(id=last["id"], before=last["source"], source=last["source"].replace("one", "three"))
ask(("insert", dict(index=0, kind="code", source="new")), ("replace", changed))
print(told["path"], ask(("open", {})))"""


def test_the_cell_that_a_person_types_in_keeps_its_cursor(notebook: Any) -> None:
    book = notebook(LOAD, ASK, CHANGE, "a = 'one'\nb = 2\n")
    for index in (0, 1):
        book.start(index)
        book.expect_done(index)
    book.start(2)
    book.cell(3).locator(".cm-content").click()
    book.page.keyboard.press("Control+End")
    book.page.keyboard.type("c = ")
    (book.lab.folder / "typed.txt").touch()
    expect(book.cell(0).locator(".cm-content")).to_have_text("new")
    expect(book.cell(4).locator(".cm-content")).to_contain_text("three")
    book.page.keyboard.type("4")
    expect(book.cell(4).locator(".cm-content")).to_have_text("a = 'three'b = 2c = 4")
    expect(book.cell(4)).to_have_class(re.compile("ipyagent-changed"))
    book.shot("changed-while-typing")
    expect(book.cell(4)).not_to_have_class(re.compile("ipyagent-changed"))
    # Typed, changed, typed: three steps of the cell's own undo.
    for text in ("a = 'three'b = 2c = ", "a = 'one'b = 2c = "):
        book.page.keyboard.press("Control+z")
        expect(book.cell(4).locator(".cm-content")).to_have_text(text)
    expect(book.output(3)).to_contain_text(f"{book.name} [{{'paths': ['{book.name}']}}]")


def test_an_agent_changes_another_open_notebook(jupyterlab: Any, book: Any) -> None:
    other = jupyterlab.folder / "other.ipynb"
    meta = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    cells = [nbformat.v4.new_code_cell("x = 1")]
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=meta), other)
    before = other.read_bytes()
    here = book([call("edit_cell", cell=0, source="x = 2", path="other.ipynb")])
    here.page.evaluate(
        """async () => {
            const here = jupyterapp.shell.currentWidget;
            const options = { path: 'other.ipynb', options: { mode: 'split-right' } };
            await jupyterapp.commands.execute('docmanager:open', options);
            jupyterapp.shell.activateById(here.id);
        }"""
    )
    here.ask()
    here.waits()
    there = here.page.locator(".jp-NotebookPanel:not(:has-text('%%agent'))")
    said = f"The agent of {here.file.name} proposes a change of this cell"
    expect(there.locator("[data-ipyagent=proposal]")).to_contain_text(said)
    here.book.shot("other-notebook")
    here.accept()
    here.book.expect_state(1, "done")
    expect(there.locator(".cm-content")).to_have_text("x = 2")
    assert other.read_bytes() == before


def test_allowed_changes_are_made_at_once_and_marked(book: Any) -> None:
    calls = [
        call("edit_cell", cell=2, source="# New title"),
        call("insert_cell", source="x = 1"),
    ]
    here = book(calls, "# Old title", options="--confirm yolo")
    here.book.cell(2).locator(".cm-content").click()
    here.book.command("notebook:change-cell-to-markdown")
    here.book.command("notebook:render-all-markdown")
    here.ask()
    marked = here.page.locator(".ipyagent-changed")
    expect(marked).to_have_count(2)
    here.book.shot("marked")
    expect(here.page.locator(".jp-MarkdownCell h1")).to_have_text(re.compile("New title"))
    expect(here.proposals()).to_have_count(0)
    assert here.sources() == ["x = 1", "# New title"]
    expect(marked).to_have_count(0)


def test_a_proposal_in_the_dark_is_reached_by_the_keyboard(book: Any) -> None:
    here = book([call("edit_cell", cell=2, source=BETTER)], PLOT)
    here.page.evaluate(
        "() => jupyterapp.commands.execute('apputils:change-theme', { theme: 'JupyterLab Dark' })"
    )
    expect(here.page.locator("body[data-jp-theme-light=false]")).to_have_count(1)
    here.ask()
    here.waits()
    accept = here.see()
    here.book.shot("edit-proposed-dark")
    accept.focus()
    buttons = ["deny", "approve-run", "reason", "edit", "more-ways"]
    for name in buttons:
        here.page.keyboard.press("Tab")
        expect(here.proposals().locator(f"[data-ipyagent={name}]")).to_be_focused()
    for _ in buttons:
        here.page.keyboard.press("Shift+Tab")
    here.page.keyboard.press("Enter")
    here.expect_sources(BETTER)


def test_a_proposal_is_there_again_after_the_page_was_loaded_anew(book: Any) -> None:
    here = book([call("edit_cell", cell=2, source="x = 2")], "x = 1").ask()
    here.waits()
    here.book.save()
    here.book.open()
    here.waits()
    here.accept()
    here.expect_sources("x = 2")
