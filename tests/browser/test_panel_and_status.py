"""The side panel, the status bar and notifications, in JupyterLab."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import nbformat
import pytest
from playwright.sync_api import Page, expect
from scripted_notebooks import LOAD, Side, call, plan, script, writing
from test_never_lost import THEMES, in_theme
from user_actions import press, source, where_asked

pytestmark = [pytest.mark.browser, pytest.mark.slow]

STUB = """() => {
    window.told = [];
    window.Notification = class extends EventTarget {
        static permission = 'default';
        static async requestPermission() {
            window.Notification.permission = 'granted';
            return 'granted';
        }
        constructor(title, options) {
            super();
            window.told.push({ title, options, closed: false, self: this });
            this.number = window.told.length - 1;
        }
        close() { window.told[this.number].closed = true; }
    };
}"""

ACTIVE = re.compile(r"\bjp-mod-active\b")

THEME = "(theme) => window.jupyterapp.commands.execute('apputils:change-theme', { theme })"


@pytest.fixture
def folder(jupyterlab: Any) -> Any:
    return jupyterlab.folder


def open_beside(page: Page, folder: Any, name: str, *sources: str) -> None:
    """Another notebook in the same page, current from now on."""
    cells = [nbformat.v4.new_code_cell(source) for source in sources]
    meta = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=meta), folder / name)
    page.evaluate(
        """async (path) => {
            const { commands } = window.jupyterapp;
            const panel = await commands.execute('docmanager:open', { path });
            await panel.context.ready;
            await panel.sessionContext.ready;
            await panel.sessionContext.session.kernel.info;
        }""",
        name,
    )


def bring_up(page: Page, name: str) -> None:
    page.locator(".lm-DockPanel-tabBar .lm-TabBar-tab", has_text=name[:20]).click()


def test_the_panel_follows_the_notebook_that_is_current(folder: Any, notebook: Callable[..., Any]):
    first = notebook(LOAD, f"%%agent {writing(folder, 'one')}\nMake one.")
    page, side = first.page, Side(first.page).open()
    first.start_all()
    expect(side.approvals).to_contain_text("Make one.")
    open_beside(page, folder, "second.ipynb", LOAD, f"%%agent {writing(folder, 'two')}\nMake two.")
    expect(side.approvals).to_have_count(0)
    expect(side.element).to_contain_text("second.ipynb")
    expect(side.status).to_be_hidden()
    first.start_all()
    expect(side.approvals).to_contain_text("Make two.")
    expect(page).to_have_title(re.compile(r"^\(2\) "))
    press(where_asked(page))
    expect(side.status).to_have_text("ipyagent: scripted/two.yaml · done")
    bring_up(page, first.name)
    expect(side.approvals).to_contain_text("Make one.")
    expect(side.status).to_have_text("ipyagent: scripted/one.yaml · waiting for you")
    press(where_asked(page))
    expect(side.status).to_have_text("ipyagent: scripted/one.yaml · done")
    expect(side.runs).to_contain_text("Make one.")


def test_a_run_leads_to_its_cell_until_the_cell_is_gone(folder: Any, notebook: Callable[..., Any]):
    option = script(folder, "short", "Done.")
    fillers = ["print('\\n'.join(map(str, range(60))))"] * 5
    book = notebook(LOAD, f"%%agent {option}\nJust say so.", *fillers)
    page, side = book.page, Side(book.page).open()
    book.start_all()
    book.expect_done(6)
    expect(side.runs).to_have_count(1)
    page.evaluate("() => window.jupyterapp.shell.currentWidget.content.scrollToItem(6, 'end')")
    expect(book.cell(1)).not_to_be_in_viewport()
    side.press("jump", side.runs)
    expect(book.cell(1)).to_be_in_viewport()
    expect(book.cell(1)).to_have_class(ACTIVE)
    book.command("notebook:delete-cell")
    expect(side.runs).to_contain_text("its cell is gone")
    expect(side.runs.locator("[data-ipyagent=jump]")).to_have_count(0)
    book.command("notebook:undo-cell-action")
    expect(side.runs.locator("[data-ipyagent=jump]")).to_have_count(1)
    side.status.click()
    expect(side.element).to_be_focused()
    page.keyboard.press("Tab")
    book.shot("panel-jump")


def test_a_plan_that_no_cell_asks_about_is_decided_on_in_a_new_cell(
    folder: Any, notebook: Callable[..., Any]
):
    option = script(folder, "later", plan("later"))
    book = notebook(LOAD, f"%%agent {option} --plan\nSummarise.", "print('words', words)")
    side = Side(book.page).open()
    book.start(0)
    book.start(1)
    expect(side.approvals).to_have_count(1)
    expect(side.approvals.locator("[data-ipyagent=approve]")).to_have_count(0)
    book.command("notebook:interrupt-kernel")
    book.expect_done(1)
    expect(side.approvals).to_contain_text("# Summary")
    expect(side.approvals.locator("[data-ipyagent=edit]")).to_have_count(0)
    book.shot("panel-plan")
    restart(book)
    expect(side.element).to_contain_text("No agent yet")
    book.start(0)
    expect(side.approvals).to_contain_text("# Summary")
    expect(side.status).to_contain_text("waiting for you")
    side.press("approve", side.approvals)
    book.expect_done(2)
    expect(book.cell(2)).to_contain_text("%agent approve ")
    expect(side.approvals).to_have_count(0)
    expect(side.section("plan")).to_contain_text("2 of 2 done")
    book.start(3)
    expect(book.output(3)).to_contain_text("words 5")
    book.shot("panel-plan-done")


@pytest.mark.spec("P25")
def test_a_plan_in_the_background_is_followed_and_stopped_while_other_cells_run(
    folder: Any, notebook: Callable[..., Any]
):
    wait = "while [ ! -e go.txt ]; do sleep 0.05; done"
    steps = [call("run_shell", command=wait), call("write_file", path="behind.md", content="x")]
    option = script(folder, "behind", {"text": "Wait.", "calls": steps})
    cell = f"%%agent {option} --plan --background\nWait, and write."
    switch = "%agent config tools.shell=true"
    book = notebook(LOAD, switch, cell, "print('meanwhile', 6 * 7)", cell)
    side = Side(book.page).open()
    for index in range(4):
        book.start(index)
    expect(side.approvals).to_have_count(1)
    press(where_asked(book.page))
    book.expect_done(2)
    expect(book.output(3)).to_contain_text("meanwhile 42")
    card = book.run(2).nth(1)
    expect(card).to_have_attribute("data-state", "running")
    expect(side.section("plan")).to_contain_text("0 of 2 done")
    expect(side.status).to_contain_text("step 1 of 2")
    assert not (folder / "behind.md").exists()
    book.shot("panel-plan-behind")
    (folder / "go.txt").touch()
    expect(card).to_have_attribute("data-state", "done")
    expect(card).to_contain_text("2 of 2 steps done")
    expect(side.section("plan")).to_contain_text("2 of 2 done")
    expect(side.status).to_contain_text("done")
    (folder / "go.txt").unlink()
    book.start(4)
    press(where_asked(book.page))
    book.expect_done(4)
    stopped = book.run(4).nth(1)
    expect(stopped).to_have_attribute("data-state", "running")
    row = side.runs.locator(".ia-row:has([data-ipyagent=stop])")
    words, button = (row.locator(part) for part in (".ia-words", "[data-ipyagent=stop]"))
    ends = [each.bounding_box() for each in (words, button)]
    assert ends[0]["x"] + ends[0]["width"] <= ends[1]["x"], "the button stands beside the words"
    side.press("stop", side.runs)
    expect(stopped).to_have_attribute("data-state", "cancelled")
    expect(side.status).to_contain_text("cancelled")


def restart(book: Any) -> None:
    book.page.evaluate(
        """async () => {
            const { sessionContext } = window.jupyterapp.shell.currentWidget;
            await sessionContext.session.kernel.restart();
            await sessionContext.session.kernel.info;
        }"""
    )


def test_when_the_kernel_restarts_nothing_can_be_approved(
    folder: Any, notebook: Callable[..., Any]
):
    book = notebook(LOAD, f"%%agent {writing(folder, 'gone')}\nMake something.")
    side = Side(book.page).open()
    book.start_all()
    expect(side.approvals).to_have_count(1)
    restart(book)
    expect(side.approvals).to_have_count(0)
    expect(side.status).to_be_hidden()
    expect(book.page).not_to_have_title(re.compile(r"^\("))


def test_another_session_goes_on_at_a_click(folder: Any, notebook: Callable[..., Any]):
    option = script(folder, "sessions", "Done.", "Done again.")
    ask = f"%%agent {option}\nSay so."
    book = notebook(LOAD, ask, "%agent session new another", ask, "%agent session list")
    side = Side(book.page).open()
    for index in range(4):
        book.start(index)
        book.expect_done(index)
    current = side.section("sessions").locator(".ia-session-current")
    expect(current).to_contain_text("another")
    expect(side.runs).to_have_count(2)
    mine = side.rows("sessions").filter(has_text=book.name)
    side.press("resume", mine)
    expect(current).to_contain_text(book.name)
    expect(book.page.locator(".Toastify__toast")).to_contain_text(f"goes on with {book.name}")
    expect(side.runs).to_have_count(2)
    book.start(4)
    expect(book.output(4)).to_contain_text(book.name)
    assert not any("resume" in cell.source for cell in book.save().cells)
    book.shot("panel-sessions")


@contextmanager
def in_the_background(page: Page) -> Iterator[None]:
    """Another page is in front, and this one knows it; it draws nothing meanwhile."""
    session = page.context.new_cdp_session(page)
    session.send("Emulation.setFocusEmulationEnabled", {"enabled": False})
    other = page.context.new_page()
    other.bring_to_front()
    assert not page.evaluate("() => document.hasFocus()")
    yield
    other.close()
    page.bring_to_front()
    session.send("Emulation.setFocusEmulationEnabled", {"enabled": True})


def await_title(page: Page, beginning: str) -> None:
    """Wait for the page's title; a page in the background has no frames to wait for."""
    page.wait_for_function(
        "(beginning) => document.title.startsWith(beginning)", arg=beginning, polling=50
    )


def titles(page: Page) -> list[str]:
    """Those of the notifications so far."""
    return page.evaluate("() => window.told.map(each => each.title)")


def test_a_notification_tells_of_an_approval_while_the_page_is_in_the_background(
    folder: Any, notebook: Callable[..., Any]
):
    first, second = (call("run_python", code=f"{name} = 'private'") for name in ("one", "two"))
    option = script(folder, "away", {"calls": [first]}, {"calls": [second]}, "Done.")
    book = notebook(LOAD, f"%%agent {option}\nBegin.", "print('a cell to be in')")
    page, side = book.page, Side(book.page).open()
    page.evaluate(STUB)
    with in_the_background(page):
        book.start_all()
        await_title(page, "(1) ")
        assert titles(page) == []  # nobody has allowed it
    side.press("enable-notifications")
    expect(side.find("enable-notifications")).to_be_hidden()
    assert titles(page) == []
    approve = where_asked(page)
    expect(approve).to_be_enabled()
    with in_the_background(page):
        approve.evaluate("button => button.click()")
        page.wait_for_function("() => window.told.length > 0", polling=50)
        assert titles(page) == [f"ipyagent asks: run_python in {book.name}"]
    expect(book.cell(2)).to_have_class(ACTIVE)
    page.evaluate("() => window.told[0].self.onclick()")
    expect(book.cell(1)).to_have_class(ACTIVE)
    press(where_asked(page))
    book.expect_state(1, "done")
    assert titles(page) == [f"ipyagent asks: run_python in {book.name}"]
    assert page.evaluate("() => window.told[0].closed")


def test_notifications_are_a_setting(folder: Any, notebook: Callable[..., Any]):
    option = script(folder, "quiet", {"calls": [call("run_python", code="c = 3")]}, "Done.")
    book = notebook(LOAD, f"%%agent {option}\nBegin.")
    page = book.page
    page.evaluate(STUB)
    page.evaluate("() => window.Notification.requestPermission()")
    press_setting(page, "Notify me")
    try:
        with in_the_background(page):
            book.start_all()
            await_title(page, "(1) ")
            assert titles(page) == []
    finally:
        press_setting(page, "Notify me")
    press(where_asked(page, "deny"))
    book.expect_state(1, "done")
    with in_the_background(page):
        book.start_all()
        page.wait_for_function("() => window.told.length === 1", polling=50)


def press_setting(page: Page, name: str) -> None:
    """Change a setting as a person does, and wait until it is saved."""
    page.evaluate(
        "() => window.jupyterapp.commands.execute('settingeditor:open', { query: 'ipyagent' })"
    )
    with page.expect_response(lambda answer: "/api/settings/ipyagent" in answer.url):
        page.locator(".jp-SettingsForm").get_by_role("checkbox", name=name).click()
    page.evaluate("() => window.jupyterapp.shell.currentWidget.close()")


def test_the_model_of_the_next_prompts_is_chosen_in_the_card_and_the_panel(
    folder: Any, notebook: Callable[..., Any]
):
    option = script(folder, "picked", "From a script.")
    name = option.removeprefix("-m ")
    book = notebook(LOAD, f"%agent model {name}", f"%%agent {option}\nSay something.")
    side = Side(book.page).open()
    book.start_all()
    book.expect_state(2, "done")
    card = book.run(2)
    side.press("model", card)
    models = book.page.locator(".jp-Dialog select")
    expect(models).to_be_focused()
    expect(models.locator("option")).to_have_count(2)
    book.shot("models")
    models.press("ArrowDown")
    models.press("Enter")
    toast = book.page.locator(".Toastify__toast")
    expect(toast.get_by_text("The next prompts go to offline/explorer")).to_be_visible()
    expect(card.locator("[data-ipyagent=model]")).to_be_focused()
    expect(card.locator(".ia-footer > summary")).to_contain_text(name)
    expect(side.find("model")).to_have_text("offline/explorer")
    line = card.locator("[data-ipyagent=follow-up]")
    line.fill("What can you do?")
    line.press("Enter")
    expect(book.run(3)).to_contain_text("deterministic data explorer")
    side.press("model")
    models.select_option(models.locator("option", has_text=name).text_content())
    models.press("Enter")
    expect(side.find("model")).to_have_text(name)
    book.shot("models-panel")


def test_a_notebook_without_runs_has_prompts_that_fit_its_data(
    folder: Any, notebook: Callable[..., Any]
):
    book = notebook(LOAD, "import pandas as pd\nsales = pd.DataFrame({'a': [1.5, 2.5]})", "")
    side = Side(book.page).open()
    book.start(0)
    example = side.find("example")
    request = side.find("request").first
    expect(example.or_(request)).to_be_visible()
    book.start(1)
    expect(request).to_have_text("Profile sales")
    book.shot("start")
    request.click()
    expect(book.run(3)).to_contain_text("sales")
    expect(request).to_have_count(0)


@pytest.mark.parametrize("theme", THEMES)
def test_a_prompt_of_the_panel_is_asked_in_a_cell_at_the_end_of_the_notebook(
    folder: Any, notebook: Callable[..., Any], theme: str
) -> None:
    option = script(folder, "composed", "I see.")
    model = option.removeprefix("-m ")
    setup = f"{LOAD}\nsales_2024 = [1, 2]\nsales_2025 = [3]"
    book = notebook(setup, f"%agent model {model}", "'the last cell'")
    page, side = book.page, Side(book.page).open()
    in_theme(page, theme)
    for index in (0, 1):
        book.start(index)
        book.expect_done(index)
    side.field.click()
    page.keyboard.type("Compare")
    page.keyboard.press("Enter")
    page.keyboard.type("@sales_20")
    completer = page.locator(".jp-Completer:visible")
    expect(completer.locator("li")).to_have_count(2)
    book.shot(f"composer-{theme[11:]}")
    page.keyboard.press("ArrowDown")
    chosen = completer.locator("li.jp-mod-active .jp-Completer-match").text_content()
    page.keyboard.press("Enter")
    expect(completer).to_have_count(0)
    expect(side.field).to_have_text(re.compile(f"^Compare{chosen} ?$"))
    page.keyboard.press("Shift+Enter")
    expect(book.run(3)).to_contain_text("I see.")
    assert source(book, 3) == f"%%agent\nCompare\n{chosen}"
    expect(side.field).to_have_text("")
    expect(book.run(3)).to_be_in_viewport()
    expect(side.runs).to_contain_text("Compare")
    side.press("new-session")
    current = side.section("sessions").locator(".ia-session-current")
    expect(current).to_contain_text("no prompt so far")
    side.field.click()
    page.keyboard.type("Once more.")
    side.press("ask")
    expect(book.run(4)).to_contain_text("I see.")
    expect(current).to_contain_text("Once more.")
    assert len(book.save().cells) == 5
    page.set_viewport_size({"width": 700, "height": 900})
    book.shot(f"panel-{theme[11:]}")


def test_a_variable_is_opened_in_the_panel(folder: Any, notebook: Callable[..., Any]) -> None:
    code = "import pandas as pd\nsales = pd.DataFrame({'qty': [11, 12, 13]})"
    option = script(folder, "made", {"calls": [call("run_python", code=code)]}, "Done.")
    book = notebook(LOAD, f"%%agent {option} --confirm yolo\nMake sales.", "del sales")
    side = Side(book.page).open()
    for index in (0, 1):
        book.start(index)
        book.expect_done(index)
    row = side.rows("variables").filter(has_text="sales")
    row.locator("summary").click()
    expect(row.locator("pre")).to_contain_text("qty")
    expect(row.locator("pre")).to_contain_text("12")
    book.shot("panel-variable")
    book.start(2)
    book.expect_done(2)
    row.locator("summary").click()
    row.locator("summary").click()
    expect(row).to_contain_text("It is gone.")


def test_of_many_sessions_ten_are_listed_and_others_are_found(
    folder: Any, notebook: Callable[..., Any]
) -> None:
    option = script(folder, "many", *["Done."] * 12)
    begin = "\n".join(
        f"get_ipython().run_line_magic('agent', 'session new n{n}')\n"
        f"get_ipython().run_cell_magic('agent', '{option}', 'Prompt number {n}.')"
        for n in range(12)
    )
    book = notebook(LOAD, begin)
    side = Side(book.page).open()
    for index in (0, 1):
        book.start(index)
        book.expect_done(index)
    rows = side.rows("sessions")
    expect(rows).to_have_count(10)
    expect(rows.first).to_contain_text("Prompt number 11.")
    field = side.find("find-session")
    field.fill("number 0")
    found = side.section("sessions").locator(".ipyagent-find li")
    expect(found).to_have_count(1)
    expect(rows.first).to_be_hidden()
    book.shot("panel-found")
    side.press("resume", found)
    current = side.section("sessions").locator(".ia-session-current")
    expect(current.first).to_contain_text("Prompt number 0.")
    field.fill("nothing like it")
    expect(side.section("sessions")).to_contain_text("No session has that")
    field.fill("")
    expect(rows).to_have_count(10)
    expect(rows.first).to_be_visible()
