"""Trees and catalogs of stored data, of HDF5, zarr and DuckDB: no value is read."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from ipyagent.json_types import parse_json
from ipyagent.phrases import plural
from ipyagent.values.describe.metadata import (
    ENTRIES,
    describe_array,
    describe_entries,
    is_library_class,
    shape_text,
)
from ipyagent.values.describe.preview import preview
from ipyagent.values.describe.safe_inspect import one_line, own_attributes, type_name

_DEPTH = 3  # of groups in groups
_Object = Any  # of a library

# zarr ---------------------------------------------------------------------------------------------

_SCANNED = 2_000  # entries of a folder that are looked at
_BYTES = 65_536  # of a file with metadata
_FILES = ("zarr.json", ".zarray", ".zgroup")


def name_place(store: object) -> str:
    """Return where a store of zarr is, as it says itself."""
    root = own_attributes(store).get("root")
    return (
        f"in {preview(str(root))}" if isinstance(root, Path) else f"in a {type_name(type(store))}"
    )


def list_group(value: _Object) -> list[str]:
    """Return lines for the arrays and the lowest groups below a group, if its store is local."""
    held = own_attributes(value.store) if is_library_class(type(value.store), "zarr") else {}
    root, entries = held.get("root"), held.get("_store_dict")
    kind = type_name(type(value.store))
    if kind == "LocalStore" and isinstance(root, Path):
        reader: _FolderReader | _MemoryReader = _FolderReader(root)
    elif kind == "MemoryStore" and type(entries) is dict:
        reader = _MemoryReader(entries)
    else:
        return []
    return [*islice(_walk_group(reader, value.path, "", _DEPTH), ENTRIES + 1)]


class _FolderReader:
    """The small files of a local store."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def names(self, path: str) -> list[str]:
        """Return the names of the folders below a path."""
        with os.scandir(self._root / path) as found:
            return sorted(each.name for each in islice(found, _SCANNED) if each.is_dir())

    def read(self, path: str) -> bytes:
        """Return the content of a small file; raises OSError if it is not there."""
        with (self._root / path).open("rb") as opened:
            return opened.read(_BYTES)


class _MemoryReader:
    """The entries of a store in memory."""

    def __init__(self, entries: dict[str, _Object]) -> None:
        self._entries = entries

    def names(self, path: str) -> list[str]:
        """Return the names of the folders below a path."""
        below = f"{path}/" if path else ""
        rest = (each.removeprefix(below) for each in self._entries if each.startswith(below))
        return sorted({each.partition("/")[0] for each in rest if "/" in each})

    def read(self, path: str) -> bytes:
        """Return the content of an entry; raises OSError if it is not there."""
        buffer: _Object = self._entries.get(path)
        if not is_library_class(type(buffer), "zarr"):
            raise OSError(path)
        return bytes(buffer.to_bytes())


def _walk_group(
    reader: _FolderReader | _MemoryReader, path: str, prefix: str, depth: int
) -> Iterator[str]:
    for name in reader.names(path):
        inner = f"{path}/{name}" if path else name
        metadata = _read_metadata(reader, inner)
        if metadata is None:
            continue
        if "shape" in metadata or not depth:
            yield _describe_stored(f"{prefix}{name}", metadata)
            continue
        below = [*islice(_walk_group(reader, inner, f"{prefix}{name}/", depth - 1), ENTRIES + 1)]
        yield from below or [f"{one_line(prefix + name)}/"]


def _read_metadata(reader: _FolderReader | _MemoryReader, path: str) -> dict[str, object] | None:
    for file in _FILES:
        try:
            found = parse_json(reader.read(f"{path}/{file}"))
        except OSError:
            continue
        return found if isinstance(found, dict) else None
    return None


def _describe_stored(path: str, metadata: dict[str, object]) -> str:
    """Return a line for what `zarr.json`, or `.zarray` of version 2, says."""
    shape, kind = metadata.get("shape"), metadata.get("data_type", metadata.get("dtype"))
    if type(shape) is not list:
        return f"{one_line(path)}/"
    kind_text = f", {one_line(kind)}" if type(kind) is str else ""
    grid, chunks = metadata.get("chunk_grid"), metadata.get("chunks")
    configuration = grid.get("configuration") if type(grid) is dict else None
    if type(configuration) is dict:
        chunks = configuration.get("chunk_shape")
    chunk_text = f", chunks {shape_text(chunks)}" if type(chunks) is list else ""
    return f"{one_line(path)}: shape {shape_text(shape)}{kind_text}{chunk_text}"


# HDF5 ---------------------------------------------------------------------------------------------

_LOCAL = {"sec2", "stdio", "core", "direct", "windows"}
"""Drivers that read local files; others ask servers, or objects of the user's own."""


def describe_hdf5(value: _Object, detail: bool) -> str:
    """Describe a dataset, or a file or group with the tree below it; links are not followed.

    HDF5 serves one thread at a time: nobody waits for another one here.
    """
    lock: _Object = getattr(sys.modules.get("h5py._objects"), "phil", None)
    kind = f"{type_name(type(value))} [h5py]"
    if lock is None or not lock.acquire(False):
        return f"{kind}, in use by another thread"
    try:
        return _describe_node(value, kind, detail) if value else f"{kind}, closed"
    finally:
        lock.release()


def _describe_node(value: _Object, kind: str, detail: bool) -> str:
    file = value.file
    name = "" if kind.startswith("File") else f" {preview(value.name)}"
    place = f"{kind}{name} in {preview(file.filename)}, mode {one_line(file.mode)}"
    if file.driver not in _LOCAL:
        return f"{place}, {one_line(file.driver)}"
    if _is_dataset(value):
        return f"{place}, {describe_array(value, value.chunks)}, not read"
    return describe_entries(place, [*islice(_walk_nodes(value, "", _DEPTH), ENTRIES + 1)], detail)


def _is_dataset(node: _Object) -> bool:
    return type_name(type(node)) == "Dataset"


def _walk_nodes(group: _Object, prefix: str, depth: int) -> Iterator[str]:
    for name in islice(group, ENTRIES + 1):
        path = f"{prefix}{one_line(name)}"
        if type_name(type(group.get(name, getlink=True))) != "HardLink":
            yield f"{path} (link)"
            continue
        node = group[name]
        if _is_dataset(node):
            yield f"{path}: {describe_array(node, node.chunks)}"
        elif depth and len(node):
            yield from _walk_nodes(node, f"{path}/", depth - 1)
        else:
            yield f"{path}/"


# DuckDB -------------------------------------------------------------------------------------------

FAR = "type <> 'duckdb' OR path LIKE '%://%'"
"""The condition for a database that may be on a server."""
DATABASES = f"SELECT count(*) FROM system.main.duckdb_databases() WHERE NOT internal AND ({FAR})"  # noqa: S608
"""The query that counts them."""
_DEFINITION = 300  # characters of a table's definition

# Columns come from the definitions: asked for the columns of a view, DuckDB may resolve its query.
_CATALOG = """
    SELECT database_name, schema_name, table_name, sql, estimated_size, NULL
    FROM system.main.duckdb_tables() WHERE NOT internal
    UNION ALL
    SELECT database_name, schema_name, view_name, sql, NULL, 'view'
    FROM system.main.duckdb_views() WHERE NOT internal
"""


def describe_connection(value: _Object, detail: bool) -> str:
    """Describe a connection by the catalog of its database.

    A cursor of its own asks, so a result that the user has not fetched yet stays. What an open
    transaction has made is not seen.
    """
    cursor = value.cursor()
    try:
        if cursor.execute(DATABASES).fetchall()[0][0]:
            return "DuckDBPyConnection, with databases elsewhere; SHOW ALL TABLES lists the tables"
        rows: list[Sequence[object]] = cursor.execute(_CATALOG).fetchall()
    finally:
        cursor.close()
    several = len({row[0] for row in rows}) > 1
    views = sum(row[5] is not None for row in rows)
    counts = [plural(len(rows) - views, "table"), *([plural(views, "view")] if views else [])]
    entries = [_describe_definition(row, several) for row in rows]
    return describe_entries(f"DuckDBPyConnection, {', '.join(counts)}", entries, detail)


def _describe_definition(row: Sequence[object], several: bool) -> str:
    database, schema, name, sql, rows, view = row
    place = f"{database}." if several else ""
    place += "" if schema == "main" else f"{schema}."
    definition = str(sql or "").rstrip("; \n")
    if view:
        query = definition.partition(" AS ")[2].strip()
        return one_line(f"{place}{name} (view): {query}", _DEFINITION)
    columns = definition[definition.find("(") :] if "(" in definition else ""
    return f"{one_line(f'{place}{name}{columns}', _DEFINITION)}, ~{rows:,} rows"
