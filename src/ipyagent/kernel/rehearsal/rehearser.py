"""Rehearsals, from the kernel's side: fork, wait for the report, end what is left.

The kernel's main thread is held only for the fork. Whatever happens, the process that was started
is ended and waited for.
"""

from __future__ import annotations

import contextlib
import gc
import os
import random
import select
import signal
import time
import warnings
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

from ipyagent.json_types import JsonDict
from ipyagent.kernel.rehearsal import isolation
from ipyagent.kernel.rehearsal.confinement import Confinement, Limits, Way
from ipyagent.kernel.rehearsal.memory import find_numeric_memory
from ipyagent.kernel.rehearsal.reports import (
    ReportError,
    close_quietly,
    read_report,
    write_report,
)

Report = tuple[JsonDict, list[memoryview]]
Act = Callable[[], Report]

_LAST_SECONDS = 2.0
"""Seconds for its end, before the first process is killed."""


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

    def finish(self) -> Report:
        """Wait for the report, on any thread but the main one; raises NotRehearsedError."""
        what, seconds = "its isolation took", self.limits.setup
        try:
            self._read(10_000, seconds)
            what, seconds = "it took", self.limits.seconds
            return self._read(self.limits.report, seconds)
        except TimeoutError:
            raise NotRehearsedError(f"{what} longer than {seconds:g} s") from None
        except ReportError as error:
            problem = str(error)
        finally:
            status = self._end()
        raise NotRehearsedError(f"{problem}{_describe_signal(status)}")

    def _read(self, most: int, seconds: float) -> Report:
        report, buffers = read_report(self.report, most, time.monotonic() + seconds)
        if problem := report.get("problem"):
            raise NotRehearsedError(str(problem)[:500])
        return report, buffers

    def _end(self) -> int:
        """End it; return the status of its first process, 0 if that is not known."""
        self.stop()
        poll = select.poll()
        poll.register(self.handle, select.POLLIN)
        if not poll.poll(_LAST_SECONDS * 1000):
            self._signal(signal.SIGKILL)
        status = 0
        with contextlib.suppress(ChildProcessError):  # code of the user's waits for all processes
            _, status = os.waitpid(self.process, 0)
        close_quietly(self.report)
        close_quietly(self.handle)
        return status

    def _signal(self, number: int) -> None:
        with contextlib.suppress(OSError):
            signal.pidfd_send_signal(self.handle, number)


def start_isolated(
    act: Act, confinement: Confinement, limits: Limits, values: Collection[object] = ()
) -> Rehearsing:
    """Start a process in which `act` runs, isolated, on the kernel's main thread.

    `values` may hold large arrays, which need not be searched for secrets.
    """
    reading, writing = os.pipe()
    kernel, numbers = os.getpid(), random.getstate()
    try:
        process = _fork()
    except OSError:
        os.close(reading)
        os.close(writing)
        raise
    if process == 0:
        try:
            gc.disable()  # no destructor of what the kernel has thrown away
            random.setstate(numbers)  # a fork seeds them anew
            life = _enter(kernel, writing, confinement.way)
            with _reporting(writing):
                isolation.isolate(confinement, limits, life, find_numeric_memory(values))
            write_report(writing, {})
            _perform(act, writing)
        finally:
            os._exit(1)
    os.close(writing)
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
    with warnings.catch_warnings():
        # The child runs no more than code that it is forked for, under a time limit.
        warnings.filterwarnings("ignore", ".*fork.*", DeprecationWarning)
        return os.fork()


def _enter(kernel: int, report: int, way: Way) -> int:
    """Return in the second process only, with a pipe that tells of the first one's life."""
    with _reporting(report):
        isolation.leave_kernel(kernel, report, way)
        life, hold = os.pipe()
        second = _fork()
    if second:
        os.close(report)
        os._exit(isolation.wait_in_first(second))
    os.close(hold)
    return life


def _perform(act: Act, report: int) -> None:
    buffers: list[memoryview] = []
    try:
        found, buffers = act()
    except MemoryError:
        found = {"problem": "it took too much memory"}
    except BaseException as error:
        found = {"problem": _explain(error)}
    try:
        write_report(report, found, buffers)
    except ReportError:
        # Data that is too much to be adopted; the rest is not.
        write_report(report, {**found, "adoption": None})
    os._exit(0)


def _describe_signal(status: int) -> str:
    """Return by which signal one of the two processes died, as the status of the first tells."""
    code = os.waitstatus_to_exitcode(status)
    number = -code if code < 0 else code - isolation.BY_SIGNAL
    if number not in set(signal.Signals):
        return ""
    return f" ({signal.Signals(number).name})"


def _explain(error: BaseException) -> str:
    """Return why a rehearsal failed; what is not foreseen is no text for the user to read."""
    if isinstance(error, OSError):
        return str(error)
    return f"an unforeseen {type(error).__name__} in the rehearsal itself"
