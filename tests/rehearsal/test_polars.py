"""Tables of polars: adopted as plain data, and looked at as long as none of its threads run."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ipyagent.rehearsal.plain_data import read_all, write_all
from ipyagent.rehearsal.plain_parts import NotPlainError
from ipyagent.values.describe import describe
from kernels import Page, kernel, python, script

pl = pytest.importorskip("polars")
polars_testing = pytest.importorskip("polars.testing")

MOMENT = dt.datetime(2020, 2, 29, 1, 2, 3, 4)
COLUMNS: list[Any] = [
    *(pl.Series("n", [1, None, 0], dtype=each) for each in (pl.Int8, pl.UInt64, pl.Int64)),
    *(pl.Series("n", [1, 2, 3], dtype=each) for each in (pl.Int16, pl.UInt8, pl.Float32)),
    *(pl.Series("n", [1, None], dtype=each) for each in (pl.Int32, pl.UInt16, pl.UInt32)),
    pl.Series("f", [0.5, None, float("nan")]), pl.Series("f", [-0.0, 1e300, float("inf")]),
    pl.Series("b", [True, None, False]), pl.Series("b", [True, False]),
    pl.Series("", ["", "ü", None]),
    pl.Series("d", [dt.date(2020, 2, 29), None]), pl.Series("t", [dt.time(1, 2, 3, 4), None]),
    *(pl.Series("m", [MOMENT, None], dtype=pl.Datetime(unit)) for unit in ("ms", "us", "ns")),
    pl.Series("z", [MOMENT]).dt.replace_time_zone("Europe/Berlin"),
    pl.Series("e", [], dtype=pl.Date), pl.Series("x", [], dtype=pl.String),
    *(pl.Series("s", [dt.timedelta(1, 2, 3), None], dtype=pl.Duration(e)) for e in ("ms", "us")),
    pl.Series("s", [dt.timedelta(1, 2, 3)], dtype=pl.Duration("ns")),
    pl.Series("c", ["b", None, "a"], dtype=pl.Enum(["a", "b", "c"])),
]  # fmt: skip


def through(value: Any) -> Any:
    nodes, buffers = write_all({"x": value}, {}, lambda each: False)
    return read_all(nodes, [memoryview(bytes(each)) for each in buffers], {}).values["x"]


@pytest.mark.parametrize("column", COLUMNS, ids=lambda each: f"{each.dtype} {each.null_count()}")
def test_a_column_comes_back_as_it_was(column: Any) -> None:
    again = through(column)
    assert (again.name, again.dtype) == (column.name, column.dtype)
    assert again.equals(column, check_dtypes=True)
    polars_testing.assert_series_equal(again, column)


def test_a_table_comes_back_as_it_was() -> None:
    table = pl.DataFrame([each.head(0).rename(str(n)) for n, each in enumerate(COLUMNS)])
    for each in (table, pl.DataFrame(), pl.DataFrame({"a": [1, 2], "b": ["x", None]})):
        polars_testing.assert_frame_equal(through(each), each)
    one, other = through([table, table])
    assert one is other


@pytest.mark.parametrize(
    "column",
    [
        pl.Series([[1], [2, 3]]), pl.Series([{"a": 1}]), pl.Series([object()], dtype=pl.Object),
        pl.Series(["a"], dtype=pl.Categorical), pl.Series([None]), pl.Series([b"bytes"]),
    ],
    ids=lambda each: str(each.dtype),
)  # fmt: skip
def test_columns_of_other_types_are_refused(column: Any) -> None:
    for value in (column, column.to_frame()):
        with pytest.raises(NotPlainError):
            through(value)
    with pytest.raises(NotPlainError):
        through(column.to_frame().lazy())


def a(*parts: Any) -> list[Any]:
    """The node of a tuple of plain values; lists are nodes already."""
    return ["tuple", [each if isinstance(each, list) else ["plain", each] for each in parts]]


CELLS, EMPTY = ["array", "<i8", [1], "C", 0], ["list", []]
HOSTILE: list[Any] = [
    ["plain", "x"], a(), a("n", "Int64", EMPTY, ["plain", 5], None),
    a("n", "Int8", EMPTY, CELLS, None), a("n", "Object", EMPTY, CELLS, None),
    a("n", "Int64", EMPTY, CELLS, ["array", "|b1", [1], "C", 1]),
    a("n", "Datetime", EMPTY, CELLS, None),
    a("n", "Int64", ["list", [["plain", "us"]]], CELLS, None),
    a("n", "Datetime", ["list", [["plain", "us"], ["plain", "No/Where"]]], CELLS, None),
    a("n", "String", None, ["bytes", 0], ["bytes", 1]),
    a("n", "Enum", None, ["bytes", 0], ["bytes", 1]),
    a("n", "Int64", EMPTY, ["array", "<i8", [1, 1], "C", 0], None),
]  # fmt: skip


@pytest.mark.parametrize("node", HOSTILE, ids=str)
@pytest.mark.parametrize("kind", ["polars column", "polars table"])
def test_a_hostile_report_makes_no_column(node: Any, kind: str) -> None:
    parts = node if kind == "polars column" else ["list", [node]]
    with pytest.raises(NotPlainError):
        read_all({"x": [kind, parts]}, [memoryview(b"\xff" * 8), memoryview(b"ab")], {})


@pytest.mark.parametrize("dtype", [pl.Date, pl.Datetime("us"), pl.Duration("ms")])
def test_a_moment_that_polars_cannot_say_is_described_by_its_type(dtype: Any) -> None:
    numbers = np.array([np.iinfo("i8").min, 0]) if dtype != pl.Date else np.array([2**31 - 1], "i4")
    table = pl.DataFrame([pl.Series("m", numbers, dtype=dtype)])
    with pytest.raises(pl.exceptions.PanicException):
        table["m"].min(), table["m"].max()
    assert describe("table", through(table), detail=True) == "table: DataFrame"


SESSION = [
    "import polars as pl\nbirds = pl.read_csv('birds.csv')\nbirds.head()",
    "sizes = birds.group_by('kind').agg(pl.col('mass').mean())\nprint(sizes.sort('kind'))",
    "birds = birds.with_columns((pl.col('mass') / 1e3).alias('kg')).drop_nulls()\nbirds.describe()",
    "heavy = pl.scan_csv('birds.csv').filter(pl.col('mass') > 4000).collect()\nheavy.height",
    "query = birds.lazy().select('kg')\ntotal = query.sum().collect().item()\ntotal",
]


@pytest.mark.kernel
@pytest.mark.usefixtures("needs_isolation")
def test_a_session_with_polars_asks_nothing(tmp_path: Path) -> None:
    rows = [
        f"{kind},{mass}" for kind, mass in zip("aabbc" * 9, range(3_000, 7_500, 100), strict=True)
    ]
    (tmp_path / "birds.csv").write_text("\n".join(["kind,mass", *rows, "c,"]))
    replies = [*map(python, SESSION), "Done."]
    replies.insert(2, {"calls": [{"name": "inspect_variable", "arguments": {"name": "birds"}}]})
    looks = {"IPYAGENT_AGENT__LOOK_FREELY": "true", "IPYAGENT_AGENT__REHEARSE_SECONDS": "30"}
    with kernel(tmp_path, **looks) as started:
        cell = f"%%agent {script(tmp_path, *replies)}\nGo."
        found = started.run(cell, page=Page(started)).executions
        looked = [each for each in found if "rehearsal" in each]
        assert [each["decided_by"] for each in looked] == ["rehearsal"] * 5, [
            each["rehearsal"] for each in looked
        ]
        assert found[-1]["result"]["output"] == str(np.arange(3_000, 7_500, 100).sum() / 1000)
        code = "[*__import__('pathlib').Path('/proc/self/task').glob('*/comm')]"
        names = started.value(f"[each.read_text() for each in {code}]")
        assert "polars-1" not in names
        started.run("birds.sort('kg')")
        assert "polars-1" in started.value(f"[each.read_text() for each in {code}]")
