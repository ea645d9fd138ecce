"""The scenarios of `make test` that only a page can show; all others in this folder are slow.

They share one JupyterLab, one page and, where they can, one notebook and its kernel.
"""

from __future__ import annotations

import base64
import itertools
import re
from pathlib import Path

import nbformat
import pytest
from hostile_strings import AROUND, FOUND, NOTHING, Watch, kept, open_all, settle, strings
from nbconvert import HTMLExporter
from playwright.sync_api import Browser, expect
from scripted_notebooks import (
    BETTER,
    HAS_WIDGETS,
    HOLD,
    LOAD,
    LONG,
    PLOT,
    RUN_JSON,
    Book,
    Side,
    call,
    decide,
    expect_ended,
    listen,
    plan,
    python,
    reload,
    script,
    scroll_away,
    writing,
)
from traffic import MODULE_COLOUR, count_modules
from user_actions import (
    ADD,
    APPROVE,
    DECISIONS,
    DENY,
    actions,
    decide_on_two_cells,
    is_enabled,
    press,
    press_until,
    source,
    the_plan,
    to_command_mode,
)

from conftest import Lab, Make, Notebook, Window, write

pytestmark = [pytest.mark.browser, pytest.mark.same_page]

RESTART = "() => window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()"


@pytest.fixture
def folder(jupyterlab: Lab) -> Path:
    return jupyterlab.folder


# Deciding


def test_approve_by_a_click_while_the_cell_runs(folder: Path, cells: Make) -> None:
    option = script(
        folder,
        "approve",
        python(
            "answer = 6 * 7\nprint('computed', answer)",
            thinking="I should compute.",
            text="Let me compute.",
        ),
        "The answer is **42**.",
    )
    book = cells(LOAD, f"%%agent {option}\nCompute.", "print('order', answer)")
    book.start_all()
    book.expect_state(1, "waiting")
    expect(book.prompt(1)).to_have_text("[*]:")
    card = book.run(1).locator("[data-ipyagent=tool]")
    expect(card).to_have_attribute("data-state", "awaiting_approval")
    expect(card).to_contain_text("answer = 6 * 7")
    expect(book.run(1)).to_contain_text("Let me compute.")
    book.shot("approve-waiting")
    press(card.locator("[data-ipyagent=approve]"))
    book.expect_done(2)
    book.expect_state(1, "done")
    expect(book.run(1).locator("[data-ipyagent=answer]")).to_contain_text("The answer is 42.")
    expect(book.run(1).locator(DECISIONS)).to_have_count(0)
    expect(book.output(2)).to_contain_text("order 42")
    book.shot("approve-done")


def test_deny_with_a_reason(folder: Path, cells: Make) -> None:
    option = script(folder, "deny", python("danger = 1"), "Then I won't.")
    book = cells(LOAD, f"%%agent {option}\nBegin.", "print('danger' in globals())")
    book.start_all()
    book.expect_state(1, "waiting")
    book.run(1).locator("[data-ipyagent=reason]").fill("not on my watch")
    book.run(1).locator("[data-ipyagent=deny]").click()
    book.expect_done(2)
    expect(book.run(1).locator("[data-ipyagent=tool]")).to_have_attribute("data-state", "denied")
    expect(book.run(1)).to_contain_text("not on my watch")
    expect(book.output(2)).to_contain_text("False")


def test_approve_and_deny_by_shortcuts_when_the_call_was_seen(folder: Path, cells: Make) -> None:
    option = script(folder, "keys", python("first = 1"), python("second = 2"), "Done.")
    book = cells(
        LOAD, f"%%agent {option}\nBegin.", "print('first' in globals(), 'second' in globals())"
    )
    assert not is_enabled(book, "ipyagent:approve")
    book.start_all()
    book.expect_state(1, "waiting")
    to_command_mode(book, 1)
    cards = book.run(1).locator("[data-ipyagent=tool]")
    press_until(book, APPROVE, cards.nth(0), "success")
    cards.nth(1).locator("[data-ipyagent=edit]").focus()
    press_until(book, DENY, cards.nth(1), "denied")
    book.expect_done(2)
    expect(book.output(2)).to_contain_text("True False")
    assert not is_enabled(book, "ipyagent:approve")


def test_after_a_click_the_keyboard_works(folder: Path, cells: Make) -> None:
    option = script(folder, "clicked", python("x = 1"), "Done.")
    book = cells(LOAD, f"%%agent {option}\nOne.", f"%%agent {option}\nTwo.")
    book.start_all()
    decide_on_two_cells(book, 1, 2)


def test_a_question_is_answered_by_a_choice_or_in_words(folder: Path, cells: Make) -> None:
    asked = call("ask_user", question="Which year?", choices=["2024", "2025"])
    free = call("ask_user", question="And which region?")
    option = script(folder, "asked", {"calls": [asked]}, {"calls": [free]}, "Thanks.")
    book = cells(LOAD, f"%%agent {option}\nBegin.", "import ipyagent; print(ipyagent.last.results)")
    book.start_all()
    book.expect_state(1, "waiting")
    expect(book.run(1).locator("[data-ipyagent=choice]")).to_have_count(2)
    book.shot("question")
    book.run(1).locator("[data-ipyagent=choice]", has_text="2025").click()
    field = book.run(1).locator("[data-ipyagent=answer-field]")
    field.fill("the <b>North</b>")
    book.run(1).locator("[data-ipyagent=send]").click()
    book.expect_done(2)
    book.expect_state(1, "done")
    expect(book.run(1)).to_contain_text("the <b>North</b>")
    expect(book.output(2)).to_contain_text("2025")


def test_what_is_said_on_a_running_card_reaches_the_model_and_stays(
    folder: Path, cells: Make
) -> None:
    option = script(folder, "said", python("masses = [4200, 3800]"), "Rounded: **4,000 g**.")
    book = cells(LOAD, f"%%agent {option}\nWhat do they weigh?", "print(len(masses))")
    book.start_all()
    card = book.run(1)
    book.expect_state(1, "waiting")
    line = card.locator("[data-ipyagent=say]")
    waiting = card.locator(".ia-unsent [data-ipyagent=user-text]")
    # Keys such as B and D would add and delete cells, if the notebook saw them.
    for text in ("Bad idea", "Rounded, please"):
        line.click()
        line.press_sequentially(text)
        line.press("Enter")
    expect(waiting).to_have_count(2)
    expect(line).to_be_focused()
    book.shot("say-waiting")
    waiting.first.locator("[data-ipyagent=take-back]").click()
    expect(waiting).to_have_count(1)
    press(card.locator("[data-ipyagent=approve]"))
    book.expect_done(2)
    expect(card.locator("[data-ipyagent=user-text]")).to_have_text("You said: Rounded, please")
    expect(line).to_have_count(0)
    expect(book.output(2)).to_contain_text("2")
    book.shot("say-done")
    saved = book.save().cells[1].outputs[-1].data
    assert "Rounded, please" in saved["text/html"]
    assert "Bad idea" not in saved["text/html"]


def test_looking_is_free_and_what_would_change_is_shown_before_it_is_decided(
    folder: Path, cells: Make
) -> None:
    change = python("table['ratio'] = table.a / 2\nopen('note.md', 'w').write('# Note\\n')\ntable")
    option = script(folder, "effects", python("table.a.sum()"), change, "Done.")
    # For this cell alone: other tests go on in this kernel.
    (folder / "looks.yaml").write_text("agent: {look_freely: true}")
    book = cells(
        LOAD,
        "import pandas as pd\ntable = pd.DataFrame({'a': [1, 2, 3]})",
        f"%%agent {option} --config looks.yaml\nBegin.",
        "print(list(table))",
    )
    book.start_all()
    card = book.run(2)
    book.expect_state(2, "waiting")
    look, asked = (card.locator("[data-ipyagent=tool]").nth(n) for n in (0, 1))
    expect(look).to_contain_text("looked")
    effects = asked.locator("[data-ipyagent=effects]")
    expect(effects).to_contain_text("table 3 × 1 → 3 × 2 · + ratio (float64)")
    expect(effects).to_contain_text("created note.md")
    assert not (folder / "note.md").exists()
    for fold in effects.locator("summary").all():
        fold.click()
    expect(effects).to_contain_text("# Note")
    book.shot("effects")
    press(asked.locator("[data-ipyagent=approve]"))
    book.expect_done(3)
    expect(asked).to_contain_text("as rehearsed")
    expect(book.output(3)).to_contain_text("['a', 'ratio']")
    assert (folder / "note.md").read_text() == "# Note\n"
    book.shot("effects-done")


@pytest.mark.spec("P01", "P28", "P30", "P05")
def test_a_plan_is_approved_as_a_whole_and_its_progress_is_seen(folder: Path, cells: Make) -> None:
    option = script(folder, "planned", plan("planned"))
    book = cells(LOAD, f"%%agent {option} --plan\nSummarise.", "print('words', words)")
    book.start_all()
    card = the_plan(book, 1)
    expect(card).to_have_attribute("data-state", "waiting")
    expect(card.locator("[data-ipyagent=plan-step]")).to_have_count(2)
    expect(card).to_contain_text("# Summary")
    expect(card).to_contain_text("words = len(open(")
    assert not (folder / "planned.md").exists()
    expect(card).to_contain_text("path: planned.md")
    book.shot("plan-waiting")
    press(card.locator("[data-ipyagent=approve]"))
    book.expect_done(2)
    expect(card).to_have_attribute("data-state", "done")
    expect(card).to_contain_text("2 of 2 steps done")
    expect(book.run(1).locator(DECISIONS)).to_have_count(0)
    expect(book.output(2)).to_contain_text("words 5")
    book.shot("plan-done")


def test_stop_while_a_tool_blocks_the_main_thread(folder: Path, cells: Make) -> None:
    option = script(folder, "stop", python("import time; time.sleep(300)"), "Never.")
    again = script(folder, "again", "Back.")
    book = cells(LOAD, f"%%agent {option} --confirm yolo\nSleep.", f"%%agent {again}\nAnd now?")
    book.start_all()
    tool = book.run(1).locator("[data-ipyagent=tool]")
    expect(tool).to_have_attribute("data-state", "running")
    book.run(1).locator("[data-ipyagent=stop]").click()
    book.expect_state(1, "cancelled")
    expect(book.run(1)).to_contain_text("You stopped this run.")
    expect(book.output(1).locator("[data-mime-type$=stderr]")).to_have_count(0)
    expect(book.prompt(2)).to_have_text("[ ]:")  # Run All stops there
    book.start(2)
    book.expect_state(2, "done")


# Around the cell


def test_the_panel_leads_to_a_call_that_waits(folder: Path, cells: Make) -> None:
    option = writing(folder, "panel")
    book = cells(LOAD, f"%%agent {option}\nMake something.", "print(made)", LONG, LONG)
    side = Side(book.page).open()
    book.start_all()
    book.expect_state(1, "waiting")
    expect(side.approvals).to_have_count(1)
    scroll_away(book, 4)
    expect(side.approvals).to_contain_text("Make something.run_python")
    expect(side.element.locator("[data-ipyagent=approve]")).to_have_count(0)
    expect(side.section("plan")).to_contain_text("1 of 2 done")
    expect(side.status).to_have_text("ipyagent: scripted/panel.yaml · waiting for you")
    expect(book.page).to_have_title(re.compile(r"^\(1\) "))
    book.shot("panel-waiting")
    side.press("jump", side.approvals)
    expect(book.run(1)).to_be_in_viewport()
    press(book.run(1).locator("[data-ipyagent=approve]"))
    book.expect_state(1, "done")
    expect(book.run(1)).to_contain_text("approved by you")
    book.expect_done(2)
    expect(book.output(2)).to_contain_text("made in panel")
    expect(side.approvals).to_have_count(0)
    run = side.runs.filter(has_text="Make something.")
    expect(run.locator(".ia-glyph.ia-done")).to_have_count(1)
    expect(side.status).to_have_text("ipyagent: scripted/panel.yaml · done")
    expect(book.page).not_to_have_title(re.compile(r"^\("))
    book.shot("panel-done")


def test_a_question_out_of_sight_is_told_of_until_it_is_seen(folder: Path, cells: Make) -> None:
    ask = f"%%agent {writing(folder, 'lost')}\nMake something."
    book = cells(LOAD, HOLD.format(name="lost.txt"), ask, LONG, LONG, "1")
    side = Side(book.page)
    for index in range(3):
        book.start(index)
    scroll_away(book, 5)
    (folder / "lost.txt").touch()
    toast = book.page.locator(".Toastify__toast", has_text="ipyagent asks: run_python in")
    expect(toast).to_contain_text("for “Make something.”")
    expect(side.status).to_contain_text("waiting for you")
    expect(side.tab).to_have_attribute("data-waiting", "1")
    card = book.run(2).locator("[data-ipyagent=tool]").last
    expect(card).not_to_be_in_viewport()
    book.shot("lost-toast")
    toast.get_by_role("button", name="Show").click()
    expect(card.locator("[data-ipyagent=approve]")).to_be_in_viewport()
    expect(toast).to_have_count(0)
    scroll_away(book, 5)
    expect(card).not_to_be_in_viewport()
    side.status.locator("button").click()
    approve = card.locator("[data-ipyagent=approve]")
    expect(approve).to_be_in_viewport()
    expect(approve).to_have_attribute("title", "Approve: run_python (Ctrl+Shift+Enter)")
    press(approve)
    # The keys of the notebook work at once.
    expect(book.cell(2)).to_be_focused()
    book.expect_done(2)
    expect(side.tab).not_to_have_attribute("data-waiting", "1")
    assert book.page.evaluate("() => document.activeElement !== document.body")


def test_code_becomes_cells_and_is_taken_back_in_one_step(folder: Path, cells: Make) -> None:
    option = script(
        folder,
        "kept",
        python("a = 6"),
        python("a / 0"),
        python("b = a * 7"),
        "So:\n\n```python\nprint(b)\n```",
    )
    book = cells(LOAD, f"%%agent {option} --confirm yolo\nCompute.", "'end'")
    book.start(0)
    book.start(1)
    book.expect_state(1, "done")
    book.expect_done(1)
    card = book.run(1)
    card.locator("[data-ipyagent=keep-cells]").click()
    expect(card.locator("[data-ipyagent=keep-cells]")).to_have_text("Inserted below, unverified")
    card.locator("[data-ipyagent=answer] [data-ipyagent=to-cell]").click()
    expect(book.cell(5)).to_contain_text("end")
    first, *rest = [source(book, n) for n in range(2, 6)]
    assert re.match("# Unverified: .*\n# Prompt: Compute.\na = 6$", first)
    assert rest == ["b = a * 7", "So:\n\n```python\nprint(b)\n```", "print(b)"]
    book.shot("to-cell")
    for index in range(2, 5):
        book.start(index)
    expect(book.output(4)).to_contain_text("42")
    book.command("notebook:undo-cell-action")
    book.command("notebook:undo-cell-action")
    assert source(book, 2) == "'end'"
    card.locator(".ia-steps > summary").click()
    card.locator("[data-ipyagent=tool] summary").first.click()
    card.locator("[data-ipyagent=tool] [data-ipyagent=to-cell]").first.click()
    expect(book.cell(2)).to_contain_text("a = 6")
    book.shot("to-cell-call")


def test_an_accepted_edit_is_in_the_cell_and_undone_by_the_notebook(
    jupyterlab: Lab, cells: Make
) -> None:
    here = Book(jupyterlab, cells, "edit", [call("edit_cell", cell=2, source=BETTER)], PLOT)
    here.book.save()
    before = here.file.read_bytes()
    here.ask().waits()
    expect(here.book.cell(2).locator("[data-ipyagent=proposal]")).to_be_visible()
    here.book.shot("edit-proposed")
    here.accept()
    here.expect_sources(BETTER)
    expect(here.proposals()).to_have_count(0)
    here.book.expect_state(1, "done")
    here.book.shot("edit-accepted")
    assert here.file.read_bytes() == before
    here.undo()
    here.expect_sources(PLOT)
    here.redo()
    here.expect_sources(BETTER)
    here.book.save()
    assert "by quarter" in here.file.read_text()


def test_several_changes_in_one_reply_are_reviewed_approved_and_run_together(
    jupyterlab: Lab, cells: Make
) -> None:
    calls = [
        call("write_file", path="one.md", content="# One\n"),
        call("write_file", path="two.md", content="# Two\n"),
        call("edit_cell", cell=3, source="y = x * 21\ny"),
        call("edit_cell", cell=2, source="x = 2"),
    ]
    here = Book(jupyterlab, cells, "review", [calls], "x = 1", "y = x\ny").ask()
    card = here.book.run(1)
    bar = card.locator(".ia-review")
    expect(bar).to_contain_text("4 changes")
    approve_all, opened = bar.locator("[data-ipyagent=approve-all]"), card.locator(".ia-tool[open]")
    for place in range(1, 5):
        expect(bar).to_contain_text(f"{place} of 4")
        expect(opened).to_have_count(1)
        expect(approve_all).to_be_disabled()
        opened.evaluate("part => part.scrollIntoView({ block: 'center' })")
        expect(opened.locator("[data-ipyagent=approve]")).to_be_enabled()
        if place == 2:
            here.book.shot("review")
        if place < 4:
            bar.locator("[data-ipyagent=next]").click()
    assert here.sources() == ["x = 1", "y = x\ny"]
    approve_all.click()
    here.book.expect_state(1, "done")
    here.expect_sources("x = 2", "y = x * 21\ny")
    assert [(jupyterlab.folder / f"{name}.md").exists() for name in ("one", "two")] == [True] * 2
    expect(here.book.prompt(3)).to_have_text("[ ]:")
    card.locator("[data-ipyagent=run-changed]").click()
    expect(here.book.output(3)).to_contain_text("42")
    here.book.shot("run-what-changed")
    for index in (3, 2):
        here.book.prompt(index).click()
        here.book.command("notebook:delete-cell")
    button = card.locator("[data-ipyagent=run-changed]")
    expect(button).to_have_text("Run what changed")
    button.click()
    expect(button).to_have_text("None of these cells is left")


def test_a_change_is_approved_and_run_at_its_cell(jupyterlab: Lab, cells: Make) -> None:
    edit = call("edit_cell", cell=2, source="6 * 7")
    here = Book(jupyterlab, cells, "approve-run", [edit], "6 * 6").ask()
    here.waits()
    here.see()
    here.book.shot("approve-and-run")
    here.proposals().locator("[data-ipyagent=approve-run]").click()
    here.book.expect_state(1, "done")
    expect(here.book.output(2)).to_contain_text("42")


def test_the_menu_of_a_cell_asks_about_it_in_an_agent_cell_below(cells: Make) -> None:
    book = cells("answer = 6 * 7\nanswer", "1")
    book.start(0)
    book.expect_done(0)
    number = book.save().cells[0].execution_count
    book.cell(0).click(button="right")
    book.shot("cell-menu")
    book.page.get_by_role("menuitem", name="Explain This Cell").click()
    book.expect_state(1, "done")
    assert source(book, 1) == f"%%agent --cell {number}\nExplain this cell."
    context = book.save().cells[1].outputs[0].data[RUN_JSON]["context"]
    assert "answer = 6 * 7\nanswer\n-> 42" in context
    book.cell(0).click()
    book.page.keyboard.press("Control+k")
    book.page.keyboard.press("c")
    expect(book.cell(1)).to_contain_text("Change this cell:")
    book.page.keyboard.type("make it 43")
    assert source(book, 1) == f"%%agent --cell {number}\nChange this cell: make it 43"


def test_fix_runs_in_a_cell_below_with_the_users_own_frames(cells: Make) -> None:
    book = cells("import json\nprices = '[1, 2'\njson.loads(prices)", "1")
    book.start_all()
    book.expect_done(0)
    expect(actions(book, 0)).to_have_text(["Fix with agent", "Explain"])
    expect(actions(book, 1)).to_have_count(0)
    book.shot("error-actions")
    actions(book, 0).first.click()
    book.expect_state(1, "done")
    saved = book.save().cells
    assert source(book, 1) == f"%%agent --cell {saved[0].execution_count}\nFix the error."
    context = saved[1].outputs[0].data[RUN_JSON]["context"]
    assert "-> JSONDecodeError: Expecting" in context
    assert "----> 3 json.loads(prices)" in context
    assert "File" not in context.partition("Variables:")[0]
    book.shot("fix-with-agent")
    actions(book, 0).first.click()
    expect(book.page.get_by_text("This was asked before")).to_be_visible()
    assert source(book, 2) == "1"
    follow_up = book.run(1).locator("[data-ipyagent=follow-up]")
    follow_up.fill("What can you do?")
    follow_up.press("Enter")
    book.expect_state(2, "done")
    assert source(book, 2) == "%%agent\nWhat can you do?"
    book.run(2).locator("[data-ipyagent=request]").first.click()
    book.expect_state(3, "done")


def test_a_prompt_that_a_failing_cell_kept_from_running_is_told_and_can_be_run(cells: Make) -> None:
    wait = "import pathlib, time\nwhile not pathlib.Path('go').exists(): time.sleep(0.1)\n1 / 0"
    book = cells("%load_ext ipyagent", "%%agent\nWhat can you do?", wait)
    book.start(0)
    book.start(1)
    book.expect_state(1, "done")
    book.start(2)
    expect(book.prompt(2)).to_have_text("[*]:")
    follow_up = book.run(1).locator("[data-ipyagent=follow-up]")
    follow_up.fill("What can you do?")
    follow_up.press("Enter")
    expect(book.prompt(2)).to_have_text("[*]:")
    (book.lab.folder / "go").touch()
    toast = book.page.locator(".Toastify__toast", has_text="did not run")
    expect(toast).to_contain_text("one that ran before it failed or was stopped")
    expect(book.prompt(2)).to_have_text("[ ]:")
    toast.get_by_role("button", name="Run it").click()
    book.expect_state(2, "done")


def test_a_run_goes_on_after_a_limit_and_is_tried_again_after_a_failure(
    folder: Path, cells: Make
) -> None:
    option = script(folder, "limited", python("a = 1"), "Half of it.")
    limited = f"{option} --max-steps 1 --confirm yolo"
    failing = script(folder, "failing", {"error": {"kind": "refused", "message": "no key"}})
    book = cells(LOAD, f"%%agent {limited}\nMake a.", f"%%agent {failing}\nMake b.")
    book.start_all()
    book.expect_state(1, "partial")
    book.expect_state(2, "failed")
    expect(book.run(1).locator(".ia-ending")).to_contain_text("%agent Continue goes on from here")
    book.shot("ways-on")
    script(folder, "failing", "It is made.")
    book.save()
    book.open()  # the buttons are there by what is saved
    expect(book.run(1).locator("[data-ipyagent=try-again]")).to_have_count(0)
    book.run(2).locator("[data-ipyagent=try-again]").click()
    book.expect_state(2, "done")
    expect(book.run(2).locator("[data-ipyagent=try-again]")).to_have_count(0)
    book.run(1).locator("[data-ipyagent=continue]").click()
    book.expect_state(2, "partial")
    assert source(book, 2) == f"%%agent {limited}\nContinue"
    expect(book.run(1).locator("[data-ipyagent=continue]")).to_be_disabled()


# Saved, and opened again


@pytest.mark.filterwarnings("ignore::DeprecationWarning:nbconvert")
def test_the_transcript_survives_save_reopening_without_a_kernel_and_export(
    folder: Path, cells: Make
) -> None:
    code = "import matplotlib.pyplot as plt\n_ = plt.plot([1, 2, 3])"
    option = script(folder, "survive", python(code, thinking="A line."), "See the **line**.")
    book = cells(LOAD, f"%%agent {option} --confirm yolo\nPlot.")
    book.start_all()
    book.expect_done(1)
    book.expect_state(1, "done")
    saved = book.save()
    assert "application/vnd.jupyter.widget-view+json" not in saved.cells[1].outputs[0].data
    book.page.evaluate("() => window.jupyterapp.serviceManager.sessions.shutdownAll()")
    # Another server's secret: the notebook is not trusted when it is opened again.
    book.open()
    book.expect_state(1, "done")
    expect(book.run(1)).to_contain_text("See the line.")
    expect(book.run(1).locator("img")).to_have_count(1)
    expect(book.run(1).locator(DECISIONS)).to_have_count(0)
    book.shot("reopened")
    book.ready()  # the kernel is new
    book.run(1).locator("[data-ipyagent=follow-up]").fill("And now?")
    book.page.keyboard.press("Enter")
    book.expect_state(2, "done")
    html, _ = HTMLExporter().from_notebook_node(saved)
    exported = book.page.context.new_page()
    exported.route("http*://**", lambda route: route.abort())
    exported.set_content(html, wait_until="domcontentloaded")
    expect(exported.locator("body")).to_contain_text("See the line.")
    expect(exported.locator(".jp-OutputArea-output img")).to_have_count(1)
    expect(exported.locator(".jp-OutputArea-output button")).to_have_count(0)


CHARTS = """\
from IPython.display import Latex, display
display({
    "application/vnd.vegalite.v5+json": {
        "data": {"values": [{"a": 1, "b": 2}]}, "mark": "bar",
        "encoding": {"x": {"field": "a"}, "y": {"field": "b"}},
    },
    "text/plain": "<a chart>",
}, raw=True)
display({"application/vnd.plotly.v1+json": {"data": []}}, raw=True)
display(Latex("$x^2$"))
import ipywidgets
ipywidgets.IntSlider(value=7)"""


def test_numbers_say_where_they_come_from_and_a_replayed_card_asks_the_model_anew(
    folder: Path, cells: Make
) -> None:
    weigh = python("print('Gentoo 5076.016260\\nAdelie 3700.662252')")
    answer = "Gentoos weigh **5,076 g**, 1,375 g more than Adelies with 3,701 g; in all 9,999."
    option = f"{script(folder, 'traced', weigh, answer)} --confirm yolo"
    book = cells(LOAD, f"%%agent {option}\nWeigh.")
    book.start_all()
    book.expect_done(1)
    said = book.run(1).locator("[data-ipyagent=answer]")
    found = said.locator(".ia-traced", has_text="5,076")
    expect(found).to_have_attribute("title", "run_python, step 1, line 1: Gentoo 5076.016260")
    expect(said.locator("[title^='= 5,076 - 3,701 (run_python, step 1']")).to_have_text("1,375")
    expect(said.locator("u")).to_have_text("9,999")
    expect(book.run(1)).to_contain_text("1 number is in no result")
    found.focus()
    book.shot("numbers")
    found.press("Enter")
    measured = book.run(1).locator("[data-ipyagent=tool]")
    expect(measured).to_have_attribute("open", "")
    expect(measured.locator("summary").first).to_be_focused()
    book.shot("source-of-a-number")
    saved = book.save().cells[1].outputs[0].data
    assert ">9,999</u>" in saved["text/html"]
    book.page.evaluate(RESTART)
    book.start_all()
    expect(book.run(1)).to_contain_text("Replayed · recorded")
    expect(said.locator("u")).to_have_text("9,999")
    book.expect_done(1)
    again = book.run(1).locator("[data-ipyagent=ask-anew]")
    book.shot("replayed")
    press(again)
    expect(book.run(1)).not_to_contain_text("Replayed")
    book.expect_done(1)
    book.expect_state(1, "done")
    expect(again).to_have_count(0)


def test_what_code_shows_is_drawn_below_its_card_and_saved(folder: Path, cells: Make) -> None:
    option = script(folder, "charts", python(CHARTS), "All is **below**.")
    book = cells(LOAD, f"%%agent {option} --confirm yolo\nDraw.")
    book.start_all()
    book.expect_state(1, "done")
    shown = book.output(1).locator(".jp-OutputArea-child")
    expect(shown).to_have_count(5)
    expect(shown.nth(0)).to_contain_text("widget, shown below")
    expect(shown.nth(1).locator("canvas, svg, img").first).to_be_visible()
    expect(shown.nth(2)).to_have_text(
        re.compile(r"^\[plotly figure: nothing that draws it")
    )  # no extension for it is installed here
    expect(shown.nth(3).locator(".jp-RenderedLatex, mjx-container").first).to_be_attached()
    expect(shown.nth(4).locator(".widget-slider")).to_be_visible()
    book.shot("charts")
    saved = book.save().cells[1].outputs
    kinds = ("vegalite.v5+json", "plotly.v1+json", "text/latex", "widget-view+json")
    for kind, each in zip(kinds, saved[1:], strict=True):
        assert any(mime.endswith(kind) for mime in each.data), kind
    assert "plotly figure, shown below" in saved[0].data["text/html"]


@pytest.mark.spec("P42", "P23")
def test_a_card_is_back_after_a_reload_a_second_browser_follows_and_both_decide(
    jupyterlab: Lab, cells: Make, chromium: Browser
) -> None:
    replies = python("a = 1", text="Let me compute."), python("b = 2"), "Both, **nearly**."
    book = cells(LOAD, f"%%agent {script(jupyterlab.folder, 'reload', *replies)}\nBegin.")
    book.save()
    book.start_all()
    book.expect_state(1, "waiting")
    lines = listen(book.page)
    reload(book)
    book.expect_state(1, "waiting")
    expect(book.prompt(1)).to_have_text("[*]:")
    expect(book.run(1)).to_contain_text("Let me compute.")
    book.shot("reload-waiting")
    other = Notebook(jupyterlab, chromium.new_page(), book.name).open()
    lines_of_other = listen(other.page)
    other.expect_state(1, "waiting")
    # JupyterLab complains of widgets that go before it has heard of them.
    other.page.wait_for_function(HAS_WIDGETS)
    decide(other, 1, "deny")
    expect(book.run(1).locator("[data-ipyagent=tool]")).to_have_count(2)
    decide(book, 1, "approve")
    for each in (book, other):
        each.expect_state(1, "done")
        expect(each.run(1).locator("[data-ipyagent=tool][data-state=denied]")).to_have_count(1)
        expect(each.run(1).locator("[data-ipyagent=tool][data-state=success]")).to_have_count(1)
        expect(each.run(1)).to_have_count(1)
    assert expect_ended(book, 1)["status"] == "done"
    expect(book.run(1)).to_contain_text("Both, nearly.")
    book.shot("reload-done")
    assert lines() == []
    assert lines_of_other() == []
    other.page.close()


@pytest.mark.spec("P42")
def test_without_the_extension_the_card_is_sent_and_asks_and_no_comm_is_missed(
    jupyterlab: Lab, shared_window: Window, request: pytest.FixtureRequest
) -> None:
    option = script(jupyterlab.folder, "alone", python("a = 1"), "Done.")
    name = write(jupyterlab, request, (LOAD, f"%%agent {option}\nBegin."), "python3")
    page = shared_window.context.new_page()
    page.route("**/extensions/ipyagent/**", lambda route: route.abort())
    modules = count_modules(page)
    book = Notebook(jupyterlab, page, name).open()
    lines = listen(page)
    book.ready().start_all()
    book.expect_state(1, "waiting")
    assert modules() > 0
    assert page.evaluate(MODULE_COLOUR)
    decide(book, 1, "approve")
    book.expect_state(1, "done")
    expect(page.locator("[data-ipyagent=status]")).to_have_count(0)
    assert lines() == []
    page.close()


# Hostile text


@pytest.mark.spec("H17")
def test_a_saved_notebook_draws_hundreds_of_hostile_strings_as_text(
    jupyterlab: Lab, notebook: Make
) -> None:
    book = notebook("1", ready=False)
    before = book.page.evaluate(AROUND)
    watch = Watch(book.page, jupyterlab.url)
    texts = itertools.cycle(strings(400))
    drawn = [each for _ in range(2) for each in kept(texts)]
    outputs = [nbformat.v4.new_output("display_data", each) for each in drawn]
    book = notebook(nbformat.v4.new_code_cell("1", outputs=outputs), ready=False)
    book.page.wait_for_selector("[data-ipyagent=run] >> nth=3", state="attached")
    address = book.page.url
    open_all(book.page)
    settle(book.page)
    assert book.page.evaluate(FOUND, "[data-ipyagent=run]") == NOTHING
    assert book.page.evaluate(AROUND) == before
    assert watch.seen == []
    assert book.page.url == address
    watch.stop()


HOSTILE = [
    '<img src=x onerror="window.pwned=1">',
    "<script>window.pwned=1</script>",
    '<svg onload="window.pwned=1">',
    '<details open ontoggle="window.pwned=1">',
    "[x](javascript:window.pwned=1)",
    "![leak](http://127.0.0.1:9/leak.png)",
    "<button data-ipyagent=approve>Approve</button>",
    '<iframe srcdoc="<script>parent.pwned=1</script>"></iframe>',
    "\x1b]0;pwned\x07 \x1b[31mred",
]


def test_hostile_text_runs_nothing_fetches_nothing_and_forges_no_button(
    jupyterlab: Lab, notebook: Make
) -> None:
    everything = "\n\n".join(HOSTILE)
    option = script(
        jupyterlab.folder,
        "hostile",
        python(f"print({everything!r})", thinking=everything, text=everything),
        {"calls": [{"name": everything[:60], "arguments": {everything: everything}}]},
        everything,
    )
    naive = base64.b64encode(HOSTILE[0].encode()).decode()
    shows = (
        f"import base64; from IPython.display import HTML, display; "
        f"display(HTML(base64.b64decode('{naive}').decode()))"
    )
    book = notebook(LOAD, f"%%agent {option}\nBegin.", shows)
    watch = Watch(book.page, jupyterlab.url)
    book.start(0)
    book.start(1)
    book.expect_state(1, "waiting")
    expect(book.page.locator("[data-ipyagent=approve]")).to_have_count(1)
    press(book.run(1).locator("[data-ipyagent=approve]"))
    book.expect_state(1, "done")
    open_all(book.page)
    settle(book.page)
    expect(book.page.locator("[data-ipyagent=approve]")).to_have_count(0)
    assert not book.page.evaluate("window.pwned")
    assert watch.seen == []
    # The same text in an output of its own does fire: the check above can fail.
    book.start(2)
    book.page.wait_for_function("window.pwned")
    book.page.close()


# Notebook 7


def test_in_notebook_seven_an_error_and_a_new_cell_are_asked_about_and_reopened(
    notebook_seven: Lab, seventh: Make
) -> None:
    mend = script(notebook_seven.folder, "mend", python("fixed = True"), "Mended.")
    compute = script(notebook_seven.folder, "seven", python("answer = 6 * 7"), "It is **42**.")
    book = seventh("1 / 0")
    book.start(0)
    book.expect_done(0)
    book.shot("notebook-seven-error")
    actions(book, 0).first.click()
    book.expect_state(1, "done")
    book.cell(1).locator(".cm-content").click()
    book.run_with(mend)
    book.expect_state(1, "waiting")
    to_command_mode(book, 1)
    press_until(book, APPROVE, book.run(1).locator("[data-ipyagent=tool]"), "success")
    book.expect_state(1, "done")
    book.page.locator(ADD).first.click()
    expect(book.cell(2).locator(".cm-content")).to_be_focused()
    book.page.keyboard.type("Compute.")
    book.run_with(compute)
    book.expect_state(2, "waiting")
    book.shot("notebook-seven")
    press(book.run(2).locator("[data-ipyagent=approve]"))
    book.expect_state(2, "done")
    book.expect_done(2)
    book.save()
    book.page.evaluate("() => window.jupyterapp.serviceManager.sessions.shutdownAll()")
    book.open()
    book.expect_state(2, "done")
    expect(book.run(2)).to_contain_text("It is 42.")
    expect(book.run(2).locator(DECISIONS)).to_have_count(0)
