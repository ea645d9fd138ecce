"""A tool at work, where it belongs, and what is known of it when nobody waits any longer."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from typing import Any

from ipyagent.kernel.partial import Partial
from ipyagent.schema import ToolResult, ToolStatus
from ipyagent.tools.base import Tool, Where
from ipyagent.tools.results import as_result, failed

PATIENCE = 1.5
"""Seconds after which the user is told that code goes on although it was interrupted."""

INTERRUPTED = "(The user interrupted this while it ran; it came to its end by itself.)"


@dataclass
class Running:
    """One tool with its checked arguments. `post` runs a job on the main thread."""

    tool: Tool
    arguments: dict[str, Any]
    post: Callable[[Callable[[], Any]], Future[Any]]
    pool: Executor
    _partial: Partial = field(default_factory=Partial, init=False)
    _future: Future[Any] | None = field(default=None, init=False)
    _begun: float | None = field(default=None, init=False)

    async def result(self) -> ToolResult:
        """Run it; whatever it raises is its failed result."""
        match self.tool.where:
            case Where.MAIN:
                self._future = self.post(self._job)
            case Where.THREAD:
                self._future = self.pool.submit(self._job)
            case Where.LOOP | Where.RELAY:
                return await _awaited(self._job())
        try:
            return await _awaited(await asyncio.wrap_future(self._future))
        except RuntimeError as error:  # the main thread cannot await here
            return failed(error)

    async def end_on_main(self, announce: Callable[[], object]) -> None:
        """Wait until an interrupt has ended what runs on the main thread, if anything does.

        `announce` is called if that takes long: code can ignore interrupts.
        """
        job = self._future if self.tool.where is Where.MAIN else self._partial.job
        if job is None or job.done():
            return
        ended = asyncio.Event()
        loop = asyncio.get_running_loop()
        job.add_done_callback(lambda _: loop.call_soon_threadsafe(ended.set))
        try:
            await asyncio.wait_for(ended.wait(), PATIENCE)
        except TimeoutError:
            announce()
            await ended.wait()

    def left(self, *, interrupted: bool) -> tuple[ToolStatus, ToolResult]:
        """What became of it, as far as anybody can tell, and what it has put out.

        `interrupted`: a person stopped the run, which reaches what runs on the main thread too.
        """
        result = self._done()
        on_main = self.tool.where in (Where.MAIN, Where.RELAY)
        if result is not None and result.success:
            note = INTERRUPTED if interrupted and on_main else ""
            output = "\n".join(filter(None, (result.output, note)))
            return ToolStatus.SUCCESS, result.model_copy(update={"output": output})
        if self._begun is None:
            return ToolStatus.CANCELLED, ToolResult.failure("cancelled before it had begun")
        if self.tool.where is Where.LOOP or (interrupted and on_main):
            seconds = f"{max(0.0, time.monotonic() - self._begun):.0f} s"
            who = "by the user" if interrupted else "because its time was up,"
            note = f"stopped {who} after {seconds}; part of it may have been done"
            return ToolStatus.CANCELLED, self._failure(note, result)
        note = (
            f"unknown outcome: {self.tool.name} was still at work when the run stopped waiting "
            "for it, and may go on"
        )
        return ToolStatus.UNKNOWN, self._failure(note, result, "Look before you repeat it.")

    def _failure(self, note: str, result: ToolResult | None, advice: str = "") -> ToolResult:
        """What it has put out so far, and why there is no more."""
        known = result or self._partial.result()
        output = f"{note}. Output so far:\n{known.output}" if known.output.strip() else f"{note}."
        return ToolResult(
            success=False,
            error=note,
            output=output,
            advice=advice,
            images=known.images,
            displays=known.displays,
            frames=known.frames,
            variables=known.variables,
        )

    def _job(self) -> ToolResult | Awaitable[ToolResult]:
        """Call the function; whatever it raises, even SystemExit, is its failed result."""
        self._begun = time.monotonic()
        try:
            with self._partial.collect():
                value = self.tool.function(**self.arguments)
            return self._guarded(value) if inspect.isawaitable(value) else as_result(value)
        except BaseException as error:
            return failed(error)

    async def _guarded(self, value: Awaitable[Any]) -> ToolResult:
        try:
            with self._partial.collect():
                return as_result(await value)
        except BaseException as error:
            if ends_the_run(error):
                raise
            return failed(error)

    def _done(self) -> ToolResult | None:
        """A result that came too late to be waited for."""
        future = self._future
        if future is None or not future.done() or future.cancelled() or future.exception():
            return None
        result = future.result()
        return result if isinstance(result, ToolResult) else None


async def _awaited(result: ToolResult | Awaitable[ToolResult]) -> ToolResult:
    return result if isinstance(result, ToolResult) else await result


def ends_the_run(error: BaseException) -> bool:
    """Whether the run is being stopped; a CancelledError of a tool's own is the tool's failure."""
    task = asyncio.current_task()
    return isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling() > 0
