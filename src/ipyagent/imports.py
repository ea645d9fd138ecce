"""Imports that skip the working folder: a cloned folder's `yaml.py` does not run with ipyagent.

A kernel looks for modules in its working folder first. That is right for the user's imports;
installed code means the packages with which it was installed. So, while the guard is installed, an
import by installed code finds installed modules, and ipyagent's dependencies never take an optional
module from the folder. `ipyagent.py` itself is beyond reach: it would be loaded instead of all
this.
"""

from __future__ import annotations

import os
import re
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec, PathFinder
from itertools import islice
from pathlib import Path
from types import FrameType, ModuleType

_SUFFIXES = (".py", ".pyc", *EXTENSION_SUFFIXES)
_MOST = 1_000
"""Entries of the working folder that are checked for a notice."""
_NOT_OURS = re.compile(r"extra\s*==\s*['\"](?:test|data|lab)['\"]")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_INSTALLED = tuple(
    {os.path.realpath(sysconfig.get_path(key)) + os.sep for key in ("stdlib", "platstdlib")}
)
_LOADERS = frozenset({"IPython", "ipyagent", "ipykernel", "pydantic", "traitlets"})
"""They import modules that a user names: extensions, settings, validators."""
PACKAGES = ("site-packages", "dist-packages")
"""Names of folders in which packages are installed."""


class _Guard:
    """A finder that answers for installed code before the working folder would."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the installed module's spec, or None to let other finders look."""
        if path is not None or not _in_folder(name):
            return None
        importer, by_value = _importer()
        if importer is None or not _is_installed(importer):
            return None
        package = importer.f_globals.get("__name__", "").partition(".")[0]
        if by_value and package in _LOADERS:
            return None
        found = PathFinder.find_spec(name, _path_elsewhere(), target)
        # The standard library loads modules that users name (pickles); other packages are not ours.
        if found is None and package in _modules_of_ours():
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return found


def guard() -> None:
    """Start to skip the working folder; more than once changes nothing."""
    if _Guard not in sys.meta_path:
        sys.meta_path.insert(0, _Guard)


def unguard() -> None:
    """Undo `guard`."""
    if _Guard in sys.meta_path:
        sys.meta_path.remove(_Guard)


def shadowing_notices() -> Iterator[str]:
    """Yield notices about files of the working folder named like a module that ipyagent needs."""
    files = {name: file for name, file in _files() if _is_needed(name)}
    imported = [file for name, file in files.items() if _is_from_folder(sys.modules.get(name))]
    passed_by = [file for file in files.values() if file not in imported]
    if imported:
        yield (
            f"{', '.join(imported)} in this folder: imported before ipyagent was loaded, so "
            "ipyagent works with it in place of the installed package of that name. Rename it and "
            "restart the kernel, unless you want that."
        )
    if passed_by:
        yield (
            f"{', '.join(passed_by)} in this folder: ipyagent needs an installed package of that "
            "name and did not import the file; your own imports may. Rename it, unless you want "
            "that."
        )


def _files() -> Iterator[tuple[str, str]]:
    """Yield the modules in the working folder, and their files."""
    try:
        with os.scandir() as entries:
            files = sorted(entry.name for entry in islice(entries, _MOST))
    except OSError:
        return
    for file in files:
        name = file.partition(".")[0]
        if _could_be_module(file) and name != "ipyagent":
            yield name, file


@cache
def _is_needed(name: str) -> bool:
    try:
        is_installed = PathFinder.find_spec(name, _path_elsewhere()) is not None
    except (ImportError, OSError, ValueError):
        return False
    return is_installed and name in _modules_of_ours()


def _could_be_module(name: str) -> bool:
    is_package = "." not in name and os.path.isfile(os.path.join(name, "__init__.py"))  # noqa: PTH113, PTH118
    return name.endswith(_SUFFIXES) or is_package


def working_folder() -> Path | None:
    """Return the working folder of the process; None if it was deleted."""
    try:
        return Path.cwd()
    except OSError:
        return None


def _in_folder(name: str) -> bool:
    """Return whether the working folder has a module of that name, and is on the path."""
    if not any(_is_folder(position, entry) for position, entry in enumerate(sys.path)):
        return False
    return os.path.isdir(name) or any(os.path.exists(name + suffix) for suffix in _SUFFIXES)  # noqa: PTH110, PTH112


def _is_folder(position: int, entry: str) -> bool:
    """Return whether a path entry is the working folder only because a process started there.

    An entry further back was put there on purpose: by an editable installation, or by a user.
    """
    if entry in ("", "."):
        return True
    try:
        return position == 0 and os.path.realpath(entry) == os.path.realpath(os.getcwd())  # noqa: PTH109
    except OSError:  # the folder is gone
        return False


def _path_elsewhere() -> list[str]:
    return [entry for i, entry in enumerate(sys.path) if not _is_folder(i, entry)]


def _importer() -> tuple[FrameType | None, bool]:
    """Return the frame of the importing code, and whether it took the name from a value."""
    frame: FrameType | None = sys._getframe(2)
    by_value = False
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if module.partition(".")[0] != "importlib" and "importlib._bootstrap" not in module:
            return frame, by_value
        by_value |= not frame.f_code.co_filename.startswith("<frozen importlib._bootstrap")
        frame = frame.f_back
    return None, by_value


def is_of_package(path: str) -> bool:
    """Return whether a path leads into a folder of installed packages."""
    return any(f"{os.sep}{each}{os.sep}" in path for each in PACKAGES)


def _is_installed(frame: FrameType) -> bool:
    path = os.path.realpath(frame.f_code.co_filename)
    if frame.f_globals.get("__name__") == "__main__":
        return False
    return (
        path.startswith((*_INSTALLED, str(Path(__file__).parent) + os.sep))
        or is_of_package(path)
        or frame.f_code.co_filename.startswith("<frozen ")
    )


def _is_from_folder(module: object) -> bool:
    """Return whether a module was imported from the working folder itself."""
    file = getattr(module, "__file__", None)
    if not isinstance(file, str):
        return False
    folder = os.path.dirname(os.path.realpath(file))  # noqa: PTH120
    try:
        here = os.path.realpath(os.getcwd())  # noqa: PTH109
    except OSError:
        return False
    is_package = os.path.basename(file).startswith("__init__.")  # noqa: PTH119
    return (os.path.dirname(folder) if is_package else folder) == here  # noqa: PTH120


@cache
def _modules_of_ours() -> frozenset[str]:
    """Return the top-level modules of ipyagent and of all its requirements."""
    from importlib import metadata  # it imports much of the standard library: guarded by now

    ours = _requirements()
    return frozenset(
        name.partition("/")[0]  # old distributions name parts of packages as well
        for name, distributions in metadata.packages_distributions().items()
        if any(_normal(each) in ours for each in distributions)
    ) | {"ipyagent"}


def _requirements() -> set[str]:
    """Return the distributions that ipyagent requires, transitively, with its own extras."""
    from importlib import metadata

    required: set[str] = set()
    waiting = ["ipyagent"]
    while waiting:
        name = _normal(waiting.pop())
        if name in required:
            continue
        required.add(name)
        try:
            lines = metadata.requires(name) or []
        except metadata.PackageNotFoundError:
            continue
        optional = _NOT_OURS if name == "ipyagent" else re.compile(r"extra\s*==")
        for line in lines:
            if (match := _NAME.match(line)) and not optional.search(line):
                waiting.append(match[0])
    return required


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
