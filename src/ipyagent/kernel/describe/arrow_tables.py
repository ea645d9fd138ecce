"""Descriptions of Arrow's tables and datasets by their schemas: no file is opened."""

from __future__ import annotations

import stat
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Protocol

from ipyagent.kernel.describe.metadata import (
    LazyTable,
    dtype_text,
    size_text,
)
from ipyagent.kernel.describe.safe_inspect import type_name
from ipyagent.kernel.describe.table import label_text
from ipyagent.phrases import plural
from ipyagent.redaction import Secrecy

_FILES = 1_000  # files whose sizes are asked for


class _Schema(Protocol):
    @property
    def names(self) -> Sequence[str]: ...
    @property
    def types(self) -> Sequence[object]: ...


class _Table(Protocol):
    @property
    def schema(self) -> _Schema: ...
    @property
    def num_rows(self) -> int: ...
    @property
    def nbytes(self) -> int: ...


class _Dataset(Protocol):
    @property
    def schema(self) -> _Schema: ...
    @property
    def files(self) -> Sequence[str]: ...
    @property
    def filesystem(self) -> object: ...


class _Reader(Protocol):
    @property
    def schema(self) -> _Schema: ...


def arrow_table(value: _Table, secret: Secrecy, detail: bool) -> str:
    """Describe a table or record batch in memory: columns, rows, bytes."""
    facts = [plural(value.num_rows, "row"), size_text(value.nbytes)]
    return _describe(value, value.schema, facts, detail)


def arrow_dataset(value: _Dataset, secret: Secrecy, detail: bool) -> str:
    """Describe a dataset by its schema and its files, of which none is opened."""
    facts = _file_facts(value) if type_name(type(value)) == "FileSystemDataset" else []
    return _describe(value, value.schema, [*facts, "not read"], detail)


def _file_facts(value: _Dataset) -> list[str]:
    files = value.files
    local = type_name(type(value.filesystem)) == "LocalFileSystem" and len(files) <= _FILES
    size = sum(_file_size(each) for each in files) if local else 0
    return [plural(len(files), "file"), *([f"{size_text(size)} on disk"] if size else [])]


def _file_size(path: str) -> int:
    try:
        status = Path(path).stat()
    except OSError:
        return 0
    return status.st_size if stat.S_ISREG(status.st_mode) else 0


def arrow_reader(value: _Reader, secret: Secrecy, detail: bool) -> str:
    """Describe a reader of record batches, which can be read only once."""
    return _describe(value, value.schema, ["not read"], detail)


def _describe(value: object, schema: _Schema, facts: Iterable[str], detail: bool) -> str:
    columns = [
        (label_text(name), dtype_text(kind, "pyarrow"))
        for name, kind in zip(schema.names, schema.types, strict=True)
    ]
    return LazyTable(type_name(type(value)), columns, [*facts], "pyarrow").text(detail)
