"""Sessions and their traces in JupyterLab: a restart, a killed kernel, the graph, a countdown."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import expect
from test_agent_cells import LOAD, python, script

pytestmark = pytest.mark.browser


@pytest.mark.spec("P10", "P06", "H26")
def test_a_session_survives_its_kernel_and_a_broken_run_is_told(
    jupyterlab: Any, notebook: Any
) -> None:
    dies = "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)"
    first = script(jupyterlab.folder, "lives", "I will remember **that**.")
    second = script(jupyterlab.folder, "dies", python(dies, text="This may end badly."))
    third = script(jupyterlab.folder, "goes_on", "You said: *remember 42*.")
    book = notebook(
        LOAD,
        f"%%agent {first}\nRemember 42.",
        f"%%agent {second} --confirm yolo\nDo something rash.",
        LOAD,
        f"%%agent {third}\nWhat did I say?",
        "%agent runs",
        "%agent session graph",
    )
    for index in (0, 1):
        book.start(index)
        book.expect_done(index)
    book.start(2)
    # JupyterLab says that the kernel died, and has started another by then.
    dialog = book.page.locator(".jp-Dialog")
    expect(dialog).to_contain_text("restart", timeout=30_000)
    dialog.locator("button.jp-mod-accept").click()
    book.ready()
    for index in (3, 4, 5, 6):
        book.start(index)
        book.expect_done(index)
    expect(book.run(4)).to_contain_text("The kernel ended while run")
    expect(book.run(4)).to_contain_text("remember 42")
    expect(book.output(5)).to_contain_text("failed")
    expect(book.output(6).locator("img")).to_be_visible()
    book.output(6).scroll_into_view_if_needed()
    book.shot("session-graph")


@pytest.mark.spec("M01", "A08")
def test_a_retry_counts_down_and_can_be_stopped(jupyterlab: Any, notebook: Any) -> None:
    (jupyterlab.folder / "config.yaml").write_text("llm: {retry: {initial_delay: 30}}")
    option = script(
        jupyterlab.folder, "retry", {"error": {"kind": "unavailable", "message": "Overloaded."}}
    )
    book = notebook(LOAD, f"%%agent {option} --config config.yaml\nBegin.")
    book.start_all()
    card = book.run(1)
    expect(card).to_contain_text("Overloaded.")
    expect(card).to_contain_text("in 28 s")
    book.shot("countdown")
    card.locator("[data-ipyagent=stop]").click()
    book.expect_done(1)
    book.expect_state(1, "cancelled")
