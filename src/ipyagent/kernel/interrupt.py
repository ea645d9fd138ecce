"""Interrupts: a cell's own SIGINT handler.

ipykernel's own handler does not wake an idle event loop, and blocking code inside an async cell
ignores it (ipykernel#881), so each agent cell brings a handler of its own and restores the old one.
If a tool's code has set another handler meanwhile, that one is installed when the cell ends, as
after a cell that had set it; until then an interrupt still ends the run.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import CodeType, FrameType, TracebackType
from typing import Any, TypeVar

from ipyagent.kernel.main_thread import MainThread

F = TypeVar("F", bound=Callable[..., Any])

_UNINTERRUPTIBLE: set[CodeType] = set()
_NOT_REMINDED: set[CodeType] = set()


def without_interrupts(function: F) -> F:
    """Let no interrupt end `function` halfway: it takes effect when that is done."""
    _UNINTERRUPTIBLE.add(function.__code__)
    return function


def without_reminders(function: F) -> F:
    """Let no reminder end `function`, which saves the output of code; the user still can."""
    _NOT_REMINDED.add(function.__code__)
    return function


class Interrupt:
    """A context in which SIGINT, or a call of `stop`, ends the cell's work. It may be nested.

    `on_stop` is called at once, from whichever thread asks; if a job occupies the main thread,
    KeyboardInterrupt is raised in it as well, or it is cancelled if it awaits.
    """

    def __init__(self, main: MainThread) -> None:
        self.main = main
        self.on_stop: Callable[[], object] = _nothing
        self.requests = 0
        self._handler = self._handle  # one object, to be recognized
        self._old: Any = None
        self._owner = threading.get_ident()
        self._depth = 0
        self._installed = self._raises = self._is_reminder = False

    @property
    def is_requested(self) -> bool:
        """True if the user asked to stop."""
        return self.requests > 0

    def stop(self) -> None:
        """Ask to stop, from any thread (the Stop button)."""
        if not self._depth:
            return
        elsewhere = threading.get_ident() != self._owner
        if elsewhere and self.main.busy and self._is_in_force():
            # The handler must run in the busy main thread itself.
            signal.pthread_kill(self._owner, signal.SIGINT)
        else:
            self._request()

    def remind(self) -> None:
        """Interrupt a job again that still runs although it was interrupted; from any thread."""
        self.main.stop()
        if self.main.busy and self._is_in_force():
            self._is_reminder = True
            signal.pthread_kill(self._owner, signal.SIGINT)

    def make_up(self) -> None:
        """Ask to stop for a SIGINT that the handler has not seen yet, if there was one."""
        if not self.is_requested and self._is_in_force():
            self._is_reminder = True  # when the handler sees it, it is nothing new
            self._request()

    @contextmanager
    def raising(self) -> Iterator[None]:
        """Let an interrupt end the body by KeyboardInterrupt, in the main thread."""
        self._raises = True
        try:
            if self.is_requested:
                raise KeyboardInterrupt
            yield
        finally:
            self._raises = False

    def reclaim(self) -> None:
        """Install this handler again if code has set another; that one is installed afterwards."""
        if self._installed and not self._is_in_force():
            current = signal.getsignal(signal.SIGINT)
            if current is not None:  # None: not set by Python, so it cannot be set again
                self._old = current
            signal.signal(signal.SIGINT, self._handler)

    def __enter__(self) -> Interrupt:
        self._depth += 1
        if self._depth == 1 and threading.current_thread() is threading.main_thread():
            self._owner = threading.get_ident()
            self._old = signal.signal(signal.SIGINT, self._handler) or signal.default_int_handler
            self._installed = True
            self.main.after_job = self.reclaim
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self._depth -= 1
        if self._depth == 0 and self._installed:
            if self._is_in_force():
                signal.signal(signal.SIGINT, self._old)
            self._installed = False

    def _is_in_force(self) -> bool:
        return self._installed and signal.getsignal(signal.SIGINT) is self._handler

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if not self._installed:  # code kept this handler, and set it again after the cell
            signal.default_int_handler(number, frame)
        is_reminder, self._is_reminder = self._is_reminder, False
        if not is_reminder:
            self._request()
        if _is_uninterruptible(frame) or (is_reminder and _is_not_reminded(frame)):
            return
        if self._raises or self.main.holds(frame):
            self._raises = False
            signal.default_int_handler(number, frame)

    def _request(self) -> None:
        # Counted first: code that swallows the KeyboardInterrupt must not let the agent carry on.
        self.requests += 1
        self.main.stop()
        self.on_stop()


def _is_uninterruptible(frame: FrameType | None) -> bool:
    """Return whether `frame` must not end halfway; a half-made import stays broken."""
    while frame is not None:
        code = frame.f_code
        if code in _UNINTERRUPTIBLE or code.co_filename == "<frozen importlib._bootstrap>":
            return True
        frame = frame.f_back
    return False


def _is_not_reminded(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code in _NOT_REMINDED:
            return True
        frame = frame.f_back
    return False


def _nothing() -> None:
    pass
