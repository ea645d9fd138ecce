"""The streams of code, and what passes by them: of C code, child processes and forked workers."""

from __future__ import annotations

import codecs
import contextlib
import io
import os
import select
import sys
import threading
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from functools import cache, partial
from typing import Any

_ROOM = 1_000_000
"""Bytes for a pipe: C code that holds the interpreter's lock waits once it is full."""
_NAMES = {1: "__stdout__", 2: "__stderr__"}


class DescriptorOutput:
    """A descriptor, in whose place is a pipe while code runs.

    What outlives the run prints where the descriptor leads then.
    """

    def __init__(
        self, number: int, receive: Callable[[], object], reading: AbstractContextManager[object]
    ) -> None:
        """`reading` is a lock, held by `receive` while it reads."""
        self.number = number
        self._reading = reading
        self.receive = receive
        self._process = os.getpid()
        self._past: int | None = None
        self.reader = -1
        self._line = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    @property
    def is_worker(self) -> bool:
        """True in a forked process."""
        return os.getpid() != self._process

    @property
    def is_open(self) -> bool:
        """True while the descriptor is the pipe."""
        return self._past is not None

    def open(self) -> bool:
        """Put a pipe in the descriptor's place; return whether a thread has to read it."""
        with contextlib.suppress(OSError):  # there is no such descriptor
            past = os.dup(self.number)
            _flush(self.number)
            self.reader, writer = os.pipe()
            os.dup2(writer, self.number)
            os.close(writer)
            os.set_blocking(self.reader, False)
            with contextlib.suppress(ImportError, AttributeError, OSError):
                import fcntl

                fcntl.fcntl(self.reader, fcntl.F_SETPIPE_SZ, _ROOM)
            self._past = past
        return self.is_open and _is_of_stream(self.number)  # not in a copy on which code is tried

    def write(self, text: str, *, flush: bool = False) -> None:
        """Write a worker's text, whole lines at once."""
        self._line += text
        if flush or "\n" in text:
            line, self._line = self._line.encode("utf-8", "replace"), ""
            while line:
                line = line[os.write(self.number, line) :]

    def write_past(self, text: str) -> bool:
        """Write text of others where the descriptor led before; return False if it led nowhere."""
        # A thread that holds the lock is not in a forked process, to release it.
        with contextlib.nullcontext() if self.is_worker else self._reading:
            if self._past is not None:
                os.write(self._past, text.encode("utf-8", "replace"))
            return self._past is not None

    def flush(self) -> None:
        """Write what Python and C still keep; not on the thread that reads, which must not wait."""
        if self.is_open and not self.is_worker:
            _flush(self.number)

    def read(self) -> str:
        """Return what has been written since the last time."""
        pieces = []
        with contextlib.suppress(BlockingIOError):
            while self.is_open and (new := os.read(self.reader, _ROOM)):
                pieces.append(new)
        return self._decoder.decode(b"".join(pieces))

    def close(self) -> None:
        """Give the descriptor back, once all has been read."""
        if self._past is not None:
            _flush(self.number)
            self.receive()
            with self._reading:  # nobody reads once the pump may close the pipe
                os.dup2(self._past, self.number)
                past, self._past = self._past, None
            os.close(past)


def open_descriptors(descriptors: Iterable[DescriptorOutput]) -> None:
    """Put pipes in the place of descriptors, and read them as something comes."""
    with contextlib.suppress(AttributeError):  # Windows has no poll
        poll = select.poll()
        if opened := {each.reader: each for each in descriptors if each.open()}:
            for reader in opened:
                poll.register(reader, select.POLLIN)
            threading.Thread(target=_pump, args=(poll, opened), daemon=True).start()


def _pump(poll: select.poll, opened: dict[int, DescriptorOutput]) -> None:
    """Read as it comes; once closed, pass on what workers that outlive the run write."""
    while opened:
        for reader, event in poll.poll():
            each = opened[reader]
            each.receive()
            if each.is_open and event & select.POLLIN:
                continue
            with contextlib.suppress(OSError):
                if text := os.read(reader, _ROOM):
                    os.write(each.number, text)
                else:
                    poll.unregister(reader)
                    del opened[reader]
                    if not each.is_open:
                        os.close(reader)


class Stream(io.TextIOBase):
    """A text stream that calls `record` with what is `mine()`, else writes to the original."""

    encoding = "utf-8"
    errors = "replace"

    def __init__(
        self,
        descriptor: DescriptorOutput,
        record: Callable[[str], object],
        past: Any,
        mine: Callable[[], bool],
    ) -> None:
        self._descriptor, self._record, self.mine = descriptor, record, mine
        self.past = io.StringIO() if past is None else past  # None in a program of windows
        self._is_descriptor = False
        with contextlib.suppress(Exception):  # a stream of the user's may be anything
            self._is_descriptor = past.fileno() == descriptor.number

    def writable(self) -> bool:
        """Return True."""
        return True

    def __getattr__(self, name: str) -> Any:
        return getattr(self.past, name)

    def write(self, text: str) -> int:
        """Record the text, or pass it on."""
        return self.write_instead(self.past.write, text)

    def write_instead(self, write: Callable[[str], object], text: str) -> int:
        """Record the text; `write` what is not the code's."""
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        if not self.mine():
            if not (self._is_descriptor and self._descriptor.write_past(text)):
                write(text)
        elif self._descriptor.is_worker:
            self._descriptor.write(text)
        else:
            self._record(text)
        return len(text)

    def flush(self) -> None:
        """Flush the original stream, if text went there."""
        if not self.mine():
            self.past.flush()
        elif self._descriptor.is_worker:
            self._descriptor.write("", flush=True)

    def fileno(self) -> int:
        """Return the descriptor, whose output is recorded too."""
        return self._descriptor.number if self._descriptor.is_open else self.past.fileno()


def _is_of_stream(number: int) -> bool:
    with contextlib.suppress(Exception):
        return bool(getattr(sys, _NAMES[number]).fileno() >= 0)
    return False


def _flush(number: int) -> None:
    """Write what Python and C still keep for a descriptor."""
    _find_flush_of_c(number)()
    with contextlib.suppress(Exception):  # it may be closed, or no stream at all
        getattr(sys, _NAMES[number]).flush()


@cache
def _find_flush_of_c(number: int) -> Callable[[], object]:
    """Return what writes the text that C keeps."""
    with contextlib.suppress(Exception):  # other systems name it in another way
        import ctypes

        libc = ctypes.CDLL(None)
        return partial(libc.fflush, ctypes.c_void_p.in_dll(libc, _NAMES[number].strip("_")))
    return lambda: None
