"""What a boxed command finds in the workspace but may not read, or not change.

Secrets are hidden from it, and what runs or rules by itself later is read-only. Names that are
not there yet cannot be kept free without leaving traces, so what a command made under such a name
is set aside when it has ended; and so are new links that lead out of the workspace, which would
be followed by whoever writes to them later.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
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

_PRIVILEGE = stat.S_ISUID | stat.S_ISGID
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
    ways_out: dict[str, tuple[int, str]] = field(default_factory=dict)
    """Other links that lead out of the workspace: their inode and where they lead."""
    privileged: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Programs that whoever starts them runs as root: their inode and when it changed last."""
    mode: int = 0
    """The permissions of the workspace's own folder."""

    def places(self) -> dict[str, Identity]:
        """What can be mounted on."""
        return {**self.kept, **self.hidden_files, **self.hidden_folders}


class Survey:
    """One look through a workspace; the absolute paths in `skip` are left out.

    `before` is what was found before a command: what it closed or hid since is looked into as well.
    """

    def __init__(self, root: Path, skip: frozenset[str], before: Guarded | None = None) -> None:
        self.found = Guarded()
        self._again = before is not None
        self._hidden = set(before.hidden_folders.values()) if before else set()
        self._is_root = os.geteuid() == 0
        self.seen = 0
        self._root = str(root)
        self._skip = skip | {f"{root}/{STATE}"}
        folders = platformdirs.user_config_path("ipyagent"), platformdirs.user_data_path("ipyagent")
        self._personal = {os.path.realpath(folder) for folder in folders}

    def look(self) -> Guarded:
        """All guarded places; raises AgentError if there is too much to look at."""
        with contextlib.suppress(OSError):
            self.found.mode = stat.S_IMODE(Path(self._root).stat().st_mode)
        waiting: deque[tuple[str, bool]] = deque([("", False)])
        while waiting:
            folder, kept = waiting.popleft()
            for below in self._look_into(folder, kept=kept):
                waiting.append(below)
            places = len(self.found.places())
            if not self._again and (self.seen > MAX_ENTRIES or places > MAX_PLACES):
                raise AgentError(
                    f"the workspace is too large to be guarded ({self.seen:,} files seen, "
                    f"{places:,} secret or protected); choose a smaller workspace.root"
                )
        return self.found

    def _look_into(self, folder: str, *, kept: bool) -> Iterator[tuple[str, bool]]:
        """Note what is in a folder; yields the folders below, and whether those are kept."""
        where = f"{self._root}/{folder}" if folder else self._root
        try:
            self._open_up(where)
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

    def _open_up(self, where: str) -> None:
        """See to it that a folder can be looked into; raises PermissionError if it cannot."""
        if os.access(where, os.R_OK | os.X_OK):
            return
        status = Path(where).stat()
        if not self._again or _identity(where) in self._hidden:  # the person's own
            raise PermissionError
        Path(where).chmod(stat.S_IMODE(status.st_mode) | stat.S_IRWXU)

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
            self._note_link(entry, path, meaning)
            return False
        if entry.is_dir(follow_symlinks=False):
            if meaning == "hidden":
                self.found.hidden_folders[path] = identity
                return self._again and identity not in self._hidden
            if meaning == "kept" and not kept:
                self.found.kept[path] = identity
            return True
        if self._is_root:
            self._note_privilege(entry, path)
        if meaning == "hidden" or not entry.is_file(follow_symlinks=False):
            self.found.hidden_files[path] = identity
        elif meaning == "kept" and not kept:
            self.found.kept[path] = identity
        elif path.endswith(_MODULES):
            self.found.modules.add(path)
        return False

    def _note_privilege(self, entry: os.DirEntry[str], path: str) -> None:
        status = entry.stat(follow_symlinks=False)
        if stat.S_ISREG(status.st_mode) and status.st_mode & _PRIVILEGE:
            self.found.privileged[path] = status.st_ino, status.st_ctime_ns

    def _note_link(self, entry: os.DirEntry[str], path: str, meaning: Meaning) -> None:
        target = str(Path(entry).readlink())
        if meaning:
            self.found.links[path] = target
            self._note_target(entry.path, meaning)
            return
        # As it is written, too: what /proc/self stands for is another thing to another process.
        written = os.path.normpath(Path(entry).parent / target)
        real = os.path.realpath(entry.path)
        inside = all(f"{each}/".startswith(f"{self._root}/") for each in (written, real))
        if not inside:
            self.found.ways_out[path] = entry.inode(), real

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


def put_right(workspace: Workspace, before: Guarded, survey: Survey) -> list[str]:
    """Undo what a command did that would do harm later; says what was done.

    `survey` is the second look, which is taken here.
    """
    said = _give_back_mode(workspace.root, before.mode)
    after = survey.look()
    said += _take_privileges(workspace.root, before, after)
    return said + _set_aside(workspace, before, after)


def _give_back_mode(root: Path, mode: int) -> list[str]:
    """Without it, perhaps nobody can look into the workspace."""
    with contextlib.suppress(OSError):  # it is another's folder, or has gone
        if stat.S_IMODE(root.stat().st_mode) != mode:
            root.chmod(mode)
            return ["the workspace's own permissions are again what they were"]
    return []


def _take_privileges(root: Path, before: Guarded, after: Guarded) -> list[str]:
    """No program that was made in the box is to run as root for whoever starts it."""
    said = []
    old = set(before.privileged.values())
    for path, identity in after.privileged.items():
        if identity in old:
            continue
        with contextlib.suppress(FileNotFoundError):
            place = root / path
            place.chmod(stat.S_IMODE(place.lstat().st_mode) & ~_PRIVILEGE)
            said.append(f"{shown(path)} is no longer setuid or setgid")
    return said


def _set_aside(workspace: Workspace, before: Guarded, after: Guarded) -> list[str]:
    """Move away what has come under a guarded name, and put links back."""
    said = []
    aside = Path(STATE, "set_aside", secrets.token_hex(4))
    for number, path in enumerate(_new(workspace, before, after)):
        place = aside / str(number) / Path(path).name  # all of the path may be too long for a name
        try:
            _move(workspace.root / path, workspace.root / place)
            said.append(f"{shown(path)}, made while it ran, was set aside to {shown(str(place))}")
        except FileNotFoundError:  # it lay in what was moved before
            continue
        except OSError as error:
            why = f"it cannot be set aside ({error.strerror})"
            said.append(f"{shown(path)}, made while it ran, may do harm later and stays: {why}")
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
    known = set(before.ways_out.values())
    for path, way_out in after.ways_out.items():
        if way_out not in known:
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
