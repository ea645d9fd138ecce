"""Paths of the workspace that a sandboxed command may not read, or not change.

Secrets are hidden from it, and files that run automatically later are read-only. Protected names
that do not exist yet cannot be reserved without leaving traces, so a command's new file of such a
name is set aside when it has ended; and so are new links that lead out of the workspace, which
later writers would follow.
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

from ipyagent.config.sources import own_folders
from ipyagent.errors import AgentError
from ipyagent.plaintext import spell
from ipyagent.tools import path_rules
from ipyagent.tools.path_rules import STATE
from ipyagent.tools.workspace import Workspace

MAX_ENTRIES = 500_000
"""Files and folders of a workspace that are scanned before a command."""

MAX_PROTECTED = 1_000
"""Protected paths; each costs about a millisecond."""

Protection = Literal["hidden", "kept", ""]
Identity = tuple[int, str]
"""The inode of a folder and a name in it.

Unchanged when the folder is moved or somebody outside saves the file again, different in a folder
that took the other's place.
"""

_PRIVILEGE = stat.S_ISUID | stat.S_ISGID
_JUPYTER_CHECKPOINTS = ".ipynb_checkpoints"  # made whenever the user saves a notebook


@dataclass
class ProtectedPaths:
    """Protected paths of a workspace, relative to its root."""

    read_only: dict[str, Identity] = field(default_factory=dict)
    """Paths that must not be changed."""
    hidden_files: dict[str, Identity] = field(default_factory=dict)
    """Paths that must not be read: secrets; and sockets, pipes and devices, which lead outside."""
    hidden_folders: dict[str, Identity] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    """Links with protected names, on which nothing can be mounted, and their targets."""
    modules: set[str] = field(default_factory=set)
    """Modules that Python could import."""
    outside_links: dict[str, tuple[int, str]] = field(default_factory=dict)
    """Other links that lead out of the workspace: their inode and target."""
    privileged: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Programs that run as root whoever starts them: their inode and change time."""
    mode: int = 0
    """The permissions of the workspace's own folder."""

    def mount_points(self) -> dict[str, Identity]:
        """Return the paths on which something can be mounted."""
        return {**self.read_only, **self.hidden_files, **self.hidden_folders}


class WorkspaceScan:
    """One scan of a workspace, without the absolute paths in `skip`.

    `before` is the result of the scan before a command: folders that it closed or hid since are
    scanned as well.
    """

    def __init__(
        self, root: Path, skip: frozenset[str], before: ProtectedPaths | None = None
    ) -> None:
        self.paths = ProtectedPaths()
        self._is_second = before is not None
        self._hidden = set(before.hidden_folders.values()) if before else set()
        self._is_root = os.geteuid() == 0
        self.entries_seen = 0
        self._root = str(root)
        self._skip = skip | {f"{root}/{STATE}"}
        self._personal = {os.path.realpath(folder) for folder in own_folders()}

    def run(self) -> ProtectedPaths:
        """Return all protected paths; raises AgentError if there is too much to scan."""
        with contextlib.suppress(OSError):
            self.paths.mode = stat.S_IMODE(Path(self._root).stat().st_mode)
        waiting: deque[tuple[str, bool]] = deque([("", False)])
        while waiting:
            folder, kept = waiting.popleft()
            waiting.extend(self._scan_folder(folder, kept=kept))
            places = len(self.paths.mount_points())
            if not self._is_second and (self.entries_seen > MAX_ENTRIES or places > MAX_PROTECTED):
                raise AgentError(
                    f"the workspace is too large to be guarded ({self.entries_seen:,} files seen, "
                    f"{places:,} secret or protected); choose a smaller workspace.root"
                )
        return self.paths

    def _scan_folder(self, folder: str, *, kept: bool) -> Iterator[tuple[str, bool]]:
        """Record the entries of a folder; yield the folders below, and whether those are kept."""
        where = f"{self._root}/{folder}" if folder else self._root
        try:
            self._make_accessible(where)
            inode = Path(where).stat().st_ino
            entries = list(os.scandir(where))
        except FileNotFoundError:
            return
        except OSError:  # it could be opened from inside
            self.paths.hidden_folders[folder] = _path_identity(where)
            return
        self.entries_seen += len(entries)
        for entry in entries:
            path = f"{folder}/{entry.name}" if folder else entry.name
            if entry.path in self._skip:
                continue
            meaning = "hidden" if entry.path in self._personal else _protection_of(entry.name)
            with contextlib.suppress(FileNotFoundError):  # it has gone meanwhile
                if self._record_entry(entry, path, (inode, entry.name), meaning, kept=kept):
                    yield path, kept or meaning == "kept"

    def _make_accessible(self, where: str) -> None:
        """Make a folder readable; raises PermissionError if that is not possible."""
        if os.access(where, os.R_OK | os.X_OK):
            return
        if not self._is_second or _path_identity(where) in self._hidden:  # the user's own
            raise PermissionError
        Path(where).chmod(stat.S_IMODE(Path(where).stat().st_mode) | stat.S_IRWXU)

    def _record_entry(
        self,
        entry: os.DirEntry[str],
        path: str,
        identity: Identity,
        meaning: Protection,
        *,
        kept: bool,
    ) -> bool:
        """Record the entry at `path`; return whether it is a folder to scan."""
        if entry.is_symlink():
            self._record_link(entry, path, meaning)
            return False
        if entry.is_dir(follow_symlinks=False):
            if meaning == "hidden":
                self.paths.hidden_folders[path] = identity
                return self._is_second and identity not in self._hidden
            if meaning == "kept" and not kept:
                self.paths.read_only[path] = identity
            return True
        if self._is_root:
            self._record_privilege(entry, path)
        if meaning == "hidden" or not entry.is_file(follow_symlinks=False):
            self.paths.hidden_files[path] = identity
        elif meaning == "kept" and not kept:
            self.paths.read_only[path] = identity
        elif path.endswith(path_rules.IMPORTABLE):
            self.paths.modules.add(path)
        return False

    def _record_privilege(self, entry: os.DirEntry[str], path: str) -> None:
        status = entry.stat(follow_symlinks=False)
        if stat.S_ISREG(status.st_mode) and status.st_mode & _PRIVILEGE:
            self.paths.privileged[path] = status.st_ino, status.st_ctime_ns

    def _record_link(self, entry: os.DirEntry[str], path: str, meaning: Protection) -> None:
        target = str(Path(entry).readlink())
        if meaning:
            self.paths.links[path] = target
            self._record_target(entry.path, meaning)
            return
        # As it is written, too: what /proc/self stands for is another thing to another process.
        written = os.path.normpath(Path(entry).parent / target)
        real = os.path.realpath(entry.path)
        inside = all(f"{each}/".startswith(f"{self._root}/") for each in (written, real))
        if not inside:
            self.paths.outside_links[path] = entry.inode(), real

    def _record_target(self, link: str, meaning: Protection) -> None:
        """Protect the target of a link as well, if it lies in the workspace."""
        target = os.path.realpath(link)
        if not target.startswith(f"{self._root}/") or not Path(target).exists():
            return
        places = self.paths.read_only
        if meaning == "hidden":
            files, folders = self.paths.hidden_files, self.paths.hidden_folders
            places = folders if Path(target).is_dir() else files
        places[target.removeprefix(f"{self._root}/")] = _path_identity(target)


def undo_harm(workspace: Workspace, before: ProtectedPaths, survey: WorkspaceScan) -> list[str]:
    """Undo a command's changes that would do harm later; return them.

    `survey` is the second scan, which is run here.
    """
    messages = _restore_mode(workspace.root, before.mode)
    after = survey.run()
    messages += _drop_privileges(workspace.root, before, after)
    return messages + _quarantine(workspace, before, after)


def _restore_mode(root: Path, mode: int) -> list[str]:
    """Restore the permissions of the root: without them, perhaps nobody can read the workspace."""
    with contextlib.suppress(OSError):  # it is another's folder, or has gone
        if stat.S_IMODE(root.stat().st_mode) != mode:
            root.chmod(mode)
            return ["the workspace's own permissions are again what they were"]
    return []


def _drop_privileges(root: Path, before: ProtectedPaths, after: ProtectedPaths) -> list[str]:
    """Remove the setuid bits of new programs: none may run as root for whoever starts it."""
    messages = []
    old = set(before.privileged.values())
    for path, identity in after.privileged.items():
        if identity in old:
            continue
        with contextlib.suppress(FileNotFoundError):
            place = root / path
            place.chmod(stat.S_IMODE(place.lstat().st_mode) & ~_PRIVILEGE)
            messages.append(f"{spell(path)} is no longer setuid or setgid")
    return messages


def _quarantine(workspace: Workspace, before: ProtectedPaths, after: ProtectedPaths) -> list[str]:
    """Move away new files with protected names, and restore links."""
    messages = []
    aside = Path(STATE, "set_aside", secrets.token_hex(4))
    for number, path in enumerate(_harmful_paths(workspace, before, after)):
        place = aside / str(number) / Path(path).name  # all of the path may be too long for a name
        try:
            _force_move(workspace.root / path, workspace.root / place)
            messages.append(
                f"{spell(path)}, made while it ran, was set aside to {spell(str(place))}"
            )
        except FileNotFoundError:  # it was inside something moved before
            continue
        except OSError as error:
            why = f"it cannot be set aside ({error.strerror})"
            messages.append(f"{spell(path)}, made while it ran, may do harm later and stays: {why}")
    for path, target in before.links.items():
        if after.links.get(path) != target:
            with contextlib.suppress(OSError):
                (workspace.root / path).symlink_to(target)
                messages.append(f"{spell(path)} is the link again that it was")
    return messages


def _force_move(path: Path, place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    try:
        path.rename(place)
    except PermissionError:  # the command may have seen to that
        for each in (path.parent, path):
            if each.is_dir() and not each.is_symlink():
                each.chmod(0o700)
        path.rename(place)


def _harmful_paths(
    workspace: Workspace, before: ProtectedPaths, after: ProtectedPaths
) -> Iterator[str]:
    old = set(before.mount_points().values())
    for path, target in after.links.items():
        if before.links.get(path) != target:
            yield path
    for path, identity in sorted(after.mount_points().items()):
        if identity not in old and identity[1] != _JUPYTER_CHECKPOINTS:
            yield path
    known = set(before.outside_links.values())
    for path, way_out in after.outside_links.items():
        if way_out not in known:
            yield path
    for path in sorted(after.modules - before.modules):
        with contextlib.suppress(AgentError):
            if workspace.write_approval_reason(path):
                yield path


def _path_identity(path: str) -> Identity:
    place = Path(path)
    return place.parent.stat().st_ino, place.name


@lru_cache(maxsize=200_000)
def _protection_of(name: str) -> Protection:
    """Return how the file tools protect a name."""
    if path_rules.is_sensitive(name):
        return "hidden"
    return "kept" if path_rules.is_protected(name) else ""
