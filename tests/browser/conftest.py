"""A real JupyterLab, Notebook 7 and Chromium, each once for all browser tests."""

from __future__ import annotations

import itertools
import json
import os
import re
import secrets
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
import psutil
import pytest
from playwright.sync_api import Browser, Locator, Page, expect

import ipyagent
from leftovers import GRACE
from patience import PATIENCE, wait_until

BUILT = Path(ipyagent.__file__).parent / "labextension"

expect.set_options(timeout=PATIENCE * 1_000)

SCREENSHOTS = os.environ.get("IPYAGENT_SCREENSHOTS")


@dataclass
class Lab:
    """A running JupyterLab or Notebook 7 server on `folder`."""

    url: str
    token: str
    folder: Path
    path: str
    kernels: Path

    def address(self, notebook: str) -> str:
        return f"{self.url}{self.path}/{notebook}?token={self.token}&reset"


ASKING = {"IPYAGENT_AGENT__LOOK_FREELY": "false"}
"""What is asked about is what most tests are about."""


@pytest.fixture(scope="session")
def settings() -> dict[str, str]:
    """The environment variables of ipyagent in the kernels of JupyterLab."""
    return ASKING


@pytest.fixture(scope="session")
def jupyterlab(tmp_path_factory: pytest.TempPathFactory, settings: dict[str, str]) -> Iterator[Lab]:
    quiet = "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate"
    with _server(
        tmp_path_factory, "jupyterlab", "LabApp", "lab/tree", quiet, settings=settings
    ) as lab:
        yield lab


@pytest.fixture(scope="session")
def bare_jupyterlab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A JupyterLab without our extension: only widgets draw runs that are on."""
    disabled = {"ipyagent": True}
    with _server(tmp_path_factory, "jupyterlab", "LabApp", "lab/tree", disabled=disabled) as lab:
        yield lab


@pytest.fixture(scope="session")
def notebook_seven(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with _server(tmp_path_factory, "notebook", "JupyterNotebookApp", "notebooks") as lab:
        yield lab


@contextmanager
def _server(
    tmp_path_factory: pytest.TempPathFactory,
    module: str,
    app: str,
    path: str,
    *options: str,
    disabled: dict[str, bool] | None = None,
    settings: dict[str, str] = ASKING,
) -> Iterator[Lab]:
    home, folder = tmp_path_factory.mktemp("home"), tmp_path_factory.mktemp("notebooks")
    token = secrets.token_hex(8)
    kept = {k: v for k, v in os.environ.items() if "KEY" not in k and not k.startswith("IPYAGENT")}
    dirs = {f"JUPYTER_{d}_DIR": str(home / d.lower()) for d in ("CONFIG", "DATA", "RUNTIME")}
    page_config = home / "config" / "labconfig" / "page_config.json"
    page_config.parent.mkdir(parents=True)
    # This checkout's build, whatever is installed.
    extensions = home / "labextensions"
    extensions.mkdir()
    (extensions / "ipyagent").symlink_to(BUILT)
    # The question about news would lie over the notebook.
    disabled = {"@jupyterlab/apputils-extension:announcements": True, **(disabled or {})}
    page_config.write_text(json.dumps({"disabledExtensions": disabled}))
    user_settings = {
        # Whatever else the machine does: a completion that takes more than a second is dropped.
        "completer-extension/manager": {"providerTimeout": 15_000},
        # The table of contents fetches the images that the HTML of outputs names, of all outputs.
        "toc-extension/registry": {"includeOutput": False},
    }
    for name, chosen in user_settings.items():
        file = home / f"config/lab/user-settings/@jupyterlab/{name}.jupyterlab-settings"
        file.parent.mkdir(parents=True)
        file.write_text(json.dumps(chosen))
    command = [
        *(sys.executable, "-m", module, "--no-browser", "--allow-root"),
        *("--ServerApp.ip=127.0.0.1", "--ServerApp.port=0", f"--IdentityProvider.token={token}"),
        # Notebook 7 names what JupyterLab's part of the server then serves.
        *(f"--{each}.extra_labextensions_path={extensions}" for each in {app, "LabApp"}),
        f"--{app}.expose_app_in_browser=True",
        *options,
    ]
    log = home / "log"
    with log.open("w") as errors:
        server = psutil.Popen(
            command,
            cwd=folder,
            env={
                **kept,
                **dirs,
                **settings,
                "HOME": str(home),
                "IPYTHONDIR": str(home / "ipython"),
            },
            stderr=errors,
        )
    try:
        url, port = wait_until(lambda: ADDRESS.search(log.read_text()), log.read_text).groups()
        # It tells its address before it listens.
        wait_until(lambda: accepts(int(port)), log.read_text)
        yield Lab(url, token, folder, path, home / "data" / "kernels")
    finally:
        end_server(server)


ADDRESS = re.compile(r"(http://127\.0\.0\.1:(\d+)/)(?:lab|tree)")


def accepts(port: int) -> bool:
    with socket.socket() as connection:
        return connection.connect_ex(("127.0.0.1", port)) == 0


def end_server(server: psutil.Popen) -> None:
    """End a server and its kernels.

    Asked to end while a kernel starts or restarts, jupyter_server fails to end that kernel, and
    then stays itself.
    """
    kernels = server.children(recursive=True)
    server.terminate()
    try:
        server.wait(GRACE)
    except psutil.TimeoutExpired:
        for process in [server, *kernels, *server.children(recursive=True)]:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        server.wait(PATIENCE)


_numbers = itertools.count()

# JupyterLab asks a kernel once, and the answer may be lost while it is being connected; a kernel
# whose ports were taken is started again by the server, and then answers on another connection; one
# that could not be started at all leaves a notebook without any. A panel that is not in sight yet
# when it is activated gets no focus, and is not the current one then.
READY = """async (name) => {
    const { restored, shell } = window.jupyterapp;
    const deadline = Date.now() + 150000;
    const wait = (ms) => new Promise(resolve => setTimeout(resolve, ms));
    const within = (ms, promise) => Promise.race([promise, wait(ms)]);
    const isAt = (widget) => widget?.sessionContext && widget.context.path.endsWith(name);
    const answers = async (kernel) => await within(5000, kernel.info.then(() => true)) === true;
    await within(60000, restored);
    for (let tries = 1; Date.now() < deadline; tries++) {
        const panel = [...shell.widgets('main')].find(isAt);
        const kernel = panel?.sessionContext.session?.kernel;
        if (panel && panel !== shell.currentWidget) {
            shell.activateById(panel.id);
            await wait(100);
        } else if (!panel || !await within(10000, panel.sessionContext.ready.then(() => true))) {
            await wait(100);
        } else if (kernel && await answers(kernel)) {
            return;
        } else if (tries % 5) {
            kernel?.requestKernelInfo().catch(() => {});
            await wait(500);
        } else {
            // It may have lost a port before it was up; the server still talks to the old one.
            const other = { name: panel.sessionContext.kernelPreference.name };
            await within(20000, panel.sessionContext.changeKernel(other).catch(() => {}));
        }
    }
    throw new Error(JSON.stringify({
        current: shell.currentWidget?.id,
        focus: [document.hasFocus(), document.activeElement?.className],
        panels: [...shell.widgets('main')].map(({ id, context, sessionContext }) => [
            id, context?.path, sessionContext?.kernelDisplayStatus, sessionContext?.isReady,
            sessionContext?.session?.kernel?.id, sessionContext?.session?.kernel?.connectionStatus,
        ]),
        dialogs: [...document.querySelectorAll('.jp-Dialog')].map(each => each.innerText),
    }));
}"""


class Notebook:
    """A notebook open in JupyterLab."""

    def __init__(self, lab: Lab, page: Page, name: str) -> None:
        self.lab, self.page, self.name = lab, page, name

    def open(self) -> Notebook:
        self.page.goto(self.lab.address(self.name))
        self.page.wait_for_selector(".jp-Notebook .jp-Cell")
        return self

    def ready(self) -> Notebook:
        """Wait for the kernel: a cell run before it is there opens a dialog."""
        self.page.evaluate(READY, self.name)
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

    def run_with(self, options: str) -> None:
        """Run the agent cell that is written in, with options after its `%%agent`."""
        self.page.keyboard.press("Control+Home")
        self.page.keyboard.press("End")
        self.page.keyboard.type(f" {options}")
        self.page.keyboard.press("Control+Enter")

    def cell(self, index: int) -> Locator:
        return self.page.locator(".jp-Notebook .jp-CodeCell").nth(index)

    def output(self, index: int) -> Locator:
        return self.cell(index).locator(".jp-Cell-outputArea")

    def run(self, index: int) -> Locator:
        return self.output(index).locator("[data-ipyagent=run]")

    def expect_state(self, index: int, state: str) -> None:
        expect(self.run(index)).to_have_attribute("data-state", state)

    def prompt(self, index: int) -> Locator:
        return self.cell(index).locator(".jp-InputPrompt")

    def expect_done(self, index: int) -> None:
        expect(self.prompt(index)).to_have_text(re.compile(r"\[\d+\]:"))

    def save(self) -> Any:
        self.command("docmanager:save")
        return nbformat.read(self.lab.folder / self.name, as_version=4)

    def shot(self, name: str) -> None:
        """Keep a picture where IPYAGENT_SCREENSHOTS says."""
        if SCREENSHOTS:
            self.page.screenshot(path=f"{SCREENSHOTS}/{name}.png")


Make = Callable[..., Notebook]

SIZE = {"width": 1200, "height": 900}

# Nothing open, nothing running, as JupyterLab looks at first; then the notebook at that path.
CLEAR_AND_OPEN = """async (path) => {
    const { commands, serviceManager, shell } = window.jupyterapp;
    const { kernelspecs, sessions } = serviceManager;
    const [open, running] = [[...shell.widgets('main')], [...sessions.running()]];
    await kernelspecs.refreshSpecs();
    shell.expandLeft();
    shell.collapseRight();
    if (document.body.dataset.jpThemeLight !== 'true') {
        await commands.execute('apputils:change-theme', { theme: 'JupyterLab Light' });
    }
    // A moment without any document, and the launcher would come.
    const opened = await commands.execute('docmanager:open', { path });
    open.forEach((widget) => widget.dispose());
    shell.activateById(opened.id);
    await Promise.all(running.map(({ id }) => sessions.shutdown(id)));
}"""

# Other cells, no variables, and a session of its own.
REPLACE_CELLS = """async (sources) => {
    const { shell } = window.jupyterapp;
    const { content, sessionContext } = shell.currentWidget;
    shell.collapseRight();
    const cells = sources.map((source) => ({ cell_type: 'code', source, outputs: [] }));
    const { sharedModel } = content.model;
    sharedModel.insertCells(0, cells);
    sharedModel.deleteCellRange(cells.length, sharedModel.cells.length);
    content.activeCellIndex = 0;
    const code = [
        "if 'agent' in get_ipython().magics_manager.magics['line']:",
        "    get_ipython().run_line_magic('agent', 'session new')",
        '%reset -f',
    ].join('\\n');
    await sessionContext.session.kernel.requestExecute({ code, silent: true }).done;
}"""


class Window:
    """A page of JupyterLab that tests of a module use one after the other.

    To load it costs more than all that most tests do. One that failed leaves it to nobody, nor
    does one that closes it.
    """

    def __init__(self, lab: Lab, chromium: Browser) -> None:
        self.lab = lab
        self.context = chromium.new_context(viewport=SIZE, reduced_motion="reduce")
        self.context.set_default_timeout(PATIENCE * 1_000)
        self.page: Page | None = None
        self.current: Notebook | None = None

    def open(self, name: str) -> Notebook:
        """Show a notebook and no other."""
        if self.page is None:
            self.page = self.context.new_page()
            self.current = Notebook(self.lab, self.page, name).open()
        else:
            self.page.set_viewport_size(SIZE)
            self.page.evaluate(CLEAR_AND_OPEN, name)
            self.page.wait_for_selector(".jp-Notebook .jp-Cell")
            self.current = Notebook(self.lab, self.page, name)
        return self.current

    def leave(self, *, is_fit: bool) -> None:
        """Keep the page for the next test, if it is fit for that."""
        for page in self.context.pages:
            if page is not self.page or not is_fit:
                page.close()
        if self.page not in self.context.pages:
            self.page = self.current = None


@pytest.fixture(scope="module")
def shared_window(jupyterlab: Lab, chromium: Browser) -> Iterator[Window]:
    window = Window(jupyterlab, chromium)
    yield window
    window.context.close()


PASSED = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Any:
    report = yield
    if report.when == "call":
        item.stash[PASSED] = report.passed
    return report


def write(lab: Lab, request: pytest.FixtureRequest, given: tuple[Any, ...], kernel: str) -> str:
    """A notebook of these code cells, or of cells with these sources; its name."""
    name = f"{request.node.name[:30].replace('[', '-')}-{next(_numbers)}.ipynb"
    cells = [nbformat.v4.new_code_cell(c) if isinstance(c, str) else c for c in given]
    meta = {"kernelspec": {"name": kernel, "display_name": kernel}}
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=meta), lab.folder / name)
    return name


@contextmanager
def opened_in(lab: Lab, chromium: Browser, request: pytest.FixtureRequest) -> Iterator[Make]:
    """Make, open and get ready a notebook of the given cells, in a page of its own."""
    context = chromium.new_context(viewport=SIZE, reduced_motion="reduce")
    context.set_default_timeout(PATIENCE * 1_000)

    def make(*cells: Any, ready: bool = True, kernel: str = "python3") -> Notebook:
        name = write(lab, request, cells, kernel)
        opened = Notebook(lab, context.new_page(), name).open()
        return opened.ready() if ready else opened

    yield make
    context.close()


@pytest.fixture
def notebook(jupyterlab: Lab, chromium: Browser, request: pytest.FixtureRequest) -> Iterator[Make]:
    """Make, open and get ready a notebook of the given cells."""
    if request.node.get_closest_marker("same_page") is None:
        with opened_in(jupyterlab, chromium, request) as make:
            yield make
        return
    window: Window = request.getfixturevalue("shared_window")

    def make_there(*cells: Any, ready: bool = True, kernel: str = "python3") -> Notebook:
        opened = window.open(write(jupyterlab, request, cells, kernel))
        return opened.ready() if ready else opened

    yield make_there
    window.leave(is_fit=request.node.stash.get(PASSED, False))


@pytest.fixture
def cells(notebook: Make, shared_window: Window) -> Callable[..., Notebook]:
    """Put code cells in place of those of the module's notebook, whose kernel goes on."""

    def make(*sources: str) -> Notebook:
        if shared_window.current is None:
            return notebook(*sources)
        book = shared_window.current.ready()
        book.page.evaluate(REPLACE_CELLS, sources)
        return book

    return make


@pytest.fixture
def seventh(
    notebook_seven: Lab, chromium: Browser, request: pytest.FixtureRequest
) -> Iterator[Make]:
    """The same in Notebook 7."""
    with opened_in(notebook_seven, chromium, request) as make:
        yield make


@pytest.fixture
def window(jupyterlab: Lab, chromium: Browser) -> Iterator[Callable[..., Notebook]]:
    """Open a notebook that is in the server's folder, in a window of its own."""
    contexts = []

    def opened(name: str, **options: Any) -> Notebook:
        contexts.append(chromium.new_context(**options))
        contexts[-1].set_default_timeout(PATIENCE * 1_000)
        return Notebook(jupyterlab, contexts[-1].new_page(), name).open().ready()

    yield opened
    for context in contexts:
        context.close()
