"""The bubblewrap sandbox: the files, variables and options of a command in it, and its detection.

The system's programs and this Python are readable, the workspace is writable at its own path,
everything else is empty. There is no network, no other process, no capability. A program tries to
escape before the sandbox is relied on.

A filter of system calls (seccomp) also denies interfaces of the Linux kernel that scripts do not
need: other processes' memory, mounts, namespaces, loading code, and interfaces in which faults are
often found. A denied call fails with EPERM.
"""

from __future__ import annotations

import contextlib
import errno
import inspect
import json
import os
import platform
import secrets
import shutil
import site
import socket
import struct
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
from ipyagent.tools.sandbox import escape_probe
from ipyagent.tools.sandbox.protected_paths import ProtectedPaths, WorkspaceScan

_LOAD, _EQUAL, _AT_LEAST, _AND, _RETURN = 0x20, 0x15, 0x35, 0x54, 0x06
_NUMBER, _ARCHITECTURE, _FIRST, _SECOND = 0, 4, 16, 24
"""Offsets of a call's number, architecture and the low halves of its arguments."""
_ALLOW = 0x7FFF0000
_DENY = 0x00050000 | errno.EPERM
# The flags of clone3 are in memory, out of reach; libc has clone.
_ABSENT = 0x00050000 | errno.ENOSYS

_ALL = 0xFFFFFFFF
_NAMESPACES = 0x7E020000  # the CLONE_NEW… flags
_NEW_TIME = 0x80  # of unshare alone; in clone it belongs to the signal
_THREAD = 0x10000  # CLONE_THREAD
_FAMILIES = (2, 10, 16)  # of sockets: AF_INET, AF_INET6, AF_NETLINK
_KIND, _CONNECTED = 15, (1, 5)  # of sockets: SOCK_STREAM, SOCK_SEQPACKET
_TYPE_INTO_TERMINAL, _PASTE_INTO_TERMINAL = 0x5412, 0x541C  # TIOCSTI, TIOCLINUX
_ASKING = (0x5401, 0x802C542A, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)
"""Requests to open files that change none: TCGETS, TCGETS2, TIOCGWINSZ, FIONREAD, FIONBIO, FIONCLEX
and FIOCLEX. File systems have others, which need no right to write."""
_OF_DESCRIPTOR = (0, 1, 2, 3, 4, 1030, 1031, 1032, 1033, 1034)
"""Commands of fcntl for a descriptor, a pipe or memory: to copy it, its flags, its size, its seals.
Others send signals, or leave on a file a lease or a hint, which need no right to write."""
_LOCKS = (5, 6, 7, 36, 37, 38)  # F_GETLK, F_SETLK, F_SETLKW, and those of open files
_EXCLUSIVE = 2  # LOCK_EX
_SIGNAL_OF_PARENT = 1  # PR_SET_PDEATHSIG
_UNKNOWN = 468
"""Calls from here on are newer than this table."""

_DENIED = """
    ptrace 101 117, syslog 103 116, pivot_root 155 41, acct 163 89, settimeofday 164 170,
    mount 165 40, umount2 166 39, swapon 167 224, swapoff 168 225, reboot 169 142, iopl 172 -,
    ioperm 173 -, init_module 175 105, delete_module 176 106, quotactl 179 60,
    clock_settime 227 112, kexec_load 246 104, add_key 248 217, request_key 249 218,
    keyctl 250 219, perf_event_open 298 241, fanotify_init 300 262, open_by_handle_at 304 265,
    setns 308 268, process_vm_readv 310 270, process_vm_writev 311 271, kcmp 312 272,
    finit_module 313 273, kexec_file_load 320 294, bpf 321 280, userfaultfd 323 282,
    io_uring_setup 425, io_uring_enter 426, io_uring_register 427, open_tree 428, move_mount 429,
    fsopen 430, fsconfig 431, fsmount 432, fspick 433, pidfd_getfd 438, mount_setattr 442
"""
"""Names of calls, with their numbers on x86_64 and aarch64, or that on both."""
_BEYOND_ONE = """
    fork 57 -, vfork 58 -, execve 59 221, execveat 322 281,
    memfd_create 319 279, memfd_secret 447, shmget 29 194
"""
"""Calls that start processes, and that take memory which no limit of one counts."""
_SHARED = """
    chmod 90 -, fchmod 91 52, fchmodat 268 53, fchmodat2 452, chown 92 -, fchown 93 55,
    lchown 94 -, fchownat 260 54, utime 132 -, utimes 235 -, futimesat 261 -, utimensat 280 88,
    setxattr 188 5, lsetxattr 189 6, fsetxattr 190 7, setxattrat 463, removexattr 197 14,
    lremovexattr 198 15, fremovexattr 199 16, removexattrat 466, mknod 133 -, mknodat 259 33,
    getxattr 191 8, lgetxattr 192 9, fgetxattr 193 10, getxattrat 464, listxattr 194 11,
    llistxattr 195 12, flistxattr 196 13, listxattrat 465,
    inotify_add_watch 254 27, open_tree_attr 467, statmount 457, listmount 458,
    socket 41 198, bind 49 200, connect 42 203, shmat 30 196, shmctl 31 195,
    semget 64 190, semop 65 193, semtimedop 220 192, semctl 66 191, msgget 68 186, msgsnd 69 189,
    msgrcv 70 188, msgctl 71 187, mq_open 240 180, mq_unlink 241 181,
    kill 62 129, tkill 200 130, tgkill 234 131, rt_sigqueueinfo 129 138, rt_tgsigqueueinfo 297 240,
    pidfd_open 434, pidfd_send_signal 424, process_madvise 440, process_mrelease 448,
    setpriority 141 140, ioprio_set 251 30, sched_setparam 142 118, sched_setscheduler 144 119,
    sched_setattr 314 274, sched_setaffinity 203 122, migrate_pages 256 238, move_pages 279 239,
    personality 135 92
"""
"""Calls that reach files, processes and sockets which namespaces would keep away; Landlock does
not restrict them, or only since recently."""
_CHECKED = """
    unshare 272 97, clone 56 220, socket 41 198, ioctl 16 29, prlimit64 302 261, socketpair 53 199,
    fcntl 72 25, prctl 157 167, flock 73 32
"""
_CLONE3 = 435


@dataclass(frozen=True)
class _Rule:
    """A rule for one call: which values the bits `mask` of an argument may, or must not, have."""

    call: str
    argument: int
    mask: int
    values: tuple[int, ...]
    allowed: bool = True


@dataclass(frozen=True)
class _Architecture:
    """An architecture: its number in the kernel, and its column in the tables above."""

    audit: int
    column: int
    beyond: int
    """Numbers from here on are another interface to the same calls."""

    def numbers(self, table: str) -> dict[str, int]:
        """Return the numbers of the calls in a table that there are here."""
        rows = (each.split() for each in table.split(","))
        found = {name: columns[min(self.column, len(columns) - 1)] for name, *columns in rows}
        return {name: int(number) for name, number in found.items() if number != "-"}


_ARCHITECTURES = {
    "x86_64": _Architecture(0xC000003E, 0, beyond=0x40000000),
    "aarch64": _Architecture(0xC00000B7, 1, beyond=_ALL),
}


def build_filter(machine: str = "", *, processes: bool = True, namespaces: bool = True) -> bytes:
    """Return the filter for this machine; empty if there is none for it.

    Without `processes`, no process can be started either, only threads. Without `namespaces`, what
    these would keep away is denied as well.
    """
    known = _ARCHITECTURES.get(machine or platform.machine())
    if known is None or sys.byteorder != "little":
        return b""
    denied = (
        _DENIED + ("" if processes else f",{_BEYOND_ONE}") + ("" if namespaces else f",{_SHARED}")
    )
    rules = _list_rules(processes=processes, namespaces=namespaces)
    beyond = known.beyond if namespaces else _UNKNOWN
    return b"".join(_instructions(known, known.numbers(denied).values(), rules, beyond))


def _list_rules(*, processes: bool, namespaces: bool) -> Iterator[_Rule]:
    yield _Rule("unshare", _FIRST, _NAMESPACES | _NEW_TIME, (0,))
    if processes:
        yield _Rule("clone", _FIRST, _NAMESPACES, (0,))
    else:
        yield _Rule("clone", _FIRST, _NAMESPACES | _THREAD, (_THREAD,))
        yield _Rule("prctl", _FIRST, _ALL, (_SIGNAL_OF_PARENT,), allowed=False)
        # Sockets of a virtual machine to its host (AF_VSOCK) belong to no network namespace, nor do
        # those that have a place among files (AF_UNIX): one in a readable folder can be reached.
        yield _Rule("socket", _FIRST, _ALL, _FAMILIES)
        yield _Rule("socketpair", _SECOND, _KIND, _CONNECTED)  # others can send anywhere
        yield _Rule("fcntl", _SECOND, _ALL, _OF_DESCRIPTOR + _LOCKS)
    if namespaces:
        terminal = (_TYPE_INTO_TERMINAL, _PASTE_INTO_TERMINAL)
        yield _Rule("ioctl", _SECOND, _ALL, terminal, allowed=False)
    else:
        yield _Rule("ioctl", _SECOND, _ALL, _ASKING)
        yield _Rule("prlimit64", _FIRST, _ALL, (0,))  # of this process
        yield _Rule("flock", _SECOND, _EXCLUSIVE, (0,))


def _instructions(
    machine: _Architecture, denied: Iterable[int], rules: Iterable[_Rule], beyond: int
) -> Iterator[bytes]:
    yield _encode_instruction(_LOAD, _ARCHITECTURE)
    yield _encode_instruction(_EQUAL, machine.audit, yes=1)
    yield _encode_instruction(_RETURN, _DENY)
    yield _encode_instruction(_LOAD, _NUMBER)
    yield _encode_instruction(_AT_LEAST, beyond, no=1)
    yield _encode_instruction(_RETURN, _DENY)
    for number in denied:
        yield _encode_instruction(_EQUAL, number, no=1)
        yield _encode_instruction(_RETURN, _DENY)
    yield _encode_instruction(_EQUAL, _CLONE3, no=1)
    yield _encode_instruction(_RETURN, _ABSENT)
    numbers = machine.numbers(_CHECKED)
    for rule in rules:
        yield _encode_instruction(_EQUAL, numbers[rule.call], no=len(rule.values) + 4)
        yield _encode_instruction(_LOAD, rule.argument)
        yield _encode_instruction(_AND, rule.mask)
        for left, value in zip(range(len(rule.values), 0, -1), rule.values, strict=True):
            yield _encode_instruction(_EQUAL, value, yes=left)
        yield _encode_instruction(_RETURN, _DENY if rule.allowed else _ALLOW)
        yield _encode_instruction(_RETURN, _ALLOW if rule.allowed else _DENY)
    yield _encode_instruction(_RETURN, _ALLOW)


def _encode_instruction(code: int, value: int, yes: int = 0, no: int = 0) -> bytes:
    """Return one instruction; `yes` and `no` are how many are skipped after a comparison."""
    return struct.pack("<HBBI", code, yes, no, value)


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
_UNSHARED = ("user", "pid", "net", "ipc", "uts")
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
        *(f"--unshare-{each}" for each in _UNSHARED),
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
        told = completed.stdout + completed.stderr
        options = frozenset(each for each in _NEWER_OPTIONS if each.encode() in told)
        calls, unfiltered = build_filter(), None
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
            message = (completed.stderr or completed.stdout).strip() or "it said nothing"
            return f"bubblewrap does not work here ({message.splitlines()[-1][:200]})"
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
