"""Each word of the tables of changes is the only proof of its row."""

from __future__ import annotations

import ctypes
import gc
import sqlite3
from array import array
from collections import ChainMap, Counter, OrderedDict, UserDict, UserList, defaultdict, deque
from collections.abc import Callable, Iterator
from functools import partial
from types import MappingProxyType, MethodType, ModuleType, SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from ipyagent.rehearsal.variable_effects import VariableEffects
from ipyagent.rehearsal.watched_values import WatchedValues
from ipyagent.schema import ToolResult


@pytest.fixture(autouse=True)
def unfrozen() -> Iterator[None]:
    """Let objects be collected again: on a copy those that were there before never are."""
    yield
    gc.unfreeze()


MODULE, OBJECT = ["changes to m (module)"], ["changes to con (Connection)"]
FILLING = "append insert extend update add remove pop clear"
SETTING = "set_x use enable_x disable_x register_x filter_x simplefilter basicConfig init"
SHOWING = "print pprint display_x help show_x plot_x draw_x info head describe summary debug"
CHANGING = "insert update delete create drop alter replace begin attach set copy load install"
READING = "select with show describe explain from"
MAGICS = "matplotlib time timeit who whos pwd ls history pinfo pinfo2"
ROWS = [
    ("x = m.part.{}(1)", FILLING, MODULE),
    ("x = m.{}(1)", SETTING, MODULE),
    ("x = m.look(1)", "once", []),
    ("con.{}('x')", f"{SHOWING} warning error", []),
    ("con.{}('x')", "fit", OBJECT),
    ("con.fit('x')\ncon.{}('x').fit(1)", "cursor", OBJECT),
    ("x = con.execute(' {} x')", CHANGING, OBJECT),
    ("con.execute('{} x')", READING, []),
    ("x = con.execute('selection')", "once", []),
    ("get_ipython().run_line_magic('{}', '')", MAGICS, []),
    ("get_ipython().run_line_magic('{}', '')", "precision", ["changes to %precision"]),
]


@pytest.mark.parametrize(("code", "words", "expected"), ROWS)
def test_each_word_of_the_tables_is_a_change_or_none(
    code: str, words: str, expected: list[str]
) -> None:
    database = sqlite3.connect(":memory:")
    names = {"m": ModuleType("m"), "con": database, "get_ipython": SimpleNamespace()}
    wrong = {}
    for word in words.split():
        effects = VariableEffects(code.format(word), names)
        effects.compare(names, ToolResult(success=True))
        effects.write_data({}, {})
        if effects.touched != expected:
            wrong[word] = effects.touched
    database.close()
    assert wrong == {}


HOLDERS: dict[str, Callable[[Any], object]] = {
    "list": lambda x: [x], "tuple": lambda x: (x,), "deque": lambda x: deque([x]),
    "set": lambda x: {partial(print, x)}, "frozenset": lambda x: frozenset({partial(print, x)}),
    "dict": lambda x: {1: x}, "OrderedDict": lambda x: OrderedDict(k=x),
    "defaultdict": lambda x: defaultdict(list, k=x), "Counter": lambda x: Counter({1: x}),
    "partial": lambda x: partial(print, x), "property": lambda x: property(x.append),
    "static": lambda x: staticmethod(x), "class": lambda x: classmethod(x),
    "method": lambda x: MethodType(print, x), "proxy": lambda x: MappingProxyType({1: x}),
    "namespace": lambda x: SimpleNamespace(k=x), "builtin": lambda x: x.append,
    "wrapper": lambda x: x.__len__, "ChainMap": lambda x: ChainMap({1: x}),
    "UserDict": lambda x: UserDict({1: x}), "UserList": lambda x: UserList([x]),
}  # fmt: skip
BUFFERS: list[Any] = [bytearray(b"a"), array("b", [1]), memoryview(bytearray(b"a"))]


def test_what_each_type_that_leads_on_holds_is_watched() -> None:
    unseen = []
    for kind, hold in HOLDERS.items():
        inner: list[int] = []
        watched = WatchedValues({"x": hold(inner)}, ["x"], set())
        inner.append(1)
        unseen += [] if watched.list_changed() == ["x"] else [kind]
    for each in [*BUFFERS, (ctypes.c_byte * 1)(1)]:
        watched = WatchedValues({"x": each}, ["x"], set())
        each[0] = 7
        unseen += [] if watched.list_changed() == ["x"] else [type(each).__name__]
    assert unseen == []


class Table(pd.DataFrame):
    """A table of a class of the user's."""


@pytest.mark.parametrize("table", [pd.DataFrame({"a": [1]}), pd.Series([1]), Table({"a": [1]})])
def test_the_cells_of_each_kind_of_table_are_watched(table: Any) -> None:
    watched = WatchedValues({"x": table}, ["x"], set())
    assert (watched.unseen, watched.list_changed()) == (set(), [])
    table.loc[0] = 7
    assert watched.list_changed() == ["x"]
