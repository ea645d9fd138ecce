"""The output so far of a call, for a caller that stops waiting for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from ipyagent.kernel.outputs import Outputs
from ipyagent.schema import ToolResult

_current: ContextVar[PartialOutput | None] = ContextVar("partial", default=None)


class PartialOutput:
    """A place where a call's recorder leaves a way to read its output at any time.

    `job` is its job on the main thread, if there is one.
    """

    def __init__(self) -> None:
        self._read: Callable[[], ToolResult] | None = None
        self.job: Future[Any] | None = None

    def result(self) -> ToolResult:
        """Return the output so far, from any thread."""
        return self._read() if self._read else ToolResult()

    @contextmanager
    def collect(self) -> Iterator[None]:
        """Collect the offers made within this context."""
        token = _current.set(self)
        try:
            yield
        finally:
            _current.reset(token)

    def offer(self, read: Callable[[], ToolResult], job: Future[Any] | None = None) -> None:
        """Set how to read it."""
        self._read, self.job = read, job


def offer(read: Callable[[], ToolResult], job: Future[Any] | None = None) -> None:
    """Set how the output of the current call is read, if a caller waits for it."""
    if (partial := _current.get()) is not None:
        partial.offer(read, job)


def output_so_far(outputs: Outputs) -> ToolResult:
    """Return the output until now: prints, figures, displays."""
    outputs.read_workers()
    return ToolResult(
        output=outputs.text(),
        images=outputs.images,
        displays=outputs.displays,
        frames=outputs.frames,
    )
