"""The probe: before rehearsals are relied on, one tries to break out, in every way known here.

What it reports is believed only if it is bad; what can be seen from outside is looked at there.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import secrets
import signal
import socket
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from ipyagent.json_types import JsonDict
from ipyagent.kernel.rehearsal.confinement import Confinement, Limits
from ipyagent.kernel.rehearsal.rehearser import NotRehearsedError, Rehearsing, start_isolated

_LIMITS = Limits(seconds=5.0)
_NEW_USER, _ATTACH = 0x10000000, 16
_REMOUNT = 32 | 4096
_KEPT, _HIDDEN = "kept", ".env"


@dataclass(frozen=True)
class Bait:
    """The things that the probe must not reach."""

    folder: str
    secret: str
    written: int
    """A descriptor of a file that is open for writing."""
    shared: mmap.mmap
    port: int
    abstract: str
    server: socket.socket

    @property
    def outside(self) -> Path:
        """A file beside the workspace."""
        return Path(self.folder, "outside")

    @property
    def workspace(self) -> Path:
        """The workspace."""
        return Path(self.folder, "workspace")


class Probe:
    """One attempt to break out; started on the main thread, finished on another."""

    def __init__(self, confinement: Confinement) -> None:
        self._stack = contextlib.ExitStack()
        self._bait = self._stack.enter_context(_lay_bait())
        self._confinement = replace(
            confinement,
            root=str(self._bait.workspace),
            hidden_files=(_HIDDEN,),
            hidden_folders=(),
            secrets=frozenset({self._bait.secret}),
        )
        self._rehearsing: Rehearsing | None = None

    def start(self) -> None:
        """Start it, on the main thread."""
        bait, kernel = self._bait, os.getpid()
        os.close(os.pidfd_open(kernel))  # which old systems do not have

        def act() -> tuple[JsonDict, list[memoryview]]:
            attempts = _attempts(bait, kernel)
            return {"escapes": [name for name, deed in attempts if _succeeds(deed)]}, []

        self._rehearsing = start_isolated(act, self._confinement, _LIMITS)

    def finish(self) -> str | None:
        """Return why the isolation cannot be relied on, or None."""
        assert self._rehearsing is not None  # noqa: S101
        with self._stack:
            try:
                report, _ = self._rehearsing.finish()
            except NotRehearsedError as error:
                return str(error)
            found = [*map(str, report.get("escapes", ["says nothing"])), *_traces(self._bait)]
        return f"it does not hold here ({', '.join(found)})" if found else None


@contextlib.contextmanager
def _lay_bait() -> Iterator[Bait]:
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="ipyagent-"))
        folder = os.path.realpath(folder)
        Path(folder, "workspace").mkdir()
        for place in ("outside", "written", f"workspace/{_HIDDEN}", f"workspace/{_KEPT}"):
            Path(folder, place).write_text("hidden" if place.endswith(_HIDDEN) else "")
        written = os.open(f"{folder}/written", os.O_RDWR)
        stack.callback(os.close, written)
        shared = stack.enter_context(mmap.mmap(-1, mmap.PAGESIZE))
        server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        server.setblocking(False)
        unix = stack.enter_context(socket.socket(socket.AF_UNIX))
        abstract = f"\0ipyagent-{secrets.token_hex(8)}"
        unix.bind(abstract)
        unix.listen()
        port = server.getsockname()[1]
        yield Bait(folder, secrets.token_hex(16), written, shared, port, abstract, server)


def _traces(bait: Bait) -> Iterator[str]:
    """Yield what can be seen from outside to have been reached."""
    if bait.outside.read_text():
        yield "writes elsewhere"
    if os.fstat(bait.written).st_size:
        yield "writes through an open file"
    if (bait.workspace / _KEPT).read_text() or (bait.workspace / "made").exists():
        yield "writes in the workspace"
    if bait.shared[:1] != b"\0":
        yield "writes to shared memory"
    with contextlib.suppress(BlockingIOError):
        bait.server.accept()[0].close()
        yield "connects"


def _attempts(bait: Bait, kernel: int) -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield attempts by name; one that returns something true has escaped."""
    libc = ctypes.CDLL(None)
    workspace = bait.workspace
    yield "reads elsewhere", bait.outside.exists
    # Whether these reach the real place can only be seen from there.
    yield "", lambda: bait.outside.write_text("x") and None
    yield "", lambda: os.write(bait.written, b"x") and None
    yield "", lambda: bait.shared.__setitem__(0, 1)
    yield "", lambda: (workspace / _KEPT).write_text("x") and None
    yield "has no copy of the workspace", lambda: not (workspace / "made").write_text("x")
    yield "reads a hidden file", (workspace / _HIDDEN).read_text
    yield "reads the home folder", _sees_home
    yield "sees a secret", lambda: set(bait.secret) != {"*"}
    yield "sees other processes", lambda: any(n.isdigit() and n != "1" for n in os.listdir("/proc"))  # noqa: PTH208
    yield "signals the kernel", lambda: libc.kill(kernel, signal.SIGCHLD) == 0
    yield "traces the kernel", lambda: libc.ptrace(_ATTACH, kernel, None, None) == 0
    yield "connects", lambda: socket.create_connection(("127.0.0.1", bait.port), 1)
    yield "connects by name", lambda: not socket.socket(socket.AF_UNIX).connect_ex(bait.abstract)
    yield "remounts", lambda: libc.mount(b"none", b"/usr", None, _REMOUNT, None) == 0
    yield "makes namespaces", lambda: libc.unshare(_NEW_USER) == 0
    yield "starts processes", lambda: os.posix_spawn("/bin/true", ["true"], {})
    yield "has capabilities", _has_capabilities


def _succeeds(deed: Callable[[], object]) -> bool:
    try:
        return bool(deed())
    except OSError:
        return False


def _sees_home() -> bool:
    home = Path.home()
    return home != Path("/") and any(not each.is_dir() for each in home.iterdir())


def _has_capabilities() -> bool:
    lines = Path("/proc/self/status").read_text().splitlines()
    values = dict(line.split(":", 1) for line in lines)
    return any(int(values[each], 16) for each in ("CapEff", "CapPrm", "CapBnd", "CapInh"))
