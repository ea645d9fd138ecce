"""The program that runs one command and leaves none of its processes behind.

It is started as `python -I -S -c SOURCE REPORT BOXED MEMORY COMMAND...` and uses only the standard
library. Standard input is its lifeline: `t` stops the command politely, end of file (the kernel may
just have died) at once. Everything that the command started, daemons too, is found again, because
orphans are reparented to the supervisor. REPORT is the descriptor to which it writes the command's
process id, then the exit code and why the command was stopped, if it was; BOXED says that the
command is bubblewrap, which dies of SIGTERM; MEMORY is how many bytes the command and all that it
started may use together.
"""

# ruff: noqa: PTH123, PTH208 - pathlib would take as long to import as all the rest

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import select
import signal
import sys
import time
from collections.abc import Iterable, Iterator

MAX_TASKS = 1_024
"""Processes and threads that a command may have."""

_GB = 1024**3
_PAGE = os.sysconf("SC_PAGE_SIZE")
_FILE_SIZE = 4 * _GB
_OPEN_FILES = 4_096
_GRACE = 1.0  # seconds between SIGTERM and SIGKILL
_KILL_SECONDS = 5.0  # seconds until what does not die is left alone: a stuck disk, another user's
_MAX_REAPED = 100  # orphans at once: a fork bomb makes them faster than they are buried
_NICE = 10  # for the command: its supervisor has to come up against a fork bomb
_POLL_SECONDS = 0.02  # seconds between two looks at the number of tasks
_MEMORY_CHECK_SECONDS = (
    0.1  # seconds between two looks at the memory: it is quicker filled than many are started
)
_PARENT_DEATH = 1  # PR_SET_PDEATHSIG
_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER


class Supervisor:
    """One command and its descendants."""

    def __init__(self, command: list[str], *, sandboxed: bool, memory: int) -> None:
        self.boxed = sandboxed
        self.memory = memory
        self.code: int | None = None
        self.stop_reason = ""
        self._until = float("inf")
        self._last_memory_check = time.monotonic()
        self._before = _count_tasks()
        self.child = _start_command(command)

    def watch(self, wake: int) -> None:
        """Wait until the command has ended, or must be killed."""
        while not self._has_ended():
            ready, _, _ = select.select([0, wake], [], [], _POLL_SECONDS)
            if wake in ready:
                os.read(wake, 4096)
            if 0 in ready:
                if os.read(0, 1) != b"t":
                    return
                self._terminate()
            if time.monotonic() > self._until:
                return
            # An exact count is expensive, so it is made only near the limit.
            many = _count_tasks() - self._before > MAX_TASKS
            if many and sum(max(1, each.threads) for each in self._descendants()) > MAX_TASKS:
                self.stop_reason = "tasks"
                return
            if self._uses_too_much_memory():
                self.stop_reason = "memory"
                return

    def _uses_too_much_memory(self) -> bool:
        """Return whether the command and its descendants use more memory than allowed."""
        now = time.monotonic()
        if now - self._last_memory_check < _MEMORY_CHECK_SECONDS:
            return False
        family = [each.pid for each in self._descendants()]
        too_large = sum(map(_resident_memory, family)) > self.memory
        # What forks share is counted once only where that is worth the time it takes.
        too_large = too_large and sum(map(_proportional_memory, family)) > self.memory
        self._last_memory_check = time.monotonic()
        return too_large

    def kill_all(self) -> None:
        """Kill all descendants."""
        until = time.monotonic() + _KILL_SECONDS
        # Whole groups in one call: a fork bomb is quicker than any loop. The command is not reaped
        # before that, so the numbers are still its own.
        _send_signal([-self.child], signal.SIGKILL)
        while not self._has_ended() and time.monotonic() < until:
            self._kill_descendants()
            _send_signal([self.child], signal.SIGKILL)
            time.sleep(0.001)
        pid, status = os.waitpid(self.child, os.WNOHANG)
        self.code = os.waitstatus_to_exitcode(status) if pid else None
        while time.monotonic() < until and self._kill_descendants():
            _reap()
            time.sleep(0.002)

    def _kill_descendants(self) -> bool:
        """Kill the descendants' groups and each of them; return whether there were any."""
        left = [each for each in self._descendants() if each.threads]
        # The command is in the supervisor's own group until it has made one for itself.
        groups = {each.group for each in left} - {os.getpgrp()}
        _send_signal([-group for group in groups], signal.SIGKILL)
        _send_signal([each.pid for each in left], signal.SIGKILL)
        return bool(left)

    def _terminate(self) -> None:
        self._until = time.monotonic() + _GRACE
        family = {each.pid for each in self._descendants()}
        _send_signal(family - ({self.child} if self.boxed else set()), signal.SIGTERM)

    def _has_ended(self) -> bool:
        """Return whether the command has ended; reap other orphans on the way."""
        for _ in range(_MAX_REAPED):
            try:
                found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return True
            if found is None:
                return False
            if found.si_pid == self.child:
                return True
            os.waitpid(found.si_pid, 0)
        return False

    def _descendants(self) -> list[_Process]:
        """Return the descendants: the processes of this machine whose ancestor this one is."""
        children: dict[int, list[_Process]] = {}
        for each in _processes():
            children.setdefault(each.parent, []).append(each)
        found = list(children.get(os.getpid(), ()))
        for each in found:  # it grows on the way
            found += children.get(each.pid, ())
        return found


class _Process:
    """A process; a zombie has no threads."""

    def __init__(self, pid: int, parent: int, group: int, threads: int) -> None:
        self.pid, self.parent, self.group, self.threads = pid, parent, group, threads


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _raise_priority() -> None:
    """Raise the priority above the command's, if permitted, as for root."""
    policy = os.SCHED_RR | os.SCHED_RESET_ON_FORK
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, policy, os.sched_param(1))


def _start_command(command: list[str]) -> int:
    here = os.getpid()
    child = os.fork()
    if child:
        return child
    try:
        _prctl(_PARENT_DEATH, signal.SIGKILL)
        if os.getppid() != here:
            os._exit(127)
        os.setsid()
        os.nice(_NICE)
        for ignored in (signal.SIGPIPE, signal.SIGXFSZ):  # as Python does, and programs inherit
            signal.signal(ignored, signal.SIG_DFL)
        for what, most in _resource_limits().items():
            hard = resource.getrlimit(what)[1]
            most = most if hard == resource.RLIM_INFINITY else min(most, hard)
            resource.setrlimit(what, (most, most))
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.execvp(command[0], command)  # noqa: S606
    except OSError as error:
        os.write(2, f"{command[0]}: {error.strerror}\n".encode())
    os._exit(127)


def _resource_limits() -> dict[int, int]:
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    tasks = _count_tasks()
    return {
        # It counts all that the user has, so it is only the last resort; root has no such limit.
        **({resource.RLIMIT_NPROC: tasks + 2 * MAX_TASKS} if tasks else {}),
        resource.RLIMIT_AS: max(4 * _GB, memory // 2),
        resource.RLIMIT_FSIZE: _FILE_SIZE,
        resource.RLIMIT_NOFILE: _OPEN_FILES,
        resource.RLIMIT_CORE: 0,
    }


def _processes() -> Iterator[_Process]:
    with contextlib.suppress(FileNotFoundError):  # a system without /proc
        for name in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:
                # After the name, which may hold anything: state, parent, group, ..., threads.
                fields = file.read().rpartition(b")")[2].split()
                threads = 0 if fields[0] in b"ZX" else int(fields[17])
                yield _Process(int(name), int(fields[1]), int(fields[2]), threads)


def _resident_memory(pid: int) -> int:
    """Return the resident bytes of a process, shared ones included."""
    try:
        with open(f"/proc/{pid}/statm", "rb") as file:
            return int(file.read().split()[1]) * _PAGE
    except (OSError, IndexError):
        return 0


def _proportional_memory(pid: int) -> int:
    """Return the bytes of a process, in memory and swapped, with its share of shared ones."""
    try:
        with open(f"/proc/{pid}/smaps_rollup", "rb") as file:
            lines = [line.split() for line in file]
        return sum(int(line[1]) for line in lines if line[0] in (b"Pss:", b"SwapPss:")) * 1024
    except (OSError, IndexError):
        return _resident_memory(pid)


def _count_tasks() -> int:
    """Return the number of tasks on this machine."""
    try:
        with open("/proc/loadavg", "rb") as file:
            return int(file.read().split()[3].partition(b"/")[2])
    except FileNotFoundError:
        return 0


def _send_signal(pids: Iterable[int], number: int) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def _reap() -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def main() -> None:
    """Run the command in the arguments."""
    report, boxed = int(sys.argv[1]), sys.argv[2] == "boxed"
    memory, command = int(sys.argv[3]), sys.argv[4:]
    os.set_inheritable(report, False)
    _prctl(_SUBREAPER, 1)
    if sys.platform == "linux":
        _raise_priority()
    wake, waker = os.pipe()
    os.set_blocking(waker, False)
    signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    supervisor = Supervisor(command, sandboxed=boxed, memory=memory)
    os.write(report, f"{supervisor.child} ".encode())
    supervisor.watch(wake)
    supervisor.kill_all()
    os.write(report, f"{supervisor.code} {supervisor.stop_reason}".encode())


if __name__ == "__main__":
    main()
