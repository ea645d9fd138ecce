"""Interrupts: one SIGINT handler for all runs that the main thread waits for.

ipykernel's own handler does not wake an idle event loop, and blocking code inside an async cell
ignores it (ipykernel#881), so the first run installs this handler, and the last one restores the
old one. If a tool's code has set another handler meanwhile, that one is installed at the end, as
after a cell that had set it; until then an interrupt still ends the runs.
The user's SIGINT ends all of them; a Stop button ends its own run, and those that this run's tools
have started.

Python may notice an interrupt late, if the main thread went to sleep at the same moment: its own
handler records a signal, and the main thread checks for records between two instructions. If a
signal arrives after the last check and before a call such as `time.sleep` has begun, it is noticed
when that call ends. `signal.set_wakeup_fd` reports it at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum, auto
from types import FrameType, TracebackType
from typing import Any

from ipyagent.kernel.threads import (
    MainThread,
    is_not_reminded,
    is_uninterruptible,
    without_interrupts,
)

PATIENCE = 0.3
"""Seconds that Python's own handler has to run."""


@contextlib.contextmanager
def watch_interrupts(
    loop: asyncio.AbstractEventLoop, when_lost: Callable[[], object]
) -> Iterator[None]:
    """Call `when_lost`, in `loop`, `PATIENCE` after each SIGINT that arrives meanwhile.

    `when_lost` has to find out whether the handler has run. An earlier wakeup descriptor is still
    written to. Of several watches any may end first.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or not hasattr(signal, "pthread_kill"):
        yield
        return
    watch = _Watch(loop, when_lost)
    loop.call_soon_threadsafe(loop.add_reader, watch.reads, watch.read)
    try:
        yield
    finally:
        watch.end()
        try:
            loop.call_soon_threadsafe(watch.close)
        except RuntimeError:  # it is closed, and so are its selectors
            watch.close_sockets()


class _Watch:
    """A pair of sockets of which one is the wakeup descriptor."""

    def __init__(self, loop: asyncio.AbstractEventLoop, when_lost: Callable[[], object]) -> None:
        self.loop, self.when_lost = loop, when_lost
        self.reads, self._writes = socket.socketpair()
        self.reads.setblocking(False)
        self._writes.setblocking(False)
        self.descriptor = self._writes.fileno()
        self.before = signal.set_wakeup_fd(self.descriptor, warn_on_full_buffer=False)
        _watches.append(self)

    def read(self) -> None:
        """Read the signals that came, in the loop."""
        with contextlib.suppress(OSError):
            data = self.reads.recv(4096)
            if signal.SIGINT in data:
                self.loop.call_later(PATIENCE, self.when_lost)
            if self.before != -1:
                os.write(self.before, data)

    def end(self) -> None:
        """Let the signals go where they went before; on the main thread."""
        later = _watches[_watches.index(self) + 1 :]
        _watches.remove(self)
        if later:
            later[0].before = self.before
        else:
            _exchange(self.descriptor, self.before)

    def close(self) -> None:
        """Stop reading, in the loop."""
        self.loop.remove_reader(self.reads)
        self.close_sockets()

    def close_sockets(self) -> None:
        """Close both sockets."""
        self.reads.close()
        self._writes.close()


_watches: list[_Watch] = []
"""The watches that are on, in the order in which they began."""


def _exchange(expected: int, other: int) -> None:
    """Set the wakeup descriptor to `other`, unless code has set another one than `expected`."""
    now = signal.set_wakeup_fd(-1)
    with contextlib.suppress(OSError, ValueError):  # closed meanwhile
        signal.set_wakeup_fd(other if now == expected else now)


def _forget_in_child() -> None:
    """Clear the descriptor in a child: a forked process would report its signals to its parent."""
    with contextlib.suppress(ValueError):
        for each in _watches:
            _exchange(each.descriptor, -1)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_in_child)


LATE = 0.6
"""Seconds after which a signal that was sent for one run is no longer taken for another's."""


class Interrupt:
    """A context in which SIGINT, or a call of `stop`, ends the cell's work. It may be nested.

    `on_stop` is called at once, from whichever thread asks; if a job occupies the main thread,
    KeyboardInterrupt is raised in it as well, or it is cancelled if it awaits.
    """

    def __init__(self, main: MainThread) -> None:
        self.main = main
        self.on_stop: Callable[[], object] = lambda: None
        self.requests = 0
        self.raises = False
        """True if KeyboardInterrupt may be raised wherever the main thread is."""
        self.sent: _Signal | None = None
        """The meaning of the signal on its way, if it is for this interrupt alone."""
        self._owner = threading.get_ident()
        self._depth = 0

    @property
    def is_requested(self) -> bool:
        """True if the user asked to stop."""
        return self.requests > 0

    def stop(self) -> None:
        """Ask to stop, from any thread (the Stop button)."""
        if not self._depth:
            return
        elsewhere = threading.get_ident() != self._owner
        if elsewhere and self.main.busy and self._is_reached_by_signals():
            # The handler must run in the busy main thread itself.
            self._send(_Signal.STOP)
        else:
            for each in _with_nested(self):
                each.request()

    def remind(self) -> None:
        """Interrupt a job again that still runs although it was interrupted; from any thread."""
        self.main.stop()
        if self.main.busy and self._is_reached_by_signals():
            self._send(_Signal.REMINDER)

    def make_up(self) -> None:
        """Ask to stop for a SIGINT that the handler has not seen yet, if there was one."""
        if self.is_requested or not self._is_reached_by_signals():
            return
        for each in _signals.concerned_by_unseen():
            each.sent = _Signal.REMINDER  # when the handler sees it, it is nothing new
            each.request()

    @contextmanager
    def raising(self) -> Iterator[None]:
        """Let an interrupt end the body by KeyboardInterrupt, in the main thread."""
        self.raises = True
        try:
            if self.is_requested:
                raise KeyboardInterrupt
            yield
        finally:
            self.raises = False

    def request(self) -> None:
        """Stop the work."""
        # Counted first: code that swallows the KeyboardInterrupt must not let the agent carry on.
        self.requests += 1
        self.main.stop()
        self.on_stop()

    def __enter__(self) -> Interrupt:
        self._depth += 1
        if self._depth == 1 and threading.current_thread() is threading.main_thread():
            self._owner = threading.get_ident()
            self.main.after_job = _signals.reclaim
            _signals.add(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self._depth -= 1
        if self._depth == 0:
            _signals.remove(self)

    def _send(self, meaning: _Signal) -> None:
        self.sent = meaning
        signal.pthread_kill(self._owner, signal.SIGINT)

    def _is_reached_by_signals(self) -> bool:
        return self in _signals.active and _signals.are_handled


class _Signal(Enum):
    """The meaning of a SIGINT that a run sends to the main thread."""

    STOP = auto()
    REMINDER = auto()


class _Signals:
    """The handler of SIGINT, installed while there are interrupts of the main thread."""

    def __init__(self) -> None:
        self.active: tuple[Interrupt, ...] = ()
        self._handler = self._handle  # one object, to be recognized
        self._old: Any = None
        self._handled_own_at = -LATE

    @property
    def are_handled(self) -> bool:
        """True if no code has installed another handler."""
        return signal.getsignal(signal.SIGINT) is self._handler

    @without_interrupts
    def add(self, interrupt: Interrupt) -> None:
        """Let signals end an interrupt's work, too; on the main thread."""
        if not self.active:
            self._old = signal.signal(signal.SIGINT, self._handler) or signal.default_int_handler
        self.active += (interrupt,)

    @without_interrupts
    def remove(self, interrupt: Interrupt) -> None:
        """Forget an interrupt; after the last one, install the handler that was there before."""
        if interrupt not in self.active:
            return
        if self.active == (interrupt,) and self.are_handled:
            signal.signal(signal.SIGINT, self._old)
        self.active = tuple(each for each in self.active if each is not interrupt)

    def reclaim(self) -> None:
        """Install this handler again if code has set another; that one is installed afterwards."""
        if self.active and not self.are_handled:
            self._old = signal.getsignal(signal.SIGINT)
            signal.signal(signal.SIGINT, self._handler)

    def concerned_by_unseen(self) -> list[Interrupt]:
        """Return those whom a signal is for that the handler has not seen."""
        stopped = [each for each in self.active if each.sent is _Signal.STOP]
        if not stopped and time.monotonic() < self._handled_own_at + LATE:
            return []
        return [each for one in stopped or self.active for each in _with_nested(one)]

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if not self.active:  # code kept this handler, and set it again after the cell
            signal.default_int_handler(number, frame)
        meanings = {each: each.sent for each in self.active if each.sent is not None}
        concerned = [each for one in meanings or self.active for each in _with_nested(one)]
        for each in meanings:
            each.sent, self._handled_own_at = None, time.monotonic()
        is_reminder = bool(meanings) and _Signal.STOP not in meanings.values()
        if not is_reminder:
            for each in dict.fromkeys(concerned):
                each.request()
        if is_uninterruptible(frame) or (is_reminder and is_not_reminded(frame)):
            return
        raising = [each for each in concerned if each.raises]
        if raising or any(each.main.holds(frame) for each in concerned):
            for each in raising:
                each.raises = False
            signal.default_int_handler(number, frame)


_signals = _Signals()


def _with_nested(interrupt: Interrupt) -> list[Interrupt]:
    """Return an interrupt, and those of the runs that its jobs have started."""
    return [interrupt, *(each for each in _signals.active if each.main.is_within(interrupt.main))]
