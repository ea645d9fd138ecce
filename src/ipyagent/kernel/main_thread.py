"""Jobs for the kernel's main thread, posted by the engine's thread.

The user's variables, figures and connections belong to the main thread, and `input()` works only
there. During a run, the main thread serves these jobs one at a time.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import queue
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

Job = Callable[[], Any]
Outcome = tuple[Any, BaseException | None]

CLOSED = "the cell that served the main thread has ended"


@dataclass
class MainThread:
    """A queue of jobs. `ring` wakes the thread that serves it; `busy` is set while a job runs.

    Once stopped, it runs no more jobs, not even queued ones. `after_job` is called in the main
    thread when one has ended.
    """

    ring: Callable[[], object] = lambda: None
    after_job: Callable[[], object] = lambda: None
    busy: bool = False
    stopped: bool = False
    closed: bool = False
    _jobs: queue.SimpleQueue[tuple[Job, Future[Any]]] = field(default_factory=queue.SimpleQueue)
    _awaited: asyncio.Task[Any] | None = None

    def post(self, job: Job) -> Future[Any]:
        """Queue a job; the future gets its result or exception."""
        future: Future[Any] = Future()
        self._jobs.put((job, future))
        if self.closed:  # checked after queueing, so that no job is left there
            self._refuse()
        self.ring()
        return future

    def serve(self) -> None:
        """Run all queued jobs (sync driver)."""
        while (taken := self._take()) is not None:
            job, future = taken
            value, error = self._run(job)
            if inspect.iscoroutine(value):
                value.close()
                error = RuntimeError("this cell cannot await")
            self._complete(future, value, error)

    async def serve_async(self) -> None:
        """Run all queued jobs, awaiting awaitable results (async driver)."""
        while (taken := self._take()) is not None:
            job, future = taken
            value, error = self._run(job)
            if inspect.isawaitable(value):
                value, error = await self._await(value)
            self._complete(future, value, error)

    def holds(self, frame: FrameType | None) -> bool:
        """Return whether a job's code runs at `frame`, so that an exception there reaches it.

        A job that awaits leaves the thread to the kernel's loop, which an exception would end.
        """
        while frame is not None:
            if frame.f_code in (MainThread._call.__code__, _awaiting.__code__):
                return True
            frame = frame.f_back
        return False

    def close(self) -> None:
        """Refuse all jobs from now on: nobody serves them any more. On the main thread."""
        self.closed, self.ring = True, lambda: None
        self._refuse()

    def stop(self) -> None:
        """Run no more jobs, and cancel one that awaits; from any thread or a signal handler."""
        self.stopped = True
        if (awaited := self._awaited) is not None:
            awaited.get_loop().call_soon_threadsafe(awaited.cancel)

    def _refuse(self) -> None:
        """Fail all queued jobs, from any thread."""
        with contextlib.suppress(queue.Empty):
            while True:
                _, future = self._jobs.get_nowait()
                if future.set_running_or_notify_cancel():
                    future.set_exception(RuntimeError(CLOSED))

    def _run(self, job: Job) -> Outcome:
        try:
            return self._call(job), None
        except BaseException as error:
            return None, error

    def _call(self, job: Job) -> Any:
        # Checked here, so that an interrupt comes either before this check or out of the job.
        if self.stopped:
            raise KeyboardInterrupt
        return job()

    async def _await(self, value: Awaitable[object]) -> Outcome:
        self._awaited = task = asyncio.ensure_future(_awaiting(value))
        if self.stopped:
            task.cancel()
        await asyncio.wait([task])
        self._awaited = None
        try:
            return task.result(), None
        except BaseException as error:
            return None, error

    def _take(self) -> tuple[Job, Future[Any]] | None:
        while True:
            try:
                job, future = self._jobs.get_nowait()
            except queue.Empty:
                return None
            # A job whose caller was cancelled meanwhile must not run.
            if future.set_running_or_notify_cancel():
                self.busy = True
                return job, future

    def _complete(self, future: Future[Any], value: object, error: BaseException | None) -> None:
        self.busy = False
        self.after_job()
        if error is None:
            future.set_result(value)
        else:
            future.set_exception(_harmless(error))


async def _awaiting(value: Awaitable[object]) -> Any:
    return await value


def _harmless(error: BaseException) -> Exception:
    """Return the error in a form that cannot end the engine's loop, as SystemExit would."""
    if isinstance(error, Exception) and not isinstance(error, StopIteration):
        return error
    return RuntimeError(f"{type(error).__name__} on the main thread: {error}")
