"""Rehearsals, from the kernel's side: fork, wait for the report, end what is left.

The kernel's main thread is held only for the fork. Whatever happens, the process that was started
is ended and waited for; until then it can be asked for more. It has run hostile code, so its report
is only data, JSON and raw bytes in a pipe: the size is limited, nothing in it is unpickled or run,
and all of it is checked by whoever uses it.

Well-known libraries that code imports are loaded before a rehearsal, not in it: on the copy an
import would be lost and paid for each time, and new tables could not be adopted where pandas is
missing. It is the only code that runs in the kernel because of a rehearsal: that of installed
libraries of a list, which do no more than define things.
"""

from __future__ import annotations

import ast
import contextlib
import gc
import importlib
import json
import os
import random
import select
import signal
import sys
import sysconfig
import threading
import time
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.abc import MetaPathFinder
from importlib.machinery import BuiltinImporter, FrozenImporter, ModuleSpec, PathFinder
from itertools import chain

from ipyagent.imports import is_of_package
from ipyagent.json_types import JsonDict
from ipyagent.kernel.main_thread import without_interrupts
from ipyagent.kernel.rehearsal import isolation
from ipyagent.kernel.rehearsal.confinement import Confinement, Limits, Way
from ipyagent.kernel.rehearsal.memory import find_numeric_memory
from ipyagent.kernel.variables.reach import parse_nodes

_HEADER = 8
"""Bytes that tell the length of the JSON."""
_PIECE = 1 << 20
_MOST_BUFFERS = 300_000
"""Also empty ones take memory."""
MOST_TEXT = 8 << 20
"""Bytes of a report's JSON: objects made of it take many times as much."""


class ReportError(Exception):
    """Raised if no valid report comes."""


def write_report(
    pipe: int, report: JsonDict, buffers: Sequence[memoryview] = (), until: float = 0.0
) -> None:
    """Write a report, with bytes that it refers to by their number.

    Into a pipe that does not block, `until` then. Raises ReportError, OSError.
    """
    sizes = [len(each) for each in buffers]
    text = json.dumps({**report, "sizes": sizes}).encode()
    if len(text) > MOST_TEXT:
        raise ReportError("it reported too much")
    for view in (memoryview(len(text).to_bytes(_HEADER) + text), *buffers):
        while view:
            try:
                view = view[os.write(pipe, view[:_PIECE]) :]
            except BlockingIOError:
                if not _is_ready(pipe, until - time.monotonic(), select.POLLOUT):
                    raise


def read_report(pipe: int, most: int, until: float) -> tuple[JsonDict, list[memoryview]]:
    """Read a report of at most `most` bytes; raises ReportError, TimeoutError."""
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


def _read(pipe: int, length: int, until: float) -> bytearray:
    """Read that many bytes; the buffer grows with what comes, not with what was announced."""
    data = bytearray()
    while len(data) < length:
        wait = until - time.monotonic()
        if wait <= 0 or not _is_ready(pipe, wait):
            raise TimeoutError
        piece = os.read(pipe, min(_PIECE, length - len(data)))
        if not piece:
            raise ReportError("it ended without a report")
        data += piece
    return data


def _is_ready(descriptor: int, seconds: float, event: int = select.POLLIN) -> bool:
    # Not select(): a kernel may have more than 1,024 descriptors.
    poll = select.poll()
    poll.register(descriptor, event)
    return bool(poll.poll(max(0.0, seconds) * 1000))


Report = tuple[JsonDict, list[memoryview]]
Act = Callable[[], Report]
Follow = Callable[[JsonDict], Act]
"""Returns the act that a later request asks for."""

_FOREVER = 1_000_000.0
"""Seconds: no run of an agent takes longer."""
_LAST_SECONDS = 2.0
"""Seconds for its end, before the first process is killed."""


_TOO_MUCH_MEMORY = "it took too much memory"
_EXCEEDED = {
    isolation.OVER_MEMORY: _TOO_MUCH_MEMORY,
    isolation.OVER_THREADS: "it started too many threads",
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
    requests: int
    limits: Limits

    def stop(self) -> None:
        """End it, from any thread: its first process ends the second and waits for it."""
        self._signal(signal.SIGTERM)

    def finish(self, count: int = 1) -> tuple[list[Report], str]:
        """Wait for so many reports and end it; return as `listen` does."""
        reports, problem = self.listen(count)
        if not problem:
            self.end()
        return reports, problem

    def listen(self, count: int = 1) -> tuple[list[Report], str]:
        """Wait for so many reports; return those that came, and why the others did not.

        If one does not, it is ended. On any thread but the main one.
        """
        try:
            self._read(10_000, time.monotonic() + self.limits.setup)
        except TimeoutError:
            self.end()
            return [], f"its isolation took longer than {self.limits.setup:g} s"
        except (NotRehearsedError, ReportError) as error:
            return [], self._end_for(error)
        return self._collect(count)

    def go_on(self, request: JsonDict) -> tuple[list[Report], str]:
        """Ask for one report more, and return as `listen` does, after which it can go on."""
        try:
            write_report(self.requests, request, until=time.monotonic() + self.limits.setup)
        except (OSError, ReportError) as error:  # it is gone, or does not read
            return [], self._end_for(error)
        return self._collect(1)

    def _collect(self, count: int) -> tuple[list[Report], str]:
        reports: list[Report] = []
        deadline = time.monotonic() + self.limits.seconds
        try:
            while len(reports) < count:
                reports.append(self._read(self.limits.report, deadline))
        except TimeoutError:
            self.end()
            return reports, f"it took longer than {self.limits.seconds:g} s"
        except (NotRehearsedError, ReportError) as error:
            return reports, self._end_for(error)
        return reports, ""

    def _end_for(self, error: Exception) -> str:
        """End it; return why, with the limit that it exceeded or the signal by which it ended."""
        code = os.waitstatus_to_exitcode(self.end())
        if not isinstance(error, ReportError):
            return str(error)
        number = -code if code < 0 else code - isolation.BY_SIGNAL
        by_signal = f" ({signal.Signals(number).name})" if number in set(signal.Signals) else ""
        return _EXCEEDED.get(code) or f"{error}{by_signal}"

    def _read(self, most: int, deadline: float) -> Report:
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
        for each in (self.report, self.requests, self.handle):
            with contextlib.suppress(OSError):
                os.close(each)
        return status

    def _signal(self, number: int) -> None:
        with contextlib.suppress(OSError):
            signal.pidfd_send_signal(self.handle, number)


@without_interrupts
def start_isolated(
    acts: Iterable[Act],
    confinement: Confinement,
    limits: Limits,
    values: Collection[object] = (),
    follow: Follow | None = None,
) -> Rehearsing:
    """Start a process in which `acts` run in turn, isolated, on the kernel's main thread.

    Then, with `follow`, those that are asked for. One that fails is the last. `values` may hold
    large arrays, which need not be searched for secrets. An interrupt would be lost in what
    libraries do after a fork, and leave their locks taken.
    """
    (reading, report), (requests, asking) = os.pipe(), os.pipe()
    kernel, numbers = os.getpid(), random.getstate()
    try:
        process = _fork()
    except OSError:
        for each in (reading, report, requests, asking):
            os.close(each)
        raise
    if process == 0:
        try:
            gc.disable()  # no destructor of what the kernel has thrown away
            random.setstate(numbers)  # a fork seeds them anew
            life = _enter(kernel, {report, requests}, report, confinement.way, limits)
            with _reporting(report):
                isolation.isolate(confinement, limits, life, find_numeric_memory(values))
            write_report(report, {})
            with _reporting(report):
                later = _follow(requests, follow, limits) if follow else ()
                all(_perform(act, report) for act in chain(acts, later))
            os._exit(0)
        finally:
            os._exit(1)
    os.close(report)
    os.close(requests)
    os.set_blocking(asking, False)  # it may not read
    return Rehearsing(process, os.pidfd_open(process), reading, asking, limits)


def _follow(requests: int, follow: Follow, limits: Limits) -> Iterator[Act]:
    """Yield the acts that are asked for, until there is nobody who asks."""
    with contextlib.suppress(ReportError):
        while True:
            request, _ = read_report(requests, MOST_TEXT, time.monotonic() + _FOREVER)
            isolation.limit_time(limits)
            yield follow(request)


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


def _enter(kernel: int, pipes: Collection[int], report: int, way: Way, limits: Limits) -> int:
    """Return in the second process only, with a pipe that tells of the first one's life."""
    with _reporting(report):
        isolation.leave_kernel(kernel, pipes, way)
        life, hold = os.pipe()
        processes = os.open("/proc", os.O_PATH | os.O_CLOEXEC)
        second = _fork()
    if second:
        for each in pipes:
            os.close(each)
        os._exit(isolation.wait_in_first(second, processes, limits))
    for each in (hold, processes):
        os.close(each)
    return life


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


_LIBRARIES: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(
        (
            *("numpy", "pandas", "pyarrow", "openpyxl", "sqlite3", "seaborn", "scipy", "bisect"),
            *("calendar", "collections", "copy", "csv", "dataclasses", "datetime", "decimal"),
            *("enum", "fractions", "functools", "glob", "heapq", "io", "itertools", "json", "math"),
            *("operator", "os", "pathlib", "pprint", "random", "re", "statistics", "string", "sys"),
            *("textwrap", "time", "typing", "unicodedata", "warnings", "zipfile", "zoneinfo"),
        ),
        (),
    ),
    "matplotlib": ("matplotlib.pyplot",),
    "polars": ("numpy",),
    "sklearn": ("sklearn.linear_model", "sklearn.model_selection", "sklearn.ensemble"),
    "statsmodels": ("statsmodels.api", "statsmodels.formula.api"),
}
"""Libraries that may be imported for a look, and what else of them is: no part that code chooses,
since some modules of every library are scripts, tests or settings that act when imported."""
_READERS = {"read_excel": "openpyxl", "ExcelFile": "openpyxl", "read_parquet": "pyarrow.parquet"}
"""Functions of pandas, and what each imports first."""


def load_libraries(code: str) -> None:
    """Import the libraries of the list that code names, as far as they are installed."""
    with _installed_only():
        for name in dict.fromkeys(_list_libraries(code)):
            if name not in sys.modules:
                with contextlib.suppress(BaseException):  # the code will meet it
                    importlib.import_module(name)


def _list_libraries(code: str) -> Iterator[str]:
    for node in parse_nodes(code) or ():
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [each.name for each in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [node.module]
        elif isinstance(node, ast.Attribute) and node.attr in _READERS:
            yield _READERS[node.attr]
        for root in (name.partition(".")[0] for name in names):
            if root in _LIBRARIES:
                yield from (root, *_LIBRARIES[root])


@contextlib.contextmanager
def _installed_only() -> Iterator[None]:
    """Let imports of this thread find what is installed, and nothing beside it.

    A library looks for others that it can use: a file of the workspace may have such a name.
    """
    thread, standard = threading.get_ident(), sysconfig.get_paths()
    roots = tuple(os.path.realpath(standard[key]) for key in ("stdlib", "platstdlib"))
    path = [
        each
        for each in sys.path
        if is_of_package(f"{each}/") or os.path.realpath(each).startswith(roots)
    ]

    class Installed(MetaPathFinder):
        @staticmethod
        def find_spec(
            name: str, path_of_parent: Sequence[str] | None = None, target: object = None
        ) -> ModuleSpec | None:
            if threading.get_ident() != thread or path_of_parent is not None:
                return None
            for importer in (BuiltinImporter, FrozenImporter):
                if (spec := importer.find_spec(name)) is not None:
                    return spec
            if (spec := PathFinder.find_spec(name, path)) is None:
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)
            return spec

    finder = Installed()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
