"""Undo of generated programs restores equality, or says what it cannot; redo brings it back.

`make soak` tries many more (UNDO_TEST_PROGRAMS).
"""

from __future__ import annotations

import copy
import os
import random
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from ipyagent.kernel.namespace import Namespace
from ipyagent.values.variables.checkpoint import VariableUndo
from ipyagent.values.variables.snapshot import Snapshot

PROGRAMS = int(os.environ.get("UNDO_TEST_PROGRAMS", "60"))


def variables() -> dict[str, Any]:
    frame = pd.DataFrame({"a": [1, 2, 3], "b": [1.5, None, 3.5], "s": ["x", "y", None]})
    items = [1, [2, 3], {"k": [4]}]
    array = np.arange(6.0)
    return {
        "df": frame,
        "alias": frame,
        "items": items,
        "same": items,
        "arr": array,
        "view": array,
        "d": {"a": 1, "b": [2]},
        "n": 10,
        "text": "a",
        "ser": pd.Series([1, 2, 3]),
        "p": pl.DataFrame({"a": [1, 2, 3], "b": ["x", "y", "z"]}),
        "bag": {1, 2},
        "tables": [pd.DataFrame({"t": [1, 2]}), np.zeros(3)],
    }


STATEMENTS = [
    "df['c'] = 1", "df.loc[0, 'a'] = 9", "df = df[df.a > 1]", "df = df.copy()", "del df",
    "df['b'] = df['b'].fillna(0)", "df = df.sort_values('a', ascending=False)",
    "df.index = [7, 8, 9]",
    "df.columns = list(df.columns[::-1])", "df = df.rename(columns={'a': 'z'})", "df = None",
    "df.loc[1, 's'] = 'new'", "alias = None", "alias = df", "df = alias.head(2)", "df['a'] *= 2",
    "items.append(5)", "items[1].append(6)", "items[2]['k'].clear()", "items = [0]",
    "items.clear()",
    "same = list(items)", "items.insert(0, items[1])", "items[1] = items[2]", "del items",
    "arr[2] = 7", "arr *= 2", "arr = arr[:3]", "arr.sort()", "view = arr.copy()", "arr = 5",
    "d['c'] = items", "d.pop('a', None)", "d['b'].append(3)", "d = dict(d)", "d.update(x=1)",
    "n = n + 1", "n = None", "text = text + 'b'", "new = [1]", "new = df", "new = n", "del n",
    "ser.iloc[0] = 9", "ser = ser * 2", "ser.name = 'q'",
    "p[0, 'a'] = 9", "p = p.head(1)", "p = p.with_columns(c=pl.col('a') * 2)", "p = p.drop('b')",
    "bag.add(9)", "bag.discard(1)", "bag = set()", "tables[0].loc[0, 't'] = 7", "tables[1][0] = 4",
    "tables.append(3)", "tables = tables[:1]", "1 / 0",
]  # fmt: skip


def same(one: Any, other: Any) -> bool:
    if type(one) is not type(other):
        return False
    if isinstance(one, pd.DataFrame | pd.Series | pl.DataFrame):
        named = getattr(one, "name", None) == getattr(other, "name", None)
        return bool(one.equals(other)) and named
    if isinstance(one, np.ndarray):
        return one.shape == other.shape and bool((one == other).all())
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return list(one) == list(other) and all(map(same, one.values(), other.values()))
    return bool(one == other)


def copied(names: dict[str, Any]) -> dict[str, Any]:
    return copy.deepcopy({k: v for k, v in names.items() if k[:1] != "_" and k not in LIBRARIES})


LIBRARIES = {"pd": pd, "np": np, "pl": pl}


def take_back(names: dict[str, Any], checkpoints: list[Any]) -> tuple[VariableUndo, Any]:
    """Take calls back as `%agent undo` does; return what was done, and how to take it back."""
    space = Namespace(names)
    before = Snapshot(space.variables(), " ".join(n for c in checkpoints for n in c.names))
    undo = VariableUndo(space)
    undo.take_back(*reversed(checkpoints))
    return undo, before.checkpoint(space.variables())


def changed_names(names: dict[str, Any], state: dict[str, Any]) -> set[str]:
    now = {k: v for k, v in names.items() if k[:1] != "_" and k not in LIBRARIES}
    both = now.keys() & state.keys()
    return {name for name in both if not same(state[name], now[name])} | (now.keys() ^ state.keys())


@settings(
    max_examples=PROGRAMS, deadline=None, suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
)  # fmt: skip
@given(
    st.lists(st.lists(st.sampled_from(STATEMENTS), min_size=1, max_size=4), min_size=1, max_size=4)
)
def test_undo_restores_equality_and_redo_brings_it_back(calls: list[list[str]]):
    names = variables() | LIBRARIES
    before = copied(names)
    checkpoints = []
    for statements in calls:
        result = Namespace(names).run("\n".join(statements))
        if result.undo is not None:
            checkpoints.append(result.undo)
    after = copied(names)
    undo, back = take_back(names, checkpoints)
    assert changed_names(names, before) <= undo.skipped.keys(), "what is not said is as it was"
    assert undo.skipped | undo.notes == {}, "all of these kinds can be taken back"
    again, _ = take_back(names, [back] if back else [])
    assert changed_names(names, after) <= again.skipped.keys()
    assert again.skipped | again.notes == {}


@pytest.mark.spec("E04")
def test_what_the_user_does_meanwhile_stays():
    chance = random.Random(5)
    for _ in range(20):
        names = variables() | LIBRARIES
        statements = chance.sample(STATEMENTS[:-1], 3)
        result = Namespace(names).run("\n".join(statements))
        names["n"], names["mine"] = "the user's", [1]
        if result.undo is not None:
            take_back(names, [result.undo])
        assert names["n"] == "the user's"
        assert names["mine"] == [1]
