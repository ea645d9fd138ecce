"""The variables that code changed."""

from __future__ import annotations

import datetime
import weakref
from functools import partial
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.sparse import csr_matrix

from growth import LINEAR, growth
from ipyagent.kernel.namespace import Namespace
from ipyagent.values.variables import checkpoint, snapshot
from ipyagent.values.variables.reach import FUNCTIONS, reachable_names
from ipyagent.values.variables.snapshot import MOST


class Hostile:
    """An object whose methods all fail."""

    def __eq__(self, other: object) -> bool:
        raise AssertionError("compared")

    __hash__ = None

    def __repr__(self) -> str:
        raise AssertionError("shown")

    __len__ = __bool__ = __repr__


def changes_of(code: str, **variables: Any) -> list[tuple[str, str, str]]:
    result = Namespace(variables).run(code)
    return [(each.name, each.change, each.type) for each in result.variables]


def frame() -> pd.DataFrame:
    return pd.DataFrame({"a": range(1200), "b": 1.0})


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("y = [1, 2]", ("y", "created", "list, 2 items")),
        ("x = 5", ("x", "changed", "int")),
        ("del x", ("x", "deleted", "int")),
        ("df['c'] = 1", ("df", "changed", "DataFrame, 1,200 rows × 3 columns")),
        ("df.loc[5000] = [1, 2]", ("df", "changed", "DataFrame, 1,201 rows × 2 columns")),
        ("df = df.head(1)", ("df", "changed", "DataFrame, 1 rows × 2 columns")),
        ("s = df.a", ("s", "created", "Series, 1,200 rows")),
        ("import numpy as np\na = np.zeros((2, 3))", ("a", "created", "ndarray, shape (2, 3)")),
        ("items.append(1)", ("items", "changed", "list, 1 item")),
        ("def f(a): pass", ("f", "created", "function")),
        ("hostile = 1", ("hostile", "changed", "int")),
        ("y = 1\n1/0", ("y", "created", "int")),
    ],
)
def test_changes_of_variables_are_reported(code: str, told: tuple[str, str, str]):
    known = {"x": 3, "df": frame(), "items": [], "hostile": Hostile(), "np": np}
    assert changes_of(code, **known) == [told]


READS = ["x", "df.head()", "_hidden = 1", "hostile", "1/0", "x = x"]
READS += ["sparse.sum(), sparse.has_canonical_format"]


@pytest.mark.parametrize("code", READS)
def test_code_that_only_reads_changes_nothing(code: str):
    sparse = csr_matrix([[1, 0], [0, 2]])
    assert changes_of(code, x=3, df=frame(), hostile=Hostile(), sparse=sparse) == []


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("import json", []),
        ("from collections import Counter", []),
        ("from textwrap import dedent", []),
        ("from collections import Counter\nbest = Counter", [("best", "created", "class")]),
        ("class Counter: pass", [("Counter", "created", "class")]),
    ],
)
def test_what_is_imported_is_no_change(code: str, told: list[tuple[str, str, str]]):
    assert changes_of(code) == told


def test_to_look_at_a_dict_neither_hashes_nor_compares_its_keys():
    ran = []

    class Key:
        def __hash__(self) -> int:
            ran.append("hashed")
            return 1

        def __eq__(self, other: object) -> bool:
            ran.append("compared")
            return self is other

    x = {Key(): 1}
    ran.clear()
    assert changes_of("x", x=x) == []
    assert ran == []


class Connection:
    """It closes when nothing refers to it."""

    is_open = True

    def __del__(self) -> None:
        Connection.is_open = False


def test_an_object_that_closes_itself_does_so_when_code_deletes_it():
    code = "del c\nis_closed = not Connection.is_open"
    variables: dict[str, Any] = {"c": Connection(), "Connection": Connection}
    Namespace(variables).run(code)
    assert variables["is_closed"]


def test_the_number_of_reported_changes_is_limited_and_all_are_taken_back():
    variables: dict[str, Any] = {"n": 1}
    space = Namespace(variables)
    result = space.run(f"for i in range({MOST * 3}): globals()[f'v{{i}}'] = i")
    assert len(result.variables) == MOST
    assert result.undo is not None
    checkpoint.VariableUndo(space).take_back(result.undo)
    assert [*space.variables()] == ["n"]


@pytest.mark.parametrize("secret", ["api_key", "password"])
def test_no_value_is_reported(secret: str):
    changes = changes_of(f"{secret} = 'hunter2 and more'\nnumbers = [42]")
    assert changes == [(secret, "created", "str"), ("numbers", "created", "list, 1 item")]


@pytest.mark.slow
def test_a_large_namespace_costs_little():
    def run(size: int) -> None:
        Namespace({f"v{i}": object() for i in range(size)}).run("v1")

    assert growth(run, 10_000) < LINEAR


def test_names_that_code_does_not_reach_are_not_looked_at(monkeypatch: pytest.MonkeyPatch):
    looked_at: list[object] = []

    def capture_and_note(value: object, keep: Any) -> checkpoint.Capture:
        looked_at.append(value)
        return checkpoint.Capture(value, keep)

    monkeypatch.setattr(snapshot, "Capture", capture_and_note)
    known = {f"v{i}": i for i in range(5_000)} | {f"df{i}": frame() for i in range(3)}
    assert changes_of("zz = v7", **known) == [("zz", "created", "int")]
    assert looked_at == [7]
    assert changes_of("v8 = v7", **known) == [("v8", "changed", "int")]


REACHING = """
class Box:
    def put(self): items.append(1)
    @staticmethod
    def free(): items.append(1)
    @classmethod
    def make(cls): items.append(1)
    @property
    def size(self): return items.append(1)
class Small(Box): pass
def put(): items.append(1)
def in_cell():
    inner = put
    return lambda: inner()
"""


@pytest.mark.parametrize(
    "caller",
    [
        *("Box", "Box()", "Small", "Small()", "Box().put", "Box.make", "[Box][0]", "put"),
        *("in_cell()", "partial(put)", "partial(partial(print, put))", "(0, (put,))"),
    ],
)
def test_what_a_caller_may_change_is_reached_through_all_that_leads_to_it(caller: str):
    scope: dict[str, Any] = {"items": [1], "partial": partial, "__name__": "__main__"}
    exec(REACHING, scope)
    scope["caller"] = eval(caller, scope)
    assert "items" in reachable_names("caller", scope)


@pytest.mark.parametrize("kind", ["put", "free", "make", "size"])
def test_each_kind_of_method_is_followed_from_its_class_and_from_its_objects(kind: str):
    scope: dict[str, Any] = {"items": [1], "__name__": "__main__"}
    exec(REACHING, scope)
    for other in {"put", "free", "make", "size"} - {kind}:
        delattr(scope["Box"], other)
    for caller in (scope["Box"], scope["Small"]()):
        assert "items" in reachable_names("caller", scope | {"caller": caller})


def test_only_the_first_functions_of_a_long_tuple_are_followed():
    """A million numbers in one took half a minute."""
    scope: dict[str, Any] = {"items": [1], "__name__": "__main__"}
    exec("def add(): items.append(2)", scope)
    for count, found in ((0, ["calls", "items"]), (FUNCTIONS, ["calls"])):
        scope["calls"] = (*[0] * count, scope["add"])
        assert reachable_names("calls[-1]()", scope) == found


class Moon(datetime.tzinfo):
    """A zone of the user's: to hash or compare a time in it runs its code."""

    asked: ClassVar[list[object]] = []

    def utcoffset(self, moment: datetime.datetime | None) -> datetime.timedelta:
        self.asked.append(moment)
        return datetime.timedelta()


@pytest.mark.parametrize("cls", [datetime.datetime, pd.Timestamp, datetime.time])
def test_no_zone_of_the_user_is_asked(cls: Any):
    names = ("tzinfo",) if cls is datetime.time else ("year", "month", "day", "tzinfo")
    noon = cls(**dict.fromkeys(names, 1) | {"hour": 12, "tzinfo": Moon()})
    known, same = {noon: 1}, noon.replace(tzinfo=Moon())
    hash(same)
    Moon.asked.clear()
    assert changes_of("known.clear(); known[same] = 2", known=known, same=same)
    assert Moon.asked == []
    in_utc = noon.replace(tzinfo=datetime.UTC)
    assert changes_of("known[noon] = 2", known={in_utc: 1}, noon=in_utc)


@pytest.mark.parametrize("cls", [pd.DataFrame, pd.Series, pl.DataFrame, pl.Series])
def test_a_broken_object_in_the_place_of_a_table_is_a_change(cls: Any):
    broken = object.__new__(cls)
    told = ("x", "changed", type(broken).__name__)
    assert changes_of("x = broken", x=cls([1]), broken=broken) == [told]


def test_a_new_object_at_an_old_address_is_a_change():
    class Thing:
        pass

    variables: dict[str, Any] = {"thing": Thing(), "Thing": Thing}
    code = """
name = "thi" + "ng"
old = id(globals()[name])
del globals()[name]
kept = []
for _ in range(1_000):
    new = Thing()
    if id(new) == old:
        break
    kept.append(new)
globals()[name] = new
same = id(new) == old
"""
    result = Namespace(variables).run(code)
    assert variables["same"], "Python reuses an address that it has just freed"
    assert ("thing", "changed") in [(each.name, each.change) for each in result.variables]


def test_a_table_that_is_larger_than_undo_may_keep_is_freed_with_its_memory():
    tables = {"df": frame()}
    taken = snapshot.Snapshot(tables, "del df", memory=1_000)
    (column,) = [weakref.ref(each) for each in [tables["df"]]]
    del tables["df"]
    assert column() is None
    undo = taken.checkpoint(tables)
    assert undo.changes[0].kept == "it is larger than what undo may keep"
