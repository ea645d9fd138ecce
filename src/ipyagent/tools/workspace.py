"""The workspace: the one folder that the agent's file tools reach, and its rules about names.

It is held open: files are reached from its descriptor, never by a checked path.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

from ipyagent.atomic_files import try_lock
from ipyagent.config.sources import own_folders
from ipyagent.errors import AgentError, ConfigError, PathTraversalError, PathValidationError
from ipyagent.plaintext import human_size, spell
from ipyagent.tools import path_rules, safe_open
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

    def __init__(self, fd: int, root: Path) -> None:
        self.root = root
        self._fd = fd
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

    def has(self, path: str) -> bool:
        """Return whether something is there, as far as that can be seen."""
        try:
            return self.stat(path) is not None
        except AgentError:  # a file stands where a folder should be
            return False

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
            fd = safe_open.open_beneath(
                self._fd, path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY, 0
            )
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
            return safe_open.open_beneath(self._fd, path, flags)
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
                below = safe_open.open_beneath(here, name, flags)
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


_LOCK_SECONDS = 10.0


class StateFolder(Folder):
    """ipyagent's own folder in a workspace."""

    @contextlib.contextmanager
    def lock(self, name: str) -> Iterator[None]:
        """Hold a lock that other threads and processes respect; raises AgentError."""
        until = time.monotonic() + _LOCK_SECONDS
        try:
            fd = safe_open.open_beneath(self._fd, name, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise self._path_error(error, name) from None
        try:
            while not try_lock(fd):
                if time.monotonic() > until:
                    raise PathValidationError(f"{name} is held by another program; try again")
                time.sleep(0.01)
            yield
        finally:
            os.close(fd)


class Workspace(Folder):
    """The folder at `root`, opened once: `os.chdir` does not move it, and nothing leads out of it.

    Secrets are never read, and neither they nor ipyagent's own state are changed;
    `write_approval_reason` says what else needs the user's approval.
    """

    def __init__(self, root: Path) -> None:
        normalized = Path(os.path.normpath(root.absolute()))
        try:
            fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
        except OSError as error:
            raise ConfigError(
                f"workspace.root: {root} is not a folder that can be opened ({error.strerror})"
            ) from None
        super().__init__(fd, Path(os.path.realpath(root)))
        self._root_as_given = normalized

    def relative_path(self, path: str) -> str:
        """Return the path from the root; absolute paths may name the root as given or resolved."""
        full = Path(os.path.normpath(path))
        if full.is_absolute() and full.is_relative_to(self._root_as_given):
            path = str(full.relative_to(self._root_as_given))
        return super().relative_path(path)

    def is_file(self, path: str) -> bool:
        """Return whether `path` is a regular file that the agent may read."""
        try:
            status = self.stat(self._check_readable(self.relative_path(path)))
        except AgentError:
            return False
        return status is not None and stat.S_ISREG(status.st_mode)

    def find_files(self) -> tuple[list[Entry], bool]:
        """Return the visible files without sizes; of a large tree a part, and True."""
        budget = WalkBudget(entries=2_000, seconds=0.2, waiting=0.2)
        visible = [
            entry
            for entry in self.walk(".", budget, with_sizes=False)
            if entry.kind == "file" and not ("/" + entry.path).count("/.")
        ]
        return visible, budget.exhausted

    def overview(self, files: list[Entry], is_cut: bool, max_files: int = 50) -> dict[str, str]:
        """Return a line for the model for each of the first files that `find_files` returned."""
        named = sorted(files[:max_files], key=lambda each: each.path)
        lines = {entry.path: f"- {self._measure(entry)}" for entry in named}
        if is_cut or len(files) > max_files:
            lines["further files"] = "- … and more; list_files shows them"
        return lines

    def _measure(self, entry: Entry) -> Entry:
        """Return the entry of a file with its size, as far as it can still be read."""
        with contextlib.suppress(AgentError):
            status = self.stat(entry.path)
            return replace(entry, size=status.st_size if status else 0)
        return entry

    def normalize_path(self, path: str) -> str:
        """Return the path from the root, as rules name it; a path that leads out stays as it is."""
        try:
            return self.relative_path(path)
        except AgentError:
            return path

    def write_approval_reason(self, path: str) -> str | None:
        """Return why each change of `path` needs the user's approval, or None.

        A path that leads nowhere needs none: it fails anyway.
        """
        with contextlib.suppress(AgentError):
            return self._protection_reason(self.relative_path(path)) or self.read_approval_reason(
                path
            )
        return None

    def read_approval_reason(self, path: str) -> str | None:
        """Return why even reading `path` needs it: a hard link may lead out."""
        with contextlib.suppress(AgentError):
            status = self.stat(path)
            if status is not None and stat.S_ISREG(status.st_mode) and status.st_nlink > 1:
                return (
                    f"{spell(self.normalize_path(path))} has another name (a hard link), so it may "
                    "be a file from elsewhere"
                )
        return None

    def state_folder(self) -> StateFolder:
        """Return the folder `.ipyagent` of ipyagent itself, created if needed; git ignores it."""
        try:
            fd = self._open_folder(path_rules.STATE, create=True)
        except OSError as error:
            why = os.strerror(error.errno or 0).lower()
            place = self.root / path_rules.STATE
            raise PathValidationError(f"the folder {place} cannot be made ({why})") from None
        folder = StateFolder(fd, self.root / path_rules.STATE)
        if folder.stat(".gitignore") is None:
            folder.write_atomic(".gitignore", b"*\n")
        return folder

    def _check_readable(self, path: str) -> str:
        if path_rules.is_sensitive(path):
            raise PathValidationError(
                f"{spell(path)} may hold secrets or private state; the agent does not read it. "
                "Ask the user to load what is needed in a cell of their own"
            )
        return path

    def _check_writable(self, path: str) -> str:
        self._check_readable(path)
        if path_rules.is_state(path):
            raise PathValidationError(
                f"{spell(path)} is private state of ipyagent; the agent does not change it"
            )
        if path_rules.is_deceptive(path) and self.stat(path) is None:
            raise PathValidationError(
                f"{spell(path)} has invisible or look-alike characters in its name; use plain ones"
            )
        return path

    def _protection_reason(self, path: str) -> str | None:
        if path_rules.is_protected(path) or self._in_environment(path):
            return f"{spell(path)} is executed or loaded automatically later"
        module = path_rules.find_shadowed_module(path, self.root)
        if module is not None and not self._in_package(path):
            return f"{spell(path)} would be imported instead of {module!r}"
        full = str(self.root / path)
        if any(path_rules.is_within(full, os.path.realpath(folder)) for folder in own_folders()):
            return f"{spell(path)} is where ipyagent keeps your settings and decisions"
        return None

    def _in_environment(self, path: str) -> bool:
        """Return whether a folder above is a virtual environment, whatever its name."""
        *folders, _ = path.split("/")
        above = ("/".join(folders[: depth + 1]) for depth in range(len(folders)))
        return any(self.stat(f"{folder}/pyvenv.cfg") is not None for folder in above)

    def _in_package(self, path: str) -> bool:
        """Return whether a module belongs to a package, and so is not imported by its bare name."""
        *folders, name = path.split("/")
        if name.startswith("__init__."):
            folders.pop()
        return bool(folders) and self.stat("/".join([*folders, "__init__.py"])) is not None
