"""One command at work: a keeper watches over it, its output is read, and it can be ended."""

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
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO, cast

from ipyagent.errors import AgentError
from ipyagent.kernel import partial
from ipyagent.schema import ToolResult
from ipyagent.tools.sandbox import keeper
from ipyagent.tools.sandbox.output import Output

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
"""A command that prints more bytes than this is ended."""

MAX_MEMORY = max(_GB, machine_memory() // 2)
"""A command that uses more bytes, together with all that it started, is ended."""

_CHUNK = 1 << 18
_PIPE = 1 << 20  # more than a pipe holds
_PATIENCE = 8.0  # seconds: a keeper needs less to end everything


@dataclass(frozen=True)
class Ended:
    """How a command ended: `code` is negative for a signal, None where nobody can tell.

    `why` is what ended it if it did not end by itself: time, tasks, memory, printed or stuck.
    """

    output: Output
    code: int | None
    why: str = ""


async def run(
    command: Sequence[str],
    environment: Mapping[str, str],
    folder: Path,
    *,
    boxed: bool,
    limit: float,
    calls: bytes = b"",
) -> Ended:
    """Run a command for at most `limit` seconds; nothing of it is left then.

    `boxed`: the command is bubblewrap, which filters system calls by the program `calls`. A caller
    that is cancelled waits a little for its end.
    """
    if not hasattr(os, "waitid"):
        raise AgentError("commands need Python 3.13 or newer on this system")
    job = Job(command, environment, folder, boxed=boxed, calls=calls)
    partial.offer(lambda: ToolResult(output=job.output.beginning() + job.output.end()))
    ended = asyncio.wrap_future(job.ended)
    try:
        await asyncio.wait({ended}, timeout=limit)
        if not ended.done():
            job.end("time", politely=True)
            await asyncio.wait({ended}, timeout=_PATIENCE)
    finally:
        if not ended.done():
            job.end("stuck")
            await asyncio.wait({ended}, timeout=_PATIENCE)
        if not ended.done():
            job.give_up()
    return ended.result() if ended.done() else Ended(job.output, None, "stuck")


class Job:
    """A command that has been started; `ended` settles when nothing of it is left."""

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        folder: Path,
        *,
        boxed: bool,
        calls: bytes = b"",
    ) -> None:
        self.output = Output()
        self.ended: Future[Ended] = Future()
        self._why = ""
        self._report, report = os.pipe()
        told = [str(report), "boxed" if boxed else "bare", str(MAX_MEMORY)]
        passed = [report]
        if calls:
            passed.append(_pipe_with(calls))
            command = [command[0], "--seccomp", str(passed[-1]), *command[1:]]
        try:
            self._keeper = subprocess.Popen(  # noqa: S603
                [sys.executable, "-I", "-S", "-c", _source(), *told, *command],
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
        self._lifeline = cast(IO[bytes], self._keeper.stdin)
        self._printed = cast(IO[bytes], self._keeper.stdout)
        threading.Thread(target=self._attend, name="ipyagent-command", daemon=True).start()

    def end(self, why: str, *, politely: bool = False) -> None:
        """Have the keeper end it, from any thread."""
        self._why = self._why or why
        with contextlib.suppress(OSError, ValueError):  # it has ended by itself
            # Said and not only closed: a fork of the kernel may hold the other end, too.
            self._lifeline.write(b"t" if politely else b"k")
        self._keeper.send_signal(signal.SIGCONT)  # a command outside of any box may have stopped it

    def give_up(self) -> None:
        """End a keeper that does not come to its end; what is left of its command is left."""
        self._keeper.kill()

    def _attend(self) -> None:
        with self._keeper, os.fdopen(self._report, "rb", buffering=0) as report:
            said = self._read(report.fileno()).decode()
        child, code, why = (*said.split(" "), "", "")[:3]
        known = int(code) if code.lstrip("-").isdigit() else None
        if known is None and child.isdigit():  # the keeper was killed, and so was its child
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(int(child), signal.SIGKILL)
        self.ended.set_result(Ended(self.output, known, why or self._why))

    def _read(self, report: int) -> bytes:
        """Read until the keeper is gone; what it said in the end."""
        printed = self._printed.fileno()
        os.set_blocking(printed, False)
        poll = select.poll()
        for fd in (printed, report):
            poll.register(fd, select.POLLIN)
        said, gone = b"", False
        while not gone:
            ready = {fd for fd, _ in poll.poll()}
            if printed in ready and not self._take(printed):
                poll.unregister(printed)
            if report in ready:
                data = os.read(report, 4096)
                said += data
                gone = not data
        read = self.output.size
        # What is in the pipe still; whoever might hold its other end is not waited for.
        while self._take(printed) and self.output.size < read + _PIPE:
            pass
        return said

    def _take(self, printed: int) -> bool:
        """Read some of the output; False if there is no more."""
        try:
            data = os.read(printed, _CHUNK)
        except BlockingIOError:
            return False
        self.output.add(data)
        if self.output.size > MAX_PRINTED:
            self.end("printed")
        return bool(data)


def _pipe_with(data: bytes) -> int:
    """Return a descriptor from which some bytes can be read, no more than a pipe holds."""
    reads, writes = os.pipe()
    os.write(writes, data)
    os.close(writes)
    return reads


@cache
def _source() -> str:
    return inspect.getsource(keeper)
