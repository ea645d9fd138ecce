"""Descriptions of HDF5 files of h5py: the tree of groups and datasets, of which none is read."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Protocol

from ipyagent.kernel.describe.array_text import ArrayMetadata, array_text
from ipyagent.kernel.describe.metadata import (
    ENTRIES,
    describe_entries,
)
from ipyagent.kernel.describe.preview import preview
from ipyagent.kernel.describe.safe_inspect import one_line, type_name
from ipyagent.redaction import Secrecy

_DEPTH = 3  # of groups in groups
_LOCAL = {"sec2", "stdio", "core", "direct", "windows"}
"""Drivers that read local files; others ask servers, or objects of the user's own."""


class _Lock(Protocol):
    def acquire(self, blocking: bool) -> bool: ...
    def release(self) -> None: ...


class _Node(ArrayMetadata, Protocol):
    """The members of files, groups and datasets together; the class's name tells which it is."""

    @property
    def name(self) -> str: ...
    @property
    def file(self) -> _File: ...
    @property
    def chunks(self) -> Sequence[object] | None: ...
    def __bool__(self) -> bool: ...
    def __iter__(self) -> Iterator[str]: ...
    def __len__(self) -> int: ...
    def __getitem__(self, name: str) -> _Node: ...
    def get(self, name: str, *, getlink: bool) -> object: ...


class _File(Protocol):
    @property
    def filename(self) -> str: ...
    @property
    def mode(self) -> str: ...
    @property
    def driver(self) -> str: ...


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
