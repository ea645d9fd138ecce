"""Text that forked workers print: each appends it to a file, which the code's own process reads."""

from __future__ import annotations

import codecs
import contextlib
import os
import tempfile
import threading
import weakref

LIMIT = 8_000_000
"""Bytes that workers may print in one run."""

_READ = 0o400


class ForkedOutput:
    """The printed text of one channel. A file exists only once there is a fork."""

    def __init__(self) -> None:
        self._process = os.getpid()
        self._file: int | None = None
        self._line = ""
        self._start = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._lock = threading.Lock()
        _active.add(self)

    @property
    def is_worker(self) -> bool:
        """True in a forked process."""
        return os.getpid() != self._process

    def open(self) -> None:
        """Open the file, which workers inherit."""
        if self._file is None and not self.is_worker:
            # Where there is no folder to write to, or no descriptor, it stays unread.
            with (
                contextlib.suppress(OSError),
                tempfile.TemporaryFile(prefix="ipyagent-") as file,
            ):
                self._file = os.dup(file.fileno())

    def write(self, text: str, *, flush: bool = False) -> bool:
        """Append a worker's text, whole lines at once; return False if nobody reads it."""
        self._line += text
        line, self._line = (self._line, "") if flush or "\n" in text else ("", self._line)
        if self._file is None or not (status := os.fstat(self._file)).st_mode & _READ:
            return False
        if line and status.st_size < LIMIT:
            os.write(self._file, line.encode("utf-8", "replace"))
        return True

    def read(self) -> str:
        """Return what workers have printed since the last time."""
        if self._file is None or self.is_worker:
            return ""
        with self._lock:
            new = os.pread(self._file, LIMIT, self._start)
            self._start += len(new)
            return self._decoder.decode(new)

    def close(self) -> None:
        """End reading; workers that outlive the run are told by the file's mode."""
        _active.discard(self)
        if self._file is not None and not self.is_worker:
            file, self._file = self._file, None
            os.fchmod(file, 0)
            os.close(file)


_active: weakref.WeakSet[ForkedOutput] = weakref.WeakSet()


def _open_all() -> None:
    for each in list(_active):
        each.open()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_open_all)
