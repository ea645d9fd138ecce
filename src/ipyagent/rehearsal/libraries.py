"""Libraries that looks need: loaded before the fork, and prepared for a copy of the kernel.

On the copy an import would be lost and paid for each time, and new tables could not be adopted
where pandas is missing. It is the only code that runs in the kernel because of a look: that of
installed libraries of a closed list, which do no more than define things.
"""

from __future__ import annotations

import ast
import contextlib
import ctypes
import importlib
import os
import queue
import re
import sys
import sysconfig
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.abc import MetaPathFinder
from importlib.machinery import BuiltinImporter, FrozenImporter, ModuleSpec, PathFinder
from multiprocessing.context import BaseContext
from pathlib import Path
from typing import Any

from ipyagent.imports import is_of_package
from ipyagent.rehearsal.system import read_mappings
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
