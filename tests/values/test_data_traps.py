"""The usual traps of data can be seen in the context of a prompt that names a table's columns."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from harness import Lab
from ipyagent.values.describe import describe, describe_named_tables
from ipyagent.values.describe.table import Column, Table

TEXT = str(pd.Series(["x"]).dtype)
"""The type of texts: `object` in pandas 2, `str` in pandas 3."""
N = 400
REGIONS = ["North", "South", "East", "West"]


def cycle(values: Iterable[Any], rows: int = N) -> list[Any]:
    values = list(values)
    return [values[n * 7919 % len(values)] for n in range(rows)]


def base(**changes: Any) -> pd.DataFrame:
    """Return a table of sales without a trap, with some columns in place of its own."""
    columns: dict[str, Any] = {
        "day": [dt.date(2024, 1, 1) + dt.timedelta(n // 2) for n in range(N)],
        "region": cycle(REGIONS),
        "price": [round(5 + n * 37 % 900 / 10, 2) for n in range(N)],
        "units": [1 + n * 31 % 97 for n in range(N)],
    }
    columns["day"] = pd.to_datetime(columns["day"])
    return pd.DataFrame(columns | changes)


def spoil(values: Iterable[Any], *odd: Any, every: int = 29) -> list[Any]:
    """Return values with odd ones here and there, and none in the first rows."""
    spoilt = list(values)
    for count, n in enumerate(range(every, len(spoilt) - 1, every)):
        spoilt[n] = odd[count % len(odd)]
    return spoilt


def with_total() -> pd.DataFrame:
    frame = base(day=[f"{n // 28 % 12 + 1}/{n % 28 + 1}/2024" for n in range(N)])
    sums = ["Total", "All", frame.price.sum(), frame.units.sum()]
    return pd.concat([frame, pd.DataFrame([sums], columns=frame.columns)], ignore_index=True)


def with_repeats() -> pd.DataFrame:
    frame = base(price=[n + 0.5 for n in range(N)])
    return pd.concat([frame, frame.iloc[100:112]], ignore_index=True)


PRICES, UNITS = base().price, base().units
TRAPS: dict[str, tuple[Callable[[], pd.DataFrame], tuple[str, ...]]] = {
    "repeated rows": (with_repeats, ("12 repeated rows",)),
    "a total at the end": (
        with_total,
        ("the last row is the sum of the rows above in price",),
    ),
    "a mark of missing values": (lambda: base(units=spoil(UNITS, -999)), ("-999, 1 to 97",)),
    "another mark": (lambda: base(price=spoil(PRICES, 9999.0)), ("5.0 to 94.3, 9999.0",)),
    "two marks": (lambda: base(units=spoil(UNITS, -9999, 99999)), ("-9999, 1 to 97, 99999",)),
    "negative quantities": (lambda: base(units=spoil(UNITS, -3)), ("-3 to 97",)),
    "numbers as text": (
        lambda: base(price=[f"{each:.2f}" for each in PRICES]),
        (f"price {TEXT}", "5.00"),
    ),
    "a word among numbers": (
        lambda: base(price=spoil(PRICES.astype(str), "n/a")),
        ("n/a", f"price {TEXT}"),
    ),
    "thousands with commas": (
        lambda: base(price=spoil(PRICES.astype(str), "1,204.50")),
        ("1,204.50",),
    ),
    "days written in two ways": (
        lambda: base(day=spoil(base().day.dt.strftime("%Y-%m-%d"), "03/04/2024")),
        ("03/04/2024", "2024-01-01"),
    ),
    "months as words": (
        lambda: base(day=spoil(base().day.dt.strftime("%Y-%m-%d"), "5 Mar 2024", "6 Apr 2024")),
        ("5 Mar 2024",),
    ),
    "blanks behind categories": (
        lambda: base(region=spoil(cycle(REGIONS), "North ")),
        ("region: North and 'North ' differ only in case or blanks",),
    ),
    "categories in small letters": (
        lambda: base(region=spoil(cycle(REGIONS), "north")),
        ("region: North and north differ only in case or blanks",),
    ),
    "spellings of one name among many": (
        lambda: base(region=spoil([f"Shop {n % 50}" for n in range(N)], "shop  7")),
        ("region: Shop 7 and shop 7 differ only in case or blanks",),
    ),
    "a word for missing": (
        lambda: base(region=spoil(cycle(REGIONS), "NA", "unknown")),
        ("NA", "unknown"),
    ),
    "NA among many names": (
        lambda: base(region=spoil([f"Town {chr(65 + n % 26)}ville" for n in range(N)], "NA", "-")),
        ("NA", "-"),
    ),
    "empty texts": (lambda: base(region=spoil(cycle(REGIONS), "")), ("''",)),
    "two units": (
        lambda: base(price=spoil([f"{each} kg" for each in PRICES], "152.3 lb")),
        ("152.3 lb", "5.0 kg"),
    ),
    "two currencies": (
        lambda: base(price=spoil([f"${each}" for each in PRICES], "€12.5")),
        ("€12.5", "$5.0"),
    ),
    "metres and centimetres": (
        lambda: base(height=spoil([1.5 + n % 40 / 100 for n in range(N)], 172.0, 181.0)),
        ("1.5 to 1.89, 172.0 to 181.0",),
    ),
    "percent and fractions": (
        lambda: base(share=spoil([n % 19 / 20 for n in range(N)], 35.0)),
        ("0.0 to 0.9, 35.0",),
    ),
    "missing values": (lambda: base(price=spoil(PRICES, None)), ("price float64 13 ",)),
    "cancelled orders": (
        lambda: base(state=spoil(cycle(["paid", "sent"]), "cancelled")),
        ("cancelled",),
    ),
    "numbers and words in one column": (
        lambda: base(units=pd.Series(spoil(UNITS, "ten"), dtype=object)),
        ("1 to 97, 'ten'",),
    ),
    "an impossible day": (
        lambda: base(day=spoil(base().day, pd.Timestamp(1900, 1, 1))),
        ("1900-01-01",),
    ),
    "yes in three ways": (
        lambda: base(paid=spoil(cycle(["yes", "no"]), "Y", "TRUE")),
        ("Y", "TRUE"),
    ),
}


def context(tmp_path: Path, prompt: str, variables: dict[str, Any]) -> str:
    lab = Lab(tmp_path, variables)
    lab.run(["Ok."], prompt)
    return re.sub("  +", " ", lab.client.requests[-1].messages[-1].text)


QUESTION = "What is the mean price by region?"


@pytest.mark.parametrize("trap", TRAPS)
def test_a_trap_can_be_seen_from_a_plain_question(tmp_path: Path, trap: str) -> None:
    make, signs = TRAPS[trap]
    frame = make()
    text = context(tmp_path, QUESTION, {"df": frame, "n": 3})
    described = text.partition("Tables:")[2]
    assert [each for each in signs if each not in described] == []
    plain = context(tmp_path, QUESTION, {"df": base(), "n": 3})
    spared = [each for each in signs if each in plain.partition("Tables:")[2]]
    assert len(spared) < len(signs), "a table without the trap says the same"


POLARS = ["repeated rows", "a mark of missing values", "a word for missing", "missing values"]


@pytest.mark.parametrize("trap", POLARS)
def test_a_trap_in_a_table_of_polars_can_be_seen(tmp_path: Path, trap: str) -> None:
    make, signs = TRAPS[trap]
    frame = pl.DataFrame(make().replace({np.nan: None}).to_dict("list"))
    described = context(tmp_path, QUESTION, {"df": frame}).partition("Tables:")[2]
    assert [each for each in signs if each.split()[-1] not in described] == []


def test_the_description_of_a_table_is_short(tmp_path: Path) -> None:
    text = context(tmp_path, QUESTION, {"df": base()})
    assert len(text) - len(context(tmp_path, "Go on.", {"df": base(), "other": base()})) < 600


SALES, STAFF = base(), pd.DataFrame({"name": ["Ann", "Bo"], "hiredOn": [2020, 2021]})
VARIABLES = {"df": SALES, "staff_2024": STAFF, "prices": SALES.price, "t": SALES.head(9), "n": 3}
PROMPTS = {
    "Plot df": ["df"],
    "what are PRICES?": ["prices"],
    "Who is in staff 2024?": ["staff_2024"],
    "Compare df with staff-2024": ["df", "staff_2024"],
    "List the names": ["staff_2024"],
    "when were they hired on?": ["staff_2024"],
    "Mean units of each region": ["df", "t"],
    "What is there?": [],
    "Explain a t test": [],
    "show @df and @t": ["df"],
}


@pytest.mark.parametrize("prompt", PROMPTS)
def test_a_table_is_meant_by_its_name_or_by_those_of_its_columns(prompt: str) -> None:
    named = describe_named_tables(prompt, VARIABLES, 1_500, or_only=True)
    assert [*named] == PROMPTS[prompt]
    assert all(len(text.encode()) <= 1_500 for text in named.values())


def test_the_only_table_is_meant_unless_a_file_is() -> None:
    for or_only, meant in ((True, ["df"]), (False, [])):
        variables = {"n": 3, "df": SALES}
        assert [*describe_named_tables("Go on.", variables, 900, or_only=or_only)] == meant


def test_a_table_is_described_again_when_it_has_changed(tmp_path: Path) -> None:
    lab = Lab(tmp_path, {"df": SALES.head(50)})

    def described(prompt: str) -> str:
        lab.run(["Ok."], prompt)
        return lab.client.requests[-1].messages[-1].text.partition("Tables:")[2]

    assert "df: DataFrame, 50 rows" in described("Mean price?")
    assert described("And the mean of units?") == ""
    lab.variables["df"] = SALES.head(60)
    assert "df: DataFrame, 60 rows" in described("And now, mean price?")


def test_of_a_large_table_a_bounded_number_of_cells_is_read() -> None:
    read: list[int] = []

    def values(rows: slice) -> list[object]:
        found = [f"x{n % 9000}" for n in range(*rows.indices(1_000_000))]
        read.append(len(found))
        return [*found]

    columns = [Column(f"c{n}", "str", None, None, values) for n in range(5)]
    text = Table("DataFrame", 1_000_000, 5, columns, lambda: 0).detail()
    assert sum(read) < 25_000
    assert "texts and repeated rows: from 3,999 of these rows" in text
    assert "0 of 3,999" in text


class Uncomparable:
    """A value of the user's class, whose comparison is a mistake."""

    def __eq__(self, other: object) -> bool:
        raise AssertionError("it was compared")

    def __hash__(self) -> int:
        raise AssertionError("it was hashed")


def test_values_of_the_users_classes_are_not_compared(tmp_path: Path) -> None:
    frame = base(units=pd.Series([Uncomparable() for _ in range(N)], dtype=object))
    with pytest.raises(AssertionError, match="hashed"):
        frame.duplicated()
    described = context(tmp_path, QUESTION, {"df": frame}).partition("Tables:")[2]
    assert "<Uncomparable>" in described
    assert "5.0 to 94.3" in described


def test_rows_are_repeated_only_if_all_that_tells_them_apart_is_known() -> None:
    same = pd.DataFrame({"a": [1, 1, 2], "b": ["x", "x", "y"]})
    labelled = same.set_index(pd.date_range("2024-01-01", periods=3))
    unknown = same.assign(c=pd.Series([Uncomparable() for _ in range(3)], dtype=object))
    frames = {"same": same, "labelled": labelled, "unknown": unknown, "one": same[["a"]]}
    frames["numbered"] = same.set_index(pd.Index([5, 7, 9]))
    found = [n for n, each in frames.items() if "repeated" in describe("t", each, detail=True)]
    assert found == ["same", "numbered"]


def test_texts_of_a_column_of_secrets_are_hidden() -> None:
    keys = [f"sk-live-{n:032d}" for n in range(9)] + ["sk-live-" + "0" * 32 + " "]
    frame = pd.DataFrame({"api_key": keys, "n": range(10)})
    assert "sk-live" not in describe("df", frame, detail=True)
