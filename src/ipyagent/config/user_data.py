"""The user's decisions about folders, stored in the user's own directory, never in the folder."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

import platformdirs

from ipyagent.atomic_files import lock_file, replace_file
from ipyagent.config.sources import read_config_file
from ipyagent.errors import ConfigError
from ipyagent.json_types import JsonDict

Data = JsonDict


_PLACES = ("HOME", "XDG_DATA_HOME", "USERPROFILE", "LOCALAPPDATA")
"""Variables that say where the user's data are."""


@lru_cache(maxsize=8)
def _data_folder(*places: str | None) -> Path:
    return platformdirs.user_data_path("ipyagent")


def folder_key(folder: Path) -> str:
    """Return the key of a folder in such files: its resolved path."""
    return os.path.realpath(folder)


class UserDataFile:
    """A JSON object in the user's data directory; it need not exist."""

    def __init__(self, name: str) -> None:
        self._name = name

    @property
    def path(self) -> Path:
        """The path of the file, existing or not."""
        return _data_folder(*map(os.environ.get, _PLACES)) / self._name

    def read(self) -> Data:
        """Return the content; raises ConfigError if it cannot be read."""
        try:
            data = json.loads(read_config_file(self.path, str(self.path)) or b"{}")
        except (ValueError, RecursionError):
            data = None
        if not isinstance(data, dict):
            raise ConfigError(f"{self.path} is not the JSON that ipyagent wrote; move it away")
        return data

    def update(self, edit: Callable[[Data], Data]) -> None:
        """Replace the content by the result of `edit`, one process at a time.

        A file that cannot be read is set aside, not lost. Raises ConfigError; nothing is changed
        then.
        """
        path = self.path
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with lock_file(path.with_suffix(".lock")):
                replace_file(path, json.dumps(edit(self._read_or_set_aside()), indent=1))
        except OSError as error:
            raise ConfigError(
                f"{path} cannot be written ({error.strerror}), so nothing was changed; make its "
                "folder writable"
            ) from None

    def _read_or_set_aside(self) -> Data:
        try:
            return self.read()
        except ConfigError:
            self.path.replace(self.path.with_suffix(".corrupt"))
            return {}
