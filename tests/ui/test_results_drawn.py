"""What a call showed is drawn in the order of its code, and a dry run as what it is."""

from __future__ import annotations

from typing import Any

import pytest
from pictures import render
from sample import call, done, figure, run

from ipyagent.schema import Display, Run, Step, ToolResult
from ipyagent.ui.static_html import saved_bundle
from ipyagent.ui.transcribe.result import transcribe_result
from ipyagent.ui.transcript import Media

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
