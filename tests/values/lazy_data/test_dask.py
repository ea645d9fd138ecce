"""Dask's collections are described by what they know of themselves: nothing is computed"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import dask.bag as db
import dask.dataframe as dd
import dask.local
import pandas as pd
import pytest

from describing import line
from ipyagent.values.describe import describe

FRAME = pd.DataFrame({"a": range(1_000), "b": "x"})


class Scheduler:
    """Dask's own scheduler, and how often it was asked to compute."""

    def __init__(self) -> None:
        self.computations = 0

    def __call__(self, graph: Any, keys: Any, **more: Any) -> object:
        self.computations += 1
        return dask.local.get_sync(graph, keys, **more)


@pytest.fixture
def scheduler() -> Iterator[Scheduler]:
    counting = Scheduler()
    with dask.config.set(scheduler=counting, **{"dataframe.convert-string": True}):
        yield counting


def test_a_dask_table_tells_columns_size_and_partitions(scheduler: Scheduler) -> None:
    frame = dd.from_pandas(FRAME, npartitions=4)
    assert line(frame).startswith("DataFrame, 2 columns (a: int64, b: string), not computed")
    assert frame.divisions[-1] == 999  # now it has them at hand
    assert "(a: int64, b: string), 4 partitions, not computed" in line(frame)
    assert "divisions: 0 to 999" in describe("x", frame, detail=True)
    assert scheduler.computations == 0
    assert len(frame) == 1_000
    assert scheduler.computations == 1  # the counter counts


def dask_tables(folder: Path) -> dict[str, tuple[object, str]]:
    FRAME.to_parquet(folder / "x.parquet")
    for name in ("one.csv", "two.csv"):
        FRAME.to_csv(folder / name, index=False)
    frame = dd.from_pandas(FRAME, npartitions=4)
    files = dd.read_csv(folder / "*.csv")
    return {
        "filtered": (frame[frame.a > 1], "b: string), not computed"),
        "column": (frame.a, "Series a (int64), not computed"),
        "assigned": (files.assign(c=files.a * 2), "c: int64), not computed"),
        "parquet": (dd.read_parquet(folder / "x.parquet"), "b: string), not computed"),
        "mapped": (frame.map_partitions(lambda part: part.assign(z=1)), "not computed"),
        # To know how these are divided, Dask would compute.
        "sorted": (frame.set_index("b"), "DataFrame, 1 columns (a: int64), not computed"),
        "resized": (frame.repartition(partition_size="1MB"), "b: string), not computed"),
        "aggregated": (frame.groupby("b").a.sum(), "Series a (int64), not computed"),
        "merged": (frame.merge(files, on="a"), "b_x: string, b_y: string), not computed"),
    }


def test_dask_tables_of_all_kinds_are_described_without_a_computation(
    scheduler: Scheduler, tmp_path: Path
) -> None:
    tables = dask_tables(tmp_path)
    before = scheduler.computations
    for table, text in tables.values():
        assert text in line(table)
    assert scheduler.computations == before
    sorted_table: Any = tables["sorted"][0]
    assert sorted_table.npartitions
    assert scheduler.computations > before  # the naive look computes


def test_dask_arrays_and_bags(scheduler: Scheduler) -> None:
    array = da.ones((100_000, 10_000), chunks=10_000)
    assert line(array) == (
        "Array, shape (100,000, 10,000), float64, ~8.0 GB, 10 chunks of (10,000, 10,000), "
        "not computed [dask]"
    )
    assert "shape (?,)" in line(array[array > 0])
    assert line(db.from_sequence(range(9), npartitions=3)) == (
        "Bag, 3 partitions, not computed [dask]"
    )
    assert scheduler.computations == 0
