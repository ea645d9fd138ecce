"""Agent cells that are run again in JupyterLab, in a new kernel and in the same one."""

from __future__ import annotations

from typing import Any

import nbformat
import pytest
from playwright.sync_api import expect
from scripted_notebooks import LOAD, PANEL, decide, expect_ended, python, script
from user_actions import DECISIONS

from conftest import Lab, Notebook

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(180)]

RESTART = f"() => {PANEL}.sessionContext.session.kernel.restart()"


def test_run_all_in_a_new_kernel_replays_and_asks_nothing(jupyterlab: Lab, notebook: Any) -> None:
    option = script(
        jupyterlab.folder, "replayed", python("answer = 6 * 7\nanswer"), "It is **42**."
    )
    book: Notebook = notebook(LOAD, f"%%agent {option}\nCompute.", "print('order', answer)")
    book.start_all()
    book.expect_state(1, "waiting")
    decide(book, 1, "approve")
    book.expect_done(2)
    expect_ended(book, 1)
    book.shot("replay-recorded")
    book.page.evaluate(RESTART)
    book.ready()
    book.start_all()
    expect(book.run(1)).to_contain_text("Replayed")
    book.expect_done(2)
    book.expect_state(1, "done")
    expect(book.run(1)).to_contain_text("It is 42.")
    expect(book.output(2)).to_contain_text("order 42")
    book.shot("replay-replayed")
    saved = expect_ended(book, 1)
    assert saved["replayed"]["model"] == "scripted/replayed.yaml"
    book.start(1)
    book.expect_state(1, "waiting")
    decide(book, 1, "approve")
    book.expect_state(1, "done")
    expect(book.run(1)).not_to_contain_text("Replayed")


def test_a_recording_of_somebody_else_is_asked_about_as_one_plan(
    jupyterlab: Lab, notebook: Any
) -> None:
    option = script(
        jupyterlab.folder, "stranger", python("theirs = 1"), python("more = 2"), "Done."
    )
    book: Notebook = notebook(LOAD, f"%%agent {option}\nBegin.", "print(theirs + more)")
    book.start_all()
    for _ in range(2):
        book.expect_state(1, "waiting")
        decide(book, 1, "approve")
    book.expect_done(2)
    expect_ended(book, 1)
    elsewhere = jupyterlab.folder / "elsewhere"
    elsewhere.mkdir()
    there = elsewhere / book.name
    nbformat.write(book.save(), there)
    other = Notebook(jupyterlab, book.page, f"elsewhere/{book.name}").open().ready()
    other.start_all()
    other.expect_state(1, "waiting")
    other.shot("replay-stranger")
    expect(other.run(1)).to_contain_text("theirs = 1")
    expect(other.run(1)).to_contain_text("more = 2")
    expect(other.run(1)).to_contain_text("was not made by you in this folder")
    decide(other, 1, "approve")
    other.expect_done(2)
    expect(other.output(2)).to_contain_text("3")
    expect(other.run(1).locator(DECISIONS)).to_have_count(0)
    expect(other.run(1)).not_to_contain_text("when it was recorded")
    expect_ended(other, 1)
    book.page.evaluate(RESTART)
    other.ready().start_all()
    expect(other.run(1)).to_contain_text("when it was recorded")
    other.expect_done(2)
    other.shot("replay-stranger-done")
