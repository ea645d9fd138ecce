"""A directory held open: files are reached from its descriptor, never by a checked path."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
import weakref
from collections import deque
from collections.abc import Iterator
from pathlib import Path

from ipyagent.errors import AgentError, PathTraversalError, PathValidationError
from ipyagent.tools import atomic, beneath
from ipyagent.tools.entries import Budget, Entry
from ipyagent.tools.names import human_size, is_dull, shown

MAX_BYTES = 20 * 1024 * 1024
"""No file larger than this is read or written."""

_MAX_DEPTH = 100  # of new folders: much deeper ones break the programs that walk over them
_MAX_PATH = 4_095  # as in the kernel, which would not count when each component is opened alone


class Folder:
    """A directory and what lies beneath it; links are refused, not followed.

    `root` is only a name for messages and for absolute paths: what counts is the descriptor, so
    neither `os.chdir` nor renaming the directory changes what is reached.
    """

    def __init__(self, fd: int, root: Path, opener: beneath.Opener) -> None:
        self.root = root
        self._fd = fd
        self._opener = opener
        weakref.finalize(self, os.close, fd)

    def relative(self, path: str) -> str:
        """The path from the root, without `.` and `..`; nothing else in it means anything."""
        try:
            size = len(path.encode())
        except UnicodeEncodeError:
            raise PathValidationError(f"{shown(path)!r} is not valid Unicode") from None
        if size > _MAX_PATH:
            raise PathValidationError(f"the path is {size:,} bytes long; {_MAX_PATH:,} are allowed")
        if "\0" in path:
            raise PathValidationError(f"{shown(path)!r} contains a NUL character")
        # Lexical normalisation is exact here, because no component is ever a link.
        full = os.path.normpath(self.root / path)
        if full == str(self.root):
            return "."
        prefix = str(self.root).rstrip("/") + "/"
        if not full.startswith(prefix):
            raise PathTraversalError(f"{shown(path)!r} escapes the workspace")
        return full.removeprefix(prefix)

    def changeable(self, path: str) -> str:
        """The path from the root, if it is one that may be changed; raises AgentError."""
        return self._writable(self.relative(path))

    def stat(self, path: str) -> os.stat_result | None:
        """What is at `path` (of a link: the link), or None where nothing is."""
        path = self.relative(path)
        try:
            with self._parent(path) as (folder, name):
                return os.stat(name, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._explained(error, path) from None

    def readable(self, path: str) -> str:
        """Return the path from the root, if it is one that may be read; raises AgentError."""
        return self._readable(self.relative(path))

    def check_file(self, path: str) -> None:
        """Raise AgentError where no regular file is at `path`, or one that may not be read."""
        os.close(self._open_file(self.readable(path)))

    def check_folder(self, path: str) -> None:
        """Raise AgentError where no folder is at `path`, or one that may not be read."""
        path = self.readable(path)
        try:
            os.close(self._folder(path))
        except OSError as error:
            raise self._explained(error, path) from None

    def _open_file(self, path: str) -> int:
        """Return a descriptor of a regular file."""
        try:
            fd = self._opener(self._fd, path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY, 0)
        except OSError as error:
            raise self._explained(error, path) from None
        try:
            _refuse_special(fd, path)
        except AgentError:
            os.close(fd)
            raise
        return fd

    def read_bytes(self, path: str, limit: int = MAX_BYTES) -> bytes:
        """The content of a regular file of at most `limit` bytes."""
        path = self.readable(path)
        fd = self._open_file(path)
        try:
            with os.fdopen(fd, "rb", closefd=False) as file:
                # The size in the inode may lie, so what counts is what arrives.
                data = file.read(limit + 1)
        finally:
            os.close(fd)
        if len(data) > limit:
            raise PathValidationError(
                f"{shown(path)} is larger than {human_size(limit)}; read parts of it with code"
            )
        return data

    def content(self, path: str) -> bytes | None:
        """What `read_bytes` gives, or None where nothing is."""
        return None if self.stat(path) is None else self.read_bytes(path)

    def write_atomic(self, path: str, data: bytes) -> None:
        """Make `data` the content of `path`: readers see the old or the new file, whole."""
        path = self.changeable(path)
        with self._temporary(path, data) as (folder, temporary, name):
            os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)

    def append(self, path: str, data: bytes) -> None:
        """Add `data` at the end, by the same atomic exchange."""
        before = self.read_bytes(path) if self.stat(path) else None
        self.swap(path, before, (before or b"") + data)

    def swap(self, path: str, before: bytes | None, after: bytes) -> None:
        """Put `after` where `before` (None: nothing) is; raises, and changes nothing, if it isn't.

        The file is exchanged first and looked at then, so that what somebody saves at the very
        same moment is put back instead of lost.
        """
        path = self.changeable(path)
        with self._temporary(path, after) as (folder, temporary, name):
            if not atomic.swap(folder, temporary, name, before):
                is_open = atomic.has_writer(folder, name)
                raise _being_written(path) if is_open else _changed(path)

    def delete(self, path: str, before: bytes | None = None) -> None:
        """Remove a file (no folder, no link); with `before`, only while that is its content."""
        path = self.changeable(path)
        try:
            with self._parent(path) as (folder, name):
                if atomic.existing(folder, name, path) is None:
                    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
                if before is not None and not atomic.holds(folder, name, before):
                    raise _changed(path)
                os.unlink(name, dir_fd=folder)
                os.fsync(folder)
        except OSError as error:
            raise self._explained(error, path) from None

    def scan(self, path: str, budget: Budget | None = None, *, sized: bool = True) -> list[Entry]:
        """What lies directly in a folder, by name."""
        path = self._readable(self.relative(path))
        budget = budget or Budget()
        found: list[Entry] = []
        try:
            fd = self._folder(path)
            try:
                with os.scandir(fd) as entries:
                    for entry in entries:
                        if not budget.allows():
                            break
                        found.append(Entry.of(entry, sized=sized))
            finally:
                os.close(fd)
        except OSError as error:
            raise self._explained(error, path) from None
        return sorted(found, key=lambda each: each.path)

    def walk(self, path: str, budget: Budget, *, sized: bool = True) -> Iterator[Entry]:
        """Everything beneath a folder, level by level, until the budget is spent."""
        start = self.relative(path)
        waiting = deque([""])
        while waiting and not budget.spent:
            folder = waiting.popleft()
            try:
                entries = self.scan("/".join(filter(None, (start, folder))), budget, sized=sized)
            except AgentError:
                if folder:
                    continue  # unreadable, or gone since its parent was read
                raise
            for entry in entries:
                name, below = entry.path, "/".join(filter(None, (folder, entry.path)))
                yield Entry(below, entry.kind, entry.size)
                if entry.kind == "folder" and not is_dull(name):
                    waiting.append(below)

    def _readable(self, path: str) -> str:
        """Where a subclass says which paths may be read; raises PathValidationError."""
        return path

    def _writable(self, path: str) -> str:
        """Where a subclass says which paths may be changed; raises PathValidationError."""
        return path

    def _folder(self, path: str, *, make: bool = False) -> int:
        """A descriptor of a folder."""
        flags = os.O_RDONLY | os.O_DIRECTORY
        try:
            return self._opener(self._fd, path, flags, 0)
        except FileNotFoundError:
            if not make:
                raise
        if path.count("/") > _MAX_DEPTH:
            raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))
        here = os.dup(self._fd)
        try:
            for name in path.split("/"):
                with contextlib.suppress(FileExistsError):
                    os.mkdir(name, dir_fd=here)
                below = self._opener(here, name, flags, 0)
                os.close(here)
                here = below
        except OSError:
            os.close(here)
            raise
        return here

    @contextlib.contextmanager
    def _parent(self, path: str, *, make: bool = False) -> Iterator[tuple[int, str]]:
        """A descriptor of the folder that holds `path`, and the name in it."""
        parent, _, name = path.rpartition("/")
        fd = self._folder(parent or ".", make=make)
        try:
            yield fd, name
        finally:
            os.close(fd)

    @contextlib.contextmanager
    def _temporary(self, path: str, data: bytes) -> Iterator[tuple[int, str, str]]:
        """A synced new file beside `path` with its mode: (folder, temporary name, name)."""
        if len(data) > MAX_BYTES:
            raise PathValidationError(f"more than {human_size(MAX_BYTES)} for {shown(path)}")
        if path == ".":
            raise PathValidationError("the workspace itself is not a file")
        try:
            with self._parent(path, make=True) as (folder, name):
                temporary = f".{secrets.token_hex(8)}.tmp"
                try:
                    atomic.write_new(folder, temporary, data, atomic.existing(folder, name, path))
                    yield folder, temporary, name
                    os.fsync(folder)
                finally:
                    atomic.remove(folder, temporary)
        except OSError as error:
            raise self._explained(error, path) from None

    def _explained(self, error: OSError, path: str) -> AgentError:
        """What went wrong with a path, without naming any place outside."""
        name = shown(path)
        match error.errno:
            case errno.ENOENT:
                missing = PathValidationError(f"{name}: no such file or folder")
                return missing.advise("(list_files shows them.)")
            case errno.ELOOP:
                link = shown(self._link_in(path))
                return PathValidationError(
                    f"{link} is a symbolic link; none is followed, because a link easily "
                    "escapes the workspace"
                )
            case errno.EXDEV:
                return PathTraversalError(f"{name!r} escapes the workspace")
            case errno.ENXIO:
                return PathValidationError(f"{name} is a device or pipe, not a regular file")
            case errno.ENOTDIR:
                return PathValidationError(f"{name} is not a folder, or what leads to it is not")
        return PathValidationError(f"{name}: {os.strerror(error.errno or 0).lower()}")

    def _link_in(self, path: str) -> str:
        """The first part of the path that is a link."""
        parts = path.split("/")
        for count in range(1, len(parts)):
            before = "/".join(parts[:count])
            with contextlib.suppress(OSError), self._parent(before) as (folder, name):
                if stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
                    return before
        return path


def _refuse_special(fd: int, path: str) -> None:
    mode = os.fstat(fd).st_mode
    if stat.S_ISDIR(mode):
        raise PathValidationError(f"{shown(path)} is a folder; list_files shows what is in it")
    if not stat.S_ISREG(mode) or beneath.is_pseudo(fd):
        raise PathValidationError(f"{shown(path)} is a device or pipe, not a regular file")


def _being_written(path: str) -> PathValidationError:
    return PathValidationError(
        f"{shown(path)} is open for writing in some program, so it was not changed; when that "
        "has closed it, read it again"
    )


def _changed(path: str) -> PathValidationError:
    return PathValidationError(f"{shown(path)} has changed meanwhile; read it again")
