"""Interrupts: a run's own SIGINT handler.

ipykernel's own handler does not wake an idle event loop, and blocking code inside an async cell
ignores it (ipykernel#881), so each run brings a handler of its own and restores the old one.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any

from ipyagent.kernel.main_thread import MainThread


class Interrupt:
    """A context in which SIGINT, or a call of `stop`, ends the run.

    `on_stop` is called at once, from whichever thread asks; where a job occupies the main thread,
    KeyboardInterrupt is raised in it as well, or it is cancelled if it awaits.
    """

    def __init__(self, main: MainThread, on_stop: Callable[[], object]) -> None:
        self.main, self.on_stop = main, on_stop
        self.requests = 0
        self._old: Any = None
        self._owner = threading.get_ident()
        self._installed = False

    @property
    def requested(self) -> bool:
        """Whether the person asked to stop."""
        return self.requests > 0

    def stop(self) -> None:
        """Ask to stop, from any thread (the Stop button)."""
        if self._installed and self.main.busy and threading.get_ident() != self._owner:
            # The handler must run in the busy main thread itself.
            signal.pthread_kill(self._owner, signal.SIGINT)
        else:
            self._request()

    def __enter__(self) -> Interrupt:
        if threading.current_thread() is threading.main_thread():
            self._old = signal.signal(signal.SIGINT, self._handle)
            self._installed = True
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        if self._installed:
            signal.signal(signal.SIGINT, self._old)
            self._installed = False

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self._request()
        if self.main.holds(frame):
            signal.default_int_handler(number, frame)

    def _request(self) -> None:
        # Counted first: code that swallows the KeyboardInterrupt must not let the agent carry on.
        self.requests += 1
        self.main.stop()
        self.on_stop()
