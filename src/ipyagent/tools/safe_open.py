"""Open files beneath a directory without following links, and replace them as a whole.

A path that is checked and then opened can be swapped in between. Here nothing is checked
beforehand: the system itself refuses links while it opens.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import signal
import stat
import sys
import time

from ipyagent.errors import PathValidationError
from ipyagent.plaintext import spell

_PASS_THROUGH = os.O_DIRECTORY | getattr(os, "O_PATH", os.O_RDONLY)
"""Flags for a folder on the way: on Linux it need not be readable."""
_RENAME_EXCHANGE = 2

# Kernel interfaces that look like files: proc, sysfs, debugfs, tracefs, securityfs, configfs,
# cgroup, cgroup2, devpts, bpf, efivarfs.
_PSEUDO: tuple[int, ...] = (0x9FA0, 0x62656572, 0x64626720, 0x74726163, 0x73636673, 0x62656570)
_PSEUDO += (0x27E0EB, 0x63677270, 0x1CD1, 0xCAFE4A11, 0xDE5E81E4)

_libc = ctypes.CDLL(None, use_errno=True)


def open_beneath(folder: int, path: str, flags: int, mode: int = 0) -> int:
    """Open a path without `..`, each part from the descriptor of the one before, none by a link."""
    *folders, name = path.split("/")
    here = os.dup(folder)
    try:
        for each in folders:
            below = _open_part(here, each, _PASS_THROUGH, 0)
            os.close(here)
            here = below
        return _open_part(here, name, flags, mode)
    finally:
        os.close(here)


def _open_part(folder: int, name: str, flags: int, mode: int) -> int:
    try:
        return os.open(name, flags | os.O_NOFOLLOW, mode, dir_fd=folder)
    except NotADirectoryError:
        # With O_DIRECTORY a link fails as "not a directory".
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


_EXCHANGES = 10
"""How often two files are exchanged while a program writes into both."""
_WRITER_SECONDS = 0.5
"""Seconds for which a replacement waits for a program that is writing the file."""


def stat_replaceable(folder: int, name: str, path: str) -> os.stat_result | None:
    """Return the status of the file to replace, if any; raises if it must not be replaced."""
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    mode = status.st_mode
    if stat.S_ISLNK(mode):
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    if stat.S_ISDIR(mode):
        raise PathValidationError(f"{spell(path)} is a folder; this works on files only")
    if not stat.S_ISREG(mode):
        raise PathValidationError(f"{spell(path)} is a device or pipe, not a regular file")
    if not mode & stat.S_IWUSR:
        raise PathValidationError(f"{spell(path)} is read-only")
    return status


def write_new(
    folder: int, name: str, data: bytes, like: os.stat_result | None, mode: int | None = None
) -> None:
    """Write and sync a new file, with owner and mode of the one that it replaces, or that mode."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    mode = like.st_mode if like else mode
    # Private until it has the mode of the old one.
    fd = os.open(name, flags, 0o666 if mode is None else 0o600, dir_fd=folder)
    with os.fdopen(fd, "wb") as file:
        if like and (like.st_uid, like.st_gid) != (os.geteuid(), os.getegid()):
            with contextlib.suppress(PermissionError):
                os.fchown(fd, like.st_uid, like.st_gid)
        if mode is not None:
            os.fchmod(fd, mode & 0o777)
        file.write(data)
        file.flush()
        os.fsync(fd)


def replace_if_unchanged(folder: int, new: str, name: str, before: bytes | None) -> bool:
    """Give `new` the name if that holds `before` (None: nothing); else return False.

    The files are exchanged first and compared then, so that a save at the same moment is put back
    instead of lost. A file that a program has open for writing is put back too: its later writes
    would go to a file without a name. False means that nothing has changed.
    """
    if before is None:
        return _link_new(folder, new, name)
    if not _wait_for_writers(folder, name):
        return False
    ours = os.stat(new, dir_fd=folder)
    if exchange_files(folder, new, name):
        if _wait_for_writers(folder, new) and has_content(folder, new, before):
            return True
        _name_last_written(folder, new, name, ours)
        return False
    if not has_content(folder, name, before):
        return False
    os.replace(new, name, src_dir_fd=folder, dst_dir_fd=folder)
    return True


def _name_last_written(folder: int, other: str, name: str, ours: os.stat_result) -> None:
    """Give the name to the file that somebody else wrote last; `ours` is the new one as we made it.

    While that had the name, a program may have written into it.
    """

    def written_at(file: str) -> int:
        status = os.stat(file, dir_fd=folder)
        is_as_made = (status.st_ino, status.st_mtime_ns) == (ours.st_ino, ours.st_mtime_ns)
        return 0 if is_as_made else status.st_mtime_ns

    for _ in range(_EXCHANGES):
        _wait_for_writers(folder, other)
        if written_at(other) <= written_at(name):
            return
        exchange_files(folder, other, name)


def has_content(folder: int, name: str, content: bytes) -> bool:
    """Return whether a regular file has exactly this content."""
    try:
        fd = os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW, dir_fd=folder)
    except OSError:
        return False
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return False
        with os.fdopen(fd, "rb", closefd=False) as file:
            return file.read(len(content) + 1) == content
    finally:
        os.close(fd)


def has_writer(folder: int, name: str) -> bool:
    """Return whether some program has the file open for writing; False if the system cannot tell.

    A read lease is refused while one has (fcntl(2), F_SETLEASE).
    """
    if not hasattr(fcntl, "F_SETLEASE"):
        return False
    try:
        fd = os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW, dir_fd=folder)
    except OSError:
        return False
    try:
        # Opening the file in between raises a signal, which would end this process.
        fcntl.fcntl(fd, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except OSError as error:
        return error.errno == errno.EAGAIN
    finally:
        os.close(fd)
    return False


def _wait_for_writers(folder: int, name: str) -> bool:
    """Wait until nobody has the file open for writing; return whether that came in time."""
    deadline = time.monotonic() + _WRITER_SECONDS
    while has_writer(folder, name):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def unlink_if_exists(folder: int, name: str) -> None:
    """Unlink a name if it exists."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(name, dir_fd=folder)


def _link_new(folder: int, new: str, name: str) -> bool:
    try:
        os.link(new, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in {errno.EPERM, errno.ENOTSUP, errno.ENOSYS}:
            raise
        # A file system without hard links.
        os.replace(new, name, src_dir_fd=folder, dst_dir_fd=folder)
    return True
