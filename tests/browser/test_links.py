"""The page and the kernel find each other, beside the cells' widgets."""

from __future__ import annotations

from typing import Any

import pytest
from deciding import press
from held_messages import HeldMessages
from playwright.sync_api import expect
from scripts import LOAD, python, script

pytestmark = [pytest.mark.browser, pytest.mark.slow]

PAGES = """\
import asyncio
from ipyagent.kernel.pages import Pages
while not get_ipython().meta[Pages].all():
    await asyncio.sleep(0.05)
print([page.notebooks for page in get_ipython().meta[Pages].all()])"""

WIDGETS_HAVE_A_SUBSHELL = """() => {
    const {kernel} = window.jupyterapp.shell.currentWidget.sessionContext.session;
    const comms = [...kernel._comms.values()].filter(each => each.targetName === 'jupyter.widget');
    return comms.length > 0 && comms.every(each => each.subshellId !== null);
}"""


def test_a_request_of_the_kernel_that_the_page_does_not_know_comes_back_as_an_error(notebook: Any):
    ask = """\
import concurrent.futures
page = get_ipython().meta[Pages].all()[0]
with concurrent.futures.ThreadPoolExecutor(1) as pool:
    future = pool.submit(page.request, "dance")
    print(type(future.exception()).__name__, future.exception())"""
    book = notebook("%load_ext ipyagent", PAGES, ask)
    for index in range(3):
        book.start(index)
        book.expect_done(index)
    expect(book.output(2)).to_contain_text("PageError this version of the page cannot do dance")


@pytest.mark.spec("P23")
def test_a_click_arrives_though_the_card_before_was_gone_before_its_subshell_was_there(
    jupyterlab: Any, notebook: Any
) -> None:
    quick = script(jupyterlab.folder, "quick", "Done.")
    asks = script(jupyterlab.folder, "asks", python("a = 1"), "Done.")
    book = notebook(LOAD, f"%%agent {quick}\nBegin.", f"%%agent {asks}\nBegin.", ready=False)
    # The kernel takes its time to make a subshell.
    subshells = HeldMessages(book.page, b"create_subshell_reply")
    book.open().ready().start(0)
    book.expect_done(0)
    expect(book.page.locator("[data-ipyagent=status]")).to_be_visible()
    subshells.begin()
    book.start(1)
    book.expect_state(1, "done")
    book.start(2)
    book.expect_state(2, "waiting")
    subshells.end()
    book.page.wait_for_function(WIDGETS_HAVE_A_SUBSHELL)
    press(book.run(2).locator("[data-ipyagent=approve]"))
    book.expect_state(2, "done")
