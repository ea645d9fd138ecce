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

_watching: set[int] = set()

PATIENCE = 0.3
"""Seconds that Python's own handler has to run."""


@contextlib.contextmanager
def watch_interrupts(
    loop: asyncio.AbstractEventLoop, when_lost: Callable[[], object]
) -> Iterator[None]:
    """Call `when_lost`, in `loop`, `PATIENCE` after each SIGINT that arrives meanwhile.

    `when_lost` has to find out whether the handler has run. An earlier wakeup descriptor is still
    written to.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or not hasattr(signal, "pthread_kill"):
        yield
        return
    reads, writes = socket.socketpair()
    reads.setblocking(False)
    writes.setblocking(False)
    descriptor = writes.fileno()
    before = signal.set_wakeup_fd(descriptor, warn_on_full_buffer=False)
    _watching.add(descriptor)

    def on_wakeup() -> None:
        with contextlib.suppress(OSError):
            data = reads.recv(4096)
            if signal.SIGINT in data:
                loop.call_later(PATIENCE, when_lost)
            if before != -1:
                os.write(before, data)

    def close() -> None:
        loop.remove_reader(reads)
        reads.close()
        writes.close()

    loop.call_soon_threadsafe(loop.add_reader, reads, on_wakeup)
    try:
        yield
    finally:
        _exchange(descriptor, before)
        _watching.discard(descriptor)
        try:
            loop.call_soon_threadsafe(close)
        except RuntimeError:  # it is closed, and so are its selectors
            reads.close()
            writes.close()


def _exchange(expected: int, other: int) -> None:
    """Set the wakeup descriptor to `other`, unless code has set another one than `expected`."""
    now = signal.set_wakeup_fd(-1)
    with contextlib.suppress(OSError, ValueError):  # closed meanwhile
        signal.set_wakeup_fd(other if now == expected else now)


def _forget_in_child() -> None:
    """Clear the descriptor in a child: a forked process would report its signals to its parent."""
    with contextlib.suppress(ValueError):
        for each in _watching:
            _exchange(each, -1)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_in_child)
