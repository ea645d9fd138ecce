"""The cost of a snapshot around a call: time, and memory beside the variables.

    .venv/bin/python benchmarks/variables.py            a table of 1,000,000 rows and 30 columns
    .venv/bin/python benchmarks/variables.py 100000     the same with fewer rows

With Copy-on-Write (always in pandas 3) the goal is 5 ms of CPU time beside what the code itself
takes, and 1 % of the table's memory. Without it, and for arrays, the content is copied.
"""

from __future__ import annotations

import sys
import time
import tracemalloc
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np
import pandas as pd

from ipyagent.schema import ToolResult
from ipyagent.values.variables.snapshot import Snapshot

GOAL = 5.0
COLUMNS = 30
REPETITIONS = 7

CODES = {
    "nothing is changed": "df",
    "a new column": "df['new'] = 1",
    "one cell": "df.loc[4, 'c3'] = -1.0",
    "a tenth of a column": "df.loc[df['c5'] < 0.1, 'c5'] = 0.0",
    "half of the rows": "df = df.iloc[::2]",
    "all columns": "df = df * 2",
    "an array of 8 MB": "array[5] = 1",
    "a list of 100,000": "items.append(1)",
}


def make_table(rows: int) -> pd.DataFrame:
    """Return a table whose columns have memory of their own, as files are read."""
    numbers = np.random.default_rng(0)
    return pd.DataFrame({f"c{i}": numbers.random(rows) for i in range(COLUMNS)})


def measure(make: Callable[[], dict[str, Any]], code: str) -> tuple[float, float, str]:
    """Return milliseconds of CPU time, bytes that a snapshot holds, and the summary."""
    times, held, said = [], 0, ""
    for _ in range(REPETITIONS):
        names = make()
        tracemalloc.start()
        snapshot = Snapshot.take(names, code)
        held, _peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        start = time.process_time()
        snapshot = Snapshot.take(names, code)
        taken = time.process_time() - start
        exec(code, {}, names)
        start = time.process_time()
        changes = snapshot.annotate(ToolResult(), names).variables
        times.append(1_000 * (taken + time.process_time() - start))
        said = changes[0].summary if changes else "-"
    return median(times), held, said


def main() -> None:
    """Measure each kind of change, and print a line for it."""
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    table = make_table(rows)
    size = int(table.memory_usage().sum())
    print(f"{rows:,} rows, {COLUMNS} columns, {size / 1e6:.0f} MB, pandas {pd.__version__}")

    def make() -> dict[str, Any]:
        return {"df": table.copy(), "array": np.zeros(rows), "items": [0] * 100_000}

    for title, code in CODES.items():
        milliseconds, held, said = measure(make, code)
        mark = "" if milliseconds <= GOAL else "  (over the goal)"
        print(f"{title:<22} {milliseconds:7.2f} ms  {held / size:7.3%}  {said[:60]}{mark}")


if __name__ == "__main__":
    main()
