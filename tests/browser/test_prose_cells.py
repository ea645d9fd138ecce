"""`%%agent` cells are prose, and what is typed there is completed, in JupyterLab."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import Locator, expect

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.same_page]

LOAD = """\
%load_ext ipyagent
import pandas as pd
sales = pd.DataFrame({"region": ["N"] * 18204, "revenue": 1.0})
salary = 4
"""
PROMPT = "%%agent --max-steps 3\nWhy did **revenue** drop? Look at `sales` by region.\n"

PROSE = re.compile(r"\bipyagent-cell\b")

MIME = """(index) => {
    const cell = window.jupyterapp.shell.currentWidget.content.widgets[index];
    return [cell.model.mimeType, cell.editorConfig.lineWrap === true];
}"""


RESTART = """async () => {
    const { session } = window.jupyterapp.shell.currentWidget.sessionContext;
    await session.kernel.restart();
    await session.kernel.info;
}"""

# Answers come in the order of the questions.
ANSWERED = """async () => {
    const { session } = window.jupyterapp.shell.currentWidget.sessionContext;
    await session.kernel.requestComplete({ code: "%%agent -", cursor_pos: 9 });
    await new Promise(resolve => requestAnimationFrame(() => requestAnimationFrame(resolve)));
}"""

SETTINGS = """(raw) =>
    window.jupyterapp.serviceManager.settings.save("ipyagent:settings", raw)
"""


def settings_of(book: Any, index: int) -> list[Any]:
    found: list[Any] = book.page.evaluate(MIME, index)
    return found


def offered(book: Any) -> Locator:
    return book.page.locator(".jp-Completer:not(.lm-mod-hidden) .jp-Completer-item")


def press_tab(book: Any) -> None:
    """Ask for completions, as soon as JupyterLab knows that the focused cell is the current one."""
    expect(book.page.locator(".jp-mod-completer-enabled:focus-within")).to_have_count(1)
    book.page.keyboard.press("Tab")


def write(book: Any, index: int, text: str) -> None:
    book.cell(index).locator(".cm-content").click()
    book.page.keyboard.press("Control+End")
    book.page.keyboard.type(text)


def theme(book: Any, name: str) -> None:
    book.page.evaluate(
        "(theme) => window.jupyterapp.commands.execute('apputils:change-theme', {theme})", name
    )
    expect(book.page.locator("body")).to_have_attribute("data-jp-theme-name", name)
    expect(book.page.locator("#jupyterlab-splash")).to_have_count(0)


def started(notebook: Any, *cells: str) -> Any:
    book = notebook(LOAD, *cells)
    book.start(0)
    book.expect_done(0)
    # The first answer waits for what is imported at the first use.
    book.page.evaluate(ANSWERED)
    return book


def test_a_prompt_is_markdown_and_python_again_when_it_is_none(notebook: Any) -> None:
    book = started(notebook, PROMPT, "x = '%%agent'")
    bold = book.cell(1).locator(".cm-line span", has_text="revenue")
    expect(book.cell(1)).to_have_class(PROSE)
    expect(bold.first).to_have_css("font-weight", "700")
    assert settings_of(book, 1) == ["text/x-ipythongfm", True]
    assert settings_of(book, 2) == ["text/x-ipython", False]
    expect(book.cell(2)).not_to_have_class(PROSE)
    book.cell(1).locator(".cm-content").click()
    book.page.keyboard.press("Control+Home")
    book.page.keyboard.press("Delete")
    expect(book.cell(1)).not_to_have_class(PROSE)
    expect(bold).to_have_count(0)
    assert settings_of(book, 1) == ["text/x-ipython", False]
    book.page.keyboard.type("%")
    expect(book.cell(1)).to_have_class(PROSE)


def test_a_cell_becomes_a_prompt_as_it_is_typed_and_stays_one_when_the_kernel_restarts(
    notebook: Any,
) -> None:
    book = started(notebook)
    lines: list[str] = []
    book.page.on("console", lambda message: lines.append(message.text))
    book.command("notebook:insert-cell-below")
    write(book, 1, "%%agent\nWhat is **typed** here.")
    expect(book.cell(1)).to_have_class(PROSE)
    expect(book.cell(1).locator(".cm-content")).to_have_class(re.compile(r"\bcm-lineWrapping\b"))
    bold = book.cell(1).locator(".cm-line span", has_text="typed")
    expect(bold.first).to_have_css("font-weight", "700")
    assert [line for line in lines if "EditorView" in line] == []
    book.page.evaluate(RESTART)
    assert settings_of(book, 1) == ["text/x-ipythongfm", True]


def test_at_offers_variables_with_their_shapes_and_files(jupyterlab: Any, notebook: Any) -> None:
    (jupyterlab.folder / "sales.csv").write_text("a\n1\n")
    book = started(notebook, PROMPT)
    write(book, 1, "Compare @")
    expect(offered(book).first).to_contain_text("@sales")
    expect(offered(book).first).to_contain_text("DataFrame 18,204 × 2")
    expect(offered(book).filter(has_text="@pd")).to_contain_text("module pandas")
    book.shot("completion-at")
    book.page.keyboard.type("sal")
    expect(offered(book).filter(has_text="@pd")).to_have_count(0)
    expect(offered(book).first).to_contain_text("@sales")
    expect(offered(book).filter(has_text="@sales.csv")).to_contain_text("file")
    book.page.keyboard.press("Enter")
    expect(offered(book)).to_have_count(0)
    expect(book.cell(1).locator(".cm-line").last).to_have_text("Compare @sales")
    book.page.keyboard.type(" with @sala")
    expect(offered(book)).to_have_count(1)
    book.page.keyboard.press("Tab")
    expect(book.cell(1).locator(".cm-line").last).to_have_text("Compare @sales with @salary")


def test_tab_completes_options_and_their_values(notebook: Any) -> None:
    book = started(notebook, "%%agent")
    theme(book, "JupyterLab Dark")
    write(book, 1, " --")
    press_tab(book)
    expect(offered(book).filter(has_text="--max-usd")).to_contain_text("US dollars")
    book.shot("completion-options")
    book.page.keyboard.press("Escape")
    book.page.keyboard.type("confi")
    press_tab(book)
    expect(offered(book)).to_have_count(2)
    book.page.keyboard.type("r")
    expect(offered(book)).to_have_count(1)
    book.page.keyboard.press("Tab")
    line = book.cell(1).locator(".cm-line")
    expect(line).to_have_text("%%agent --confirm")
    book.page.keyboard.type(" y")
    press_tab(book)
    expect(offered(book)).to_have_count(1)
    book.page.keyboard.press("Tab")
    expect(line).to_have_text("%%agent --confirm yolo")


def test_prose_gets_no_completions_of_python_and_none_of_its_own_words(notebook: Any) -> None:
    book = started(notebook, "%%agent\n`important` matters.\n", "important = 1\n")
    write(book, 1, "imp")
    press_tab(book)
    book.page.evaluate(ANSWERED)
    expect(offered(book)).to_have_count(0)
    expect(book.cell(1).locator(".cm-line").last).to_have_text("imp")
    write(book, 2, "imp")
    press_tab(book)
    expect(offered(book).filter(has_text="important")).to_have_count(1)


def test_at_opens_nothing_by_itself_where_the_settings_say_so(notebook: Any) -> None:
    book = started(notebook, "%%agent\n")
    book.page.evaluate(SETTINGS, '{"completeOnAt": false}')
    try:
        book.open().ready()
        write(book, 1, "@sa")
        book.page.evaluate(ANSWERED)
        expect(offered(book)).to_have_count(0)
        press_tab(book)
        expect(offered(book).first).to_contain_text("@sales")
    finally:
        book.page.evaluate(SETTINGS, "{}")
        book.page.close()  # It would keep what it has read.


def test_a_busy_kernel_offers_nothing_and_answers_again_afterwards(
    jupyterlab: Any, notebook: Any
) -> None:
    wait = "import os, time\nwhile not os.path.exists('go-on'):\n    time.sleep(0.05)"
    book = started(notebook, wait, "%%agent\n")
    book.start(1)
    expect(book.prompt(1)).to_have_text("[*]:")
    write(book, 2, "@sala")
    press_tab(book)
    expect(offered(book)).to_have_count(0)
    (jupyterlab.folder / "go-on").touch()
    book.expect_done(1)
    book.page.evaluate(ANSWERED)
    write(book, 2, "r")
    expect(offered(book)).to_have_count(1)
    book.page.keyboard.press("Tab")
    expect(book.cell(2).locator(".cm-line").last).to_have_text("@salary")


def test_prompts_look_like_prose_in_both_themes(notebook: Any) -> None:
    text = (
        "%%agent --plan -m anthropic/claude-sonnet-5-5 --max-usd 0.50\n"
        "Why did **revenue** drop in Q3? Look at @sales and compare with `data/targets.csv`, month "
        "by month, and say which regions and which products are the cause of it.\n\n"
        "1. Group by _region_\n2. Plot it\n\n> Leave out returns.\n"
    )
    book = started(notebook, text, "total = sales['revenue'].sum()  # ordinary code")
    expect(book.cell(1)).to_have_class(PROSE)
    book.shot("prose")
    theme(book, "JupyterLab Dark")
    book.shot("prose-dark")
    lines = book.cell(1).locator(".cm-line")
    assert lines.nth(1).evaluate("line => line.getClientRects()[0].height") > 30, "not wrapped"
