"""run_cell: run a cell of the open notebook; its outputs appear in it."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

from ipyagent.digests import digest_json
from ipyagent.errors import InvalidArgumentsError, PageError
from ipyagent.kernel.cell_outputs import CellOutputs
from ipyagent.kernel.main_thread import Post
from ipyagent.kernel.open_notebooks import NotebookCell, OpenNotebook, OpenNotebooks
from ipyagent.kernel.outputs import offer_output, output_so_far
from ipyagent.schema import Preview, ToolResult
from ipyagent.tools.argument_schema import check_control_characters
from ipyagent.tools.base import Tool, Where, tool
from ipyagent.tools.file_change import Change, Previews
from ipyagent.tools.notebook.notebook_tools import NO_PAGE, CellRef, find_cell, fingerprint
from ipyagent.tools.tracked_namespace import TrackedNamespace

_NESTED = re.compile(r"^\s*%%agent\b", re.MULTILINE)


class RunCellTool:
    """The tool. It asks the page from a pool: the answer needs the main thread, which is busy."""

    def __init__(
        self, namespace: TrackedNamespace, desktop: OpenNotebooks, post: Post, edit_seconds: float
    ) -> None:
        self._namespace, self._desktop, self._post = namespace, desktop, post
        self._previews = Previews(edit_seconds)

    def as_tool(self) -> Tool:
        """Return run_cell."""
        traits = tool(
            sensitive=True,
            reaches_out=True,
            preview=self._preview_cell,
            effects=lambda preview: self._namespace.analyze(preview.text),
            where=Where.RELAY,
        )
        return traits(self.run_cell)

    async def run_cell(self, cell: CellRef) -> ToolResult:
        """Run a code cell of the user's notebook, by id or number; its outputs appear in it."""
        notebook, target = await asyncio.to_thread(self._take_approved_cell, cell)
        outputs = CellOutputs(self._desktop.number)
        job = self._post(lambda: self._namespace.run(target.source, outputs))
        offer_output(lambda: output_so_far(outputs), job)

        def write_outputs() -> None:
            notebook.put_outputs(target, outputs.cell(), self._desktop.number)

        try:
            result: ToolResult = await asyncio.wrap_future(job)
        except asyncio.CancelledError:
            # The code itself ends a little later, when the interrupt reaches it.
            job.add_done_callback(lambda ended: _write_in_background(ended, write_outputs))
            raise
        try:
            await asyncio.to_thread(write_outputs)
        except PageError as error:
            note = f"The outputs were not put into cell {target.number}: {error}."
            return result.with_note(note)
        return result

    def _preview_cell(self, cell: CellRef) -> Preview:
        _, target = self._find_runnable(cell)
        self._previews.add(digest_json([cell]), Change("", fingerprint(target), None, ""))
        return Preview(kind="code", language="python", text=target.source)

    def _take_approved_cell(self, cell: CellRef) -> tuple[OpenNotebook, NotebookCell]:
        notebook, target = self._find_runnable(cell)
        self._previews.consume(digest_json([cell]), f"cell {target.number}", fingerprint(target))
        return notebook, target

    def _find_runnable(self, cell: CellRef) -> tuple[OpenNotebook, NotebookCell]:
        """Return the cell; raises AgentError if it must not be run."""
        notebook = self._desktop.own()
        if notebook is None:
            raise PageError(NO_PAGE)
        target = find_cell(notebook.cells(), cell)
        name = f"cell {target.number}"
        if target.kind != "code":
            raise InvalidArgumentsError(f"{name} is a {target.kind} cell; it cannot be run")
        if target.id == self._desktop.cell_id:
            raise InvalidArgumentsError(f"{name} is the one that is running now")
        check_control_characters({name: target.source})
        if _NESTED.search(target.source):
            raise InvalidArgumentsError(f"{name} asks an agent; agents are not nested")
        return notebook, target


def _write_in_background(job: Future[Any], put: Callable[[], None]) -> None:
    """Put the output of a stopped cell into it without keeping the user waiting for the page.

    Called on the main thread, which has to be free for the page's answer.
    """

    def try_to_put() -> None:
        with suppress(PageError):  # the card has it all
            put()

    if not job.cancelled():
        threading.Thread(target=try_to_put, name="ipyagent-outputs", daemon=True).start()
