"""A network drive for tests: one folder, mounted twice over FUSE, as two computers would see it.

It keeps what NFS promises and no more: names and attributes are cached for a minute, and asked for
again when a file is opened or locked; reads and writes go to the server, locks hold on both
computers. Mapped memory is each computer's own. The kernel's protocol is spoken here directly, so
no library of FUSE is needed.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import selectors
import stat
import struct
import subprocess
import sys
from collections.abc import Iterator
from enum import IntEnum
from pathlib import Path

import pytest

from patience import PATIENCE

TYPE = "fuse.sshfs"
MINUTE = 60
MAPPED = "-shm"
"""How files end that are mapped into memory; all others are read and written at the server."""

_libc = ctypes.CDLL(None, use_errno=True)
_MNT_DETACH, _NOSUID_NODEV = 2, 6
_FOPEN_DIRECT_IO, _LK_FLOCK, _FLOCK_UNLOCK, _INVAL_INODE = 1, 1, 2, 2
_FATTR_MODE, _FATTR_SIZE = 1 << 0, 1 << 3
_POSIX_LOCKS, _ATOMIC_O_TRUNC, _BIG_WRITES, _FLOCK_LOCKS = 1 << 1, 1 << 3, 1 << 5, 1 << 10
_ENTRY, _ATTRIBUTES, _OPENED = "<QQQQII", "<QII", "<QIi"
_LOCK = "<hhxxxxqqixxxx"


class Request(IntEnum):
    """What the kernel asks for: the methods of a drive, by their numbers in `linux/fuse.h`."""

    LOOKUP, FORGET, GETATTR, SETATTR = 1, 2, 3, 4
    MKDIR, UNLINK, RMDIR, RENAME = 9, 10, 11, 12
    OPEN, READ, WRITE, STATFS, RELEASE = 14, 15, 16, 17, 18
    FSYNC, FLUSH, INIT, OPENDIR, READDIR, RELEASEDIR = 20, 25, 26, 27, 28, 29
    GETLK, SETLK = 31, 32
    CREATE, INTERRUPT, DESTROY, BATCH_FORGET = 35, 36, 38, 42


_UNANSWERED = (Request.FORGET, Request.INTERRUPT, Request.BATCH_FORGET)


@contextlib.contextmanager
def mount(shared: Path, *computers: Path, forgets: bool = False) -> Iterator[None]:
    """Mount the folder at each place, until the end or the death of this process.

    A server that `forgets` removed files, as that of NFS 3, refuses to lock them.
    """
    for each in (shared, *computers):
        each.mkdir()
    command = [sys.executable, __file__, str(int(forgets)), *map(str, (shared, *computers))]
    environ = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environ
    ) as server:
        try:
            if (said := server.stdout.readline()) != b"mounted\n":
                assert said, "the server has failed"
                pytest.skip(f"nothing can be mounted: {said.decode()}")
            yield
        finally:
            server.stdin.close()
            server.wait(PATIENCE)


class Drive:
    """The server's side of one mount."""

    def __init__(self, shared: Path, place: Path, *, forgets: bool) -> None:
        self.place, self.forgets = place, forgets
        self.nodes = {1: os.open(shared, os.O_PATH)}
        """What holds each file and folder that the computer knows, also when it was removed."""
        self.locks: dict[tuple[int, int, int], int] = {}
        self.device = os.open("/dev/fuse", os.O_RDWR)
        options = f"fd={self.device},rootmode=40000,user_id=0,group_id=0,allow_other"
        if _libc.mount(
            b"ada@server:/", bytes(place), TYPE.encode(), _NOSUID_NODEV, options.encode()
        ):
            raise OSError(ctypes.get_errno(), "mount")

    def unmount(self) -> None:
        _libc.umount2(bytes(self.place), _MNT_DETACH)
        os.close(self.device)

    def serve(self) -> None:
        """Answer one request."""
        try:
            data = os.read(self.device, 1 << 18)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.EINTR, errno.EAGAIN):  # it was interrupted
                return
            raise
        _, code, unique, node = struct.unpack_from("<IIQQ", data)
        if code in _UNANSWERED:
            return
        error, body = 0, b""
        try:
            body = getattr(self, Request(code).name.lower())(node, data[40:])
        except ValueError:
            error = errno.ENOSYS
        except OSError as problem:
            error = problem.errno or errno.EIO
            if code == Request.SETLK and error == errno.EAGAIN:
                error = errno.EACCES  # as POSIX allows, and SMB does
        self.send(-error, unique, body)
        if code in (Request.OPEN, Request.SETLK) and not error:  # attributes are to be asked again
            self.send(_INVAL_INODE, 0, struct.pack("<Qqq", node, -1, 0))

    def send(self, error: int, unique: int, body: bytes) -> None:
        with contextlib.suppress(FileNotFoundError):  # whoever asked was killed
            os.write(self.device, struct.pack("<IiQ", 16 + len(body), error, unique) + body)

    def path(self, node: int, name: bytes = b"") -> Path:
        return Path(f"/proc/self/fd/{self.nodes[node]}", os.fsdecode(name.split(b"\0")[0]))

    # -- names

    def init(self, _node: int, _body: bytes) -> bytes:
        flags = _POSIX_LOCKS | _FLOCK_LOCKS | _ATOMIC_O_TRUNC | _BIG_WRITES
        return struct.pack("<IIIIHHIIHHI28x", 7, 31, 1 << 16, flags, 12, 9, 1 << 17, 1, 0, 0, 0)

    def lookup(self, node: int, body: bytes) -> bytes:
        path = self.path(node, body)
        try:
            found = path.lstat()
        except FileNotFoundError:
            return struct.pack(_ENTRY, 0, 0, MINUTE, 0, 0, 0) + bytes(88)
        if found.st_ino not in self.nodes:
            self.nodes[found.st_ino] = os.open(path, os.O_PATH | os.O_NOFOLLOW)
        return struct.pack(_ENTRY, found.st_ino, 0, MINUTE, MINUTE, 0, 0) + _attributes(found)

    def getattr(self, node: int, _body: bytes) -> bytes:
        return struct.pack(_ATTRIBUTES, MINUTE, 0, 0) + _attributes(os.fstat(self.nodes[node]))

    def setattr(self, node: int, body: bytes) -> bytes:
        valid, _, _, size = struct.unpack_from("<IIQQ", body)
        (mode,) = struct.unpack_from("<I", body, 68)
        if valid & _FATTR_SIZE:
            os.truncate(self.path(node), size)
        if valid & _FATTR_MODE:
            self.path(node).chmod(stat.S_IMODE(mode))
        return self.getattr(node, b"")

    def mkdir(self, node: int, body: bytes) -> bytes:
        self.path(node, body[8:]).mkdir()
        return self.lookup(node, body[8:])

    def unlink(self, node: int, body: bytes) -> bytes:
        self.path(node, body).unlink()
        return b""

    def rmdir(self, node: int, body: bytes) -> bytes:
        self.path(node, body).rmdir()
        return b""

    def rename(self, node: int, body: bytes) -> bytes:
        (to,) = struct.unpack_from("<Q", body)
        old, new, *_ = body[8:].split(b"\0")
        self.path(node, old).replace(self.path(to, new))
        return b""

    # -- files

    def open(self, node: int, body: bytes) -> bytes:
        if not os.fstat(self.nodes[node]).st_nlink:
            raise OSError(errno.ESTALE, "another file may be there now")
        (flags,) = struct.unpack_from("<I", body)
        return self.opened(os.open(self.path(node), flags & (os.O_ACCMODE | os.O_TRUNC)))

    def opened(self, handle: int) -> bytes:
        is_mapped = Path(f"/proc/self/fd/{handle}").readlink().name.endswith(MAPPED)
        return struct.pack(_OPENED, handle, 0 if is_mapped else _FOPEN_DIRECT_IO, 0)

    def create(self, node: int, body: bytes) -> bytes:
        flags, mode = struct.unpack_from("<II", body)
        path = self.path(node, body[16:])
        handle = os.open(path, flags & (os.O_ACCMODE | os.O_TRUNC) | os.O_CREAT, mode)
        return self.lookup(node, body[16:]) + self.opened(handle)

    def read(self, _node: int, body: bytes) -> bytes:
        return os.pread(*_places(body))

    def write(self, _node: int, body: bytes) -> bytes:
        handle, size, offset = _places(body)
        return struct.pack("<II", os.pwrite(handle, body[40 : 40 + size], offset), 0)

    def fsync(self, _node: int, body: bytes) -> bytes:
        return b""

    def opendir(self, node: int, _body: bytes) -> bytes:
        return struct.pack(_OPENED, node, 0, 0)

    def readdir(self, node: int, body: bytes) -> bytes:
        _, size, offset = _places(body)
        entries = b""
        for at, each in enumerate(sorted(self.path(node).iterdir())[offset:], offset + 1):
            name = os.fsencode(each.name)
            entry = struct.pack("<QQII", at, at, len(name), 0) + name
            entry += bytes(-len(entry) % 8)
            if len(entries) + len(entry) > size:
                break
            entries += entry
        return entries

    # -- locks

    def setlk(self, node: int, body: bytes) -> bytes:
        handle, owner, start, last, kind, _, flags, _ = struct.unpack_from("<QQQQIIII", body)
        key = node, owner, flags & _LK_FLOCK
        if self.forgets and not os.fstat(handle).st_nlink:
            raise OSError(errno.ESTALE, "it was removed")
        if key not in self.locks:
            self.locks[key] = os.open(f"/proc/self/fd/{handle}", os.O_RDWR)
        if flags & _LK_FLOCK:
            kinds = {fcntl.F_RDLCK: fcntl.LOCK_SH, fcntl.F_WRLCK: fcntl.LOCK_EX}
            fcntl.flock(self.locks[key], kinds.get(kind, fcntl.LOCK_UN) | fcntl.LOCK_NB)
            return b""
        length = 0 if last > 1 << 62 else last - start + 1
        wanted = struct.pack(_LOCK, kind, os.SEEK_SET, start, length, 0)
        fcntl.fcntl(self.locks[key], fcntl.F_OFD_SETLK, wanted)
        return b""

    def getlk(self, node: int, body: bytes) -> bytes:
        handle, owner, start, last, kind, _ = struct.unpack_from("<QQQQII", body)
        length = 0 if last > 1 << 62 else last - start + 1
        mine = self.locks.get((node, owner, 0), handle)
        wanted = struct.pack(_LOCK, kind, os.SEEK_SET, start, length, 0)
        found = fcntl.fcntl(mine, fcntl.F_OFD_GETLK, wanted)
        kind, _, start, length, _ = struct.unpack(_LOCK, found)
        last = start + length - 1 if length else (1 << 63) - 1
        return struct.pack("<QQII", start, last, kind, 0)

    def unlock(self, node: int, owner: int, flags: int) -> None:
        if (lock := self.locks.pop((node, owner, flags), None)) is not None:
            os.close(lock)

    def flush(self, node: int, body: bytes) -> bytes:
        _, _, owner = struct.unpack_from("<QQQ", body)
        self.unlock(node, owner, 0)
        return b""

    def release(self, node: int, body: bytes) -> bytes:
        handle, _, flags, owner = struct.unpack_from("<QIIQ", body)
        if flags & _FLOCK_UNLOCK:
            self.unlock(node, owner, _LK_FLOCK)
        os.close(handle)
        return b""

    def releasedir(self, _node: int, _body: bytes) -> bytes:
        return b""

    destroy = releasedir

    def statfs(self, _node: int, _body: bytes) -> bytes:
        return struct.pack("<QQQQQIIII24x", *[1 << 20] * 5, 4096, 255, 4096, 0)


def _places(body: bytes) -> tuple[int, int, int]:
    handle, offset, size = struct.unpack_from("<QQI", body)
    return handle, size, offset


def _attributes(found: os.stat_result) -> bytes:
    sizes = found.st_ino, found.st_size, found.st_blocks
    times = found.st_atime_ns, found.st_mtime_ns, found.st_ctime_ns
    seconds, parts = zip(*(divmod(each, 10**9) for each in times), strict=True)
    owner = found.st_mode, found.st_nlink, found.st_uid, found.st_gid
    return struct.pack("<QQQQQQIIIIIIIIII", *sizes, *seconds, *parts, *owner, 0, 4096, 0)


def serve(shared: Path, computers: list[Path], *, forgets: bool) -> None:
    """Serve until the standard input ends."""
    try:
        drives = [Drive(shared, each, forgets=forgets) for each in computers]
    except OSError as error:
        sys.exit(print(error))
    with selectors.DefaultSelector() as selector:
        selector.register(0, selectors.EVENT_READ)
        for drive in drives:
            selector.register(drive.device, selectors.EVENT_READ, drive)
        print("mounted", flush=True)
        try:
            while True:
                for key, _ in selector.select():
                    if key.data is None:
                        return
                    key.data.serve()
        finally:
            for drive in drives:
                drive.unmount()


if __name__ == "__main__":
    folder, *places = map(Path, sys.argv[2:])
    serve(folder, places, forgets=sys.argv[1] == "1")
