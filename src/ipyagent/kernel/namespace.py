"""The user's namespace: its variables in words, running code in it, and what surrounds it.

The surroundings are the environment, the working folder and a folder's files.
"""

from __future__ import annotations

import os
import platform
import stat
import types
from collections.abc import Awaitable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from copy import copy
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from itertools import islice
from typing import TYPE_CHECKING, Literal, Self

from typing_extensions import override

from ipyagent.json_types import JsonDict, JsonMapping
from ipyagent.kernel import capture
from ipyagent.kernel.displays import PageBundle
from ipyagent.kernel.outputs import Outputs
from ipyagent.kernel.shell import Shell
from ipyagent.plaintext import ellipsize
from ipyagent.schema import ToolResult
from ipyagent.values import Variables
from ipyagent.values.describe import is_table, label, secret_strings, summarize
from ipyagent.values.describe.python_values import Description, module_title
from ipyagent.values.describe.safe_inspect import ancestors, one_line
from ipyagent.values.variables.reach import Adoption, OwnVariables

if TYPE_CHECKING:
    from ipyagent.redaction import Redactor
    from ipyagent.values.variables.snapshot import Snapshot


LINES = 100
"""Variables that a digest describes; the others are counted."""
_MODULES = 30
_SHORT = 50  # characters of a list of columns that may be repeated
_BRIEF = 250  # characters of a brief line


class Namespace:
    """A dictionary of variables, such as a script's `globals()`, and running code among them."""

    undo_memory: int | None = None
    """Bytes that may be kept to take changes back; None: as there is memory."""
    redactor: Redactor | None = None
    """Learns the secret strings among the variables each time code has run; None: nobody does."""

    def __init__(self, variables: Variables) -> None:
        self._variables = variables
        self.written: dict[str, Collection[str]] = {}
        """The variables that rehearsed code was seen to write past pandas, by the code."""
        self.own = OwnVariables()

    def watched_by(self, redactor: Redactor) -> Self:
        """Return the same variables, of which a redactor learns the secrets."""
        same = copy(self)
        same.redactor = redactor
        return same

    def variables(self) -> Mapping[str, object]:
        """Return the user's variables by name, in the order of their definition."""
        return {
            name: value
            for name, value in self.bindings().items()
            if type(name) is str and name[:1] != "_"
        }

    def bindings(self) -> Variables:
        """Return the dictionary in which code finds and binds names, private ones among them."""
        return self._variables

    def run(self, code: str, outputs: Outputs | None = None) -> ToolResult | Awaitable[ToolResult]:
        """Run `code`; awaitable if the code awaits and this thread has a running loop.

        `outputs` collects the output in another form too.
        """
        before = take_snapshot(self, code)
        ran = capture.run_plain(self.bindings(), code, self._watch(outputs))
        return self._complete(before, ran)

    def take_over(self, result: ToolResult, adoption: Adoption) -> ToolResult:
        """Bind and delete variables; return the result of the code that did, with these changes."""
        before = take_snapshot(self, "\n".join((*adoption.values, *adoption.gone)))
        self.bindings().update(adoption.values)
        for name in adoption.gone:
            self.bindings().pop(name, None)
        self.own.add(adoption)
        return self._complete(before, result)

    def show_page(self, bundle: PageBundle) -> None:
        """Show the page a bundle beside the card, without secrets; a script has no page."""

    def runs_as_written(self, code: str) -> bool:
        """Return whether what runs for `code` is what Python reads in it, from any thread."""
        return True

    def as_python(self, code: str) -> str:
        """Return the Python that runs for `code`, from any thread."""
        return code

    def _watch(self, outputs: Outputs | None) -> Outputs:
        """Return the outputs, which will hide the secrets that are known by then."""
        outputs = Outputs() if outputs is None else outputs
        outputs.clean = self._learn_and_clean
        return outputs

    def _complete(self, before: Snapshot, result: ToolResult) -> ToolResult:
        """Return the result with the changes, its secrets learned before anybody reads it."""
        result = before.annotate(result, self.variables())
        if self.redactor is not None:
            unnamed = {f" {number}": table for number, table in enumerate(result.frames)}
            known = {**self.variables(), "": result.value, **unnamed}
            self.redactor.learn(secret_strings(known))
        return result

    def _learn_and_clean(self, data: JsonDict) -> JsonDict:
        if self.redactor is None:
            return data
        self.redactor.learn(secret_strings(self.variables()))
        clean: JsonDict = self.redactor.data(data)
        return clean


def take_snapshot(
    namespace: Namespace, code: str = "", functions: Iterable[object] = ()
) -> Snapshot:
    """Return the state of the variables before code, or one of the functions, runs."""
    from ipyagent.values.variables.snapshot import Snapshot  # most prompts run no code

    namespace.own.let_go(code, namespace.bindings(), functions)
    written, memory = namespace.written.pop(code, ()), namespace.undo_memory
    return Snapshot(namespace.variables(), code, memory, functions, written)


class ShellNamespace(Namespace):
    """The namespace of an IPython shell: cell syntax, magics and rich output work."""

    def __init__(self, shell: Shell) -> None:
        super().__init__(shell.user_ns)
        self.shell = shell

    @override
    def variables(self) -> Mapping[str, object]:
        """Return the user's variables, without those of IPython that were never changed."""
        hidden = self.shell.user_ns_hidden
        shown = super().variables().items()
        return {name: value for name, value in shown if hidden.get(name, self) is not value}

    @override
    def bindings(self) -> Variables:
        """Return the shell's dictionary, which it may replace."""
        return self.shell.user_ns

    @override
    def run(self, code: str, outputs: Outputs | None = None) -> ToolResult | Awaitable[ToolResult]:
        """Run `code` as a cell that leaves no trace in history, `_` or `Out`."""
        if capture.loop_is_running() and capture.needs_await(self.shell, code):
            return self._run_async(code, outputs)
        before = take_snapshot(self, code)
        return self._complete(before, capture.run(self.shell, code, self._watch(outputs)))

    @override
    def show_page(self, bundle: PageBundle) -> None:
        """Publish a bundle as an output of the cell."""
        self.shell.display_pub.publish(self._learn_and_clean(bundle.data), bundle.metadata)

    @override
    def runs_as_written(self, code: str) -> bool:
        """Return whether neither magics nor transformers make other code of it."""
        return capture.runs_as_written(self.shell, code)

    @override
    def as_python(self, code: str) -> str:
        """Return the code with calls in the place of magics; as it is if it is no cell."""
        with suppress(Exception):  # a transformer of the user's may raise anything
            return self.shell.transform_cell(code)
        return code

    async def _run_async(self, code: str, outputs: Outputs | None) -> ToolResult:
        before = take_snapshot(self, code)
        ran = await capture.run_async(self.shell, code, self._watch(outputs))
        return self._complete(before, ran)


_TABLE, _DATA, _CODE, _MODULE = range(4)
_CODE_TYPES = (types.FunctionType, types.BuiltinFunctionType, type)


def digest(namespace: Mapping[str, object]) -> str:
    """Return the lines of `list_lines`."""
    return "\n".join(list_lines(namespace).values())


def list_lines(namespace: Mapping[str, object]) -> dict[str, str]:
    """Return a line for each variable: tables, other data, code, then modules on one line.

    The newest of each kind comes first; beyond LINES the rest is only counted.
    """
    groups = _by_kind(namespace)
    names = groups[_TABLE] + groups[_DATA] + groups[_CODE]
    lines = dict(_describe_each(names[:LINES], namespace))
    if len(names) > LINES:
        lines["further variables"] = f"… and {len(names) - LINES:,} more variables"
    if groups[_MODULE]:
        lines["all modules"] = _modules(namespace, groups[_MODULE])
    return lines


def _describe_each(
    names: Iterable[str], namespace: Mapping[str, object]
) -> Iterator[tuple[str, str]]:
    """Yield each variable with its line; columns that another table has too are named once."""
    owners: dict[str, str] = {}
    for name in names:
        line = summarize(name, namespace[name])
        if len(line.columns) >= _SHORT:
            line = _refer_to(owners.setdefault(line.columns, name), name, line)
        yield name, f"- {label(name, line)}"


def _refer_to(owner: str, name: str, line: Description) -> Description:
    return line if owner == name else line._replace(columns=f" (same columns as {owner})")


def brief_line(
    name: str, namespace: Mapping[str, object], known: Iterable[str] | None = None
) -> str:
    """Describe a variable in a short line.

    Columns of another table are not named again, if it is one of those `known`, by default all.
    """
    line = summarize(name, namespace[name])
    if len(line.columns) >= _SHORT:
        others = (each for each in (namespace if known is None else known) if each != name)
        for other in islice(others, LINES):
            is_other = is_table(type(namespace[other]))
            if is_other and summarize(other, namespace[other]).columns == line.columns:
                return label(name, _refer_to(other, name, line))
    return ellipsize(label(name, line), _BRIEF)


def is_data(value: object) -> bool:
    """Return whether a value is neither a module nor a function or class."""
    return _kind(type(value)) in (_TABLE, _DATA)


def rank_names(namespace: Mapping[str, object]) -> list[str]:
    """Return the names in the order of a digest: tables first, newest of each kind first."""
    return [name for group in _by_kind(namespace) for name in group]


def _by_kind(namespace: Mapping[str, object]) -> list[list[str]]:
    groups: list[list[str]] = [[], [], [], []]
    kinds: dict[int, int] = {}  # each type is looked at once, however many variables have it
    for name in reversed(list(namespace)):
        if type(name) is str and name[:1] != "_":
            cls = type(namespace[name])
            if id(cls) not in kinds:
                kinds[id(cls)] = _kind(cls)
            groups[kinds[id(cls)]].append(name)
    return groups


def _kind(cls: type) -> int:
    bases = ancestors(cls)
    if is_table(cls):
        return _TABLE
    ids = {*map(id, bases)}
    if not ids.isdisjoint(map(id, _CODE_TYPES)):
        return _CODE
    return _MODULE if id(types.ModuleType) in ids else _DATA


def _modules(namespace: JsonMapping, names: list[str]) -> str:
    titles = []
    for name in names[:_MODULES]:
        title = module_title(namespace[name])
        titles.append(one_line(name if name == title else f"{name} ({title})"))
    return f"- modules: {', '.join(titles)}{', …' if len(names) > _MODULES else ''}"


PACKAGES = (
    "pandas", "polars", "numpy", "scipy", "scikit-learn", "statsmodels", "matplotlib", "seaborn",
    "plotly", "pyarrow", "duckdb", "openpyxl", "xgboost", "torch",
)  # fmt: skip

EXPECTED = ("pandas", "numpy", "scipy", "scikit-learn", "statsmodels", "matplotlib", "seaborn")
"""Packages that models use without asking; it is worth a few bytes that one is missing."""


@cache
def installed_packages() -> str:
    """Return one line on Python and the packages, the same as long as the kernel lives.

    It is part of the system prompt, which must not change within a session.
    """
    versions = {name: version for name in PACKAGES if (version := _version(name))}
    python = ".".join(platform.python_version_tuple()[:2])
    parts = [f"Python {python}", *(f"{name} {each}" for name, each in versions.items())]
    missing = [name for name in EXPECTED if name not in versions]
    rest = f"; not installed: {', '.join(missing)}" if missing else ""
    return f"Installed: {', '.join(parts)}{rest}."


def _version(name: str) -> str:
    """Return the first two parts of a package's version; "" if it is not installed."""
    try:
        version = metadata.version(name) or ""
    except (metadata.PackageNotFoundError, OSError, ValueError):  # or its record is damaged
        return ""
    return ".".join(version.split(".")[:2])


MOST_FILES = 20_000
"""Files and folders that are looked at."""
_CACHES = frozenset({".ipyagent", ".ipynb_checkpoints", "__pycache__"})
"""Folders that we, Jupyter and Python write in while code runs."""

Kind = Literal["created", "changed", "deleted"]


@dataclass(frozen=True)
class Surroundings:
    """The state before or after code ran. `files` is None if there are too many."""

    environment: dict[str, str | None]
    folder: str
    files: dict[str, tuple[int, ...]] | None = None

    @classmethod
    def observe(cls, root: str | None = None) -> Surroundings:
        """Return the state now, with the files in `root`, from any thread."""
        # Another thread may delete a name meanwhile.
        environment = {name: os.environ.get(name) for name in os.environ}
        try:
            folder = os.getcwd()  # noqa: PTH109 - as code finds it
        except OSError:
            folder = ""
        return cls(environment, folder, _scan(root) if root else None)

    def list_settings(self, before: Surroundings) -> Iterator[str]:
        """Yield what code set since then: names of the environment, never values."""
        was, now = before.environment, self.environment
        yield from (f"set {name}" for name in sorted(now) if now[name] != was.get(name))
        yield from (f"unset {name}" for name in sorted(was.keys() - now.keys()))
        if self.folder != before.folder:
            yield f"set the working folder to {self.folder}"

    def list_files(self, before: Surroundings) -> Iterator[tuple[str, Kind]]:
        """Yield the files and folders that changed since then, relative to their root."""
        was, now = before.files or {}, self.files or {}
        for path in sorted(was.keys() | now.keys()):
            if was.get(path) != now.get(path):
                yield (
                    path,
                    "created" if path not in was else "changed" if path in now else "deleted",
                )


def _scan(root: str) -> dict[str, tuple[int, ...]] | None:
    found, waiting = dict[str, tuple[int, ...]](), [root]
    notebook = os.path.realpath(os.environ.get("JPY_SESSION_NAME") or "/")  # Jupyter saves it
    while waiting:
        try:
            entries = [*os.scandir(waiting.pop())]
        except OSError:  # it is gone, or not ours
            continue
        for entry in entries:
            try:
                status = entry.stat(follow_symlinks=False)
            except OSError:
                continue
            if entry.name in _CACHES or entry.path == notebook:
                continue
            stamp: tuple[int, ...] = status.st_mode, status.st_ino
            if stat.S_ISDIR(status.st_mode):
                waiting.append(entry.path)
            else:
                stamp += status.st_size, status.st_mtime_ns
            found[entry.path.removeprefix(f"{root}/")] = stamp
        if len(found) > MOST_FILES:
            return None
    return found
