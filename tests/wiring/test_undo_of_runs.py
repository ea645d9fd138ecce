"""What a run changed in variables, files and cells is taken back, and nothing else."""

from __future__ import annotations

import sys
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse

from harness import YES, Lab
from ipyagent.errors import ConfigError
from ipyagent.schema import Run, ToolResult
from ipyagent.schema.runs import UndoReport
from ipyagent.tools.base import tool
from ipyagent.ui.static_html import saved_bundle
from ipyagent.ui.transcribe import transcribe
from ipyagent.wiring.undo import CallRecord, find_undo

YOLO = {"agent": {"confirm_mode": "yolo"}}


class Bench(Lab):
    """Runs code as an agent would, and takes it back."""

    def __init__(self, root: Path, **variables: Any) -> None:
        super().__init__(root, {"pd": pd, "np": np, "pl": pl, **variables})

    def change(self, *codes: str) -> Run:
        """Run the codes, each as one call."""
        calls = [{"name": "run_python", "arguments": {"code": code}} for code in codes]
        run = self.run([*({"calls": [call]} for call in calls), "Done."], settings=YOLO)
        for result in run.results:
            assert result.success, result.error
        return run

    def undo(self, reference: str = "", *, dry_run: bool = False) -> UndoReport:
        undo = find_undo(self.environment, reversed(self.session.runs), reference)
        return undo.run(dry_run=dry_run)


def frame() -> pd.DataFrame:
    return pd.DataFrame({"a": [1, 2, 3], "b": [1.5, 2.5, 3.5]})


@dataclass
class Settings:
    rate: float
    steps: list[int]


def same(one: Any, other: Any) -> bool:
    if isinstance(one, pd.DataFrame | pd.Series | pl.DataFrame):
        return bool(type(one) is type(other) and one.equals(other))
    if isinstance(one, np.ndarray):
        return np.shape(one) == np.shape(other) and bool((one == other).all())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if scipy.sparse.issparse(one):
        return bool((one != other).nnz == 0)
    return bool(one == other)


VALUES: dict[str, Any] = {
    "number": lambda: 10,
    "text": lambda: "a",
    "frame": frame,
    "series": lambda: pd.Series([1, 2, 3]),
    "polars": lambda: pl.DataFrame({"a": [1, 2, 3]}),
    "array": lambda: np.arange(6.0),
    "list": lambda: [1, [2, 3], {"k": 4}],
    "dict": lambda: {"a": 1, "b": [2]},
    "set": lambda: {1, 2},
    "deque": lambda: deque([1, 2], maxlen=5),
    "bytearray": lambda: bytearray(b"abc"),
    "dataclass": lambda: Settings(0.1, [1]),
    "sparse": lambda: scipy.sparse.eye_array(3).tocsr(),
    "tables": lambda: [frame(), np.zeros(3)],
}

CHANGES = [
    ("number", "x = 12"),
    ("text", "x += 'b'"),
    ("frame", "x['c'] = 1"),
    ("frame", "x.loc[0, 'a'] = 9"),
    ("frame", "x = x[x.a > 1]"),
    ("frame", "del x"),
    ("frame", "x = None"),
    ("series", "x.iloc[0] = 9"),
    ("polars", "x[0, 'a'] = 9"),
    ("polars", "x = x.head(1)"),
    ("array", "x[2:4] = 7"),
    ("array", "x = x.reshape(2, 3)"),
    ("array", "x *= 2; x = 3"),
    ("list", "x.append(1); x[1].append(5); x[2]['k'] = 5"),
    ("list", "x.clear()"),
    ("list", "x = x + [1]"),
    ("dict", "x['c'] = 1; del x['a']; x['b'].append(3)"),
    ("set", "x.add(3); x.discard(1)"),
    ("deque", "x.appendleft(0)"),
    ("bytearray", "x += b'd'"),
    ("dataclass", "x.rate = 2; x.steps.append(2)"),
    ("sparse", "x.data[0] = 5"),
    ("tables", "x[0].loc[0, 'a'] = 9; x[1][0] = 4; x.append(5)"),
]


def test_changes_of_variables_are_taken_back_and_put_back(tmp_path: Path):
    wrong = []
    for kind, code in CHANGES:
        lab = Bench(tmp_path, x=VALUES[kind]())
        lab.change(code)
        after = lab.variables.get("x", "gone")
        steps = [not same(VALUES[kind](), after)]
        report = lab.undo()
        steps += [report.skipped == (), same(VALUES[kind](), lab.variables["x"])]
        again = lab.undo(report.id)
        steps += [again.skipped == (), ("x" in lab.variables) is (code != "del x")]
        lab.undo(again.id)
        steps.append(same(VALUES[kind](), lab.variables["x"]))
        if not all(steps):
            wrong.append((code, steps))
    assert wrong == []


@pytest.mark.parametrize("kind", ["list", "array", "dict", "dataclass", "set"])
def test_plain_objects_are_put_back_in_place(tmp_path: Path, kind: str):
    changes = {"list": "x.append(1)", "array": "x[0] = 9", "dict": "x['z'] = 1"}
    code = changes.get(kind, "x.rate = 3" if kind == "dataclass" else "x.add(9)")
    value = VALUES[kind]()
    lab = Bench(tmp_path, x=value, holder=[value])
    lab.change(code)
    lab.undo()
    assert lab.variables["x"] is value
    assert lab.variables["holder"][0] is value
    assert same(VALUES[kind](), value)


def test_what_a_dry_run_says_is_what_the_undo_does(tmp_path: Path):
    lab = Bench(tmp_path, df=frame(), n=1)
    lab.change("df['c'] = 1\nn = 2\nnew = 3")
    said = lab.undo(dry_run=True)
    assert said.restored == ("df: removes c", "n: 2 → 1", "removes new")
    assert list(lab.variables["df"]) == ["a", "b", "c"], "nothing was done"
    done = lab.undo()
    assert len(done.restored) == 3
    assert "new" not in lab.variables
    assert lab.variables["n"] == 1


def test_a_variable_that_the_user_changed_since_is_left(tmp_path: Path):
    lab = Bench(tmp_path, df=frame(), n=1, items=[1])
    lab.change("df['c'] = 1\nn = 2\nitems.append(2)")
    lab.variables["n"] = 5
    lab.variables["df"].loc[0, "a"] = 100
    lab.variables["items"].append(3)
    report = lab.undo()
    since = "has changed since, so it is left as it is"
    assert set(report.skipped) == {f"{name} {since}" for name in ("df", "n", "items")}
    assert report.restored == ()
    assert report.id == "", "nothing was done that could be taken back"
    assert lab.variables["n"] == 5
    assert lab.variables["items"] == [1, 2, 3]


def test_names_of_one_object_are_names_of_one_object_again(tmp_path: Path):
    table = frame()
    lab = Bench(tmp_path, a=table, b=table, other=table)
    lab.change("a.loc[0, 'a'] = 9")
    lab.undo()
    assert lab.variables["a"] is lab.variables["b"]
    assert lab.variables["a"] is lab.variables["other"]
    assert lab.variables["a"].loc[0, "a"] == 1
    lab.change("a = a.head(1)")
    lab.undo()
    assert lab.variables["a"] is lab.variables["b"]


def test_something_that_still_holds_a_changed_table_sees_it_as_it_was(tmp_path: Path):
    lab = Bench(tmp_path, df=frame())
    lab.variables["tables"] = [lab.variables["df"]]
    lab.change("df.loc[0, 'a'] = 9")
    assert lab.undo().skipped == ()
    assert lab.variables["tables"][0] is lab.variables["df"]
    assert lab.variables["tables"][0].loc[0, "a"] == 1


def test_an_array_of_another_size_goes_back_as_another_object_and_that_is_said(tmp_path: Path):
    lab = Bench(tmp_path, array=np.arange(4))
    lab.variables["arrays"] = [lab.variables["array"]]
    lab.change("array.resize(6, refcheck=False)")
    (said,) = lab.undo().skipped
    assert said.startswith("array goes back as another object")
    assert lab.variables["array"].tolist() == [0, 1, 2, 3]


def test_all_calls_of_a_run_are_taken_back_together(tmp_path: Path):
    lab = Bench(tmp_path, df=frame(), items=[1])
    lab.change("df['c'] = 1", "df['d'] = 2; items.append(2)", "df = df.head(1); items = [7]")
    items = lab.variables["items"]
    lab.undo()
    assert lab.variables["df"].equals(frame())
    assert lab.variables["items"] == [1]
    assert items == [7]


def test_runs_are_taken_back_one_after_the_other(tmp_path: Path):
    lab = Bench(tmp_path, df=frame(), n=1)
    lab.change("df['c'] = 1; n = 2")
    lab.change("df.loc[0, 'c'] = 5; n = 3")
    lab.undo()
    assert lab.variables["df"].c.tolist() == [1, 1, 1]
    assert lab.variables["n"] == 2
    report = lab.undo()
    assert report.skipped == ()
    assert lab.variables["df"].equals(frame())
    assert lab.variables["n"] == 1


def test_one_call_of_a_run_is_taken_back(tmp_path: Path):
    lab = Bench(tmp_path, n=1, m=1)
    run = lab.change("n = 2", "m = 2")
    first = run.steps[0].executions[0].call.id
    lab.undo(first)
    assert (lab.variables["n"], lab.variables["m"]) == (1, 2)


def test_an_older_run_stays_where_a_newer_one_builds_on_it(tmp_path: Path):
    lab = Bench(tmp_path, n=1)
    older = lab.change("n = 2")
    lab.change("n = 3")
    report = lab.undo(older.id)
    assert report.skipped == ("n has changed since, so it is left as it is",)
    assert lab.variables["n"] == 3


class Model:
    pass


def test_what_cannot_be_taken_back_is_said(tmp_path: Path):
    lab = Bench(tmp_path, m=Model())
    lab.change("m.weights = 1")
    report = lab.undo()
    (said,) = report.skipped
    assert said.startswith("m stays: changes inside a Model")
    model = lab.variables["m"]
    lab.change("m = None")
    lab.undo()
    assert lab.variables["m"] is model


def test_when_all_is_taken_back_nothing_is_left(tmp_path: Path):
    lab = Bench(tmp_path, n=1)
    lab.change("n = 2")
    report = lab.undo()
    for _ in range(2):
        with pytest.raises(ConfigError, match="nothing to undo"):
            lab.undo()
    redone = lab.undo(report.id)
    assert lab.undo().restored == report.restored, "what is there again can be taken back again"
    assert redone.restored


def exec_in(lab: Bench, code: str) -> None:
    lab.variables.setdefault("__name__", "__main__")
    exec(code, lab.variables)


MAKE_COUNTER = """
def make():
    count = 0
    def step():
        nonlocal count
        count += 1
        return count
    return step
x = make()
"""

KINDS = [
    ("x = np.ma.array([1, 2, 3], mask=[0, 1, 0])", "x[0] = 9", "x", "MaskedArray of numpy"),
    ("x = np.ma.array([1, 2], mask=[0, 1])", "x[0] = np.ma.masked", "x", "MaskedArray of numpy"),
    ("x = np.matrix([[1, 2]])", "x[0, 0] = 9", "x", "matrix of numpy"),
    ("class x: rate = 1", "x.rate = 2; x.new = 3", "x", "type"),
    ("class C:\n  n = 0\n  def add(self): type(self).n += 1\nx = C()", "x.add()", "C", "type"),
    (MAKE_COUNTER, "x()", "x", "function"),
    ("def x(new, known=[]): known.append(new)", "x(1)", "x", "function"),
    ("x = lambda *, known=[]: known.append(1)", "x()", "x", "function"),
    ("def x(): x.n = 1", "x()", "x", "function"),
    ("class My(pd.DataFrame): pass\nx = My({'a': [1]})", "x.loc[0, 'a'] = 2", "x", "My"),
    ("class My(pd.DataFrame): pass\nx = My({'a': [1]})", "x['b'] = 1", "x", "My"),
    ("class My(pd.Series): pass\nx = My([1, 2])", "x.iloc[0] = 9", "x", "My"),
    ("class My(pl.DataFrame): pass\nx = My({'a': [1]})", "x[0, 'a'] = 9", "x", "My"),
]


@pytest.mark.spec("E03")
@pytest.mark.filterwarnings("ignore:the matrix subclass")
def test_the_newest_run_is_named_whatever_of_it_stays(tmp_path: Path):
    """An older, wanted run was taken back in its place."""
    wrong = []
    for make, code, name, kind in KINDS:
        lab = Bench(tmp_path, good=1)
        exec_in(lab, make)
        lab.change("good = good + 1")
        newer = lab.change(code)
        why = f"{name} stays: changes inside a {kind} cannot be taken back"
        hint = f"nothing of run {newer.id} can be taken back; `%agent undo "
        for report in (lab.undo(dry_run=True), lab.undo()):
            said, *rest = report.skipped
            if said != why or not rest[0].startswith(hint) or report.restored:
                wrong.append((code, report))
        assert lab.variables["good"] == 2
    assert wrong == []


@pytest.mark.spec("E04")
def test_the_newest_run_is_named_where_nothing_of_it_can_be_taken_back(tmp_path: Path):
    lab = Bench(tmp_path, good=1, x=iter([1, 2]), rest=np.zeros(2**25 + 1))
    older = lab.change("good = good + 1")
    for code, why in (
        ("next(x)", "x stays: changes inside a list_iterator cannot be taken back"),
        ("rest[0] = 1", "rest stays: it is larger than what undo may keep"),
    ):
        newer = lab.change(code)
        for report in (lab.undo(dry_run=True), lab.undo()):
            assert report.restored == ()
            hint = f"nothing of run {newer.id} can be taken back; `%agent undo "
            assert report.skipped[0] == why
            assert report.skipped[1].startswith(hint)
        assert lab.variables["good"] == 2
    lab.undo(older.id)
    assert lab.variables["good"] == 1


def test_a_question_and_a_card_say_what_could_not_be_taken_back(tmp_path: Path):
    class Fitted:
        __slots__ = ("weights",)

    lab = Bench(tmp_path, model=Fitted(), items=[1], x=np.zeros(2))
    call = {"name": "run_python", "arguments": {"code": "model.weights = 1; items.append(x)"}}
    run = lab.run([{"calls": [call]}, "Done."], answer=YES)
    why = "⚠ model: changes inside a Fitted of test_undo_of_runs cannot be taken back"
    asked: Any = lab.watcher.asked[0].subject
    assert why in asked.touches
    assert "items" not in asked.touches
    (drawn,) = transcribe(run).steps[0].calls
    assert why in drawn.facts


def test_a_container_goes_back_and_what_is_not_seen_in_it_is_named(tmp_path: Path):
    lab = Bench(tmp_path, held=[1, iter([1])])
    lab.change("held.append(2); next(held[1])")
    (said,) = [each for each in lab.undo().skipped if each.startswith("held is not")]
    assert said.endswith("changes inside a list_iterator cannot be taken back")


def test_a_class_of_an_object_in_a_container_is_named(tmp_path: Path):
    lab = Bench(tmp_path, good=1)
    exec_in(lab, "class C: n = 0\nheld = [C(), 1]")
    lab.change("held.append(2)")
    assert lab.undo().skipped == ()
    lab.change("held[0].__class__.n = 5")
    (said,) = lab.undo().skipped
    assert said == "held is not all as it was: changes inside a type cannot be taken back"


def test_a_dry_run_stops_where_the_undo_stops(tmp_path: Path):
    """It said `x: 1 → 4`, and nothing of the user's 50."""
    lab = Bench(tmp_path, x=1)

    def do_mine(event: Any) -> None:
        if event.type == "step_started" and event.step == 3:
            lab.variables["x"] = 50

    calls = [{"name": "run_python", "arguments": {"code": f"x = {n}"}} for n in (2, 3, 4)]
    run = lab.run([*({"calls": [each]} for each in calls), "."], settings=YOLO, heard=do_mine)
    note = "x goes back only to what it was given between two calls"
    done = f"x is as it was before run {run.id} (4 → 50)"
    for line, dry_run in (("x: 4 → 50", True), (done, False)):
        report = lab.undo(dry_run=dry_run)
        assert report.restored == (line,)
        assert report.skipped == (note,)
    assert lab.variables["x"] == 50


def test_a_dry_run_follows_objects_that_several_names_lead_to(tmp_path: Path):
    items = [1]
    lab = Bench(tmp_path, d={"a": 0, "b": items}, items=items)
    lab.change("d.pop('a')", "items.append(2)")
    dry, done = lab.undo(dry_run=True), lab.undo()
    assert dry.skipped == done.skipped == ()
    assert lab.variables["d"] == {"a": 0, "b": [1]}


def test_imported_modules_are_no_changes(tmp_path: Path):
    lab = Bench(tmp_path)
    run = lab.change("import json, os as system\nn = 1")
    assert [each.name for each in run.variables] == ["n"]


@pytest.mark.spec("E05")
def test_a_run_says_for_good_that_it_was_taken_back(tmp_path: Path):
    lab = Bench(tmp_path, n=1, x=iter([1, 2]))
    lab.environment.undo.show = (shown := list[Run]()).append
    lab.change("n = 2", "next(x)")
    report = lab.undo()
    (run,) = lab.session.runs
    assert shown == [run]
    assert lab.session.journal.run(run.id).taken_back == run.taken_back
    assert len(run.taken_back) == 2
    stays = "x stays: changes inside a list_iterator cannot be taken back"
    assert run.stays == (stays,)
    bundle = saved_bundle(run)
    assert "partly taken back</p>" in bundle["text/html"]
    assert stays in bundle["text/html"]
    drawn = transcribe(run)
    assert {call.badge for step in drawn.steps for call in step.calls} == {"taken back"}
    with pytest.raises(ConfigError, match=f"is taken back already; `%agent undo {report.id}`"):
        lab.undo(run.id)
    find_undo(lab.environment, lab.session.runs, run.id, redo=True).run()
    assert lab.variables["n"] == 2
    (run,) = lab.session.runs
    assert (run.taken_back, transcribe(run).header.state_text) == ((), "done")


def test_a_call_that_was_taken_back_alone_is_marked_alone(tmp_path: Path):
    lab = Bench(tmp_path, n=1, m=1)
    run = lab.change("n = 2", "m = 2")
    lab.undo(run.executions[0].call.id)
    (run,) = lab.session.runs
    assert run.taken_back == (run.executions[0].call.id,)
    assert transcribe(run).header.state_text == "done · partly taken back"
    lab.undo(run.executions[1].call.id)
    assert transcribe(lab.session.runs[0]).header.state_text == "done · taken back"


def test_a_mark_belongs_to_one_call_whatever_ids_the_service_gives(tmp_path: Path):
    """As a service does that gives each call the same id, or counts them."""

    def change(code: str, call_id: str) -> dict[str, Any]:
        return {"name": "run_python", "arguments": {"code": code}, "id": call_id}

    for ids in ("same",) * 5, [f"call_{number}" for number in (1, 2, 10, 11, 12)]:
        lab = Bench(tmp_path, **dict.fromkeys("abcde", 1))
        a, b, c, d, e = map(change, [f"{name} = 2" for name in "abcde"], ids)
        lab.run([{"calls": [a, b]}, {"calls": [c]}, "Done."], settings=YOLO)
        lab.run([{"calls": [d, e]}, "Done."], settings=YOLO)
        executions = [each for run in lab.session.runs for each in run.executions]
        for name, execution in zip("abcde", executions, strict=True):
            report = lab.undo(execution.call.id)
            assert [each.split()[0] for each in report.restored] == [name]
            drawn = [call for run in lab.session.runs for step in transcribe(run).steps
                     for call in step.calls]  # fmt: skip
            assert [each.id for each in drawn if each.badge] == [execution.call.id]
            lab.undo(report.id)


def test_the_memory_of_a_list_that_grows_does_not(tmp_path: Path):
    """Each call held a copy of the whole list, and of each dict in it."""
    lab = Bench(tmp_path, seen=[], n=0)
    lab.change(*["seen.append({'n': len(seen)}); n += 1"] * 3)
    kept = [record.variables.entries[0] for record in lab.environment.undo.records]
    sizes = [each.before.size(()) + each.after.size(()) for each in kept]
    assert len({*sizes[1:]}) == 1, sizes
    lab.undo()
    assert lab.variables["seen"] == []


def test_files_and_variables_go_back_together(tmp_path: Path):
    lab = Bench(tmp_path, n=1)
    calls = [
        {"name": "write_file", "arguments": {"path": "new.txt", "content": "made\n"}},
        {"name": "run_python", "arguments": {"code": "n = 2"}},
    ]
    run = lab.run([{"calls": calls}, "Done."], settings=YOLO)
    report = lab.undo()
    assert f"new.txt is as it was before run {run.id} (removes it)" in report.restored
    assert not (tmp_path / "new.txt").exists()
    lab.undo(report.id)
    assert (tmp_path / "new.txt").read_text() == "made\n"
    assert lab.variables["n"] == 2


def test_the_model_is_told_once_that_its_work_was_taken_back(tmp_path: Path):
    lab = Bench(tmp_path, n=1)
    lab.change("n = 2")
    lab.undo()
    for expected in (True, False):
        lab.run(["Hello."])
        prompt = "\n".join(m.text for m in lab.client.requests[0].messages[-2:])
        assert ("The user took back" in prompt) is expected


def test_a_run_takes_itself_back(tmp_path: Path):
    lab = Bench(tmp_path, n=1)
    run = lab.change("n = 2")
    assert "n: " in str(run.undo(dry_run=True))
    assert lab.variables["n"] == 2
    lab.environment.undo.sessions.clear()  # as where its agent is gone
    assert "`%agent undo u1` takes this back" in str(run.undo())
    assert lab.variables["n"] == 1
    assert [(each.name, each.summary) for each in run.variables] == [("n", "1 → 2")]


def test_what_a_tool_of_the_users_calls_an_undo_is_none(tmp_path: Path):
    lab = Bench(tmp_path)

    def look() -> ToolResult:
        return ToolResult(output="Nothing.", undo="mine")

    lab.run([{"calls": [{"name": "look", "arguments": {}}]}, "Done."], tools=[tool(look)])
    assert lab.environment.undo.records == []


def test_the_oldest_run_is_given_up_when_memory_is_short(tmp_path: Path):
    lab = Bench(tmp_path, a=np.zeros(100_000), b=np.zeros(100_000))
    settings = {**YOLO, "undo": {"memory": 1}}
    call = {"name": "run_python", "arguments": {}}
    first = lab.run([{"calls": [call | {"arguments": {"code": "a += 1"}}]}, "."], settings=settings)
    lab.run([{"calls": [call | {"arguments": {"code": "b += 1"}}]}, "."], settings=settings)
    assert lab.environment.undo.size_of(lab.environment.undo.records) <= 10**6
    report = lab.undo(first.id)
    assert "is no longer kept" in report.skipped[0]
    assert lab.undo().skipped == ()
    assert lab.variables["b"].sum() == 0
    assert lab.variables["a"].sum() == 100_000


def test_a_small_record_is_measured_only_when_it_is_added(tmp_path: Path):
    lab = Bench(tmp_path, n=0)

    def count_steps(code: str) -> int:
        """Return the functions of ours that are called to add the record of code."""
        (result,) = lab.change(code).results
        record, calls = CallRecord("a", "b", variables=result.undo), list[str]()

        def note(frame: FrameType, event: str, _arg: object) -> None:
            calls.append(event)

        sys.setprofile(note)
        try:
            lab.environment.undo.add(record)
        finally:
            sys.setprofile(None)
        return calls.count("call")

    first = count_steps("n += 1")
    lab.change(*["n += 1"] * 20)
    assert count_steps("n += 1") == first


def test_nothing_is_kept_where_undo_is_switched_off(tmp_path: Path):
    lab = Bench(tmp_path, n=1)
    call = {"name": "run_python", "arguments": {"code": "n = 2"}}
    run = lab.run([{"calls": [call]}, "."], settings={**YOLO, "undo": {"memory": 0}})
    assert run.results[0].undo.entries == []
    assert "is no longer kept" in lab.undo(run.id).skipped[0]
    assert lab.variables["n"] == 2


@pytest.mark.parametrize(
    ("value", "first", "mine", "second"),
    [
        (frame, "x['c'] = 1", "x.loc[0, 'a'] = 50", "x['d'] = 1"),
        (lambda: np.zeros(4), "x[0] = 1", "x[1] = 50", "x[2] = 3"),
        (lambda: [1], "x.append(2)", "x.append(50)", "x.append(3)"),
        (lambda: pl.DataFrame({"a": [1, 2]}), "x[0, 'a'] = 5", "x[1, 'a'] = 50", "x[0, 'a'] = 6"),
    ],
)
def test_what_the_user_did_between_two_calls_stays(
    tmp_path: Path, value: Any, first: str, mine: str, second: str
):
    lab = Bench(tmp_path, x=value())

    def do_mine(event: Any) -> None:
        if event.type == "step_started" and event.step == 2:
            exec(mine, lab.variables)

    calls = [{"name": "run_python", "arguments": {"code": code}} for code in (first, second)]
    lab.run([*({"calls": [each]} for each in calls), "Done."], settings=YOLO, heard=do_mine)
    lab.undo()
    assert "50" in str(lab.variables["x"])
