"""The process that reads tables: it imports pandas once, and forks for each file.

    python -c "…; main(sys.argv[2])" SOURCE SETTINGS        the standard input is a socket

Each message on the socket is a request in JSON, with two descriptors: the open file, and the pipe
for the answer. A fork reads it in confinement: no other file, no network, no program, bounded
memory and time. Whatever a file does to its library ends with the fork.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import select
import signal
import socket
import sys
import warnings
from functools import partial
from types import ModuleType

from ipyagent.errors import PathValidationError
from ipyagent.json_types import JsonDict
from ipyagent.rehearsal import system
from ipyagent.rehearsal.confinement import Confinement, restrict_files
from ipyagent.tools.tables.sample import NotTableError, UnreadTableError

SECONDS = 20
"""Seconds of processor time for a file, and of time at all for twice as many."""
_MEMORY = 1 << 30
_CHECKED_EACH = 5_000
"""Milliseconds between two looks at who started this process."""
_QUIET = 100
"""Milliseconds without a request after which one more library is imported."""
_LIBRARY = "ipyagent.tools.tables.loading"
"""The module that imports pandas."""
_LATER = (("openpyxl",), ("pyarrow.parquet", "polars"))
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

    signal.alarm(2 * SECONDS)
    limits = {"CORE": 0, "CPU": SECONDS, "FSIZE": 0, "DATA": _MEMORY}
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
