"""A thread that does one job after the other.

Not a ThreadPoolExecutor: a finalizer may call `stop` while the same thread holds one of its locks.
"""

from __future__ import annotations

import contextlib
import os
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")


class Worker:
    """Does jobs until it is stopped; `closed` makes the error of later ones."""

    def __init__(self, name: str, closed: Callable[[], Exception]) -> None:
        self._closed = closed
        self._pid = os.getpid()
        # SimpleQueue.put is reentrant: a finalizer may call it in the middle of another put.
        self._jobs: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]]] = queue.SimpleQueue()
        self._has_ended = False
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    @property
    def is_copy(self) -> bool:
        """True in the copy that a fork made: it has no thread."""
        return os.getpid() != self._pid

    def submit(self, job: Callable[[], T]) -> Future[T]:
        """Return a future for the job's result."""
        future: Future[T] = Future()
        self._jobs.put((future, job))
        if self._has_ended:
            self._refuse_rest()
        return future

    def stop(self, last: Callable[[], None]) -> None:
        """Do the queued jobs, and one last job. Takes no lock."""

        def end() -> None:
            try:
                last()
            finally:
                self._has_ended = True

        if not self.is_copy:
            self._jobs.put((Future(), end))

    def join(self) -> None:
        """Wait for the end."""
        if not self.is_copy:
            self._thread.join()

    def _work(self) -> None:
        while not self._has_ended:
            future, job = self._jobs.get()
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(job())
                except BaseException as error:
                    future.set_exception(error)
            # Otherwise they would be kept until the next job comes.
            del future, job
        self._refuse_rest()

    def _refuse_rest(self) -> None:
        """Fail the jobs that came too late."""
        with contextlib.suppress(queue.Empty):
            while True:
                future, _ = self._jobs.get_nowait()
                if future.set_running_or_notify_cancel():
                    future.set_exception(self._closed())
