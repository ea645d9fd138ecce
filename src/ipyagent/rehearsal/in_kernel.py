"""The kernel's own part in a rehearsal: what it loads before, and what it takes over after.

On the copy an import would be lost and paid for each time, and new tables could not be adopted
where pandas is missing. It is the only code that runs in the kernel because of a look: that of
installed libraries of a closed list, which do no more than define things. Imports and functions are
resolved by the text of the code, which the user sees, never by a report.
"""

from __future__ import annotations
import __future__

import ast
import contextlib
import importlib
import linecache
import os
import random
import re
import sys
import sysconfig
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, MutableMapping, Sequence
from contextlib import suppress
from functools import partial
from importlib.abc import MetaPathFinder
from importlib.machinery import BuiltinImporter, FrozenImporter, ModuleSpec, PathFinder
from types import CodeType, FunctionType
from typing import Any
from zlib import crc32

from ipyagent.imports import is_of_package
from ipyagent.values.variables.reach import parse_nodes

_STANDARD = """
    bisect calendar collections copy csv dataclasses datetime decimal enum fractions functools glob
    heapq io itertools json math operator os pathlib pprint random re sqlite3 statistics string sys
    textwrap time typing unicodedata warnings zipfile zoneinfo collections.abc os.path
    contextlib hashlib uuid base64 urllib.parse html inspect
"""
_INSTALLED = """
    numpy pandas pyarrow openpyxl seaborn polars scipy matplotlib sklearn statsmodels networkx
    xarray geopandas shapely plotly altair duckdb sqlalchemy requests PIL tqdm bs4 lxml yaml sympy
    nltk spacy torch numba dask h5py zarr lifelines xgboost lightgbm pyproj dateutil pytz joblib
    rich tabulate
    numpy.linalg numpy.random pandas.api.types pyarrow.compute pyarrow.parquet pyarrow.csv
    matplotlib.pyplot matplotlib.dates matplotlib.ticker matplotlib.colors matplotlib.patches
    scipy.stats scipy.optimize scipy.signal scipy.interpolate scipy.spatial scipy.sparse
    scipy.cluster.hierarchy scipy.special scipy.linalg scipy.ndimage
    sklearn.linear_model sklearn.model_selection sklearn.ensemble sklearn.preprocessing
    sklearn.metrics sklearn.cluster sklearn.decomposition sklearn.pipeline sklearn.impute
    sklearn.compose sklearn.tree sklearn.neighbors sklearn.svm sklearn.datasets sklearn.manifold
    sklearn.feature_extraction.text sklearn.feature_selection sklearn.naive_bayes
    sklearn.neural_network sklearn.mixture sklearn.inspection
    statsmodels.api statsmodels.formula.api statsmodels.tsa.api plotly.express
    plotly.graph_objects plotly.subplots shapely.geometry tqdm.auto dask.dataframe dask.array
"""
LIBRARIES = frozenset(f"{_STANDARD} {_INSTALLED}".split())
"""Modules that may be imported for a look. No other part of a library that code names is: some are
scripts, tests or settings, which act when they are imported."""
_LATE = {
    **dict.fromkeys(("read_excel", "ExcelFile"), "openpyxl"),
    **dict.fromkeys(("read_parquet", "to_parquet"), "pyarrow.parquet"),
    **dict.fromkeys(("plot", "hist", "boxplot"), "matplotlib.pyplot"),
    "matplotlib": "matplotlib.pyplot",  # which loads the list of fonts
    "seaborn": "matplotlib.pyplot",
    "polars": "numpy",
}
"""By methods, and by libraries: what they import when they are used."""


def load_libraries(code: str) -> None:
    """Import the modules of the list that code names, as far as they are installed."""
    with _installed_only():
        for name in dict.fromkeys(_list_libraries(code)):
            if name not in sys.modules:
                with contextlib.suppress(BaseException):  # the code will meet it
                    importlib.import_module(name)
        if "numpy" in sys.modules:  # it loads this late, and what a look seeds has to stay so
            importlib.import_module("numpy.random")


def _list_libraries(code: str) -> Iterator[str]:
    for node in parse_nodes(code) or ():
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [each.name for each in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [node.module, *(f"{node.module}.{each.name}" for each in node.names)]
        elif isinstance(node, ast.Attribute) and node.attr in _LATE:
            yield _LATE[node.attr]
        for name in names:
            root = name.partition(".")[0]
            if root in LIBRARIES:
                yield from (root, *(each for each in (_LATE.get(root), name) if each in LIBRARIES))


@contextlib.contextmanager
def _installed_only() -> Iterator[None]:
    """Let imports of this thread find what is installed, and nothing beside it.

    A library looks for others that it can use: a file of the workspace may have such a name.
    """
    thread, standard = threading.get_ident(), sysconfig.get_paths()
    roots = tuple(os.path.realpath(standard[key]) for key in ("stdlib", "platstdlib"))
    path = [
        each
        for each in sys.path
        if is_of_package(f"{each}/") or os.path.realpath(each).startswith(roots)
    ]

    others = [each for each in sys.meta_path if hasattr(each, "find_spec")]
    installed: Any = [(BuiltinImporter, None), (FrozenImporter, None), (PathFinder, path)]

    class Installed(MetaPathFinder):
        @staticmethod
        def find_distributions(*context: object) -> Iterator[object]:
            for each in others:
                yield from getattr(each, "find_distributions", lambda *_: ())(*context)

        @staticmethod
        def find_spec(
            name: str, path_of_parent: Sequence[str] | None = None, target: object = None
        ) -> ModuleSpec | None:
            finders = installed
            if threading.get_ident() != thread or path_of_parent is not None:
                finders = [(each, path_of_parent) for each in others]
            specs = (each.find_spec(name, where, target) for each, where in finders)
            return next((each for each in specs if each is not None), None)

    # In the place of all others: they would be asked for what it does not find.
    finder, before = Installed(), [*sys.meta_path]
    sys.meta_path[:] = [finder]
    try:
        yield
    finally:
        place = sys.meta_path.index(finder)
        sys.meta_path[place : place + 1] = before


_PYTHON, _NUMPY = " ", "  "
"""Where the states of random numbers stand among adopted variables, others by ` ` and a name."""
_PLACES = 624
"""Numbers in the state of a Mersenne Twister."""


def resolve_names(
    code: str, names: Collection[str], bindings: MutableMapping[str, object]
) -> dict[str, object]:
    """Return what the code itself says that names are: loaded modules, their members, functions.

    Only those that nothing but imports and definitions at its top level binds. `bindings` are the
    globals of the functions.
    """
    nodes = parse_nodes(code) or [ast.Module([], [])]
    every = Counter(name for node in nodes for name, _ in _list_bindings(node))
    body = nodes[0].body if isinstance(nodes[0], ast.Module) else []
    found = dict[str, object]()
    for node in body:
        for name, source in _list_bindings(node):
            every[name] -= 1
            if name in names:
                found.pop(name, None)
                with suppress(LookupError, TypeError, AttributeError):
                    found[name] = _resolve(source, code, bindings)
    return {name: value for name, value in found.items() if not every[name]}


def _list_bindings(node: ast.AST) -> Iterator[tuple[str, ast.AST | tuple[str, str]]]:
    """Yield the names that a node binds, each with a definition, or a module and its member."""
    match node:
        case ast.Import(names=aliases):
            for each in aliases:
                root = each.name.partition(".")[0]
                # A package is not yet what code makes of it if that loads a part of it.
                module = root if each.name in sys.modules and not each.asname else each.name
                yield each.asname or root, (module, "")
        case ast.ImportFrom(module=module, names=aliases, level=level):
            for each in aliases:
                yield each.asname or each.name, ("" if level else module or "", each.name)
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name, node
        case ast.Name(id=name, ctx=ast.Store()):
            yield name, node


def _resolve(
    source: ast.AST | tuple[str, str], code: str, bindings: MutableMapping[str, object]
) -> object:
    """Return a loaded module, its member, or a function; raises LookupError for anything else."""
    if isinstance(source, tuple):
        module, member = source
        if member and f"{module}.{member}" not in sys.modules:
            return vars(sys.modules[module])[member]
        return sys.modules[f"{module}.{member}" if member else module]
    if not isinstance(source, ast.FunctionDef | ast.AsyncFunctionDef) or source.decorator_list:
        raise LookupError
    defaults = (*source.args.defaults, *source.args.kw_defaults)
    if not all(each is None or isinstance(each, ast.Constant) for each in defaults):
        raise LookupError
    name, made = f"<look {crc32(code.encode()):x}>", dict[str, object]()
    # Tracebacks find the source here.
    linecache.cache[name] = (len(code), None, code.splitlines(True), name)
    flags = __future__.annotations.compiler_flag  # they are not evaluated
    exec(compile(ast.Module([source], []), name, "exec", flags), bindings, made)  # type: ignore[arg-type]  # noqa: S102
    return made[source.name]


def is_as_written(value: object, written: object) -> bool:
    """Return whether a value is what `resolve_names` has found: code may have bound another one."""
    if not isinstance(value, FunctionType) or not isinstance(written, FunctionType):
        return value is written
    if value is written or vars(value) or vars(written):
        return value is written
    return _read_definition(value) == _read_definition(written)


def _read_definition(function: FunctionType) -> list[object]:
    defaults = repr((function.__defaults__, function.__kwdefaults__))
    return [*_read_code(function.__code__), defaults, function.__closure__]


def _read_code(code: CodeType) -> list[object]:
    # Not its flags, which tell of annotations, nor its place.
    found: list[object] = [code.co_code, code.co_names, code.co_varnames, code.co_freevars]
    return found + [
        _read_code(each) if isinstance(each, CodeType) else repr(each) for each in code.co_consts
    ]


def is_in_text(name: str, code: str) -> bool:
    """Return whether whoever reads the code sees a name, or it is that of a random state."""
    return is_random_state(name) or re.search(rf"\b{re.escape(name)}\b", code) is not None


_Source = tuple[Callable[[], object], Callable[..., object]]


def read_random_states(variables: Mapping[str, object]) -> dict[str, object]:
    """Return the states of random numbers as plain data: Python's, numpy's, and of its generators.

    The last by the names of variables.
    """
    return {name: read() for name, (read, _) in _list_sources(variables).items()}


def is_random_state(name: str) -> bool:
    """Return whether this is the name of a state among adopted variables."""
    return name[:1] == " "


def restore_random_states(states: Mapping[str, object], variables: Mapping[str, object]) -> None:
    """Go on with random numbers where a look has ended; a state that makes no sense is ignored."""
    sources = _list_sources(variables)
    for name, state in states.items():
        with suppress(Exception):
            if _is_sound(state):
                sources[name][1](state)


def _list_sources(variables: Mapping[str, Any]) -> dict[str, _Source]:
    """Return how to read and to set the states of random numbers, by their names."""
    numpy = sys.modules.get("numpy.random")
    found: dict[str, _Source] = {_PYTHON: (random.getstate, random.setstate)}
    if numpy is not None:
        found[_NUMPY] = numpy.get_state, numpy.set_state
    for name, value in variables.items():
        if type(value) is random.Random:
            found[f" {name}"] = value.getstate, value.setstate
        elif numpy is not None and type(value) is numpy.RandomState:
            found[f" {name}"] = value.get_state, value.set_state
        elif numpy is not None and type(value) is numpy.Generator:
            bits = value.bit_generator
            if type(bits) in (numpy.PCG64, numpy.MT19937):
                found[f" {name}"] = partial(getattr, bits, "state"), partial(setattr, bits, "state")
    return found


def _is_sound(state: object) -> bool:
    """Return whether a state can be set: numpy itself reads memory wherever the place points to."""
    match state:
        case {"state": {"pos": int(place)}} | ("MT19937", _, int(place), *_):
            return 0 <= place <= _PLACES
        case {"bit_generator": "PCG64"} | (_, _, None | float()):
            return True
    return False
