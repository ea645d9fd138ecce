from __future__ import annotations

import collections
import datetime as dt
import io
import os
import pathlib
import sys
import tracemalloc
import types
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from pandas.api.extensions import ExtensionArray, ExtensionDtype

from describing import line
from ipyagent.kernel.namespace import Namespace, digest
from ipyagent.redaction import HIDDEN
from ipyagent.values.describe import describe
from ipyagent.values.describe.libraries import table_of
from ipyagent.values.describe.table import COLUMNS

PENGUINS = pd.DataFrame(
    {"species": ["Adelie", "Gentoo", None], "mass": [3750.0, None, 5000.0], "year": [2007] * 3}
)
TEXT = str(PENGUINS["species"].dtype)
"""How this pandas calls a column of text: `str`, or before pandas 3 `object`."""


# Lines --------------------------------------------------------------------------------------------


def test_a_table_in_a_line():
    text = digest({"penguins": PENGUINS})
    columns = f"species: {TEXT}, mass: float64, year: int64"
    assert text == f"- penguins: DataFrame, 3 rows × 3 columns ({columns})"


def test_column_names_that_could_be_misread_are_quoted():
    columns = ["a, b", "c: d", "e (f)", " g", "", "h\ni", "ok one", 3, ("m", "n"), "x\u202ey"]
    columns += ["'q'", "two  blanks"]
    text = line(pd.DataFrame([range(len(columns))], columns=pd.Index(columns, dtype=object)))
    assert "('a, b': int64, 'c: d': int64, 'e (f)': int64, ' g': int64, '': int64" in text
    assert "'h\\ni': int64, ok one: int64, 3: int64, ('m', 'n'): int64, x⟨U+202E⟩y: int64" in text
    assert text.endswith("\"'q'\": int64, two  blanks: int64)")


POLARS = pl.DataFrame({"a": [1, None], "b": ["x", "y"]})


def clean(frame: object, *rest: int, by: str = "x", **more: object) -> None:
    """Clean the frame.

    Thoroughly.
    """


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (POLARS, "DataFrame, 2 rows × 2 columns (a: Int64, b: String) [polars]"),
        (clean, "function(frame, *rest, by='x', **more): Clean the frame."),
        (3, "int = 3"),
        (True, "bool = True"),
        (None, "NoneType = None"),
        (2.5, "float = 2.5"),
        (10**5000, "int = <int of 16,610 bits>"),
        ("a\nb", r"str = 'a\nb'"),
        ("x" * 500, f"str, 500 characters = '{'x' * 79}…'"),
        (b"ab", "bytes = b'ab'"),
        ([1, 2], "list, 2 items (int) = [1, 2]"),
        (list(range(9)), "list, 9 items (int) = [0, 1, 2, 3, 4, …]"),
        ([[1, [2, [3]]]], "list, 1 item (list) = [[1, […]]]"),
        ((1, "a"), "tuple, 2 items (int, str) = (1, 'a')"),
        ({"a": {"b": {"c": 1}}}, "dict, 1 item = {'a': {'b': {…}}}"),
        ({1}, "set, 1 item (int) = {1}"),
        ([], "list, 0 items = []"),
        (collections.deque([1]), "deque, 1 item (int) = [1]"),
        (collections.Counter("aab"), "Counter, 2 items = {'a': 2, 'b': 1}"),
        (range(5), "range = range(0, 5)"),
        (pathlib.PurePosixPath("/a"), "PurePosixPath = PurePosixPath('/a')"),
        (dt.date(2020, 1, 2), "date = datetime.date(2020, 1, 2)"),
        (dt.datetime(2020, 1, 2, tzinfo=dt.UTC), "datetime = 2020-01-02 00:00:00+00:00"),
        (pd.Timestamp("2020-01-02", tz="UTC"), "Timestamp = 2020-01-02 00:00:00+00:00"),
        (pd.NaT, "NaTType = NaT"),
        (pd.NA, "NAType = <NA>"),
        (np.float64(2.5), "float64 = 2.5"),
        (np.zeros((3, 4)), "ndarray, shape (3, 4), float64"),
        (pd.Series([1, 2], name="s"), "Series, 2 rows (int64)"),
        (pd.RangeIndex(9), "RangeIndex, 9 entries (int64): [0, 1, 2, 3, 4, …]"),
        (pl.Series("s", [1]), "Series, 1 rows (Int64) [polars]"),
        (ValueError("bad"), "ValueError = ValueError('bad')"),
        (collections.OrderedDict, "class OrderedDict (collections): Dictionary that remembers i"),
        (np, "module numpy"),
        (len, "builtin_function_or_method = <function len>"),
        (types.SimpleNamespace(a=1, _b=2), "SimpleNamespace (types), attributes: a"),
        (io.StringIO(), "StringIO (_io)"),
    ],
    ids=lambda v: type(v).__name__ if not isinstance(v, str) else None,
)
def test_values_in_a_line(value: object, text: str):
    assert line(value).startswith(text)
    assert "\n" not in line(value)
    assert describe("x", value, detail=True)


def test_a_file_in_a_line(tmp_path: pathlib.Path):
    path = tmp_path / "f.txt"
    with path.open("w") as file:
        assert line(file) == f"TextIOWrapper, {str(path)!r}, open, mode wb"
    assert line(file).endswith("closed")


def test_generators_and_lazy_tables_are_not_consumed():
    collected = []

    def collect(frame: pl.DataFrame) -> pl.DataFrame:
        collected.append(frame)
        return frame

    numbers = iter(range(3))
    lazy = pl.LazyFrame({"a": [1]}).map_batches(collect)
    generator = (n for n in numbers)
    assert line(generator) == "generator <genexpr>, not consumed"
    assert line(lazy).endswith("not computed [polars]")
    for value in (numbers, map(str, numbers), lazy, generator):
        describe("x", value, detail=True)
    assert next(numbers) == 0
    assert collected == []


# Detail -------------------------------------------------------------------------------------------


def test_a_table_in_detail():
    # Values of a column of objects are not compared: that would run the user's own code.
    distinct, missing = ("-", "None") if TEXT == "object" else ("2", "nan")
    assert describe("penguins", PENGUINS, detail=True).splitlines() == [
        "penguins: DataFrame, 3 rows × 3 columns",
        f"memory: {PENGUINS.memory_usage().sum()} B",
        "",
        "column   dtype    nulls  unique  values",
        f"species  {TEXT:7}  1      {distinct}       Adelie, Gentoo",
        "mass     float64  1      2       3750.0 to 5000.0",
        "year     int64    0      1       2007",
        "",
        "first 3 rows:",
        "species,mass,year",
        "Adelie,3750.0,2007",
        "Gentoo,nan,2007",
        f"{missing},5000.0,2007",
    ]


def test_a_polars_table_in_detail():
    lines = describe("p", POLARS, detail=True).splitlines()
    assert lines[0] == "p: DataFrame, 2 rows × 2 columns [polars]"
    assert lines[4:6] == [
        "a       Int64   1      2       1",
        "b       String  0      2       x, y",
    ]


def test_of_a_large_table_some_rows_are_read():
    large = pd.DataFrame({"a": np.arange(5_000_001), "b": np.nan})
    lines = describe("large", large, detail=True).splitlines()
    assert "values and nulls: from 9,999 of these rows" in lines
    assert lines[5].split()[2:] == ["0", "of", "9,999", "-", "0", "to", "5000000"]
    assert lines[6].split()[2:5] == ["9,999", "of", "9,999"]
    assert "first 5 rows and the last one:" in lines


def test_a_series_in_detail():
    text = describe("s", pd.Series([1.0, None], name="mass"), detail=True)
    assert text.startswith("s: Series, 2 rows\nmemory: ")
    assert "mass    float64  1      1       1.0" in text


def test_an_array_in_detail():
    text = describe("a", np.array([[1.0, 5.0]]), detail=True)
    assert text == "a: ndarray, shape (1, 2), float64\nmin 1.0, max 5.0\nfirst values: 1.0, 5.0"


def test_escapes_in_values_are_removed():
    assert describe("x", "\x1b]0;evil\x07" + "y" * 100, detail=True).endswith("\n" + "y" * 100)


# Safety -------------------------------------------------------------------------------------------

TOUCHED: list[str] = []


def trap(name: str) -> Any:
    def touched(*args: object, **kwargs: object) -> object:
        TOUCHED.append(name)
        raise RuntimeError(name)

    return touched


DUNDERS = """
repr str len eq ne hash bool iter next getitem contains getattribute getattr dir format bytes int
float index call reduce reduce_ex sizeof lt gt copy deepcopy enter array array_interface dataframe
fspath reversed missing length_hint buffer class_getitem subclasshook instancecheck
"""


class TrappedMeta(type):
    for _name in [
        "repr",
        "str",
        "hash",
        "eq",
        "len",
        "getattribute",
        "iter",
        "instancecheck",
        "subclasscheck",
    ]:
        locals()[f"__{_name}__"] = trap(f"metaclass {_name}")


def trapped_class(*bases: type, more: dict[str, Any] | None = None, meta: type = type) -> type:
    body: dict[str, Any] = {f"__{name}__": trap(name) for name in DUNDERS.split()}
    body |= {name: property(trap(name)) for name in ("__class__", "shape", "dtype", "columns")}
    body |= {name: property(trap(name)) for name in ("index", "name", "values", "size", "empty")}
    return meta("Trapped", bases, body | (more or {}))


@pytest.fixture(autouse=True)
def nothing_touched() -> Iterator[None]:
    TOUCHED.clear()
    yield
    assert TOUCHED == []


def describe_x(value: object) -> str:
    every = [
        describe("x", value, detail=False),
        describe("x", value, detail=True),
        digest({"x": value, "items": [value, (value,)], "map": {"k": value}, "set": 1}),
    ]
    assert TOUCHED == []
    return every[0]


def test_the_traps_catch_ordinary_inspection():
    value = trapped_class()()
    asks = (lambda v: v.anything, lambda v: isinstance(v, int))
    for use in (repr, str, len, hash, bool, iter, *asks):
        TOUCHED.clear()
        with pytest.raises(RuntimeError):
            use(value)
        assert TOUCHED
    TOUCHED.clear()


@pytest.mark.spec("A54")
def test_an_object_of_a_users_class_is_described_without_running_its_code():
    value = object.__new__(trapped_class())
    object.__setattr__(value, "weight", trap("value"))
    assert describe_x(value) == "x: Trapped (test_namespace), attributes: weight"


def test_slots_are_listed_but_not_read():
    value = object.__new__(trapped_class(more={"__slots__": ("left", "right")}))
    assert describe_x(value) == "x: Trapped (test_namespace), attributes: left, right"


def test_a_class_with_a_trapped_metaclass_is_described_without_running_its_code():
    cls = trapped_class(meta=TrappedMeta)
    assert describe_x(object.__new__(cls)).startswith("x: Trapped")
    assert describe_x(cls).startswith("x: class Trapped")


def test_a_hidden_instance_dictionary_is_left_alone():
    value = object.__new__(trapped_class(more={"__dict__": property(trap("__dict__"))}))
    assert describe_x(value) == "x: Trapped (test_namespace)"


@pytest.mark.parametrize(
    ("base", "make", "text"),
    [
        (str, lambda c: str.__new__(c, "abc"), "Trapped = 'abc'"),
        (int, lambda c: int.__new__(c, 7), "Trapped = 7"),
        (float, lambda c: float.__new__(c, 7), "Trapped"),
        (bytes, lambda c: bytes.__new__(c, b"ab"), "Trapped = b'ab'"),
        (bytearray, lambda c: bytearray.__new__(c), "Trapped = b''"),
        (list, lambda c: list.__new__(c), "Trapped, 0 items = []"),
        (tuple, lambda c: tuple.__new__(c, (1, 2)), "Trapped, 2 items (int) = (1, 2)"),
        (dict, lambda c: dict.__new__(c), "Trapped, 0 items = {}"),
        (set, lambda c: set.__new__(c), "Trapped, 0 items = set()"),
        (collections.deque, lambda c: collections.deque.__new__(c), "Trapped, 0 items = []"),
        (ValueError, lambda c: ValueError.__new__(c, "bad"), "Trapped = Trapped('bad')"),
        (types.ModuleType, lambda c: types.ModuleType.__new__(c, "m"), "module "),
        (dt.datetime, lambda c: dt.datetime.__new__(c, 2020, 1, 1), "Trapped"),
        (dt.date, lambda c: dt.date.__new__(c, 2020, 1, 1), "Trapped"),
    ],
    ids=lambda v: v.__name__ if isinstance(v, type) else None,
)
def test_subclasses_of_built_in_types_are_read_with_the_types_own_methods(
    base: type, make: Any, text: str
):
    assert describe_x(make(trapped_class(base))).startswith(f"x: {text}".replace("set()", "{}"))


def count_calls(monkeypatch: pytest.MonkeyPatch, cls: type, name: str) -> list[None]:
    """Return a list that grows by one with each call of a method that belongs to a library."""
    calls: list[None] = []
    method = getattr(cls, name)

    def counted(self: Any, *args: Any, **kwargs: Any) -> Any:
        calls.append(None)
        return method(self, *args, **kwargs)

    monkeypatch.setattr(cls, name, counted)
    return calls


def wide_frame(columns: int) -> pd.DataFrame:
    return pd.DataFrame({f"c{n}": ["a", "b"] if n % 3 else [n, 1.5] for n in range(columns)})


def test_columns_that_are_not_shown_are_not_looked_at(monkeypatch: pytest.MonkeyPatch):
    frame = wide_frame(1_000)
    calls = count_calls(monkeypatch, pd.Series, "memory_usage")
    frame.memory_usage()
    assert len(calls) == 1_000, "what pandas offers looks at each column"
    calls.clear()
    taken = count_calls(monkeypatch, pd.DataFrame, "_ixs")
    nulls = count_calls(monkeypatch, pd.Series, "isna")
    assert "c99 " in describe("x", frame, detail=True)
    assert not calls
    assert not nulls, "they are counted in all columns at once"
    assert 0 < len(taken) < 2 * COLUMNS


def test_a_line_reads_no_column_of_a_wide_table(monkeypatch: pytest.MonkeyPatch):
    frame = wide_frame(300)
    taken = count_calls(monkeypatch, pd.DataFrame, "_ixs")
    assert line(frame).startswith("DataFrame, 2 rows × 300 columns (c0: float64, c1: ")
    assert line(frame).endswith(", … 270 more)")
    assert not taken


def test_the_types_of_a_wide_polars_table_are_not_all_named(monkeypatch: pytest.MonkeyPatch):
    frame = pl.DataFrame({f"c{n}": [n] for n in range(300)})
    schemas: list[int] = []
    taken = pl.DataFrame.schema.fget

    def schema(self: pl.DataFrame) -> Any:
        schemas.append(self.width)
        return taken(self)

    monkeypatch.setattr(pl.DataFrame, "schema", property(schema))
    assert "… 200 more" in describe("x", frame, detail=True)
    assert all(width <= COLUMNS for width in schemas)
    assert frame.schema
    assert schemas[-1] == 300, "the whole one names them all"


@pytest.mark.parametrize("names", ["i", "iu", "fiob", "sc", "fiobuscdtnp"])
def test_the_memory_of_a_frame_is_what_pandas_says(names: str):
    columns = {
        "i": pd.Series([1, 2, 3]),
        "u": pd.Series([1, 2, 3], dtype="uint8"),
        "f": pd.Series([1.5, None, 3]),
        "o": pd.Series([1, "a", None], dtype=object),
        "b": pd.Series([True, False, True]),
        "s": pd.Series(["a", "b", None]),
        "c": pd.Series([10, 20, 20], dtype="Int64"),
        "d": pd.Series(pd.to_datetime(["2020-01-01"] * 3)),
        "t": pd.Series(pd.to_datetime(["2020-01-01"] * 3)).dt.tz_localize("UTC"),
        "n": pd.Series([True, None, False], dtype="boolean"),
        "p": pd.Series(pd.period_range("2020-01", periods=3, freq="M")),
    }
    frame = pd.DataFrame({name: columns[name] for name in names})
    table = table_of(frame)
    assert table.memory() == frame.memory_usage().sum()
    whole = table_of(frame[list(frame.columns[::2])])
    assert whole.memory() == frame[list(frame.columns[::2])].memory_usage().sum()


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_ends_and_few_values_of_columns_are_described(library: str) -> None:
    data: dict[str, list[Any]] = {
        "number": [3, 1, None, 2],
        "day": [dt.datetime(2024, 2, n) for n in (3, 1, 4, 2)],
        "few": ["a", "b", "a", None],
        "many": [f"x{n}" for n in range(4)],
        "none": [None] * 4,
    }
    if library == "pandas":
        frame = pd.DataFrame(data).astype({"number": "Int64", "few": "category", "none": float})
    else:
        frame = pl.DataFrame(data)
    rows = describe("t", frame, detail=True).split("\n\n")[1].splitlines()
    assert rows[0].endswith("values")
    assert [row.rpartition("  ")[2] for row in rows[1:5]] == [
        "1 to 3",
        "2024-02-01 00:00:00 to 2024-02-04 00:00:00",
        "a, b",
        "x0, x1, x2, x3",
    ]
    assert "to" not in rows[5].split()


def test_levels_of_column_labels_are_named() -> None:
    columns = pd.MultiIndex.from_product([["mass"], ["mean", "max"]], names=["of", None])
    detail = describe("t", pd.DataFrame([[1, 2]], columns=columns), detail=True)
    assert "levels of the columns: of, (no name)" in detail.splitlines()


def test_columns_of_one_name_are_described_each_by_its_own_values():
    frame = pd.DataFrame([[1, True, None], [2, True, 2.5]], columns=["x", "x", "x"])
    rows = describe("t", frame, detail=True).split("\n\n")[1].splitlines()[1:]
    assert [row.split()[2:] for row in rows] == [
        ["0", "2", "1", "to", "2"],
        ["0", "1", "True"],
        ["1", "1", "2.5"],
    ]


def test_a_frame_of_a_users_class_is_read_with_pandas_own_methods():
    names = "shape dtypes columns index head isna iloc memory_usage __len__ __repr__ _constructor"
    body = {name: property(trap(name)) for name in [*names.split(), "_constructor_sliced", "T"]}
    body |= {"__len__": trap("__len__"), "__repr__": trap("__repr__"), "__iter__": trap("__iter__")}
    cls = type("Mine", (pd.DataFrame,), body | {"__array__": trap("__array__")})
    plain = pd.DataFrame({"a": [1, 2]})
    value = object.__new__(cls)
    for name, attribute in vars(plain).items():
        object.__setattr__(value, name, attribute)
    assert describe_x(value) == "x: DataFrame, 2 rows × 1 columns (a: int64)"


def test_a_frame_that_guards_its_data_is_described_by_its_type_only():
    cls = type("Guarded", (pd.DataFrame,), {"__getattribute__": trap("__getattribute__")})
    assert describe_x(object.__new__(cls)).startswith("x: Guarded")


def test_no_code_of_foreign_cells_labels_and_dtypes_is_run():
    cells = np.empty(1, dtype=object)
    cells[0] = object.__new__(trapped_class())
    frame = pd.DataFrame({"o": pd.Series(cells, dtype=object, copy=False)})
    assert describe_x(frame) == "x: DataFrame, 1 rows × 1 columns (o: object)"
    assert "<Trapped>" in describe("x", frame, detail=True)
    assert describe_x(cells) == "x: ndarray, shape (1,), object"


class Remote(ExtensionArray):
    """A column whose cells are far away: everything but its length and type is trapped."""

    _dtype = type(
        "RemoteDtype",
        (ExtensionDtype,),
        {"name": "remote", "type": object, "construct_array_type": classmethod(lambda c: Remote)},
    )()
    dtype = property(lambda self: self._dtype)
    nbytes = 0
    ndim = 1

    def __len__(self) -> int:
        return 10_000_000

    def copy(self) -> Remote:
        return self

    def view(self, dtype: object = None) -> Remote:
        return self

    for _name in [
        "__getitem__",
        "isna",
        "take",
        "__iter__",
        "to_numpy",
        "unique",
        "_from_sequence",
    ]:
        locals()[_name] = trap(f"cells by {_name}")


@pytest.mark.spec("A54")
def test_no_cell_is_read_for_a_line_and_none_of_foreign_storage_for_detail():
    frame = pd.DataFrame({"far": pd.Series(Remote(), copy=False)}, copy=False)
    assert describe_x(frame) == "x: DataFrame, 10,000,000 rows × 1 columns (far: RemoteDtype)"


# Size ---------------------------------------------------------------------------------------------


def test_ten_million_rows_are_described_without_copying():
    frame = pd.DataFrame({f"c{i}": np.zeros(10_000_000, dtype="int8") for i in range(3)})
    digest({"warm": frame})
    tracemalloc.start()
    try:
        text = digest({"big": frame})
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert text.startswith("- big: DataFrame, 10,000,000 rows × 3 columns")
    assert peak < 1_000_000


def test_ten_thousand_variables_cost_a_look_at_each_and_a_line_for_the_first(
    monkeypatch: pytest.MonkeyPatch,
):
    calls = collections.Counter[str]()
    from ipyagent.kernel import namespace as room

    for name in ("summarize", "is_table"):
        original = getattr(room, name)

        def counted(*args: Any, _name: str = name, _original: Any = original, **more: Any) -> Any:
            calls[_name] += 1
            return _original(*args, **more)

        monkeypatch.setattr(room, name, counted)
    text = digest({f"v{i}": i for i in range(10_000)})
    assert len(text.splitlines()) == 101
    assert text.endswith("… and 9,900 more variables")
    assert calls == {"summarize": 100, "is_table": 1}


def test_nothing_is_imported_to_describe(monkeypatch: pytest.MonkeyPatch):
    for name in ("pandas", "polars", "numpy"):
        monkeypatch.delitem(sys.modules, name)
    text = digest({"frame": PENGUINS, "x": 1})
    assert "- x: int = 1" in text
    assert "- frame: DataFrame (pandas" in text
    assert not {"pandas", "polars", "numpy"} & set(sys.modules)


# The digest ---------------------------------------------------------------------------------------


def test_tables_come_first_then_data_then_code_then_modules():
    def f() -> None: ...

    text = digest({"os": os, "f": f, "old": 1, "frame": PENGUINS, "new": 2, "np": np})
    assert [entry.partition(":")[0] for entry in text.splitlines()] == [
        "- frame",
        "- new",
        "- old",
        "- f",
        "- modules",
    ]
    assert text.endswith("- modules: np (numpy), os")


def test_private_names_are_left_out():
    names = {"_": 1, "_1": 2, "__x": 3, "shown": 4, 5: 6}
    assert digest(names) == "- shown: int = 4"


def test_a_scripts_public_variables():
    assert Namespace({"a": 1, "_b": 2, "__name__": "m"}).variables() == {"a": 1}


# Secrets ------------------------------------------------------------------------------------------


@pytest.mark.spec("A54")
@pytest.mark.parametrize(
    "name",
    ["PASSWORD", "db_passwd", "client_secret", "hf_token", "apiKey", "credentials"],
)
def test_the_value_of_a_variable_named_like_a_secret_is_hidden(name: str):
    for value in ("hunter2", b"hunter2", ["hunter2"], {"a": "hunter2"}, pd.Series(["hunter2"])):
        for detail in (False, True):
            assert "hunter2" not in describe(name, value, detail=detail)
    assert HIDDEN in describe(name, "hunter2", detail=False)


@pytest.mark.spec("A54")
@pytest.mark.parametrize("name", ["token", "key", "keys", "tokens", "license_key", "secret_santa"])
def test_values_of_ambiguous_names_are_hidden_unless_they_are_words(name: str):
    key = "hunter2-Xy9q"
    for value in (key, key.encode(), [key], {"a": key}, pd.Series([key]), {"password": key}):
        for detail in (False, True):
            assert key not in describe(name, value, detail=detail)
    assert key not in describe("x", pd.DataFrame({name: [key]}), detail=True)
    assert "hunter2" not in describe(name, {"password": "hunter2"}, detail=True)


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("tokens", ["the", "cat"], "['the', 'cat']"),
        ("sort_key", "date", "'date'"),
        ("pad_token", "<pad>", "'<pad>'"),
        ("key", "customer_id_2", "'customer_id_2'"),
        ("primary_key", "0a1b2c3d4e5f", "'0a1b2c3d4e5f'"),
        ("password_length", 12, "12"),
        ("passwords", {"count": 3}, "{'count': 3}"),
    ],
)
def test_ordinary_values_are_shown_under_names_that_sound_like_secrets(
    name: str, value: object, shown: str
):
    assert describe(name, value, detail=False).endswith(f"= {shown}")


@pytest.mark.parametrize("library", [pd, pl])
def test_ordinary_columns_are_shown(library: Any):
    columns = {
        "token_count": [712], "n_tokens": [713], "password_length": [714], "key": ["k-1"],
        "token": ["cat"], "primary_key": ["0a1b2c3d4e"], "foreign_key_id": ["c7f1e0d9a8"],
        "merge_keys": ["region1"], "secret_santa": ["Bob"], "key_2": [7.5], "password": ["hunter2"],
    }  # fmt: skip
    row = describe("x", library.DataFrame(columns), detail=True).splitlines()[-1]
    assert row == f"712,713,714,k-1,cat,0a1b2c3d4e,c7f1e0d9a8,region1,Bob,7.5,{HIDDEN}"


KEYS = [
    "sk-ant-api03-" + "Ab1_" * 8,
    "AKIAIOSFODNN7EXAMPLE",
    "-----BEGIN RSA PRIVATE KEY-----\nMIIE",
    "Authorization: Bearer abcdefghijklmnopqrstu",
    "postgres://user:hunter2@host/db",
]


@pytest.mark.spec("A54")
@pytest.mark.parametrize("key", KEYS)
def test_a_value_that_looks_like_a_key_is_hidden_wherever_it_is(key: str):
    frame = pd.DataFrame({"a": [key]})
    for value in (key, key.encode(), [key], {"a": [key]}, frame, frame["a"], ValueError(key)):
        for detail in (False, True):
            assert key[:24] not in describe("x", value, detail=detail)
