"""What the person decided about folders, kept in their own directory and never in the folder."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import platformdirs

from ipyagent.config.sources import content
from ipyagent.errors import ConfigError
from ipyagent.json_types import JsonDict

Data = JsonDict


def folder_name(folder: Path) -> str:
    """How a folder is called in such files: where it really is."""
    return os.path.realpath(folder)


class PersonalFile:
    """A JSON object in the person's data directory; it need not exist."""

    def __init__(self, name: str) -> None:
        self._name = name

    @property
    def path(self) -> Path:
        """Where it is, or would be."""
        return platformdirs.user_data_path("ipyagent") / self._name

    def read(self) -> Data:
        """What is in it; raises ConfigError where it cannot be read."""
        try:
            data = json.loads(content(self.path, str(self.path)) or b"{}")
        except (ValueError, RecursionError):
            data = None
        if not isinstance(data, dict):
            raise ConfigError(f"{self.path} is not the JSON that ipyagent wrote; move it away")
        return data

    def change(self, edit: Callable[[Data], Data]) -> None:
        """Replace what is in it by what `edit` makes of it; of two processes, one after the other.

        A file that cannot be read is set aside, not lost. Raises ConfigError; then nothing was
        changed.
        """
        path = self.path
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with _locked(path.with_suffix(".lock")):
                _replace(path, edit(self._readable()))
        except OSError as error:
            raise ConfigError(
                f"{path} cannot be written ({error.strerror}), so nothing was changed; make its "
                "folder writable"
            ) from None

    def _readable(self) -> Data:
        try:
            return self.read()
        except ConfigError:
            self.path.replace(self.path.with_suffix(".corrupt"))
            return {}


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold the lock; where the system knows none, the last of two writers wins."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
    try:
        with contextlib.suppress(ImportError):
            import fcntl

            fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def _replace(path: Path, data: Data) -> None:
    """As a whole, and synced: nobody ever sees a part of it."""
    fd, new = tempfile.mkstemp(dir=path.parent)
    try:
        with os.fdopen(fd, "w", encoding="utf-8") as file:
            json.dump(data, file, indent=1)
            file.flush()
            os.fsync(fd)
        Path(new).replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(new).unlink()
        raise
