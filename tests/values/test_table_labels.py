"""Tables keep the labels of their rows, and a column that cannot be counted its neighbours."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest
from pandas.tests.extension.json import JSONArray

from ipyagent.kernel.namespace import digest
from ipyagent.values.describe import compact_value, describe
from ipyagent.values.describe.libraries import table_of

TEXT = str(pd.Index(["p1"]).dtype)
"""The type of texts: `object` in pandas 2, `str` in pandas 3."""
VALUES = {"age": [41, 57], "weight": [70.5, 81.0]}


def indexed(index: Any) -> pd.DataFrame:
    return pd.DataFrame(VALUES, index=index)


INDEXES: list[tuple[Any, str, str]] = [
    (
        pd.Index(["p1", "p2"], name="patient"),
        f"index patient: {TEXT}",
        "patient,age,weight\np1,41,70.5",
    ),
    (pd.Index([7, 9], name="visit"), "index visit: int64", "visit,age,weight\n7,41,70.5"),
    (pd.RangeIndex(2, name="row"), "index row: int64", "row,age,weight\n0,41"),
    (pd.date_range("2024-03-01", periods=2), "index (no name): datetime64", "2024-03-01"),
    (
        pd.period_range("2024-03", periods=2, freq="M", name="month"),
        "index month: period[M]",
        "month,",
    ),
    (pd.Index([1.5, 2.5]), "index (no name): float64", "(no name),age,weight\n1.5,41"),
    (
        pd.CategoricalIndex(["a", "b"], name="group"),
        "index group: category",
        "group,age,weight\na,41",
    ),
    (pd.IntervalIndex.from_breaks([0, 1, 2], name="bin"), "index bin: interval", "bin,age,weight"),
    (
        pd.MultiIndex.from_tuples([("a", 1), ("b", 2)], names=["site", None]),
        f"index site: {TEXT}, index (no name): int64",
        "site,(no name),age,weight\na,1,41",
    ),
    (pd.Index(["p1", "p2"], name=("a", 1)), f"index ('a', 1): {TEXT}", "p1,41"),
    (pd.Index([0, 5]), "index (no name): int64", "(no name),age,weight\n0,41,70.5\n5,57"),
    (pd.RangeIndex(3, 9, 3), "index (no name): int64", "(no name),age,weight\n3,41,70.5\n6,57"),
    (pd.Index([7, 7]), "index (no name): int64", "7,41,70.5\n7,57"),
    (pd.Index(["1", "2"], name="id"), f"index id: {TEXT}", "id,age,weight\n'1',41,70.5\n'2',57"),
    (pd.Index(["1", 1], name="id"), "index id: object", "id,age,weight\n'1',41,70.5\n1,57"),
    (pd.Index(["None", None]), "index (no name)", "'None',41"),
    (pd.Index(["nan", "1e5"]), "index (no name)", "'nan',41,70.5\n'1e5',57"),
    (pd.Index([True, False], name="ok"), "index ok: bool", "ok,age,weight\nTrue,41"),
    (pd.to_timedelta([1, 2], "h"), "index (no name): timedelta64", "Timedelta("),
    (pd.Index([b"a", b"b"]), "index (no name): object", "b'a',41"),
    (
        pd.Index([("a", 1), ("b", 2)], tupleize_cols=False),
        "index (no name): object",
        "\"('a', 1)\",41",
    ),
    (
        pd.date_range("2024-03-01", periods=2, tz="Europe/Oslo", name="when"),
        "index when: datetime64",
        "when,age,weight\n2024-03-01 00:00:00+01:00,41",
    ),
]


class OfALibrary(pd.DataFrame):
    """As those of geopandas."""


@pytest.mark.parametrize(("index", "line", "rows"), INDEXES)
def test_an_index_is_named_with_its_type_and_its_labels(index: Any, line: str, rows: str) -> None:
    table = table_of(indexed(index))
    assert f"({line}" in table.line()
    assert rows in table.detail()
    assert "index, no column: " in table.detail()
    series = table_of(indexed(index).age)
    assert line.partition(",")[0] in series.line()
    header, *first = rows.replace("(no name)", "").splitlines()
    for frame in (indexed(index), OfALibrary(indexed(index))):  # the last value of code
        told = compact_value(frame, "")
        assert told is not None
        assert line in told
        assert all(each in told for each in (header, *first))


def test_rows_that_are_only_numbered_have_no_index() -> None:
    table = table_of(indexed(pd.RangeIndex(2)))
    assert "index" not in table.line() + table.detail()


def test_labels_of_columns_are_told_from_each_other_and_their_levels_are_named() -> None:
    table = table_of(pd.DataFrame([[1, 2, 3, 4]], columns=["1", 1, None, "None"]))
    assert "('1': int64, 1: int64, None: int64, 'None': int64)" in table.line()
    long = pd.DataFrame({"city": ["Ulm", "Bonn"], "year": [1, 2], "sales": [3, 4]})
    wide = long.pivot(index="city", columns="year", values="sales")
    assert "index: city; levels of the columns: year;" in str(compact_value(wide, ""))
    assert describe("i", wide.columns, detail=False) == "i: Index year, 2 entries (int64): [1, 2]"


def test_a_grouped_table_says_what_it_is_grouped_by() -> None:
    grouped = pd.DataFrame({"city": ["Ulm", "Bonn"], "sales": [1, 2]}).groupby("city").mean()
    (line,) = [each for each in digest({"grouped": grouped}).splitlines() if "grouped" in each]
    assert line.endswith(f"(index city: {TEXT}, sales: float64)")


def test_a_column_that_cannot_be_counted_keeps_the_description_of_the_table() -> None:
    class Uncountable(JSONArray):
        """A column like pyarrow's lists, of which different ones cannot be counted."""

        def unique(self) -> Any:
            raise TypeError("unhashable")

    odd = Uncountable([{"a": 1}, {"b": 2}])
    frame = pd.DataFrame({"id": [1, 2], "odd": odd, "name": ["x", "y"]})
    with pytest.raises(TypeError):
        frame.odd.nunique()
    table = table_of(frame)
    described = {each[0]: each[1:4] for each in map(str.split, table.detail().splitlines()) if each}
    assert described["odd"] == ["json", "0", "-"]
    assert described["id"] == ["int64", "0", "2"]
    assert "\n1,{'a': 1},x\n" in table.detail()


def test_a_name_of_two_lines_is_written_as_code() -> None:
    table = table_of(pd.DataFrame({"net\nsales": [1]}, index=pd.Index(["a"], name="two\nlines")))
    for text in (table.line(), table.detail()):
        assert r"'net\nsales'" in text
        assert r"'two\nlines'" in text
