"""What is different in a variable, in a line."""

from __future__ import annotations

import dataclasses
from collections import deque
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse

from ipyagent.kernel.namespace import Namespace
from ipyagent.schema import VariableChange
from ipyagent.values.variables.checkpoint import TOO_MANY

PANDAS_3 = pd.__version__ >= "3"


def changes_of(code: str, **variables: Any) -> dict[str, VariableChange]:
    result = Namespace({"pd": pd, "np": np, "pl": pl, **variables}).run(code)
    assert result.success, result.error
    return {each.name: each for each in result.variables}


def summary_of(code: str, **variables: Any) -> str:
    found = changes_of(code, objects=pl.DataFrame({"o": [object()]}), **variables)
    return " | ".join(each.summary for each in found.values()) if found else "no change"


def birds() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "mass": np.arange(344),
            "depth": 1.5,
            "sex": "male",
            "island": pd.Categorical(["Biscoe", "Dream"] * 172),
            "seen": pd.Series([pd.Timestamp("2020-01-01", tz="UTC")] * 344).dt.as_unit("ns"),
            "eggs": pd.array([1, None] * 172, dtype="Int64"),
            "years": pd.interval_range(0, 344),
        }
    )


PANDAS = [
    ("df['ratio'] = 1.5", "344 × 7 → 344 × 8 · + ratio (float64)"),
    ("df.loc[df.mass < 12, 'depth'] = 3", "depth: 12 values changed"),
    ("df.loc[3, 'sex'] = 'female'", "sex: 1 value changed"),
    ("df.loc[3, 'island'] = 'Biscoe'", "island: 1 value changed"),
    ("df.loc[0, 'eggs'] = 7", "eggs: 1 value changed"),
    ("df.loc[0, 'eggs'] = None", "eggs: 1 value changed"),
    ("df.loc[0, 'eggs'] = 1", "no change"),
    ("df.loc[0, 'depth'] = None", "depth: 1 value changed"),
    ("df['seen'] = df['seen'] + pd.Timedelta('1D')", "seen: 344 values changed"),
    ("df['years'] = df['years'][::-1].array", "years: 344 values changed"),
    ("df = df.dropna()", "344 × 7 → 172 × 7 · 172 rows dropped"),
    ("df = df[df.mass > 10]", "344 × 7 → 333 × 7 · 11 rows dropped"),
    ("df = pd.concat([df, df])", "344 × 7 → 688 × 7 · 344 rows added"),
    ("df = df.sort_values('mass', ascending=False)", "rows reordered"),
    ("df = df.drop(columns='sex')", "344 × 7 → 344 × 6 · - sex"),
    (
        "df = df.rename(columns={'mass': 'body'})",
        "mass renamed body" if PANDAS_3 else "+ body (int64) · - mass",
    ),
    ("df.index.name = 'bird'", "names of the labels changed"),
    ("df.index = df.index + 1", "other row labels"),
    ("df.index = df.index[::-1]", "other row labels"),
    (
        "df = df.set_index([df.index + 1, 'sex'])",
        "344 × 7 → 344 × 6 · - sex · names of the labels changed · other row labels",
    ),
    ("df['mass'] = df['mass'].astype(float)", "mass: int64 → float64"),
    ("df = df[list(df)[1:] + ['mass']]", "columns reordered"),
    ("df['island'] = df['island'].cat.rename_categories(['A', 'B'])", "island: values changed"),
    (
        "df['ratio'] = 1.0; df.loc[df.mass < 12, 'mass'] = -1; df = df.drop(index=[0, 1])",
        "344 × 7 → 342 × 8 · + ratio (float64) · mass: 10 values changed · 2 rows dropped",
    ),
    ("df = df.copy()", ""),
    ("df.head(); df.describe(); df.sort_values('mass')", "no change"),
    ("df = df['mass']", "DataFrame → Series"),
    ("df = 5", "DataFrame → int"),
]

POLARS = [
    ("p = p.with_columns(z=pl.col('a') * 2)", "3 × 2 → 3 × 3 · + z (Int64)"),
    ("p[0, 'a'] = 5", "a: 1 value changed"),
    ("p = p.head(1)", "3 × 2 → 1 × 2 · 2 rows dropped"),
    ("p = p.drop('b')", "3 × 2 → 3 × 1 · - b"),
    ("p.insert_column(0, pl.Series('c', [1, 2, 3]))", "3 × 2 → 3 × 3 · + c (Int64)"),
    ("p = p.clone()", ""),
    ("p.sort('a')", "no change"),
    ("objects", "no change"),
]


@dataclass
class Settings:
    rate: float
    steps: list[int]


VALUES: list[tuple[Any, str, str]] = [
    (10, "x = 12", "10 → 12"),
    ("a", "x = 'b'", "'a' → 'b'"),
    (1.5, "x = 'b'", "float → str"),
    ([1, 2], "x.append(3)", "2 → 3 items"),
    ([1, 2], "x[0] = 7", "1 item changed"),
    ([[1], 2], "x[0].append(1)", "changed inside"),
    ([pd.DataFrame({"a": [1]})], "x[0]['b'] = 1", "changed inside"),
    ({"a": 1, "z": 2}, "x['k'] = 3; del x['a']; x['z'] = 9", "+ 'k' · - 'a' · 'z': 2 → 9"),
    ({"a": [1], "z": 2}, "x['a'] = 1", "'a' changed"),
    ({(1, "a"): 1}, "x[(2, 'b')] = 1", "+ (2, 'b')"),
    ({1}, "x.add(2)", "1 → 2 items"),
    ({1}, "x.remove(1); x.add(2)", "items changed"),
    (deque([1]), "x.append(2)", "1 → 2 items"),
    (bytearray(b"ab"), "x[0] = 99", "1 item changed"),
    (np.zeros(10), "x[3:5] = 9", "2 values changed"),
    (np.zeros(10), "x = x.reshape(2, 5)", "shape (10,) → (2, 5)"),
    (np.zeros(10), "x = x.astype(int)", "float64 → int64"),
    (np.array([1.0, np.nan]), "x[0] = 2", "1 value changed"),
    (
        np.array([1.0, 2.0]),
        "x[0] = 2; x.flags.writeable = False",
        "1 value changed · made read-only",
    ),
    (np.array(["a", None], dtype=object), "x[0] = 'b'", "1 value changed"),
    (pd.Series([1, 2], name="s"), "x.iloc[0] = 5", "s: 1 value changed"),
    (pd.Series([1, 2], name="s"), "x = x.head(1)", "2 → 1 rows · 1 row dropped"),
    (pd.Series([1, "a", None, (1,)], dtype=object), "x = x.copy()", ""),
    (
        pd.DataFrame({("a", "b"): [1]}),
        "x[('a', 'c')] = 2",
        "1 × 1 → 1 × 2 · + ('a', 'c') (int64)",
    ),
    (pd.DataFrame([[1, 2]], columns=["a", "a"]), "x['c'] = 1", "1 × 2 → 1 × 3 · + c (int64)"),
    (Settings(0.1, [1]), "x.rate = 0.2", "'rate': 0.1 → 0.2"),
    (Settings(0.1, [1]), "x.steps.append(2)", "changed inside"),
    (scipy.sparse.eye_array(3).tocsr(), "x.data[0] = 5", "changed inside"),
]


@pytest.mark.spec("E01")
def test_the_difference_is_told_in_a_line():
    cases = [
        *(("df", birds(), code, line) for code, line in PANDAS),
        *(("p", pl.DataFrame({"a": [1, 2, 3], "b": [*"xyz"]}), *case) for case in POLARS),
        *(("x", *case) for case in VALUES),
    ]
    told = [(code, line, summary_of(code, **{name: value})) for name, value, code, line in cases]
    assert [each for each in told if each[1] != each[2]] == []


def test_an_array_can_be_resized_by_its_owner():
    variables: dict[str, Any] = {}
    Namespace(variables).run("import numpy\nx = numpy.zeros(10)")
    (change,) = Namespace(variables).run("x.resize(12)").variables
    assert change.summary == "shape (10,) → (12,)"


def test_arrow_columns_and_tables_are_compared():
    pa = pytest.importorskip("pyarrow")
    text = pd.Series(["a", "b", None], dtype=pd.ArrowDtype(pa.string()))
    nested = pd.Series([[1], [2]], dtype=pd.ArrowDtype(pa.list_(pa.int64())))
    table = pa.table({"a": [1]})
    cases = [
        (text, "x[0] = 'c'", "1 value changed"),
        (text, "x[:] = None", "2 values changed"),
        (text, "x[0] = 'a'", "no change"),
        (pd.Series(["a", "b"]), "x[1] = 'c'", "1 value changed"),
        (pd.Series([1, 2], dtype="int64[pyarrow]"), "x[1] = 3", "1 value changed"),
        (nested, "x = pd.Series([[1], [3]], dtype=x.dtype)", "values changed"),
        (table, "x = x.append_column('b', [[2]])", "1 × 1 → 1 × 2 · + b (int64)"),
    ]
    told = [
        (code, line, summary_of(code, x=value.take([*range(len(value))])))
        for value, code, line in cases
    ]
    assert [each for each in told if each[1] != each[2]] == []


CELLS = [
    ("df.loc[1, 'mass'] = 99", ["-mass[1]  1", "+mass[1]  99"]),
    ("df['mass'] += 1", [f"{s}mass[{n}]  {n + (s == '+')}" for n in range(3) for s in "-+"]),
    ("df.loc[3, 'sex'] = 'a\\nb'", ["-sex[3]  male", "+sex[3]  a b"]),
    ("df.loc[0, 'depth'] = None", ["-depth[0]  1.5", "+depth[0]  nan"]),
    ("df.loc[0, 'eggs'] = 7", ["-eggs[0]  1", "+eggs[0]  7"]),
    ("df = df[df.mass > 10]; df.loc[20, 'mass'] = 5", ["-mass[20]  20", "+mass[20]  5"]),
    ("df.loc[3, 'island'] = 'Biscoe'", []),
    ("df['ratio'] = 1.5", []),
    ("df = df.sort_values('mass', ascending=False)", []),
    ("df.loc[1, 'password'] = 'c'", []),
    ("own.loc[0, 'x'] = Loud()", []),
]


@pytest.mark.parametrize(("code", "cells"), CELLS)
def test_the_first_changed_cells_are_shown_with_their_old_and_new_values(
    code: str, cells: list[str]
):
    class Loud:
        def __repr__(self) -> str:
            raise AssertionError("code of the user's ran")

        __str__ = __eq__ = __repr__

    table = birds().assign(password="b")
    own = pd.DataFrame({"x": pd.Series([Loud()], dtype=object)})
    found = changes_of(code, df=table, own=own, Loud=Loud)
    assert [line for each in found.values() for line in each.cells.splitlines()] == cells


def test_no_summary_tells_a_secret():
    key = "sk-proj-" + "Ab3" * 16
    cases: list[tuple[str, Any, str]] = [
        ("password", "a" * 9, "password = 'hunter2-zz'"),
        ("password", 1234567, "password = 7654321"),
        ("passwords", {}, "passwords['hunter2-zz'] = 'hunter2-zz'"),
        ("text", "a", f"text = '{key}'"),
        ("users", {}, f"users['{key}'] = 1"),
        ("login", {"password": "a"}, "login['password'] = 'hunter2-zz'"),
    ]
    told = [summary_of(code, **{name: value}) for name, value, code in cases]
    hidden = ("hunter2", "7654321", "1234567", key)
    assert [line for line in told if any(each in line for each in hidden)] == []
    assert all(told[3:])


def test_names_that_a_function_of_the_user_uses_are_looked_at():
    variables: dict[str, Any] = {"items": [1], "__name__": "__main__"}
    exec("def add():\n    items.append(2)\ndef go():\n    add()", variables)
    changes = Namespace(variables).run("go()").variables
    assert [each.summary for each in changes] == ["1 → 2 items"]


def test_every_name_of_a_changed_object_is_told():
    items, array = [1], np.zeros(4)
    assert summary_of("a.append(2)", a=items, b=items) == "1 → 2 items | 1 → 2 items"
    views = {"a": array, "view": array[:2]}
    assert summary_of("a[0] = 2", **views) == "1 value changed | 1 value changed"


class Model:
    def __init__(self) -> None:
        self.weights = [1]


def test_a_change_that_cannot_be_taken_back_says_so():
    model = changes_of("m.bias = 2", m=Model())["m"]
    assert model.kept == f"changes inside a Model of {__name__} cannot be taken back"
    assert changes_of("m = None", m=Model())["m"].kept == ""
    many = changes_of("m.append(1)", m=[[0] for _ in range(10_001)])["m"]
    assert (many.type, many.kept) == ("list, 10,002 items", TOO_MANY)


HOSTILE = """
class Meta(type):
    __hash__ = __eq__ = None
class Hostile(metaclass=Meta):
    def _fail(self, *args, **kwargs):
        raise AssertionError("user's code ran")
    __eq__ = __ne__ = __repr__ = __str__ = __len__ = __bool__ = __iter__ = __hash__ = _fail
    __reduce__ = __reduce_ex__ = __deepcopy__ = __copy__ = __getattribute__ = __sizeof__ = _fail
    __getstate__ = __lt__ = __contains__ = __array__ = _fail
@dataclasses.dataclass
class Settings:
    rate: int
    @property
    def __class__(self):
        raise AssertionError("user's code ran")
    def __getattribute__(self, name):
        raise AssertionError("user's code ran")
    def __eq__(self, other):
        raise AssertionError("user's code ran")
class Key:
    armed = False
    def __hash__(self):
        if Key.armed:
            raise AssertionError("user's code ran")
        return 1
    def __eq__(self, other):
        if Key.armed:
            raise AssertionError("user's code ran")
        return self is other
"""


@pytest.mark.spec("E02")
def test_no_code_of_the_users_classes_runs():
    scope: dict[str, Any] = {"pd": pd, "np": np, "dataclasses": dataclasses}
    scope["__name__"] = "__main__"
    # pandas 2 itself asks for attributes of what it puts into a column.
    exec(HOSTILE if PANDAS_3 else HOSTILE.replace(" = __getattribute__", ""), scope)
    hostile = scope["Hostile"]
    scope["plain"], scope["settings"] = hostile(), scope["Settings"](1)
    scope["index"] = pd.Series([1], index=pd.CategoricalIndex([scope["Key"]()]))
    scope["items"] = [hostile(), {"k": hostile()}]
    scope["keys"], scope["chosen"] = {scope["Key"](): 1}, {scope["Key"]()}
    # Item by item: as a list, numpy 1 asks each for an array.
    scope["array"], column = np.empty(2, dtype=object), np.empty(2, dtype=object)
    scope["array"][0], column[0], column[1] = hostile(), hostile(), hostile()
    scope["frame"] = pd.DataFrame({"x": pd.Series(column, dtype=object), "y": 1})
    # Likewise, pandas 2 asks what is already in a column.
    assigned = "frame.iloc[1, 0]" if PANDAS_3 else "frame['x'].to_numpy()[1]"
    code = f"""
plain
settings; object.__setattr__(settings, "rate", 2)
index.iloc[0] = 5
Key.armed = True
keys["a"] = chosen.copy()
items[0] = Hostile()
items[1]["k"] = Hostile()
frame.loc[0, "y"] = 2
{assigned} = 3
array[0] = Hostile()
"""
    result = Namespace(scope).run(code)
    assert result.success, result.error
    assert {each.name: each.summary for each in result.variables} == {
        "items": "1 item changed",
        "keys": "",
        "settings": "'rate': 1 → 2",
        "index": "1 value changed",
        "frame": "x: 1 value changed · y: 1 value changed",
        "array": "1 value changed",
        "Key": "",
    }


class MyFrame(pd.DataFrame):
    """A table of the user's own; `copy` and `__eq__` must not run for a comparison."""

    def copy(self, deep: bool = True) -> Any:
        raise NotImplementedError

    __eq__ = copy  # type: ignore[assignment]


class MyColumn(pd.Series):
    pass


class MyCells(np.ndarray):
    pass


class MyPolars(pl.DataFrame):
    pass


@pytest.mark.parametrize(
    ("value", "change", "summary"),
    [
        (MyFrame({"a": [1, 2]}), "x.loc[0, 'a'] = 9", "a: 1 value changed"),
        (MyFrame({"a": [1, 2]}), "x['b'] = 1", "2 × 1 → 2 × 2 · + b (int64)"),
        (MyColumn([1, 2]), "x.iloc[0] = 9", "1 value changed"),
        (MyColumn([1, 2], name="a"), "x.name = 'b'", "a renamed b"),
        (MyPolars({"a": [1, 2]}), "x[0, 'a'] = 9", "a: 1 value changed"),
        (np.arange(3).view(MyCells), "x[0] = 9", "1 value changed"),
        (np.ma.array([1, 2], mask=[0, 0]), "x[0] = 9", "1 value changed"),
        (np.ma.array([1, 2], mask=[0, 0]), "x.mask[0] = True", "1 value changed"),
        (np.ma.array([1, 2]), "x[0] = np.ma.masked", ""),
        (np.rec.array([(1, 2.0)], names=["a", "b"]), "x.a = 9", "values changed"),
    ],
)
def test_a_table_of_a_subclass_that_a_function_changes_is_named(
    value: Any, change: str, summary: str
) -> None:
    namespace = Namespace({"np": np, "x": value})
    namespace.run(f"def change():\n  {change}")
    assert "x" not in {each.name for each in namespace.run("x; change").variables}
    (changed,) = namespace.run("change()").variables
    assert (changed.name, changed.change, changed.summary) == ("x", "changed", summary)
    assert changed.kept.endswith(" cannot be taken back")
