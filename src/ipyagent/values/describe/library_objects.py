"""Objects of libraries that are large, lazy or elsewhere: a row for each type, and one function.

A row's function reads members that a library has at hand, and dictionaries of instances: nothing
is computed, loaded or asked of a server. It is called for a library's own classes only, since a
subclass may run the user's code.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from operator import attrgetter
from pathlib import Path
from typing import Any

from ipyagent.plaintext import human_size, plural
from ipyagent.redaction import Secrecy
from ipyagent.values.describe.libraries import column_labels, table_of
from ipyagent.values.describe.python_values import Description, preview
from ipyagent.values.describe.safe_inspect import (
    is_library_class,
    module_name,
    one_line,
    own_attributes,
    type_name,
)
from ipyagent.values.describe.table import COLUMNS, NAMED, TIMES, align_columns, label_text

_Object = Any  # of a library: its members are named below, and nowhere else

_LAZY = "not computed"
_ENTRIES = 20  # tables, arrays or groups inside that are named
_LIBRARIES = (
    *("anndata", "cupy", "dask", "duckdb", "_duckdb", "h5py", "ibis", "networkx", "numpy"),
    *("pandas", "polars", "pyarrow", "scipy", "sparse", "sqlalchemy", "torch", "xarray", "zarr"),
)
"""Packages whose own classes are asked for their metadata."""


@dataclass(frozen=True)
class Facts:
    """Facts about an object: in words, its columns, and lines for what is inside."""

    words: Sequence[str | None] = ()
    columns: tuple[Iterable[object], Iterable[object]] | None = None
    """Labels and types of a table's columns; None if they cannot be known without work."""
    entries: Sequence[str] = ()
    name: str = ""
    """Stands right behind the type."""


@dataclass(frozen=True)
class Row:
    """A type of a library, by module and name, and the function that finds its facts."""

    module: str
    name: str
    find: Callable[[_Object], Facts]
    is_table: bool = False
    in_memory: bool = False

    def describe(self, value: object, secret: Secrecy, detail: bool) -> Description | None:
        """Describe an object in one line, or in detail; None for a subclass."""
        if not _is_known(value):
            return None
        found = self.find(value)
        facts = "".join(f", {each}" for each in found.words if each)
        facts += f" [{self.module.partition('.')[0]}]"
        kind, inside = f"{type_name(type(value))}{found.name}", _cut(found.entries, _ENTRIES)
        if detail:
            facts += "".join(f"\n  {each}" for each in inside)
        elif inside and not self.is_table:
            facts += f": {'; '.join(inside)}"
        if found.columns is None:
            return Description(kind, "", facts)
        columns = [
            [label_text(label), _name_dtype(dtype)]
            for label, dtype in zip(*found.columns, strict=True)
        ]
        kind += f", {len(columns):,} columns"
        if not detail:
            named = _cut([": ".join(each) for each in columns], NAMED)
            return Description(kind, f" ({', '.join(named)})", facts)
        rows = [["column", "dtype"], *columns[:COLUMNS]]
        if len(columns) > COLUMNS:
            rows.append([f"… {len(columns) - COLUMNS:,} more"])
        return Description(kind, "", f"{facts}\n\n{align_columns(rows)}")


def _cut(items: Sequence[str], most: int) -> list[str]:
    rest = len(items) - most
    return [*items[:most], *([f"… {rest:,} more"] if rest > 0 else [])]


def _is_known(value: object) -> bool:
    """Return whether the members of the value's class compute nothing."""
    return is_library_class(type(value), *_LIBRARIES)


def _name_dtype(dtype: object) -> str:
    """Return a type's text if its class is a library's own, else the class's name."""
    own = type(dtype) is str or _is_known(dtype)
    return one_line(str(dtype)) if own else type_name(type(dtype))


def _write_size(count: float) -> str | None:
    """Return a number of bytes as an estimate, `~4.1 GB`; None if it is unknown."""
    return None if math.isnan(count) else f"~{human_size(count)}"


def _write_shape(shape: Iterable[object]) -> str:
    """Return a shape as Python writes it; what is not a whole number is unknown."""
    sizes = [f"{each:,}" if type(each) is int else "?" for each in shape]
    return f"({', '.join(sizes)}{',' if len(sizes) == 1 else ''})"


def _describe_array(array: _Object) -> str:
    """Return shape, type, size and chunks of an array: numpy's, or one with the same members."""
    if array.shape is None:
        return f"empty, {_name_dtype(array.dtype)}"  # a dataset of HDF5
    facts = f"shape {_write_shape(array.shape)}, {_name_dtype(array.dtype)}"
    chunks = getattr(array, "chunks", None)
    in_chunks = f", chunks {_write_shape(chunks)}" if chunks else ""
    return f"{facts}, {_write_size(array.nbytes)}{in_chunks}"


# Collections of Dask ------------------------------------------------------------------------------


def _dask_frame(value: _Object) -> Facts:
    divisions = _read_divisions(value)
    ends = []
    if divisions[:1] not in ((), (None,)):
        ends = [f"divisions: {label_text(divisions[0])} to {label_text(divisions[-1])}"]
    return Facts(_dask_words(value), (value.columns, value.dtypes), ends)


def _dask_series(value: _Object) -> Facts:
    name = "" if value.name is None else f" {label_text(value.name)}"
    return Facts(_dask_words(value), name=f"{name} ({_name_dtype(value.dtype)})")


def _dask_words(value: _Object) -> list[str | None]:
    divisions = _read_divisions(value)
    return [plural(len(divisions) - 1, "partition") if divisions else None, _LAZY]


def _read_divisions(value: _Object) -> tuple[object, ...]:
    """Return the divisions if a table has them at hand: Dask may compute to find them."""
    found = own_attributes(value.expr).get("divisions")
    return found if type(found) is tuple else ()


def _dask_array(value: _Object) -> Facts:
    facts = f"shape {_write_shape(value.shape)}, {_name_dtype(value.dtype)}"
    chunks = f"{plural(value.npartitions, 'chunk')} of {_write_shape(value.chunksize)}"
    return Facts([facts, _write_size(value.nbytes), chunks, _LAZY])


# HDF5 and zarr ------------------------------------------------------------------------------------

_DEPTH = 3  # of groups in groups
_LOCAL = {"sec2", "stdio", "core", "direct", "windows"}
"""Drivers of HDF5 that read local files; others ask servers, or objects of the user's own."""


def _hdf5_node(value: _Object) -> Facts:
    """Find the facts of a dataset, or of a group and the tree below it.

    HDF5 serves one thread at a time: nobody waits for another one here.
    """
    lock: _Object = getattr(sys.modules["h5py._objects"], "phil")  # noqa: B009
    if not lock.acquire(False):
        return Facts(["in use by another thread"])
    try:
        if not value:
            return Facts(["closed"])
        file, is_array = value.file, type_name(type(value)) == "Dataset"
        name = "" if type_name(type(value)) == "File" else f" {preview(value.name)}"
        name += f" in {preview(file.filename)}"
        words = [f"mode {one_line(file.mode)}"]
        if file.driver not in _LOCAL:
            return Facts([*words, one_line(file.driver)], name=name)
        if is_array:
            return Facts([*words, _describe_array(value), "not read"], name=name)
        entries = [*islice(_walk_tree(value, "", _DEPTH), _ENTRIES + 1)]
        return Facts(words, entries=entries, name=name)
    finally:
        lock.release()


def _name_store(value: _Object) -> str:
    """Return the place where a store of zarr is, as it says itself."""
    root = own_attributes(value.store).get("root")
    is_path = isinstance(root, Path)
    return f"in {preview(str(root))}" if is_path else f"in a {type_name(type(value.store))}"


def _walk_tree(group: _Object, prefix: str, depth: int) -> Iterator[str]:
    """Yield lines for the arrays below a group, and for its lowest groups; no link is followed."""
    for name in islice(group, _ENTRIES + 1):
        path = f"{prefix}{one_line(name)}"
        if type_name(type(group.get(name, getlink=True))) != "HardLink":
            yield f"{path} (link)"
        elif hasattr(node := group[name], "shape"):
            yield f"{path}: {_describe_array(node)}"
        else:
            below = _walk_tree(node, f"{path}/", depth - 1) if depth else iter(())
            yield next(below, f"{path}/")
            yield from below


# Labelled arrays ----------------------------------------------------------------------------------


def _labelled_data(value: _Object) -> Facts:
    sizes, variables = value.sizes, value.variables
    names = [*(name for name in variables if name not in sizes), *sizes]
    found = [(name, variables[name]) for name in names if name in variables]
    entries = [
        f"{label_text(name)} ({', '.join(map(label_text, each.dims))}): {_describe_state(each)}"
        for name, each in found
    ]
    size = _write_size(sum(_count_bytes(each) for _, each in found))
    return Facts([size], entries=entries, name=f" ({_write_sizes(sizes.items())})")


def _labelled_array(value: _Object) -> Facts:
    variable = value.variable
    data = _read_data(variable)
    if data is None:
        return Facts()
    name = "" if value.name is None else f" {label_text(value.name)}"
    name += f" ({_write_sizes(zip(variable.dims, data.shape, strict=True))})"
    return Facts([_describe_state(variable), _write_size(_count_bytes(variable))], name=name)


def _write_sizes(sizes: Iterable[tuple[object, int]]) -> str:
    return ", ".join(f"{label_text(name)}: {count:,}" for name, count in sizes)


def _describe_state(variable: _Object) -> str:
    """Return type and state of an array: in memory, not loaded, or not computed."""
    data = _read_data(variable)
    if data is None:
        return "unknown type"
    dtype = _name_dtype(data.dtype)
    if is_library_class(type(data), "dask"):
        return f"{dtype}, chunks {_write_shape(data.chunksize)}, {_LAZY}"
    home = module_name(type(_unwrap(data)))
    is_lazy = home.startswith(("xarray.backends", "zarr", "h5py"))
    return f"{dtype}, not loaded" if is_lazy else dtype


def _read_data(variable: _Object) -> _Object:
    """Return a variable's array; None if it, or one that it wraps, may run the user's code."""
    data = variable._data
    return data if _is_known(data) and _is_known(_unwrap(data)) else None


def _unwrap(data: _Object) -> _Object:
    while is_library_class(type(data), "xarray") and getattr(data, "array", None) is not None:
        data = data.array
    return data


def _count_bytes(variable: _Object) -> float:
    data = _read_data(variable)
    return math.nan if data is None else math.prod(data.shape) * data.dtype.itemsize


# Matrices, networks, annotated data ---------------------------------------------------------------

_EDGES = 50_000  # that are counted


def _mapped_array(value: _Object) -> Facts:
    place = [] if value.filename is None else [f"in {preview(str(value.filename))}"]
    return Facts([_describe_array(value), *place, f"mode {value.mode}", "not loaded"])


def _sparse_matrix(value: _Object) -> Facts:
    held = own_attributes(value)
    data, kept, shape = (held.get(name) for name in ("data", "_dict", "_shape"))
    dtype = held.get("dtype")
    if is_library_class(type(data), "numpy") and dtype is None:
        dtype, kept = data.dtype, data  # type: ignore[attr-defined]
    stored = len(kept) if kept is not None else None  # type: ignore[arg-type]
    return Facts(
        [
            f"shape {_write_shape(shape if type(shape) is tuple else ())}",
            _name_dtype(dtype),
            None if stored is None else f"{stored:,} stored values",
        ]
    )


def _network(value: _Object) -> Facts:
    """Count nodes and edges, and name the attributes of the first of each; no node is hashed."""
    held, is_multiple = own_attributes(value), type_name(type(value)).startswith("Multi")
    nodes: _Object = held["_node"]
    neighbours: _Object = held["_adj"]
    ends = (
        (start is end, each)
        for start, found in neighbours.items()
        for end, between in found.items()
        for each in (between.values() if is_multiple else [between])
    )
    edges = [*islice(ends, 2 * _EDGES + 1)]
    loops = sum(is_loop for is_loop, _ in edges)
    count = len(edges) if "_succ" in held else (len(edges) + loops) // 2
    counted = plural(count, "edge") if len(edges) <= 2 * _EDGES else None
    firsts = {"nodes": next(iter(nodes.values()), {}), "edges": edges[0][1] if edges else {}}
    entries = [_name_keys(f"{part} with", keys) for part, keys in firsts.items() if keys]
    return Facts([plural(len(nodes), "node"), counted], entries=entries)


def _annotated_data(value: _Object) -> Facts:
    """Name the matrix, and the columns, layers and the like."""
    held = own_attributes(value)
    tables = [table_of(held.get(part)) for part in ("_obs", "_var")]
    rows, columns = (f"{table.rows:,}" if table else "?" for table in tables)
    matrix: _Object = held.get("_X")
    entries = []
    if "_shape" in own_attributes(matrix):
        words = filter(None, _sparse_matrix(matrix).words)
        entries.append(f"X: {', '.join([type_name(type(matrix)), *words])}")
    elif is_library_class(type(matrix), "numpy"):
        entries.append(f"X: {_describe_array(matrix)}")
    for part in ("obs", "var", "layers", "obsm", "varm", "obsp", "varp", "uns"):
        inside = held.get(f"_{part}")
        inside = own_attributes(inside).get("_data", inside)
        labels = dict.keys(inside) if isinstance(inside, dict) else column_labels(inside)
        entries += [_name_keys(f"{part}:", labels)] if labels else []
    return Facts([f"{rows} observations {TIMES} {columns} variables"], entries=entries)


def _name_keys(lead: str, keys: Iterable[object]) -> str:
    return f"{lead} {', '.join(map(label_text, islice(keys, NAMED)))}"


# Databases and files ------------------------------------------------------------------------------

FAR = "type <> 'duckdb' OR path LIKE '%://%'"
"""The condition for a database that may be on a server."""
DATABASES = f"SELECT count(*) FROM system.main.duckdb_databases() WHERE NOT internal AND ({FAR})"  # noqa: S608
"""The query that counts them."""
_DEFINITION = 300  # characters of a table's definition

# Columns come from the definitions: asked for the columns of a view, DuckDB may resolve its query.
_CATALOG = """
    SELECT database_name, sql, estimated_size
    FROM system.main.duckdb_tables() WHERE NOT internal
    UNION ALL
    SELECT database_name, sql, NULL FROM system.main.duckdb_views() WHERE NOT internal
"""


def _duckdb_connection(value: _Object) -> Facts:
    """List the catalog of a connection's database.

    A cursor of its own asks, so a result that the user has not fetched yet stays. What an open
    transaction has made is not seen.
    """
    cursor = value.cursor()
    try:
        if cursor.execute(DATABASES).fetchall()[0][0]:
            return Facts(["with databases elsewhere; SHOW ALL TABLES lists the tables"])
        rows = cursor.execute(_CATALOG).fetchall()
    finally:
        cursor.close()
    several = len({database for database, _, _ in rows}) > 1
    entries = []
    for database, sql, count in rows:
        definition = one_line(str(sql or "").strip("; \n").removeprefix("CREATE "), _DEFINITION)
        place = f" in {one_line(database)}" if several else ""
        entries.append(definition + place + ("" if count is None else f", ~{count:,} rows"))
    views = sum(count is None for _, _, count in rows)
    counts = [plural(len(rows) - views, "table"), plural(views, "view") if views else None]
    return Facts(counts, entries=entries)


def _sql_table(value: _Object) -> Facts:
    """Name the columns with their types; a type of the user's own by its class's name."""
    columns = [*value.columns]
    types = [f"{_name_dtype(each.type)}{' key' if each.primary_key else ''}" for each in columns]
    words = [f"of {one_line(value.fullname)}", "not queried"]
    return Facts(words, ([str(each.name) for each in columns], types))


def _sql_metadata(value: _Object) -> Facts:
    named = {
        key: ", ".join(label_text(str(each.name)) for each in table.columns)
        for key, table in value.tables.items()
    }
    entries = [one_line(f"{key}({columns})", _DEFINITION) for key, columns in named.items()]
    return Facts([plural(len(named), "table")], entries=entries)


def _arrow_dataset(value: _Object) -> Facts:
    is_files = type_name(type(value)) == "FileSystemDataset"
    words = [plural(len(value.files), "file") if is_files else None, "not read"]
    return Facts(words, _ARROW(value))


def _arrow_table(value: _Object) -> Facts:
    return Facts([plural(value.num_rows, "row"), _write_size(value.nbytes)], _ARROW(value))


_ARROW = attrgetter("schema.names", "schema.types")

ROWS = (
    Row("dask.dataframe", "DataFrame", _dask_frame, is_table=True),
    Row("dask.dataframe", "Series", _dask_series),
    Row("dask.dataframe", "Index", _dask_series),
    Row("dask.array", "Array", _dask_array),
    Row("dask.bag", "Bag", lambda bag: Facts([plural(bag.npartitions, "partition"), _LAZY])),
    # To know its columns, polars reads files, asks servers and calls functions of the user's.
    Row("polars", "LazyFrame", is_table=True,
        find=lambda frame: Facts([_LAZY], entries=["columns: collect_schema() tells them"])),
    Row("ibis.expr.types", "Table", is_table=True,
        find=lambda table: Facts([_LAZY], attrgetter("names", "types")(table.schema()))),
    Row("duckdb", "DuckDBPyRelation", is_table=True,
        find=lambda relation: Facts([_LAZY], (relation.columns, relation.types))),
    Row("duckdb", "DuckDBPyConnection", _duckdb_connection),
    Row("sqlalchemy", "Table", _sql_table, is_table=True),
    Row("sqlalchemy", "MetaData", _sql_metadata),
    Row("sqlalchemy", "Engine",
        lambda engine: Facts([one_line(engine.url.render_as_string(hide_password=True))])),
    Row("pyarrow.dataset", "Dataset", _arrow_dataset, is_table=True),
    Row("pyarrow", "Table", _arrow_table, is_table=True, in_memory=True),
    Row("pyarrow", "RecordBatch", _arrow_table, is_table=True, in_memory=True),
    Row("pyarrow", "RecordBatchReader", is_table=True,
        find=lambda reader: Facts(["not read"], _ARROW(reader))),
    Row("xarray", "Dataset", _labelled_data),
    Row("xarray", "DataArray", _labelled_array),
    Row("zarr", "Group",
        lambda group: Facts([_name_store(group)], name=f" {preview('/' + group.path)}")),
    Row("zarr", "Array",
        lambda array: Facts([_describe_array(array), _name_store(array), "not read"])),
    Row("h5py", "Group", _hdf5_node),
    Row("h5py", "Dataset", _hdf5_node),
    Row("numpy", "memmap", _mapped_array),
    Row("scipy.sparse", "spmatrix", _sparse_matrix, in_memory=True),
    Row("scipy.sparse", "sparray", _sparse_matrix, in_memory=True),
    Row("scipy.sparse", "dok_array", _sparse_matrix, in_memory=True),  # also a dictionary
    Row("networkx", "Graph", _network, in_memory=True),
    Row("anndata", "AnnData", _annotated_data, in_memory=True),
    Row("torch", "Tensor", in_memory=True,
        find=lambda tensor: Facts([_describe_array(tensor), str(tensor.device)])),
)  # fmt: skip
