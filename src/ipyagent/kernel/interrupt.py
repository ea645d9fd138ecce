"""Interrupts: a cell's own SIGINT handler.

ipykernel's own handler does not wake an idle event loop, and blocking code inside an async cell
ignores it (ipykernel#881), so each agent cell brings a handler of its own and restores the old one.
Where code of a tool has set another handler meanwhile, that one is put in force when the cell ends,
as after a cell that had set it; until then an interrupt still ends the run.
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

_WHOLE: set[CodeType] = set()
_UNHURRIED: set[CodeType] = set()


def uninterrupted(function: F) -> F:
    """Let no interrupt end `function` halfway: it takes effect when that is done."""
    _WHOLE.add(function.__code__)
    return function


def unhurried(function: F) -> F:
    """Let no reminder end `function`, which keeps what code has put out; the user still can."""
    _UNHURRIED.add(function.__code__)
    return function


class Interrupt:
    """A context in which SIGINT, or a call of `stop`, ends what a cell does. It may be nested.

    `on_stop` is called at once, from whichever thread asks; where a job occupies the main thread,
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
    def requested(self) -> bool:
        """Whether the user asked to stop."""
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
        """Interrupt a job that goes on although it was interrupted; from any thread."""
        self.main.stop()
        if self.main.busy and self._is_in_force():
            self._is_reminder = True
            signal.pthread_kill(self._owner, signal.SIGINT)

    def make_up(self) -> None:
        """Ask to stop for a SIGINT that the handler has not seen yet, if there was one."""
        if not self.requested and self._is_in_force():
            self._is_reminder = True  # when the handler sees it, it is nothing new
            self._request()

    @contextmanager
    def raising(self) -> Iterator[None]:
        """Have an interrupt end what is within by KeyboardInterrupt, in the main thread."""
        self._raises = True
        try:
            if self.requested:
                raise KeyboardInterrupt
            yield
        finally:
            self._raises = False

    def reclaim(self) -> None:
        """Put this handler in force again where code has set another, which comes after this."""
        if self._installed and not self._is_in_force():
            found = signal.getsignal(signal.SIGINT)
            if found is not None:  # None: not set by Python, so it cannot be set again
                self._old = found
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
        if not self._installed:  # code had kept it, and has set it again after the cell
            signal.default_int_handler(number, frame)
        is_reminder, self._is_reminder = self._is_reminder, False
        if not is_reminder:
            self._request()
        if _is_whole(frame) or (is_reminder and _is_unhurried(frame)):
            return
        if self._raises or self.main.holds(frame):
            self._raises = False
            signal.default_int_handler(number, frame)

    def _request(self) -> None:
        # Counted first: code that swallows the KeyboardInterrupt must not let the agent carry on.
        self.requests += 1
        self.main.stop()
        self.on_stop()


def _is_whole(frame: FrameType | None) -> bool:
    """Whether `frame` belongs to what must not end halfway; a half-made import stays broken."""
    while frame is not None:
        if frame.f_code in _WHOLE or frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            return True
        frame = frame.f_back
    return False


def _is_unhurried(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code in _UNHURRIED:
            return True
        frame = frame.f_back
    return False


def _nothing() -> None:
    pass
