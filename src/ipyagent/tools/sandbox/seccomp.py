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
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCHITECTURE, _FIRST, _SECOND = 0, 4, 16, 24
"""Offsets of a call's number, architecture and the low halves of its arguments."""
_ALLOW = 0x7FFF0000
_DENY = 0x00050000 | errno.EPERM
_ABSENT = (
    0x00050000 | errno.ENOSYS
)  # the flags of clone3 are in memory, out of reach; libc has clone

_NAMESPACES = 0x7E020000  # the CLONE_NEW… flags
_NEW_TIME = 0x80  # of unshare alone; in clone it belongs to the signal
_THREAD = 0x10000  # CLONE_THREAD
_FAMILIES = (1, 2, 10, 16)  # of sockets: AF_UNIX, AF_INET, AF_INET6, AF_NETLINK
_TYPE_INTO_TERMINAL, _PASTE_INTO_TERMINAL = 0x5412, 0x541C  # TIOCSTI, TIOCLINUX

_SAME_EVERYWHERE = {
    "io_uring_setup": 425,
    "io_uring_enter": 426,
    "io_uring_register": 427,
    "open_tree": 428,
    "move_mount": 429,
    "fsopen": 430,
    "fsconfig": 431,
    "fsmount": 432,
    "fspick": 433,
    "pidfd_getfd": 438,
    "mount_setattr": 442,
}


@dataclass(frozen=True)
class _Architecture:
    """An architecture: its number in the kernel, and the numbers of its calls."""

    audit: int
    denied: Mapping[str, int]
    unshare: int
    clone: int
    ioctl: int
    socket: int
    starts: tuple[int, ...]
    """Calls that start a process or a program."""
    clone3: int = 435
    beyond: int = field(default=0)
    """Numbers from here on are another interface to the same calls."""


_ARCHITECTURES = {
    "x86_64": _Architecture(
        audit=0xC000003E,
        denied={
            **_SAME_EVERYWHERE,
            "ptrace": 101,
            "syslog": 103,
            "pivot_root": 155,
            "acct": 163,
            "settimeofday": 164,
            "mount": 165,
            "umount2": 166,
            "swapon": 167,
            "swapoff": 168,
            "reboot": 169,
            "iopl": 172,
            "ioperm": 173,
            "init_module": 175,
            "delete_module": 176,
            "quotactl": 179,
            "clock_settime": 227,
            "kexec_load": 246,
            "add_key": 248,
            "request_key": 249,
            "keyctl": 250,
            "perf_event_open": 298,
            "fanotify_init": 300,
            "open_by_handle_at": 304,
            "setns": 308,
            "process_vm_readv": 310,
            "process_vm_writev": 311,
            "kcmp": 312,
            "finit_module": 313,
            "kexec_file_load": 320,
            "bpf": 321,
            "userfaultfd": 323,
        },
        unshare=272,
        clone=56,
        ioctl=16,
        socket=41,
        starts=(57, 58, 59, 322),
        beyond=0x40000000,
    ),
    "aarch64": _Architecture(
        audit=0xC00000B7,
        denied={
            **_SAME_EVERYWHERE,
            "umount2": 39,
            "mount": 40,
            "pivot_root": 41,
            "quotactl": 60,
            "acct": 89,
            "kexec_load": 104,
            "init_module": 105,
            "delete_module": 106,
            "clock_settime": 112,
            "syslog": 116,
            "ptrace": 117,
            "reboot": 142,
            "settimeofday": 170,
            "add_key": 217,
            "request_key": 218,
            "keyctl": 219,
            "swapon": 224,
            "swapoff": 225,
            "perf_event_open": 241,
            "fanotify_init": 262,
            "open_by_handle_at": 265,
            "setns": 268,
            "process_vm_readv": 270,
            "process_vm_writev": 271,
            "kcmp": 272,
            "finit_module": 273,
            "bpf": 280,
            "userfaultfd": 282,
            "kexec_file_load": 294,
        },
        unshare=97,
        clone=220,
        ioctl=29,
        socket=198,
        starts=(221, 281),
    ),
}


def build_filter(machine: str = "", *, processes: bool = True) -> bytes:
    """Return the filter for this machine; empty if there is none for it.

    Without `processes`, no process can be started either, only threads.
    """
    known = _ARCHITECTURES.get(machine or platform.machine())
    if known is None or sys.byteorder != "little":
        return b""
    return b"".join(_instructions(known, processes=processes))


def _instructions(machine: _Architecture, *, processes: bool) -> Iterator[bytes]:
    yield _encode_instruction(_LOAD, _ARCHITECTURE)
    yield from (
        _encode_instruction(_EQUAL, machine.audit, yes=1),
        _encode_instruction(_RETURN, _DENY),
    )
    yield _encode_instruction(_LOAD, _NUMBER)
    if machine.beyond:
        yield from (
            _encode_instruction(_AT_LEAST, machine.beyond, no=1),
            _encode_instruction(_RETURN, _DENY),
        )
    for number in machine.denied.values():
        yield from (_encode_instruction(_EQUAL, number, no=1), _encode_instruction(_RETURN, _DENY))
    yield from (
        _encode_instruction(_EQUAL, machine.clone3, no=1),
        _encode_instruction(_RETURN, _ABSENT),
    )
    yield from _deny_flags(machine.unshare, _NAMESPACES | _NEW_TIME)
    if processes:
        yield from _deny_flags(machine.clone, _NAMESPACES)
    else:
        yield from _deny_processes(machine)
    yield _encode_instruction(_EQUAL, machine.ioctl, no=5)
    yield _encode_instruction(_LOAD, _SECOND)
    yield _encode_instruction(_EQUAL, _TYPE_INTO_TERMINAL, yes=1)
    yield from (
        _encode_instruction(_EQUAL, _PASTE_INTO_TERMINAL, no=1),
        _encode_instruction(_RETURN, _DENY),
    )
    yield from (_encode_instruction(_RETURN, _ALLOW), _encode_instruction(_RETURN, _ALLOW))


def _deny_flags(number: int, flags: int) -> Iterator[bytes]:
    """Yield instructions that deny a call whose first argument has one of the flags."""
    yield _encode_instruction(_EQUAL, number, no=4)
    yield _encode_instruction(_LOAD, _FIRST)
    yield from (_encode_instruction(_ANY_BIT, flags, no=1), _encode_instruction(_RETURN, _DENY))
    yield _encode_instruction(_RETURN, _ALLOW)


def _deny_processes(machine: _Architecture) -> Iterator[bytes]:
    """Yield instructions that deny new processes and programs, and sockets to another machine.

    Sockets of a virtual machine to its host (AF_VSOCK) belong to no network namespace.
    """
    for number in machine.starts:
        yield from (_encode_instruction(_EQUAL, number, no=1), _encode_instruction(_RETURN, _DENY))
    yield _encode_instruction(_EQUAL, machine.clone, no=6)
    yield _encode_instruction(_LOAD, _FIRST)
    yield from (_encode_instruction(_ANY_BIT, _THREAD, yes=1), _encode_instruction(_RETURN, _DENY))
    yield _encode_instruction(_ANY_BIT, _NAMESPACES, no=1)
    yield from (_encode_instruction(_RETURN, _DENY), _encode_instruction(_RETURN, _ALLOW))
    yield _encode_instruction(_EQUAL, machine.socket, no=len(_FAMILIES) + 3)
    yield _encode_instruction(_LOAD, _FIRST)
    for left, family in enumerate(_FAMILIES, 1 - len(_FAMILIES)):
        yield _encode_instruction(_EQUAL, family, yes=1 - left)
    yield from (_encode_instruction(_RETURN, _DENY), _encode_instruction(_RETURN, _ALLOW))


def _encode_instruction(code: int, value: int, yes: int = 0, no: int = 0) -> bytes:
    """Return one instruction; `yes` and `no` are how many are skipped after a comparison."""
    return struct.pack("<HBBI", code, yes, no, value)
