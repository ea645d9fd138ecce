"""The isolation of a rehearsal: descriptors, namespaces, files, memory, privileges.

It takes two processes. The first one leaves the namespaces and waits; the second is the first
process of the new ones, and can start no other. Where there are none, Landlock and a stricter
filter of system calls take their place.
"""

from __future__ import annotations

import contextlib
import os
import resource
import select
import signal
import sys
import tempfile
from collections.abc import Collection, Sequence
from pathlib import Path

from ipyagent.kernel.rehearsal import memory, system_calls
from ipyagent.kernel.rehearsal.confinement import Confinement, Limits, Way
from ipyagent.kernel.rehearsal.landlock import restrict_files
from ipyagent.kernel.rehearsal.mounts import CACHE, TEMPORARY, build_root

_END = {signal.SIGTERM}
BY_SIGNAL = 128
"""Is added to the number of a signal in a process's status, as shells do."""


def leave_kernel(kernel: int, report: int, way: Way) -> None:
    """Leave what the first process shares with the kernel: descriptors, signals, namespaces.

    It ends when the kernel does. SIGTERM waits until there is a second process to be ended.
    """
    system_calls.die_with_parent(signal.SIGKILL)
    if os.getppid() != kernel:
        os._exit(1)
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD, signal.SIGALRM):
        signal.signal(number, signal.SIG_DFL)
    os.setsid()  # an interrupt of the terminal is for the kernel
    replace_descriptors({report})
    for stop in (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF):
        signal.setitimer(stop, 0)
    if way == "namespaces":
        _leave_namespaces()
    signal.pthread_sigmask(signal.SIG_BLOCK, _END)


def _leave_namespaces() -> None:
    user, group = os.geteuid(), os.getegid()
    try:
        system_calls.unshare(system_calls.NAMESPACES)  # of processes, that of the next child
    except OSError as error:
        raise OSError(f"users may not make namespaces here ({error.strerror})") from None
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1")


def replace_descriptors(kept: Collection[int]) -> None:
    """Put the null device in the place of all descriptors but `kept`.

    Their numbers stay taken: an object that holds one fails, instead of meeting another file.
    """
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for number in sorted(int(name) for name in os.listdir("/proc/self/fd")):  # noqa: PTH208
        if number != null and number not in kept:
            os.dup2(null, number, inheritable=number <= 2)
    os.close(null)


def wait_in_first(second: int) -> int:
    """Wait for the second process, which SIGTERM ends; it must be waited for by its parent.

    Return 0, or BY_SIGNAL and the number of the signal by which it died.
    """
    handle = os.pidfd_open(second)

    def end_second(*_: object) -> None:
        with contextlib.suppress(OSError):
            signal.pidfd_send_signal(handle, signal.SIGKILL)

    signal.signal(signal.SIGTERM, end_second)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _END)
    _, status = os.waitpid(second, 0)
    return BY_SIGNAL + os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0


def isolate(
    confinement: Confinement, limits: Limits, life: int, numeric: Sequence[memory.Stretch] = ()
) -> None:
    """Cut the second process off from files, secrets and privileges. Raises OSError.

    It ends with the first process, whose end of the pipe `life` tells if it has ended already.
    `numeric` is memory without any text.
    """
    system_calls.die_with_parent(signal.SIGKILL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _END)
    poll = select.poll()
    poll.register(life, 0)
    if poll.poll(0):
        os._exit(1)
    os.close(life)
    if not confinement.call_filter:
        raise OSError("there is no filter of system calls for this machine")
    Path("/proc/self/oom_score_adj").write_text("1000")
    memory.leave_shared_memory()
    memory.clean_environment(confinement.variables)
    memory.wipe(confinement.secrets, numeric)
    if confinement.way == "namespaces":
        build_root(confinement, limits)
        own = {"TMPDIR": TEMPORARY, "XDG_CACHE_HOME": CACHE, "MPLCONFIGDIR": f"{CACHE}/matplotlib"}
        os.environ.update(own)
        tempfile.tempdir = TEMPORARY
    _limit_resources(limits, confinement.way)
    system_calls.drop_capabilities()
    system_calls.forbid_new_privileges()
    if confinement.way == "Landlock":
        restrict_files(confinement)
    system_calls.filter_calls(confinement.call_filter)


def _limit_resources(limits: Limits, way: Way) -> None:
    statm = Path("/proc/self/statm")
    pages = int(statm.read_text().split()[0]) if statm.exists() else 0
    space = pages * resource.getpagesize() + limits.memory if pages else resource.RLIM_INFINITY
    most = {
        resource.RLIMIT_AS: space,
        resource.RLIMIT_CPU: int(limits.seconds) + 1,
        resource.RLIMIT_FSIZE: limits.files,
        resource.RLIMIT_CORE: 0,
    }
    if way == "namespaces":  # else the same user's processes in other containers count, too
        most[resource.RLIMIT_NPROC] = 64
    for kind, value in most.items():
        _, hard = resource.getrlimit(kind)
        if hard != resource.RLIM_INFINITY:
            value = hard if value == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (value, value))
    sys.setrecursionlimit(min(sys.getrecursionlimit(), 10_000))
