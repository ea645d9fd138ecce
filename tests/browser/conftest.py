"""A real JupyterLab and a real Chromium, once for all browser tests."""

from __future__ import annotations

import itertools
import json
import os
import re
import secrets
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
import pytest
from playwright.sync_api import Browser, Locator, Page, expect

SCREENSHOTS = os.environ.get("IPYAGENT_SCREENSHOTS")


@dataclass
class Lab:
    """A running JupyterLab server on `folder`."""

    url: str
    token: str
    folder: Path

    def address(self, notebook: str) -> str:
        return f"{self.url}lab/tree/{notebook}?token={self.token}&reset"


@pytest.fixture(scope="session")
def jupyterlab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    home, folder = tmp_path_factory.mktemp("home"), tmp_path_factory.mktemp("notebooks")
    token = secrets.token_hex(8)
    kept = {k: v for k, v in os.environ.items() if "KEY" not in k and not k.startswith("IPYAGENT")}
    dirs = {f"JUPYTER_{d}_DIR": str(home / d.lower()) for d in ("CONFIG", "DATA", "RUNTIME")}
    settings = home / "config" / "labconfig"
    settings.mkdir(parents=True)
    # The question about news would lie over the notebook.
    disabled = {"@jupyterlab/apputils-extension:announcements": True}
    (settings / "page_config.json").write_text(json.dumps({"disabledExtensions": disabled}))
    command = [
        *(sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root"),
        *("--ServerApp.ip=127.0.0.1", "--ServerApp.port=0", f"--IdentityProvider.token={token}"),
        "--LabApp.expose_app_in_browser=True",
        "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
    ]
    server = subprocess.Popen(
        command,
        cwd=folder,
        env={**kept, **dirs, "HOME": str(home), "IPYTHONDIR": str(home / "ipython")},
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield Lab(_url(server), token, folder)
    finally:
        server.terminate()
        server.wait(20)
        assert server.stderr is not None
        server.stderr.close()


def _url(server: subprocess.Popen[str]) -> str:
    seen = []
    assert server.stderr is not None
    for line in server.stderr:
        seen.append(line)
        if found := re.search(r"(http://127\.0\.0\.1:\d+/)lab", line):
            # Somebody has to read on, or the server blocks on a full pipe.
            import threading

            threading.Thread(target=server.stderr.read, daemon=True).start()
            return found[1]
    raise AssertionError("JupyterLab did not start:\n" + "".join(seen))


_numbers = itertools.count()


class Notebook:
    """A notebook open in JupyterLab."""

    def __init__(self, lab: Lab, page: Page, name: str) -> None:
        self.lab, self.page, self.name = lab, page, name

    def open(self) -> Notebook:
        self.page.goto(self.lab.address(self.name))
        self.page.wait_for_selector(".jp-Notebook .jp-Cell", timeout=60_000)
        return self

    def ready(self) -> Notebook:
        """Wait for the kernel: a cell run before it is there opens a dialog."""
        self.page.evaluate(
            """async () => {
                const app = window.jupyterapp;
                await app.restored;
                const panel = app.shell.currentWidget;
                await panel.sessionContext.ready;
                await panel.sessionContext.session.kernel.info;
            }"""
        )
        return self

    def command(self, name: str) -> None:
        self.page.evaluate("(name) => window.jupyterapp.commands.execute(name)", name)

    def start_all(self) -> None:
        """Run All, without waiting for it to end."""
        self.page.evaluate("() => { window.jupyterapp.commands.execute('notebook:run-all-cells') }")

    def start(self, index: int) -> None:
        """Run one cell as a person does, without waiting for it to end."""
        self.cell(index).locator(".cm-content").click()
        self.page.keyboard.press("Shift+Enter")

    def cell(self, index: int) -> Locator:
        return self.page.locator(".jp-Notebook .jp-CodeCell").nth(index)

    def output(self, index: int) -> Locator:
        return self.cell(index).locator(".jp-Cell-outputArea")

    def run(self, index: int) -> Locator:
        return self.output(index).locator("[data-ipyagent=run]")

    def expect_state(self, index: int, state: str, timeout: float = 30_000) -> None:
        expect(self.run(index)).to_have_attribute("data-state", state, timeout=timeout)

    def prompt(self, index: int) -> Locator:
        return self.cell(index).locator(".jp-InputPrompt")

    def expect_done(self, index: int, timeout: float = 30_000) -> None:
        expect(self.prompt(index)).to_have_text(re.compile(r"\[\d+\]:"), timeout=timeout)

    def save(self) -> Any:
        self.command("docmanager:save")
        return nbformat.read(self.lab.folder / self.name, as_version=4)

    def shot(self, name: str) -> None:
        """Keep a picture where IPYAGENT_SCREENSHOTS says."""
        if SCREENSHOTS:
            self.page.screenshot(path=f"{SCREENSHOTS}/{name}.png")


@pytest.fixture
def notebook(jupyterlab: Lab, chromium: Browser, request: pytest.FixtureRequest) -> Iterator[Any]:
    """Make, open and get ready a notebook of the given cells."""
    context = chromium.new_context(viewport={"width": 1200, "height": 900})

    def make(*sources: str, ready: bool = True) -> Notebook:
        name = f"{request.node.name[:30].replace('[', '-')}-{next(_numbers)}.ipynb"
        cells = [nbformat.v4.new_code_cell(source) for source in sources]
        meta = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
        nbformat.write(
            nbformat.v4.new_notebook(cells=cells, metadata=meta), jupyterlab.folder / name
        )
        opened = Notebook(jupyterlab, context.new_page(), name).open()
        return opened.ready() if ready else opened

    yield make
    context.close()
