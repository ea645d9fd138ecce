"""Two ways for a cell to wait for a run: awaiting it, or blocking.

Either way the engine thinks in its own thread and the cell's thread serves its jobs. Awaiting
leaves the kernel's loop free, so that clicks arrive while the cell is running; blocking is for
places that cannot await: inside `%%time`, a direct `run_cell_magic`, `%autoawait off`, a script.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Generic, Self, TypeVar

from ipyagent.errors import AgentInterrupted
from ipyagent.kernel.engine_thread import EngineTask, EngineThread
from ipyagent.kernel.interrupt import Interrupt
from ipyagent.kernel.main_thread import MainThread

T = TypeVar("T")

GRACE = 3.0
"""Seconds that a stopped run gets to close its open calls."""

DOUBLE_CLICK = 0.5
"""Seconds within which a second request to stop says nothing new."""


@dataclass
class Cell:
    """A cell that waits for a run: what the run needs from the thread that waits."""

    main: MainThread = field(default_factory=MainThread)
    stop: Callable[[], object] = lambda: None
    """Ask the run to end, from any thread."""


Engine = Callable[[], Coroutine[Any, Any, T]]


async def drive_async(cell: Cell, engine: Engine[T]) -> T:
    """Await the engine, serving its jobs in between; raises AgentInterrupted."""
    loop, bell = asyncio.get_running_loop(), asyncio.Event()
    cell.main.ring = lambda: loop.call_soon_threadsafe(bell.set)
    with _Drive(cell, engine) as drive:
        try:
            while not drive.over:
                await _wait(bell, drive.patience)
                await cell.main.serve_async()
        except asyncio.CancelledError:
            drive.task.cancel()
            raise
        return drive.result()


def drive_sync(cell: Cell, engine: Engine[T]) -> T:
    """Block until the engine is done, serving its jobs in between; raises AgentInterrupted."""
    # Not a threading.Event: the signal handler rings too, and only a SimpleQueue is reentrant.
    bell: queue.SimpleQueue[None] = queue.SimpleQueue()
    cell.main.ring = lambda: bell.put(None)
    with _Drive(cell, engine) as drive:
        while not drive.over:
            with contextlib.suppress(queue.Empty):
                bell.get(timeout=drive.patience)
            cell.main.serve()
        return drive.result()


class _Drive(Generic[T]):
    """A run and the cell's means to end it."""

    def __init__(self, cell: Cell, engine: Engine[T]) -> None:
        self.cell, self.engine = cell, engine
        self.task: EngineTask[T] = EngineTask(EngineThread.current())
        self.interrupt = Interrupt(cell.main, self._stop)
        self.deadline: float | None = None

    def __enter__(self) -> Self:
        self.interrupt.__enter__()
        self.cell.stop = self.interrupt.stop
        self.task.done.add_done_callback(lambda _: self.cell.main.ring())
        self.task.start(self.engine)
        return self

    def __exit__(self, *error: object) -> None:
        self.cell.stop = lambda: None
        self.interrupt.__exit__(None, None, None)
        if not self.task.done.done():
            self.task.cancel()
            self.task.engine.abandon()

    @property
    def patience(self) -> float | None:
        """Seconds to wait for the next job: without end, or what is left of the grace."""
        return None if self.deadline is None else max(0.0, self.deadline - time.monotonic())

    @property
    def over(self) -> bool:
        return self.task.done.done() or self.patience == 0.0

    def result(self) -> T:
        if self.interrupt.requested:
            raise AgentInterrupted("stopped; the session goes on with the next prompt")
        return self.task.done.result()

    def _stop(self) -> None:
        moment = time.monotonic()
        if self.deadline is None:
            self.deadline = moment + GRACE
        elif moment > self.deadline - GRACE + DOUBLE_CLICK:
            # Asked again, the person will not wait for the run to close its calls.
            self.deadline = moment
        self.task.cancel()
        self.cell.main.ring()


async def _wait(bell: asyncio.Event, seconds: float | None) -> None:
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(bell.wait(), seconds)
    bell.clear()
