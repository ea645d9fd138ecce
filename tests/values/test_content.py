"""The content of a variable in a text: equal for equal values, in every process."""

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from ipyagent.agent.recordings import is_same_text
from ipyagent.values.variables.content import describe_content


class Own:
    def __repr__(self) -> str:
        raise AssertionError("code of the user's ran")


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (1, 2, False),
        ([1, {"a": (2, None)}], [1, {"a": (2, None)}], True),
        ({3, 1}, {1, 3}, True),
        ([[1], 2], [1, [2]], False),
        (["/tmp/tmpa/x.csv"], ["/tmp/tmpb/y.csv"], True),
        ("<Axes at 0x7f3a1c>", "<Axes at 0x7f9b00>", True),
        ("/data/a.csv", "/data/b.csv", False),
        (0.1 + 0.2, 0.3, True),
        ([Own()], [Own()], True),
        (np.array([1, 2]), np.array([2, 1]), False),
        (np.array([0.1 + 0.2, 1]), np.array([0.3, 1]), True),
        (np.array([1.5, 2]), np.array([2, 1.5]), False),
        (pd.DataFrame({"a": [1.5, None]}), pd.DataFrame({"a": [None, 1.5]}), False),
        (pd.DataFrame({"a": ["x"]}), pd.DataFrame({"a": ["y"]}), False),
        (pd.DataFrame({"a": [1]}), pd.DataFrame({"b": [1]}), False),
        (pd.Series([1, 2]), pd.Series([1.0, 2.0]), False),
        (pl.DataFrame({"a": [1]}), pl.DataFrame({"a": [2]}), False),
    ],
)
def test_contents_are_told_apart(one: Any, other: Any, same: bool) -> None:
    assert is_same_text(describe_content(one), describe_content(other)) is same


def test_the_size_of_a_table_is_readable() -> None:
    assert describe_content(pd.DataFrame({"a": [1, 2]})).startswith("2 rows, 1 columns · a: int64")
