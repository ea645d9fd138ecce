"""polars' lazy tables are described by their plans, and none is computed"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from polars.io.plugins import register_io_source

from describing import Counted, line
from harness import Lab
from ipyagent.agent.prompts import PUSH_DOWN
from ipyagent.kernel.namespace import digest
from ipyagent.values.describe import describe

LAZY = "LazyFrame, not computed [polars]"


@pytest.mark.filterwarnings("ignore")  # of polars, where a function has no type
def test_no_function_of_a_plan_is_called_and_no_file_or_server_is_asked(tmp_path: Path) -> None:
    count = Counted()
    pl.DataFrame({"a": [1]}).write_csv(tmp_path / "x.csv")
    scan = pl.scan_csv(tmp_path / "x.csv")

    def source(*arguments: object) -> Iterator[pl.DataFrame]:
        count(None)
        yield pl.DataFrame({"a": [1]})

    def schema() -> pl.Schema:
        count(None)
        return pl.Schema({"a": pl.Int64})

    mapped = scan.with_columns(pl.col("a").map_elements(lambda a: count(a)))
    far, missing = pl.scan_parquet("http://127.0.0.1:9/x.parquet"), tmp_path / "no.parquet"
    plans = [mapped, scan.map_batches(count), register_io_source(source, schema=schema)]
    for plan in (*plans, far, pl.scan_parquet(missing), pl.LazyFrame({"a": [1]})):
        assert line(plan) == LAZY
        assert "columns: collect_schema() tells them" in describe("x", plan, detail=True)
    assert count.calls == 0
    mapped.collect_schema()
    assert count.calls  # the naive look calls it


def test_lazy_tables_come_before_other_data() -> None:
    values: Mapping[str, object] = {"n": 1, "lazy": pl.LazyFrame({"a": [1]}), "s": "x"}
    assert digest(values).startswith(f"- lazy: {LAZY}")


class OwnFrame(pl.LazyFrame):
    """A class of the user's, which says that it is polars' own."""

    __module__ = "polars.lazyframe.frame"


def test_a_class_of_the_users_own_is_described_by_its_attributes() -> None:
    assert line(OwnFrame({"a": [1]})).startswith("OwnFrame")


def test_a_mapped_array_is_not_loaded(tmp_path: Path) -> None:
    array = np.memmap(tmp_path / "m.bin", dtype="f8", mode="w+", shape=(1_000, 10))
    assert line(array) == (
        f"memmap, shape (1,000, 10), float64, ~80.0 kB, in {str(tmp_path / 'm.bin')!r}, mode w+, "
        "not loaded [numpy]"
    )


def sent(lab: Lab, prompt: str) -> str:
    lab.run(["Ok."], prompt)
    return str(lab.client.requests[-1].messages[-1])


def test_a_sentence_tells_once_how_to_work_with_lazy_data(tmp_path: Path) -> None:
    lab = Lab(tmp_path, {"big": pl.LazyFrame({"a": [1]})})
    assert PUSH_DOWN in sent(lab, "What is there?")
    assert len(PUSH_DOWN) <= 150
    assert PUSH_DOWN not in sent(lab, "And now?")  # the model knows it already
    assert PUSH_DOWN not in sent(Lab(tmp_path, {"small": pl.DataFrame({"a": [1]})}), "Go on.")
