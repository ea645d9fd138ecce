"""The state around the variables that code can change: settings, random numbers, threads.

Every setting is read twice and compared; `list_lasting_effects` names what no reading tells.
"""

from __future__ import annotations

import ast
import atexit
import contextlib
import locale
import logging
import os
import re
import resource
import signal
import sys
import threading
import types
import weakref
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from ipyagent.kernel.describe.safe_inspect import is_a
from ipyagent.kernel.rehearsal.databases import is_connection
from ipyagent.kernel.request_logs import is_wanted
from ipyagent.kernel.variables.reach import parse_nodes

_SETTINGS = {
    "changes Python's settings": (
        "sys.getrecursionlimit() sys.getswitchinterval() sys.get_int_max_str_digits()"
        " sys.gettrace() sys.getprofile() sys.excepthook sys.displayhook sys.unraisablehook"
        " threading.excepthook threading.gettrace() threading.getprofile()"
        " threading.stack_size()"
        " sys.argv sys.warnoptions sys.stdout sys.get_coroutine_origin_tracking_depth()"
        " gc.isenabled() gc.get_threshold() gc.get_debug() gc.callbacks"
    ),
    "changes the working folder": "os.getcwd()",
    "changes Python's built-in functions": "builtins.__dict__",
    "changes how modules are imported": "sys.path sys.meta_path sys.path_hooks",
    "changes how warnings are shown": (
        "warnings.filters warnings.showwarning warnings.formatwarning"
    ),
    "changes the locale": "time.tzname time.timezone",
    "advances random numbers": (
        "random.getstate() numpy.random.get_state() torch.random.get_rng_state()"
    ),
    "changes the settings of a module": (
        "decimal.getcontext() decimal.DefaultContext csv.field_size_limit() csv.list_dialects()"
        " socket.getdefaulttimeout() copyreg.dispatch_table numpy.geterr()"
        " numpy.get_printoptions() numpy.geterrcall() numpy.getbufsize() sklearn.get_config()"
        " logging.getLevelNamesMapping() pandas._config.config._global_config matplotlib.rcParams"
        " polars.Config.state()"
    ),
    "leaves a figure open": "matplotlib._pylab_helpers.Gcf.figs",
}
"""Words for a change, and where it is read: attributes, and functions that are called."""
PASSING = {
    "changes how warnings are shown": "how warnings are shown",
    "advances random numbers": "the state of random numbers",
    "changes the settings of a module": "settings of modules",
}
"""Changes that code makes for its own output: what it shows on a copy stays true without them."""
_LOADED_LATE = re.compile(r"flags=\[.*?\]|'?backend'?: \S+")
"""Parts that change by themselves: the flags of decimal, the backend of a first figure."""
_LIMITS = tuple(getattr(resource, each) for each in dir(resource) if each[:7] == "RLIMIT_")
_TIMERS = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)
_MADE_BY_EXPAT = ("pyexpat.", "xml.parsers.expat.")
"""Modules that its import puts there itself."""
_LASTING = frozenset(
    {
        *("setattr", "delattr", "__setattr__", "__delattr__", "addaudithook", "monkeypatch"),
        *("set_event_loop_policy", "set_event_loop", "call_later", "call_at", "call_soon"),
        *("finalize", "manual_seed", "set_asyncgen_hooks", "captureWarnings", "tzset"),
        *("putenv", "unsetenv", "nice", "setpriority", "sched_setaffinity", "pthread_sigmask"),
        *("dup2", "closerange", "raise_signal", "pidfd_send_signal"),
        *("setxattr", "removexattr", "enable", "disable", "disable_max_rows", "use"),
        *("switch_backend", "set_start_method", "addfont", "add_type", "setfirstweekday"),
        *("setLoggerClass", "setLogRecordFactory", "reset_tzpath", "create_task"),
        *("ensure_future", "call_soon_threadsafe", "run_coroutine_threadsafe"),
    }
)
"""Names whose use lasts beyond the code."""


_SETS_PRAGMA = re.compile(
    r"\bpragma\b(?!\s+(\w+\.)?(table_x?info|table_list|index_x?info|index_list|database_list"
    r"|foreign_key_(list|check)|integrity_check|quick_check|(collation|function|pragma)_list)\b)",
    re.IGNORECASE,
)
"""Any pragma but those that only tell something."""
_CONFIGURES = re.compile(r"create_|set_|setconfig|setlimit|enable_|load_extension")
"""Methods of a connection whose effect no reading tells."""
_COMPARED = (("matplotlib", "rcParams"), ("pandas", "options"))
"""Settings that are read before and after, wherever they are set."""


class Surroundings:
    """The state around the variables at one moment."""

    def __init__(self) -> None:
        self._states = dict(_read_states())
        self._modules = dict(sys.modules)
        self._exits = _count_exits()
        self._threads = set(threading.enumerate())

    def list_changes(self) -> Iterator[str]:
        """Yield what is different now, in words."""
        now = dict(_read_states())
        # A library that the code has imported first has been read only once.
        changed = [each for each in now if each in self._states and now[each] != self._states[each]]
        yield from dict.fromkeys(text for text, _ in changed)
        new = sys.modules.keys() - self._modules.keys()
        known = (sys.modules.get(name) is each for name, each in self._modules.items())
        if not all(known) or not all(map(_is_imported, new)):
            yield "changes sys.modules"
        if _count_exits() != self._exits and not new:
            yield "changes what is done when the kernel ends"
        if not self._threads.issuperset(threading.enumerate()):
            yield "leaves a thread running"


def choose_backend() -> None:
    """Have matplotlib choose how it draws, as for a first figure: this is no code's change."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is not None and not pyplot.get_fignums():
        with contextlib.suppress(Exception):  # the code will meet it
            pyplot.switch_backend(sys.modules["matplotlib"].get_backend())


def _read_states() -> Iterator[tuple[tuple[str, str], object]]:
    """Yield states that can be compared, each under the words for its change and its place."""
    for text, places in _SETTINGS.items():
        for place in places.split():
            home, _, name = place.removesuffix("()").rpartition(".")
            while home and home not in sys.modules:
                home, _, first = home.rpartition(".")
                name = f"{first}.{name}"
            value: Any = sys.modules.get(home)
            for each in name.split("."):
                value = getattr(value, each, None)
            if value is not None:
                value = value() if place.endswith("()") else value
                is_names = place.endswith("__dict__")
                yield (text, place), (_identify if is_names else _describe)(value)
    yield ("changes the environment", ""), _read_environment()
    alarms = [signal.getitimer(each)[0] > 0 for each in _TIMERS]
    limits = map(resource.getrlimit, _LIMITS)
    handlers = (signal.getsignal(each) for each in signal.valid_signals())
    process = (alarms, _read_umask(), locale.setlocale(locale.LC_ALL), *limits, *handlers)
    yield ("changes signals, limits or the locale of the process", ""), process
    root = logging.getLogger()
    loggers = [*root.manager.loggerDict.items(), ("", root)]
    found = ((name, _describe_logger(each)) for name, each in loggers if is_a(each, _LOGGER))
    # New ones that nobody has configured change nothing.
    loud = {name: each for name, each in found if each != (logging.NOTSET, False, True, [], [])}
    yield ("changes logging", ""), {**loud, " disabled": root.manager.disable}


_LOGGER: type = logging.Logger


def _read_environment() -> dict[str, str]:
    """Return the environment without the settings of polars, which it keeps there."""
    config = getattr(sys.modules.get("polars"), "Config", None)
    settings = () if config is None else config.state()
    return {name: os.environ[name] for name in os.environ.keys() - settings}


def _describe(value: object) -> str:
    return _LOADED_LATE.sub("", repr(value))


def _identify(names: Mapping[str, object]) -> dict[str, int]:
    # Libraries in C++ keep there what they share, from the first one that is imported.
    own = (name for name in names if name != "_" and not name.startswith("__pybind11_"))
    return {name: id(names[name]) for name in own}


def _describe_logger(logger: Any) -> tuple[object, ...]:
    handlers = [(id(e), e.level, id(e.formatter), [*map(id, e.filters)]) for e in logger.handlers]
    filters = [id(each) for each in logger.filters if each is not is_wanted]
    return logger.level, logger.disabled, logger.propagate, handlers, filters


def _read_umask() -> int:
    mask = os.umask(0o077)  # there is no other way to read it
    os.umask(mask)
    return mask


def _is_imported(name: str) -> bool:
    """Return whether a module came by an import, not by an assignment."""
    module = sys.modules[name]
    spec = getattr(module, "__spec__", None)
    by_import = getattr(spec, "name", None) == name or name.startswith(_MADE_BY_EXPAT)
    return is_a(module, types.ModuleType) and by_import


def _count_exits() -> int:
    """Return how many functions are registered, but for one that weakref registers on first use."""
    with contextlib.suppress(AttributeError):
        finalize: Any = weakref.finalize
        return int(atexit._ncallbacks() - finalize._registered_with_atexit)
    return 0


def _names_pyplot(nodes: Collection[ast.AST], variables: Mapping[str, object]) -> bool:
    """Return whether code uses pyplot, which draws into whatever figure is the current one."""
    pyplot = sys.modules["matplotlib.pyplot"]
    return any(
        (isinstance(node, ast.Name) and variables.get(node.id) is pyplot)
        or (isinstance(node, ast.alias) and "pyplot" in node.name.split("."))
        for node in nodes
    )


def list_lasting_effects(
    code: str, variables: Mapping[str, object], after: Mapping[str, object]
) -> Iterator[str]:
    """Yield what code sets on modules, classes and functions, or registers for later."""
    nodes = parse_nodes(code) or []
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is not None and pyplot.get_fignums() and _names_pyplot(nodes, variables):
        yield "may change a figure that is open"
    imports = [node for node in nodes if isinstance(node, ast.alias)]
    imported = {each.asname or each.name.partition(".")[0] for each in imports}
    for node in nodes:
        if _configures_database(node, variables):
            yield f"configures a database: {ast.unparse(node)}"
        if _sets_shared(node, {**after, **variables}, imported):
            yield f"sets {ast.unparse(node)}"
        name = getattr(node, "attr", None) or getattr(node, "id", None) or ""
        name = node.name.rpartition(".")[2] if isinstance(node, ast.alias) else name
        if name == "use" and "style" in ast.unparse(node).split("."):
            continue  # it sets what is compared
        if name in _LASTING or name.startswith("register"):
            yield f"uses {name}, which lasts"


def _configures_database(node: ast.AST, variables: Mapping[str, object]) -> bool:
    """Return whether it may set what a connection of the user's does not tell."""
    match node:
        case ast.Constant(value=str(text)):
            sets = _SETS_PRAGMA.search(text) is not None
            return sets and any(map(is_connection, variables.values()))
        case ast.Attribute(value=ast.Name(id=owner), attr=name):
            return is_connection(variables.get(owner)) and bool(_CONFIGURES.match(name))
    return False


def _sets_shared(node: ast.AST, variables: Mapping[str, object], imported: Collection[str]) -> bool:
    """Return whether it sets a part of what other code may use: a module, a class."""
    if not isinstance(node, ast.Attribute | ast.Subscript) or isinstance(node.ctx, ast.Load):
        return False
    root: ast.expr = node
    while isinstance(root, ast.Subscript) or (
        isinstance(root, ast.Attribute) and root.attr != "__class__"
    ):
        if _is_compared(root, variables):
            return False
        root = root.value
    if not isinstance(root, ast.Name):
        return isinstance(node, ast.Attribute)
    return root.id in imported or is_a(variables.get(root.id), types.ModuleType)


def _is_compared(node: ast.AST, variables: Mapping[str, object]) -> bool:
    """Return whether it is a library's settings, by which name ever."""
    match node:
        case ast.Attribute(value=ast.Name(id=owner), attr=name):
            module = variables.get(owner)
            settings = vars(module).get(name) if is_a(module, types.ModuleType) else None
            compared = (getattr(sys.modules.get(home), each, None) for home, each in _COMPARED)
            return settings is not None and any(each is settings for each in compared)
    return False
