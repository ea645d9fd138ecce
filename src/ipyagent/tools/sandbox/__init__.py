"""Commands in processes of their own: sandboxed by bubblewrap if it works, supervised always.

A supervisor watches a command; of its output only the beginning and the end are held in memory.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import os
import select
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO, cast

from ipyagent.errors import AgentError
from ipyagent.kernel.outputs import RECENT, offer_output
from ipyagent.schema import ToolResult
from ipyagent.tools.sandbox import bubblewrap, supervisor
from ipyagent.tools.sandbox.protected_paths import WorkspaceScan, undo_harm
from ipyagent.tools.workspace import Workspace

MAX_HEAD = 8_000_000
"""Bytes of the beginning that are kept."""

_MAX_TAIL = 64_000


class BoundedOutput:
    """The output of one command as it arrives."""

    def __init__(self) -> None:
        self.size = self._told = 0
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._in_tail = 0

    def add(self, data: bytes) -> None:
        """Add bytes."""
        self.size += len(data)
        room = MAX_HEAD - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        if data:
            self._tail.append(data[-_MAX_TAIL:])
            self._in_tail += len(self._tail[-1])
        while self._tail and self._in_tail - len(self._tail[0]) >= _MAX_TAIL:
            self._in_tail -= len(self._tail.popleft())

    def recent_text(self) -> str | None:
        """Return the end of the text, from any thread; None if nothing came since last time."""
        if self.size == self._told:
            return None
        self._told = self.size
        end = b"".join([bytes(self._head[-RECENT:]), *list(self._tail)])
        return end[-RECENT:].decode("utf-8", "replace")

    def head(self) -> str:
        """Return the beginning."""
        return self._head.decode("utf-8", "replace")

    def tail(self) -> str:
        """Return the kept part of the rest."""
        return b"".join(self._tail).decode("utf-8", "replace")


_GB = 1024**3
_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def machine_memory() -> int:
    """Return the bytes of memory of this machine, or of the container if that has less."""
    found = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    for name in _LIMITS:
        with contextlib.suppress(OSError, ValueError):  # not there, or "max"
            found.append(int(Path(name).read_text()))
    return min(found)


MAX_PRINTED = 4 * _GB
"""Bytes of output above which a command is ended."""

MAX_MEMORY = max(_GB, machine_memory() // 2)
"""Bytes of memory, including all that it started, above which a command is ended."""

_CHUNK = 1 << 18
_PIPE = 1 << 20  # more than a pipe holds
_STOP_SECONDS = 8.0  # seconds: a supervisor needs less to end everything


@dataclass(frozen=True)
class ProcessOutcome:
    """The end of a command: `code` is negative for a signal, None if unknown.

    `stop_reason` is set if it was stopped: time, tasks, memory, printed or stuck.
    """

    output: BoundedOutput
    code: int | None
    stop_reason: str = ""


async def run_supervised(
    command: Sequence[str],
    environment: Mapping[str, str],
    folder: Path,
    *,
    sandboxed: bool,
    seconds: float,
    seccomp_filter: bytes = b"",
) -> ProcessOutcome:
    """Run a command for at most `seconds`; afterwards none of its processes is left.

    `sandboxed`: the command is bubblewrap, which applies `seccomp_filter`. A cancelled caller waits
    briefly for the end of the command.
    """
    if not hasattr(os, "waitid"):
        raise AgentError("commands need Python 3.13 or newer on this system")
    job = SupervisedProcess(
        command, environment, folder, sandboxed=sandboxed, seccomp_filter=seccomp_filter
    )
    output = job.output
    offer_output(lambda: ToolResult(output=output.head() + output.tail()), output.recent_text)
    ended = asyncio.wrap_future(job.outcome)
    try:
        await asyncio.wait({ended}, timeout=seconds)
        if not ended.done():
            job.stop("time", politely=True)
            await asyncio.wait({ended}, timeout=_STOP_SECONDS)
    finally:
        if not ended.done():
            job.stop("stuck")
            await asyncio.wait({ended}, timeout=_STOP_SECONDS)
        if not ended.done():
            job.kill_supervisor()
    return ended.result() if ended.done() else ProcessOutcome(job.output, None, "stuck")


class SupervisedProcess:
    """A running command; `ended` completes when none of its processes is left."""

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        folder: Path,
        *,
        sandboxed: bool,
        seccomp_filter: bytes = b"",
    ) -> None:
        self.output = BoundedOutput()
        self.outcome: Future[ProcessOutcome] = Future()
        self._stop_reason = ""
        self._report, report = os.pipe()
        arguments = [str(report), "boxed" if sandboxed else "bare", str(MAX_MEMORY)]
        passed = [report]
        if seccomp_filter:
            passed.append(_pipe_holding(seccomp_filter))
            command = [command[0], "--seccomp", str(passed[-1]), *command[1:]]
        try:
            self._supervisor = subprocess.Popen(  # noqa: S603
                [sys.executable, "-I", "-S", "-c", _supervisor_source(), *arguments, *command],
                bufsize=0,
                env=dict(environment),
                cwd=folder,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                pass_fds=passed,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            os.close(self._report)
            raise AgentError(f"the command could not be started: {error}") from None
        finally:
            for fd in passed:
                os.close(fd)
        self._lifeline = cast("IO[bytes]", self._supervisor.stdin)
        self._printed = cast("IO[bytes]", self._supervisor.stdout)
        threading.Thread(target=self._wait_for_exit, name="ipyagent-command", daemon=True).start()

    def stop(self, why: str, *, politely: bool = False) -> None:
        """Have the supervisor stop it, from any thread."""
        self._stop_reason = self._stop_reason or why
        with contextlib.suppress(OSError, ValueError):  # it has ended on its own
            # Written and not only closed: a fork of the kernel may hold the other end, too.
            self._lifeline.write(b"t" if politely else b"k")
        # A command outside of any box may have stopped it.
        self._supervisor.send_signal(signal.SIGCONT)

    def kill_supervisor(self) -> None:
        """Kill a supervisor that does not finish; remains of its command stay."""
        self._supervisor.kill()

    def _wait_for_exit(self) -> None:
        with self._supervisor, os.fdopen(self._report, "rb", buffering=0) as report:
            report_text = self._read_until_exit(report.fileno()).decode()
        child, code, why = (*report_text.split(" "), "", "")[:3]
        known = int(code) if code.lstrip("-").isdigit() else None
        if known is None and child.isdigit():  # the supervisor was killed, and so was its child
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(int(child), signal.SIGKILL)
        self.outcome.set_result(ProcessOutcome(self.output, known, why or self._stop_reason))

    def _read_until_exit(self, report: int) -> bytes:
        """Read until the supervisor exits; return its report."""
        printed = self._printed.fileno()
        os.set_blocking(printed, False)
        poll = select.poll()
        for fd in (printed, report):
            poll.register(fd, select.POLLIN)
        report_bytes, has_exited = b"", False
        while not has_exited:
            ready = {fd for fd, _ in poll.poll()}
            if printed in ready and not self._read_output(printed):
                poll.unregister(printed)
            if report in ready:
                data = os.read(report, 4096)
                report_bytes += data
                has_exited = not data
        read = self.output.size
        # The rest of the pipe; another process that holds its other end is not waited for.
        while self._read_output(printed) and self.output.size < read + _PIPE:
            pass
        return report_bytes

    def _read_output(self, printed: int) -> bool:
        """Read some of the output; return False if there is no more."""
        try:
            data = os.read(printed, _CHUNK)
        except BlockingIOError:
            return False
        self.output.add(data)
        if self.output.size > MAX_PRINTED:
            self.stop("printed")
        return bool(data)


def _pipe_holding(data: bytes) -> int:
    """Return a descriptor from which these bytes can be read, no more than a pipe holds."""
    reads, writes = os.pipe()
    os.write(writes, data)
    os.close(writes)
    return reads


@cache
def _supervisor_source() -> str:
    return inspect.getsource(supervisor)


_SYSTEM_FOLDERS = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc", "/dev", "/proc", "/sys")


@dataclass(frozen=True)
class SandboxResult:
    """A command's outcome, its place, and changes undone after it."""

    outcome: ProcessOutcome
    sandboxed: bool
    notes: tuple[str, ...] = ()


class Sandbox:
    """The sandbox for the commands of one workspace."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._root = str(workspace.root)

    @property
    def unavailable_reason(self) -> str | None:
        """Why commands run without a sandbox; None: they run in it."""
        root = self._root
        if any(f"{taken}/".startswith(f"{root.rstrip('/')}/") for taken in _SYSTEM_FOLDERS):
            return f"{root} belongs to the system, so it cannot be the workspace of a sandbox"
        return bubblewrap.detect_sandbox().problem

    @property
    def available(self) -> bool:
        """True if a sandbox is available and works; tried when first needed, in about 0.1 s."""
        return self.unavailable_reason is None

    @property
    def unfiltered_reason(self) -> str | None:
        """Why the sandbox does not filter system calls; None: it does, or there is no sandbox."""
        return bubblewrap.detect_sandbox().unfiltered_reason if self.available else None

    async def run(
        self, command: Sequence[str], *, seconds: float, readable_state: Sequence[str] = ()
    ) -> SandboxResult:
        """Run a command in the workspace for at most `seconds`, sandboxed if possible.

        Afterwards none of its processes is left. `readable_state` names files of our own state that
        it may read. Raises AgentError if it cannot be started.
        """
        self._check_root()
        root, support = self._workspace.root, bubblewrap.detect_sandbox()
        if not self.available:
            variables = bubblewrap.unsandboxed_environment()
            ended = await run_supervised(command, variables, root, sandboxed=False, seconds=seconds)
            return SandboxResult(ended, sandboxed=False)
        self._workspace.state_folder()  # there already, so that the command cannot make its own
        python = bubblewrap.python_paths(self._root)
        before = await asyncio.to_thread(WorkspaceScan(root, python).run)
        options = bubblewrap.build_arguments(self._root, before, support.options, readable_state)
        try:
            ended = await run_supervised(
                [support.bwrap, *options, "--", *command],
                bubblewrap.environment(self._root),
                root,
                sandboxed=True,
                seconds=seconds,
                seccomp_filter=support.seccomp_filter,
            )
        finally:  # also if the run is stopped
            after = WorkspaceScan(root, python, before)
            notes = await asyncio.to_thread(undo_harm, self._workspace, before, after)
        return SandboxResult(ended, sandboxed=True, notes=tuple(notes))

    def _check_root(self) -> None:
        """Raise if the path and the descriptor of the workspace disagree: paths are mounted."""
        opened = self._workspace.stat(".")
        try:
            named = self._workspace.root.stat()
        except OSError:
            named = None
        if opened is None or named is None or not os.path.samestat(opened, named):
            raise AgentError(f"{self._root} has been moved or replaced; restart the kernel")
