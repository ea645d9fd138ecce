"""Jobs for the kernel's main thread, posted by the engine's thread.

The person's variables, figures and connections belong to the main thread, and `input()` works
only there. While a run is on, the main thread serves these jobs one at a time.
"""

from __future__ import annotations

import inspect
import queue
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

Job = Callable[[], Any]


@dataclass
class MainThread:
    """A queue of jobs. `ring` wakes whoever serves it; `busy` tells that a job is running."""

    ring: Callable[[], object] = lambda: None
    busy: bool = False
    _jobs: queue.SimpleQueue[tuple[Job, Future[Any]]] = field(default_factory=queue.SimpleQueue)

    def post(self, job: Job) -> Future[Any]:
        """Queue a job; the future gets what it returns or raises."""
        future: Future[Any] = Future()
        self._jobs.put((job, future))
        self.ring()
        return future

    def serve(self) -> None:
        """Run all queued jobs (sync driver)."""
        while (taken := self._take()) is not None:
            job, future = taken
            with _Settled(self, future) as settled:
                result = job()
                if inspect.isawaitable(result):
                    _discard(result)
                    raise RuntimeError("this cell cannot await")
                settled.result = result

    async def serve_async(self) -> None:
        """Run all queued jobs, awaiting what they return where it is awaitable (async driver)."""
        while (taken := self._take()) is not None:
            job, future = taken
            with _Settled(self, future) as settled:
                result = job()
                settled.result = await result if inspect.isawaitable(result) else result

    def _take(self) -> tuple[Job, Future[Any]] | None:
        try:
            job, future = self._jobs.get_nowait()
        except queue.Empty:
            return None
        # A job whose asker was cancelled meanwhile must not run.
        return (job, future) if future.set_running_or_notify_cancel() else self._take()


class _Settled:
    """Whatever happens to the job, its future is settled and the thread is free again."""

    def __init__(self, main: MainThread, future: Future[Any]) -> None:
        self.main, self.future, self.result = main, future, None

    def __enter__(self) -> _Settled:
        self.main.busy = True
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        self.main.busy = False
        if error is None:
            self.future.set_result(self.result)
        else:
            self.future.set_exception(_harmless(error))
        return True


def _harmless(error: BaseException) -> Exception:
    """The error in a form that cannot end the engine's event loop, as SystemExit would."""
    if isinstance(error, Exception) and not isinstance(error, StopIteration):
        return error
    return RuntimeError(f"{type(error).__name__} on the main thread: {error}")


def _discard(awaitable: Awaitable[Any]) -> None:
    close = getattr(awaitable, "close", None)
    if close is not None:
        close()
