"""The entry of an agent cell, and the state of the extension in its shell.

Failures before there is a run end in one clear line. If ipyagent's own modules cannot be imported,
it names what to install. The state is in `shell.meta`, which IPython leaves to extensions, by its
class, so that modules that are imported again find nothing.
"""

from __future__ import annotations

import asyncio
import threading
import traceback
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from types import ModuleType

from IPython.core.getipython import get_ipython

from ipyagent.errors import (
    AgentError,
    AgentInterrupted,
    ConfigError,
    InstallationError,
    describe_error,
    descriptor_advice,
    lacks_descriptors,
)
from ipyagent.imports import working_folder
from ipyagent.json_types import JsonDict, JsonMapping
from ipyagent.kernel.drivers import STOPPED, Cell, stoppable
from ipyagent.kernel.shell import CellNotes, Shell

NOT_LOADED = (
    "the extension is not loaded any more: ipyagent's modules were taken out of sys.modules. "
    "`%reload_ext ipyagent` loads them again; restarting the kernel does as well"
)

NO_FOLDER = (
    "the folder that this kernel works in is not there any more. Make it again, or go to another "
    "one with `%cd FOLDER`, and run this cell again"
)


class ShellState:
    """The parts of a loaded extension that its cells use."""

    imported: Future[None]
    """The import of what cells need, in the background."""

    def __init__(self, shell: Shell) -> None:
        self.shell = shell
        self.folder = working_folder()
        self.notes = CellNotes(shell)
        """The notes of what the user's own cells changed."""
        self.cell_lock = threading.Lock()
        """Held while a cell is running, and while a page's request needs the variables."""

    @property
    def home(self) -> Path:
        """The folder in which the kernel was when the extension was loaded."""
        self.folder = self.folder or working_folder()
        if self.folder is None:
            raise ConfigError(NO_FOLDER)
        return self.folder


def state_of(shell: Shell) -> ShellState:
    """Return the state of the extension in a shell; raises ConfigError if it is not loaded."""
    state: ShellState | None = shell.meta.get(ShellState)
    if state is None:
        raise ConfigError(NOT_LOADED)
    return state


def import_or_explain(name: str) -> ModuleType:
    """Import one of ipyagent's modules; raises InstallationError naming the missing package."""
    try:
        return import_module(name)
    except Exception as error:
        raise InstallationError(explain(error)) from None


def explain(error: BaseException) -> str:
    """Explain why an import failed, and what to install."""
    summary = f"ipyagent cannot be used: {type(error).__name__}: {' '.join(str(error).split())}."
    if lacks_descriptors(error):
        return f"{summary} {descriptor_advice()} If that does not help, restart the kernel."
    package = None
    with suppress(OSError, ImportError):  # the packages' own descriptions cannot be read
        package = _at_fault(error)
    packages = f"{package} ipyagent" if package else "ipyagent"
    return f"{summary} Run `%pip install --upgrade {packages}` and restart the kernel."


def _at_fault(error: BaseException) -> str | None:
    """Return the distribution that could not be imported, or in which the import failed."""
    from importlib import metadata

    names = [name] if (name := getattr(error, "name", None)) else []
    files = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
    names += [_package(file) for file in reversed(files)]
    distributions = metadata.packages_distributions()
    for name in names:
        top = name.partition(".")[0]
        if top != "ipyagent" and top in distributions:
            return distributions[top][0]
    return None


def _package(file: str) -> str:
    parts = Path(file).parts
    return Path(parts[parts.index("site-packages") + 1]).stem if "site-packages" in parts else ""


_CELLS = "ipyagent.magic.cells"
_VIEW = "ipyagent.ui.card"
_COMPLETION = "ipyagent.magic.completions"


def import_in_background(home: Path | None) -> Future[None]:
    """Start to import what cells need; the first cell meets a failure again and reports it."""
    imported: Future[None] = Future()
    threading.Thread(
        target=_import_all, args=(imported, home), name="ipyagent-import", daemon=True
    ).start()
    return imported


async def run(line: str, text: str = "") -> None:
    """Run an `%%agent` cell, or the prompt of a line, awaiting it: clicks can arrive."""
    cell, task = Cell(), asyncio.current_task()
    try:
        with explaining(), stoppable(cell):
            await _wait_for_import(cell)
            await import_or_explain(_CELLS).run(cell, line, text)
    except asyncio.CancelledError:
        # An interrupt that came before this cell's own handler was in force.
        if task is not None:
            task.uncancel()
        raise AgentInterrupted(STOPPED) from None


def run_blocking(line: str, text: str) -> None:
    """Run the same where a cell cannot await."""
    cell = Cell()
    with explaining(), stoppable(cell):
        with cell.interrupt.raising():
            state_of(get_ipython()).imported.result()
        import_or_explain(_CELLS).run_blocking(cell, line, text)


@contextmanager
def explaining() -> Iterator[None]:
    """Turn a failure for want of descriptors into an error that is shown in one line."""
    try:
        yield
    except AgentError:
        raise
    except Exception as error:
        if not lacks_descriptors(error):
            raise
        raise AgentError(describe_error(error)) from None


async def _wait_for_import(cell: Cell) -> None:
    importing, task = state_of(get_ipython()).imported, asyncio.current_task()
    if importing.done() or task is None:
        return
    cancel, loop = task.cancel, asyncio.get_running_loop()
    cell.interrupt.on_stop = lambda: loop.call_soon_threadsafe(cancel)
    await asyncio.shield(asyncio.wrap_future(importing))


def _import_all(imported: Future[None], home: Path | None) -> None:
    """Import in the order of need; LiteLLM, if the model needs it, takes seconds."""
    # A traceback of this thread would appear in the cell that happens to run.
    with suppress(Exception):
        try:
            import_or_explain(_CELLS)
            import_or_explain(_VIEW)
        finally:
            imported.set_result(None)
        import_or_explain(_COMPLETION)
        import_or_explain("ipyagent.magic.notebook").NotebookSettings(home).prepare_model()


def complete_for_page(message: JsonMapping) -> JsonDict:
    """Return names of variables and files with which a mention may go on."""
    names: JsonDict = import_or_explain("ipyagent.magic.completions").complete_for_page(message)
    return names
