"""The entry of an agent cell: failures before there is a run end in one clear line."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from pathlib import Path

from IPython.core.getipython import get_ipython

from ipyagent import descriptors
from ipyagent.errors import AgentError, AgentInterrupted
from ipyagent.kernel.drivers import STOPPED, Cell, stoppable
from ipyagent.magic.installation import import_or_explain
from ipyagent.magic.shell_state import state_of

_CELLS = "ipyagent.magic.cells"
_VIEW = "ipyagent.ui.notebook_view"
_COMPLETION = "ipyagent.magic.completions"


def import_in_background(home: Path | None) -> Future[None]:
    """Start to import what cells need; the first cell meets a failure again and reports it."""
    imported: Future[None] = Future()
    threading.Thread(
        target=_import_all, args=(imported, home), name="ipyagent-import", daemon=True
    ).start()
    return imported


async def run(line: str, text: str) -> None:
    """Run an `%%agent` cell, awaiting it: the kernel's loop stays free for clicks."""
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
    """Run an `%%agent` cell where cells cannot await."""
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
        if not descriptors.has_none_left(error):
            raise
        raise AgentError(descriptors.describe(error)) from None


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
        import_or_explain("ipyagent.magic.notebook_settings").NotebookSettings(home).prepare_model()
