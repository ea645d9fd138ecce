"""The engine's thread: one event loop that lives as long as the kernel.

One loop for all runs keeps the connection to the model open between cells. Each run is a task in a
copy of the cell's context, so that its displays land in that cell.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, InvalidStateError
from typing import ClassVar, Generic, Self, TypeVar

from ipyagent.kernel.request_logs import own_context

T = TypeVar("T")


class LoopThread:
    """A daemon thread with an event loop; a process has one of each subclass at a time."""

    thread_name: ClassVar[str]

    _current: ClassVar[LoopThread | None] = None
    _lock: ClassVar = threading.Lock()

    def __init__(self) -> None:
        self.loop = own_context().run(asyncio.new_event_loop)
        self.thread = threading.Thread(target=self._serve, name=self.thread_name, daemon=True)
        self.thread.start()

    @classmethod
    def current(cls) -> Self:
        """Return this class's thread, started when first needed; a forked process gets its own."""
        with cls._lock:
            instance = cls._current
            if not isinstance(instance, cls) or not instance.thread.is_alive():
                instance = cls()
                cls._current = instance
            return instance

    def submit(self, work: Coroutine[object, object, T]) -> Future[T]:
        """Start a coroutine in the loop, from any thread."""
        return own_context().run(asyncio.run_coroutine_threadsafe, work, self.loop)

    def _serve(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
        finally:
            self.loop.close()


class EngineThread(LoopThread):
    """The thread of all runs."""

    thread_name = "ipyagent-engine"

    def wait_for(self, coroutine: Coroutine[object, object, T]) -> T:
        """Run a short coroutine in the loop, and block until it is done."""
        return self.submit(coroutine).result()

    def retire(self) -> None:
        """Let the next run have a new thread; this one ends when its tasks have ended."""
        with self._lock:
            if EngineThread._current is self:
                EngineThread._current = None
        self.submit(self._end())

    async def _end(self) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        if others:
            await asyncio.wait(others)
        await self.loop.shutdown_asyncgens()
        self.loop.stop()


class EngineTask(Generic[T]):
    """A coroutine in the engine's loop; `done` completes when it has ended."""

    def __init__(self, engine: EngineThread) -> None:
        self.engine = engine
        self.done: Future[T] = Future()
        self._task: asyncio.Task[T] | None = None
        self._cancelled = False

    def start(self, make: Callable[[], Coroutine[object, object, T]]) -> None:
        """Start the coroutine, in a copy of the caller's context."""
        context = own_context()
        self.engine.loop.call_soon_threadsafe(self._start, make, context)

    def cancel(self) -> None:
        """Ask the coroutine to stop, from any thread or a signal handler; it may clean up first."""
        with contextlib.suppress(RuntimeError):  # the loop is closed: it has ended
            self.engine.loop.call_soon_threadsafe(self._cancel)

    def end(self, grace: float) -> None:
        """Ask the coroutine to stop; after `grace` seconds it counts as ended, from any thread.

        One that does not end keeps its thread to itself from then on.
        """
        self.cancel()
        timer = threading.Timer(grace, self._give_up)
        timer.daemon = True
        timer.start()

    def _give_up(self) -> None:
        with contextlib.suppress(InvalidStateError):  # it has ended meanwhile
            self.done.set_exception(asyncio.CancelledError())
            self.engine.retire()

    def _start(
        self, make: Callable[[], Coroutine[object, object, T]], context: contextvars.Context
    ) -> None:
        self._task = self.engine.loop.create_task(make(), context=context)
        self._task.add_done_callback(self._complete)
        if self._cancelled:
            self._task.cancel()

    def _cancel(self) -> None:
        self._cancelled = True
        if self._task is not None:
            self._task.cancel()

    def _complete(self, task: asyncio.Task[T]) -> None:
        with contextlib.suppress(InvalidStateError):  # its caller gave up waiting
            if task.cancelled():
                self.done.set_exception(asyncio.CancelledError())
            elif error := task.exception():
                self.done.set_exception(error)
            else:
                self.done.set_result(task.result())
