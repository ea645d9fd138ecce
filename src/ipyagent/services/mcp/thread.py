"""The thread in which connections to MCP servers live, as long as the kernel.

A connection's scopes have to be left by the task that entered them, so each has a task of its own
here, and runs only ask that to do something.
"""

from __future__ import annotations

import asyncio
import atexit
import threading
from collections.abc import Coroutine
from concurrent.futures import Future, wait
from typing import Any, Protocol, TypeVar
from weakref import WeakSet

T = TypeVar("T")

_AT_EXIT = 3.0  # seconds that servers have to end politely when the kernel does


class Closing(Protocol):
    """What has to be closed when the kernel ends."""

    async def close(self) -> None:
        """End it; called in the thread's loop."""

    def kill(self) -> None:
        """End it at once, from any thread."""


class ServersThread:
    """A daemon thread with an event loop."""

    _current: ServersThread | None = None
    _lock = threading.Lock()

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.open: WeakSet[Closing] = WeakSet()
        self._thread = threading.Thread(target=self._serve, name="ipyagent-mcp", daemon=True)
        self._thread.start()
        atexit.register(self._close)

    @classmethod
    def current(cls) -> ServersThread:
        """The kernel's, started at first need; a forked process gets its own."""
        with cls._lock:
            if cls._current is None or not cls._current._thread.is_alive():
                cls._current = ServersThread()
            return cls._current

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Let the loop do it."""
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    async def run(self, work: Coroutine[Any, Any, T], seconds: float) -> T:
        """Await it from another loop; raises TimeoutError even where this loop should hang."""
        return await asyncio.wait_for(asyncio.wrap_future(self.submit(work)), seconds)

    def _serve(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()

    def _close(self) -> None:
        left = list(self.open)
        if self._thread.is_alive():
            wait([self.submit(each.close()) for each in left], _AT_EXIT)
        for each in left:
            each.kill()
