"""First rows of Parquet and Arrow files, by a library that is installed, in a process of its own.

Its decoder is native code: on a damaged file it may end its process, fill the memory, or return
what lies behind the file's bytes. It gets only small files, and only when a tool is called.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from ipyagent.json_types import JsonDict
from ipyagent.kernel.describe.safe_inspect import one_line
from ipyagent.kernel.describe.table import COLUMNS, HEAD
from ipyagent.tools.tables.sample import NotTableError, Sample, SampleColumn, Source

ARROW_MAGIC = b"ARROW1"
ARROW_ENDINGS = ("feather", "arrow", "ipc")
LIBRARIES = ("pyarrow", "polars")
"""The libraries that decode, in the order in which they are tried."""

_MOST = 64_000_000
"""Bytes of the largest file that is decoded, and of a row group once it is unpacked."""
_SECONDS = 20
_VARIABLES = ("PATH", "LD_LIBRARY_PATH", "SYSTEMROOT")
_CHILD = Path(__file__).with_name("decoder_process.py")
_NO_LIBRARY = 3
"""The exit status of a decoder that finds none of the libraries."""


def first_rows(source: Source) -> list[JsonDict]:
    """Return the first rows of a Parquet file; none if no library is there, or it fails."""
    if not source.effort.decode or source.size > _MOST:
        return []
    try:
        rows: list[JsonDict] = _decode(source, "parquet")["rows"]
    except NotTableError:  # the footer alone is still useful
        return []
    return rows


def read_arrow(source: Source) -> Sample:
    """Return the table in an Arrow file; raises NotTableError if it cannot be read."""
    if not source.read_at(0, 8).startswith(ARROW_MAGIC):
        raise NotTableError("it is no Arrow file")
    if not source.effort.decode or source.size > _MOST:
        raise NotTableError("its content is read by inspect_file, up to 64 MB, or with code")
    table = _decode(source, "arrow")
    rows: list[JsonDict] = table["rows"]
    columns = [
        SampleColumn(name, one_line(dtype, 40), [row.get(name) for row in rows])
        for name, dtype in table["columns"]
    ]
    return Sample("Arrow file", columns, table["width"], table["total"], len(rows), declared=True)


def _decode(source: Source, form: str) -> JsonDict:
    """Return columns, width, first rows and number of rows; raises NotTableError."""
    limits = json.dumps({"rows": HEAD, "columns": COLUMNS, "bytes": _MOST, "seconds": _SECONDS})
    try:
        ended = subprocess.run(  # noqa: S603
            [sys.executable, "-E", "-P", str(_CHILD), form, limits, *LIBRARIES],
            input=source.read_at(0, _MOST),
            capture_output=True,
            timeout=_SECONDS,
            check=False,
            cwd=_CHILD.anchor,  # nothing of the workspace is imported
            env={name: os.environ[name] for name in _VARIABLES if name in os.environ},
        )
    except (OSError, subprocess.TimeoutExpired):
        raise NotTableError("it takes too long to decode") from None
    if ended.returncode == _NO_LIBRARY:
        raise NotTableError(f"neither {' nor '.join(LIBRARIES)} is installed, which read it")
    if ended.returncode < 0:
        raise NotTableError(f"it is damaged (its decoder ended by signal {-ended.returncode})")
    try:
        table = json.loads(ended.stdout)
    except ValueError:
        raise NotTableError("it is damaged (its decoder failed)") from None
    if "error" in table:
        raise NotTableError(f"it cannot be decoded: {one_line(table['error'], 60)}")
    return dict(table)
