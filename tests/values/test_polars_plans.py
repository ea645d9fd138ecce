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
from ipyagent.values.describe.libraries import MEMORY


@pytest.fixture
def little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process of the tests may hold more than a kernel with few tables."""
    monkeypatch.setattr("ipyagent.values.describe.libraries._anonymous_memory", lambda: 0)


def test_lazy_tables_of_local_files_tell_their_columns(tmp_path: Path, little_memory: None) -> None:
    table = pl.DataFrame({"a": [1], "b": ["x"]})
    table.write_parquet(tmp_path / "x.parquet")
    table.write_csv(tmp_path / "x.csv")
    parquet = pl.scan_parquet(tmp_path / "x.parquet")
    csv = pl.scan_csv(tmp_path / "x.csv")
    assert line(parquet) == "LazyFrame, 2 columns (a: Int64, b: String), not computed [polars]"
    assert "(n: UInt32)" in line(parquet.select(n=pl.col("a").cast(pl.UInt32)))
    assert "b: String, b_right: String)" in line(csv.join(parquet, on="a"))
    assert "column  dtype\na       Int64" in describe("x", csv, detail=True)


@pytest.mark.filterwarnings("ignore")  # of polars, where a function has no type
def test_no_function_in_a_polars_plan_is_called(tmp_path: Path, little_memory: None) -> None:
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
    in_memory = pl.LazyFrame({"a": [1]}).with_columns(pl.col("a").map_elements(count))
    plans = [mapped, in_memory, scan.map_batches(count), register_io_source(source, schema=schema)]
    for plan in plans:
        assert line(plan).startswith("LazyFrame, ")
    assert count.calls == 0
    mapped.collect_schema()
    assert count.calls  # the naive look calls it


def test_no_server_is_asked_for_the_columns_of_a_plan(little_memory: None) -> None:
    lazy = pl.scan_parquet("http://127.0.0.1:9/x.parquet")
    for plan in (lazy, lazy.head(), pl.LazyFrame({"a": [1]}).join(lazy, on="a")):
        assert line(plan) == "LazyFrame, not computed [polars]"
    assert "columns: not known before it is computed" in describe("x", lazy, detail=True)


def test_a_file_whose_types_stand_in_its_last_line_is_not_read(
    tmp_path: Path, little_memory: None
) -> None:
    (tmp_path / "x.csv").write_text("a\n1\n")
    assert line(pl.scan_csv(tmp_path / "x.csv", infer_schema_length=None)) == (
        "LazyFrame, not computed [polars]"
    )


def test_a_plan_is_not_written_where_it_may_hold_a_large_table(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    room = "ipyagent.values.describe.libraries._anonymous_memory"
    monkeypatch.setattr(room, lambda: MEMORY + 1)
    table = pl.DataFrame({"a": range(1_000_000)})
    assert line(table.lazy()).startswith("LazyFrame, 1 columns (a: Int64)")
    assert line(table.lazy().filter(pl.col("a") > 1)) == "LazyFrame, not computed [polars]"


def test_a_lazy_table_of_a_missing_file_is_described(tmp_path: Path, little_memory: None) -> None:
    assert line(pl.scan_parquet(tmp_path / "no.parquet")) == "LazyFrame, not computed [polars]"


def test_lazy_tables_come_before_other_data() -> None:
    values: Mapping[str, object] = {"n": 1, "lazy": pl.LazyFrame({"a": [1]}), "s": "x"}
    assert digest(values).startswith("- lazy: LazyFrame, 1 columns")


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
