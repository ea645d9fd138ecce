"""A tool at work, where it belongs, and what is known of it when nobody waits any longer."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from typing import Any

from ipyagent.schema import ToolResult, ToolStatus
from ipyagent.tools.base import Tool, Where
from ipyagent.tools.results import as_result, failed


@dataclass
class Running:
    """One tool with its checked arguments. `post` runs a job on the main thread."""

    tool: Tool
    arguments: dict[str, Any]
    post: Callable[[Callable[[], Any]], Future[Any]]
    pool: Executor
    _future: Future[Any] | None = field(default=None, init=False)

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

    def left(self, *, interrupted: bool) -> tuple[ToolStatus, ToolResult]:
        """What became of it, as far as anybody can tell.

        `interrupted`: a person stopped the run, which reaches what runs on the main thread too.
        """
        if result := self._done():
            return ToolStatus.SUCCESS, result
        on_main = self.tool.where in (Where.MAIN, Where.RELAY)
        reached = self.tool.where is Where.LOOP or (interrupted and on_main)
        if self._future is not None and self._future.cancelled():
            return ToolStatus.CANCELLED, ToolResult.failure("cancelled before it had begun")
        if reached:
            return ToolStatus.CANCELLED, ToolResult.failure(
                "cancelled before it had a result; part of it may have been done"
            )
        return ToolStatus.UNKNOWN, ToolResult.failure(
            f"unknown outcome: {self.tool.name} was still at work when the run stopped waiting "
            "for it, and may go on. Look before you repeat it."
        )

    def _job(self) -> ToolResult | Awaitable[ToolResult]:
        """Call the function; whatever it raises, even SystemExit, is its failed result."""
        try:
            value = self.tool.function(**self.arguments)
            return _guarded(value) if inspect.isawaitable(value) else as_result(value)
        except BaseException as error:
            return failed(error)

    def _done(self) -> ToolResult | None:
        """A success that came too late to be waited for."""
        future = self._future
        if future is None or not future.done() or future.cancelled() or future.exception():
            return None
        result = future.result()
        return result if isinstance(result, ToolResult) and result.success else None


async def _awaited(result: ToolResult | Awaitable[ToolResult]) -> ToolResult:
    return result if isinstance(result, ToolResult) else await result


async def _guarded(value: Awaitable[Any]) -> ToolResult:
    try:
        return as_result(await value)
    except BaseException as error:
        if ends_the_run(error):
            raise
        return failed(error)


def ends_the_run(error: BaseException) -> bool:
    """Whether the run is being stopped; a CancelledError of a tool's own is the tool's failure."""
    task = asyncio.current_task()
    return isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling() > 0
