"""The probe: before rehearsals are relied on, one tries to break out, in every way known here.

What it reports is believed only if it is bad; what can be seen from outside is looked at there.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import resource
import secrets
import signal
import socket
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from ipyagent.rehearsal.confinement import Confinement, Limits
from ipyagent.rehearsal.process import CopyProcess, Report, start_isolated
from ipyagent.rehearsal.watched_values import read_pages

_LIMITS = Limits(seconds=5.0)
_NEW_USER, _ATTACH = 0x10000000, 16
_REMOUNT = 32 | 4096
_KEPT, _HIDDEN = "kept", ".env"


class Probe:
    """One attempt to break out; made and finished on any thread, started on the main one.

    Around a workspace of its own it lays out what must not be reached.
    """

    def __init__(self, confinement: Confinement) -> None:
        self._stack = contextlib.ExitStack()
        enter = self._stack.enter_context
        folder = Path(enter(tempfile.TemporaryDirectory(prefix="ipyagent-"))).resolve()
        self._outside, self._workspace = folder / "outside", folder / "workspace"
        self._workspace.mkdir()
        for path in (self._outside, folder / "written", self._workspace / _KEPT):
            path.write_text("")
        (self._workspace / _HIDDEN).write_text("hidden")
        self._mode = (self._workspace / _KEPT).stat().st_mode
        self._written = os.open(folder / "written", os.O_RDWR)
        self._kept = os.open(self._workspace / _KEPT, os.O_RDWR)
        for each in (self._written, self._kept):
            self._stack.callback(os.close, each)
        self._shared = enter(mmap.mmap(-1, mmap.PAGESIZE))
        self._private = enter(mmap.mmap(-1, mmap.PAGESIZE, mmap.MAP_PRIVATE))
        self._private[0] = 1
        self._server = enter(socket.create_server(("127.0.0.1", 0)))
        self._server.setblocking(False)
        unix = enter(socket.socket(socket.AF_UNIX))
        self._port, self._name = self._server.getsockname()[1], f"\0{secrets.token_hex(8)}"
        unix.bind(self._name)
        unix.listen()
        self._kernel = os.getpid()
        self._confinement = replace(
            confinement,
            root=str(self._workspace),
            hidden_files=(_HIDDEN,),
            hidden_folders=(),
        )
        self._rehearsing: CopyProcess | None = None

    def start(self) -> None:
        """Start it, on the main thread."""
        os.close(os.pidfd_open(self._kernel))  # which old systems do not have

        def job() -> Report:
            return {"escapes": [name for name, deed in self._attempts() if _succeeds(deed)]}, []

        self._rehearsing = start_isolated((job,), self._confinement, _LIMITS)

    def finish(self) -> str | None:
        """Return why the isolation cannot be relied on, or None."""
        assert self._rehearsing is not None  # noqa: S101
        with self._stack:
            reports, problem = self._rehearsing.finish()
            if not reports:
                return problem
            report, _ = reports[0]
            found = [*map(str, report.get("escapes", ["says nothing"])), *self._traces()]
        return f"it does not hold here ({', '.join(found)})" if found else None

    def _traces(self) -> Iterator[str]:
        """Yield what can be seen from outside to have been reached."""
        if self._outside.read_text():
            yield "writes elsewhere"
        if os.fstat(self._written).st_size:
            yield "writes through an open file"
        kept = self._workspace / _KEPT
        if kept.read_text() or (self._workspace / "made").exists():
            yield "writes in the workspace"
        if kept.stat().st_mode != self._mode:
            yield "changes permissions"
        if self._shared[:1] != b"\0":
            yield "writes to shared memory"
        with contextlib.suppress(BlockingIOError):
            self._server.accept()[0].close()
            yield "connects"

    def _attempts(self) -> Iterator[tuple[str, Callable[[], object]]]:
        """Yield attempts by name; one that returns something true has escaped."""
        libc, workspace, kernel = ctypes.CDLL(None), self._workspace, self._kernel
        server = ("127.0.0.1", self._port)
        yield "reads elsewhere", lambda: os.open(self._outside, os.O_RDONLY)
        # Only from outside it can be seen if these reach the real place.
        yield "", lambda: self._outside.write_text("x") and None
        yield "", lambda: os.write(self._written, b"x") and None
        again = f"/proc/self/fd/{self._kept}"
        yield "", lambda: os.write(os.open(again, os.O_RDWR), b"x") and None
        yield "", lambda: self._shared.__setitem__(0, 1)
        yield "", lambda: (workspace / _KEPT).write_text("x") and None
        yield "", lambda: (workspace / _KEPT).chmod(0o400)
        yield "has no copy of the workspace", lambda: not (workspace / "made").write_text("x")
        yield "reads a hidden file", (workspace / _HIDDEN).read_text
        yield "reads the home folder", _sees_home
        yield "sees other processes", _sees_processes
        yield "signals the kernel", lambda: libc.kill(kernel, signal.SIGCHLD) == 0
        yield "traces the kernel", lambda: libc.ptrace(_ATTACH, kernel, None, None) == 0
        yield "connects", lambda: socket.create_connection(server, 1)
        yield "connects by name", lambda: not socket.socket(socket.AF_UNIX).connect_ex(self._name)
        yield "limits the kernel", lambda: resource.prlimit(kernel, resource.RLIMIT_CORE)
        yield "remounts", lambda: libc.mount(b"none", b"/usr", None, _REMOUNT, None) == 0
        yield "makes namespaces", lambda: libc.unshare(_NEW_USER) == 0
        yield "starts processes", lambda: os.fork() or os._exit(0)
        yield "has capabilities", _has_capabilities
        yield "writes to memory unnoticed", lambda: _writes_unnoticed(self._private)


def _succeeds(deed: Callable[[], object]) -> bool:
    try:
        return bool(deed())
    except OSError:
        return False


def _writes_unnoticed(memory: mmap.mmap) -> bool:
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    before = read_pages(start, start + len(memory))
    memory[0] = 2
    return before == read_pages(start, start + len(memory))


def _sees_home() -> bool:
    home = Path.home()
    return home != Path("/") and any(not each.is_dir() for each in home.iterdir())


def _sees_processes() -> bool:
    return any(name.isdigit() and name != "1" for name in os.listdir("/proc"))  # noqa: PTH208


def _has_capabilities() -> bool:
    lines = Path("/proc/self/status").read_text().splitlines()
    values = dict(line.split(":", 1) for line in lines)
    return any(int(values[each], 16) for each in ("CapEff", "CapPrm", "CapInh", "CapAmb"))
