"""What a call has put out so far, for whoever stops waiting for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from ipyagent.kernel.outputs import Outputs
from ipyagent.schema import ToolResult

_current: ContextVar[Partial | None] = ContextVar("partial", default=None)


class Partial:
    """A place where those who record a call's output leave a way to read it at any time.

    `job` is what they have posted to the main thread, if they have.
    """

    def __init__(self) -> None:
        self._read: Callable[[], ToolResult] | None = None
        self.job: Future[Any] | None = None

    def result(self) -> ToolResult:
        """Return what there is so far, from any thread."""
        return self._read() if self._read else ToolResult()

    @contextmanager
    def collect(self) -> Iterator[None]:
        """Have what is offered within this context offered here."""
        token = _current.set(self)
        try:
            yield
        finally:
            _current.reset(token)

    def offer(self, read: Callable[[], ToolResult], job: Future[Any] | None = None) -> None:
        """Set how to read it."""
        self._read, self.job = read, job


def offer(read: Callable[[], ToolResult], job: Future[Any] | None = None) -> None:
    """Tell whoever waits for the present call, if anybody does, how to read its output."""
    if (partial := _current.get()) is not None:
        partial.offer(read, job)


def so_far(outputs: Outputs) -> ToolResult:
    """Return what was printed, drawn and displayed until now."""
    return ToolResult(
        output=outputs.text(),
        images=outputs.images,
        displays=outputs.displays,
        frames=outputs.frames,
    )
