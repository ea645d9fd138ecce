"""A thread with an event loop that lives as long as the process."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, ClassVar, Self, TypeVar

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

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Start a coroutine in the loop, from any thread."""
        return own_context().run(asyncio.run_coroutine_threadsafe, work, self.loop)

    def _serve(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
        finally:
            self.loop.close()
