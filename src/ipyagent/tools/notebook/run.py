"""run_cell: a cell of the open notebook is run, and its outputs are put into it."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

from ipyagent.errors import InvalidArgumentsError, PageError
from ipyagent.kernel import partial
from ipyagent.kernel.cell_outputs import CellOutputs
from ipyagent.kernel.documents import Desktop, NotebookCell, OpenNotebook
from ipyagent.schema import Preview, ToolResult
from ipyagent.tools.base import Tool, Where, tool
from ipyagent.tools.changes import Change
from ipyagent.tools.notebook.tools import NO_PAGE, CellRef, found, identity
from ipyagent.tools.pending import Pending, digest
from ipyagent.tools.sourced import SourcedNamespace

Post = Callable[[Callable[[], Any]], Future[Any]]
"""Runs a job on the main thread."""

_NESTED = re.compile(r"^\s*%%agent\b", re.MULTILINE)


class RunCell:
    """The tool. The page is asked from a pool: it answers on the main thread, which runs code."""

    def __init__(
        self, namespace: SourcedNamespace, desktop: Desktop, post: Post, edit_seconds: float
    ) -> None:
        self._namespace, self._desktop, self._post = namespace, desktop, post
        self._pending = Pending(edit_seconds)

    def tool(self) -> Tool:
        """run_cell."""
        traits = tool(
            sensitive=True,
            reaches_out=True,
            preview=self._preview,
            reach=lambda preview: self._namespace.read(preview.text),
            where=Where.RELAY,
        )
        return traits(self.run_cell)

    async def run_cell(self, cell: CellRef) -> ToolResult:
        """Run a code cell of the user's notebook, given by id or number, as run_python would.

        Its outputs appear in the cell.
        """
        notebook, target = await asyncio.to_thread(self._approved, cell)
        outputs = CellOutputs(self._desktop.number)
        job = self._post(lambda: self._namespace.run(target.source, outputs))
        partial.offer(lambda: partial.so_far(outputs), job)

        def put() -> None:
            notebook.put_outputs(target, outputs.cell(), self._desktop.number)

        try:
            result: ToolResult = await asyncio.wrap_future(job)
        except asyncio.CancelledError:
            # The code itself ends a little later, when the interrupt reaches it.
            job.add_done_callback(lambda ended: _put_behind(ended, put))
            raise
        try:
            await asyncio.to_thread(put)
        except PageError as error:
            note = f"The outputs were not put into cell {target.number}: {error}."
            return result.model_copy(update={"output": f"{result.output}\n\n{note}".lstrip()})
        return result

    def _preview(self, cell: CellRef) -> Preview:
        _, target = self._runnable(cell)
        self._pending.add(digest(cell), Change("", identity(target), None, ""))
        return Preview(kind="code", language="python", text=target.source)

    def _approved(self, cell: CellRef) -> tuple[OpenNotebook, NotebookCell]:
        notebook, target = self._runnable(cell)
        self._pending.take(digest(cell), f"cell {target.number}", identity(target))
        return notebook, target

    def _runnable(self, cell: CellRef) -> tuple[OpenNotebook, NotebookCell]:
        """The cell, if it is one that may be run; raises AgentError."""
        notebook = self._desktop.own()
        if notebook is None:
            raise PageError(NO_PAGE)
        target = found(notebook.cells(), cell)
        name = f"cell {target.number}"
        if target.kind != "code":
            raise InvalidArgumentsError(f"{name} is a {target.kind} cell; it cannot be run")
        if target.id == self._desktop.cell_id:
            raise InvalidArgumentsError(f"{name} is the one that is running now")
        if _NESTED.search(target.source):
            raise InvalidArgumentsError(f"{name} asks an agent; agents are not nested")
        return notebook, target


def _put_behind(job: Future[Any], put: Callable[[], None]) -> None:
    """Put what a stopped cell has put out into it; whoever stopped it does not wait for the page.

    Called in the main thread, which has to be free for the page's answer.
    """

    def try_to_put() -> None:
        with suppress(PageError):  # the card has it all
            put()

    if not job.cancelled():
        threading.Thread(target=try_to_put, name="ipyagent-outputs", daemon=True).start()
