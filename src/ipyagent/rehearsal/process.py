"""The process of a copy, from the kernel's side: fork, isolate, wait for its reports, end it.

It takes two processes. The first one leaves the namespaces, waits and watches what the second one
takes; the second is the first process of the new ones, and can start no other. The kernel's main
thread is held only for the fork. Whatever happens, what was started is ended and waited for.

The copy has run hostile code, so its report is only data, JSON and raw bytes in a pipe: the size is
limited, nothing in it is unpickled or run, and all of it is checked by whoever uses it.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import random
import resource
import select
import signal
import stat
import sys
import tempfile
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ipyagent.json_types import JsonDict
from ipyagent.kernel.threads import without_interrupts
from ipyagent.rehearsal import system
from ipyagent.rehearsal.confinement import (
    CACHE,
    TEMPORARY,
    Confinement,
    Limits,
    build_root,
    restrict_files,
)

_STANDARD_ERROR = 2
_END = {signal.SIGTERM}
BY_SIGNAL = 128
"""Is added to the number of a signal in a process's status, as shells do."""


def leave_kernel(kernel: int, pipe: int, confinement: Confinement) -> OpenFiles:
    """Leave what the first process shares with the kernel: descriptors, signals, namespaces.

    Return the files that the second process may open again. It ends when the kernel does. SIGTERM
    waits until there is a second process to be ended.
    """
    system.die_with_parent(signal.SIGKILL)
    if os.getppid() != kernel:
        os._exit(1)
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD, signal.SIGALRM):
        signal.signal(number, signal.SIG_DFL)
    os.setsid()  # an interrupt of the terminal is for the kernel
    _check_alone()
    files = replace_descriptors({pipe}, confinement)
    for stop in (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF):
        signal.setitimer(stop, 0)
    if confinement.method == "namespaces":
        _leave_namespaces()
    signal.pthread_sigmask(signal.SIG_BLOCK, _END)
    return files


_ENDING = 0.5
"""Seconds in which a thread that has ended leaves the list of the system."""


def _check_alone() -> None:
    """Raise OSError if there is another thread: privileges, filters and Landlock are each one's."""
    deadline = time.monotonic() + _ENDING
    while len(os.listdir("/proc/self/task")) > 1:  # noqa: PTH208
        if time.monotonic() > deadline:
            raise OSError("a library starts threads on the copy, which would not be isolated")
        time.sleep(0.001)


def _leave_namespaces() -> None:
    user, group = os.geteuid(), os.getegid()
    try:
        system.unshare(system.NAMESPACES)  # of processes, that of the next child
    except OSError as error:
        raise OSError(f"users may not make namespaces here ({error.strerror})") from None
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1")


OpenFiles = Mapping[int, tuple[str, int]]
"""The paths of open files, and the places in them, by the numbers of their descriptors."""


def replace_descriptors(kept: Collection[int], confinement: Confinement) -> OpenFiles:
    """Replace all descriptors but `kept`, whose numbers stay taken.

    Return the regular files among them that the copy may see. All fail when they are used, instead
    of meeting another file.
    """
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    useless = os.open(os.devnull, os.O_PATH | os.O_CLOEXEC)
    files = dict[int, tuple[str, int]]()
    for number in sorted(int(name) for name in os.listdir("/proc/self/fd")):  # noqa: PTH208
        if number in (null, useless, *kept):
            continue
        is_standard = number <= _STANDARD_ERROR
        with contextlib.suppress(OSError):
            path, status = os.readlink(f"/proc/self/fd/{number}"), os.fstat(number)  # noqa: PTH115
            is_seen = stat.S_ISREG(status.st_mode) and confinement.sees(path)
            if is_seen and not is_standard and os.path.samestat(os.stat(path), status):  # noqa: PTH116
                files[number] = path, os.lseek(number, 0, os.SEEK_CUR)
        os.dup2(null if is_standard else useless, number, inheritable=is_standard)
    os.close(null)
    os.close(useless)
    return files


def _open_again(files: OpenFiles) -> None:
    """Open files for reading, as they are seen here: the descriptor of another mount leads there.

    Who has it can open the file again, for writing as well, and change its mode.
    """
    for number, (path, place) in files.items():
        with contextlib.suppress(OSError):
            new = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            os.lseek(new, place, os.SEEK_SET)
            os.dup2(new, number, inheritable=False)
            os.close(new)


_CHECKED_EACH = 50
"""Milliseconds between two looks at what the second process takes."""
_MOST_THREADS, _RESIDENT = 256, ("RssAnon", "RssShmem")
OVER_MEMORY, OVER_THREADS, OVER_TIME, IDLE = range(64, 68)
"""Statuses of the first process when it ended the second, which took too much."""


def wait_in_first(second: int, processes: int, limits: Limits) -> int:
    """Wait for the second process, which SIGTERM ends; it must be waited for by its parent.

    Return 0, BY_SIGNAL and the number of the signal by which it died, or which limit it exceeded:
    the system limits what a process reserves, and libraries reserve much more than they use. Time
    is that of processors; who waits for long waits for what was left behind in the kernel.
    `processes` is the open folder /proc, which is another one once the root is.
    """
    handle, watched = os.pidfd_open(second), _Watched(second, processes, limits)

    def end_second(*_: object) -> None:
        with contextlib.suppress(OSError):
            signal.pidfd_send_signal(handle, signal.SIGKILL)

    signal.signal(signal.SIGTERM, end_second)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _END)
    poll, exceeded = select.poll(), 0
    poll.register(handle, select.POLLIN)
    while not exceeded and not poll.poll(_CHECKED_EACH):
        exceeded = watched.find_exceeded()
    if exceeded:
        end_second()
    _, status = os.waitpid(second, 0)
    return exceeded or (BY_SIGNAL + os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0)


class _Watched:
    """The second process, as the first one sees what it takes."""

    def __init__(self, process: int, processes: int, limits: Limits) -> None:
        self._process, self._processes, self._limits = process, processes, limits
        self._before = _read_numbers(processes, f"{process}/status")
        available = _read_numbers(processes, "meminfo")["MemAvailable"]
        self._most = min(limits.memory >> 10, available // 2)
        self._begun = self._used = self._read_time()
        self._idle_since = time.monotonic()

    def find_exceeded(self) -> int:
        """Return which limit it exceeds, 0 if none."""
        now, used = _read_numbers(self._processes, f"{self._process}/status"), self._read_time()
        if used > self._used:
            self._used, self._idle_since = used, time.monotonic()
        if sum(now[kind] - self._before[kind] for kind in _RESIDENT) > self._most:
            return OVER_MEMORY
        if now["Threads"] > _MOST_THREADS:
            return OVER_THREADS
        if used - self._begun > self._limits.seconds:
            return OVER_TIME
        return IDLE if time.monotonic() - self._idle_since > self._limits.idle else 0

    def _read_time(self) -> float:
        """Return how many seconds of processor time it has used."""
        with contextlib.suppress(OSError):
            opened = os.open(f"{self._process}/stat", os.O_RDONLY, dir_fd=self._processes)
            with os.fdopen(opened, errors="replace") as file:
                fields = file.read().rpartition(")")[2].split()
            return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")
        return 0.0


def _read_numbers(processes: int, name: str) -> Counter[str]:
    """Return the numbers in a file of /proc by their names; none once its process has ended."""
    with contextlib.suppress(OSError):
        opened = os.open(name, os.O_RDONLY, dir_fd=processes)
        with os.fdopen(opened, errors="replace") as file:
            rows = (line.replace(":", " ").split() for line in file)
            return Counter({row[0]: int(row[1]) for row in rows if row[1:] and row[1].isdigit()})
    return Counter()


def isolate(confinement: Confinement, limits: Limits, life: int, files: OpenFiles) -> None:
    """Cut the second process off from files, the environment and privileges. Raises OSError.

    It ends with the first process, whose end of the pipe `life` tells if it has ended already.
    """
    system.die_with_parent(signal.SIGKILL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _END)
    poll = select.poll()
    poll.register(life, 0)
    if poll.poll(0):
        os._exit(1)
    os.close(life)
    _check_alone()
    if not confinement.call_filter:
        raise OSError("there is no filter of system calls for this machine")
    Path("/proc/self/oom_score_adj").write_text("1000")
    system.leave_shared_memory()
    system.clean_environment(confinement.variables)
    if confinement.method == "namespaces":
        build_root(confinement, limits)
        own = {"TMPDIR": TEMPORARY, "XDG_CACHE_HOME": CACHE, "MPLCONFIGDIR": f"{CACHE}/matplotlib"}
        os.environ.update(own)
        tempfile.tempdir = TEMPORARY
    _open_again(files)
    _limit_resources(limits)
    system.drop_capabilities()
    system.forbid_new_privileges()
    if confinement.method == "Landlock":
        restrict_files(confinement)
    system.filter_calls(confinement.call_filter)


_RESERVED = 4 << 30
"""Bytes that it may reserve more than the kernel has: the pool of pyarrow alone takes one GiB."""


def _limit_resources(limits: Limits) -> None:
    most = {
        resource.RLIMIT_CPU: int(time.process_time() + limits.seconds) + 1,
        resource.RLIMIT_FSIZE: limits.files,
        resource.RLIMIT_CORE: 0,
    }
    if (statm := Path("/proc/self/statm")).exists():
        pages = int(statm.read_text().split()[5])
        most[resource.RLIMIT_DATA] = pages * resource.getpagesize() + _RESERVED
    for kind, value in most.items():
        _, hard = resource.getrlimit(kind)
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (value, value))
    sys.setrecursionlimit(min(sys.getrecursionlimit(), 10_000))


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
Job = Callable[[], Report]
_LAST_SECONDS = 2.0
"""Seconds for its end, before the first process is killed."""


_TOO_MUCH_MEMORY = "it took too much memory"
_EXCEEDED = {
    OVER_MEMORY: _TOO_MUCH_MEMORY,
    OVER_THREADS: "it started too many threads",
    OVER_TIME: "it took longer than {0.seconds:g} s",
    BY_SIGNAL + signal.SIGXCPU: "it took longer than {0.seconds:g} s",
    IDLE: "it waited for {0.idle:g} s, as for a thread that a copy does not have",
}


class NotRehearsedError(Exception):
    """Raised if code could not be rehearsed; the text says why."""


@dataclass(frozen=True)
class CopyProcess:
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
        number = -code if code < 0 else code - BY_SIGNAL
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
def start_isolated(jobs: Iterable[Job], confinement: Confinement, limits: Limits) -> CopyProcess:
    """Start a process in which `jobs` run in turn, isolated, on the kernel's main thread.

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
                isolate(confinement, limits, life, files)
            write_report(report, {})
            with _reporting(report):
                all(_perform(job, report) for job in jobs)
            os._exit(0)
        finally:
            os._exit(1)
    os.close(report)
    return CopyProcess(process, os.pidfd_open(process), reading, limits)


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
) -> tuple[int, OpenFiles]:
    """Return in the second process only, with a pipe that tells of the first one's life."""
    files = leave_kernel(kernel, report, confinement)
    life, hold = os.pipe()
    processes = os.open("/proc", os.O_PATH | os.O_CLOEXEC)
    if second := _fork():
        os.close(report)
        os._exit(wait_in_first(second, processes, limits))
    for each in (hold, processes):
        os.close(each)
    return life, files


def _perform(job: Job, report: int) -> bool:
    """Report what a job found; return whether another one may follow."""
    buffers: list[memoryview] = []
    try:
        found, buffers = job()
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
