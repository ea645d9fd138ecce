"""The bubblewrap sandbox: the files, variables and options of a command in it, and its detection.

The system's programs and this Python are readable, the workspace is writable at its own path,
everything else is empty. There is no network, no other process, no capability. A program tries to
escape before the sandbox is relied on.
"""

from __future__ import annotations

import contextlib
import inspect
import json
import os
import platform
import secrets
import shutil
import site
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ipyagent.imports import PACKAGES
from ipyagent.plaintext import word_set
from ipyagent.tools.path_rules import STATE
from ipyagent.tools.sandbox import escape_probe, seccomp
from ipyagent.tools.sandbox.protected_paths import ProtectedPaths, WorkspaceScan

TMP = "/tmp"  # noqa: S108 - the box has its own
HOME = f"{TMP}/home"
SHARED = "/dev/shm"  # noqa: S108 - likewise

_SYSTEM = ("/usr", "/nix/store")
_ROOTS = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
# What programs need to start and to tell the time; no /etc/shadow, and no key.
_ETC = word_set("""
    alternatives fonts group host.conf hosts ld.so.cache ld.so.conf ld.so.conf.d localtime magic
    mime.types nsswitch.conf os-release passwd protocols services ssl/certs ssl/openssl.cnf terminfo
    timezone
""")
# What there is of a Python, in an environment and in an installation; the rest of such a folder
# may be the user's: a project that is an environment as well, a home with a Python in ~/bin.
_ENVIRONMENT = ("bin", "include", "lib", "lib64", "pyvenv.cfg")
_INSTALLATION = (*_ENVIRONMENT, "etc/fonts", "libexec", "share")
_NAMESPACES = ("user", "pid", "net", "ipc", "uts")
_SCRATCH = str(1024**3)  # bytes in /tmp, and in /dev/shm
READABLE_STATE = ("outputs", "skills")
"""The files of our own state that every tool may read."""
_TERMINAL = ("COLORTERM", "COLUMNS", "LINES", "NO_COLOR", "TERM")  # pandas asks for its size
_THREADS = ("OMP_", "MKL_", "OPENBLAS_", "NUMEXPR_", "BLIS_", "VECLIB_", "KMP_")
_LANGUAGE = ("LANG", "LANGUAGE", "TZ")
_USER_VARIABLES = (*_LANGUAGE, "HOME", "LD_LIBRARY_PATH", "LOGNAME", "PATH", "TMPDIR", "USER")
# Unbuffered, so that output and errors keep their order.
_ALWAYS = {"TERM": "dumb", "PYTHONUNBUFFERED": "1", "MPLBACKEND": "Agg"}


def environment(root: str) -> dict[str, str]:
    """Return the variables of a sandboxed command: an allow-list, so no secret is among them.

    Modules of the workspace can be imported, which is safe only there.
    """
    return {
        **_pick_variables(_LANGUAGE),
        **_ALWAYS,
        "PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin",
        "HOME": HOME,
        "TMPDIR": TMP,
        "PYTHONPATH": root,
        "PYTHONDONTWRITEBYTECODE": "1",
        **({"PYTHONUSERBASE": site.getuserbase()} if site.ENABLE_USER_SITE else {}),
    }


def unsandboxed_environment() -> dict[str, str]:
    """Return the variables of a command without a sandbox: an allow-list as well."""
    return {**_pick_variables(_USER_VARIABLES), **_ALWAYS}


def kept_variables() -> list[str]:
    """Return the names of the variables that code on a copy of the kernel may read."""
    others = ("SHELL", "PWD", "MPLBACKEND", "VIRTUAL_ENV", "CONDA_PREFIX")
    given = {*_USER_VARIABLES, *_TERMINAL, *others}
    return [n for n in os.environ if n in given or n.startswith(("LC_", "PYTHON", *_THREADS))]


def _pick_variables(names: Iterable[str]) -> dict[str, str]:
    given = os.environ.items()
    return {name: value for name, value in given if name in names or name.startswith("LC_")}


def build_arguments(
    root: str, guarded: ProtectedPaths, options: frozenset[str], readable_state: Iterable[str] = ()
) -> list[str]:
    """Return the arguments of bubblewrap for a workspace.

    `options` are the newer options that it supports, `readable_state` the files of our own state
    that the command may read beyond those that every tool may.
    """
    limit = ["--size", _SCRATCH] if "--size" in options else []
    return [
        *(f"--unshare-{each}" for each in _NAMESPACES),
        "--unshare-cgroup-try",
        *(["--disable-userns"] if "--disable-userns" in options else []),
        *("--cap-drop", "ALL", "--die-with-parent", "--new-session"),
        *_system_mounts(),
        # Else root, without any capability, could still change the settings in /proc/sys.
        *("--proc", "/proc", "--remount-ro", "/proc"),
        *("--dev", "/dev", *limit, "--tmpfs", SHARED),
        *("--remount-ro", "/dev", *limit, "--tmpfs", TMP, "--dir", HOME),
        *_python_mounts(root, inside=False),
        *("--bind", root, root),
        *_python_mounts(root, inside=True),
        *_state_mounts(f"{root}/{STATE}", readable_state),
        *_protection_mounts(root, guarded),
        *("--remount-ro", "/", "--chdir", root),
    ]


def system_paths() -> tuple[dict[str, str], list[str]]:
    """Return the system's readable paths: links with their targets, and files and folders."""
    links = {p: str(Path(p).readlink()) for p in (*_SYSTEM, *_ROOTS) if Path(p).is_symlink()}
    places = [path for path in (*_SYSTEM, *_ROOTS) if path not in links]
    return links, [*places, *(f"/etc/{name}" for name in sorted(_ETC))]


def _system_mounts() -> Iterator[str]:
    links, places = system_paths()
    for link, target in links.items():
        yield from ("--symlink", target, link)
    for path in places:
        yield from ("--ro-bind-try", path, path)


def _python_mounts(root: str, *, inside: bool) -> Iterator[str]:
    """Yield the mounts of this Python: those inside the workspace come after the others."""
    for path in sorted(python_paths(root)):
        if _is_in(path, [root]) == inside and not _is_in(path, _SYSTEM):
            yield from ("--ro-bind-try", path, path)


def python_paths(root: str) -> frozenset[str]:
    """Return the folders of this Python, its environment, this and the user's own packages.

    They are read-only in the sandbox, so those in the workspace are not scanned.
    """
    prefixes = {sys.prefix, sys.base_prefix, str(Path(sys.executable).resolve().parent.parent)}
    places = {part for each in _with_real_paths(prefixes) for part in _prefix_paths(each, root)}
    places.add(str(Path(__file__).parents[2]))
    # Clusters and notebook services offer packages by PYTHONPATH.
    places |= _with_real_paths({each for each in sys.path if Path(each).name in PACKAGES})
    if site.ENABLE_USER_SITE:
        places |= _with_real_paths({site.getusersitepackages()})
    return frozenset(each for each in places if not _is_in(root, [each]))


def _with_real_paths(paths: set[str]) -> set[str]:
    return paths | {os.path.realpath(each) for each in paths}


def _prefix_paths(prefix: str, root: str) -> list[str]:
    """Return Python's parts of a prefix: all of it only if it lies in the workspace."""
    if prefix != root and _is_in(prefix, [root]):
        return [prefix]
    made = prefix == root or Path(prefix, "pyvenv.cfg").exists()
    return [str(Path(prefix, name)) for name in (_ENVIRONMENT if made else _INSTALLATION)]


def _state_mounts(state: str, readable_state: Iterable[str]) -> Iterator[str]:
    yield from ("--tmpfs", state)
    for name in (*READABLE_STATE, *readable_state):
        yield from ("--ro-bind-try", f"{state}/{name}", f"{state}/{name}")
    yield from ("--remount-ro", state)


def _protection_mounts(root: str, guarded: ProtectedPaths) -> Iterator[str]:
    folders = guarded.hidden_folders
    gone = {f"{root}/{path}" for path in folders}
    for path in _mountable(guarded.read_only, gone, root):
        yield from ("--ro-bind-try", path, path)
    for path in _mountable(folders, gone, root):
        yield from ("--perms", "0000", "--tmpfs", path, "--remount-ro", path)
    for path in _mountable(guarded.hidden_files, gone, root):
        # Bubblewrap's mounts have no devices: to open this one is not permitted.
        yield from ("--ro-bind", "/dev/null", path)


def _mountable(paths: Iterable[str], gone: set[str], root: str) -> Iterator[str]:
    """Yield absolute paths, without those in hidden folders, where nothing can be mounted."""
    for path in sorted(f"{root}/{each}" for each in paths):
        above = {*map(str, Path(path).parents)}
        if not above & {*gone, f"{root}/{STATE}"}:
            yield path


def _is_in(path: str, folders: Iterable[str]) -> bool:
    return any(path == each or path.startswith(each + "/") for each in folders)


# Not the user's PATH: it may lead into the workspace.
_PATH = "/usr/local/bin:/usr/bin:/bin:/run/current-system/sw/bin"
_NEWER_OPTIONS = ("--disable-userns", "--size")
_PROBE_SECONDS = 10.0


@dataclass(frozen=True)
class SandboxSupport:
    """The sandbox support of this machine: `problem` says why it cannot be relied on.

    `seccomp_filter` is the filter of system calls; `unfiltered_reason` says why there is none.
    """

    bwrap: str = ""
    options: frozenset[str] = frozenset()
    problem: str | None = None
    seccomp_filter: bytes = b""
    unfiltered_reason: str | None = None


@cache
def detect_sandbox() -> SandboxSupport:
    """Return what bubblewrap supports here; tried once in a process."""
    if sys.platform != "linux":
        return SandboxSupport(problem=f"there is no sandbox for this system ({sys.platform}) yet")
    bwrap = shutil.which("bwrap", path=_PATH)
    if bwrap is None:
        return SandboxSupport(problem="bubblewrap is not installed (package bubblewrap)")
    try:
        completed = subprocess.run(  # noqa: S603
            [bwrap, "--help"], capture_output=True, timeout=_PROBE_SECONDS, check=False
        )
        options = frozenset(
            each for each in _NEWER_OPTIONS if each.encode() in completed.stdout + completed.stderr
        )
        calls, unfiltered = seccomp.build_filter(), None
        problem = _try_escape(bwrap, options, calls)
        if not calls:
            unfiltered = f"there is no filter of system calls for {platform.machine()}"
        elif problem and not _try_escape(bwrap, options):
            calls, problem, unfiltered = b"", None, f"it cannot be filtered: {problem}"
        return SandboxSupport(bwrap, options, problem, calls, unfiltered)
    except (OSError, subprocess.SubprocessError) as error:
        return SandboxSupport(problem=f"bubblewrap could not be tried: {error}")


def _try_escape(bwrap: str, options: frozenset[str], calls: bytes = b"") -> str | None:
    """Try to escape; return why the sandbox cannot be trusted, or None."""
    with (
        tempfile.TemporaryDirectory(prefix="ipyagent-") as folder,
        tempfile.TemporaryFile() as program,
        _listeners() as addresses,
    ):
        program.write(calls)
        program.seek(0)
        root = Path(os.path.realpath(folder), "workspace")
        (root / ".git").mkdir(parents=True)
        (root / ".ipyagent").mkdir()
        (root / ".env").write_text(escape_probe.CANARY)
        guarded = WorkspaceScan(root, frozenset()).run()
        variables = environment(str(root))
        outside = root.parent / "outside"
        tries = {"names": sorted(variables), "outside": str(outside), **addresses}
        tries["filtered"] = bool(calls)
        command = [sys.executable, "-I", "-S", "-c", inspect.getsource(escape_probe)]
        arguments = build_arguments(str(root), guarded, options)
        if calls:
            arguments += ["--seccomp", str(program.fileno())]
        completed = subprocess.run(  # noqa: S603
            [bwrap, *arguments, "--", *command, json.dumps(tries)],
            env=variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_PROBE_SECONDS,
            check=False,
            pass_fds=[program.fileno()] if calls else [],
        )
        if completed.returncode or not completed.stdout.startswith("["):
            message = (completed.stderr or completed.stdout).strip().splitlines() or [
                "it said nothing"
            ]
            return f"bubblewrap does not work here ({message[-1][:200]})"
        escapes = json.loads(completed.stdout)
        if outside.exists():
            escapes.append("writes elsewhere")
        return f"bubblewrap does not hold here ({', '.join(escapes)})" if escapes else None


@contextlib.contextmanager
def _listeners() -> Iterator[dict[str, object]]:
    """Open two servers that nothing in the sandbox should reach."""
    name = f"ipyagent-{secrets.token_hex(8)}"
    with socket.create_server(("127.0.0.1", 0)) as tcp, socket.socket(socket.AF_UNIX) as unix:
        unix.bind(f"\0{name}")
        unix.listen()
        yield {"port": tcp.getsockname()[1], "name": name}
