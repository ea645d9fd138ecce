"""Interrupts that Python notices late: the main thread went to sleep at the same moment.

Python's own handler records a signal, and the main thread checks for records between two
instructions. If a signal arrives after the last check and before a call such as `time.sleep` has
begun, it is noticed when that call ends. `signal.set_wakeup_fd` reports it at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator

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
