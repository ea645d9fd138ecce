"""A seccomp filter of the system calls that a sandboxed command may not make.

The sandbox takes away files, network and capabilities. The filter also denies interfaces of the
Linux kernel that scripts do not need: other processes' memory, mounts, namespaces, loading code,
and interfaces in which faults are often found. A denied call fails with EPERM.
"""

from __future__ import annotations

import errno
import platform
import struct
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

_LOAD, _EQUAL, _AT_LEAST, _AND, _RETURN = 0x20, 0x15, 0x35, 0x54, 0x06
_NUMBER, _ARCHITECTURE, _FIRST, _SECOND = 0, 4, 16, 24
"""Offsets of a call's number, architecture and the low halves of its arguments."""
_ALLOW = 0x7FFF0000
_DENY = 0x00050000 | errno.EPERM
# The flags of clone3 are in memory, out of reach; libc has clone.
_ABSENT = 0x00050000 | errno.ENOSYS

_ALL = 0xFFFFFFFF
_NAMESPACES = 0x7E020000  # the CLONE_NEW… flags
_NEW_TIME = 0x80  # of unshare alone; in clone it belongs to the signal
_THREAD = 0x10000  # CLONE_THREAD
_FAMILIES = (2, 10, 16)  # of sockets: AF_INET, AF_INET6, AF_NETLINK
_KIND, _CONNECTED = 15, (1, 5)  # of sockets: SOCK_STREAM, SOCK_SEQPACKET
_TYPE_INTO_TERMINAL, _PASTE_INTO_TERMINAL = 0x5412, 0x541C  # TIOCSTI, TIOCLINUX
_ASKING = (0x5401, 0x802C542A, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)
"""Requests to open files that change none: TCGETS, TCGETS2, TIOCGWINSZ, FIONREAD, FIONBIO, FIONCLEX
and FIOCLEX. File systems have others, which need no right to write."""
_OF_DESCRIPTOR = (0, 1, 2, 3, 4, 1030, 1031, 1032, 1033, 1034)
"""Commands of fcntl for a descriptor, a pipe or memory: to copy it, its flags, its size, its seals.
Others send signals, or leave on a file a lease or a hint, which need no right to write."""
_LOCKS = (5, 6, 7, 36, 37, 38)  # F_GETLK, F_SETLK, F_SETLKW, and those of open files
_EXCLUSIVE = 2  # LOCK_EX
_SIGNAL_OF_PARENT = 1  # PR_SET_PDEATHSIG
_UNKNOWN = 468
"""Calls from here on are newer than this table."""

_DENIED = """
    ptrace 101 117, syslog 103 116, pivot_root 155 41, acct 163 89, settimeofday 164 170,
    mount 165 40, umount2 166 39, swapon 167 224, swapoff 168 225, reboot 169 142, iopl 172 -,
    ioperm 173 -, init_module 175 105, delete_module 176 106, quotactl 179 60,
    clock_settime 227 112, kexec_load 246 104, add_key 248 217, request_key 249 218,
    keyctl 250 219, perf_event_open 298 241, fanotify_init 300 262, open_by_handle_at 304 265,
    setns 308 268, process_vm_readv 310 270, process_vm_writev 311 271, kcmp 312 272,
    finit_module 313 273, kexec_file_load 320 294, bpf 321 280, userfaultfd 323 282,
    io_uring_setup 425, io_uring_enter 426, io_uring_register 427, open_tree 428, move_mount 429,
    fsopen 430, fsconfig 431, fsmount 432, fspick 433, pidfd_getfd 438, mount_setattr 442
"""
"""Names of calls, with their numbers on x86_64 and aarch64, or that on both."""
_BEYOND_ONE = """
    fork 57 -, vfork 58 -, execve 59 221, execveat 322 281,
    memfd_create 319 279, memfd_secret 447, shmget 29 194
"""
"""Calls that start processes, and that take memory which no limit of one counts."""
_SHARED = """
    chmod 90 -, fchmod 91 52, fchmodat 268 53, fchmodat2 452, chown 92 -, fchown 93 55,
    lchown 94 -, fchownat 260 54, utime 132 -, utimes 235 -, futimesat 261 -, utimensat 280 88,
    setxattr 188 5, lsetxattr 189 6, fsetxattr 190 7, setxattrat 463, removexattr 197 14,
    lremovexattr 198 15, fremovexattr 199 16, removexattrat 466, mknod 133 -, mknodat 259 33,
    getxattr 191 8, lgetxattr 192 9, fgetxattr 193 10, getxattrat 464, listxattr 194 11,
    llistxattr 195 12, flistxattr 196 13, listxattrat 465,
    inotify_add_watch 254 27, open_tree_attr 467, statmount 457, listmount 458,
    socket 41 198, bind 49 200, connect 42 203, shmat 30 196, shmctl 31 195,
    semget 64 190, semop 65 193, semtimedop 220 192, semctl 66 191, msgget 68 186, msgsnd 69 189,
    msgrcv 70 188, msgctl 71 187, mq_open 240 180, mq_unlink 241 181,
    kill 62 129, tkill 200 130, tgkill 234 131, rt_sigqueueinfo 129 138, rt_tgsigqueueinfo 297 240,
    pidfd_open 434, pidfd_send_signal 424, process_madvise 440, process_mrelease 448,
    setpriority 141 140, ioprio_set 251 30, sched_setparam 142 118, sched_setscheduler 144 119,
    sched_setattr 314 274, sched_setaffinity 203 122, migrate_pages 256 238, move_pages 279 239,
    personality 135 92
"""
"""Calls that reach files, processes and sockets which namespaces would keep away; Landlock does
not restrict them, or only since recently."""
_CHECKED = """
    unshare 272 97, clone 56 220, socket 41 198, ioctl 16 29, prlimit64 302 261, socketpair 53 199,
    fcntl 72 25, prctl 157 167, flock 73 32
"""
_CLONE3 = 435


@dataclass(frozen=True)
class _Rule:
    """A rule for one call: which values the bits `mask` of an argument may, or must not, have."""

    call: str
    argument: int
    mask: int
    values: tuple[int, ...]
    allowed: bool = True


@dataclass(frozen=True)
class _Architecture:
    """An architecture: its number in the kernel, and its column in the tables above."""

    audit: int
    column: int
    beyond: int
    """Numbers from here on are another interface to the same calls."""

    def numbers(self, table: str) -> dict[str, int]:
        """Return the numbers of the calls in a table that there are here."""
        rows = (each.split() for each in table.split(","))
        found = {name: columns[min(self.column, len(columns) - 1)] for name, *columns in rows}
        return {name: int(number) for name, number in found.items() if number != "-"}


_ARCHITECTURES = {
    "x86_64": _Architecture(0xC000003E, 0, beyond=0x40000000),
    "aarch64": _Architecture(0xC00000B7, 1, beyond=_ALL),
}


def build_filter(machine: str = "", *, processes: bool = True, namespaces: bool = True) -> bytes:
    """Return the filter for this machine; empty if there is none for it.

    Without `processes`, no process can be started either, only threads. Without `namespaces`, what
    these would keep away is denied as well.
    """
    known = _ARCHITECTURES.get(machine or platform.machine())
    if known is None or sys.byteorder != "little":
        return b""
    denied = (
        _DENIED + ("" if processes else f",{_BEYOND_ONE}") + ("" if namespaces else f",{_SHARED}")
    )
    rules = _list_rules(processes=processes, namespaces=namespaces)
    beyond = known.beyond if namespaces else _UNKNOWN
    return b"".join(_instructions(known, known.numbers(denied).values(), rules, beyond))


def _list_rules(*, processes: bool, namespaces: bool) -> Iterator[_Rule]:
    yield _Rule("unshare", _FIRST, _NAMESPACES | _NEW_TIME, (0,))
    if processes:
        yield _Rule("clone", _FIRST, _NAMESPACES, (0,))
    else:
        yield _Rule("clone", _FIRST, _NAMESPACES | _THREAD, (_THREAD,))
        yield _Rule("prctl", _FIRST, _ALL, (_SIGNAL_OF_PARENT,), allowed=False)
        # Sockets of a virtual machine to its host (AF_VSOCK) belong to no network namespace, nor do
        # those that have a place among files (AF_UNIX): one in a readable folder can be reached.
        yield _Rule("socket", _FIRST, _ALL, _FAMILIES)
        yield _Rule("socketpair", _SECOND, _KIND, _CONNECTED)  # others can send anywhere
        yield _Rule("fcntl", _SECOND, _ALL, _OF_DESCRIPTOR + _LOCKS)
    if namespaces:
        terminal = (_TYPE_INTO_TERMINAL, _PASTE_INTO_TERMINAL)
        yield _Rule("ioctl", _SECOND, _ALL, terminal, allowed=False)
    else:
        yield _Rule("ioctl", _SECOND, _ALL, _ASKING)
        yield _Rule("prlimit64", _FIRST, _ALL, (0,))  # of this process
        yield _Rule("flock", _SECOND, _EXCLUSIVE, (0,))


def _instructions(
    machine: _Architecture, denied: Iterable[int], rules: Iterable[_Rule], beyond: int
) -> Iterator[bytes]:
    yield _encode_instruction(_LOAD, _ARCHITECTURE)
    yield _encode_instruction(_EQUAL, machine.audit, yes=1)
    yield _encode_instruction(_RETURN, _DENY)
    yield _encode_instruction(_LOAD, _NUMBER)
    yield _encode_instruction(_AT_LEAST, beyond, no=1)
    yield _encode_instruction(_RETURN, _DENY)
    for number in denied:
        yield _encode_instruction(_EQUAL, number, no=1)
        yield _encode_instruction(_RETURN, _DENY)
    yield _encode_instruction(_EQUAL, _CLONE3, no=1)
    yield _encode_instruction(_RETURN, _ABSENT)
    numbers = machine.numbers(_CHECKED)
    for rule in rules:
        yield _encode_instruction(_EQUAL, numbers[rule.call], no=len(rule.values) + 4)
        yield _encode_instruction(_LOAD, rule.argument)
        yield _encode_instruction(_AND, rule.mask)
        for left, value in zip(range(len(rule.values), 0, -1), rule.values, strict=True):
            yield _encode_instruction(_EQUAL, value, yes=left)
        yield _encode_instruction(_RETURN, _DENY if rule.allowed else _ALLOW)
        yield _encode_instruction(_RETURN, _ALLOW if rule.allowed else _DENY)
    yield _encode_instruction(_RETURN, _ALLOW)


def _encode_instruction(code: int, value: int, yes: int = 0, no: int = 0) -> bytes:
    """Return one instruction; `yes` and `no` are how many are skipped after a comparison."""
    return struct.pack("<HBBI", code, yes, no, value)
