"""Notebooks whose agents follow scripts, and what users do with them and with the side panel."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml
from playwright.sync_api import Locator, Page, expect
from user_actions import DECISIONS, await_active, press

from conftest import Lab, Notebook

LOAD = "%load_ext ipyagent"


def script(folder: Path, name: str, *replies: Any) -> str:
    """Write a model that gives these replies; return the option that chooses it."""
    (folder / f"{name}.yaml").write_text(yaml.safe_dump(list(replies)))
    return f"-m scripted/{name}.yaml"


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"name": name, "arguments": arguments}


def python(code: str, **more: Any) -> dict[str, Any]:
    """A reply that runs code."""
    return {"calls": [call("run_python", code=code)], **more}


def plan(name: str) -> dict[str, Any]:
    """A reply that proposes a file and code that reads it."""
    return {
        "thinking": "Two steps will do.",
        "text": "1. Write the summary.\n2. Count its words.",
        "calls": [
            call("write_file", path=f"{name}.md", content="# Summary\n\nAll is well.\n"),
            call("run_python", code=f"words = len(open('{name}.md').read().split())\nwords"),
        ],
    }


RUN_JSON = "application/vnd.ipyagent.run+json"


WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"


KNOWN_LINES = (
    "warning: Plugin @jupyterlab/",  # too slow on a loaded machine
    "debug: Starting application in workspace",
    "debug: Starting WebSocket",
)


"""What JupyterLab writes to the console by itself."""


PANEL = "window.jupyterapp.shell.currentWidget"


WOULD_SAVE_QUESTION = f"""() => {{
    const run = {PANEL}.content.model.toJSON().cells[1].outputs[0].data['{RUN_JSON}'];
    return run?.steps.at(-1)?.executions.at(-1)?.status === 'awaiting_approval';
}}"""


HAS_WIDGETS = f"""() => {{
    const {{_comms: comms}} = {PANEL}.sessionContext.session.kernel;
    return [...comms.values()].some(({{targetName}}) => targetName === 'jupyter.widget');
}}"""


def until(name: str) -> str:
    """Python code that occupies the main thread until `go(name)`."""
    wait = f"while not pathlib.Path('{name}.go').exists(): time.sleep(0.05)"
    return f"import pathlib, time\n{wait}\nprint('went on')"


def go(lab: Lab, name: str) -> None:
    (lab.folder / f"{name}.go").touch()


def reload(book: Notebook) -> None:
    """Load the page anew, as a person does who goes there again."""
    book.page.goto(book.lab.address(book.name))
    book.page.wait_for_selector(".jp-Notebook .jp-Cell")


def listen(page: Page) -> Callable[[], list[str]]:
    """What the page writes to its console from now on, but for JupyterLab's own lines."""
    lines: list[str] = []
    page.on("console", lambda message: lines.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: lines.append(f"pageerror: {error}"))
    return lambda: [line for line in lines if not line.startswith(KNOWN_LINES)]


def begin(book: Notebook, index: int = 1) -> None:
    """Load ipyagent, and start a cell."""
    book.start(0)
    book.expect_done(0)
    book.start(index)


def waiting(lab: Lab, notebook: Any, name: str, *replies: Any) -> Notebook:
    """A notebook whose second cell plays `replies`, and waits for the first approval."""
    book: Notebook = notebook(LOAD, f"%%agent {script(lab.folder, name, *replies)}\nBegin.")
    begin(book)
    book.expect_state(1, "waiting")
    return book


def decide(book: Notebook, index: int, button: str) -> None:
    press(book.run(index).locator(f"[data-ipyagent={button}]"))


def expect_ended(book: Notebook, index: int, state: str = "done") -> Any:
    """One card, static, and saved as if nothing had happened; returns what is saved."""
    book.expect_state(index, state)
    expect(book.prompt(index)).not_to_have_text("[*]:")
    expect(book.run(index)).to_have_count(1)
    expect(book.run(index).locator(DECISIONS)).to_have_count(0)
    (output,) = book.save().cells[index].outputs
    assert WIDGET_VIEW not in output.data
    assert {"text/html", "text/plain"} < output.data.keys()
    return output.data[RUN_JSON]


CELLS = f"{PANEL}.content.model.sharedModel.cells"


PLOT = "import pandas as pd\n\nsales = pd.DataFrame({'q': [3, 4]})\nsales.plot(title='Sales')"


BETTER = PLOT.replace("title='Sales'", "title='Sales by quarter', grid=True")


class Book:
    """A notebook whose second cell asks an agent that makes these calls, one or a list a step."""

    def __init__(
        self, lab: Any, notebook: Any, name: str, calls: list[Any], *cells: str, options: str = ""
    ) -> None:
        steps = (each if isinstance(each, list) else [each] for each in calls)
        replies = [*({"calls": each} for each in steps), "Done."]
        agent = f"%%agent {script(lab.folder, name, *replies)} {options}\nImprove this notebook."
        self.book = notebook(LOAD, agent, *cells)
        self.page, self.file = self.book.page, lab.folder / self.book.name

    def ask(self) -> Book:
        for index in (0, 1):
            self.book.start(index)
        return self

    def sources(self) -> list[str]:
        """Of all cells but the first two, as the document has them."""
        sources: list[str] = self.page.evaluate(f"() => {CELLS}.map(cell => cell.source)")
        return sources[2:]

    def cell_at(self, index: int) -> Locator:
        return self.page.locator(f".jp-Cell[data-windowed-list-index='{index}']")

    def scroll_to(self, index: int) -> None:
        """Also where cells that are far away are not in the page."""
        self.page.evaluate(f"at => {PANEL}.content.scrollToItem(at, 'center')", index)
        expect(self.cell_at(index)).to_be_visible()

    def proposals(self) -> Locator:
        return self.page.locator("[data-ipyagent=proposal]")

    def waits(self) -> None:
        """The first run loads much."""
        expect(self.proposals()).to_have_count(1)

    def accept(self) -> None:
        self.see().click()

    def see(self) -> Locator:
        """Bring the proposal into sight; return the button that accepts it."""
        accept = self.proposals().locator("[data-ipyagent=approve]")
        await_active(accept)
        return accept

    def expect_sources(self, *sources: str) -> None:
        told = f"JSON.stringify({CELLS}.map(cell => cell.source).slice(2))"
        wanted = f"wanted => {told} === JSON.stringify(wanted)"
        # Not with each frame: a page of large figures draws none for a while.
        self.page.wait_for_function(wanted, arg=list(sources), polling=100)

    def undo(self) -> None:
        self.book.command("notebook:undo-cell-action")

    def redo(self) -> None:
        self.book.command("notebook:redo-cell-action")


TODOS = [{"content": "Load", "status": "completed"}, {"content": "Plot", "status": "pending"}]


class Side:
    """The side panel of a page, and what is around it."""

    def __init__(self, page: Page) -> None:
        self.page = page

    def open(self) -> Side:
        self.page.evaluate("() => window.jupyterapp.commands.execute('ipyagent:show-panel')")
        expect(self.element).to_be_visible()
        return self

    @property
    def element(self) -> Locator:
        return self.page.locator("#ipyagent-panel")

    @property
    def status(self) -> Locator:
        return self.page.locator("[data-ipyagent=status]")

    @property
    def tab(self) -> Locator:
        return self.page.locator(".ipyagent-tab")

    @property
    def approvals(self) -> Locator:
        return self.rows("asked")

    @property
    def runs(self) -> Locator:
        return self.rows("runs")

    def section(self, name: str) -> Locator:
        return self.element.locator(f".ia-section-{name}")

    def rows(self, name: str) -> Locator:
        return self.section(name).locator("> .ia-rows > li")

    @property
    def field(self) -> Locator:
        return self.find("composer").get_by_role("textbox")

    def find(self, name: str) -> Locator:
        return self.element.locator(f"[data-ipyagent={name}]")

    def press(self, name: str, within: Locator | None = None) -> None:
        press((within or self.element).locator(f"[data-ipyagent={name}]"))


def scroll_away(book: Any, index: int) -> None:
    """Go on to another cell, as a user does: by a click, and the wheel."""
    scroll = "index => window.jupyterapp.shell.currentWidget.content.scrollToItem(index, 'start')"
    book.page.evaluate(scroll, index)
    book.prompt(index).click()


LONG = "#\n" * 60


"""A cell that takes up the screen."""


HOLD = "import os, time\nwhile not os.path.exists({name!r}): time.sleep(0.02)"


"""A cell that holds up those after it until there is such a file."""


def writing(folder: Any, name: str) -> str:
    """A script that asks once, and then answers."""
    code = f"made = 'made in {name}'"
    calls = [call("todo_write", todos=TODOS), call("run_python", code=code)]
    return script(folder, name, {"calls": calls}, f"Done in {name}.")
