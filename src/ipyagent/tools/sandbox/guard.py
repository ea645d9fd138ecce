"""What a boxed command finds in the workspace but may not read, or not change.

Secrets are hidden from it, and what runs or rules by itself later is read-only. Names that are
not there yet cannot be kept free without leaving traces, so what a command made under such a name
is set aside when it has ended.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Literal

import platformdirs

from ipyagent.errors import AgentError
from ipyagent.tools import names
from ipyagent.tools.names import STATE, shown
from ipyagent.tools.workspace import Workspace

MAX_ENTRIES = 500_000
"""Files and folders of a workspace that are looked at before a command."""

MAX_PLACES = 1_000
"""Places that are guarded; each costs about a millisecond."""

Meaning = Literal["hidden", "kept", ""]
Identity = tuple[int, str]
"""The inode of a folder and a name in it: the same after the folder was moved, and after somebody
outside saved the file anew; not the same in a folder that took the other's place."""

_MODULES = (".py", ".pyc", ".pyd", ".so")
_FREE = ".ipynb_checkpoints"  # Jupyter makes these whenever the person saves a notebook


@dataclass
class Guarded:
    """Places in a workspace, as paths from its root."""

    kept: dict[str, Identity] = field(default_factory=dict)
    """What is not to be changed."""
    hidden_files: dict[str, Identity] = field(default_factory=dict)
    """What is not to be read: secrets; and sockets, pipes and devices, which lead outside."""
    hidden_folders: dict[str, Identity] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    """Links with such a name, on which nothing can be mounted, and where they lead."""
    modules: set[str] = field(default_factory=set)
    """What Python could import."""

    def places(self) -> dict[str, Identity]:
        """What can be mounted on."""
        return {**self.kept, **self.hidden_files, **self.hidden_folders}


class Survey:
    """One look through a workspace; the absolute paths in `skip` are left out."""

    def __init__(self, root: Path, skip: frozenset[str]) -> None:
        self.found = Guarded()
        self.seen = 0
        self._root = str(root)
        self._skip = skip | {f"{root}/{STATE}"}
        folders = platformdirs.user_config_path("ipyagent"), platformdirs.user_data_path("ipyagent")
        self._personal = {os.path.realpath(folder) for folder in folders}

    def look(self, *, limited: bool = True) -> Guarded:
        """All guarded places; raises AgentError if there is too much to look at."""
        waiting: deque[tuple[str, bool]] = deque([("", False)])
        while waiting:
            folder, kept = waiting.popleft()
            for below in self._look_into(folder, kept=kept):
                waiting.append(below)
            places = len(self.found.places())
            if limited and (self.seen > MAX_ENTRIES or places > MAX_PLACES):
                raise AgentError(
                    f"the workspace is too large to be guarded ({self.seen:,} files seen, "
                    f"{places:,} secret or protected); choose a smaller workspace.root"
                )
        return self.found

    def _look_into(self, folder: str, *, kept: bool) -> Iterator[tuple[str, bool]]:
        """Note what is in a folder; yields the folders below, and whether those are kept."""
        where = f"{self._root}/{folder}" if folder else self._root
        try:
            inode = Path(where).stat().st_ino
            entries = list(os.scandir(where))
        except FileNotFoundError:
            return
        except OSError:  # it could be opened from inside
            self.found.hidden_folders[folder] = _identity(where)
            return
        self.seen += len(entries)
        for entry in entries:
            path = f"{folder}/{entry.name}" if folder else entry.name
            if entry.path in self._skip:
                continue
            meaning = self._meaning(entry)
            with contextlib.suppress(FileNotFoundError):  # it has gone meanwhile
                if self._note(entry, path, (inode, entry.name), meaning, kept=kept):
                    yield path, kept or meaning == "kept"

    def _meaning(self, entry: os.DirEntry[str]) -> Meaning:
        return "hidden" if entry.path in self._personal else _meaning(entry.name)

    def _note(
        self,
        entry: os.DirEntry[str],
        path: str,
        identity: Identity,
        meaning: Meaning,
        *,
        kept: bool,
    ) -> bool:
        """Take down what is at `path`; whether it is a folder to be looked into."""
        if entry.is_symlink():
            if meaning:
                self.found.links[path] = str(Path(entry).readlink())
                self._note_target(entry.path, meaning)
            return False
        if entry.is_dir(follow_symlinks=False):
            if meaning == "hidden":
                self.found.hidden_folders[path] = identity
                return False
            if meaning == "kept" and not kept:
                self.found.kept[path] = identity
            return True
        if meaning == "hidden" or not entry.is_file(follow_symlinks=False):
            self.found.hidden_files[path] = identity
        elif meaning == "kept" and not kept:
            self.found.kept[path] = identity
        elif path.endswith(_MODULES):
            self.found.modules.add(path)
        return False

    def _note_target(self, link: str, meaning: Meaning) -> None:
        """What a link stands for is guarded as well, where it lies in the workspace."""
        target = os.path.realpath(link)
        if not target.startswith(f"{self._root}/") or not Path(target).exists():
            return
        places = self.found.kept
        if meaning == "hidden":
            files, folders = self.found.hidden_files, self.found.hidden_folders
            places = folders if Path(target).is_dir() else files
        places[target.removeprefix(f"{self._root}/")] = _identity(target)


def set_aside(workspace: Workspace, before: Guarded, after: Guarded) -> list[str]:
    """Move away what has come under a guarded name, and put links back; says what was done."""
    said = []
    aside = Path(STATE, "set_aside", secrets.token_hex(4))
    for number, path in enumerate(_new(workspace, before, after)):
        place = aside / str(number) / Path(path).name  # all of the path may be too long for a name
        try:
            _move(workspace.root / path, workspace.root / place)
            said.append(f"{shown(path)} was set aside to {shown(str(place))}")
        except FileNotFoundError:  # it lay in what was moved before
            continue
        except OSError as error:
            said.append(f"{shown(path)} is new, runs by itself later, and stays: {error.strerror}")
    for path, target in before.links.items():
        if after.links.get(path) != target:
            with contextlib.suppress(OSError):
                (workspace.root / path).symlink_to(target)
                said.append(f"{shown(path)} is the link again that it was")
    return said


def _move(path: Path, place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    try:
        path.rename(place)
    except PermissionError:  # the command may have seen to that
        for each in (path.parent, path):
            if each.is_dir() and not each.is_symlink():
                each.chmod(0o700)
        path.rename(place)


def _new(workspace: Workspace, before: Guarded, after: Guarded) -> Iterator[str]:
    old = set(before.places().values())
    for path, target in after.links.items():
        if before.links.get(path) != target:
            yield path
    for path, identity in sorted(after.places().items()):
        if identity not in old and identity[1] != _FREE:
            yield path
    for path in sorted(after.modules - before.modules):
        with contextlib.suppress(AgentError):
            if workspace.guarded(path):
                yield path


def _identity(path: str) -> Identity:
    place = Path(path)
    return place.parent.stat().st_ino, place.name


@lru_cache(maxsize=200_000)
def _meaning(name: str) -> Meaning:
    """What the file tools make of a name."""
    if names.is_sensitive(name):
        return "hidden"
    return "kept" if names.is_protected(name) else ""
