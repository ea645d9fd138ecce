"""System calls that Python does not offer, and what this process shares with others.

Namespaces, mounts, Landlock, privileges, memory, the environment. Calls raise OSError if the kernel
refuses.
"""

from __future__ import annotations

import ctypes
import os
import re
import struct
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Any

NAMESPACES = 0x20000 | 0x4000000 | 0x8000000 | 0x10000000 | 0x20000000 | 0x40000000
"""Of mounts, host names, IPC, users, processes, network."""

RECURSIVE, BIND, PRIVATE, READ_ONLY, REMOUNT = 1 << 14, 1 << 12, 1 << 18, 1, 1 << 5
NO_SETUID, NO_DEVICES = 2, 4

_MAKE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_ASK_VERSION, _BELOW_PATH = 1, 1
_AT_FDCWD, _AT_RECURSIVE, _SYS_MOUNT_SETATTR = -100, 0x8000, 442
_DETACH = 2
_PDEATHSIG, _SET_SECCOMP, _CAPBSET_DROP, _SET_NO_NEW_PRIVS, _CAP_AMBIENT = 1, 22, 24, 38, 47
_CLEAR_ALL, _FILTER, _MAX_CAPABILITY = 4, 2, 63
_CAPABILITY_VERSION = 0x20080522

_READ_AND_WRITE = 3
_PRIVATE_FIXED_ANONYMOUS = 0x02 | 0x10 | 0x20
_MAP_FAILED = ctypes.c_void_p(-1).value

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
_libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


class _FilterProgram(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p)]


def unshare(flags: int) -> None:
    """Leave the namespaces of these kinds for new ones."""
    _check(_libc.unshare(flags), "unshare")


def mount(source: str, target: str, kind: str = "", flags: int = 0, options: str = "") -> None:
    """Mount `source` at `target`."""
    names = map(os.fsencode, (source, target, kind))
    _check(_libc.mount(*names, flags, os.fsencode(options)), target)


def make_read_only(target: str) -> None:
    """Make a mount and all below it read-only, without set-uid programs."""
    attributes = struct.pack("<QQQQ", READ_ONLY | NO_SETUID | NO_DEVICES, 0, 0, 0)  # set, and clear
    where = _AT_FDCWD, os.fsencode(target), _AT_RECURSIVE
    done = _libc.syscall(_SYS_MOUNT_SETATTR, *where, attributes, len(attributes))
    _check(done, target)


def detach(target: str) -> None:
    """Unmount `target` and all below it."""
    _check(_libc.umount2(os.fsencode(target), _DETACH), target)


def pivot_root(new: str, old: str) -> None:
    """Make the mount `new` the root, and put the root that was at `old`."""
    _check(_libc.pivot_root(os.fsencode(new), os.fsencode(old)), new)


def find_landlock_version() -> int:
    """Return the version of Landlock's interface."""
    version: int = _libc.syscall(_MAKE_RULESET, None, 0, _ASK_VERSION)
    _check(version, "Landlock")
    return version


def make_ruleset(files: int, tcp: int, scopes: int) -> int:
    """Return a new ruleset of Landlock that denies these rights."""
    rights = struct.pack("<QQQ", files, tcp, scopes)
    ruleset: int = _libc.syscall(_MAKE_RULESET, rights, len(rights), 0)
    _check(ruleset, "Landlock")
    return ruleset


def allow(ruleset: int, opened: int, rights: int) -> None:
    """Allow rights to an open file, or to all in an open folder."""
    rule = struct.pack("<Qi", rights, opened)
    _check(_libc.syscall(_ADD_RULE, ruleset, _BELOW_PATH, rule, 0), "Landlock")


def restrict_self(ruleset: int) -> None:
    """Put a ruleset in force for this thread, for good."""
    _check(_libc.syscall(_RESTRICT_SELF, ruleset, 0), "Landlock")
    os.close(ruleset)


def die_with_parent(signal_number: int) -> None:
    """Get a signal when the parent's thread ends."""
    _check(_libc.prctl(_PDEATHSIG, signal_number, 0, 0, 0), "prctl")


def drop_capabilities() -> None:
    """Give up all capabilities, for good."""
    for number in range(_MAX_CAPABILITY + 1):
        if _libc.prctl(_CAPBSET_DROP, number, 0, 0, 0) == -1:
            break  # the kernel has no more of them
    _libc.prctl(_CAP_AMBIENT, _CLEAR_ALL, 0, 0, 0)
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
    _check(_libc.capset(header, (ctypes.c_uint32 * 6)()), "capset")


def forbid_new_privileges() -> None:
    """Let no program that is started have more privileges."""
    _check(_libc.prctl(_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl")


def filter_calls(program: bytes) -> None:
    """Install a filter of system calls (seccomp)."""
    filled = _FilterProgram(len(program) // 8, program)
    _check(_libc.prctl(_SET_SECCOMP, _FILTER, ctypes.byref(filled), 0, 0), "seccomp")


def make_writable(address: int, length: int) -> None:
    """Make a mapping writable."""
    _check(_libc.mprotect(address, length, _READ_AND_WRITE), "mprotect")


def replace_mapping(address: int, length: int) -> None:
    """Put empty private memory in the place of a mapping."""
    found = _libc.mmap(address, length, _READ_AND_WRITE, _PRIVATE_FIXED_ANONYMOUS, -1, 0)
    _check(-1 if found == _MAP_FAILED else 0, "mmap")


def _check(result: int, what: str) -> None:
    if result == -1:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)


_MAPS = Path("/proc/self/maps")
_SHARED = re.compile(r"^(\w+)-(\w+) [r-]([w-])[x-]s \S+ \S+ \S+ *(.*)$", re.MULTILINE)
_LOCK, _INDEX = "/dev/shm/sem.", "-shm"  # noqa: S108
"""Shared memory without data of the user's: a progress bar's lock, the index of a SQLite file."""
_LARGEST_COPY = 1 << 24
_ENVIRONMENT = (50, 51)  # fields of /proc/self/stat: where the first environment lies


def read_mappings() -> str:
    """Return the mappings of this process, one on a line."""
    return _MAPS.read_text(errors="surrogateescape")


def describe_shared_memory() -> str | None:
    """Return why this process's memory cannot be copied, or None."""
    for _, _, writable, path in _SHARED.findall(read_mappings()):
        name = path.removesuffix(" (deleted)") or "without a name"
        if writable == "w" and not (name.startswith(_LOCK) or name.endswith(_INDEX)):
            return f"memory is shared with other processes ({Path(name).name})"
    return None


def leave_shared_memory() -> None:
    """Replace all shared memory that could be written by a private copy.

    Raises OSError if that is too much.
    """
    for first, last, _, _ in _SHARED.findall(read_mappings()):
        start, length = int(first, 16), int(last, 16) - int(first, 16)
        try:
            make_writable(start, length)
        except PermissionError:
            continue  # mapped from a file that was opened for reading
        if length > _LARGEST_COPY:
            raise OSError(f"{length:,} bytes of memory are shared with other processes")
        content = ctypes.string_at(start, length)
        replace_mapping(start, length)
        ctypes.memmove(start, content, length)


def clean_environment(kept: Collection[str]) -> None:
    """Remove all variables but those `kept`, from where processes get them as well."""
    for name in list(os.environ):
        if name not in kept:
            del os.environ[name]
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    start, end = (int(fields[number - 3]) for number in _ENVIRONMENT)
    ours = dict(os.environ)
    if start and end > start:
        ctypes.memset(start, 0, end - start)
    for name, value in ours.items():  # some of them lay there
        os.environ[name] = value


def read_page_flags(first: int, last: int) -> bytes:
    """Return the highest byte of each page's entry in /proc/self/pagemap. Raises OSError."""
    pagemap = os.open("/proc/self/pagemap", os.O_RDONLY)
    try:
        entries = os.pread(pagemap, 8 * (last - first), 8 * first)
    finally:
        os.close(pagemap)
    if len(entries) < 8 * (last - first):
        raise OSError("the system does not tell which memory is in use")
    return entries[7::8]


def drop_signing_keys() -> None:
    """Let this process sign and send nothing any more: it is a copy of the kernel.

    Whoever has the key can speak for the kernel. A message would be printed as a warning instead.
    """
    app: Any = getattr(sys.modules.get("ipykernel.kernelapp"), "IPKernelApp", None)
    if app is not None and app.initialized():
        session = app.instance().session
        session.auth, session.key, session.send = None, b"", lambda *_, **__: None
