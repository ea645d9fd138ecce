"""What a run has made itself on a copy, and nothing else holds, it may change unasked."""

from __future__ import annotations

import copy
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from harness import YES, Lab, call
from ipyagent.schema import DecidedBy, Decision, RehearsalOutcome, Run
from ipyagent.tools.base import Where, tool
from ipyagent.values.variables.reach import Adoption, OwnVariables
from ipyagent.wiring.undo import find_undo
from rehearsal_trial import ON, play, steps

# The process that runs the tests is what is forked: other tests would leave threads in it.
pytestmark = [pytest.mark.alone, pytest.mark.usefixtures("needs_isolation")]

PROGRAMS = int(os.environ.get("REHEARSAL_TEST_PROGRAMS", "5"))


def unasked(run: Run) -> list[bool]:
    """Return of each call whether it ran without a question."""
    return [each.decided_by is DecidedBy.REHEARSAL for each in run.executions]


SESSIONS = [
    ("df = pd.DataFrame({'a': [1, None, 3], 'b': list('xyx')})", "df['c'] = df.a * 2",
     "df = df.dropna()", "df.loc[0, 'a'] = 9.0", "df.columns = list('def')", "del df['e']"),
    ("rows = [{'n': 1}]", "rows.append({'n': 2})", "rows[0]['n'] += 5", "rows = rows[1:]"),
    ("found = {}", "found['a'] = [1]", "found['a'].append(2)", "found |= {'b': (1, 2)}"),
    ("n = 1", "n += 1", "n = str(n)"),
    ("cells = np.arange(9.0)", "cells[2:4] = 7", "cells = cells.reshape(3, 3)"),
    ("seen = {1, 2}\ncounts = Counter('abca')", "seen.add(3); counts['z'] += 4"),
    ("for i in range(3): pass\ni", "for i in range(5): pass\ni"),
    ("one = [1]", "other = [2]", "one.append(3)", "other.append(4)"),
    ("s = pd.Series([1.0, 2], pd.date_range('2020', periods=2))", "t = s.rolling(1).mean()",
     "s = s * 2", "t.iloc[0] = 7.0"),
    ("rows = [{'n': 1}]", "for row in rows: row['m'] = 2\nrows[0]", "rows.append({})"),
    ("s = pd.Series([3, 1, 2], index=list('abc'))", "s['d'] = 4", "s.index.name = 'k'"),
    ("rows = [1]", "other = rows[:]; del rows", "del other"),
    ("rows = [{'n': 1, 't': ['a']}, {'n': 2, 't': []}]", "big = [r for r in rows if r['n'] > 1]",
     "best = {r['n']: r for r in rows}[2]", "t = pd.DataFrame(rows)", "u = t[t.n > 1]"),
    ("t = pd.DataFrame({'w': [['a', 'b'], [], None], 'd': [{'k': 1}, {}, {2}]})",
     "t.loc[0, 'w'].append('c')", "t['n'] = t.w.map(len, na_action='ignore')",
     "u = t.explode('w')"),
]  # fmt: skip


@pytest.mark.parametrize("codes", SESSIONS)
def test_a_variable_of_the_run_itself_is_changed_unasked(
    tmp_path: Path, codes: Sequence[str]
) -> None:
    from collections import Counter

    given = {"pd": pd, "np": np, "Counter": Counter}
    lab, expected = Lab(tmp_path, dict(given)), dict(given)
    run = play(lab, *codes)
    for code in codes:
        exec(code, expected)
    assert unasked(run) == [True] * len(codes), [each.rehearsal for each in run.executions]
    assert lab.variables.keys() == expected.keys() - {"__builtins__", "row"}
    for name in lab.variables.keys() - given.keys():
        assert repr(lab.variables[name]) == repr(expected[name])


def test_the_model_and_the_record_are_told_what_was_changed(tmp_path: Path) -> None:
    run = play(Lab(tmp_path, {"pd": pd}), "df = pd.DataFrame({'a': [1, 2]})", "df['b'] = df.a * 2")
    result, rehearsal = run.executions[1].result, run.executions[1].rehearsal
    assert rehearsal.outcome is RehearsalOutcome.ADOPTED
    [change] = result.variables
    assert (change.name, change.change) == ("df", "changed")
    assert "changed: df: 2 × 1 → 2 × 2 · + b (int64)" in (result.for_model or "")


@pytest.mark.parametrize(
    "codes",
    [
        ("mine.append(4)",),
        ("mine = [1]",),
        ("rows = mine", "rows.append(4)"),
        ("rows = [1]\nother = rows", "rows.append(2)"),
        ("rows = [1]", "other = rows", "rows.append(2)"),
        ("rows = [1]", "other = [rows]", "rows.append(2)"),
        ("rows = [1]", "other = [rows]", "other[0].append(2)"),
        ("held = {'a': mine}", "held['a'].append(4)"),
        ("held = {'a': mine}", "held['b'] = 1"),
        ("rows = [[1]]\ninner = rows[0]", "inner.append(2)"),
        ("rows = [[1]]\ninner = rows[0]", "rows[0].append(2)"),
        ("rows = [1]", "other = rows", "del rows"),
        ("cells = np.arange(4)", "part = cells[:2]", "cells[0] = 7"),
        ("cells = np.arange(4)\npart = cells[:2]", "part[0] = 7"),
        ("t = pd.DataFrame({'n': [1.0, 2.0]})", "n = t.n.to_numpy()", "t.loc[0, 'n'] = 7.0"),
        ("rows = [[1]]", "t = pd.DataFrame({'w': rows})", "t.w[0].append(2)"),
        ("rows = [[1]]", "t = pd.DataFrame({'w': rows})", "rows[0].append(2)"),
        ("t = pd.DataFrame({'w': [mine]})", "t.w[0].append(4)"),
    ],
)
def test_what_others_hold_is_asked_about(tmp_path: Path, codes: Sequence[str]) -> None:
    lab = Lab(tmp_path, {"mine": [1, 2, 3], "np": np, "pd": pd})
    run = play(lab, *codes)
    assert unasked(run) == [True] * (len(codes) - 1) + [False]
    assert lab.variables["mine"] == [1, 2, 3]


@pytest.mark.parametrize("made", ["pd.DataFrame({'a': [1]})", "pd.Series([1])", "np.arange(3)"])
@pytest.mark.parametrize("held", ["", "other = t", "box = [t]", "box = {'a': (1, t)}"])
def test_an_equal_copy_of_what_others_hold_is_a_change(
    tmp_path: Path, made: str, held: str
) -> None:
    """Else what is then done to the copy would be done to what they hold."""
    lab = Lab(tmp_path, {"np": np, "pd": pd})
    exec(f"t = {made}\n{held}", lab.variables)
    run = play(lab, "t = t.copy()")
    assert unasked(run) == [not held]


KEPT = "sys.modules['own_module'].kept"


class Held:
    """A class that holds data, as notebooks define them."""

    found: ClassVar[list[int]] = []


@pytest.mark.parametrize(
    ("codes", "shown"),
    [
        (("todo = [add, 1]", "todo[0](2)"), KEPT),

        (("todo = [add]", "for each in todo: each(2)"), KEPT),
        (("todo = [Held]", "todo[0].found.append(2)"), "Held.found"),
        (("todo = {'a': index}", "todo['a'].name = 'k'"), "index.name"),
    ],
)  # fmt: skip
def test_what_a_variable_of_the_run_only_leads_to_is_asked_about(
    tmp_path: Path, codes: Sequence[str], shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = ModuleType("own_module")
    module.__file__ = str(tmp_path / "own_module.py")
    monkeypatch.setitem(sys.modules, "own_module", module)
    exec("kept = []\ndef add(n): kept.append(n)", vars(module))
    given = {"pd": pd, "sys": sys, "Held": Held, "index": pd.Index([1])}
    lab = Lab(tmp_path, {**given, "add": vars(module)["add"]})
    before = repr(eval(shown, lab.variables))
    run = play(lab, *codes)
    assert unasked(run) == [True] * (len(codes) - 1) + [False], [
        e.rehearsal for e in run.executions
    ]
    assert repr(eval(shown, lab.variables)) == before


def test_a_name_of_the_shells_that_code_bound_is_not_what_it_held(tmp_path: Path) -> None:
    lab = Lab(tmp_path, {"_": [0]})
    play(lab, "_ = [1]\nboth = [_, 2]")
    assert lab.variables.get("both") in (None, [[1], 2])


def test_what_an_earlier_run_has_made_is_the_users(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    play(lab, "rows = [1]", "rows.append(2)")
    run = play(lab, "rows.append(3)")
    assert unasked(run) == [False]
    assert lab.variables == {"rows": [1, 2]}


def test_code_that_ran_for_real_may_have_kept_what_it_could_reach(tmp_path: Path) -> None:
    lab = Lab(tmp_path, {"mine": []})
    codes = "rows, other = [1], [2]", "mine.append(rows)", "other.append(3)", "rows.append(3)"
    run = play(lab, *codes, answer=YES)
    assert unasked(run) == [True, False, True, False]
    assert lab.variables["mine"] == [[1, 3]]


def test_a_tool_that_runs_among_the_variables_may_have_kept_anything(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    kept: list[object] = []

    @tool(where=Where.MAIN)
    def keep() -> str:
        """Keep the rows."""
        kept.append(lab.variables["rows"])
        return "kept"

    look, change, _ = steps("rows = [1]", "rows.append(2)")
    run = lab.run([look, {"calls": [call("keep")]}, change, "Done."], tools=[keep], **ON)
    assert run.executions[2].decision is Decision.DENIED
    assert kept == [[1]]


def test_a_variable_that_the_user_bound_meanwhile_is_the_users(tmp_path: Path) -> None:
    lab = Lab(tmp_path)

    def bind(event: Any) -> None:
        if event.type == "tool_finished":
            lab.variables["rows"] = [9]

    run = play(lab, "rows = [1]", "rows.append(2)", heard=bind)
    assert unasked(run) == [True, False]
    assert lab.variables["rows"] == [9]


def test_what_another_run_has_made_beside_it_is_not_its_own() -> None:
    own, rows = OwnVariables(), [1]
    with own.during_run():
        with own.during_run():
            own.add(Adoption({"rows": rows}, set()))
            assert not own.names({"rows": rows})
        own.add(Adoption({"rows": rows}, set()))
        assert own.names({"rows": rows}) == {"rows"}
    assert not own.names({"rows": rows})


def test_where_new_variables_are_asked_about_so_are_their_changes(tmp_path: Path) -> None:
    run = play(Lab(tmp_path), "n = 1", "n += 1", answer=YES, adopt_new=False)
    assert unasked(run) == [False, False]


@pytest.mark.parametrize("codes", [SESSIONS[0][:3], SESSIONS[1], SESSIONS[3], SESSIONS[4]])
def test_what_a_run_made_and_changed_is_taken_back(tmp_path: Path, codes: Sequence[str]) -> None:
    lab = Lab(tmp_path, {"pd": pd, "np": np})
    run = play(lab, *codes)
    pairs = [*zip(run.executions, replay(codes), strict=True)]
    for execution, before in reversed(pairs):
        undo = find_undo(lab.environment, [run], execution.call.id)
        assert undo.run(dry_run=False).skipped == ()
        shown = {name: repr(lab.variables[name]) for name in lab.variables.keys() - {"pd", "np"}}
        assert shown == {name: repr(value) for name, value in before.items()}


def test_an_array_in_the_place_of_a_freed_one_is_not_taken_for_it(tmp_path: Path) -> None:
    lab = Lab(tmp_path, {"np": np})
    run = play(lab, "cells = np.arange(9.0)", "cells[2:4] = 7")
    undo = find_undo(lab.environment, [run], run.executions[-1].call.id)
    (entry,) = undo.records[0].variables.entries
    entry.before.root.identity._id = id(lab.variables["cells"])  # as by chance
    assert undo.run(dry_run=False).skipped == ()
    assert lab.variables["cells"].tolist() == [*range(9)]


def test_a_whole_run_is_taken_back_in_one_go(tmp_path: Path) -> None:
    lab = Lab(tmp_path, {"pd": pd})
    run = play(lab, *SESSIONS[0])
    assert unasked(run) == [True] * len(SESSIONS[0])
    find_undo(lab.environment, [run], "").run(dry_run=False)
    assert lab.variables == {"pd": pd}


def replay(codes: Sequence[str]) -> list[dict[str, Any]]:
    """Return the variables before each code."""
    found, variables = [], dict[str, Any]()
    for code in codes:
        found.append(copy.deepcopy(variables))
        scope = {"pd": pd, "np": np, **variables}
        exec(code, scope)
        variables = {k: v for k, v in scope.items() if k not in ("pd", "np", "__builtins__")}
    return found


STATEMENTS = [
    "{0} = [[1], {{'k': 2}}]", "{0} = {{'a': [1]}}", "{0} = np.arange(4)", "{0} = {1}",
    "{0} = pd.DataFrame({{'a': [1, 2]}})", "{0} = [{1}]", "{0} = {1}[0]", "{0}.append({1})",
    "{0}[0].append(5)", "{0}['z'] = 1", "{0}['a'][0] = 7", "{0}[0] = {1}", "{0} = {1}.copy()",
    "{0} += {0}", "{0}, {1} = {1}, {0}", "del {0}", "{0} = {0}[:1]", "{0} = {1}['a']",
    "{0} = [*mine, {1}]", "mine.append({0})", "{0} = mine", "{0} = {1}[1:]", "{0} = {1}[::-1]",
    "{0} = {1}['a'].to_numpy()", "{0}[:1] = [9]", "{0}.loc[0, 'a'] = 8", "{0} = {1}.T",
    "{0} = pd.DataFrame({{'a': {1}}})", "{0} = {{8, *{1}}}", "{0}.add(6)",
    "{0} = pd.DataFrame({{'a': [[1], {1}]}})", "{0} = {1}.loc[0, 'a']", "{0} = {{'b': {1}[0]}}",
]  # fmt: skip
names = st.sampled_from("xyz")
programs = st.lists(
    st.builds(lambda text, *given: text.format(*given), st.sampled_from(STATEMENTS), names, names),
    min_size=4,
    max_size=10,
)


@given(programs)
@settings(
    max_examples=PROGRAMS,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_looks_and_approved_calls_leave_what_the_code_itself_would(
    tmp_path: Path, codes: list[str]
) -> None:
    """Also who holds the same object as who."""
    start = "x, y, z = [[1]], {'a': [2]}, np.arange(3)"
    lab, expected = Lab(tmp_path, {"mine": [0], "np": np, "pd": pd}), {"mine": [0]}
    run = play(lab, start, *codes, answer=YES, max_steps=30)
    scope: dict[str, Any] = {**expected, "np": np, "pd": pd}
    for code in (start, *codes):
        try:
            exec(code, scope)
        except Exception:
            continue
    assert len(run.executions) == 1 + len(codes)
    known = {name: value for name, value in scope.items() if name in {"mine", *"xyz"}}
    assert outline(lab.variables, known) == outline(scope, known)


def outline(variables: Mapping[str, Any], known: Mapping[str, Any]) -> list[object]:
    """Return the values of variables, with the place where each container was met first."""
    places: dict[int, int] = {}

    def draw(value: Any) -> object:
        if isinstance(value, int | float | str | np.generic):
            return str(value)
        if id(value) in places:
            return places[id(value)]
        places[id(value)] = len(places)
        if isinstance(value, dict):
            return [(key, draw(each)) for key, each in value.items()]
        if isinstance(value, list):
            return [draw(each) for each in value]
        if isinstance(value, set):  # the order says nothing
            return sorted(map(repr, value))
        return repr(value)

    return [
        (name, draw(variables[name]) if name in variables else "gone") for name in sorted(known)
    ]
