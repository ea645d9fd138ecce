"""The copy's side: run the code where it can change nothing, and report what it did.

Attempts at what the isolation hides are noted, too. They fail, so nothing depends on noticing them
but the honesty of the result: code that found less than it would have found gives a wrong answer.
"""

from __future__ import annotations

import builtins
import contextlib
import ctypes
import importlib
import importlib.metadata
import inspect
import io
import itertools
import linecache
import os
import queue
import re
import socket
import stat
import sys
import threading
import zipfile
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from multiprocessing.context import BaseContext
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any, Literal

from ipyagent import imports
from ipyagent.digests import digest_content
from ipyagent.imports import is_of_package
from ipyagent.json_types import JsonDict
from ipyagent.kernel.displays import WRITTEN, as_chart, page_kind
from ipyagent.kernel.namespace import Namespace, Surroundings
from ipyagent.kernel.outputs import Outputs
from ipyagent.rehearsal.confinement import (
    ALIKE,
    CACHE,
    FACTS,
    OWN_FACTS,
    SHARED,
    TEMPORARY,
    UPPER,
    Confinement,
    Limits,
    is_in,
)
from ipyagent.rehearsal.in_kernel import read_random_states
from ipyagent.rehearsal.process import CopyProcess, Job, Report, start_isolated
from ipyagent.rehearsal.system import drop_signing_keys, read_mappings
from ipyagent.rehearsal.variable_effects import VariableEffects
from ipyagent.schema import ToolResult
from ipyagent.values.variables import snapshot as _snapshot  # noqa: F401 - imported by each copy else

Kind = Literal["says", "reaches", "changes", "deletes"]
"""Kinds of attempts: in words, or at a path; the kernel knows if there is anything at it."""
_MOST = 20
_NETWORK = ("connect", "sendto", "sendmsg", "bind", "getaddrinfo", "gethostbyname", "gethostbyaddr")
_PROCESSES = ("subprocess.Popen", "os.system", "os.exec", "os.fork", "os.forkpty", "os.posix_spawn")
_EVENTS = {
    **dict.fromkeys((f"socket.{each}" for each in _NETWORK), "uses the network"),
    **dict.fromkeys(_PROCESSES, "starts a process"),
    **dict.fromkeys(("os.kill", "os.killpg", "signal.pthread_kill"), "sends a signal to a process"),
    **dict.fromkeys(("os.getxattr", "os.listxattr"), "reads the extended attributes of files"),
    "sys.addaudithook": "adds an audit hook",
}
_WRITES = frozenset(
    f"os.{each}"
    for each in (
        *("mkdir", "remove", "rmdir", "rename", "link", "symlink", "chmod", "chown", "utime"),
        *("truncate", "setxattr", "removexattr"),
    )
)
"""Events of changes to files; code may pass over their failure."""
_PAIRS, _DELETES = frozenset({"os.rename", "os.link"}), frozenset({"os.remove", "os.rmdir"})
_FOLDERS = frozenset({"os.listdir", "os.scandir", "os.chdir", "sqlite3.connect", "glob.glob"})
_ASKED = ("stat", "lstat", "access", "readlink")
"""Functions of `os` that tell whether a file is there."""
_IMPORTER = "<frozen importlib._bootstrap>"
_STANDARD = (f"{os.path.dirname(os.__file__)}/", "<frozen ")  # noqa: PTH120
_OURS = f"{os.path.dirname(imports.__file__)}/"  # noqa: PTH120
_FINDERS = ("<frozen importlib._bootstrap_external>", imports.__file__)
_DISTRIBUTIONS = (".dist-info", ".egg-info", ".egg")
_THROUGH = (os.path.realpath, zipfile.ZipFile.__init__, zipfile.Path.__init__)
_PASSED_THROUGH = {__file__, *(each.__code__.co_filename for each in _THROUGH)}
"""Files through which finders look, and this one; a folder that is not listed may be an archive."""
_OF_SOURCES = {linecache.checkcache.__code__, inspect.getmodule.__code__}
"""Functions that look again at files of loaded modules, for a warning or a traceback."""
# The name of a cell's code is that of a file which nobody writes, but tracebacks look for.
_UNWRITTEN = f"{TEMPORARY}/ipykernel_"


def list_hidden_folders(confinement: Confinement) -> dict[str, list[str]]:
    """Return the folders of `sys.path` that the code will not see, with the names in them."""
    found = dict[str, list[str]]()
    for folder in dict.fromkeys(sys.path):
        if not confinement.sees(os.path.realpath(folder)):
            with contextlib.suppress(OSError):
                found[folder] = os.listdir(folder)  # noqa: PTH208
    return found


class Attempts:
    """Collects attempts while code runs."""

    def __init__(self, confinement: Confinement) -> None:
        """Note what the code will not see, outside of its isolation."""
        self.confinement = confinement
        hidden = (name for name in os.environ if not name.startswith("IPYAGENT_"))
        self._hidden_variables = frozenset(hidden) - confinement.variables
        self._hidden_folders = list_hidden_folders(confinement)
        names = itertools.chain.from_iterable(self._hidden_folders.values())
        self._hidden_modules = frozenset(name.partition(".")[0] for name in names)
        self._home = os.path.expanduser("~")  # noqa: PTH111
        self._root = confinement.root
        self._loaded = 0
        """Modules that were loaded before the code ran: they come first."""
        self._alike: tuple[str, ...] = (_UNWRITTEN, f"{CACHE}/", *(f"{each}/" for each in FACTS))
        own = (self._root, TEMPORARY, SHARED, "/proc/self", "/proc/thread-self")
        self._has_own_files = confinement.method == "namespaces"
        self._writable = (*ALIKE, *(own if self._has_own_files else ()))
        self.found: dict[tuple[Kind, str], None] = {}
        """The attempts, each once, in order."""
        self._is_active = False

    def install(self) -> None:
        """Get ready to collect; for the rest of the process."""
        sys.addaudithook(self._hear)
        for name in _ASKED:
            setattr(os, name, self._with_check(getattr(os, name)))
        # By the number of this process.
        self._alike += tuple(f"{os.path.realpath(each)}/" for each in OWN_FACTS)
        os.statvfs = self._with_check(os.statvfs, "asks how much space there is")
        builtins.input = self._refuse_input
        sys.meta_path.insert(0, self)
        self._loaded = len(sys.modules)
        self._watch_variables()

    @contextlib.contextmanager
    def watch(self) -> Iterator[None]:
        """Collect within the context, anew."""
        self.found.clear()
        self._is_active = True
        try:
            yield
        finally:
            self._is_active = False

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        """Record the import of a module that lies where the code cannot look; find nothing."""
        if path is None and name.partition(".")[0] in self._hidden_modules:
            self._add(f"imports {name}, which is hidden from it")

    def _add(self, text: str, kind: Kind = "says") -> None:
        if self._is_active and len(self.found) < _MOST and not _is_of_import():
            self.found.setdefault((kind, text))

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        kind: Kind
        if not self._is_active:
            return
        if event == "open":
            path, _, flags = arguments
            creates = bool(flags & os.O_CREAT)
            # A file that is not there is only looked for.
            writes = creates or (flags & (os.O_WRONLY | os.O_RDWR) and _is_there(path))
            if writes or not self._is_import(path, finders=()):
                kind = "changes" if writes else "reaches"
                self._check_path(path, kind, creates=creates, opens=True)
        elif event in _WRITES:
            first = int(event == "os.symlink")  # what it leads to is not touched
            for path in arguments[first : 2 if first or event in _PAIRS else 1]:
                kind = "deletes" if event in _DELETES else "changes"
                self._check_path(path, kind, creates=event == "os.mkdir" or first > 0)
        elif event in _FOLDERS:
            if not self._is_import(arguments[0]):
                self._check_path(arguments[0], lists=True)
        elif event == "socket.__new__":
            if arguments[1] != socket.AF_UNIX or not _is_made(_find_caller()):
                self._add("uses the network")
        elif text := _EVENTS.get(event):
            self._add(text)

    def _with_check(self, function: Callable[..., object], text: str = "") -> Callable[..., Any]:
        """Return a function of `os` that records `text`, or questions about hidden files."""

        def ask(path: object, *args: object, **kwargs: object) -> object:
            if self._is_active and not self._is_import(path):
                self._add(text) if text else self._check_path(path)
            return function(path, *args, **kwargs)

        return ask

    def _is_import(self, path: object, *, finders: tuple[str, ...] = _FINDERS) -> bool:
        """Return whether a folder is looked at to find a module, which is recorded by its name.

        So are the installed distributions found, of which most hidden folders have none.
        """
        frame = _find_caller()
        file = frame and frame.f_code.co_filename
        if frame and frame.f_code in _OF_SOURCES and isinstance(path, str):
            return any(is_in(each, path) for each in self._list_sources())
        if file == importlib.metadata.__file__:
            names = self._hidden_folders.get(path, ()) if isinstance(path, str) else ()
            return not any(name.endswith(_DISTRIBUTIONS) for name in names)
        return file in finders

    def _list_sources(self) -> Iterator[str]:
        """Yield the files of the modules that were loaded before the code ran."""
        for each in [*sys.modules.values()][: self._loaded]:
            if issubclass(type(each), ModuleType):  # not by their own code, which may load more
                yield str(ModuleType.__getattribute__(each, "__dict__").get("__file__"))

    def _check_path(
        self,
        path: object,
        kind: Kind = "reaches",
        *,
        creates: bool = False,
        lists: bool = False,
        opens: bool = False,
    ) -> None:
        if not isinstance(path, str | bytes | os.PathLike):
            return
        self._is_active, hidden, refused = False, False, False
        with contextlib.suppress(OSError, ValueError, TypeError):
            real = os.path.realpath(os.fsdecode(path))
            is_ours = is_in(real, f"{self._root}/{self.confinement.state}") and not (
                opens or kind != "reaches"
            )
            hidden = not (is_ours or self._is_as_outside(real, creates=creates, lists=lists))
            refused = kind != "reaches" and self._is_read_only(real, creates=creates)
        self._is_active = True
        if refused or hidden:
            self._add(real, kind)

    def _is_read_only(self, real: str, *, creates: bool) -> bool:
        """Return whether a file could be changed outside only."""
        if creates and real.startswith(f"{self._home}/.") and not is_in(real, self._root):
            return False  # where libraries keep what they make
        return not any(is_in(real, each) for each in self._writable)

    def _is_as_outside(self, real: str, *, creates: bool, lists: bool) -> bool:
        if self.confinement.sees(real) or f"{real}/".startswith(self._alike):
            return True
        if real.startswith(f"{self._home}/."):
            return True  # where libraries look for settings
        # Hidden files of the workspace are no temporary ones, wherever it lies.
        is_temporary = is_in(real, TEMPORARY) and self._has_own_files
        if is_temporary and not is_in(real, self._root):
            # Its own folder of temporary files: what is missing there may be in the real one.
            return os.path.lexists(real) or (creates and os.path.isdir(os.path.dirname(real)))  # noqa: PTH112, PTH120
        # That a folder is there tells nothing, if something in it is seen.
        below = () if lists else (*self.confinement.readable, f"{self._home}/.")
        return any(each.startswith(f"{real}/") for each in (self._root, *below))

    def _refuse_input(self, *_: object) -> str:
        self._add("asks for input")
        raise EOFError("input is not possible here")

    def _watch_variables(self) -> None:
        kind, hidden, add = type(os.environ), self._hidden_variables, self._add
        past, listed = kind.__getitem__, kind.__iter__

        def get(environ: Any, name: str) -> str:
            if name in hidden:
                add(f"reads the environment variable {name}, which is hidden from it")
            return past(environ, name)

        def iterate(environ: Any) -> Iterator[str]:
            if hidden:
                add("lists the environment, a part of which is hidden from it")
            return listed(environ)

        kind.__getitem__ = get  # type: ignore[method-assign]
        kind.__iter__ = iterate  # type: ignore[method-assign]


def _find_caller() -> FrameType | None:
    """Return the frame of whoever does what is looked at."""
    frame = inspect.currentframe()
    while frame is not None and frame.f_code.co_filename in _PASSED_THROUGH:
        frame = frame.f_back
    return frame


def _is_there(path: object) -> bool:
    with contextlib.suppress(ValueError):
        return isinstance(path, str | bytes | os.PathLike) and os.path.lexists(path)
    return False


def _is_of_import() -> bool:
    """Return whether a library that is imported, or we, do this: no result depends on it."""
    frame = _find_caller()
    while frame is not None and frame.f_code.co_filename in (_IMPORTER, *_FINDERS):
        frame = frame.f_back  # which looks for a module
    first = frame
    while frame is not None and _is_installed(frame.f_code.co_filename):
        if frame.f_code.co_filename.startswith(_OURS):
            return True
        frame = frame.f_back
    return frame is not None and frame is not first and frame.f_code.co_filename == _IMPORTER


def _is_installed(file: str) -> bool:
    return (is_of_package(file) or file.startswith((*_STANDARD, _OURS))) and file != _IMPORTER


def _is_made(frame: FrameType | None) -> bool:
    """Return whether an object is made for a socket that there is, such as one of a pair."""
    return frame is not None and frame.f_locals.get("fileno") is not None


_RESULT = {"success", "output", "error", "for_model", "images", "displays", "truncated"}
"""Fields of a result that are reported."""

_NAMED = re.compile(r"[\w.]+\(")
"""How the text of an object begins that only names it."""
_MOST_COPIED = 8 << 20
"""Bytes that are copied to say what is different in an array."""
MOST_FILES, _LARGEST, _DIGESTED = 100, 50_000, 64 << 20
"""Files that are reported, and bytes of one whose text is, or a digest."""


def start_rehearsal(
    namespace: Namespace,
    codes: Sequence[str],
    confinement: Confinement,
    limits: Limits,
    forget: Callable[[], object] = lambda: None,
) -> CopyProcess:
    """Start a rehearsal of codes, each on top of those before, on the kernel's main thread.

    On the copy, `forget` empties our own objects that hold keys.
    """
    attempts, own = Attempts(confinement), namespace.own.names(namespace.bindings())

    def jobs() -> Iterator[Job]:
        forget()
        _be_quiet()
        namespace.undo_memory = _MOST_COPIED
        attempts.install()
        for code in codes:
            yield partial(_perform, namespace, code, attempts, own)

    return start_isolated(jobs(), confinement, limits)


def _perform(namespace: Namespace, code: str, attempts: Attempts, own: Collection[str]) -> Report:
    """Run the code; return a report of what it did, and the data in it."""
    bindings = namespace.bindings()
    effects, outputs = VariableEffects(namespace.as_python(code), bindings, own), Outputs()
    written_before = [*list_written_files(attempts.confinement)]
    states, before = read_random_states(bindings), Surroundings.observe()
    outputs.find_kind = _find_kind
    with attempts.watch():
        result = namespace.run(code, outputs)
    if not isinstance(result, ToolResult):
        raise OSError("it awaits")
    charts = [as_chart(each.data) for each in outputs.page_bundles]
    drawn = ["shows what only a page can draw"] if None in charts else []
    effects.compare(bindings, result)
    # The kernel has no state of a library that only the code has loaded.
    known = {name: each for name, each in read_random_states(bindings).items() if name in states}
    adoption, buffers = effects.write_data(known, states)
    return {
        "adoption": adoption,
        "left": effects.left,
        "touched": effects.touched,
        "resolved": effects.resolved,
        "result": result.model_dump(mode="json", include=_RESULT),
        "variables": [each.to_dict() for each in effects.list_shown()],
        "unclear": [*effects.list_unclear(), *drawn],
        "written": effects.written,
        "attempts": [*attempts.found],
        "charts": [] if drawn else charts,
        "settings": [*Surroundings.observe().list_settings(before)],
        "files": [*list_written_files(attempts.confinement, written_before)][:MOST_FILES],
    }, buffers


def _find_kind(bundle: JsonDict) -> str | None:
    """Return what only a page draws of a bundle; None if there are words in its stead.

    As for a formula, and for the bar of progress that is a widget elsewhere.
    """
    kind, text = page_kind(bundle), str(bundle.get("text/plain", ""))
    is_written = kind in WRITTEN or (kind == "widget" and not _NAMED.match(text))
    return None if text and is_written else kind


def _be_quiet() -> None:
    """Let nothing that was going on in the kernel go on here."""
    drop_signing_keys()
    sys.stdout, sys.stderr = io.StringIO(), io.StringIO()
    sys.__stdout__, sys.__stderr__ = sys.stdout, sys.stderr  # type: ignore[misc,assignment]
    sys.dont_write_bytecode = True
    prepare_libraries()


def list_written_files(
    confinement: Confinement, known: Collection[JsonDict] = ()
) -> Iterator[JsonDict]:
    """Yield the files and folders that were written or deleted, but for those `known`.

    Before code runs, there are only folders of the isolation's own.
    """
    if confinement.method == "Landlock":
        return  # nothing can be written
    root = confinement.root
    for top, seen_as in ((UPPER, root), (TEMPORARY, TEMPORARY), (SHARED, SHARED)):
        own, waiting = os.stat(top).st_dev, [top]  # noqa: PTH116
        while waiting:
            for entry in sorted(os.scandir(waiting.pop()), key=lambda each: each.name):
                status = entry.stat(follow_symlinks=False)
                path = seen_as + entry.path[len(top) :]
                # A mount from elsewhere cannot be written.
                if entry.path in (CACHE, root) or status.st_dev != own:
                    continue
                is_folder = entry.is_dir(follow_symlinks=False)
                if is_folder:
                    kind = "new folder" if _is_opaque(entry.path) else "folder"
                else:  # an overlay marks what is gone as a device
                    kind = "deleted" if stat.S_ISCHR(status.st_mode) else "file"
                text = _read_text(entry.path, status)
                found = {"path": path, "kind": kind, "text": text, "mode": status.st_mode}
                found |= {"time": status.st_mtime_ns, "digest": digest_file(Path(entry.path))}
                if found not in known:
                    yield found
                waiting += [entry.path] if is_folder else []


def digest_file(path: Path) -> str | None:
    """Return the digest of a regular file that is not too large; None for anything else."""
    with contextlib.suppress(OSError):
        status = path.lstat()
        if stat.S_ISREG(status.st_mode) and status.st_size <= _DIGESTED:
            return digest_content(path.read_bytes())
    return None


def _is_opaque(folder: str) -> bool:
    """Return whether an overlay shows a folder without what lies below: it was made anew."""
    with contextlib.suppress(OSError):
        return os.getxattr(folder, "user.overlay.opaque") == b"y"
    return False


def _read_text(path: str, status: os.stat_result) -> str | None:
    """Return the text of a small file; None for anything else."""
    if not stat.S_ISREG(status.st_mode) or status.st_size > _LARGEST:
        return None
    try:
        return Path(path).read_bytes().decode()
    except (OSError, UnicodeDecodeError):
        return None


_WITH_OPENMP = ("sklearn", "torch", "xgboost", "lightgbm")
_OPENMP = re.compile(r"/\S*libgomp\S*")
_SIBLINGS = "cpu[0-9]*/topology/thread_siblings_list"
"""The processors of the core that each processor is a part of."""


def prepare_libraries() -> None:
    """Let libraries that were used before work on a copy, which has one thread and no processes."""
    used = not sys.modules.keys().isdisjoint(_WITH_OPENMP)
    for path in {*_OPENMP.findall(read_mappings())} if used else ():
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(path).omp_set_num_threads(1)  # its threads are gone: it would wait for them
    locks: Any = BaseContext  # those of processes are files
    locks.Lock, locks.RLock = staticmethod(threading.Lock), staticmethod(threading.RLock)
    pools: Any = ThreadPoolExecutor
    if (start := getattr(pools, "_adjust_thread_count", None)) is not None:
        pools._adjust_thread_count = _replace_lost_threads(start)
    parallel: Any = sys.modules.get("joblib.parallel")
    if parallel is not None:
        parallel.DEFAULT_BACKEND = "threading"
    if "plotly.io" in sys.modules:  # for a warning, it looks for the process that started this one
        with contextlib.suppress(ImportError):
            renderers = vars(importlib.import_module("plotly.io._renderers"))
            renderers["display_jupyter_version_warnings"] = lambda: None
    loky: Any = sys.modules.get("joblib.externals.loky.backend.context")
    if loky is not None and loky.physical_cores_cache is None:  # it would run a program
        shared = {each.read_text() for each in Path("/sys/devices/system/cpu").glob(_SIBLINGS)}
        loky.physical_cores_cache = len(shared) or os.cpu_count()


def _replace_lost_threads(start: Callable[..., None]) -> Callable[..., None]:
    """Return what starts a pool's threads, which does so again for those that the kernel has."""

    def start_again(pool: Any) -> None:
        if not all(each.is_alive() for each in pool._threads):
            waiting, pool._work_queue = pool._work_queue, queue.SimpleQueue()
            while not waiting.empty():
                pool._work_queue.put(waiting.get_nowait())
            pool._threads, pool._idle_semaphore = set(), threading.Semaphore(0)
        start(pool)

    return start_again
