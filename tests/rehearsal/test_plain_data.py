"""Plain data comes back exactly as it was, and what is not plain is refused."""

from __future__ import annotations

import datetime
import math
import re
import struct
import sys
from collections import Counter, OrderedDict, defaultdict, deque
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pytest
from dateutil.tz import tzutc
from hypothesis import given, strategies as st

from ipyagent.rehearsal.plain_data import read_all, write_all
from ipyagent.rehearsal.plain_parts import NotPlainError
from ipyagent.values.variables.tables import copies_on_write

HOUR = datetime.timedelta(hours=1)
TABLE = pd.DataFrame(
    {
        "a": [1, 2, 3],
        "b": [0.5, math.nan, -0.0],
        "c": ["x", None, "z"],
        "d": pd.Categorical(["u", "v", "u"], ["v", "u"], ordered=True),
        "e": pd.array([1, None, 3], dtype="Int64"),
        "f": pd.date_range("2020-01-01", periods=3, tz="Europe/Berlin"),
        "g": [True, False, True],
        "h": pd.to_timedelta([1, 2, 3], unit="h"),
        "i": pd.array([True, None, False], dtype="boolean"),
        "j": [1, "two", None],
    }
)

PLAIN: list[Any] = [
    None, True, 10**40, -7, 0.1, math.nan, -0.0, 1 + 2j, "text \ud800 ü", b"bytes",
    [1, [2, (3, {4: "x"})]], {"k": {1, 2}, 1: frozenset("ab")}, (), [], {}, set(),
    np.arange(6).reshape(2, 3).copy(), np.asfortranarray(np.ones((2, 3))), np.zeros((0, 3)),
    np.array(["a", "bc"]), np.array(["2020-01-01"], "M8[D]"), np.float32(1.5), np.int64(3),
    np.array(5), TABLE, TABLE.a, TABLE.f, TABLE.groupby("c").a.sum(),
    TABLE.set_index(["a", "c"]), TABLE.groupby(["c", "g"]).agg({"a": ["sum", "mean"]}),
    pd.Series([1.0], index=pd.date_range("2020", periods=1, freq="D")), TABLE.columns,
    pd.DataFrame(), pd.DataFrame(index=[1, 2]), TABLE[["a", "b"]].describe(),
    TABLE.d.value_counts(),
    pd.DataFrame([[1, 2]], columns=["a", "a"]), pd.RangeIndex(2, 9, 3, name="r"),
    Path("a/b"), datetime.date(2020, 2, 29), datetime.time(1, 2), datetime.timedelta(-1, 2, 3),
    datetime.datetime(2020, 1, 1, 2, 3, 4, 5, datetime.UTC), Decimal("1.10"), Fraction(1, 3),
    UUID(int=7), range(1, 9, 2), Counter("abca"), OrderedDict(b=1, a=2), deque([1], 3),
    defaultdict(list, a=[1]), pd.Timestamp("2020-01-01 01:02", tz="Europe/Berlin"),
    pd.Timestamp("2020").as_unit("s"), pd.Timedelta("3h"), pd.Period("2020-03", "M"),
    pd.Interval(1, 2, "left"), TABLE.b.set_axis(pd.period_range("2020", periods=3, freq="M")),
    pd.Series(TABLE.f.dt.date), pd.cut(TABLE.a, 2), pd.interval_range(0, 3),
    TABLE.b.set_axis(TABLE.h), pd.timedelta_range("1h", periods=3, freq="2h"),
    pd.Series(pd.arrays.IntervalArray.from_breaks([0, 1, 2])),
    pd.Series([pd.Timestamp("2020"), pd.NaT, pd.NA, "x"]),
    TABLE.groupby(pd.cut(TABLE.a, [0, 1, 3]), observed=False).b.mean(), pd.qcut(TABLE.a, 2),
    pd.period_range("2020", periods=2, freq="Q"), re.compile("a+", re.I), OrderedDict(a=[1], b={}),
]  # fmt: skip


def through(value: Any, existing: dict[str, Any] | None = None) -> Any:
    """Write a value and read it; the writer compares what comes back with what it was given."""
    known = existing or {}
    nodes, buffers = write_all({"x": value}, known, lambda each: False)
    return read_all(nodes, [memoryview(bytes(each)) for each in buffers], known).values["x"]


def is_same(one: Any, other: Any) -> bool:
    """Return whether two values of plain containers and scalars are the same, types too."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        pairs = zip(one.items(), other.items(), strict=True)
        return len(one) == len(other) and all(is_same(a, b) for a, b in pairs)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(is_same, one, other))
    if isinstance(one, float):
        return one.hex() == other.hex()
    return bool(one == other) or isinstance(one, complex)


@pytest.mark.parametrize("value", PLAIN, ids=lambda value: type(value).__name__)
def test_plain_data_comes_back_as_it_was(value: Any) -> None:
    again = through(value)
    assert type(again) is type(value)
    if isinstance(value, np.ndarray):
        assert (again.dtype, again.shape) == (value.dtype, value.shape)
        assert again.tobytes() == value.tobytes()
    elif isinstance(value, pd.Index):
        pd.testing.assert_index_equal(value, again, exact=True)
    elif isinstance(value, pd.DataFrame):
        pd.testing.assert_frame_equal(value, again, check_exact=True)
    elif isinstance(value, pd.Series):
        pd.testing.assert_series_equal(value, again, check_exact=True)
    else:
        assert is_same(value, again), again


def test_columns_of_each_type_of_pandas_that_knows_what_is_missing_come_back() -> None:
    whole = [f"{sign}Int{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64)]
    for dtype in (*whole, "Float32", "Float64", "boolean"):
        column = pd.Series([1, None, 0], dtype=dtype)
        pd.testing.assert_series_equal(column, through(column), check_exact=True)


OBJECTS = [
    None, True, 1, 0.5, 1 + 2j, "x", b"x", datetime.timedelta(1), Fraction(1, 3), Path("a"),
    datetime.date(2020, 2, 29), datetime.time(1, 2), datetime.datetime(2020, 1, 1), UUID(int=7),
    Decimal("1.10"), pd.Timestamp("2020"), pd.Timedelta("3h"), pd.Period("2020"), pd.NA, pd.NaT,
    pd.Interval(1, 2), np.float32(1.5), (1, "x"), [1], {"a": 1}, {1},
]  # fmt: skip


def test_cells_of_a_column_of_objects_keep_their_types() -> None:
    for cell in OBJECTS:
        back = through(pd.Series([cell, "x"], dtype=object))[0]
        assert back is cell or (type(back), back) == (type(cell), cell)


scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary()
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner)
        | st.lists(inner).map(tuple)
        | st.dictionaries(st.text() | st.integers(), inner)
    ),
)


@given(values)
def test_any_containers_come_back_as_they_were(value: Any) -> None:
    assert is_same(value, through(value))


def test_one_object_stays_one_object() -> None:
    inner: list[int] = []
    first, second = through([inner, inner])
    assert first is second
    loop: list[Any] = []
    loop.append(loop)
    again = through(loop)
    assert again[0] is again


def test_missing_numbers_keep_their_bits_and_their_identity() -> None:
    odd = struct.unpack("<d", bytes.fromhex("230100000000f8ff"))[0]
    first, second = through([[odd, math.nan], [odd, np.nan]])
    assert struct.pack("<d", first[0]) == struct.pack("<d", odd)
    assert first[0] is second[0]
    assert first == [first[0], math.nan]
    assert second[1] is np.nan


@pytest.mark.parametrize("made", [np.zeros(3), np.asfortranarray(np.ones((2, 3)))])
def test_an_array_has_its_own_memory(made: Any) -> None:
    assert through(made).flags.owndata


def memory_of(value: Any) -> Any:
    """The memory of an array, or of a table's first column."""
    return np.asarray(value.iloc[:, 0] if isinstance(value, pd.DataFrame) else value)


CELLS = np.arange(6.0)
SHARING: list[Any] = [
    [CELLS, CELLS[:3]], [CELLS[1::2], CELLS[::-1], CELLS], [CELLS.reshape(2, 3)[:, 1], CELLS],
    [CELLS, pd.Series(CELLS, copy=False)], [pd.Series(CELLS, copy=False), CELLS],
    [pd.DataFrame(CELLS.reshape(2, 3), copy=False), CELLS], [CELLS.view("i8"), CELLS],
    [np.asfortranarray(np.ones((2, 3)))] * 2, [CELLS, pd.Index(CELLS, copy=False)],
]  # fmt: skip


@pytest.mark.parametrize("value", SHARING, ids=repr)
def test_what_shares_memory_that_others_can_write_does_so_still(value: list[Any]) -> None:
    again = through(value)
    assert np.shares_memory(*map(memory_of, again[:2]))
    for one, other in zip(value, again, strict=True):
        assert memory_of(one).tolist() == memory_of(other).tolist()
        assert getattr(one, "strides", None) == getattr(other, "strides", None)


def test_a_table_in_the_memory_of_an_array_that_was_there_is_refused() -> None:
    for kept in (pd.Series(CELLS, copy=False), pd.DataFrame(CELLS.reshape(2, 3), copy=False)):
        with pytest.raises(NotPlainError):
            write_all({"x": kept}, {}, lambda each: each is CELLS)


def test_what_can_only_be_read_stays_so() -> None:
    table = pd.DataFrame({"a": [1.0, 2.0, 3.0], "b": [4.0, 5.0, 6.0]})
    cells = table.to_numpy()
    again, other, part = through([cells, table.groupby("a").get_group(1.0).b.to_numpy(), cells[1]])
    assert again.tolist() == cells.tolist()
    assert [each.flags.writeable for each in (again, other, part)] == [not copies_on_write()] * 3
    assert np.shares_memory(again, part)


def test_a_view_of_a_variable_is_one_of_that_very_memory() -> None:
    table = pd.DataFrame({"a": [1.0, 2.0], "b": [3, 4]})
    grid = np.arange(6).reshape(2, 3).copy()
    known = {"table": table, "grid": grid, "row": grid[1]}
    for value in (table["a"].to_numpy(), grid[:, 1], grid.T, grid[1, ::-1]):
        again = through(value, known)
        assert again.tolist() == value.tolist()
        assert np.shares_memory(again, value)
        assert again.flags.writeable == value.flags.writeable
    nodes, buffers = write_all({"x": grid[0]}, known, lambda each: False)
    assert read_all(nodes, buffers, known).shared == {"x", "grid"}
    with pytest.raises(NotPlainError):
        write_all({"x": grid[0]}, {}, lambda each: False, lambda owner: owner is grid)


@pytest.mark.skipif(not copies_on_write(), reason="pandas 2 gives views that can be written")
def test_no_report_makes_the_memory_of_a_table_writable() -> None:
    table = pd.DataFrame({"a": [1.0, 2.0]})
    node = ["view", ["memory", "table", 0], "<f8", [2], [8], 0, True]
    assert not read_all({"x": node}, [], {"table": table}).values["x"].flags.writeable
    with pytest.raises(NotPlainError):
        through(table._mgr.arrays[0][0], {"table": table})


@pytest.mark.skipif(not copies_on_write(), reason="pandas 2 writes both: it is refused")
def test_columns_that_share_memory_until_one_is_written_do_so_still() -> None:
    table = pd.DataFrame({"a": pd.array([1, 2], dtype="Int64"), "b": [3, 4]})
    again, *columns = through([table, table["a"], table["b"]])
    for column in columns:
        column.iloc[0] = 9
    pd.testing.assert_frame_equal(again, table)


def test_a_frequency_of_which_the_text_does_not_say_all_is_refused() -> None:
    holidays = pd.offsets.CustomBusinessDay(holidays=["2020-01-01"])
    with pytest.raises(NotPlainError):
        through(pd.date_range("2020-01-06", periods=3, freq=holidays))


@pytest.mark.parametrize("zone", [datetime.timezone(HOUR, "CET"), ZoneInfo("UTC"), tzutc()])
def test_a_zone_that_is_not_the_one_of_its_name_is_refused(zone: datetime.tzinfo) -> None:
    """Of that name, there is one with a summer time."""
    times = pd.date_range("2020-07-01", periods=2, tz=zone)
    for value in (times, pd.Series(times), pd.DataFrame({"t": times})):
        with pytest.raises(NotPlainError):
            through(value)


def test_existing_variables_and_modules_are_referred_to() -> None:
    table = TABLE
    assert through([table], {"table": table})[0] is table
    assert through({"np": np, "f": math.sqrt, "c": datetime.date}) == {
        "np": np,
        "f": math.sqrt,
        "c": datetime.date,
    }


class Own:
    """A class of the user's."""


@pytest.mark.parametrize(
    "value",
    [Own(), [Own()], lambda: 0, np.array([Own()]), pd.Series([Own()]), iter([]), np.arange(9)[:3],
     datetime.datetime(2020, 10, 25, 2, fold=1), datetime.time(1, tzinfo=ZoneInfo("Asia/Tokyo")),
     pd.Timestamp(0).replace(fold=1), defaultdict(lambda: 0), Decimal("1" * 9_999),
     np.random.Generator(np.random.MT19937(1))],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_what_is_not_plain_is_refused(value: Any) -> None:
    old = value.base if isinstance(value, np.ndarray) else None
    with pytest.raises(NotPlainError):
        write_all({"x": value}, {}, lambda each: each is old and old is not None)


HOSTILE: list[Any] = [
    None, [], ["what"], ["array", "|O8", [1], "C", 0], ["array", "<i8", [1 << 60], "C", 0],
    ["array", "<i8", [-1], "C", 0], ["array", "<i8", [1], "C", 7], ["array", "<i8", ["x"], "C", 0],
    ["scalar", "|O8", "00"], ["scalar", "<i8", "00"], ["module", "os; x"], ["variable", "nothing"],
    ["module", "antigravity"], ["member", "os", "environ"], ["member", "subprocess", "__dict__"],
    ["again", 5], ["again", -1], ["list", "text"], ["dict", [[["list", []], ["none"]]]],
    ["dict", [["none"]]], ["masked", "object", ["none"], ["none"]], ["texts", "x", "NA", []],
    ["table", [], ["range", 0, 5, 0, ["none"]], ["range", 0, 1, 1, ["none"]]], ["int", "x"],
    ["categories", ["array", "<i8", [1], "C", 0], ["range", 0, 0, 1, ["none"]], False],
    ["zoned", ["array", "<i8", [1], "C", 0], "datetime64[ns, UTC]"],
    ["zoned", ["array", "<M8[ns]", [1], "C", 0], "object"], ["float", "x" * 99],
    ["Decimal", ["plain", "1" * 9_999]], ["Decimal", ["plain", "x"]], ["PosixPath", ["int", "0x5"]],
    ["defaultdict", ["member", "os", "abort"], ["tuple", []]], ["Counter", ["plain", "ab"]],
    ["Fraction", ["int", "0x1"], ["int", "0x0"]], ["Fraction", ["plain", "1e9"], ["plain", None]],
    ["Fraction", ["int", "0x1"], ["plain", None]],
    ["range", ["int", "0x1"], ["int", "0x1"], ["int", "0x0"]], ["missing", "os", "environ"],
    ["generator", ["dict", []], ["int", "0x1"], ["tuple", []], ["int", "0x0"]],
    ["periods", ["array", "<f8", [1], "C", 0], ["plain", "period[M]"]],
    ["missing", "os"], ["missing", "00"], ["date", "x"], ["pattern", "(", 0], ["pattern", "a", "b"],
    ["time", ["plain", "now"]],
    ["intervals", ["plain", 1], ["plain", 2], ["plain", "left"], ["list", [["plain", None]]]],
    *(["view", ["array", "<i8", [1], "C", 0], *view] for view in (
        ["<i8", [1], [8], 1, True], ["<i8", [1], [8], -8, True], ["<i8", [2], [8], 0, True],
        ["<i8", [2], [-8], 0, True], ["<i8", [1 << 60], [0], 0, True], ["|O", [1], [8], 0, True],
        ["<i8", [1 << 62, 0], [0, 0], 0, True], ["<i8", [-1], [8], 0, True], ["<i8", [1], [8]],
        ["<i8", [1], ["x"], 0, True], ["<i8", [1], [8], "0", True],
        ["<U0", [1 << 60], [0], 0, True], ["|S0", [1 << 28], [0], 0, True],
    )),
    ["view", ["plain", "abc"], "<i8", [1], [8], 0, True],
    ["view", ["memory", "nothing", 0], "<i8", [1], [8], 0, True],
    ["part", "nothing", 0], *(["part", "own", *steps] for steps in ([9], ["a"], [0, 0], [0.5])),
    ["column", ["tuple", [["plain", "objects"], ["list", [["part", "own", 1]]]]],
     ["row numbers", *[["int", f"0x{n}"] for n in (0, 1, 1)], ["list", [["plain", None]]]],
     ["plain", None]],
]  # fmt: skip


@pytest.mark.parametrize("node", HOSTILE, ids=str)
def test_a_hostile_report_makes_no_object(node: Any) -> None:
    before = set(sys.modules)
    with pytest.raises(NotPlainError):
        read_all({"x": node}, [memoryview(b"\xff" * 8)], {"own": {"a": 1, "b": Hashed()}})
    assert set(sys.modules) == before


def test_endless_nesting_is_refused() -> None:
    node: list[Any] = ["none"]
    for _ in range(5_000):
        node = ["list", [node]]
    with pytest.raises(NotPlainError):
        read_all({"x": node}, [], {})


def test_a_generator_of_random_numbers_goes_on_where_it_was() -> None:
    given = np.random.default_rng(7)
    given.random(5)
    again = through(given)
    assert again.random(3).tolist() == given.random(3).tolist()
    assert again.spawn(1)[0].random() == given.spawn(1)[0].random()


def test_what_holds_a_variable_holds_that_very_variable() -> None:
    holders = [deque([TABLE]), OrderedDict(a=TABLE), defaultdict(list, a=TABLE), Counter(a=TABLE)]
    first, *others = through(holders, {"table": TABLE})
    assert first[0] is TABLE
    assert all(each["a"] is TABLE for each in others)


def test_who_holds_a_part_of_whom_is_known() -> None:
    inner, nan = [1], float("nan")
    values = {"outer": [inner], "inner": inner, "other": [TABLE], "own": [[2], nan], "too": [nan]}
    nodes, buffers = write_all(values, {"table": TABLE}, lambda each: False)
    found = read_all(nodes, buffers, {"table": TABLE})
    assert found.shared == {"outer", "inner", "other", "table"}


@pytest.mark.parametrize("dtype", ["str", "object", "string"])
def test_a_table_of_many_texts_is_plain_data(dtype: str) -> None:
    cells = ["a", "", "größe", "\N{GRINNING FACE}\udc80", None] if dtype == "object" else ["a", "é"]
    table = pd.DataFrame(
        {"a": pd.Series(cells * 40_000, dtype=dtype), "b": range(len(cells) * 40_000)}
    )
    again = through(table)
    pd.testing.assert_frame_equal(again, table, check_exact=True)
    assert again.a.dtype == table.a.dtype


@pytest.mark.parametrize(
    ("lengths", "text"), [([2], b"a"), ([1], b"ab"), ([2, -1], b"\xff"), ([-9, 1], b"ab")]
)
def test_texts_whose_lengths_are_wrong_are_refused(lengths: list[int], text: bytes) -> None:
    packed = np.array(lengths, "i4")
    cells = ["tuple", [["plain", "strings"], ["bytes", 0], ["bytes", 1]]]
    names = ["list", [["plain", None]]]
    index = ["index", cells, names, ["plain", None]]
    with pytest.raises(NotPlainError):
        read_all({"x": index}, [memoryview(packed.tobytes()), memoryview(text)], {})


NONE, ONE = ["plain", None], ["int", "0x1"]
ENDLESS = ["range", ["int", "0x0"], ["int", "0x2540be400"], ONE]
DOUBLED = [["tuple", [ONE]], *(["tuple", [["again", n + 1]] * 2] for n in range(60))]
BYTES = ["array", "|u1", [8], "C", 0]
COSTLY: list[Any] = [
    ["list", [BYTES, BYTES]], ["list", [["bytes", 0], ["bytes", 0]]], ["deque", ENDLESS, NONE],
    ["Fraction", BYTES, ONE], ["list", [*DOUBLED, ["dict", [[["again", 61], NONE]]]]],
    ["list", [*DOUBLED, ["column", BYTES, BYTES, ["again", 61]]]],
    ["set", [["int", hex(n * (2**61 - 1))] for n in range(9_999)]],
    ["dict", [[["int", hex(n * (2**61 - 1))], NONE] for n in range(9_999)]],
    ["generator", ["dict", []], ENDLESS, ["tuple", []], ONE],
]  # fmt: skip


@pytest.mark.parametrize("node", COSTLY, ids=lambda node: str(node)[:60])
def test_a_report_that_would_take_much_time_or_memory_is_refused(node: Any) -> None:
    with pytest.raises(NotPlainError):
        read_all({"x": node}, [memoryview(b"\xff" * 8)], {})


@pytest.mark.parametrize(
    "node",
    [
        ["deque", ["variable", "given"], NONE],
        ["OrderedDict", ["variable", "given"]],
        ["Counter", ["tuple", [["variable", "given"]]]],
        ["defaultdict", NONE, ["variable", "given"]],
        ["generator", ["dict", []], ["list", [["variable", "given"]]], ["tuple", []], ONE],
        ["generator", ["dict", []], ONE, ["variable", "given"], ONE],
    ],
    ids=str,
)
def test_no_report_makes_the_reader_use_up_what_is_there(node: Any) -> None:
    given = iter([1, 2])
    with pytest.raises(NotPlainError):
        read_all({"x": node}, [], {"given": given})
    assert [*given] == [1, 2]


def test_what_the_notebook_defines_is_referred_to_by_its_variable_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A function that code defines anew is not the one of that name which is there."""
    exec("def mean(numbers): return 0", vars(sys.modules["__main__"]))
    function = vars(sys.modules["__main__"]).pop("mean")
    monkeypatch.setitem(vars(sys.modules["__main__"]), "mean", function)
    assert through([function], {"mean": function}) == [function]
    with pytest.raises(NotPlainError):
        through(function)


class Hashed:
    """Its hash is code of the user's."""

    asked = 0

    def __hash__(self) -> int:
        Hashed.asked += 1
        return 1


@pytest.mark.parametrize(
    "node",
    [
        ["dict", [[["variable", "own"], ["plain", None]]]],
        ["set", [["variable", "own"]]],
        ["set", [["tuple", [["variable", "own"]]]]],
        ["Counter", ["tuple", [["tuple", [["variable", "own"], ["int", "0x1"]]]]]],
    ],
)
def test_no_key_of_a_report_runs_code_of_the_users(node: Any) -> None:
    with pytest.raises(NotPlainError):
        read_all({"x": node}, [], {"own": Hashed()})
    assert Hashed.asked == 0
