"""ipyagent's own files, written whole and locked across processes.

For files outside of workspaces. Inside, where a path may lead elsewhere, `tools/workspace.py` opens
and replaces by descriptors, and shares only the locks.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]


def replace_file(path: Path, text: str) -> None:
    """Write a new file beside `path`, sync it and rename it: nobody sees a part of it.

    Only its owner can read it. A link in its place is replaced, not followed. Raises OSError; then
    nothing was changed and nothing is left behind.
    """
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(handle)
        Path(name).replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(name).unlink()
        raise


def has_locks() -> bool:
    """Return whether this system has locks at all."""
    return fcntl is not None


def open_lock(path: Path) -> int:
    """Open a file to lock, created if missing, never through a link; raises OSError."""
    # Not inherited by programs that a kernel starts: they would hold on to the lock.
    flags = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
    return os.open(path, os.O_RDWR | os.O_CREAT | flags, 0o600)


def try_lock(handle: int) -> bool:
    """Lock an open file until it is closed; return False if it is locked. Raises OSError."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):  # of either, POSIX says that another one has it
        return False
    return True


def remove_lock(path: Path, handle: int) -> None:
    """Remove the file of a lock that is held, and release it."""
    with contextlib.suppress(OSError):
        path.unlink()
        os.ftruncate(handle, 1)
    os.close(handle)


def is_lock_at(path: Path, handle: int) -> bool:
    """Return whether a lock that is held now has not been removed before."""
    # Computers remember for a while which file a name on a network drive belongs to, but ask for
    # the size again once they have the lock: a removed lock is not empty.
    with contextlib.suppress(FileNotFoundError):
        found = os.fstat(handle)
        return os.path.samestat(path.lstat(), found) and not found.st_size
    return False


@contextlib.contextmanager
def lock_file(path: Path) -> Iterator[None]:
    """Wait for the lock and hold it; if the system has none, the last of two writers wins."""
    handle = open_lock(path)
    try:
        if has_locks():
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


LAYERED = {"aufs", "ecryptfs", "overlay", "ramfs", "tmpfs", "ubifs"}
"""File systems of this computer that are on no device of their own."""


def find_network_drive(path: Path) -> str | None:
    """Return the type of the file's drive, such as `nfs4`, if other computers may share it."""
    folder = next(each for each in path.resolve().parents if each.exists())
    if sys.platform == "linux":
        device = folder.stat().st_dev
        if Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}").exists():
            return None
    import psutil  # 30 ms, which folders on a disk need not wait for

    mounts = [m for m in psutil.disk_partitions(all=True) if folder.is_relative_to(m.mountpoint)]
    mount = max(reversed(mounts), key=lambda mount: len(mount.mountpoint), default=None)
    if mount is None:
        return "network"
    is_disk = mount in psutil.disk_partitions() and "remote" not in mount.opts
    return None if is_disk or mount.fstype in LAYERED else mount.fstype
