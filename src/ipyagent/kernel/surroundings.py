"""The surroundings of variables: the environment, the working folder and a folder's files."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

MOST_FILES = 20_000
"""Files and folders that are looked at."""
_CACHES = frozenset({".ipyagent", ".ipynb_checkpoints", "__pycache__"})
"""Folders that we, Jupyter and Python write in while code runs."""

Kind = Literal["created", "changed", "deleted"]


@dataclass(frozen=True)
class Surroundings:
    """The state before or after code ran. `files` is None if there are too many."""

    environment: dict[str, str | None]
    folder: str
    files: dict[str, tuple[int, ...]] | None = None

    @classmethod
    def observe(cls, root: str | None = None) -> Surroundings:
        """Return the state now, with the files in `root`, from any thread."""
        # Another thread may delete a name meanwhile.
        environment = {name: os.environ.get(name) for name in os.environ}
        try:
            folder = os.getcwd()  # noqa: PTH109 - as code finds it
        except OSError:
            folder = ""
        return cls(environment, folder, _scan(root) if root else None)

    def list_settings(self, before: Surroundings) -> Iterator[str]:
        """Yield what code set since then: names of the environment, never values."""
        was, now = before.environment, self.environment
        yield from (f"set {name}" for name in sorted(now) if now[name] != was.get(name))
        yield from (f"unset {name}" for name in sorted(was.keys() - now.keys()))
        if self.folder != before.folder:
            yield f"set the working folder to {self.folder}"

    def list_files(self, before: Surroundings) -> Iterator[tuple[str, Kind]]:
        """Yield the files and folders that changed since then, relative to their root."""
        was, now = before.files or {}, self.files or {}
        for path in sorted(was.keys() | now.keys()):
            if was.get(path) != now.get(path):
                yield (
                    path,
                    "created" if path not in was else "changed" if path in now else "deleted",
                )


def _scan(root: str) -> dict[str, tuple[int, ...]] | None:
    found, waiting = dict[str, tuple[int, ...]](), [root]
    notebook = os.path.realpath(os.environ.get("JPY_SESSION_NAME") or "/")  # Jupyter saves it
    while waiting:
        try:
            entries = [*os.scandir(waiting.pop())]
        except OSError:  # it is gone, or not ours
            continue
        for entry in entries:
            try:
                status = entry.stat(follow_symlinks=False)
            except OSError:
                continue
            if entry.name in _CACHES or entry.path == notebook:
                continue
            stamp: tuple[int, ...] = status.st_mode, status.st_ino
            if stat.S_ISDIR(status.st_mode):
                waiting.append(entry.path)
            else:
                stamp += status.st_size, status.st_mtime_ns
            found[entry.path.removeprefix(f"{root}/")] = stamp
        if len(found) > MOST_FILES:
            return None
    return found
