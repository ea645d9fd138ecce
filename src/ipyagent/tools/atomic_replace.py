"""Replace a file as a whole: a new file is written beside it and takes its name at once."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import signal
import stat
import time

from ipyagent.errors import PathValidationError
from ipyagent.plaintext import spell
from ipyagent.tools import safe_open

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


def write_new(folder: int, name: str, data: bytes, like: os.stat_result | None) -> None:
    """Write and sync a new file, with owner and mode of the one that it replaces."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    # Private until it has the mode of the old one.
    fd = os.open(name, flags, 0o600 if like else 0o666, dir_fd=folder)
    with os.fdopen(fd, "wb") as file:
        if like:
            if (like.st_uid, like.st_gid) != (os.geteuid(), os.getegid()):
                with contextlib.suppress(PermissionError):
                    os.fchown(fd, like.st_uid, like.st_gid)
            os.fchmod(fd, stat.S_IMODE(like.st_mode) & 0o777)
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
    if safe_open.exchange_files(folder, new, name):
        if _wait_for_writers(folder, new) and has_content(folder, new, before):
            return True
        safe_open.exchange_files(folder, new, name)
        return False
    if not has_content(folder, name, before):
        return False
    os.replace(new, name, src_dir_fd=folder, dst_dir_fd=folder)
    return True


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
