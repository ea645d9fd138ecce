"""The reader of tables in files: a process of its own, which has their libraries.

It is started in good time, and again if it has ended: it imports pandas once, and forks for each
file. The file is opened by the kernel, beneath the workspace, and handed over. A fork reads it in
confinement: no other file, no network, no program, bounded memory and time; what comes back is
plain data of bounded size. Whatever a file does to its library ends with the fork.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import warnings
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import BinaryIO, TypeVar

from ipyagent.errors import PathValidationError
from ipyagent.imports import PACKAGES
from ipyagent.json_types import JsonDict
from ipyagent.rehearsal import system
from ipyagent.rehearsal.confinement import Confinement, restrict_files
from ipyagent.tools.sandbox import bubblewrap
from ipyagent.tools.tables.sample import NotTableError, UnreadTableError

SECONDS = 45.0
"""Seconds for a file, after which its process has ended."""
_MOST_ANSWER = 32_000_000
_MOST_KEPT = 50
_VARIABLES = ("PATH", "LD_LIBRARY_PATH", "LANG", "TZ", "HOME")
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "POLARS_MAX_THREADS")
_START = """
import sys
sys.path.append(sys.argv[1])
from ipyagent.tools.tables.reader import main
main(sys.argv[2])
"""

T = TypeVar("T")


class TableReader:
    """The process that reads tables, and what it has read."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._started: tuple[subprocess.Popen[bytes], socket.socket] | None = None
        self._end: Callable[[], object] = lambda: None
        self._kept: dict[object, Future[object]] = {}

    def start(self) -> tuple[subprocess.Popen[bytes], socket.socket]:
        """Start the process, unless it runs; it is ready a second later."""
        with self._lock:
            if self._started is not None and self._started[0].poll() is None:
                return self._started
            ours, theirs = socket.socketpair()
            with theirs:
                process = subprocess.Popen(  # noqa: S603
                    _write_command(),
                    stdin=theirs.fileno(),
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    cwd=Path(sys.prefix).anchor,  # nothing of the workspace is imported
                    env=_pick_variables(),
                    start_new_session=True,  # an interrupt of the terminal is for the kernel
                )
            self._end()
            self._end = weakref.finalize(self, _end, process, ours)
            self._started = process, ours
            return self._started

    def stop(self) -> None:
        """End the process."""
        with self._lock:
            self._end()
            self._started = None

    def share(self, state: object, job: Callable[[], T]) -> Future[T]:
        """Return what a job gives for a state of a file, done once in a thread of its own."""
        with self._lock:
            known = self._kept.get(state)
            if known is None:
                known = self._kept[state] = Future()
                while len(self._kept) > _MOST_KEPT:
                    del self._kept[next(iter(self._kept))]
                threading.Thread(target=self._fulfil, args=(known, state, job), daemon=True).start()
        return known  # type: ignore[return-value]

    def _fulfil(self, future: Future[object], state: object, job: Callable[[], object]) -> None:
        try:
            future.set_result(job())
        except BaseException as error:
            self._kept.pop(state, None)  # a library may be installed meanwhile
            future.set_exception(error)

    def read(self, path: str, file: BinaryIO) -> JsonDict:
        """Return what the process finds in an open file; raises NotTableError."""
        request = json.dumps({"path": path, "size": os.fstat(file.fileno()).st_size}).encode()
        data = b""
        for _ in range(2):
            process, channel = self.start()
            reading, writing = os.pipe()
            with os.fdopen(reading, "rb") as answer:
                try:
                    socket.send_fds(channel, [request], [file.fileno(), writing])
                except OSError:
                    continue  # it has ended just now
                finally:
                    os.close(writing)
                data = _receive(answer.fileno())
            if data or process.poll() is None:
                break
        try:
            found: JsonDict = json.loads(data)
        except ValueError:
            raise NotTableError("its library failed on it, as on a damaged file") from None
        if "error" in found:
            unread = UnreadTableError if found["unread"] else NotTableError
            raise unread(str(found["error"])[:200])
        return found


def _write_command() -> list[str]:
    source = str(Path(__file__).parents[3])
    _, system = bubblewrap.system_paths()
    readable = [*system, *bubblewrap.python_paths("/"), source]
    packages = [each for each in sys.path if Path(each).name in PACKAGES]
    calls = bubblewrap.build_filter(processes=False, namespaces=False).hex()
    settings = {"readable": sorted({*readable}), "path": packages, "filter": calls}
    return [sys.executable, "-E", "-P", "-c", _START, source, json.dumps(settings)]


def _pick_variables() -> dict[str, str]:
    given = {name: os.environ[name] for name in _VARIABLES if name in os.environ}
    return {**given, **dict.fromkeys(_THREADS, "1"), "ARROW_DEFAULT_MEMORY_POOL": "system"}


def _end(process: subprocess.Popen[bytes], channel: socket.socket) -> None:
    channel.close()
    process.kill()
    process.wait()


def _receive(descriptor: int) -> bytes:
    """Return what is written to a pipe until it is closed; b"" if that is too much or too late."""
    until, parts, size = time.monotonic() + SECONDS, list[bytes](), 0
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    while poll.poll(max(0.0, until - time.monotonic()) * 1_000):
        part = os.read(descriptor, 1 << 20)
        if not part:
            return b"".join(parts)
        parts.append(part)
        size += len(part)
        if size > _MOST_ANSWER:
            break
    return b""


# In the process ----------------------------------------------------------------------------------

# python -c "…; main(sys.argv[2])" SOURCE SETTINGS, whose standard input is a socket. Each message
# on it is a request in JSON, with two descriptors: the open file, and the pipe for the answer.

_PROCESSOR_SECONDS = 20
"""Seconds of processor time for a file, and of time at all for twice as many."""
_MEMORY = 1 << 30
_CHECKED_EACH = 5_000
"""Milliseconds between two looks at who started this process."""
_QUIET = 100
"""Milliseconds without a request after which one more library is imported."""
_LIBRARY = "ipyagent.tools.tables.loading"
"""The module that imports pandas."""
_LATER = (("openpyxl",), ("pyarrow.dataset", "polars"))
"""Of each, the first that is there: not used here, as a fork of what has used polars hangs."""
_REQUEST = 1 << 16


def main(settings: str) -> None:
    """Answer requests until the socket is closed, or the process at its other end is gone."""
    given = json.loads(settings)
    sys.path += given["path"]
    warnings.simplefilter("ignore")
    library, later = _import(_LIBRARY), [*_LATER]
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for forks
    parent, server = os.getppid(), socket.socket(fileno=0)
    poll = select.poll()
    poll.register(server, select.POLLIN)
    while os.getppid() == parent:
        if not poll.poll(_QUIET if later else _CHECKED_EACH):
            any(map(_import, later.pop(0) if later else ()))
            continue
        message, descriptors, _, _ = socket.recv_fds(server, _REQUEST, 2)
        if not message:
            return
        library = library or _import(_LIBRARY)  # it may have been installed meanwhile
        if os.fork() == 0:
            _answer(json.loads(message), descriptors, given, library)
        for each in descriptors:
            os.close(each)


def _import(name: str) -> ModuleType | None:
    try:
        return importlib.import_module(name)
    except Exception:  # it is not there, or broken
        return None


def _answer(
    request: JsonDict, descriptors: list[int], given: JsonDict, library: ModuleType | None
) -> None:
    file, pipe = descriptors
    try:
        if sys.platform == "linux":
            system.die_with_parent(signal.SIGKILL)
        _replace_descriptors(file, pipe)
        is_confined = _confine(given, file)
        if library is None:
            raise ImportError("pandas is not installed")
        found: JsonDict = library.load(request, file, is_confined)
    except BaseException as error:  # whatever a damaged file does to a library
        is_ours = isinstance(error, (NotTableError, PathValidationError, ImportError))
        is_unread = isinstance(error, (UnreadTableError, ImportError))
        found = {"error": str(error) if is_ours else type(error).__name__, "unread": is_unread}
    with contextlib.suppress(OSError), os.fdopen(pipe, "wb") as output:
        output.write(json.dumps(found).encode())
    os._exit(0)


def _replace_descriptors(file: int, pipe: int) -> None:
    """Leave only the file and the pipe; libraries that print do so to nowhere."""
    null = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(null, number)
    first, second = sorted((file, pipe))
    os.closerange(3, first)
    os.closerange(first + 1, second)
    os.closerange(second + 1, max(null, second) + 64)


def _confine(given: JsonDict, file: int) -> bool:
    """Limit what a library can reach; return whether no other file can be read."""
    import resource

    signal.alarm(2 * _PROCESSOR_SECONDS)
    limits = {"CORE": 0, "CPU": _PROCESSOR_SECONDS, "FSIZE": 0, "DATA": _MEMORY}
    for name, value in limits.items():
        kind = getattr(resource, f"RLIMIT_{name}")
        _, hard = resource.getrlimit(kind)
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (value, value))
    if sys.platform != "linux":
        return False
    system.forbid_new_privileges()
    confinement, is_confined = Confinement(sys.prefix, readable=tuple(given["readable"])), True
    for restrict in (
        partial(restrict_files, confinement, [file]),
        partial(system.filter_calls, bytes.fromhex(given["filter"])),
    ):
        try:
            restrict()
        except OSError:  # the system is too old, or a container forbids it
            is_confined = False
    return is_confined
