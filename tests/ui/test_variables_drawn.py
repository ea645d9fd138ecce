"""The variables that code touched, in every picture of a run."""

from __future__ import annotations

from pictures import render

from ipyagent.schema import (
    Run,
    Step,
    ToolCall,
    ToolExecution,
    ToolResult,
    ToolStatus,
    VariableChange,
)
from ipyagent.ui.static_html import saved_bundle
from ipyagent.ui.transcribe.result import TOUCHED, variables_text


def changes(*names: str, change: str = "created", kind: str = "int") -> tuple[VariableChange, ...]:
    given = [{"name": name, "change": change, "type": kind} for name in names]
    return tuple(VariableChange.model_validate(each) for each in given)


def test_changes_of_a_kind_stand_together():
    touched = [
        *changes("df", change="changed", kind="DataFrame, 3 rows"),
        *changes("a", "b"),
        *changes("x", change="deleted", kind=""),
    ]
    assert variables_text(ToolResult(variables=tuple(touched))) == (
        "changed: df (DataFrame, 3 rows); created: a (int), b (int); deleted: x"
    )


def test_what_is_different_stands_in_place_of_the_type():
    line = "344 × 8 → 344 × 9 · + ratio (float64)"
    change = VariableChange(name="df", change="changed", type="DataFrame, 344 rows", summary=line)
    assert variables_text(ToolResult(variables=(change,))) == f"changed: df ({line})"
    marked = change.model_copy(update={"summary": "'a' → '\u202eb'"})
    assert "\u202e" not in variables_text(ToolResult(variables=(marked,)))


def test_many_are_counted():
    names = [f"v{number}" for number in range(TOUCHED + 2)]
    assert variables_text(ToolResult(variables=changes(*names))).endswith("v9 (int); … 2 more")


def test_a_run_as_text_and_its_mirror_tell_them():
    call = ToolCall(id="1", name="run_python", arguments={"code": "x = 1"})
    result = ToolResult(output="", variables=changes("x\u202e"))
    done = ToolExecution(call=call, status=ToolStatus.SUCCESS, result=result)
    run = Run(id="r", prompt="Go.", steps=(Step(number=1, executions=(done,)),))
    mirrored = saved_bundle(run)
    for text in (render(run), mirrored["text/html"]):
        assert "created: x" in text
        assert "\u202e" not in text
