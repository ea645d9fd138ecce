"""The variables that code touched, in every picture of a run."""

from __future__ import annotations

from typing import Any

import pytest
from pictures import render
from sample import call, done, figure, run

from ipyagent.schema import (
    Display,
    Run,
    Step,
    ToolCall,
    ToolExecution,
    ToolResult,
    ToolStatus,
    VariableChange,
)
from ipyagent.ui.static_html import saved_bundle
from ipyagent.ui.transcribe.call_texts import TOUCHED, transcribe_result, variables_text
from ipyagent.ui.transcript import Media


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


# Results


TABLE = {"text/html": "<table><tr><td>1204</td></tr></table>", "text/plain": "| 1204 |"}
ORDERS = [([0], "TF"), ([1], "FT"), ([0, 1], "TFT"), ([9], "FT"), ([], "F")]


def shown(before: list[int]) -> ToolResult:
    displays = tuple(Display(data=TABLE, images_before=each) for each in before)
    return ToolResult(output="x", images=(figure(),), displays=displays)


def media(result: ToolResult) -> tuple[Media, ...]:
    return transcribe_result(result, "run_python").media


def drawn(**changes: Any) -> dict[str, Any]:
    execution = done(call("c1", "run_python", {"code": "total = 1204"}), "", **changes)
    of = run((Step(number=1, executions=(execution,)),))
    return {**saved_bundle(of), "text/plain": render(of)}


@pytest.mark.parametrize(("before", "order"), ORDERS)
def test_figures_and_tables_stand_in_the_order_of_the_code(before: list[int], order: str):
    result = shown(before)
    assert "".join("T" if each.type == "display" else "F" for each in media(result)) == order
    text = drawn(result=result)["text/html"]
    places = [(i, "T") for i in range(len(text)) if text.startswith("<table", i)]
    places += [(i, "F") for i in range(len(text)) if text.startswith("<img", i)]
    assert "".join(sign for _, sign in sorted(places)) == order


def test_results_of_runs_that_were_saved_without_an_order_are_drawn_as_they_were():
    execution = done(call("c1", "run_python", {}), "", result=shown([1]))
    saved = run((Step(number=1, executions=(execution,)),)).to_dict()
    result = saved["steps"][0]["executions"][0]["result"]
    del result["displays"][0]["images_before"], result["advice"]
    (read,) = Run.from_dict(saved).results
    assert [each.type for each in media(read)] == ["display", "image"]


@pytest.mark.parametrize("kind", ["text/html", "text/plain"])
def test_a_dry_run_shows_the_code_and_no_tick(kind: str):
    text = drawn(dry_run=True)[kind]
    assert "○" in text
    assert "✓" not in text
    assert "total = 1204" in text
    assert "✓" in drawn()[kind]


def test_a_dry_run_is_unfolded_and_one_that_ran_is_not():
    assert "open><summary>○" in drawn(dry_run=True)["text/html"]
    assert "open><summary>" not in drawn()["text/html"]
