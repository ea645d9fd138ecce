"""The state around the variables that code can change: settings, random numbers, threads.

Every setting is read twice and compared; `list_lasting_effects` names what no reading tells.
"""

from __future__ import annotations

import ast
import atexit
import builtins
import contextlib
import gc
import locale
import logging
import os
import random
import re
import resource
import signal
import sys
import threading
import time
import types
import warnings
import weakref
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from ipyagent.kernel.describe.safe_inspect import is_a

_LIMITS = (resource.RLIMIT_AS, resource.RLIMIT_NOFILE, resource.RLIMIT_CPU, resource.RLIMIT_STACK)
_LASTING = frozenset(
    {
        *("setattr", "delattr", "__setattr__", "__delattr__", "addaudithook", "monkeypatch"),
        *("set_event_loop_policy", "manual_seed", "set_asyncgen_hooks", "captureWarnings", "tzset"),
    }
)
"""Names whose use lasts beyond the code."""

Reader = Callable[[Any], object]
_PYTHON: Mapping[str, Callable[[], object]] = {
    "changes the environment": lambda: dict(os.environ._data),  # type: ignore[attr-defined]
    "changes the working folder": os.getcwd,
    "changes sys.path": lambda: list(sys.path),
    "changes Python's built-in functions": lambda: _identities(vars(builtins)),
    "changes the filters of warnings": lambda: [
        *map(id, warnings.filters),
        warnings.showwarning,
        warnings.formatwarning,
    ],
    "changes Python's settings": lambda: (
        *(sys.getrecursionlimit(), sys.getswitchinterval(), sys.get_int_max_str_digits()),
        *(sys.excepthook, sys.displayhook, sys.unraisablehook, threading.excepthook),
        *(sys.gettrace(), sys.getprofile()),
    ),
    "changes how memory is freed": lambda: (gc.isenabled(), gc.get_threshold(), gc.get_debug()),
    "changes the locale": lambda: (locale.setlocale(locale.LC_ALL), time.tzname, time.timezone),
    "changes the handling of signals": lambda: [*map(signal.getsignal, signal.valid_signals())],
    "sets an alarm": lambda: signal.getitimer(signal.ITIMER_REAL)[0] > 0,
    "changes limits of the process": lambda: [*map(resource.getrlimit, _LIMITS), _read_umask()],
    "advances the random numbers of random": random.getstate,
    "changes how modules are imported": lambda: [*map(id, (*sys.meta_path, *sys.path_hooks))],
    "changes logging": lambda: _read_loggers(),
}
_LIBRARIES: Mapping[str, tuple[str, Reader]] = {
    "decimal": ("changes the context of decimal", lambda decimal: [
        re.sub(r"flags=\[.*?\]", "", repr(each))  # every calculation raises them
        for each in (decimal.getcontext(), decimal.DefaultContext)
    ]),
    "csv": ("changes csv", lambda csv: (csv.field_size_limit(), csv.list_dialects())),
    "socket": ("changes the timeout of sockets", lambda socket: socket.getdefaulttimeout()),
    "copyreg": ("changes how objects are copied", lambda copyreg: dict(copyreg.dispatch_table)),
    "numpy": ("changes the settings of numpy", lambda numpy: (
        numpy.geterr(), str(numpy.get_printoptions())
    )),
    "numpy.random": ("advances the random numbers of numpy", lambda numbers: repr(
        [getattr(each, "tobytes", lambda each=each: each)() for each in numbers.get_state()]
    )),
    "torch": ("advances the random numbers of torch", lambda torch: bytes(
        torch.get_rng_state().numpy()
    )),
    "pandas._config.config": ("changes the options of pandas", lambda config: repr(
        getattr(config, "_global_config", None)
    )),
    "matplotlib": ("changes the settings of matplotlib", lambda matplotlib: repr(
        {name: each for name, each in dict(matplotlib.rcParams).items() if name != "backend"}
    )),
    "matplotlib._pylab_helpers": ("leaves a figure open", lambda helpers: set(helpers.Gcf.figs)),
}  # fmt: skip
"""By module, as far as they are imported: the words for a change, and how it is read."""


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
        known = [text for text in now if text in self._states]
        yield from (text for text in known if now[text] != self._states[text])
        new = sys.modules.keys() - self._modules.keys()
        known_modules = (sys.modules.get(name) is each for name, each in self._modules.items())
        if not all(known_modules) or not all(map(_is_imported, new)):
            yield "changes sys.modules"
        if _count_exits() != self._exits and not new:
            yield "changes what is done when the kernel ends"
        if any(each not in self._threads for each in threading.enumerate()):
            yield "leaves a thread running"


def choose_backend() -> None:
    """Have matplotlib choose how it draws, as for a first figure: this is no code's change."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is not None and not pyplot.get_fignums():
        with contextlib.suppress(Exception):  # the code will meet it
            pyplot.switch_backend(sys.modules["matplotlib"].get_backend())


def _read_states() -> Iterator[tuple[str, object]]:
    """Yield states that can be compared, each under the words for its change."""
    for text, read in _PYTHON.items():
        yield text, read()
    for name, (text, read_from) in _LIBRARIES.items():
        if (module := sys.modules.get(name)) is not None:
            yield text, read_from(module)


def _read_umask() -> int:
    mask = os.umask(0o077)  # there is no other way to read it
    os.umask(mask)
    return mask


def _identities(names: Mapping[str, object]) -> dict[str, int]:
    return {name: id(value) for name, value in names.items() if name != "_"}


def _is_imported(name: str) -> bool:
    """Return whether a module came by an import, not by an assignment."""
    module = sys.modules[name]
    spec = getattr(module, "__spec__", None)
    return is_a(module, types.ModuleType) and getattr(spec, "name", None) == name


def _count_exits() -> int:
    """Return how many functions are registered, but for one that weakref registers on first use."""
    with contextlib.suppress(AttributeError):
        finalize: Any = weakref.finalize
        return int(atexit._ncallbacks() - finalize._registered_with_atexit)
    return 0


def _read_loggers() -> dict[str, object]:
    """Return the configuration of the loggers that are not as a library makes them."""
    root = logging.getLogger()
    loggers = {**root.manager.loggerDict, "": root}
    found = {name: _describe(each) for name, each in loggers.items() if type(each) is not _HOLDER}
    plain: object = (logging.NOTSET, False, True, [], [])
    return {n: each for n, each in found.items() if each != plain} | {" ": root.manager.disable}


_HOLDER: type = logging.PlaceHolder


def _describe(logger: Any) -> tuple[object, ...]:
    handlers = [(id(e), e.level, id(e.formatter), [*map(id, e.filters)]) for e in logger.handlers]
    filters = [*map(id, logger.filters)]
    return logger.level, logger.disabled, logger.propagate, handlers, filters


def list_lasting_effects(code: str, variables: Mapping[str, object]) -> Iterator[str]:
    """Yield what code sets on modules, classes and functions, or registers for later."""
    try:
        nodes = [*ast.walk(ast.parse(code))]
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # it did not run either
        return
    imported = {
        each.asname or each.name.partition(".")[0]
        for node in nodes
        if isinstance(node, ast.Import | ast.ImportFrom)
        for each in node.names
    }
    for node in nodes:
        if isinstance(node, ast.Attribute) and _sets_shared(node, variables, imported):
            yield f"sets {ast.unparse(node)}"
        name = getattr(node, "attr", None) or getattr(node, "id", None) or ""
        name = node.name.rpartition(".")[2] if isinstance(node, ast.alias) else name
        if name in _LASTING or name.startswith("register"):
            yield f"uses {name}, which lasts"


def _sets_shared(
    node: ast.Attribute, variables: Mapping[str, object], imported: Collection[str]
) -> bool:
    """Return whether it sets an attribute of what other code may use: a module, a class."""
    root: ast.expr = node
    if isinstance(node.ctx, ast.Load):
        return False
    while isinstance(root, ast.Attribute | ast.Subscript):
        if isinstance(root, ast.Attribute) and root.attr == "__class__":
            return True
        root = root.value
    if not isinstance(root, ast.Name):
        return True
    return root.id in imported or is_a(variables.get(root.id), types.ModuleType)
