"""Containers, arrays and tables go back in place, with all that they hold beside items."""

from __future__ import annotations

import copy
from collections import ChainMap, Counter, OrderedDict, UserDict, UserList, defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from ipyagent.kernel.namespace import Namespace
from ipyagent.schema import ToolResult
from ipyagent.values.variables.checkpoint import Allowance, Capture, VariableUndo
from ipyagent.values.variables.tables import TablePart


class Changed(VariableUndo):
    """Variables after code has changed them."""

    def __init__(
        self, code: str, written: dict[str, set[str]] | None = None, **variables: Any
    ) -> None:
        self.names = {"np": np, "pl": pl, **variables}
        namespace = Namespace(self.names)
        namespace.written.update(written or {})
        super().__init__(namespace)
        result = namespace.run(code)
        assert isinstance(result, ToolResult)
        assert result.success, result.error
        assert result.undo, f"{code} went unnoticed"
        self.checkpoint = result.undo

    def undo(self) -> Any:
        """Take it back; return what stands for `x`."""
        self.take_back(self.checkpoint)
        return self.names.get("x")


class Own:
    """As if it was defined in a notebook."""

    __module__ = "__main__"

    def __init__(self) -> None:
        self.items = [1]

    def __eq__(self, other: object) -> bool:
        raise AssertionError("code of the user's ran")

    __hash__ = None


@dataclass(eq=False)
class Rows(list[int]):
    """Holds more than its attributes."""

    label: str = ""


def test_an_object_that_holds_more_than_its_attributes_is_not_said_to_go_back():
    changed = Changed("x.append(2); x.label = 'b'; y = 1", x=Rows(), y=0)
    changed.undo()
    assert "cannot be taken back" in changed.notes.get("x", "it went unnoticed")


@pytest.mark.parametrize(
    ("cls", "code"),
    [
        (pd.DataFrame, "x.loc[0, 'a'] = 5"),
        (pd.DataFrame, "x['b'] = 5"),
        (pd.Series, "x.iloc[0] = 5"),
        (pl.DataFrame, "x.insert_column(0, pl.Series('b', [5]))"),
        (pl.Series, "x.append(pl.Series([5]))"),
    ],
)
def test_a_table_of_the_users_class_is_not_said_to_go_back(cls: Any, code: str):
    own = type("Sales", (cls,), {"__module__": "__main__"})
    value = own({"a": [1]} if cls in (pd.DataFrame, pl.DataFrame) else [1])
    (change,) = Namespace({"pl": pl, "x": value}).run(code).variables
    assert change.kept == "changes inside a Sales cannot be taken back"


OBJECTS: list[tuple[Callable[[], Any], str]] = [
    (Own, "x.items.append(2)"),
    (Own, "x.more = 1; del x.items"),
    (lambda: SimpleNamespace(a=[1]), "x.a.append(2); x.b = 1"),
    (lambda: UserDict(a=1), "x['b'] = 2"),
    (lambda: UserList([1]), "x.append(2)"),
    (lambda: ChainMap({"a": [1]}, {"b": 2}), "x['c'] = 2; x['a'].append(3)"),
]


def test_objects_that_consist_of_their_attributes_go_back():
    wrong = []
    for make, code in OBJECTS:
        x = make()
        changed = Changed(code, x=x)
        back = changed.undo()
        if back is not x or vars(back) != vars(make()) or changed.skipped or changed.notes:
            wrong.append((code, vars(back), changed.skipped))
    assert wrong == []


CONTAINERS: list[tuple[Callable[[], Any], str]] = [
    (lambda: OrderedDict(a=1, b=2), "x['c'] = 3; x.pop('a')"),
    (lambda: OrderedDict(a=1, b=2), "x.move_to_end('a')"),
    (lambda: [OrderedDict(a=1, b=2)], "x[0].move_to_end('a')"),
    (lambda: OrderedDict(a=1), "x.clear()"),
    (lambda: defaultdict(list), "x['a'].append(1)"),
    (lambda: defaultdict(list, a=[1]), "x.default_factory = None"),
    (lambda: Counter("aab"), "x['a'] += 1"),
    (lambda: {"a": 1, "b": 2}, "x['a'] = x.pop('a')"),
    (lambda: {"_has_sorted_indices": 1, "a": 2}, "x.clear()"),
    (lambda: deque([1, 2], maxlen=2), "x.append(3)"),
    (lambda: {1, 2}, "x.add(3)"),
    (lambda: bytearray(b"abc"), "x.append(4)"),
    (lambda: [1, ([2],), {"k": {3}}], "x[1][0].append(1); x[2]['k'].clear(); x.pop(0)"),
]


def test_containers_go_back_with_all_that_their_types_keep():
    wrong = []
    for make, code in CONTAINERS:
        x = make()
        changed = Changed(code, x=x)
        back, as_new = changed.undo(), make()
        same = back is x and not changed.skipped and back == as_new and list(x) == list(as_new)
        if not (same and repr(x) == repr(as_new)):
            wrong.append((code, back, changed.skipped))
    assert wrong == []


def test_an_ordered_dict_works_on_after_it_went_back():
    x = Changed("x['c'] = 3; x.pop('a')", x=OrderedDict(a=1, b=2)).undo()
    x["z"] = 26
    x.move_to_end("a")
    assert [*x.items()] == [("b", 2), ("z", 26), ("a", 1)]
    assert x.popitem() == ("a", 1)


@pytest.mark.spec("E04")
def test_what_cannot_go_back_is_named_and_all_else_goes_back():
    fixed = bytearray(b"abc")
    changed = Changed("x[1].append(1); x.append(4); x[2].append(5)", x=[1, fixed, [2]])
    with memoryview(fixed):  # no longer of another size
        assert changed.undo() == [1, bytearray(b"abc\1"), [2]]
    assert "x is not all as it was: its bytearray stays as it is" in changed.notes["x"]


def fortran() -> Any:
    return np.asfortranarray(np.arange(6.0).reshape(2, 3))


def read_only() -> Any:
    array = np.arange(3)
    array.flags.writeable = False
    return array


def fields() -> Any:
    return np.array([(1, 2)], dtype=[("a", int), ("b", int)])


ARRAYS: list[tuple[Callable[[], Any], str]] = [
    (fortran, "x = x + 1"),
    (fortran, "del x"),
    (fortran, "x[0] = 7"),
    (read_only, "x = x + 1"),
    (read_only, "x.flags.writeable = True; x[0] = 9"),
    (lambda: np.arange(3), "x.flags.writeable = False"),
    (lambda: np.arange(3), "x[0] = 9; x.flags.writeable = False"),
    (lambda: np.array(["a", None], dtype=object), "x[1] = 'b'"),
    (lambda: np.array([[1], None], dtype=object), "x[0].append(2)"),
    (lambda: np.array([[1], None], dtype=object), "x[0].append(2); x[1] = 3"),
    (fields, "x['a'] = 7"),
    (lambda: np.array([(1, [2])], dtype=[("a", int), ("b", object)]), "x['b'][0].append(3)"),
]


def test_arrays_go_back_with_their_order_and_flags():
    wrong = []
    for make, code in ARRAYS:
        back, as_new = Changed(code, x=make()).undo(), make()
        flags = [(each.flags.writeable, each.flags.f_contiguous) for each in (back, as_new)]
        if flags[0] != flags[1] or back.dtype != as_new.dtype or back.tolist() != as_new.tolist():
            wrong.append((code, back, flags))
    assert wrong == []


def test_an_array_of_which_there_are_views_goes_back_as_itself():
    for code in ("del x", "x = np.append(x, 1)"):
        x = np.arange(6.0)
        changed = Changed(code, x=x, v=x[2:])
        del x
        back = changed.undo()
        assert changed.names["v"].base is back, code
        assert back.tolist() == [0, 1, 2, 3, 4, 5]


def test_another_array_at_an_old_address_is_left_alone():
    x, other = np.zeros(8), np.full(8, 5.0)
    # As if the first one was freed, and the other one is where it was.
    back, _ = Capture(x, Allowance(1_000, 1_000).copy).restore({id(x): other})
    assert isinstance(back, np.ndarray)
    assert back.tolist() == [0] * 8
    assert other.tolist() == [5] * 8


def frame() -> pd.DataFrame:
    return pd.DataFrame({"a": [1, 2, 3]})


def test_what_was_written_past_pandas_is_told_and_goes_back() -> None:
    """By signs in the code, or because a rehearsal has seen it."""
    wrong = []
    for code, summary in [
        ("x['a'].array[0] = 9", "a: 1 value changed"),
        (
            "x._mgr.arrays[0].fill(9); x['b'] = 1",
            "3 × 1 → 3 × 2 · + b (int64) · a: 3 values changed",
        ),
        ("v = x.a.to_numpy(); v.setflags(write=True); v[1] = 9; del v", "a: 1 value changed"),
        ("x.index._values[0] = 7", "other row labels"),
        ("getattr(x['a'], '_val' + 'ues')[0] = 9", "a: 1 value changed"),
        ("[getattr(t['a'], '_val' + 'ues').fill(9) for t in [x]]", "a: 3 values changed"),
    ]:
        x = frame().set_index(pd.Index([3, 5, 9]))
        changed = Changed(code, written={code: {"x"}} if "getattr" in code else {}, x=x)
        texts = [each.summary for each in changed.checkpoint.changes if each.name == "x"]
        is_back = changed.undo() is x and x.equals(frame().set_index(pd.Index([3, 5, 9])))
        if texts != [summary] or not is_back or changed.notes or changed.skipped:
            wrong.append((code, texts, x))
    assert wrong == []


HOLDERS: list[tuple[Callable[[Any], Any], str]] = [
    (lambda df: {"k": df}, "h['k']['b'] = 1"),
    (lambda df: {"tables": [df]}, "h['tables'][0].loc[0, 'a'] = 9"),
    (lambda df: (df,), "h[0].pop('a')"),
    (lambda df: [df], "h.append(1); h[0]['b'] = 1; x['c'] = 2"),
    (lambda df: [df], "x['c'] = 2"),
]


def test_tables_in_containers_go_back_for_all_who_hold_them():
    for hold, code in HOLDERS:
        df = frame()
        held = hold(df)
        changed = Changed(code, x=df, h=held)
        assert changed.undo() is df, code
        pd.testing.assert_frame_equal(df, frame())
        inside = changed.names["h"]
        while not isinstance(inside, pd.DataFrame):
            inside = next(iter(inside.values())) if isinstance(inside, dict) else inside[0]
        assert inside is df, code
        assert not changed.notes


def test_a_table_whose_cells_hold_more_than_is_looked_at_goes_back_without_them():
    df = pd.DataFrame({"a": [1, 2], "vectors": [[0.5] * 60_000, [0.25] * 60_000]})
    changed = Changed("h[0]['b'] = 1; x = 5", h=[df], x=1)
    changed.undo()
    assert [*df.columns] == ["a", "vectors"]
    assert not changed.skipped


def test_series_and_polars_go_back_in_place():
    s = pd.Series([1, 2], name="s")
    assert Changed("x.name = 'u'; x.iloc[0] = 7", x=s).undo() is s
    pd.testing.assert_series_equal(s, pd.Series([1, 2], name="s"))
    table, column = pl.DataFrame({"a": [1, 2]}), pl.Series("s", [1, 2])
    assert Changed("x[0, 'a'] = 9", x=table).undo() is table
    assert Changed("x.columns = ['z']", x=table).undo() is table
    assert Changed("x[0] = 9", x=column).undo() is column
    assert (table.to_dict(as_series=False), column.to_list()) == ({"a": [1, 2]}, [1, 2])


def test_a_table_works_on_after_it_went_back():
    df = Changed("x['b'] = 1; x.loc[0, 'a'] = 9", x=frame()).undo()
    df.loc[1, "a"] = 7
    df["c"] = df["a"] * 2
    assert df.to_dict("list") == {"a": [1, 7, 3], "c": [2, 14, 6]}


def test_an_index_that_others_share_goes_back_too():
    df = pd.DataFrame({"a": [1, 2]}, index=pd.Index([5, 6], name="n"))
    i = df.index
    second = pd.DataFrame({"b": [1, 2]}, index=i)
    Changed("x.index.name = 'q'; x['b'] = 1", x=df, i=i, second=second).undo()
    assert (i.name, df.index.name, second.index.name) == ("n", "n", "n")
    assert df.index is i


BESIDE_CELLS = [
    ("x.attrs['unit'] = 'm'", "attrs changed"),
    ("x.attrs['kinds'].append('k')", "attrs changed"),
    ("x.attrs = {}", "attrs changed"),
    ("x.loc[x.index[0], 'lists'].append(3)", "objects in cells changed"),
    ("for each in x['lists']: each.clear()\nx['c'] = 1", "objects in cells changed"),
    ("x.at[x.index[1], 'lists'] = [9]; x['lists'].iloc[0].clear()", "objects in cells changed"),
    ("x.index.freq = None", "frequency of the labels changed"),
    ("x.flags.allows_duplicate_labels = False", "flags changed"),
]


def test_what_a_table_holds_beside_plain_cells_is_told_and_goes_back():
    def make() -> pd.DataFrame:
        days = pd.date_range("2026-01-01", periods=2)
        made = pd.DataFrame({"lists": [[1], [2]], "b": ["x", "y"]}, index=days)
        made.attrs = {"kinds": ["a"]}
        return made

    for code, summary in BESIDE_CELLS:
        df = make()
        changed = Changed(code, x=df)
        told = {each.name: each.summary for each in changed.checkpoint.changes}
        assert summary in told["x"], code
        attributes, first = df.attrs, df["lists"].iloc[0]
        assert changed.undo() is df
        assert (df.attrs, df["lists"].to_list()) == (make().attrs, [[1], [2]]), code
        assert df.attrs is attributes or "x.attrs = " in code
        assert df["lists"].iloc[0] is first
        pd.testing.assert_frame_equal(df, make())  # and with it the frequency and flags


def test_calls_that_change_one_table_beside_its_cells_go_back_together():
    def make() -> pd.DataFrame:
        months = pd.period_range("2026-01", periods=2, freq="M")
        return pd.DataFrame(
            {"a": [1, 2], "m": months}, index=pd.date_range("2026-01-01", periods=2)
        )

    df = make()
    changed = Changed("x['b'] = 1; x.attrs['k'] = [1]", x=df)
    code = "x.flags.allows_duplicate_labels = False; x.index.freq = None; x.attrs['k'].append(2)"
    newer = Namespace(changed.names).run(code).undo
    changed.take_back(newer, changed.checkpoint)
    assert (changed.skipped, changed.notes, df.attrs) == ({}, {}, {})
    pd.testing.assert_frame_equal(df, make())


def two(value: object) -> dict[str, Any]:
    return {"x": value, "mine": value}


EDITS: list[tuple[Callable[[], dict[str, Any]], str, str, str]] = [
    (lambda: two(frame()), "x = x[x.a > 2]", "mine.loc[0, 'a'] = 9", "x"),
    (lambda: two(frame()), "del x", "mine['u'] = 1", "x"),
    (lambda: two(pl.DataFrame({"a": [1]})), "x = x.clear()", "mine[0, 'a'] = 9", "x"),
    (lambda: two([1]), "x = [*x, 2]", "mine.append(9)", "x"),
    (lambda: two({"k": [1]}), "x = dict(x, a=2)", "mine['u'] = 1", "x"),
    (lambda: two([1]), "x.append(2); x = None", "mine.append(9)", ""),
    (lambda: two(frame()), "x['c'] = 1; x = x.head(1)", "mine['u'] = 1", ""),
    (lambda: {"x": np.zeros(9_000_000)}, "x[0] = 1", "x[1] = 9", ""),
    (lambda: {"x": np.array([[1], 2], dtype=object)}, "x[1] = 3", "x[0].append(9)", ""),
]


@pytest.mark.spec("E04")
@pytest.mark.parametrize(("make", "code", "edit", "restored"), EDITS)
def test_what_the_user_did_since_to_what_a_variable_held_stays(
    make: Callable[[], dict[str, Any]], code: str, edit: str, restored: str
):
    """Where only the name was bound anew, it goes back to that; else it is left and named."""
    changed = Changed(code, **make())
    exec(edit, changed.names)
    mine: Any = changed.names.get("mine", changed.names.get("x"))
    before = copy.deepcopy(mine)
    back = changed.undo()
    assert repr(mine) == repr(before)  # of a large array both ends
    assert " ".join(changed.restored) == restored
    assert restored or "has changed since, so it is left" in changed.skipped["x"]
    assert not restored or back is mine


def test_copies_of_a_table_that_is_gone_are_freed():
    changed = Changed("x['c'] = 1; y = 2", x=frame())
    entry = changed.checkpoint.entries[0]
    del changed.names["x"]
    entry.before = None
    changed.checkpoint.size(())
    assert not any(isinstance(each, TablePart) for each in entry.after.parts)
