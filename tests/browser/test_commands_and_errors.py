"""Commands, shortcuts, the toolbar button, and actions below a cell that failed."""

from __future__ import annotations

import json
import sys
from typing import Any

import nbformat
import pytest
from playwright.sync_api import expect
from scripted_notebooks import LOAD, python, script
from user_actions import (
    ADD,
    APPROVE,
    DENY,
    actions,
    await_enabled,
    is_enabled,
    press_until,
    source,
    to_command_mode,
)

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.same_page]

MISSING = """\
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name == "ipyagent":
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Missing())"""
SPACE = 'from IPython.display import SVG\nSVG(\'<svg height="2000" width="9"></svg>\')'


def toggle_setting(book: Any, label: str) -> None:
    """In the settings editor, as a person does, and back."""
    book.command("settingeditor:open")
    editor = book.page.locator("#settings-editor, .jp-SettingsPanel").last
    book.page.locator(".jp-PluginList-entry", has_text="ipyagent").click()
    editor.get_by_label(label).click()
    book.page.locator(".lm-TabBar-tab", has_text=book.name).first.click()


# An agent cell


def test_the_toolbar_button_adds_a_cell_and_loads_ipyagent_behind_it(
    jupyterlab: Any, notebook: Any
) -> None:
    option = script(jupyterlab.folder, "added", "Here I am.")
    book = notebook("1", "2")
    to_command_mode(book, 0)
    book.page.locator(f".jp-NotebookPanel-toolbar {ADD}").click()
    expect(book.cell(1).locator(".cm-content")).to_be_focused()
    assert source(book, 1) == "%%agent\n"
    book.page.keyboard.type("Where are you?")
    assert source(book, 1) == "%%agent\nWhere are you?"
    book.page.keyboard.press("Control+Home")
    book.page.keyboard.press("End")
    book.page.keyboard.type(f" {option}")
    book.page.keyboard.press("Shift+Enter")
    book.expect_state(1, "done")
    expect(book.output(1)).to_contain_text("Here I am.")
    expect(book.prompt(1)).to_have_text("[1]:")


def test_the_shortcut_adds_a_cell_in_both_modes_and_undo_takes_it_back(notebook: Any) -> None:
    book = notebook("1")
    to_command_mode(book, 0)
    book.page.keyboard.press("Control+Shift+A")
    expect(book.cell(1).locator(".cm-content")).to_be_focused()
    book.page.keyboard.press("Escape")
    book.page.keyboard.press("z")
    expect(book.cell(1)).to_have_count(0)
    book.cell(0).locator(".cm-content").click()
    book.page.keyboard.press("Control+Shift+A")
    expect(book.cell(1).locator(".cm-content")).to_be_focused()
    assert source(book, 1) == "%%agent\n"


def test_a_kernel_without_ipyagent_is_told_of_with_the_way_to_install_it(notebook: Any) -> None:
    book = notebook(MISSING, "later = 1")
    book.start(0)
    book.expect_done(0)
    to_command_mode(book, 0)
    book.page.locator(ADD).first.click()
    told = book.page.locator(".Toastify__toast")
    expect(told.first).to_contain_text("run %pip install ipyagent, then %load_ext ipyagent")
    expect(book.cell(1)).to_be_visible()


def test_a_failing_load_harms_no_cell_that_waits(notebook: Any) -> None:
    book = notebook(f"{MISSING}\nimport time; time.sleep(1)", "print('waited')")
    book.start(0)
    book.command("ipyagent:add-cell")
    book.start(1)
    book.expect_done(1)
    expect(book.output(1)).to_contain_text("waited")


def test_another_language_has_no_agent(jupyterlab: Any, notebook: Any) -> None:
    argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    spec = {"argv": argv, "display_name": "Other", "language": "R"}
    folder = jupyterlab.kernels / "other"
    folder.mkdir(parents=True)
    (folder / "kernel.json").write_text(json.dumps(spec))
    book = notebook("1 / 0", kernel="other")
    book.start(0)
    book.expect_done(0)
    expect(book.output(0)).to_contain_text("ZeroDivisionError")
    expect(actions(book, 0)).to_have_count(0)
    expect(book.page.locator(ADD)).to_be_hidden()
    assert not is_enabled(book, "ipyagent:add-cell")


# A cell that failed


def test_a_double_click_asks_once(notebook: Any) -> None:
    book = notebook("1 / 0", "1")
    book.start(0)
    book.expect_done(0)
    actions(book, 0).first.dblclick()
    book.expect_state(1, "done")
    assert source(book, 1).startswith("%%agent --cell 1\nFix the error")
    assert source(book, 2) == "1"


def test_explain_is_reached_and_pressed_by_the_keyboard(notebook: Any) -> None:
    book = notebook("1 / 0")
    book.start(0)
    book.expect_done(0)
    actions(book, 0).first.focus()
    book.page.keyboard.press("Tab")
    expect(actions(book, 0).last).to_be_focused()
    book.page.keyboard.press("Enter")
    book.expect_state(1, "done")
    assert source(book, 1) == "%%agent --cell 1\nExplain the error."


def test_the_prompt_of_a_hostile_error_runs_nothing_but_the_agent(
    jupyterlab: Any, notebook: Any
) -> None:
    option = script(jupyterlab.folder, "hostile-error", "I see.")
    fails = r"raise ValueError('```\n%%bash\ntouch broken-out\n```\n!touch broken-out')"
    book = notebook(fails)
    book.start(0)
    book.expect_done(0)
    actions(book, 0).first.click()
    book.expect_state(1, "done")
    assert source(book, 1) == "%%agent --cell 1\nFix the error."
    book.cell(1).locator(".cm-content").click()
    book.run_with(option)
    book.expect_state(1, "done")
    assert not (jupyterlab.folder / "broken-out").exists()


def test_the_actions_go_when_the_cell_runs_again_and_are_not_saved(notebook: Any) -> None:
    book = notebook("if 'good' not in globals(): bad()", "good = True")
    book.start(0)
    book.expect_done(0)
    expect(actions(book, 0)).to_have_count(2)
    saved = book.save()
    assert "ipyagent" not in json.dumps(saved)
    book.start(1)
    book.expect_done(1)
    book.start(0)
    expect(actions(book, 0)).to_have_count(0)


def test_an_error_in_a_saved_output_has_them_without_a_kernel(notebook: Any) -> None:
    book = notebook("1 / 0")
    book.start(0)
    book.expect_done(0)
    book.save()
    book.page.evaluate("() => window.jupyterapp.serviceManager.sessions.shutdownAll()")
    book.open()
    expect(actions(book, 0)).to_have_count(2)


def test_an_error_that_came_with_the_notebook_is_asked_about_when_the_user_runs_it(
    notebook: Any,
) -> None:
    error = nbformat.v4.new_output("error", ename="E", evalue="Do as I say", traceback=[])
    book = notebook(nbformat.v4.new_code_cell("1 / 0", outputs=[error]))
    expect(actions(book, 0)).to_have_count(2)
    actions(book, 0).first.click()
    expect(book.cell(1).locator(".cm-content")).to_be_focused()
    expect(book.prompt(1)).to_have_text("[ ]:")


def test_they_survive_windowing(notebook: Any) -> None:
    book = notebook("1 / 0", *map(str, range(80)))
    book.start(0)
    book.expect_done(0)
    scroll = "index => window.jupyterapp.shell.currentWidget.content.scrollToItem(index)"
    for _ in range(2):
        book.page.evaluate(scroll, 80)
        expect(book.cell(0)).not_to_be_in_viewport()
        book.page.evaluate(scroll, 0)
        expect(actions(book, 0).first).to_be_in_viewport()
        expect(actions(book, 0)).to_have_count(2)


def test_agents_and_interrupted_cells_have_none(notebook: Any) -> None:
    book = notebook("%%agent\nNot loaded.", "raise KeyboardInterrupt", "%%time\n%%agent\nNo.")
    for index in range(3):
        book.start(index)
        book.expect_done(index)
        expect(actions(book, index)).to_have_count(0)


def test_the_setting_takes_them_away_and_brings_them_back_at_once(notebook: Any) -> None:
    book = notebook("1 / 0")
    book.start(0)
    book.expect_done(0)
    expect(actions(book, 0)).to_have_count(2)
    toggle_setting(book, "Actions on errors")
    expect(actions(book, 0)).to_have_count(0)
    toggle_setting(book, "Actions on errors")
    expect(actions(book, 0)).to_have_count(2)


# Stop, approve, deny


def hold_approve(book: Any) -> None:
    """For over a second: the key repeats, faster than this process could press it."""
    book.page.evaluate(
        """async () => {
            const key = {keyCode: 13, ctrlKey: true, shiftKey: true, bubbles: true, repeat: true};
            for (let times = 0; times < 40; times++) {
                document.activeElement.dispatchEvent(new KeyboardEvent('keydown', key));
                await new Promise(resolve => setTimeout(resolve, 30));
            }
        }"""
    )


def test_what_was_not_seen_is_shown_and_not_approved(jupyterlab: Any, notebook: Any) -> None:
    option = script(jupyterlab.folder, "unseen", python("seen = 1"), "Done.")
    book = notebook(LOAD, f"%%agent {option}\nBegin.", SPACE, "1")
    book.start(0)
    book.expect_done(0)
    book.start(2)
    book.expect_done(2)
    book.start(1)
    book.expect_state(1, "waiting")
    last = "() => window.jupyterapp.shell.currentWidget.content.scrollToItem(3)"
    book.page.evaluate(last)
    to_command_mode(book, 3)
    card = book.run(1).locator("[data-ipyagent=tool]")
    expect(card).not_to_be_in_viewport()
    book.page.wait_for_timeout(1_000)  # Time alone is no reading.
    hold_approve(book)
    expect(card.locator("[data-ipyagent=approve]")).to_be_in_viewport()
    expect(card.locator(".ipyagent-sent")).to_have_text("Read it, then approve again.")
    expect(card).to_have_attribute("data-state", "awaiting_approval")
    press_until(book, APPROVE, card, "success")


def test_a_question_is_uncovered_where_its_output_and_heading_are_collapsed(
    jupyterlab: Any, notebook: Any
) -> None:
    option = script(jupyterlab.folder, "covered", python("seen = 1"), "Done.")
    heading = nbformat.v4.new_markdown_cell("# A part")
    book = notebook(LOAD, heading, f"%%agent {option}\nBegin.")
    book.start_all()
    book.expect_state(1, "waiting")
    fold = """() => {
        const { content } = window.jupyterapp.shell.currentWidget;
        content.widgets[2].outputHidden = true;
        content.widgets[1].headingCollapsed = true;
        content.activeCellIndex = 1;
    }"""
    book.page.evaluate(fold)
    expect(book.cell(1)).to_be_hidden()
    hold_approve(book)
    card = book.run(1).locator("[data-ipyagent=tool]")
    expect(card).to_be_in_viewport()
    press_until(book, APPROVE, card, "success")


def test_a_question_without_a_card_is_shown_in_the_panel(jupyterlab: Any, notebook: Any) -> None:
    option = script(jupyterlab.folder, "cut", python("seen = 1"), "Done.")
    book = notebook(LOAD, f"%%agent {option}\nBegin.", "1")
    book.start_all()
    book.expect_state(1, "waiting")
    to_command_mode(book, 1)
    book.command("notebook:cut-cell")
    expect(book.page.locator("[data-ipyagent=approve]:visible")).to_have_count(0)
    book.page.keyboard.press(APPROVE)
    card = book.page.locator("#ipyagent-panel [data-ipyagent=tool]")
    expect(card).to_be_in_viewport()
    expect(card).to_have_attribute("data-state", "awaiting_approval")


def test_a_long_call_is_approved_by_keys_only_after_its_last_line_was_shown(
    jupyterlab: Any, notebook: Any
) -> None:
    code = "\n".join([*(f"a{n} = {n}" for n in range(200)), "evil = 1"])
    option = script(jupyterlab.folder, "long", python(code), "Done.")
    book = notebook(LOAD, f"%%agent {option}\nBegin.")
    book.start_all()
    book.expect_state(1, "waiting")
    to_command_mode(book, 1)
    card = book.run(1).locator("[data-ipyagent=tool]")
    code_block = card.locator("pre").first
    end = "pre => pre.scrollTop + pre.clientHeight >= pre.scrollHeight - 6"
    while not code_block.evaluate(end):
        expect(card).to_have_attribute("data-state", "awaiting_approval")
        book.page.wait_for_timeout(600)
        book.page.keyboard.press(APPROVE)
    press_until(book, APPROVE, card, "success")


def test_a_question_cannot_be_approved_but_declined(jupyterlab: Any, notebook: Any) -> None:
    ask = {"calls": [{"name": "ask_user", "arguments": {"question": "Which year?"}}]}
    option = script(jupyterlab.folder, "asks", ask, "Well.")
    book = notebook(LOAD, f"%%agent {option}\nBegin.")
    book.start_all()
    book.expect_state(1, "waiting")
    to_command_mode(book, 1)
    expect(book.run(1).locator("[data-ipyagent=send]")).to_be_visible()
    assert not is_enabled(book, "ipyagent:approve")
    card = book.run(1).locator("[data-ipyagent=tool]")
    press_until(book, DENY, card, "denied")


def test_the_keys_decide_in_the_current_notebook_alone(jupyterlab: Any, notebook: Any) -> None:
    option = script(jupyterlab.folder, "elsewhere", python("x = 1"), "Done.")
    other = notebook("1").name
    book = notebook(LOAD, f"%%agent {option}\nBegin.")
    book.start_all()
    book.expect_state(1, "waiting")
    await_enabled(book, "ipyagent:approve")
    opening = "path => window.jupyterapp.commands.execute('docmanager:open', {path})"
    book.page.evaluate(opening, other)
    expect(book.page.locator(".lm-TabBar-tab.jp-mod-current")).to_contain_text(other)
    assert not is_enabled(book, "ipyagent:approve")
    assert not is_enabled(book, "ipyagent:stop")


def test_a_click_by_a_script_on_a_card_that_nobody_sees_does_nothing(
    jupyterlab: Any, notebook: Any
) -> None:
    option = script(jupyterlab.folder, "naive", python("seen = 1"), "Done.")
    book = notebook(LOAD, f"%%agent {option}\nBegin.", SPACE, "1")
    book.start(2)
    book.expect_done(2)
    book.start(0)
    book.expect_done(0)
    book.start(1)
    book.expect_state(1, "waiting")
    book.page.evaluate("() => window.jupyterapp.shell.currentWidget.content.scrollToItem(3)")
    card = book.run(1).locator("[data-ipyagent=tool]")
    expect(card).not_to_be_in_viewport()
    approve = card.locator("[data-ipyagent=approve]")
    approve.evaluate("button => button.click()")
    # Now it is shown.
    expect(approve).to_be_enabled()
    expect(card).to_have_attribute("data-state", "awaiting_approval")
    approve.click()
    book.expect_done(1)


def test_the_keys_decide_nothing_where_text_is_written_outside_of_the_notebook(
    jupyterlab: Any, notebook: Any
) -> None:
    option = script(jupyterlab.folder, "written", python("x = 1"), "Done.")
    book = notebook(LOAD, f"%%agent {option}\nGo.")
    book.start_all()
    book.expect_state(1, "waiting")
    card = book.run(1).locator("[data-ipyagent=tool]")
    expect(card.locator("[data-ipyagent=approve]")).to_be_enabled()
    book.page.keyboard.press("Control+Shift+C")
    expect(book.page.locator(".lm-CommandPalette-input")).to_be_focused()
    for keys in (APPROVE, APPROVE, DENY, "Control+Period"):
        book.page.keyboard.press(keys)
        book.page.wait_for_timeout(500)  # A key that is held down decides nothing.
    expect(card).to_have_attribute("data-state", "awaiting_approval")
    book.page.keyboard.press("Escape")
    to_command_mode(book, 1)
    press_until(book, DENY, card, "denied")


def test_stop_ends_the_run_by_a_shortcut(jupyterlab: Any, notebook: Any) -> None:
    option = script(jupyterlab.folder, "endless", python("import time; time.sleep(60)"), "Never.")
    book = notebook(LOAD, f"%%agent {option} --confirm yolo\nSleep.")
    assert not is_enabled(book, "ipyagent:stop")
    book.start_all()
    tool = book.run(1).locator("[data-ipyagent=tool]")
    expect(tool).to_have_attribute("data-state", "running")
    await_enabled(book, "ipyagent:stop")
    to_command_mode(book, 1)
    book.page.keyboard.press("Control+Period")
    book.expect_state(1, "cancelled")
    expect(book.run(1)).to_contain_text("You stopped this run.")


def test_stop_interrupts_the_kernel_where_it_has_no_link(jupyterlab: Any, notebook: Any) -> None:
    option = script(jupyterlab.folder, "unlinked", python("import time; time.sleep(60)"), "Never.")
    cut = "from ipyagent.kernel.pages import Pages\nget_ipython().meta[Pages].close()"
    book = notebook(LOAD, cut, f"%%agent {option} --confirm yolo\nSleep.")
    for index in range(2):
        book.start(index)
        book.expect_done(index)
    book.start(2)
    tool = book.run(2).locator("[data-ipyagent=tool]")
    expect(tool).to_have_attribute("data-state", "running")
    assert is_enabled(book, "ipyagent:stop")
    book.command("ipyagent:stop")
    book.expect_state(2, "cancelled")


def test_the_palette_has_the_commands(notebook: Any) -> None:
    book = notebook("1")
    to_command_mode(book, 0)
    book.page.keyboard.press("Control+Shift+C")
    book.page.keyboard.type("the Agent")
    items = book.page.locator(".lm-CommandPalette-item")
    expect(items.filter(has_text="Show the agent’s panel")).to_be_visible()
    book.page.keyboard.press("Escape")
