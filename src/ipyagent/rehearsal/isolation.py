"""The isolation of a rehearsal: descriptors, namespaces, files, memory, privileges.

It takes two processes. The first one leaves the namespaces and waits; the second is the first
process of the new ones, and can start no other. Where there are none, Landlock and a stricter
filter of system calls take their place: then nothing is mounted, and contents are hidden, but that
a file is there, its size, its date and where a link leads can still be asked for.

Of the file system, what it may see is mounted anew, and nothing else is there. The workspace is
covered by an overlay, whose upper layer collects what would change.
"""

from __future__ import annotations

import contextlib
import os
import resource
import select
import signal
import stat
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from ipyagent.rehearsal import memory, system_calls as calls
from ipyagent.rehearsal.confinement import ALIKE, Confinement, Limits, Way, is_in

TEMPORARY = "/tmp"  # noqa: S108 - the rehearsal has its own
CACHE = f"{TEMPORARY}/.ipyagent-cache"
"""Where libraries find nothing and may keep what they make; no code knows of it."""
UPPER = "/.rehearsal"
"""The overlay's upper layer, as it is seen afterwards."""
_OLD, _NEW, _SCRATCH = "/old", "/new", "/scratch"
SHARED = "/dev/shm"  # noqa: S108 - likewise
_STANDARD = {"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0"}
_STANDARD |= {"stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2"}
_ENDING = 0.5
"""Seconds in which a thread that has ended leaves the list of the system."""
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
    _mount_facts()


def _mount_facts() -> None:
    """Show of /proc what a process knows of itself and of the machine.

    The rest leads out of the mounts: the program that runs could be changed through its link.
    """
    whole = f"{_SCRATCH}/proc"
    for path in (whole, f"{_NEW}/proc/self"):
        Path(path).mkdir(parents=True)
    try:
        calls.mount("proc", whole, "proc", _SAFE)
        _seal(whole)
    except PermissionError:
        return  # a container that hides a part of /proc: then there is none
    for path in (*OWN_FACTS, *FACTS):
        source, target = Path(f"{_SCRATCH}{path}"), Path(f"{_NEW}{path}")
        target.mkdir() if source.is_dir() else target.touch()
        calls.mount(str(source), str(target), flags=calls.BIND)  # sealed as well
    for name in ("1", "thread-self"):
        Path(f"{_NEW}/proc/{name}").symlink_to("self")


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
    version = calls.find_landlock_version()
    if version < _OLDEST_LANDLOCK:
        raise OSError(f"Landlock is too old here (version {version}, {_OLDEST_LANDLOCK} is needed)")
    files = (1 << (16 if version >= 5 else 15)) - 1
    tcp, scopes = 3 if version >= 4 else 0, 3 if version >= 6 else 0  # all that there are
    rules = calls.make_ruleset(files, tcp, scopes)
    for path in ALIKE:
        _allow(rules, path, _READ | _WRITE)
    for path in (*OWN_FACTS, *FACTS):
        _allow(rules, path, _READ | _LIST)
    for each in opened:
        calls.allow(rules, each, _READ)
    hidden = {"/proc", *confinement.hidden_paths}
    above = {str(parent) for path in hidden for parent in Path(path).parents}
    for top in (confinement.root, *confinement.readable):
        real = os.path.realpath(top)
        if is_in(top, confinement.root) and real != top:
            continue  # a link that leads anywhere: whoever writes in the workspace may have made it
        _allow(rules, real, _LIST)
        for path in _list_visible(real, hidden, above):
            _allow(rules, path, _READ)
    calls.restrict_self(rules)


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
        calls.allow(rules, opened, rights)
    if path not in OWN_FACTS:  # which are known only as long as they are open
        os.close(opened)


_STANDARD_ERROR = 2
_END = {signal.SIGTERM}
BY_SIGNAL = 128
"""Is added to the number of a signal in a process's status, as shells do."""


def leave_kernel(kernel: int, pipe: int, confinement: Confinement) -> OpenFiles:
    """Leave what the first process shares with the kernel: descriptors, signals, namespaces.

    Return the files that the second process may open again. It ends when the kernel does. SIGTERM
    waits until there is a second process to be ended.
    """
    calls.die_with_parent(signal.SIGKILL)
    if os.getppid() != kernel:
        os._exit(1)
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD, signal.SIGALRM):
        signal.signal(number, signal.SIG_DFL)
    os.setsid()  # an interrupt of the terminal is for the kernel
    _check_alone()
    files = replace_descriptors({pipe}, confinement)
    for stop in (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF):
        signal.setitimer(stop, 0)
    if confinement.way == "namespaces":
        _leave_namespaces()
    signal.pthread_sigmask(signal.SIG_BLOCK, _END)
    return files


def _check_alone() -> None:
    """Raise OSError if there is another thread: privileges, filters and Landlock are each one's."""
    deadline = time.monotonic() + _ENDING
    while len(os.listdir("/proc/self/task")) > 1:  # noqa: PTH208
        if time.monotonic() > deadline:
            raise OSError("a library starts threads on the copy, which would not be isolated")
        time.sleep(0.001)


def _leave_namespaces() -> None:
    user, group = os.geteuid(), os.getegid()
    try:
        calls.unshare(calls.NAMESPACES)  # of processes, that of the next child
    except OSError as error:
        raise OSError(f"users may not make namespaces here ({error.strerror})") from None
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1")


OpenFiles = Mapping[int, tuple[str, int]]
"""The paths of open files, and the places in them, by the numbers of their descriptors."""


def replace_descriptors(kept: Collection[int], confinement: Confinement) -> OpenFiles:
    """Replace all descriptors but `kept`, whose numbers stay taken.

    Return the regular files among them that the copy may see. All fail when they are used, instead
    of meeting another file.
    """
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    useless = os.open(os.devnull, os.O_PATH | os.O_CLOEXEC)
    files = dict[int, tuple[str, int]]()
    for number in sorted(int(name) for name in os.listdir("/proc/self/fd")):  # noqa: PTH208
        if number in (null, useless, *kept):
            continue
        is_standard = number <= _STANDARD_ERROR
        with contextlib.suppress(OSError):
            path, status = os.readlink(f"/proc/self/fd/{number}"), os.fstat(number)  # noqa: PTH115
            is_seen = stat.S_ISREG(status.st_mode) and confinement.sees(path)
            if is_seen and not is_standard and os.path.samestat(os.stat(path), status):  # noqa: PTH116
                files[number] = path, os.lseek(number, 0, os.SEEK_CUR)
        os.dup2(null if is_standard else useless, number, inheritable=is_standard)
    os.close(null)
    os.close(useless)
    return files


def _open_again(files: OpenFiles) -> None:
    """Open files for reading, as they are seen here: the descriptor of another mount leads there.

    Who has it can open the file again, for writing as well, and change its mode.
    """
    for number, (path, place) in files.items():
        with contextlib.suppress(OSError):
            new = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            os.lseek(new, place, os.SEEK_SET)
            os.dup2(new, number, inheritable=False)
            os.close(new)


_CHECKED_EACH = 50
"""Milliseconds between two looks at what the second process takes."""
_MOST_THREADS, _RESIDENT = 256, ("RssAnon", "RssShmem")
OVER_MEMORY, OVER_THREADS, OVER_TIME, IDLE = range(64, 68)
"""Statuses of the first process when it ended the second, which took too much."""


def wait_in_first(second: int, processes: int, limits: Limits) -> int:
    """Wait for the second process, which SIGTERM ends; it must be waited for by its parent.

    Return 0, BY_SIGNAL and the number of the signal by which it died, or which limit it exceeded:
    the system limits what a process reserves, and libraries reserve much more than they use. Time
    is that of processors; who waits for long waits for what was left behind in the kernel.
    `processes` is the open folder /proc, which is another one once the root is.
    """
    handle, watched = os.pidfd_open(second), _Watched(second, processes, limits)

    def end_second(*_: object) -> None:
        with contextlib.suppress(OSError):
            signal.pidfd_send_signal(handle, signal.SIGKILL)

    signal.signal(signal.SIGTERM, end_second)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _END)
    poll, exceeded = select.poll(), 0
    poll.register(handle, select.POLLIN)
    while not exceeded and not poll.poll(_CHECKED_EACH):
        exceeded = watched.find_exceeded()
    if exceeded:
        end_second()
    _, status = os.waitpid(second, 0)
    return exceeded or (BY_SIGNAL + os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0)


class _Watched:
    """The second process, as the first one sees what it takes."""

    def __init__(self, process: int, processes: int, limits: Limits) -> None:
        self._process, self._processes, self._limits = process, processes, limits
        self._before = _read_numbers(processes, f"{process}/status")
        available = _read_numbers(processes, "meminfo")["MemAvailable"]
        self._most = min(limits.memory >> 10, available // 2)
        self._begun = self._used = self._read_time()
        self._idle_since = time.monotonic()

    def find_exceeded(self) -> int:
        """Return which limit it exceeds, 0 if none."""
        now, used = _read_numbers(self._processes, f"{self._process}/status"), self._read_time()
        if used > self._used:
            self._used, self._idle_since = used, time.monotonic()
        if sum(now[kind] - self._before[kind] for kind in _RESIDENT) > self._most:
            return OVER_MEMORY
        if now["Threads"] > _MOST_THREADS:
            return OVER_THREADS
        if used - self._begun > self._limits.seconds:
            return OVER_TIME
        return IDLE if time.monotonic() - self._idle_since > self._limits.idle else 0

    def _read_time(self) -> float:
        """Return how many seconds of processor time it has used."""
        with contextlib.suppress(OSError):
            opened = os.open(f"{self._process}/stat", os.O_RDONLY, dir_fd=self._processes)
            with os.fdopen(opened, errors="replace") as file:
                fields = file.read().rpartition(")")[2].split()
            return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")
        return 0.0


def _read_numbers(processes: int, name: str) -> Counter[str]:
    """Return the numbers in a file of /proc by their names; none once its process has ended."""
    with contextlib.suppress(OSError):
        opened = os.open(name, os.O_RDONLY, dir_fd=processes)
        with os.fdopen(opened, errors="replace") as file:
            rows = (line.replace(":", " ").split() for line in file)
            return Counter({row[0]: int(row[1]) for row in rows if row[1:] and row[1].isdigit()})
    return Counter()


def isolate(confinement: Confinement, limits: Limits, life: int, files: OpenFiles) -> None:
    """Cut the second process off from files, the environment and privileges. Raises OSError.

    It ends with the first process, whose end of the pipe `life` tells if it has ended already.
    """
    calls.die_with_parent(signal.SIGKILL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _END)
    poll = select.poll()
    poll.register(life, 0)
    if poll.poll(0):
        os._exit(1)
    os.close(life)
    _check_alone()
    if not confinement.call_filter:
        raise OSError("there is no filter of system calls for this machine")
    Path("/proc/self/oom_score_adj").write_text("1000")
    memory.leave_shared_memory()
    memory.clean_environment(confinement.variables)
    if confinement.way == "namespaces":
        build_root(confinement, limits)
        own = {"TMPDIR": TEMPORARY, "XDG_CACHE_HOME": CACHE, "MPLCONFIGDIR": f"{CACHE}/matplotlib"}
        os.environ.update(own)
        tempfile.tempdir = TEMPORARY
    _open_again(files)
    _limit_resources(limits, confinement.way)
    calls.drop_capabilities()
    calls.forbid_new_privileges()
    if confinement.way == "Landlock":
        restrict_files(confinement)
    calls.filter_calls(confinement.call_filter)


_RESERVED = 4 << 30
"""Bytes that it may reserve more than the kernel has: the pool of pyarrow alone takes one GiB."""


def _limit_resources(limits: Limits, way: Way) -> None:
    most = {
        resource.RLIMIT_CPU: int(time.process_time() + limits.seconds) + 1,
        resource.RLIMIT_FSIZE: limits.files,
        resource.RLIMIT_CORE: 0,
    }
    if way == "namespaces":  # else the same user's processes in other containers count, too
        most[resource.RLIMIT_NPROC] = 64
    if (statm := Path("/proc/self/statm")).exists():
        pages = int(statm.read_text().split()[5])
        most[resource.RLIMIT_DATA] = pages * resource.getpagesize() + _RESERVED
    for kind, value in most.items():
        _, hard = resource.getrlimit(kind)
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (value, value))
    sys.setrecursionlimit(min(sys.getrecursionlimit(), 10_000))
