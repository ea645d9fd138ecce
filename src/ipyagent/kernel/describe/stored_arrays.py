"""Descriptions of arrays that are stored somewhere: shape, type, size, chunks, and no value.

Of HDF5 files of h5py, and of zarr's groups in a local store, also the tree of groups and datasets.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Protocol

from ipyagent.json_types import parse_json
from ipyagent.kernel.describe.metadata import (
    ENTRIES,
    describe_entries,
    dtype_text,
    is_library_class,
    shape_text,
    size_text,
)
from ipyagent.kernel.describe.preview import preview
from ipyagent.kernel.describe.safe_inspect import one_line, own_attributes, type_name
from ipyagent.redaction import Secrecy


class ArrayMetadata(Protocol):
    """The members of numpy's, h5py's and zarr's arrays that read no value."""

    shape: Sequence[object] | None
    """Its sizes; None for an empty dataset of HDF5."""
    dtype: object
    nbytes: int
    """Its size without compression."""


def array_text(array: ArrayMetadata, chunks: Sequence[object] | None = None) -> str:
    """Return the metadata of an array on one line."""
    if array.shape is None:  # HDF5's empty dataset
        return f"empty, {dtype_text(array.dtype, 'numpy')}"
    facts = [f"shape {shape_text(array.shape)}", dtype_text(array.dtype, "numpy")]
    facts.append(size_text(array.nbytes))
    if chunks:
        facts.append(f"chunks {shape_text(chunks)}")
    return ", ".join(facts)


def memory_map(value: ArrayMetadata, secret: Secrecy, detail: bool) -> str:
    """Describe an array of numpy that is mapped from a file: nothing of it is loaded."""
    held = own_attributes(value)
    file, mode = held.get("filename"), held.get("mode") or held.get("_mode")
    place = f" in {preview(str(file))}" if type(file) is str or isinstance(file, Path) else ""
    mode_text = f", mode {mode}" if type(mode) is str else ""
    return f"memmap, {array_text(value)}{place}{mode_text}, not loaded"


_DEPTH = 3  # of groups in groups
_SCANNED = 2_000  # entries of a folder that are looked at
_BYTES = 65_536  # of a file with metadata
_FILES = ("zarr.json", ".zarray", ".zgroup")


class _Array(ArrayMetadata, Protocol):
    chunks: Sequence[object]
    store: object


class _Group(Protocol):
    path: str
    store: object


def zarr_array(value: _Array, secret: Secrecy, detail: bool) -> str:
    """Describe an array: shape, type, size, chunks and place."""
    return f"Array [zarr], {array_text(value, value.chunks)}, {_place(value.store)}, not read"


def zarr_group(value: _Group, secret: Secrecy, detail: bool) -> str:
    """Describe a group; of one that is elsewhere, only where."""
    store, path = value.store, value.path
    head = f"Group [zarr] {preview('/' + path)}, {_place(store)}"
    found = _read_tree(store, path)
    if found is None:
        return head
    entries = [*islice(found, ENTRIES + 1)]
    return describe_entries(head, entries[:ENTRIES], len(entries), detail)


def _place(store: object) -> str:
    root = own_attributes(store).get("root")
    kind = type_name(type(store))
    return f"in {preview(str(root))}" if isinstance(root, Path) else f"in a {kind}"


def _read_tree(store: object, path: str) -> Iterator[str] | None:
    """Return lines for what lies below a group; None if it is elsewhere, or nobody knows how."""
    held = own_attributes(store)
    if not is_library_class(type(store), "zarr"):
        return None
    root, entries = held.get("root"), held.get("_store_dict")
    if type_name(type(store)) == "LocalStore" and isinstance(root, Path):
        return _walk_folder(root / path, "", _DEPTH)
    if type_name(type(store)) == "MemoryStore" and type(entries) is dict:
        return _walk_memory(entries, f"{path}/" if path else "")
    return None


def _walk_folder(folder: Path, prefix: str, depth: int) -> Iterator[str]:
    """Yield a line for each array and each lowest group, from the small files that tell of them."""
    with os.scandir(folder) as found:
        names = sorted(each.name for each in islice(found, _SCANNED) if each.is_dir())
    for name in names:
        metadata = _read_first(folder / name)
        if metadata is None:
            continue
        if "shape" in metadata or not depth:
            yield _entry_text(f"{prefix}{name}", metadata)
            continue
        below = [*islice(_walk_folder(folder / name, f"{prefix}{name}/", depth - 1), ENTRIES + 1)]
        yield from below or [f"{prefix}{name}/"]


def _read_first(folder: Path) -> dict[str, object] | None:
    for file in _FILES:
        try:
            with (folder / file).open("rb") as opened:
                return _parse(opened.read(_BYTES))
        except OSError:
            continue
    return None


def _walk_memory(entries: dict[str, object], below: str) -> Iterator[str]:
    for key in sorted(each for each in entries if each.startswith(below)):
        path, _, file = key.rpartition("/")
        metadata = _parse(_bytes_of(entries[key])) if file in _FILES and path else None
        if metadata is not None and "shape" in metadata:
            yield _entry_text(path.removeprefix(below), metadata)


def _bytes_of(buffer: object) -> bytes:
    read = getattr(buffer, "to_bytes", None)
    data = read() if read is not None and is_library_class(type(buffer), "zarr") else b""
    return data if type(data) is bytes else b""


def _parse(data: bytes) -> dict[str, object] | None:
    found = parse_json(data)
    return found if isinstance(found, dict) else None


def _entry_text(path: str, metadata: dict[str, object]) -> str:
    """Return a line for what `zarr.json`, or `.zarray` of version 2, says."""
    shape, kind = metadata.get("shape"), metadata.get("data_type", metadata.get("dtype"))
    if type(shape) is not list:
        return f"{one_line(path)}/"
    kind_text = f", {one_line(kind)}" if type(kind) is str else ""
    chunks = metadata.get("chunks")
    grid = metadata.get("chunk_grid")
    configuration = grid.get("configuration") if type(grid) is dict else None
    if type(configuration) is dict:
        chunks = configuration.get("chunk_shape")
    chunk_text = f", chunks {shape_text(chunks)}" if type(chunks) is list else ""
    return f"{one_line(path)}: shape {shape_text(shape)}{kind_text}{chunk_text}"


_LOCAL = {"sec2", "stdio", "core", "direct", "windows"}
"""Drivers that read local files; others ask servers, or objects of the user's own."""


class _Lock(Protocol):
    def acquire(self, blocking: bool) -> bool: ...
    def release(self) -> None: ...


class _Node(ArrayMetadata, Protocol):
    """The members of files, groups and datasets together; the class's name tells which it is."""

    name: str
    file: _File
    chunks: Sequence[object] | None

    def __bool__(self) -> bool: ...
    def __iter__(self) -> Iterator[str]: ...
    def __len__(self) -> int: ...
    def __getitem__(self, name: str) -> _Node: ...
    def get(self, name: str, *, getlink: bool) -> object: ...


class _File(Protocol):
    filename: str
    mode: str
    driver: str


def hdf5_node(value: _Node, secret: Secrecy, detail: bool) -> str:
    """Describe a dataset, or a file or group with the tree below it; links are not followed.

    HDF5 serves one thread at a time: nobody waits for another one here.
    """
    lock: _Lock | None = getattr(sys.modules.get("h5py._objects"), "phil", None)
    kind = f"{type_name(type(value))} [h5py]"
    if lock is None or not lock.acquire(False):
        return f"{kind}, in use by another thread"
    try:
        return _node_text(value, kind, detail) if value else f"{kind}, closed"
    finally:
        lock.release()


def _node_text(value: _Node, kind: str, detail: bool) -> str:
    file = value.file
    name = "" if kind.startswith("File") else f" {preview(value.name)}"
    place = f"{kind}{name} in {preview(file.filename)}, mode {one_line(file.mode)}"
    if file.driver not in _LOCAL:
        return f"{place}, {one_line(file.driver)}"
    if _is_dataset(value):
        return f"{place}, {array_text(value, value.chunks)}, not read"
    entries = [*islice(_walk(value, "", _DEPTH), ENTRIES + 1)]
    return describe_entries(place, entries[:ENTRIES], len(entries), detail)


def _is_dataset(node: _Node) -> bool:
    return type_name(type(node)) == "Dataset"


def _walk(group: _Node, prefix: str, depth: int) -> Iterator[str]:
    """Yield a line for each node of the tree."""
    for name in islice(group, ENTRIES + 1):
        path = f"{prefix}{one_line(name)}"
        if type_name(type(group.get(name, getlink=True))) != "HardLink":
            yield f"{path} (link)"
            continue
        node = group[name]
        if _is_dataset(node):
            yield f"{path}: {array_text(node, node.chunks)}"
        elif depth and len(node):
            yield from _walk(node, f"{path}/", depth - 1)
        else:
            yield f"{path}/"
