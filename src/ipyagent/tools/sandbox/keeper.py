"""The program that runs one command and sees to it that nothing of it is left.

It is started as `python -I -S -c SOURCE REPORT BOXED MEMORY COMMAND...` and knows the standard
library only. Standard input is its lifeline: `t` ends the command politely, the end of it (the
kernel may just have died) at once. All that the command started, daemons too, is found again,
because orphans are given to the keeper. REPORT is the descriptor that is told the command's process
id, then the exit code and why the command was ended, if it was; BOXED says that the command is
bubblewrap, which dies of SIGTERM; MEMORY is how many bytes the command and all that it started may
use together.
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
from collections.abc import Iterable

MAX_TASKS = 1_024
"""Processes and threads that a command may have."""

_GB = 1024**3
_PAGE = os.sysconf("SC_PAGE_SIZE")
_FILE_SIZE = 4 * _GB
_OPEN_FILES = 4_096
_GRACE = 1.0  # seconds between SIGTERM and SIGKILL
_PATIENCE = 5.0  # seconds until what does not die is left alone: a stuck disk, another user's
_BURIED = 100  # orphans at once: a fork bomb makes them faster than they are buried
_NICE = 10  # for the command: its keeper has to come up against a fork bomb
_LOOK = 0.02  # seconds between two looks at the number of tasks
_WEIGH = 0.1  # seconds between two looks at the memory: it is quicker filled than many are started
_PARENT_DEATH = 1  # PR_SET_PDEATHSIG
_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER


class Keeper:
    """One command and its descendants."""

    def __init__(self, command: list[str], *, boxed: bool, memory: int) -> None:
        self.boxed = boxed
        self.memory = memory
        self.code: int | None = None
        self.why = ""
        self._until = float("inf")
        self._weighed = time.monotonic()
        self._before = _tasks_here()
        self.child = _start(command)

    def watch(self, wake: int) -> None:
        """Return when the command has ended, or is to be ended at once."""
        while not self._has_ended():
            ready, _, _ = select.select([0, wake], [], [], _LOOK)
            if wake in ready:
                os.read(wake, 4096)
            if 0 in ready:
                if os.read(0, 1) != b"t":
                    return
                self._ask_to_end()
            if time.monotonic() > self._until:
                return
            # To count exactly is dear, so it is done only where it may matter.
            many = _tasks_here() - self._before > MAX_TASKS
            if many and sum(max(1, threads) for threads in self._family().values()) > MAX_TASKS:
                self.why = "tasks"
                return
            if self._is_too_large():
                self.why = "memory"
                return

    def _is_too_large(self) -> bool:
        """Whether the command and its descendants use more memory together than they may."""
        now = time.monotonic()
        if now - self._weighed < _WEIGH:
            return False
        family = self._family()
        too_large = sum(map(_resident, family)) > self.memory
        # What forks share is counted once only where that is worth the time it takes.
        too_large = too_large and sum(map(_share, family)) > self.memory
        self._weighed = time.monotonic()
        return too_large

    def end(self) -> None:
        """Kill what is left."""
        until = time.monotonic() + _PATIENCE
        # The whole group in one call: a fork bomb is quicker than any loop. The command is not
        # reaped before that, so the numbers are still its own.
        _kill([-self.child], signal.SIGKILL)
        while not self._has_ended() and time.monotonic() < until:
            _kill([-self.child, self.child], signal.SIGKILL)
            time.sleep(0.001)
        pid, status = os.waitpid(self.child, os.WNOHANG)
        self.code = os.waitstatus_to_exitcode(status) if pid else None
        while time.monotonic() < until:
            left = [pid for pid, threads in self._family().items() if threads]
            if not left:
                return
            _kill(left, signal.SIGKILL)
            _reap()
            time.sleep(0.002)

    def _ask_to_end(self) -> None:
        self._until = time.monotonic() + _GRACE
        _kill({*self._family()} - ({self.child} if self.boxed else set()), signal.SIGTERM)

    def _has_ended(self) -> bool:
        """Whether the command has; other orphans are buried on the way."""
        for _ in range(_BURIED):
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

    def _family(self) -> dict[int, int]:
        """The descendants, and how many threads each has: a zombie none."""
        known = _processes()
        children: dict[int, list[int]] = {}
        for pid, (parent, _) in known.items():
            children.setdefault(parent, []).append(pid)
        found: dict[int, int] = {}
        waiting = [os.getpid()]
        while waiting:
            for pid in children.get(waiting.pop(), ()):
                found[pid] = known[pid][1]
                waiting.append(pid)
        return found


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _hurry() -> None:
    """Run before all else that wants to, where that is permitted, which it is to root."""
    policy = os.SCHED_RR | os.SCHED_RESET_ON_FORK
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, policy, os.sched_param(1))


def _start(command: list[str]) -> int:
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
        for what, most in _limits().items():
            hard = resource.getrlimit(what)[1]
            most = most if hard == resource.RLIM_INFINITY else min(most, hard)
            resource.setrlimit(what, (most, most))
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.execvp(command[0], command)  # noqa: S606
    except OSError as error:
        os.write(2, f"{command[0]}: {error.strerror}\n".encode())
    os._exit(127)


def _limits() -> dict[int, int]:
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    tasks = _tasks_here()
    return {
        # It counts all that the user has, so it is but the last resort; root has none.
        **({resource.RLIMIT_NPROC: tasks + 2 * MAX_TASKS} if tasks else {}),
        resource.RLIMIT_AS: max(4 * _GB, memory // 2),
        resource.RLIMIT_FSIZE: _FILE_SIZE,
        resource.RLIMIT_NOFILE: _OPEN_FILES,
        resource.RLIMIT_CORE: 0,
    }


def _processes() -> dict[int, tuple[int, int]]:
    """The parent and the number of threads of each process; a zombie has none."""
    found: dict[int, tuple[int, int]] = {}
    with contextlib.suppress(FileNotFoundError):  # a system without /proc
        for name in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:
                # After the name, which may hold anything: state, parent, ..., threads.
                fields = file.read().rpartition(b")")[2].split()
                threads = 0 if fields[0] in b"ZX" else int(fields[17])
                found[int(name)] = int(fields[1]), threads
    return found


def _resident(pid: int) -> int:
    """Return the bytes in memory that a process sees, shared ones included."""
    try:
        with open(f"/proc/{pid}/statm", "rb") as file:
            return int(file.read().split()[1]) * _PAGE
    except (OSError, IndexError):
        return 0


def _share(pid: int) -> int:
    """Return the bytes that a process uses, in memory and swapped, with its part of shared ones."""
    try:
        with open(f"/proc/{pid}/smaps_rollup", "rb") as file:
            lines = [line.split() for line in file]
        return sum(int(line[1]) for line in lines if line[0] in (b"Pss:", b"SwapPss:")) * 1024
    except (OSError, IndexError):
        return _resident(pid)


def _tasks_here() -> int:
    """How many tasks this machine has."""
    try:
        with open("/proc/loadavg", "rb") as file:
            return int(file.read().split()[3].partition(b"/")[2])
    except FileNotFoundError:
        return 0


def _kill(pids: Iterable[int], number: int) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def _reap() -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def main() -> None:
    """Run the command that the arguments tell."""
    report, boxed = int(sys.argv[1]), sys.argv[2] == "boxed"
    memory, command = int(sys.argv[3]), sys.argv[4:]
    os.set_inheritable(report, False)
    _prctl(_SUBREAPER, 1)
    if sys.platform == "linux":
        _hurry()
    wake, waker = os.pipe()
    os.set_blocking(waker, False)
    signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    keeper = Keeper(command, boxed=boxed, memory=memory)
    os.write(report, f"{keeper.child} ".encode())
    keeper.watch(wake)
    keeper.end()
    os.write(report, f"{keeper.code} {keeper.why}".encode())


if __name__ == "__main__":
    main()
