"""The cost of describing a table of a gigabyte: milliseconds until a description is there.

    .venv/bin/python benchmarks/tables.py        a CSV and, if polars is there, a Parquet file
    .venv/bin/python benchmarks/tables.py 15     the same with 15 MB

The files are made in a temporary folder and removed. The goal is a second, which a prompt waits at
most. The reader's process is warm: the first file of a kernel takes a second or two more.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from statistics import median

from ipyagent.tools.tables import MOST_BYTES, describe_table
from ipyagent.tools.workspace import Workspace

GOAL = 1_000.0
REPETITIONS = 5
_LINE = "{n},name of {n},{x:.4f},2024-01-{d:02},{y}\n"


def write_csv(path: Path, size: int) -> None:
    """Write rows of five columns until the file has that size."""
    block = "".join(
        _LINE.format(n=n, x=n / 7, d=n % 28 + 1, y="yes" if n % 3 else "no") for n in range(20_000)
    ).encode()
    with path.open("wb") as file:
        file.write(b"id,name,value,day,answer\n")
        while file.tell() < size:
            file.write(block)


def write_parquet(path: Path, size: int) -> None:
    """Write random numbers, which do not compress, in row groups of the usual size."""
    import polars as pl

    rows = size // 32
    numbers = pl.select(id=pl.int_range(rows)).with_columns(
        [pl.col("id").hash(seed).alias(f"c{seed}") for seed in range(4)]
    )
    numbers.write_parquet(path, compression="uncompressed", row_group_size=250_000)


def measure(path: Path) -> float:
    """Return the median of the milliseconds."""
    times = []
    for _ in range(REPETITIONS):
        path.touch()  # what is known of it no longer counts
        start = time.perf_counter()
        text = describe_table(Workspace(path.parent), path.name, MOST_BYTES)
        times.append(1_000 * (time.perf_counter() - start))
    print(f"  {text.splitlines()[0]}")
    return median(times)


def main(megabytes: int) -> None:
    """Print a line for each kind of file."""
    makers: dict[str, Callable[[Path, int], None]] = {"t.csv": write_csv}
    if find_spec("polars"):
        makers["t.parquet"] = write_parquet
    with tempfile.TemporaryDirectory() as folder:
        for name, write in makers.items():
            path = Path(folder, name)
            write(path, megabytes * 1_000_000)
            taken = measure(path)
            print(f"{name:12}{taken:8.1f} ms   {'met' if taken <= GOAL else 'not met'}")
            path.unlink()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000)
