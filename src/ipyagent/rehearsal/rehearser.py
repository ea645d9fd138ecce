"""Rehearsals, from the kernel's side: fork, wait for the reports, end what is left.

The kernel's main thread is held only for the fork. Whatever happens, the process that was started
is ended and waited for. It has run hostile code, so its report is only data, JSON and raw bytes in
a pipe: the size is limited, nothing in it is unpickled or run, and all of it is checked by whoever
uses it.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import random
import select
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from ipyagent.json_types import JsonDict
from ipyagent.kernel.threads import without_interrupts
from ipyagent.rehearsal import isolation
from ipyagent.rehearsal.confinement import Confinement, Limits

_HEADER = 8
"""Bytes that tell the length of the JSON."""
_PIECE = 1 << 20
_MOST_BUFFERS = 300_000
"""Also empty ones take memory."""
MOST_TEXT = 8 << 20
"""Bytes of a report's JSON: objects made of it take many times as much."""


class ReportError(Exception):
    """Raised if no valid report comes."""


def write_report(pipe: int, report: JsonDict, buffers: Sequence[memoryview] = ()) -> None:
    """Write a report, with bytes that it refers to by their number. Raises ReportError, OSError."""
    sizes = [len(each) for each in buffers]
    text = json.dumps({**report, "sizes": sizes}).encode()
    if len(text) > MOST_TEXT:
        raise ReportError("it reported too much")
    for view in (memoryview(len(text).to_bytes(_HEADER) + text), *buffers):
        while view:
            view = view[os.write(pipe, view[:_PIECE]) :]


def read_report(
    pipe: int, most: int, until: float | None = None
) -> tuple[JsonDict, list[memoryview]]:
    """Read a report of at most `most` bytes; raises ReportError, and TimeoutError after `until`."""
    length = int.from_bytes(_read(pipe, _HEADER, until))
    if length > MOST_TEXT:
        raise ReportError("it reported too much")
    text = _read(pipe, length, until)
    try:
        report = json.loads(text)
        sizes = report.pop("sizes")
        if any(type(size) is not int or size < 0 for size in sizes):
            raise ValueError
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise ReportError("its report makes no sense") from None
    if length + sum(sizes) > most or len(sizes) > _MOST_BUFFERS:
        raise ReportError("it reported too much")
    return report, [memoryview(_read(pipe, size, until)) for size in sizes]


def _read(pipe: int, length: int, until: float | None) -> bytearray:
    """Read that many bytes; the buffer grows with what comes, not with what was announced."""
    data = bytearray()
    while len(data) < length:
        if until is not None and not _is_ready(pipe, until - time.monotonic()):
            raise TimeoutError
        piece = os.read(pipe, min(_PIECE, length - len(data)))
        if not piece:
            raise ReportError("it ended without a report")
        data += piece
    return data


def _is_ready(descriptor: int, seconds: float) -> bool:
    # Not select(): a kernel may have more than 1,024 descriptors.
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(max(0.0, seconds) * 1000))


Report = tuple[JsonDict, list[memoryview]]
Act = Callable[[], Report]
_LAST_SECONDS = 2.0
"""Seconds for its end, before the first process is killed."""


_TOO_MUCH_MEMORY = "it took too much memory"
_EXCEEDED = {
    isolation.OVER_MEMORY: _TOO_MUCH_MEMORY,
    isolation.OVER_THREADS: "it started too many threads",
    isolation.OVER_TIME: "it took longer than {0.seconds:g} s",
    isolation.BY_SIGNAL + signal.SIGXCPU: "it took longer than {0.seconds:g} s",
    isolation.IDLE: "it waited for {0.idle:g} s, as for a thread that a copy does not have",
}


class NotRehearsedError(Exception):
    """Raised if code could not be rehearsed; the text says why."""


@dataclass(frozen=True)
class Rehearsing:
    """A rehearsal that is going on: its process, and the pipe of its report."""

    process: int
    handle: int
    """The process, without the danger that its number belongs to another one."""
    report: int
    limits: Limits

    def stop(self) -> None:
        """End it, from any thread: its first process ends the second and waits for it."""
        self._signal(signal.SIGTERM)

    def finish(self, count: int = 1) -> tuple[list[Report], str]:
        """Wait for so many reports and end it; return those that came, and why others did not.

        On any thread but the main one.
        """
        reports: list[Report] = []
        try:
            self._read(10_000, time.monotonic() + self.limits.setup)
            while len(reports) < count:
                reports.append(self._read(self.limits.report))
        except TimeoutError:
            self.end()
            return [], f"its isolation took longer than {self.limits.setup:g} s"
        except (NotRehearsedError, ReportError) as error:
            return reports, self._end_for(error)
        self.end()
        return reports, ""

    def _end_for(self, error: Exception) -> str:
        """End it; return why, with the limit that it exceeded or the signal by which it ended."""
        code = os.waitstatus_to_exitcode(self.end())
        if not isinstance(error, ReportError):
            return str(error)
        number = -code if code < 0 else code - isolation.BY_SIGNAL
        by_signal = f" ({signal.Signals(number).name})" if number in set(signal.Signals) else ""
        return _EXCEEDED.get(code, f"{error}{by_signal}").format(self.limits)

    def _read(self, most: int, deadline: float | None = None) -> Report:
        report, buffers = read_report(self.report, most, deadline)
        if problem := report.get("problem"):
            raise NotRehearsedError(str(problem)[:500])
        return report, buffers

    def end(self) -> int:
        """End it, once; return the status of its first process, 0 if that is not known."""
        self.stop()
        if not _is_ready(self.handle, _LAST_SECONDS):
            self._signal(signal.SIGKILL)
        status = 0
        with contextlib.suppress(ChildProcessError):  # code of the user's waits for all processes
            _, status = os.waitpid(self.process, 0)
        for each in (self.report, self.handle):
            with contextlib.suppress(OSError):
                os.close(each)
        return status

    def _signal(self, number: int) -> None:
        with contextlib.suppress(OSError):
            signal.pidfd_send_signal(self.handle, number)


@without_interrupts
def start_isolated(acts: Iterable[Act], confinement: Confinement, limits: Limits) -> Rehearsing:
    """Start a process in which `acts` run in turn, isolated, on the kernel's main thread.

    One that fails is the last. An interrupt would be lost in what libraries do after a fork, and
    leave their locks taken.
    """
    reading, report = os.pipe()
    kernel, numbers = os.getpid(), random.getstate()
    try:
        process = _fork()
    except OSError:
        os.close(reading)
        os.close(report)
        raise
    if process == 0:
        try:
            gc.disable()  # no destructor of what the kernel has thrown away
            with _reporting(report):
                life, files = _enter(kernel, report, confinement, limits)
                random.setstate(numbers)  # each fork seeds them
                isolation.isolate(confinement, limits, life, files)
            write_report(report, {})
            with _reporting(report):
                all(_perform(act, report) for act in acts)
            os._exit(0)
        finally:
            os._exit(1)
    os.close(report)
    return Rehearsing(process, os.pidfd_open(process), reading, limits)


@contextlib.contextmanager
def _reporting(report: int) -> Iterator[None]:
    """Report why there is no isolation, and end."""
    try:
        yield
    except BaseException as error:
        write_report(report, {"problem": f"it cannot be isolated: {_explain(error)}"})
        os._exit(0)


def _fork() -> int:
    """Fork; threads that libraries would begin in each child for good, as tracers do, do not.

    Those are daemons. Others a library waits for, in what it does after a fork.
    """
    parent, start = os.getpid(), threading.Thread.start

    def start_unless_for_good(self: threading.Thread) -> None:
        if os.getpid() == parent or not self.daemon:
            start(self)

    with warnings.catch_warnings():
        # The child runs no more than code that it is forked for, under a time limit.
        warnings.filterwarnings("ignore", ".*fork.*", DeprecationWarning)
        threading.Thread.start = start_unless_for_good  # type: ignore[method-assign]
        try:
            return os.fork()
        finally:
            threading.Thread.start = start  # type: ignore[method-assign]


def _enter(
    kernel: int, report: int, confinement: Confinement, limits: Limits
) -> tuple[int, isolation.OpenFiles]:
    """Return in the second process only, with a pipe that tells of the first one's life."""
    files = isolation.leave_kernel(kernel, report, confinement)
    life, hold = os.pipe()
    processes = os.open("/proc", os.O_PATH | os.O_CLOEXEC)
    if second := _fork():
        os.close(report)
        os._exit(isolation.wait_in_first(second, processes, limits))
    for each in (hold, processes):
        os.close(each)
    return life, files


def _perform(act: Act, report: int) -> bool:
    """Report what an act found; return whether another one may follow."""
    buffers: list[memoryview] = []
    try:
        found, buffers = act()
    except BaseException as error:
        found = {"problem": _explain(error)}
    try:
        write_report(report, found, buffers)
    except ReportError:
        # Data that is too much to be adopted; the rest is not.
        write_report(report, {**found, "adoption": None})
    return "problem" not in found


def _explain(error: BaseException) -> str:
    """Return why a rehearsal failed; what is not foreseen is no text for the user to read."""
    if isinstance(error, OSError):
        return str(error)
    if isinstance(error, MemoryError):
        return _TOO_MUCH_MEMORY
    return f"an unforeseen {type(error).__name__} in the rehearsal itself"
