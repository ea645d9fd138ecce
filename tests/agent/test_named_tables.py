"""Tables that a prompt names."""

from __future__ import annotations

import pytest

from ipyagent.tools.tables.inspect import find_named_tables

PATHS = ["titanic.csv", "data/Sales 2024.xlsx", "gapminder_cleaned.csv", "a/train.csv"]
PATHS += ["b/train.csv", "b/train.parquet", "x.csv"]


@pytest.mark.parametrize(
    ("prompt", "named"),
    [
        ("Mean fare in titanic.csv?", ["titanic.csv"]),
        ("Mean fare in @titanic.csv.", ["titanic.csv"]),
        ("mean fare in TITANIC", ["titanic.csv"]),
        ("the 'Titanic' passengers", ["titanic.csv"]),
        ("Open `Sales 2024.xlsx`", ["data/Sales 2024.xlsx"]),
        ('Open @"data/Sales 2024.xlsx" please', ["data/Sales 2024.xlsx"]),
        ("sales_2024 by region", ["data/Sales 2024.xlsx"]),
        ("gapminder cleaned: life expectancy", ["gapminder_cleaned.csv"]),
        ("compare a/train.csv with titanic", ["a/train.csv", "titanic.csv"]),
        ("use train.csv", ["a/train.csv", "b/train.csv"]),
        ("use train", ["a/train.csv", "b/train.csv", "b/train.parquet"]),
        ("x.csv", ["x.csv"]),
        ("solve for x", []),
        ("titanik and sales 2023", []),
        ("my titanic.csv.bak and titanics2", []),
        ("training of titanical models", []),
        ("", []),
    ],
)
def test_names_are_found_in_the_prompt(prompt: str, named: list[str]) -> None:
    assert find_named_tables(prompt, PATHS) == named


def test_a_longer_name_wins_over_a_part_of_it() -> None:
    paths = ["sales.csv", "sales 2024.csv"]
    assert find_named_tables("Plot sales 2024", paths) == ["sales 2024.csv"]
    assert find_named_tables("Plot sales 2024 and sales", paths) == ["sales 2024.csv", "sales.csv"]


def test_three_tables_are_enough() -> None:
    paths = [f"table{n}.csv" for n in range(10, 20)]
    assert find_named_tables(" ".join(reversed(paths)), paths) == paths[:-4:-1]


def test_only_the_beginning_of_an_enormous_prompt_is_searched() -> None:
    for words, named in ((100, ["titanic.csv"]), (200_000, [])):
        assert find_named_tables("word " * words + "titanic.csv", PATHS) == named
