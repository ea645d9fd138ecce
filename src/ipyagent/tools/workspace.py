"""The workspace: the one folder that the agent's file tools reach, and its rules about names."""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path

import platformdirs

from ipyagent.errors import AgentError, ConfigError, PathValidationError
from ipyagent.tools import beneath, names
from ipyagent.tools.entries import Budget
from ipyagent.tools.folder import Folder
from ipyagent.tools.names import shown

_LOCK_SECONDS = 10.0


class State(Folder):
    """ipyagent's own folder in a workspace."""

    @contextlib.contextmanager
    def locked(self, name: str) -> Iterator[None]:
        """Hold a lock that other threads and processes respect; raises AgentError."""
        until = time.monotonic() + _LOCK_SECONDS
        try:
            fd = self._opener(self._fd, name, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise self._explained(error, name) from None
        try:
            while not _lock(fd):
                if time.monotonic() > until:
                    raise PathValidationError(f"{name} is held by another program; try again")
                time.sleep(0.01)
            yield
        finally:
            os.close(fd)


def _lock(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


class Workspace(Folder):
    """The folder at `root`, opened once: `os.chdir` does not move it, and nothing leads out of it.

    Secrets are not read, and neither they nor ipyagent's own state are changed; `guarded` says
    what else needs a person's word. `opener` is the way files are opened; None: the best that this
    system has.
    """

    def __init__(self, root: Path, opener: beneath.Opener | None = None) -> None:
        given = Path(os.path.normpath(root.absolute()))
        try:
            fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
        except OSError as error:
            raise ConfigError(
                f"workspace.root: {root} is not a folder that can be opened ({error.strerror})"
            ) from None
        super().__init__(fd, Path(os.path.realpath(root)), opener or beneath.best_opener(fd))
        self._given = given

    def relative(self, path: str) -> str:
        """The path from the root; absolute paths may name the root as it was given, or really."""
        full = Path(os.path.normpath(path))
        if full.is_absolute() and full.is_relative_to(self._given):
            path = str(full.relative_to(self._given))
        return super().relative(path)

    def is_file(self, path: str) -> bool:
        """Whether `path` is a regular file that the agent may read."""
        try:
            status = self.stat(self._readable(self.relative(path)))
        except AgentError:
            return False
        return status is not None and stat.S_ISREG(status.st_mode)

    def overview(self, most: int = 50) -> list[str]:
        """The visible files as lines for the model; a glance, not a complete list."""
        budget = Budget(entries=2_000, seconds=0.2)
        files = [
            entry
            for entry in self.walk(".", budget)
            if entry.kind == "file" and not ("/" + entry.path).count("/.")
        ]
        lines = [str(entry) for entry in sorted(files[:most], key=lambda each: each.path)]
        if budget.spent or len(files) > most:
            lines.append("… and more; list_files shows them")
        return lines

    def named(self, path: str) -> str:
        """The path from the root, as rules name it; one that leads out stays as it is."""
        try:
            return self.relative(path)
        except AgentError:
            return path

    def guarded(self, path: str) -> str | None:
        """Why each change of `path` needs a person's word, whatever is allowed; None: it needn't.

        A path that leads nowhere needn't either: it fails by itself.
        """
        with contextlib.suppress(AgentError):
            return self._guard(self.relative(path)) or self.linked(path)
        return None

    def linked(self, path: str) -> str | None:
        """Why even reading `path` needs it: the file has several names, one perhaps outside."""
        with contextlib.suppress(AgentError):
            status = self.stat(path)
            if status is not None and stat.S_ISREG(status.st_mode) and status.st_nlink > 1:
                return (
                    f"{shown(self.named(path))} has another name (a hard link), so it may be a "
                    "file from elsewhere"
                )
        return None

    def state(self) -> State:
        """The folder `.ipyagent` for ipyagent itself, made when asked for; git ignores it."""
        try:
            fd = self._folder(names.STATE, make=True)
        except OSError as error:
            why = os.strerror(error.errno or 0).lower()
            place = self.root / names.STATE
            raise PathValidationError(f"the folder {place} cannot be made ({why})") from None
        folder = State(fd, self.root / names.STATE, self._opener)
        if folder.stat(".gitignore") is None:
            folder.write_atomic(".gitignore", b"*\n")
        return folder

    def _readable(self, path: str) -> str:
        if names.is_sensitive(path):
            raise PathValidationError(
                f"{shown(path)} may hold secrets or private state; the agent does not read it. "
                "Ask the user to load what is needed in a cell of their own"
            )
        return path

    def _writable(self, path: str) -> str:
        self._readable(path)
        if names.is_state(path):
            raise PathValidationError(
                f"{shown(path)} is private state of ipyagent; the agent does not change it"
            )
        if names.is_deceptive(path) and self.stat(path) is None:
            raise PathValidationError(
                f"{shown(path)} has invisible or look-alike characters in its name; use plain ones"
            )
        return path

    def _guard(self, path: str) -> str | None:
        if names.is_protected(path) or self._in_environment(path):
            return f"{shown(path)} can run code or change rules by itself later"
        module = names.shadowed(path, self.root)
        if module is not None and not self._in_package(path):
            return f"{shown(path)} would be imported instead of {module!r}"
        own = platformdirs.user_config_path("ipyagent"), platformdirs.user_data_path("ipyagent")
        full = str(self.root / path)
        if any(names.is_within(full, os.path.realpath(folder)) for folder in own):
            return f"{shown(path)} is where ipyagent keeps your settings and decisions"
        return None

    def _in_environment(self, path: str) -> bool:
        """Whether a folder above is a virtual environment, whatever it is called."""
        *folders, _ = path.split("/")
        above = ("/".join(folders[: depth + 1]) for depth in range(len(folders)))
        return any(self.stat(f"{folder}/pyvenv.cfg") is not None for folder in above)

    def _in_package(self, path: str) -> bool:
        """Whether a module belongs to a package, and so isn't imported by its bare name."""
        *folders, name = path.split("/")
        if name.startswith("__init__."):
            folders.pop()
        return bool(folders) and self.stat("/".join([*folders, "__init__.py"])) is not None
