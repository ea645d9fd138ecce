"""What the model reads of values: tables as CSV with their facts, the rest in brief."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest

from ipyagent.kernel.namespace import Namespace, brief_line, digest
from ipyagent.values.describe import FULL_ROWS, compact_value

LONG = {f"a_long_column_{number}": [1, 2] for number in range(6)}


def compact(value: object) -> str | None:
    return compact_value(value, repr(value))


def test_a_table_is_given_as_csv_with_shape_types_and_missing_values() -> None:
    table = pd.DataFrame({"name": ["Braund, Owen", None], "Fare": [7.25, 71.2833333333]})
    assert str(compact(table)).splitlines() == [
        # pandas 2 has texts as objects, with None among them.
        f"DataFrame, 2 rows × 2 columns (name: {table.name.dtype}, Fare: float64); nulls: name 1",
        "name,Fare",
        '"Braund, Owen",7.25',
        f"{table.name[1]},71.283333",
    ]


def test_an_index_that_tells_something_is_a_column_of_its_own() -> None:
    table = pd.DataFrame({"k": ["a", "b", "a"], "x": [1, 2, 3], "y": [0.5, 0.5, 0.5]})
    text = str(compact(table.groupby("k").sum()))
    assert text.splitlines()[0].endswith("; index: k")
    assert text.splitlines()[1:] == ["k,x,y", "a,4,1.0", "b,2,0.5"]
    many = table.set_index(["k", "x"])
    assert "; index: k, x" in str(compact(many))


def test_a_long_table_is_given_by_its_ends() -> None:
    text = str(compact(pd.DataFrame({"x": range(FULL_ROWS + 1)})))
    assert "first and last 5 rows" in text
    assert text.splitlines()[1:] == ["x", *map(str, range(5)), "…", *map(str, range(56, 61))]
    assert "…" not in str(compact(pd.DataFrame({"x": range(FULL_ROWS)})))


def test_tables_of_polars_are_given_too() -> None:
    assert str(compact(pl.DataFrame({"a": [1]}))).endswith("\na\n1")


def test_a_wide_table_takes_less_than_its_printed_text() -> None:
    table = pd.DataFrame({f"column_{number}": np.arange(10) / 7 for number in range(12)})
    with pd.option_context("display.width", 80, "display.max_columns", 30):
        assert len(str(compact(table))) < len(repr(table))


def test_a_secret_column_is_not_told() -> None:
    table = pd.DataFrame({"password": ["correct-horse-battery"], "x": [1]})
    assert "horse" not in str(compact(table))


def test_objects_that_only_their_own_code_could_tell_keep_their_own_text() -> None:
    class Own:
        def __repr__(self) -> str:
            raise AssertionError("it was asked")

    assert compact_value(pd.DataFrame({"x": [Own()]}), "as the library prints it") is None


@pytest.mark.parametrize(
    ("plain", "brief"),
    [
        ("np.float64(0.5)", "0.5"),
        ("{'a': np.int64(3), 'b': [np.float64(nan)]}", "{'a': 3, 'b': [nan]}"),
        ("ShapiroResult(statistic=np.float64(0.86))", "ShapiroResult(statistic=0.86)"),
        ("np.True_", None),
        ("'np.int64(3)'", None),
        ("plain", None),
    ],
)
def test_numbers_of_numpy_are_printed_plainly(plain: str, brief: str | None) -> None:
    assert compact_value(object(), plain) == brief


def test_a_long_container_is_summarised() -> None:
    value = dict.fromkeys(range(5_000), 1.0)
    text = str(compact(value))
    assert text.startswith("dict, 5,000 items")
    assert len(text) < 400 < len(repr(value))
    assert compact(dict.fromkeys(range(10))) is None


def test_the_user_still_sees_what_the_library_prints() -> None:
    table = pd.DataFrame({"x": [1, 2]})
    result = Namespace({"df": table}).run("df")
    assert result.output == repr(table)
    assert result.for_model == "DataFrame, 2 rows × 1 columns (x: int64)\nx\n1\n2"
    assert result.to_content("1").content[0] == result.content[0]
    assert result.content[0].text == result.for_model


def test_columns_that_tables_share_are_named_once() -> None:
    table = pd.DataFrame(LONG)
    variables = {"df": table, "big": table.copy(), "small": pd.DataFrame({"x": [1]})}
    lines = digest(variables).splitlines()
    assert [("a_long_column_5" in line) for line in lines] == [False, True, False]
    assert lines[2] == "- df: DataFrame, 2 rows × 6 columns (same columns as big)"
    assert brief_line("big", variables).endswith("(same columns as df)")
