"""Objects of libraries, described by a row for each type: paths to what computes nothing.

A row's functions read public members that a library has at hand, and dictionaries of instances.
They are called for a library's own classes only: a subclass may run the user's code.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from operator import attrgetter
from pathlib import Path
from typing import Any

from ipyagent.phrases import plural
from ipyagent.values.describe.lazy_tables import (
    count_partitions,
    describe_divisions,
    find_file_facts,
    find_memory,
    resolve_columns,
)
from ipyagent.values.describe.libraries import column_labels, table_of
from ipyagent.values.describe.metadata import (
    describe_array,
    describe_columns,
    describe_entries,
    dtype_text,
    is_known_class,
    is_library_class,
    join_facts,
    name_types,
    shape_text,
    size_text,
)
from ipyagent.values.describe.preview import preview
from ipyagent.values.describe.safe_inspect import (
    module_name,
    one_line,
    own_attributes,
    type_name,
)
from ipyagent.values.describe.stored_data import (
    describe_connection,
    describe_hdf5,
    list_group,
    name_place,
)
from ipyagent.values.describe.table import NAMED, TIMES, label_text

_NOT_COMPUTED = "not computed"
_DEFINITION = 300  # characters of a table's definition
_EDGES = 50_000  # that are counted
_Object = Any  # of a library: its members are named below, and nowhere else


@dataclass(frozen=True)
class Row:
    """A type of a library, and how its objects are described."""

    module: str
    name: str
    head: Callable[[_Object], str] = lambda value: type_name(type(value))
    """Returns type, name and facts; of a table, only the type."""
    columns: Callable[[_Object], tuple[_Object, ...] | None] | None = None
    """Returns labels and types of a table; None if they cannot be known without work."""
    facts: Callable[[_Object], str] = lambda value: ""
    state: str = ""
    """Says what has not been done with a table."""
    more: Callable[[_Object], str] = lambda value: ""
    """Returns lines for the detailed description of a table."""
    entries: Callable[[_Object], Sequence[str]] = lambda value: ()
    """Returns lines for what is inside."""
    whole: Callable[[_Object, bool], str] | None = None
    """Describes what has to be read at once, in one line or in detail."""
    in_memory: bool = False

    def describe(self, value: object, detail: bool) -> str:
        """Describe an object in one line, or in detail."""
        if self.whole is not None:
            return self.whole(value, detail)
        if self.columns is None:
            return describe_entries(self.head(value), self.entries(value), detail)
        pairs = self.columns(value)
        named = None if pairs is None else name_types(zip(*pairs, strict=True))
        facts = join_facts(self.facts(value), self.state)
        tail = f", {facts} [{self.module.partition('.')[0]}]"
        return describe_columns(self.head(value), named, tail, self.more(value), detail)


# Arrays -------------------------------------------------------------------------------------------


def _mapped_array(value: _Object) -> str:
    held = own_attributes(value)
    file, mode = held.get("filename"), held.get("mode") or held.get("_mode")
    place = f" in {preview(str(file))}" if type(file) is str or isinstance(file, Path) else ""
    return join_facts(
        f"{describe_array(value)}{place}", f"mode {mode}" if type(mode) is str else None
    )


def _sparse_matrix(value: _Object) -> str:
    held = own_attributes(value)
    data: _Object = held.get("data")
    dtype, kept, shape = held.get("dtype"), held.get("_dict"), held.get("_shape")
    is_array = is_library_class(type(data), "numpy") and dtype is None
    stored = data.size if is_array else len(kept) if type(kept) is dict else None
    return join_facts(
        f"{type_name(type(value))}, shape {shape_text(shape if type(shape) is tuple else ())}",
        dtype_text(data.dtype if is_array else dtype),
        None if stored is None else f"{stored:,} stored values",
    )


def _graph(value: _Object) -> str:
    nodes, edges = _nodes_of(value), [*islice(_ends_of(value), 2 * _EDGES + 1)]
    if len(edges) > 2 * _EDGES:
        return f"{type_name(type(value))}, {plural(len(nodes), 'node')} [networkx]"
    loops = sum(start is end for start, end, _ in edges)
    count = len(edges) if "_succ" in own_attributes(value) else (len(edges) + loops) // 2
    counts = f"{plural(len(nodes), 'node')}, {plural(count, 'edge')}"
    return f"{type_name(type(value))}, {counts} [networkx]"


def _graph_attributes(value: _Object) -> list[str]:
    """Return the names of the attributes of the first node and of the first edge."""
    first = next(((each[2]) for each in _ends_of(value)), {})
    parts = {"nodes": next(iter(_nodes_of(value).values()), {}), "edges": first}
    named = {part: ", ".join(map(label_text, [*held][:NAMED])) for part, held in parts.items()}
    return [f"{part} with {names}" for part, names in named.items() if names]


def _nodes_of(graph: _Object) -> dict[object, dict[object, object]]:
    nodes = own_attributes(graph).get("_node")
    return nodes if type(nodes) is dict else {}


def _ends_of(graph: _Object) -> Iterator[tuple[object, object, dict[object, object]]]:
    """Yield the ends and attributes of the edges, twice without a direction; no node is hashed."""
    is_multiple = type_name(type(graph)).startswith("Multi")
    neighbours = own_attributes(graph).get("_adj")
    for start, found in neighbours.items() if type(neighbours) is dict else ():
        for end, held in found.items():
            for attributes in held.values() if is_multiple else [held]:
                yield start, end, attributes


def _annotated_data(value: _Object) -> str:
    tables = [table_of(own_attributes(value).get(part)) for part in ("_obs", "_var")]
    rows, columns = (f"{table.rows:,}" if table else "?" for table in tables)
    return f"AnnData, {rows} observations {TIMES} {columns} variables [anndata]"


def _annotations(value: _Object) -> list[str]:
    """Return the matrix, and the names of columns, layers and the like."""
    held = own_attributes(value)
    matrix: _Object = held.get("_X")
    lines = [f"X: {_sparse_matrix(matrix)}"] if "_shape" in own_attributes(matrix) else []
    lines += [f"X: {describe_array(matrix)}"] if is_library_class(type(matrix), "numpy") else []
    for part in ("obs", "var", "layers", "obsm", "varm", "obsp", "varp", "uns"):
        inside = held.get(f"_{part}")
        inside = own_attributes(inside).get("_data", inside)
        labels = [*dict.keys(inside)] if isinstance(inside, dict) else column_labels(inside)
        names = ", ".join(map(label_text, labels[:NAMED]))
        lines += [f"{part}: {names}"] if names else []
    return lines


# Labelled arrays ----------------------------------------------------------------------------------


def _dataset(value: _Object) -> str:
    sizes = value.sizes
    counts = [_count_bytes(each, sizes) for each in value.variables.values()]
    dims = ", ".join(f"{label_text(name)}: {count:,}" for name, count in sizes.items())
    return f"{join_facts(f'Dataset ({dims})', size_text(sum(counts)))} [xarray]"


def _dataset_variables(value: _Object) -> list[str]:
    sizes, variables = value.sizes, value.variables
    names = [*(name for name in variables if name not in sizes), *sizes]
    return [
        f"{label_text(name)} ({', '.join(map(label_text, each.dims))}): {_state_of(each)}"
        for name in names
        if (each := variables.get(name)) is not None
    ]


def _labelled_array(value: _Object) -> str:
    variable = value.variable
    if not _is_known(variable._data):
        return "DataArray [xarray]"
    sizes = dict(zip(variable.dims, variable._data.shape, strict=True))
    dims = ", ".join(f"{label_text(name)}: {count}" for name, count in sizes.items())
    name = f" {label_text(value.name)}" if value.name is not None else ""
    size = size_text(_count_bytes(variable, sizes))
    return f"{join_facts(f'DataArray{name} ({dims})', _state_of(variable), size)} [xarray]"


def _state_of(variable: _Object) -> str:
    """Return type and state of an array: in memory, not loaded, or not computed."""
    data = variable._data
    if not _is_known(data):
        return "unknown type"
    dtype = dtype_text(data.dtype)
    if is_library_class(type(data), "dask"):
        return f"{dtype}, chunks ({', '.join(map(str, data.chunksize))}), {_NOT_COMPUTED}"
    homes = map(module_name, map(type, _unwrap(data)))
    is_lazy = any(each.startswith(("xarray.backends", "zarr", "h5py")) for each in homes)
    return f"{dtype}, not loaded" if is_lazy else dtype


def _unwrap(data: object) -> list[object]:
    """Return an array, and those that it wraps: xarray's own hold others."""
    found = [data]
    while len(found) < 10 and module_name(type(data)).partition(".")[0] == "xarray":
        data = getattr(data, "array", None) if is_known_class(type(data)) else None
        if data is None or data is found[-1]:
            break
        found.append(data)
    return found


def _is_known(data: object) -> bool:
    """Return whether an array, and what it wraps, is a library's own: others run their code."""
    return all(is_known_class(type(each)) for each in _unwrap(data))


def _count_bytes(variable: _Object, sizes: Mapping[object, object]) -> float:
    shape = [sizes.get(each) for each in variable.dims]
    counts = [each for each in shape if type(each) is int]
    known = _is_known(variable._data) and len(counts) == len(shape)
    return math.prod(counts) * variable._data.dtype.itemsize if known else math.nan


# Tables and databases -----------------------------------------------------------------------------


def _dask_facts(value: _Object) -> str:
    count = count_partitions(value.expr)
    partitions = None if count is None else plural(count, "partition")
    return join_facts(size_text(find_memory(value.expr)), partitions, _NOT_COMPUTED)


def _dask_series(value: _Object) -> str:
    name = f" {label_text(value.name)}" if value.name is not None else ""
    kind = f"{type_name(type(value))}{name} ({dtype_text(value.dtype)})"
    return f"{kind}, {_dask_facts(value)} [dask]"


def _dask_array(value: _Object) -> str:
    chunks = f"{plural(value.npartitions, 'chunk')} of {shape_text(value.chunksize)}"
    return f"Array, {describe_array(value)}, {chunks}, {_NOT_COMPUTED} [dask]"


def _arrow_facts(value: _Object) -> str:
    return f"{plural(value.num_rows, 'row')}, {size_text(value.nbytes)}"


def _sql_columns(value: _Object) -> tuple[list[str], list[str]]:
    """Return columns with types; a type of the user's own by its class's name."""
    columns = [*value.columns]
    types = [f"{dtype_text(each.type)}{' key' if each.primary_key else ''}" for each in columns]
    return [str(each.name) for each in columns], types


def _sql_tables(value: _Object) -> list[str]:
    named = {key: map(label_text, _sql_columns(each)[0]) for key, each in value.tables.items()}
    return [one_line(f"{key}({', '.join(names)})", _DEFINITION) for key, names in named.items()]


_ARROW = attrgetter("schema.names", "schema.types")
_UNKNOWN = "\ncolumns: not known before it is computed"
ROWS = (
    Row("dask.dataframe", "DataFrame", columns=attrgetter("columns", "dtypes"), facts=_dask_facts,
        more=lambda value: describe_divisions(value.expr)),
    Row("polars", "LazyFrame", columns=lambda value: resolve_columns(value._ldf),
        state=_NOT_COMPUTED, more=lambda value: _UNKNOWN),
    Row("duckdb", "DuckDBPyRelation", columns=attrgetter("columns", "types"), state=_NOT_COMPUTED),
    Row("ibis.expr.types", "Table", state=_NOT_COMPUTED,
        columns=lambda value: attrgetter("names", "types")(value.schema())),
    Row("sqlalchemy", "Table", columns=_sql_columns, state="not queried",
        facts=lambda value: f"of {one_line(value.fullname)}"),
    Row("pyarrow.dataset", "Dataset", columns=_ARROW, facts=find_file_facts, state="not read"),
    Row("pyarrow", "Table", columns=_ARROW, facts=_arrow_facts, in_memory=True),
    Row("pyarrow", "RecordBatch", columns=_ARROW, facts=_arrow_facts, in_memory=True),
    Row("pyarrow", "RecordBatchReader", columns=_ARROW, state="not read"),
    Row("dask.dataframe", "Series", _dask_series),
    Row("dask.dataframe", "Index", _dask_series),
    Row("dask.array", "Array", _dask_array),
    Row("dask.bag", "Bag", lambda value: f"Bag, {plural(value.npartitions, 'partition')}, "
        f"{_NOT_COMPUTED} [dask]"),
    Row("xarray", "Dataset", _dataset, entries=_dataset_variables),
    Row("xarray", "DataArray", _labelled_array),
    Row("zarr", "Group", lambda value: f"Group [zarr] {preview('/' + value.path)}, "
        f"{name_place(value.store)}", entries=list_group),
    Row("zarr", "Array", lambda value: f"Array [zarr], {describe_array(value, value.chunks)}, "
        f"{name_place(value.store)}, not read"),
    Row("numpy", "memmap", lambda value: f"memmap, {_mapped_array(value)}, not loaded"),
    Row("h5py", "Group", whole=describe_hdf5),
    Row("h5py", "Dataset", whole=describe_hdf5),
    Row("duckdb", "DuckDBPyConnection", whole=describe_connection),
    Row("sqlalchemy", "MetaData", lambda value: f"MetaData, {plural(len(value.tables), 'table')} "
        "[sqlalchemy]", entries=_sql_tables),
    Row("sqlalchemy", "Engine", lambda value: "Engine [sqlalchemy], "
        f"{one_line(value.url.render_as_string(hide_password=True))}"),
    Row("scipy.sparse", "spmatrix", _sparse_matrix, in_memory=True),
    Row("scipy.sparse", "sparray", _sparse_matrix, in_memory=True),
    Row("scipy.sparse", "dok_array", _sparse_matrix, in_memory=True),  # also a dictionary
    Row("networkx", "Graph", _graph, entries=_graph_attributes, in_memory=True),
    Row("anndata", "AnnData", _annotated_data, entries=_annotations, in_memory=True),
    Row("torch", "Tensor", lambda value: f"{type_name(type(value))}, {describe_array(value)}, "
        f"{value.device} [torch]", in_memory=True),
)  # fmt: skip
