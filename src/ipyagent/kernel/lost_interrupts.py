"""Interrupts that Python has not seen: the main thread went to sleep in the same moment.

Python's own handler of signals notes a signal, and the main thread looks for notes between two
instructions. Where it comes after the last look and before a call such as `time.sleep` has begun,
it is seen when that call ends. A byte tells of it at once (`signal.set_wakeup_fd`).
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
    """Call `when_lost`, in `loop`, `PATIENCE` after each SIGINT that comes meanwhile.

    It has to find out whether the handler has run. Whoever was told of signals before still is.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or not hasattr(signal, "pthread_kill"):
        yield
        return
    reads, writes = socket.socketpair()
    reads.setblocking(False)
    writes.setblocking(False)
    ours = writes.fileno()
    before = signal.set_wakeup_fd(ours, warn_on_full_buffer=False)
    _watching.add(ours)

    def hear() -> None:
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

    loop.call_soon_threadsafe(loop.add_reader, reads, hear)
    try:
        yield
    finally:
        _exchange(ours, before)
        _watching.discard(ours)
        try:
            loop.call_soon_threadsafe(close)
        except RuntimeError:  # it is closed, and so are its selectors
            reads.close()
            writes.close()


def _exchange(ours: int, other: int) -> None:
    """Have signals told to `other`, unless code has meanwhile set another one than `ours`."""
    now = signal.set_wakeup_fd(-1)
    with contextlib.suppress(OSError, ValueError):  # closed meanwhile
        signal.set_wakeup_fd(other if now == ours else now)


def _forget_in_child() -> None:
    """A forked process would tell its parent of its own signals."""
    with contextlib.suppress(ValueError):
        for each in _watching:
            _exchange(each, -1)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_in_child)
