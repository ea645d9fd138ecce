"""The box that bubblewrap makes: what a command finds in it, and nothing else.

The system's programs and this Python are there to be read, the workspace at its own path to be
changed, all else is empty. There is no network, no other process, no capability.
"""

from __future__ import annotations

import os
import site
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from ipyagent.tools.names import STATE
from ipyagent.tools.sandbox.guard import Guarded

TMP = "/tmp"  # noqa: S108 - the box has its own
HOME = f"{TMP}/home"
SHARED = "/dev/shm"  # noqa: S108 - likewise

_SYSTEM = ("/usr", "/nix/store")
_ROOTS = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
# What programs need to start and to tell the time; no /etc/shadow, and no key.
_ETC = (
    "alternatives",
    "fonts",
    "group",
    "host.conf",
    "hosts",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "localtime",
    "magic",
    "mime.types",
    "nsswitch.conf",
    "os-release",
    "passwd",
    "protocols",
    "services",
    "ssl/certs",
    "ssl/openssl.cnf",
    "terminfo",
    "timezone",
)
# What there is of a Python, in an environment and in an installation; the rest of such a folder
# may be the person's: a project that is an environment as well, a home with a Python in ~/bin.
_ENVIRONMENT = ("bin", "include", "lib", "lib64", "pyvenv.cfg")
_INSTALLATION = (*_ENVIRONMENT, "etc/fonts", "libexec", "share")
_NAMESPACES = ("user", "pid", "net", "ipc", "uts")
_SCRATCH = str(1024**3)  # bytes in /tmp, and in /dev/shm
_LANGUAGE = ("LANG", "LANGUAGE", "TZ")
_PERSON = (*_LANGUAGE, "HOME", "LD_LIBRARY_PATH", "LOGNAME", "PATH", "TMPDIR", "USER")
# Unbuffered, so that what is printed and what is reported as an error keep their order.
_ALWAYS = {"TERM": "dumb", "PYTHONUNBUFFERED": "1", "MPLBACKEND": "Agg"}


def environment(root: str) -> dict[str, str]:
    """The variables of a command in the box: an allow-list, so no secret is among them.

    Modules of the workspace can be imported, which is safe only there.
    """
    return {
        **_ours(_LANGUAGE),
        **_ALWAYS,
        "PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin",
        "HOME": HOME,
        "TMPDIR": TMP,
        "PYTHONPATH": root,
        "PYTHONDONTWRITEBYTECODE": "1",
        **({"PYTHONUSERBASE": site.getuserbase()} if site.ENABLE_USER_SITE else {}),
    }


def bare() -> dict[str, str]:
    """The variables of a command outside of any box: an allow-list as well."""
    return {**_ours(_PERSON), **_ALWAYS}


def _ours(names: Iterable[str]) -> dict[str, str]:
    given = os.environ.items()
    return {name: value for name, value in given if name in names or name.startswith("LC_")}


def arguments(
    root: str, guarded: Guarded, options: frozenset[str], shows: Iterable[str] = ()
) -> list[str]:
    """What bubblewrap is told for a workspace.

    `options` are the newer ones that it knows, `shows` the files of our own state that the command
    may read beside those that every tool may.
    """
    limit = ["--size", _SCRATCH] if "--size" in options else []
    return [
        *(f"--unshare-{each}" for each in _NAMESPACES),
        "--unshare-cgroup-try",
        *(["--disable-userns"] if "--disable-userns" in options else []),
        *("--cap-drop", "ALL", "--die-with-parent", "--new-session"),
        *_system(),
        # Else root, without any capability, could still change the settings in /proc/sys.
        *("--proc", "/proc", "--remount-ro", "/proc"),
        *("--dev", "/dev", *limit, "--tmpfs", SHARED),
        *("--remount-ro", "/dev", *limit, "--tmpfs", TMP, "--dir", HOME),
        *_python(root, inside=False),
        *("--bind", root, root),
        *_python(root, inside=True),
        *_state(f"{root}/{STATE}", shows),
        *_guards(root, guarded),
        *("--remount-ro", "/", "--chdir", root),
    ]


def _system() -> Iterator[str]:
    for path in (*_SYSTEM, *_ROOTS):
        if Path(path).is_symlink():
            yield from ("--symlink", str(Path(path).readlink()), path)
        else:
            yield from ("--ro-bind-try", path, path)
    for name in _ETC:
        yield from ("--ro-bind-try", f"/etc/{name}", f"/etc/{name}")


def _python(root: str, *, inside: bool) -> Iterator[str]:
    """The places of this Python: those in the workspace are told after it, the others before."""
    for path in sorted(own_places(root)):
        if _is_in(path, [root]) == inside and not _is_in(path, _SYSTEM):
            yield from ("--ro-bind-try", path, path)


def own_places(root: str) -> frozenset[str]:
    """Where this Python, its environment and the person's own packages are.

    All of it is read-only in the box, so what lies in the workspace isn't looked through.
    """
    prefixes = {sys.prefix, sys.base_prefix, str(Path(sys.executable).resolve().parent.parent)}
    places = {part for each in _and_real(prefixes) for part in _parts(each, root)}
    if site.ENABLE_USER_SITE:
        places |= _and_real({site.getusersitepackages()})
    return frozenset(each for each in places if not _is_in(root, [each]))


def _and_real(paths: set[str]) -> set[str]:
    return paths | {os.path.realpath(each) for each in paths}


def _parts(prefix: str, root: str) -> list[str]:
    """What of a prefix is Python's: all of it only where it lies in the workspace."""
    if prefix != root and _is_in(prefix, [root]):
        return [prefix]
    made = prefix == root or Path(prefix, "pyvenv.cfg").exists()
    return [str(Path(prefix, name)) for name in (_ENVIRONMENT if made else _INSTALLATION)]


def _state(state: str, shows: Iterable[str]) -> Iterator[str]:
    yield from ("--tmpfs", state)
    for name in ("outputs", "skills", *shows):
        yield from ("--ro-bind-try", f"{state}/{name}", f"{state}/{name}")
    yield from ("--remount-ro", state)


def _guards(root: str, guarded: Guarded) -> Iterator[str]:
    folders = guarded.hidden_folders
    gone = {f"{root}/{path}" for path in folders}
    for path in _visible(guarded.kept, gone, root):
        yield from ("--ro-bind-try", path, path)
    for path in _visible(folders, gone, root):
        yield from ("--perms", "0000", "--tmpfs", path, "--remount-ro", path)
    for path in _visible(guarded.hidden_files, gone, root):
        # Bubblewrap's mounts have no devices: to open this one is not permitted.
        yield from ("--ro-bind", "/dev/null", path)


def _visible(paths: Iterable[str], gone: set[str], root: str) -> Iterator[str]:
    """Absolute paths, without those in hidden folders, where nothing can be mounted."""
    for path in sorted(f"{root}/{each}" for each in paths):
        above = {*map(str, Path(path).parents)}
        if not above & {*gone, f"{root}/{STATE}"}:
            yield path


def _is_in(path: str, folders: Iterable[str]) -> bool:
    return any(path == each or path.startswith(each + "/") for each in folders)
