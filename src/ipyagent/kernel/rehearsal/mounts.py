"""The file system of a rehearsal: what it may see is mounted anew, and nothing else is there.

The workspace is covered by an overlay, whose upper layer collects what would change.
"""

from __future__ import annotations

import os
from pathlib import Path

from ipyagent.kernel.rehearsal import system_calls as calls
from ipyagent.kernel.rehearsal.confinement import ALIKE, Confinement, Limits

TEMPORARY = "/tmp"  # noqa: S108 - the rehearsal has its own
CACHE = f"{TEMPORARY}/.ipyagent-cache"
"""Where libraries find nothing and may keep what they make; no code knows of it."""
UPPER = "/.rehearsal"
"""The overlay's upper layer, as it is seen afterwards."""
_OLD, _NEW, _SCRATCH = "/old", "/new", "/scratch"
SHARED = "/dev/shm"  # noqa: S108 - likewise
_STANDARD = {"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0"}
_STANDARD |= {"stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2"}
_SAFE = calls.NO_SETUID | calls.NO_DEVICES


def build_root(confinement: Confinement, limits: Limits) -> None:
    """Make the confinement's files the root; in a mount namespace of its own."""
    here = os.getcwd()  # noqa: PTH109
    calls.mount("none", "/", flags=calls.RECURSIVE | calls.PRIVATE)
    size = f"size={limits.files},nr_inodes=50000"
    # On a folder that every system has.
    calls.mount("tmpfs", TEMPORARY, "tmpfs", _SAFE, f"{size},mode=0755")
    os.chdir(TEMPORARY)
    for each in ("old", "new", "scratch"):
        os.mkdir(each)  # noqa: PTH102
    calls.mount("new", "new", flags=calls.BIND | calls.RECURSIVE)
    calls.pivot_root(".", "old")
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
    calls.mount(str(source), str(target), flags=calls.BIND | calls.RECURSIVE)
    calls.make_read_only(str(target))


def _mount_devices() -> None:
    Path(f"{_NEW}{SHARED}").mkdir(parents=True)
    for path in ALIKE:
        Path(f"{_NEW}{path}").touch()
        calls.mount(f"{_OLD}{path}", f"{_NEW}{path}", flags=calls.BIND)
    for name, target in _STANDARD.items():
        Path(f"{_NEW}/dev/{name}").symlink_to(target)
    calls.mount("tmpfs", f"{_NEW}{SHARED}", "tmpfs", _SAFE, "size=64m,mode=1777")
    Path(f"{_NEW}/proc").mkdir()
    try:
        calls.mount("proc", f"{_NEW}/proc", "proc", _SAFE)
        _seal(f"{_NEW}/proc")
    except PermissionError:
        pass  # a container that hides a part of /proc: then there is none


def _mount_temporary() -> None:
    for name in ("temporary", "upper", "work"):
        Path(f"{_SCRATCH}/{name}").mkdir()
    Path(f"{_NEW}{TEMPORARY}").mkdir(exist_ok=True)
    calls.mount(f"{_SCRATCH}/temporary", f"{_NEW}{TEMPORARY}", flags=calls.BIND)
    Path(f"{_NEW}{CACHE}").mkdir()


def _mount_workspace(confinement: Confinement, inside: list[str]) -> None:
    root = confinement.root
    Path(f"{_NEW}{root}").mkdir(parents=True, exist_ok=True)
    lower = (_OLD + root).replace("\\", "\\\\").replace(",", "\\,").replace(":", "\\:")
    layers = f"lowerdir={lower},upperdir={_SCRATCH}/upper,workdir={_SCRATCH}/work,userxattr"
    calls.mount("overlay", f"{_NEW}{root}", "overlay", _SAFE, layers)
    gone: list[str] = []
    for path in (f"{root}/{each}" for each in sorted(confinement.hidden_folders)):
        if not path.startswith(tuple(gone)) and Path(f"{_OLD}{path}").is_dir():
            calls.mount("tmpfs", f"{_NEW}{path}", "tmpfs", _SAFE, "size=64k,mode=0755")
            gone.append(f"{path}/")
    for path in inside:
        _bind(path)
    for path in gone:
        _seal(f"{_NEW}{path}")
    for path in (f"{root}/{each}" for each in confinement.hidden_files):
        if not path.startswith((*gone, *(f"{each}/" for each in inside))):
            # Without devices, so that to open this one is not permitted.
            calls.mount(f"{_OLD}/dev/null", f"{_NEW}{path}", flags=calls.BIND)
            _seal(f"{_NEW}{path}")


def _seal(target: str) -> None:
    calls.mount("none", target, flags=calls.REMOUNT | calls.BIND | calls.READ_ONLY | _SAFE)


def _finish() -> None:
    """Leave the old root, and keep only the upper layer of the scratch space."""
    Path(f"{_NEW}{UPPER}").mkdir()
    calls.mount(f"{_SCRATCH}/upper", f"{_NEW}{UPPER}", flags=calls.BIND)
    _seal(f"{_NEW}{UPPER}")
    os.chdir(_NEW)
    calls.pivot_root(".", ".")  # the old root now lies over the new one
    calls.detach(".")
    os.chdir("/")
    _seal("/")
