"""The workspace: the one folder that the agent's file tools reach, and its rules about names."""

from __future__ import annotations

import contextlib
import os
import stat
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from ipyagent.atomic_files import try_lock
from ipyagent.config.sources import own_folders
from ipyagent.errors import AgentError, ConfigError, PathValidationError
from ipyagent.plaintext import spell
from ipyagent.tools import path_rules, safe_open
from ipyagent.tools.folder import Folder
from ipyagent.tools.path_rules import Entry, WalkBudget

_LOCK_SECONDS = 10.0


class StateFolder(Folder):
    """ipyagent's own folder in a workspace."""

    @contextlib.contextmanager
    def lock(self, name: str) -> Iterator[None]:
        """Hold a lock that other threads and processes respect; raises AgentError."""
        until = time.monotonic() + _LOCK_SECONDS
        try:
            fd = self._opener(self._fd, name, os.O_RDWR | os.O_CREAT, 0o600)
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
    `write_approval_reason` says what else needs the user's approval. `opener` is how files are
    opened; None: the best way that this system has.
    """

    def __init__(self, root: Path, opener: safe_open.Opener | None = None) -> None:
        normalized = Path(os.path.normpath(root.absolute()))
        try:
            fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
        except OSError as error:
            raise ConfigError(
                f"workspace.root: {root} is not a folder that can be opened ({error.strerror})"
            ) from None
        super().__init__(fd, Path(os.path.realpath(root)), opener or safe_open.choose_opener(fd))
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
        folder = StateFolder(fd, self.root / path_rules.STATE, self._opener)
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
