"""Descriptions of variables for the model, without running code of the user's classes.

Describing never calls `repr`, `len`, `==`, properties or any other method of a class that is not
Python's own or a table library's, never consumes an iterator and never collects a lazy table.
"""

from __future__ import annotations

import builtins
import re
import types
from collections.abc import Iterable
from itertools import starmap

from ipyagent.kernel.describe.dask_collections import dask_array, dask_bag, dask_frame, dask_series
from ipyagent.kernel.describe.databases import (
    duckdb_connection,
    duckdb_relation,
    ibis_table,
    sqlalchemy_engine,
    sqlalchemy_metadata,
    sqlalchemy_table,
)
from ipyagent.kernel.describe.labelled_arrays import xarray_array, xarray_dataset
from ipyagent.kernel.describe.lazy_tables import (
    arrow_dataset,
    arrow_reader,
    arrow_table,
    polars_lazy,
)
from ipyagent.kernel.describe.libraries import Describer, find_loaded, library_types
from ipyagent.kernel.describe.metadata import is_library_class
from ipyagent.kernel.describe.objects import BY_TYPE
from ipyagent.kernel.describe.safe_inspect import ancestors, one_line, type_name
from ipyagent.kernel.describe.stored_arrays import hdf5_node, memory_map, zarr_array, zarr_group
from ipyagent.plaintext import strip_escapes
from ipyagent.redaction import Secrecy, secrecy

_LAZY_TABLES: list[tuple[str, str, Describer]] = [
    ("dask.dataframe", "DataFrame", dask_frame),
    ("polars", "LazyFrame", polars_lazy),
    ("duckdb", "DuckDBPyRelation", duckdb_relation),
    ("ibis.expr.types", "Table", ibis_table),
    ("sqlalchemy", "Table", sqlalchemy_table),
    ("pyarrow.dataset", "Dataset", arrow_dataset),
]
_ARROW_TABLES: list[tuple[str, str, Describer]] = [
    ("pyarrow", "Table", arrow_table),
    ("pyarrow", "RecordBatch", arrow_table),
]
_LAZY_DATA: list[tuple[str, str, Describer]] = [
    ("dask.dataframe", "Series", dask_series),
    ("dask.dataframe", "Index", dask_series),
    ("dask.array", "Array", dask_array),
    ("dask.bag", "Bag", dask_bag),
    ("duckdb", "DuckDBPyConnection", duckdb_connection),
    ("sqlalchemy", "MetaData", sqlalchemy_metadata),
    ("sqlalchemy", "Engine", sqlalchemy_engine),
    ("pyarrow", "RecordBatchReader", arrow_reader),
    ("xarray", "Dataset", xarray_dataset),
    ("xarray", "DataArray", xarray_array),
    ("zarr", "Group", zarr_group),
    ("zarr", "Array", zarr_array),
    ("h5py", "Group", hdf5_node),
    ("h5py", "Dataset", hdf5_node),
    ("numpy", "memmap", memory_map),
]


_PYTHONS_OWN = {id(each) for each in (*vars(builtins).values(), *vars(types).values())}
"""The identity of types that need no look at their ancestors, and of other objects."""
_HOMES = {"duckdb": ("duckdb", "_duckdb")}
"""The packages whose own a library's classes are, where they are not the library's alone."""


def _for_own_class(module: str, name: str, describer: Describer) -> tuple[str, str, Describer]:
    """Return the entry with a describer that declines subclasses: they may run the user's code."""
    library = module.partition(".")[0]
    homes = _HOMES.get(library, (library,))

    def describe_own(value: object, secret: Secrecy, detail: bool) -> str | None:
        own = is_library_class(type(value), *homes)
        return describer(value, secret, detail) if own else None

    return module, name, describe_own


_METADATA = [*starmap(_for_own_class, _LAZY_TABLES + _ARROW_TABLES + _LAZY_DATA)]


def known_types() -> dict[int, Describer]:
    """Return the describers by the identity of the types that are loaded."""
    found: dict[int, Describer] = {}
    for cls, describer in (*library_types(), *find_loaded(_METADATA)):
        found[id(cls)] = describer
    return found


def is_table(cls: type) -> bool:
    """Return whether the class is a table library's, or the user's subclass of one."""
    if id(cls) in _PYTHONS_OWN:
        return False
    known = {id(each) for each, _ in find_loaded(_LAZY_TABLES + _ARROW_TABLES)}
    known |= {id(each) for each, _ in library_types() if type_name(each) == "DataFrame"}
    return not known.isdisjoint(map(id, ancestors(cls)))


def holds_lazy_data(values: Iterable[object]) -> bool:
    """Return whether some of the values are data that is not in memory."""
    classes = {id(type(each)): type(each) for each in values}
    foreign = [cls for cls in classes.values() if id(cls) not in _PYTHONS_OWN]
    known = {id(each) for each, _ in find_loaded(_LAZY_TABLES + _LAZY_DATA)} if foreign else set()
    return any(not known.isdisjoint(map(id, ancestors(cls))) for cls in foreign)


_KIND = re.compile(r"\w+(?:, (?:shape \([\d, ]*\)|[\d,]+ \w+(?: × [\d,]+ \w+)?))?")  # noqa: RUF001
"""The part of a line before names, types and values."""

BRIEF = 48
"""Characters that a list of completions has room for."""

_TABLE = re.compile(r"(\w+), ([\d,]+) rows(?: (\S) ([\d,]+) columns)?")

_BUILT_IN = {id(cls): describer for cls, describer in BY_TYPE}


def describe(name: str, value: object, *, detail: bool) -> str:
    """Describe a variable in one line, or with `detail` in as much text as helps to use it."""
    # A table library's own object can be broken; its type is still useful.
    description = _try_to_describe(value, secrecy(name), detail) or type_name(type(value))
    return strip_escapes(f"{one_line(name)}: {description}")


def _try_to_describe(value: object, secret: Secrecy, detail: bool) -> str:
    """Return the description of a value, "" if that fails."""
    try:
        return _describe_value(value, secret, detail)
    except Exception:
        return ""
    except BaseException as error:
        # Libraries in Rust panic, which to Python is no error.
        if type(error).__name__ != "PanicException":
            raise
        return ""


def kind(value: object) -> str:
    """Return the type of a value, with its size if it has one."""
    match = _KIND.match(_try_to_describe(value, Secrecy.NONE, False))
    return match[0] if match else type_name(type(value))


def brief(name: str, value: object) -> str:
    """Return type and size, or value, in a few characters: `int = 3`."""
    description = describe(name, value, detail=False).removeprefix(f"{one_line(name)}: ")
    table = _TABLE.match(description)
    return one_line(" ".join(filter(None, table.groups())) if table else description, BRIEF)


def _describe_value(value: object, secret: Secrecy, detail: bool) -> str:
    known = _BUILT_IN if id(type(value)) in _BUILT_IN else _BUILT_IN | known_types()
    for base in ancestors(type(value)):
        describer = known.get(id(base))
        description = describer(value, secret, detail) if describer else None
        if description is not None:
            return description
    return type_name(type(value))
