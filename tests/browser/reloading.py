"""Runs that go on while pages come and go."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from deciding import DECISIONS, press
from playwright.sync_api import Page, expect
from scripts import LOAD, script

from conftest import Lab, Notebook

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
