"""The cost of describing a table of a gigabyte beside a prompt: CPU time, in this process.

    .venv/bin/python benchmarks/tables.py        a CSV and, if polars is there, a Parquet file
    .venv/bin/python benchmarks/tables.py 15     the same with 15 MB, of which lines are counted

The files are made in a temporary folder and removed. The goal is 100 ms of CPU time each, with
nothing imported for it. `inspect_file` also counts the lines, and reads rows by a library.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from statistics import median

from ipyagent.tools.tables.inspect import describe_table
from ipyagent.tools.tables.sample import GLANCE, LOOK, MOST_BYTES, Effort
from ipyagent.tools.workspace import Workspace

GOAL = 100.0
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


def measure(workspace: Workspace, name: str, effort: Effort) -> float:
    """Return the median of the CPU time in milliseconds."""
    times = []
    for _ in range(REPETITIONS):
        start = time.process_time()
        text = describe_table(workspace, name, effort, MOST_BYTES)
        times.append(1_000 * (time.process_time() - start))
    print(f"  {text.splitlines()[0]}")
    return median(times)


def main(megabytes: int) -> None:
    """Print a line for each kind of file and each effort."""
    makers: dict[str, Callable[[Path, int], None]] = {"t.csv": write_csv}
    if find_spec("polars"):
        makers["t.parquet"] = write_parquet
    with tempfile.TemporaryDirectory() as folder:
        workspace = Workspace(Path(folder))
        for name, write in makers.items():
            write(Path(folder, name), megabytes * 1_000_000)
            for label, effort in (("beside a prompt", GLANCE), ("inspect_file", LOOK)):
                taken = measure(workspace, name, effort)
                goal = ("met" if taken <= GOAL else "not met") if effort is GLANCE else "no goal"
                print(f"{name:12}{label:18}{taken:8.1f} ms CPU   {goal}")
            Path(folder, name).unlink()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000)
