"""A thread that does one job after the other.

Not a thread pool: that takes locks, and the garbage collector, which stops forgotten workers, may
call in the middle of a pool's own work.
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
    """Does jobs until it is stopped; `closed` makes the error of those that come later."""

    def __init__(self, name: str, closed: Callable[[], Exception]) -> None:
        self._closed = closed
        self._pid = os.getpid()
        # A queue that can be put to even in the middle of a put.
        self._jobs: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]]] = queue.SimpleQueue()
        self._has_ended = False
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    @property
    def is_copy(self) -> bool:
        """Whether this is the copy that a fork made: it has no thread."""
        return os.getpid() != self._pid

    def submit(self, job: Callable[[], T]) -> Future[T]:
        """What the job will return."""
        future: Future[T] = Future()
        self._jobs.put((future, job))
        if self._has_ended:
            self._refuse_rest()
        return future

    def stop(self, last: Callable[[], None]) -> None:
        """Do what was submitted so far, and one last thing. Takes no lock."""

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
            # They would be kept until the next ones come.
            del future, job
        self._refuse_rest()

    def _refuse_rest(self) -> None:
        """Whoever comes last clears up."""
        with contextlib.suppress(queue.Empty):
            while True:
                future, _ = self._jobs.get_nowait()
                if future.set_running_or_notify_cancel():
                    future.set_exception(self._closed())
