"""First rows of Parquet and Arrow files, by a library that is installed.

Its decoder is native code, so it gets only small files, and only when a tool is called. What has
been imported already is preferred: importing one takes up to two seconds.
"""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Any

from ipyagent.kernel.describe.safe_inspect import one_line
from ipyagent.kernel.describe.table import COLUMNS, HEAD
from ipyagent.tools.tables.sample import NotTableError, Sample, SampleColumn, Source

ARROW_MAGIC = b"ARROW1"
ARROW_ENDINGS = ("feather", "arrow", "ipc")
_MOST = 64_000_000
"""Bytes of the largest file that is decoded, and of a row group once it is unpacked."""

Rows = list[dict[str, object]]
_Reader = Callable[[Source], tuple[list[tuple[str, str]], Rows, int | None]]
"""Returns names and types of columns, first rows, and the number of all rows if it is known."""


def first_rows(source: Source) -> Rows:
    """Return the first rows of a Parquet file; none if no library is there, or it fails."""
    if not source.effort.decode or source.size > _MOST:
        return []
    for reader in _available_readers(
        {"pyarrow": _parquet_by_pyarrow, "polars": _parquet_by_polars}
    ):
        with contextlib.suppress(NotTableError):  # the footer alone is still useful
            return _run(reader, source)[1]
    return []


def read_arrow(source: Source) -> Sample:
    """Return the table in an Arrow file; raises NotTableError if it cannot be read."""
    if not source.read_at(0, 8).startswith(ARROW_MAGIC):
        raise NotTableError("it is no Arrow file")
    if not source.effort.decode or source.size > _MOST:
        raise NotTableError("its content is read by inspect_file, up to 64 MB, or with code")
    for reader in _available_readers({"pyarrow": _arrow_by_pyarrow, "polars": _arrow_by_polars}):
        columns, rows, total = _run(reader, source)
        described = [
            SampleColumn(name, one_line(dtype, 40), [row.get(name) for row in rows])
            for name, dtype in columns[:COLUMNS]
        ]
        return Sample("Arrow file", described, len(columns), total, len(rows), declared=True)
    raise NotTableError("neither pyarrow nor polars is installed, which read it")


def _available_readers(readers: dict[str, _Reader]) -> Iterator[_Reader]:
    loaded = [name for name in readers if sys.modules.get(name)]
    others = [name for name in readers if name not in sys.modules and find_spec(name)]
    yield from (readers[name] for name in (*loaded, *others))


def _run(reader: _Reader, source: Source) -> tuple[list[tuple[str, str]], Rows, int | None]:
    try:
        return reader(source)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # polars' panics are no Exceptions
        raise NotTableError(f"it cannot be decoded: {type(error).__name__}") from None


def _types_of_arrow(schema: Any) -> list[tuple[str, str]]:
    return [(field.name, str(field.type)) for field in schema]


def _parquet_by_pyarrow(source: Source) -> tuple[list[tuple[str, str]], Rows, int | None]:
    from pyarrow import parquet

    file = parquet.ParquetFile(source.file, pre_buffer=False, buffer_size=65_536)
    if file.num_row_groups and file.metadata.row_group(0).total_byte_size > _MOST:
        return [], [], None
    batch = next(file.iter_batches(batch_size=HEAD), None)
    return _types_of_arrow(file.schema_arrow), batch.to_pylist() if batch else [], None


def _parquet_by_polars(source: Source) -> tuple[list[tuple[str, str]], Rows, int | None]:
    import polars

    frame = polars.read_parquet(io.BytesIO(source.read_at(0, _MOST)), n_rows=HEAD)
    return [(name, str(dtype)) for name, dtype in frame.schema.items()], frame.to_dicts(), None


def _arrow_by_pyarrow(source: Source) -> tuple[list[tuple[str, str]], Rows, int | None]:
    from pyarrow import ipc

    source.file.seek(0)
    reader = ipc.open_file(source.file)
    batches = [reader.get_batch(n) for n in range(min(reader.num_record_batches, 100))]
    rows = batches[0].slice(0, HEAD).to_pylist() if batches else []
    known = reader.num_record_batches == len(batches)
    total = sum(batch.num_rows for batch in batches) if known else None
    return _types_of_arrow(reader.schema), rows, total


def _arrow_by_polars(source: Source) -> tuple[list[tuple[str, str]], Rows, int | None]:
    import polars

    frame = polars.read_ipc(io.BytesIO(source.read_at(0, _MOST)))
    columns = [(name, str(dtype)) for name, dtype in frame.schema.items()]
    return columns, frame.head(HEAD).to_dicts(), frame.height
