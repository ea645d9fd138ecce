"""Snapshots of the settings' sources, to detect a change later."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from ipyagent.config.mcp_json import FILE_NAMES
from ipyagent.config.sources import HOME_VARIABLES, PREFIX, user_file
from ipyagent.config.trust import PYPROJECT, YAML, trust_file

Stamp = tuple[int, ...]

Snapshot = tuple[object, ...]
"""Equal snapshots mean equal settings."""


def snapshot(environ: Mapping[str, str], folder: Path | None) -> Snapshot:
    """Return what settings depend on: stamps of their files, and variables."""
    files = [user_file()]
    if folder is not None:
        files += [trust_file(), *(folder / name for name in (PYPROJECT, YAML, *FILE_NAMES))]
    # Names first: looking at all values as well takes twice as long.
    names = [name for name in environ if name in HOME_VARIABLES or name.startswith(PREFIX)]
    variables = frozenset([(name, environ.get(name)) for name in names])
    return stamp_files(files), variables


def stamp_files(paths: Iterable[Path]) -> Snapshot:
    """Return what changes when one of the files does, or other files are meant."""
    return tuple([(path, _stamp(path)) for path in paths])


def _stamp(path: Path) -> Stamp | None:
    """Return what changes when a file does; None if it is missing or cannot be seen."""
    try:
        status = os.stat(path)  # noqa: PTH116 - one call, of eight paths before each cell
    except (OSError, ValueError):
        return None
    return status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino, status.st_mode
