"""Two ways for a cell to wait for a run: awaiting it, or blocking.

Either way the engine runs in its own thread and the cell's thread serves its jobs, until the run
has ended or releases the cell (`Cell.release`). Awaiting leaves the kernel's loop free, so that
clicks arrive while the cell is running; blocking is for places that cannot await: inside `%%time`,
a direct `run_cell_magic`, `%autoawait off`, a script.

While a cell awaits, the user's own widgets are kept alive: ipykernel 7.4 handles comm messages
beside an awaiting cell without publishing busy and idle for them. ipywidgets in the page holds back
further changes of a widget until it has seen that idle, so one keystroke during the cell would
leave a text field dead, even after it.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Self, TypeVar

from ipyagent.errors import AgentInterrupted
from ipyagent.json_types import JsonDict
from ipyagent.kernel.interrupt import Interrupt, watch_interrupts
from ipyagent.kernel.shell import Shell, kernel_of, running_shell
from ipyagent.kernel.threads import EngineTask, EngineThread, MainThread

T = TypeVar("T")

GRACE = 3.0
"""Seconds that a stopped run gets to close its open calls, once the main thread is free."""

SHORT_GRACE = 0.5
"""The same if the user has asked twice."""

DOUBLE_CLICK = 0.5
"""Seconds within which a second request to stop counts as the first."""

REMINDER = 1.0
"""Seconds after which interrupted code that still runs is interrupted again."""

STOPPED = "stopped; the session continues with the next prompt"


@dataclass
class Cell:
    """A cell that waits for a run, and serves its calls on the waiting thread."""

    main: MainThread = field(default_factory=MainThread)
    interrupt: Interrupt = field(init=False)
    background: EngineTask[Any] | None = field(default=None, init=False)
    """The run that continues although the cell has ended."""
    _released: tuple[Any] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.interrupt = Interrupt(self.main)

    def stop(self) -> None:
        """Ask the run to stop, from any thread."""
        if self.background is not None:
            self.background.end(GRACE)
        else:
            self.interrupt.stop()

    def release(self, value: object) -> None:
        """Let the cell end with `value` while its run continues; from the engine's thread.

        From here on the run must need nothing of the main thread. If the cell is interrupted
        meanwhile, its run ends nevertheless.
        """
        self._released = (value,)
        self.main.ring()

    @property
    def is_released(self) -> bool:
        """True if the run continues, or will soon continue, without the cell."""
        return self._released is not None


Engine = Callable[[], Coroutine[object, object, T]]


@contextlib.contextmanager
def stoppable(cell: Cell) -> Iterator[None]:
    """Let an interrupt end the body at any point, by AgentInterrupted."""
    try:
        with cell.interrupt:
            yield
    except AgentInterrupted:
        raise
    except BaseException as error:
        if cell.interrupt.is_requested or isinstance(error, KeyboardInterrupt):
            raise AgentInterrupted(STOPPED) from None
        raise
    if cell.interrupt.is_requested:
        raise AgentInterrupted(STOPPED)


_KERNELS = {"ipykernel", "IPython", "anyio", "tornado"}
"""Packages whose tasks run cells."""


async def drive_async_in_any_task(cell: Cell, engine: Engine[T]) -> T:
    """Await the engine, also in a task that the user's code has made in a kernel.

    An interrupt ends such a task as cancelled: a KeyboardInterrupt that leaves it would end the
    kernel's event loop.
    """
    try:
        return await drive_async(cell, engine)
    except AgentInterrupted as interrupt:
        if running_shell() is not None and _is_in_task_of_user():
            raise asyncio.CancelledError(str(interrupt)) from None
        raise


def _is_in_task_of_user() -> bool:
    task = asyncio.current_task()
    code = getattr(task and task.get_coro(), "cr_code", None)
    return code is None or _KERNELS.isdisjoint(Path(code.co_filename).parts)


async def drive_async(cell: Cell, engine: Engine[T]) -> T:
    """Await the engine, serving its jobs in between; raises AgentInterrupted.

    If the caller is cancelled, the engine is stopped first, as by an interrupt.
    """
    loop, bell = asyncio.get_running_loop(), asyncio.Event()
    cell.main.ring = lambda: loop.call_soon_threadsafe(bell.set)

    async def serve() -> None:
        while not drive.over:
            await _wait(bell, drive.patience)
            with drive.holding():
                await cell.main.serve_async()

    with _Drive(cell, engine) as drive:
        # A task of its own, so that no job is left halfway if the caller is cancelled.
        serving, is_cancelled = asyncio.ensure_future(serve()), False
        while not serving.done():
            try:
                await asyncio.wait([serving])
            except asyncio.CancelledError:
                is_cancelled = True
                cell.stop()
        serving.result()
        if is_cancelled:
            raise asyncio.CancelledError
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
            with drive.holding():
                cell.main.serve()
        return drive.result()


class _Drive(Generic[T]):
    """A run and the cell's means to stop it."""

    def __init__(self, cell: Cell, engine: Engine[T]) -> None:
        self.cell, self.engine = cell, engine
        self.interrupt = cell.interrupt
        self.task: EngineTask[T] = EngineTask(EngineThread.current())
        self.requested_at: float | None = None
        self.deadline: float | None = None
        self.grace = GRACE
        self.ended = False
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Self:
        self.interrupt.__enter__()
        self.interrupt.on_stop = self._stop
        self._stack.enter_context(watch_interrupts(self.task.engine.loop, self._make_up))
        self.task.done.add_done_callback(lambda _: self.cell.main.ring())
        self.task.start(self.engine)
        if self.interrupt.is_requested:  # before there was an engine to stop
            self._stop()
        return self

    def __exit__(self, *error: object) -> None:
        self.ended = True
        if self.task.done.done():
            pass
        elif self._continues and error[0] is None:
            self.cell.background = self.task
            self.cell.main.close()
        else:
            self.task.cancel()
            self.task.engine.retire()
        self._stack.close()
        self.interrupt.__exit__(None, None, None)

    @property
    def patience(self) -> float | None:
        """Seconds to wait for the next job: unlimited, or the rest of the grace period."""
        return None if self.deadline is None else max(0.0, self.deadline - time.monotonic())

    @property
    def over(self) -> bool:
        return self.task.done.done() or self.patience == 0.0 or self._continues

    @property
    def _continues(self) -> bool:
        return self.cell.is_released and not self.interrupt.is_requested

    @contextlib.contextmanager
    def holding(self) -> Iterator[None]:
        """Mark that the main thread runs a job: its time does not count against the run."""
        started = time.monotonic()
        yield
        now = time.monotonic()
        if self.deadline is not None and now - started > DOUBLE_CLICK / 2:
            self.deadline = max(self.deadline, now + self.grace)

    def result(self) -> T:
        if self.interrupt.is_requested:
            raise AgentInterrupted(STOPPED)
        released = self.cell._released
        if released is not None and not self.task.done.done():
            value: T = released[0]
            return value
        return self.task.done.result()

    def _stop(self) -> None:
        moment = time.monotonic()
        if self.requested_at is None or self.deadline is None:
            self.requested_at, self.deadline = moment, moment + GRACE
            with contextlib.suppress(RuntimeError):  # its loop is closed
                self.task.engine.loop.call_soon_threadsafe(self._remind_later)
        elif moment > self.requested_at + DOUBLE_CLICK:
            # The user asked again, and will not wait for the run to close its calls.
            self.grace = SHORT_GRACE
            self.deadline = min(self.deadline, moment + SHORT_GRACE)
        self.task.cancel()
        self.cell.main.ring()

    def _make_up(self) -> None:
        if not self.ended:
            self.interrupt.make_up()

    def _remind_later(self) -> None:
        self.task.engine.loop.call_later(REMINDER, self._remind)

    def _remind(self) -> None:
        if not self.ended:
            self.interrupt.remind()
            self._remind_later()


async def _wait(bell: asyncio.Event, seconds: float | None) -> None:
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(bell.wait(), seconds)
    bell.clear()


@contextmanager
def comm_status(shell: Shell) -> Iterator[None]:
    """Publish busy and idle around each comm message that arrives meanwhile."""
    kernel = kernel_of(shell)
    handlers = getattr(kernel, "shell_handlers", {})
    handle = handlers.get("comm_msg")
    publish = getattr(kernel, "_publish_status", None)
    if handle is None or publish is None:
        yield
        return

    def publish_and_handle(stream: object, ident: object, message: JsonDict) -> object:
        publish("busy", "shell", message)
        try:
            return handle(stream, ident, message)
        finally:
            publish("idle", "shell", message)

    handlers["comm_msg"] = publish_and_handle
    try:
        yield
    finally:
        handlers["comm_msg"] = handle
