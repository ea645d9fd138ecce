"""Each word of the tables of changes is the only proof of its row."""

from __future__ import annotations

import sqlite3
from types import ModuleType, SimpleNamespace

import pytest

from ipyagent.rehearsal.variable_effects import VariableEffects
from ipyagent.schema import ToolResult

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
