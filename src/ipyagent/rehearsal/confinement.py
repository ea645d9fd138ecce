"""The files that a copy of the kernel sees, and no others.

What it may see is mounted anew, and nothing else is there. The workspace is covered by an overlay,
whose upper layer collects what would change. Where there are no namespaces, Landlock takes their
place: then nothing is mounted, and contents are hidden, but that a file is there, its size, its
date and where a link leads can still be asked for.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

from ipyagent.rehearsal import system

ALIKE = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
"""Devices that are there too."""
Method = Literal["namespaces", "Landlock"]
"""The method to isolate: the second where the first does not hold."""


@dataclass(frozen=True)
class Limits:
    """The limits of one rehearsal. Memory is counted beyond the kernel's."""

    seconds: float = 2.0
    """Seconds of processor time."""
    idle: float = 10.0
    """Seconds without any use of a processor."""
    setup: float = 10.0
    """Seconds for the isolation, beyond those of the code."""
    memory: int = 4 << 30
    """Bytes of memory in use, or half of what is free on the machine if that is less."""
    files: int = 256 << 20
    """Bytes that it may write to files."""
    report: int = 144 << 20
    """Bytes that it may send back."""


@dataclass(frozen=True)
class Confinement:
    """The part of the system that a rehearsal sees; everything else is not there.

    Paths are absolute, but those that are hidden are relative to the workspace, `root`.
    """

    root: str
    readable: tuple[str, ...] = ()
    """Folders and files that it can read, those in the workspace included."""
    links: tuple[tuple[str, str], ...] = ()
    """Links at the top of the file system, and their targets."""
    hidden_files: tuple[str, ...] = ()
    hidden_folders: tuple[str, ...] = ()
    state: str = ""
    """The hidden folder of our own: whoever lists it learns nothing."""
    call_filter: bytes = b""
    """The seccomp filter."""
    variables: frozenset[str] = frozenset()
    """Names of the environment's variables that stay."""
    method: Method = "namespaces"

    @cached_property
    def hidden_paths(self) -> list[str]:
        """The files and folders that are hidden in the workspace, as absolute paths."""
        top = self.root.rstrip("/")
        return [f"{top}/{each}" for each in (*self.hidden_files, *self.hidden_folders)]

    def sees(self, path: str) -> bool:
        """Return whether an absolute path, links resolved, is as it is outside."""
        if any(is_in(path, each) for each in (*self.readable, *ALIKE)):
            return True
        if not is_in(path, self.root):
            return False
        return not any(is_in(path, each) for each in self.hidden_paths)


def is_in(path: str, folder: str) -> bool:
    """Return whether an absolute path is a folder, or lies in it."""
    return path == folder or path.startswith(f"{folder}/")


TEMPORARY = "/tmp"  # noqa: S108 - the rehearsal has its own
CACHE = f"{TEMPORARY}/.ipyagent-cache"
"""Where libraries find nothing and may keep what they make; no code knows of it."""
UPPER = "/.rehearsal"
"""The overlay's upper layer, as it is seen afterwards."""
_OLD, _NEW, _SCRATCH = "/old", "/new", "/scratch"
SHARED = "/dev/shm"  # noqa: S108 - likewise
_STANDARD = {"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0"}
_STANDARD |= {"stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2"}
_SAFE = system.NO_SETUID | system.NO_DEVICES


def build_root(confinement: Confinement, limits: Limits) -> None:
    """Make the confinement's files the root; in a mount namespace of its own."""
    here = os.getcwd()  # noqa: PTH109
    system.mount("none", "/", flags=system.RECURSIVE | system.PRIVATE)
    size = f"size={limits.files},nr_inodes=50000"
    # On a folder that every system has.
    system.mount("tmpfs", TEMPORARY, "tmpfs", _SAFE, f"{size},mode=0755")
    os.chdir(TEMPORARY)
    for each in ("old", "new", "scratch"):
        os.mkdir(each)  # noqa: PTH102
    system.mount("new", "new", flags=system.BIND | system.RECURSIVE)
    system.pivot_root(".", "old")
    os.chdir("/")
    _mount_devices()
    _mount_temporary()
    for link, target in confinement.links:
        Path(f"{_NEW}{link}").symlink_to(target)
    inside = [each for each in confinement.readable if each.startswith(f"{confinement.root}/")]
    for path in confinement.readable:
        if path not in inside:  # a Python may lie among the temporary files
            _bind(path)
    _mount_workspace(confinement, inside)
    _finish()
    os.chdir(here if Path(here).is_dir() else confinement.root)


def _bind(path: str) -> None:
    """Show a path of the system as it is, read-only, if there is one."""
    source, target = Path(f"{_OLD}{path}"), Path(f"{_NEW}{path}")
    if not source.exists():
        return
    if not os.path.lexists(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            target.mkdir()
        else:
            target.touch()
    system.mount(str(source), str(target), flags=system.BIND | system.RECURSIVE)
    system.make_read_only(str(target))


def _mount_devices() -> None:
    Path(f"{_NEW}{SHARED}").mkdir(parents=True)
    for path in ALIKE:
        Path(f"{_NEW}{path}").touch()
        system.mount(f"{_OLD}{path}", f"{_NEW}{path}", flags=system.BIND)
    for name, target in _STANDARD.items():
        Path(f"{_NEW}/dev/{name}").symlink_to(target)
    system.mount("tmpfs", f"{_NEW}{SHARED}", "tmpfs", _SAFE, "size=64m,mode=1777")
    _mount_facts()


def _mount_facts() -> None:
    """Show of /proc what a process knows of itself and of the machine.

    The rest leads out of the mounts: the program that runs could be changed through its link.
    """
    whole = f"{_SCRATCH}/proc"
    for path in (whole, f"{_NEW}/proc/self"):
        Path(path).mkdir(parents=True)
    try:
        system.mount("proc", whole, "proc", _SAFE)
        _seal(whole)
    except PermissionError:
        return  # a container that hides a part of /proc: then there is none
    for path in (*OWN_FACTS, *FACTS):
        source, target = Path(f"{_SCRATCH}{path}"), Path(f"{_NEW}{path}")
        target.mkdir() if source.is_dir() else target.touch()
        system.mount(str(source), str(target), flags=system.BIND)  # sealed as well
    for name in ("1", "thread-self"):
        Path(f"{_NEW}/proc/{name}").symlink_to("self")


def _mount_temporary() -> None:
    for name in ("temporary", "upper", "work"):
        Path(f"{_SCRATCH}/{name}").mkdir()
    Path(f"{_NEW}{TEMPORARY}").mkdir(exist_ok=True)
    system.mount(f"{_SCRATCH}/temporary", f"{_NEW}{TEMPORARY}", flags=system.BIND)
    Path(f"{_NEW}{CACHE}").mkdir()


def _mount_workspace(confinement: Confinement, inside: list[str]) -> None:
    root = confinement.root
    Path(f"{_NEW}{root}").mkdir(parents=True, exist_ok=True)
    lower = (_OLD + root).replace("\\", "\\\\").replace(",", "\\,").replace(":", "\\:")
    layers = f"lowerdir={lower},upperdir={_SCRATCH}/upper,workdir={_SCRATCH}/work,userxattr"
    system.mount("overlay", f"{_NEW}{root}", "overlay", _SAFE, layers)
    gone: list[str] = []
    for path in (f"{root}/{each}" for each in sorted(confinement.hidden_folders)):
        if not path.startswith(tuple(gone)) and Path(f"{_OLD}{path}").is_dir():
            system.mount("tmpfs", f"{_NEW}{path}", "tmpfs", _SAFE, "size=64k,mode=0755")
            gone.append(f"{path}/")
    for path in inside:
        _bind(path)
    for path in gone:
        _seal(f"{_NEW}{path}")
    for path in (f"{root}/{each}" for each in confinement.hidden_files):
        if not path.startswith((*gone, *(f"{each}/" for each in inside))):
            # Without devices, so that to open this one is not permitted.
            system.mount(f"{_OLD}/dev/null", f"{_NEW}{path}", flags=system.BIND)
            _seal(f"{_NEW}{path}")


def _seal(target: str) -> None:
    system.mount("none", target, flags=system.REMOUNT | system.BIND | system.READ_ONLY | _SAFE)


def _finish() -> None:
    """Leave the old root, and keep only the upper layer of the scratch space."""
    Path(f"{_NEW}{UPPER}").mkdir()
    system.mount(f"{_SCRATCH}/upper", f"{_NEW}{UPPER}", flags=system.BIND)
    _seal(f"{_NEW}{UPPER}")
    os.chdir(_NEW)
    system.pivot_root(".", ".")  # the old root now lies over the new one
    system.detach(".")
    os.chdir("/")
    _seal("/")


FACTS = tuple(f"/proc/{name}" for name in ("cpuinfo", "meminfo", "stat", "uptime", "loadavg"))
_OLDEST_LANDLOCK = 3
"""The first version that denies truncation; what later ones add, the filter denies, too."""
_WRITE, _READ, _LIST = 1 << 1, 1 << 2, 1 << 3
OWN_FACTS = tuple(
    f"/proc/self/{name}" for name in ("cgroup", "fd", "maps", "pagemap", "stat", "statm", "status")
)
"""Files about the process itself, which it may read."""


def restrict_files(confinement: Confinement, opened: Collection[int] = ()) -> None:
    """Let this process read what the confinement shows and write nothing. Raises OSError.

    Files that are `opened` can be opened again. Before, new privileges must be forbidden.
    """
    version = system.find_landlock_version()
    if version < _OLDEST_LANDLOCK:
        raise OSError(f"Landlock is too old here (version {version}, {_OLDEST_LANDLOCK} is needed)")
    files = (1 << (16 if version >= 5 else 15)) - 1
    tcp, scopes = 3 if version >= 4 else 0, 3 if version >= 6 else 0  # all that there are
    rules = system.make_ruleset(files, tcp, scopes)
    for path in ALIKE:
        _allow(rules, path, _READ | _WRITE)
    for path in (*OWN_FACTS, *FACTS):
        _allow(rules, path, _READ | _LIST)
    for each in opened:
        system.allow(rules, each, _READ)
    hidden = {"/proc", *confinement.hidden_paths}
    above = {str(parent) for path in hidden for parent in Path(path).parents}
    for top in (confinement.root, *confinement.readable):
        real = os.path.realpath(top)
        if is_in(top, confinement.root) and real != top:
            continue  # a link that leads anywhere: whoever writes in the workspace may have made it
        _allow(rules, real, _LIST)
        for path in _list_visible(real, hidden, above):
            _allow(rules, path, _READ)
    system.restrict_self(rules)


def _list_visible(path: str, hidden: Collection[str], above: Collection[str]) -> Iterator[str]:
    """Yield what there is at a path: folders only if nothing in them is hidden."""
    if path not in above:
        yield path
        return
    with os.scandir(path) as entries:
        for entry in entries:
            if entry.path not in hidden and not entry.is_symlink():
                yield from _list_visible(entry.path, hidden, above)


def _allow(rules: int, path: str, rights: int) -> None:
    """Allow rights to a file, or to all in a folder, if there is one."""
    try:
        opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    if not stat.S_ISDIR(os.fstat(opened).st_mode):
        rights &= ~_LIST
    if rights:
        system.allow(rules, opened, rights)
    if path not in OWN_FACTS:  # which are known only as long as they are open
        os.close(opened)
