"""The thread of connections to MCP servers, which lives as long as the kernel.

A connection's scopes must be left by the task that entered them. So each connection has a task of
its own here, and runs only send it requests.
"""

from __future__ import annotations

import asyncio
import atexit
from collections.abc import Coroutine
from concurrent.futures import wait
from typing import Any, Protocol, TypeVar
from weakref import WeakSet

from ipyagent.kernel.loop_thread import LoopThread

T = TypeVar("T")

_EXIT_SECONDS = 3.0  # seconds that servers get to end by themselves when the kernel ends


class Closable(Protocol):
    """An object that must be closed when the kernel ends."""

    async def close(self) -> None:
        """End it; called in the thread's loop."""

    def kill(self) -> None:
        """End it at once, from any thread."""


class ServersThread(LoopThread):
    """The thread of all connections; `connections` are those to close when it ends."""

    thread_name = "ipyagent-mcp"

    def __init__(self) -> None:
        self.connections: WeakSet[Closable] = WeakSet()
        super().__init__()
        atexit.register(self._close)

    async def run(self, work: Coroutine[Any, Any, T], seconds: float) -> T:
        """Await `work` from another loop; raises TimeoutError even if this loop hangs."""
        return await asyncio.wait_for(asyncio.wrap_future(self.submit(work)), seconds)

    def _close(self) -> None:
        remaining = list(self.connections)
        if self.thread.is_alive():
            wait([self.submit(each.close()) for each in remaining], _EXIT_SECONDS)
        for each in remaining:
            each.kill()
