"""A directory held open: files are reached from its descriptor, never by a checked path."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from ipyagent.errors import AgentError, PathTraversalError, PathValidationError
from ipyagent.plaintext import human_size, spell
from ipyagent.tools import safe_open
from ipyagent.tools.path_rules import Entry, WalkBudget, is_skipped_folder

MAX_BYTES = 20 * 1024 * 1024
"""Bytes of the largest file that is read or written."""

_MAX_DEPTH = 100  # of new folders: much deeper ones break the programs that walk over them
_MAX_PATH = 4_095  # as in the kernel, which would not count when each component is opened alone


class Folder:
    """A directory and what lies beneath it; links are refused, not followed.

    `root` is only a name for messages and absolute paths: the descriptor counts, so neither
    `os.chdir` nor renaming the directory leads elsewhere.
    """

    def __init__(self, fd: int, root: Path, opener: safe_open.Opener) -> None:
        self.root = root
        self._fd = fd
        self._opener = opener
        weakref.finalize(self, os.close, fd)

    def relative_path(self, path: str) -> str:
        """Return the path from the root, without `.` and `..`; nothing else is interpreted."""
        try:
            size = len(path.encode())
        except UnicodeEncodeError:
            raise PathValidationError(f"{spell(path)!r} is not valid Unicode") from None
        if size > _MAX_PATH:
            raise PathValidationError(f"the path is {size:,} bytes long; {_MAX_PATH:,} are allowed")
        if "\0" in path:
            raise PathValidationError(f"{spell(path)!r} contains a NUL character")
        # Lexical normalisation is exact here, because no component is ever a link.
        full = os.path.normpath(self.root / path)
        if full == str(self.root):
            return "."
        prefix = str(self.root).rstrip("/") + "/"
        if not full.startswith(prefix):
            raise PathTraversalError(f"{spell(path)!r} escapes the workspace")
        return full.removeprefix(prefix)

    def writable_path(self, path: str) -> str:
        """Return the path from the root; raises AgentError if it must not be changed."""
        return self._check_writable(self.relative_path(path))

    def stat(self, path: str) -> os.stat_result | None:
        """Return the status of `path` (of a link: the link), or None if nothing is there."""
        path = self.relative_path(path)
        try:
            with self._open_parent(path) as (folder, name):
                return os.stat(name, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._path_error(error, path) from None

    def readable_path(self, path: str) -> str:
        """Return the path from the root; raises AgentError if it must not be read."""
        return self._check_readable(self.relative_path(path))

    def check_file(self, path: str) -> None:
        """Raise AgentError if `path` is not a regular file, or must not be read."""
        os.close(self._open_file(self.readable_path(path)))

    def check_folder(self, path: str) -> None:
        """Raise AgentError if `path` is not a folder, or must not be read."""
        path = self.readable_path(path)
        try:
            os.close(self._open_folder(path))
        except OSError as error:
            raise self._path_error(error, path) from None

    def _open_file(self, path: str) -> int:
        """Return a descriptor of a regular file."""
        try:
            fd = self._opener(self._fd, path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY, 0)
        except OSError as error:
            raise self._path_error(error, path) from None
        try:
            _check_regular_file(fd, path)
        except AgentError:
            os.close(fd)
            raise
        return fd

    @contextlib.contextmanager
    def open_file(self, path: str) -> Iterator[BinaryIO]:
        """Yield a regular file of any size, open for reading; raises AgentError."""
        with os.fdopen(self._open_file(self.readable_path(path)), "rb") as file:
            yield file

    def read_bytes(self, path: str, limit: int = MAX_BYTES) -> bytes:
        """Return the content of a regular file of at most `limit` bytes."""
        path = self.readable_path(path)
        with os.fdopen(self._open_file(path), "rb") as file:
            # The size in the inode may lie, so what counts is what arrives.
            data = file.read(limit + 1)
        if len(data) > limit:
            raise PathValidationError(
                f"{spell(path)} is larger than {human_size(limit)}; read parts of it with code"
            )
        return data

    def read_if_exists(self, path: str) -> bytes | None:
        """Return the content as `read_bytes` does, or None if there is no file."""
        return None if self.stat(path) is None else self.read_bytes(path)

    def write_atomic(self, path: str, data: bytes) -> None:
        """Write the whole file at once: readers see the old or the new content, never a mixture."""
        path = self.writable_path(path)
        with self._temporary_file(path, data) as (folder, temporary, name):
            os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)

    def append(self, path: str, data: bytes) -> None:
        """Append `data` by the same atomic exchange."""
        before = self.read_bytes(path) if self.stat(path) else None
        self.compare_and_swap(path, before, (before or b"") + data)

    def compare_and_swap(
        self, path: str, before: bytes | None, after: bytes, mode: int | None = None
    ) -> None:
        """Replace the file only if it still holds `before` (None: no file); otherwise raise.

        `mode` are the permissions of a new one.

        The file is exchanged first and compared then, so that a save at the same moment is put back
        instead of lost.
        """
        path = self.writable_path(path)
        with self._temporary_file(path, after, mode) as (folder, temporary, name):
            if not safe_open.replace_if_unchanged(folder, temporary, name, before):
                is_open = safe_open.has_writer(folder, name)
                raise _open_for_writing_error(path) if is_open else _changed_error(path)

    def delete(self, path: str, before: bytes | None = None) -> None:
        """Delete a file (no folder, no link); with `before`, only while that is its content."""
        path = self.writable_path(path)
        try:
            with self._open_parent(path) as (folder, name):
                if safe_open.stat_replaceable(folder, name, path) is None:
                    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
                if before is not None and not safe_open.has_content(folder, name, before):
                    raise _changed_error(path)
                os.unlink(name, dir_fd=folder)
                os.fsync(folder)
        except OSError as error:
            raise self._path_error(error, path) from None

    def remove_folders(self, path: str, top: str) -> None:
        """Delete the folders above a path, up to the one at `top`, as far as they are empty."""
        while f"{path}/".startswith(f"{top}/") and path != top:
            path = path.rpartition("/")[0]
            try:
                with self._open_parent(self._check_writable(path)) as (parent, name):
                    os.rmdir(name, dir_fd=parent)
            except (OSError, AgentError):  # something else is in it
                return

    def scan(
        self, path: str, budget: WalkBudget | None = None, *, with_sizes: bool = True
    ) -> list[Entry]:
        """Return the entries directly in a folder, by name."""
        path = self._check_readable(self.relative_path(path))
        budget = budget or WalkBudget()
        found: list[Entry] = []
        try:
            fd = self._open_folder(path)
            try:
                with os.scandir(fd) as entries:
                    for entry in entries:
                        if not budget.spend():
                            break
                        found.append(Entry.from_dir_entry(entry, with_size=with_sizes))
            finally:
                os.close(fd)
        except OSError as error:
            raise self._path_error(error, path) from None
        return sorted(found, key=lambda each: each.path)

    def walk(
        self,
        path: str,
        budget: WalkBudget,
        *,
        with_sizes: bool = True,
        is_next: Callable[[str], bool] = lambda folder: False,
    ) -> Iterator[Entry]:
        """Yield everything beneath a folder, level by level, until the budget is spent.

        Folders for which `is_next` holds come before all others that wait.
        """
        start = self.relative_path(path)
        waiting = deque([""])
        while waiting and not budget.exhausted:
            folder = waiting.popleft()
            try:
                entries = self.scan(
                    "/".join(filter(None, (start, folder))), budget, with_sizes=with_sizes
                )
            except AgentError:
                if folder:
                    continue  # unreadable, or gone since its parent was read
                raise
            for entry in entries:
                name, below = entry.path, "/".join(filter(None, (folder, entry.path)))
                yield Entry(below, entry.kind, entry.size)
                if entry.kind == "folder" and not is_skipped_folder(name):
                    (waiting.appendleft if is_next(below) else waiting.append)(below)

    def _check_readable(self, path: str) -> str:
        """Let subclasses restrict which paths may be read; raises PathValidationError."""
        return path

    def _check_writable(self, path: str) -> str:
        """Let subclasses restrict which paths may be changed; raises PathValidationError."""
        return path

    def _open_folder(self, path: str, *, create: bool = False) -> int:
        """Return a descriptor of a folder."""
        flags = os.O_RDONLY | os.O_DIRECTORY
        try:
            return self._opener(self._fd, path, flags, 0)
        except FileNotFoundError:
            if not create:
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
    def _open_parent(self, path: str, *, create: bool = False) -> Iterator[tuple[int, str]]:
        """Yield a descriptor of the folder that holds `path`, and the name in it."""
        parent, _, name = path.rpartition("/")
        fd = self._open_folder(parent or ".", create=create)
        try:
            yield fd, name
        finally:
            os.close(fd)

    @contextlib.contextmanager
    def _temporary_file(
        self, path: str, data: bytes, mode: int | None = None
    ) -> Iterator[tuple[int, str, str]]:
        """Write and sync a new file beside `path`: yields (folder, temporary name, name)."""
        if len(data) > MAX_BYTES:
            raise PathValidationError(f"more than {human_size(MAX_BYTES)} for {spell(path)}")
        if path == ".":
            raise PathValidationError("the workspace itself is not a file")
        try:
            with self._open_parent(path, create=True) as (folder, name):
                temporary = f".{secrets.token_hex(8)}.tmp"
                try:
                    like = safe_open.stat_replaceable(folder, name, path)
                    safe_open.write_new(folder, temporary, data, like, mode)
                    yield folder, temporary, name
                    os.fsync(folder)
                finally:
                    safe_open.unlink_if_exists(folder, temporary)
        except OSError as error:
            raise self._path_error(error, path) from None

    def _path_error(self, error: OSError, path: str) -> AgentError:
        """Return an error for a path that names no place outside of the root."""
        name = spell(path)
        match error.errno:
            case errno.ENOENT:
                missing = PathValidationError(f"{name}: no such file or folder")
                return missing.advise("(list_files shows them.)")
            case errno.ELOOP:
                link = spell(self._first_link(path))
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

    def _first_link(self, path: str) -> str:
        """Return the first part of the path that is a link."""
        parts = path.split("/")
        for count in range(1, len(parts)):
            before = "/".join(parts[:count])
            with contextlib.suppress(OSError), self._open_parent(before) as (folder, name):
                if stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
                    return before
        return path


def _check_regular_file(fd: int, path: str) -> None:
    mode = os.fstat(fd).st_mode
    if stat.S_ISDIR(mode):
        raise PathValidationError(f"{spell(path)} is a folder; list_files shows what is in it")
    if not stat.S_ISREG(mode) or safe_open.is_pseudo_file(fd):
        raise PathValidationError(f"{spell(path)} is a device or pipe, not a regular file")


def _open_for_writing_error(path: str) -> PathValidationError:
    return PathValidationError(
        f"{spell(path)} is open for writing in some program, so it was not changed; when that "
        "has closed it, read it again"
    )


def _changed_error(path: str) -> PathValidationError:
    return PathValidationError(f"{spell(path)} has changed meanwhile; read it again")
