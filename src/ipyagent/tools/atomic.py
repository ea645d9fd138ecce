"""Replacing a file as a whole: a new file is written beside it and takes its name at once."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import signal
import stat
import time

from ipyagent.errors import PathValidationError
from ipyagent.tools import beneath
from ipyagent.tools.names import shown

_PATIENCE = 0.5
"""Seconds that a program has to close a file which it is writing."""


def existing(folder: int, name: str, path: str) -> os.stat_result | None:
    """The file that would be replaced, if there is one; raises if it is not to be replaced."""
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    mode = status.st_mode
    if stat.S_ISLNK(mode):
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    if stat.S_ISDIR(mode):
        raise PathValidationError(f"{shown(path)} is a folder; this works on files only")
    if not stat.S_ISREG(mode):
        raise PathValidationError(f"{shown(path)} is a device or pipe, not a regular file")
    if not mode & stat.S_IWUSR:
        raise PathValidationError(f"{shown(path)} is read-only")
    return status


def write_new(folder: int, name: str, data: bytes, like: os.stat_result | None) -> None:
    """Write and sync a new file, with owner and mode of the one that it is to replace."""
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


def swap(folder: int, new: str, name: str, before: bytes | None) -> bool:
    """Give `new` the name if that holds `before` (None: nothing); else False, nothing changed.

    The files are exchanged first and compared then: what somebody saves at the very same moment
    is put back instead of lost. So is a file that a program has open for writing: what that wrote
    later would go to a file without a name.
    """
    if before is None:
        return _link(folder, new, name)
    if not _wait_for_writers(folder, name):
        return False
    if beneath.exchange(folder, new, name):
        if _wait_for_writers(folder, new) and holds(folder, new, before):
            return True
        beneath.exchange(folder, new, name)
        return False
    if not holds(folder, name, before):
        return False
    os.replace(new, name, src_dir_fd=folder, dst_dir_fd=folder)
    return True


def holds(folder: int, name: str, content: bytes) -> bool:
    """Whether a regular file has exactly that content."""
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
    """Whether some program has the file open for writing; False where the system cannot tell.

    A read lease is refused while one has (fcntl(2), F_SETLEASE).
    """
    if not hasattr(fcntl, "F_SETLEASE"):
        return False
    try:
        fd = os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW, dir_fd=folder)
    except OSError:
        return False
    try:
        # Who opens the file in between is told of by a signal, which would end this process.
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
    deadline = time.monotonic() + _PATIENCE
    while has_writer(folder, name):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def remove(folder: int, name: str) -> None:
    """Unlink a name if it is there."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(name, dir_fd=folder)


def _link(folder: int, new: str, name: str) -> bool:
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
