"""Open files beneath a directory without following links, in two ways.

A path that is checked and then opened can be swapped in between. Here nothing is checked
beforehand: the Linux kernel itself refuses to leave the directory while it opens.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import sys
from collections.abc import Callable

Opener = Callable[[int, str, int, int], int]
"""(directory fd, path beneath it, flags, mode) -> fd. Paths have no `..` and no leading `/`."""

_SYS_OPENAT2 = 437  # the same number on every architecture that Python runs on
_RESOLVE = 0x02 | 0x04 | 0x08  # NO_MAGICLINKS | NO_SYMLINKS | BENEATH
_RENAME_EXCHANGE = 2

# Kernel interfaces that look like files: proc, sysfs, debugfs, tracefs, securityfs, configfs,
# cgroup, cgroup2, devpts, bpf, efivarfs.
_PSEUDO: tuple[int, ...] = (0x9FA0, 0x62656572, 0x64626720, 0x74726163, 0x73636673, 0x62656570)
_PSEUDO += (0x27E0EB, 0x63677270, 0x1CD1, 0xCAFE4A11, 0xDE5E81E4)

_libc = ctypes.CDLL(None, use_errno=True)


class _OpenHow(ctypes.Structure):
    _fields_ = (
        ("flags", ctypes.c_uint64),
        ("mode", ctypes.c_uint64),
        ("resolve", ctypes.c_uint64),
    )


def choose_opener(folder: int) -> Opener:
    """Return `open_with_openat2` if the system (and its seccomp filter) has it, else the other."""
    if sys.platform != "linux":
        return open_by_walking
    try:
        os.close(open_with_openat2(folder, ".", os.O_RDONLY | os.O_DIRECTORY))
    except OSError:
        return open_by_walking
    return open_with_openat2


def open_with_openat2(folder: int, path: str, flags: int, mode: int = 0) -> int:
    """Open by one system call; the system refuses links and whatever leaves the directory."""
    how = _OpenHow(flags | os.O_CLOEXEC, mode, _RESOLVE)
    fd = _libc.syscall(
        ctypes.c_long(_SYS_OPENAT2),
        ctypes.c_int(folder),
        ctypes.c_char_p(os.fsencode(path)),
        ctypes.byref(how),
        ctypes.c_size_t(ctypes.sizeof(how)),
    )
    if fd < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return int(fd)


def open_by_walking(folder: int, path: str, flags: int, mode: int = 0) -> int:
    """Open each component from the descriptor of the one before, none through a link."""
    *folders, name = path.split("/")
    here = os.dup(folder)
    try:
        for each in folders:
            below = _open_component(here, each, os.O_RDONLY | os.O_DIRECTORY, 0)
            os.close(here)
            here = below
        return _open_component(here, name, flags, mode)
    finally:
        os.close(here)


def _open_component(folder: int, name: str, flags: int, mode: int) -> int:
    try:
        return os.open(name, flags | os.O_NOFOLLOW, mode, dir_fd=folder)
    except NotADirectoryError:
        # With O_DIRECTORY a link fails as "not a directory"; name the link, as openat2 does.
        if stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP)) from None
        raise


def is_pseudo_file(fd: int) -> bool:
    """Return whether the file lives in /proc, /sys or the like, where it has no real size."""
    if sys.platform != "linux":
        return False
    buffer = ctypes.create_string_buffer(256)
    if _libc.fstatfs(fd, buffer) != 0:
        return False
    return ctypes.c_long.from_buffer(buffer).value & 0xFFFFFFFF in _PSEUDO


def exchange_files(folder: int, one: str, other: str) -> bool:
    """Exchange two files of a directory atomically; return False if that is not possible."""
    renameat2 = getattr(_libc, "renameat2", None)
    if renameat2 is None:
        return False
    done = renameat2(
        folder, os.fsencode(one), folder, os.fsencode(other), ctypes.c_uint(_RENAME_EXCHANGE)
    )
    return bool(done == 0)
