"""Well-known libraries that code imports: they are loaded before a rehearsal, not in it.

On the copy an import would be lost and paid for each time, and new tables could not be adopted
where pandas is missing. It is the only code that runs in the kernel because of a rehearsal: that of
installed libraries of this list, which do no more than define things.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import os
import sys
import sysconfig
from collections.abc import Iterator
from importlib.machinery import PathFinder

_LIBRARIES = frozenset(
    {
        *("numpy", "pandas", "scipy", "matplotlib", "seaborn", "sklearn", "statsmodels", "pyarrow"),
        *("bisect", "calendar", "collections", "copy", "csv", "dataclasses", "datetime", "decimal"),
        *("enum", "fractions", "functools", "glob", "heapq", "io", "itertools", "json", "math"),
        *("operator", "os", "pathlib", "pprint", "random", "re", "statistics", "string", "sys"),
        *("textwrap", "time", "typing", "unicodedata", "warnings", "zipfile", "zoneinfo"),
    }
)
_PACKAGES = ("site-packages", "dist-packages")


def load_libraries(code: str) -> None:
    """Import the libraries of the list that code imports, as far as they are installed."""
    for name in dict.fromkeys(_list_imports(code)):
        root = name.partition(".")[0]
        if root in _LIBRARIES and name not in sys.modules and _is_installed(root):
            with contextlib.suppress(Exception):  # the code will meet it
                importlib.import_module(name)


def _list_imports(code: str) -> Iterator[str]:
    try:
        nodes = [*ast.walk(ast.parse(code))]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module


def _is_installed(name: str) -> bool:
    """Return whether an import would find the installed library, not a file of the user's."""
    if name in sys.builtin_module_names:
        return True
    try:
        spec = PathFinder.find_spec(name)
    except (ImportError, OSError, ValueError):
        return False
    origin = os.path.realpath(spec.origin) if spec is not None and spec.origin else ""
    standard = (os.path.realpath(sysconfig.get_path(key)) for key in ("stdlib", "platstdlib"))
    in_packages = any(f"{os.sep}{each}{os.sep}" in origin for each in _PACKAGES)
    return in_packages or any(origin.startswith(f"{each}{os.sep}") for each in standard)
