"""The process that decodes a Parquet or Arrow file: a script of its own, without ipyagent.

    python decoder_process.py FORM LIMITS LIBRARY …    the file is the standard input

It prints one JSON object: `columns` (names and types), `width`, `rows` and `total`, or `error`.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import os
import sys
from typing import Any

_CELL = 300
"""Characters of a text and elements of a list that are passed on."""
_MEMORY = 2_000_000_000


def _limit_resources(seconds: int) -> None:
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
        resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY, _MEMORY))


def _parquet_by_pyarrow(data: bytes, limits: dict[str, int]) -> dict[str, Any]:
    import pyarrow
    from pyarrow import parquet

    file = parquet.ParquetFile(pyarrow.BufferReader(data), pre_buffer=False)
    if file.num_row_groups and file.metadata.row_group(0).total_byte_size > limits["bytes"]:
        return {"rows": []}
    names = file.schema_arrow.names[: limits["columns"]]
    batch = next(
        file.iter_batches(batch_size=limits["rows"], columns=names, use_threads=False), None
    )
    if batch is None:
        return {"rows": []}
    batch.validate(full=True)
    return {"rows": batch.to_pylist()}


def _arrow_by_pyarrow(data: bytes, limits: dict[str, int]) -> dict[str, Any]:
    import pyarrow
    from pyarrow import ipc

    options = ipc.IpcReadOptions(use_threads=False)
    reader = ipc.open_file(pyarrow.BufferReader(data), options=options)
    count = min(reader.num_record_batches, 100)
    batches = [reader.get_batch(number) for number in range(count)]
    for batch in batches:
        batch.validate(full=True)
    rows = batches[0].slice(0, limits["rows"]).to_pylist() if batches else []
    fields = [(field.name, str(field.type)) for field in reader.schema]
    total = sum(b.num_rows for b in batches) if reader.num_record_batches == count else None
    return _arrow_table(fields, rows, total, limits)


def _arrow_table(
    fields: list[tuple[str, str]], rows: list[object], total: int | None, limits: dict[str, int]
) -> dict[str, object]:
    columns = fields[: limits["columns"]]
    return {"columns": columns, "width": len(fields), "rows": rows, "total": total}


def _parquet_by_polars(data: bytes, limits: dict[str, int]) -> dict[str, Any]:
    import polars

    columns = [*range(min(limits["columns"], len(polars.read_parquet_schema(io.BytesIO(data)))))]
    frame = polars.read_parquet(io.BytesIO(data), n_rows=limits["rows"], columns=columns)
    return {"rows": frame.to_dicts()}


def _arrow_by_polars(data: bytes, limits: dict[str, int]) -> dict[str, Any]:
    import polars

    frame = polars.read_ipc(io.BytesIO(data))
    rows = frame.head(limits["rows"]).to_dicts()
    fields = [(name, str(dtype)) for name, dtype in frame.schema.items()]
    return _arrow_table(fields, rows, frame.height, limits)


_READERS = {
    ("pyarrow", "parquet"): _parquet_by_pyarrow,
    ("pyarrow", "arrow"): _arrow_by_pyarrow,
    ("polars", "parquet"): _parquet_by_polars,
    ("polars", "arrow"): _arrow_by_polars,
}


def _shorten(value: object) -> object:
    """Return a value as JSON has it, with the beginning of what is long."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, str):
        return value[:_CELL].encode("utf-8", "replace").decode()
    if isinstance(value, list | tuple):
        return [_shorten(each) for each in value[:_CELL]]
    if isinstance(value, dict):
        return {str(key): _shorten(each) for key, each in [*value.items()][:_CELL]}
    return repr(value)[:_CELL] if isinstance(value, bytes) else str(value)[:_CELL]


def _find_library(names: list[str]) -> str | None:
    for name in names:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
            return name
    return None


def main(form: str, limits: dict[str, int], libraries: list[str]) -> int:
    """Print the beginning of the table in the standard input; return the exit status."""
    os.environ |= {"POLARS_MAX_THREADS": "1", "OMP_NUM_THREADS": "1"}
    data = sys.stdin.buffer.read(limits["bytes"] + 1)
    library = _find_library(libraries)
    if library is None:
        return 3
    _limit_resources(limits["seconds"])
    try:
        table = _READERS[library, form](data, limits)
    except BaseException as error:  # polars' panics are no Exceptions
        table = {"error": type(error).__name__}
    table["rows"] = [_shorten(row) for row in table.get("rows", [])]
    json.dump(table, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], json.loads(sys.argv[2]), sys.argv[3:]))
