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


def test_a_small_change_in_a_large_column_is_seen() -> None:
    prices = np.arange(200_000) * 12.5 + 10_000_000.04
    prices[7], changed = np.nan, prices.copy()
    changed[5_000] += 0.01
    short, other = (pd.DataFrame({"price": each}) for each in (prices, changed))
    assert not is_same_text(describe_content(short), describe_content(other))
    lengths = np.tile(np.array([12.34, 0.5], "f4"), 500_000)
    changed = lengths.copy()
    changed[0] = 12.341
    assert not is_same_text(describe_content(lengths), describe_content(changed))


def test_noise_of_computing_is_no_change() -> None:
    numbers = np.random.default_rng(1).normal(size=20_000)
    for column in (numbers, np.round(numbers, 3), np.array([1.0, 8.0, 0.0, np.inf, -np.inf])):
        noisy = column * (1 + 2e-16 * np.sign(np.arange(len(column)) % 3 - 1))
        noisy[2] += 6e-17
        assert (noisy != column).any()
        assert is_same_text(describe_content(column), describe_content(noisy))


def test_infinite_numbers_have_places() -> None:
    one, other = np.array([1.5, np.inf, 1 / 3]), np.array([np.inf, 1.5, 1 / 3])
    assert not is_same_text(describe_content(one), describe_content(other))


def test_the_size_of_a_table_is_readable() -> None:
    assert describe_content(pd.DataFrame({"a": [1, 2]})).startswith("2 rows, 1 columns · a: int64")
