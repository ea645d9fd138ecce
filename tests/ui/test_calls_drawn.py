"""Calls as they are drawn: their line, their result, their effects, and looks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from bs4 import BeautifulSoup
from sample import call, done, figure, one_call, render, run, run_html
from test_plain_view import FIRST, ended, running, written

from harness import Follower, Lab, call as reply
from ipyagent import schema as s
from ipyagent.plaintext import strip_escapes
from ipyagent.tools.result_conversion import truncate_result
from ipyagent.ui.blocks import call_html
from ipyagent.ui.plain_text import approval_text, request_text, summarize
from ipyagent.ui.static_html import saved_bundle, tool_result_bundle
from ipyagent.ui.transcribe import Live, transcribe
from ipyagent.ui.transcribe.call import CallContext, transcribe_call
from ipyagent.ui.transcribe.call_texts import (
    TOUCHED,
    summarize_call,
    summarize_result,
    transcribe_result,
    variables_text,
)
from ipyagent.ui.transcript import Media, Transcript
from ipyagent.values.describe import compact_value, describe

DIFF = """--- a/pipeline.py
+++ b/pipeline.py
@@ -1,3 +1,5 @@
 import pandas as pd
-df = df.dropna()
+df = df.dropna(subset=["a"])
+-- no option
+x = 1
"""


POLARS = s.Display(data={"text/html": "<small>shape: (1_200, 2)</small>"})


LONG = truncate_result(s.ToolResult(output="row\n" * 3_000), tool="run_python", save=None)


SMALL = pd.DataFrame({"a": [1, 2, 3], "b": ["x", "y", "z"]})
SPLIT = SMALL.to_json(orient="split", index=False)


def drawn(table: object) -> s.Display:
    return s.Display(data={"text/html": table._repr_html_(), "text/plain": repr(table)})


def execution(
    name: str, result: s.ToolResult | None = None, **arguments: object
) -> s.ToolExecution:
    return done(call("c1", name, arguments), "", result=result)


def test_a_line_for_the_user_alone_is_a_remark_below_what_the_model_read() -> None:
    read, author = "total: int64 = 66", "created · your cell [3] · total = 66"
    result = s.ToolResult(output=f"{read}\n{author}", for_model=read)
    inspected = done(call("c1", "inspect_variable", {"name": "total"}), "", result=result)
    drawn = transcribe_call(inspected, CallContext())
    assert (drawn.outcome, drawn.facts) == (read, (author,))
    assert (drawn.result.output, drawn.result.for_model) == (read, None)
    assert author in tool_result_bundle(result)["text/plain"]


def test_a_change_is_told_by_its_lines() -> None:
    preview = s.Preview(kind="diff", text=DIFF)
    edit = execution("edit_file", path="pipeline.py", old_string="df", new_string="x")
    assert summarize_call(edit.model_copy(update={"preview": preview})) == "pipeline.py +3 −1"
    script = execution("python_script", path="a.py", content="x = 1")
    assert summarize_call(script) == "a.py, content=x = 1"


@pytest.mark.parametrize(
    ("result", "line"),
    [
        (s.ToolResult(output=repr(SMALL), displays=(drawn(SMALL),)), "3 rows × 2"),
        (s.ToolResult(displays=(drawn(SMALL), drawn(SMALL[:1]))), "1 row × 2"),
        (s.ToolResult(output=repr(SMALL.style), displays=(drawn(SMALL.style),)), "3 rows × 2"),
        (s.ToolResult(displays=(drawn(pd.concat([SMALL] * 900)),)), "2,700 rows × 2"),
        (
            s.ToolResult(displays=(s.Display(data={"text/html": "shape: (1_200, 2)"}),)),
            "1,200 rows × 2",
        ),
        (s.ToolResult(output=repr(SMALL.groupby("b").a.sum())), "3 values"),
        (s.ToolResult(output=repr(SMALL.a), displays=(drawn(SMALL[["a"]]),)), "3 values"),
        (s.ToolResult(output=repr(pd.Series(range(400)))), "400 values"),
        (s.ToolResult(output="[image, 5×5 pixels]", images=(figure(),)), ""),
        (s.ToolResult(output="42"), "42"),
        (s.ToolResult(output="a.csv\nb.csv"), "a.csv · b.csv"),
        (s.ToolResult(output=describe("sales", SMALL, detail=True)), "3 rows × 2"),
        (s.ToolResult(output=compact_value(SMALL, "")), "3 rows × 2"),
        (s.ToolResult(output=compact_value(SMALL[:1], "")), "1 row × 2"),
        (s.ToolResult(output=f"[3, 2]\n{SPLIT}"), "3 rows × 2"),
        (s.ToolResult(output=f"{SPLIT[:9]} is its beginning"), f"{SPLIT[:9]} is its beginning"),
        (s.ToolResult(output=f"{SPLIT[:30]}\n…"), f"{SPLIT[:30]} · …"),
        (s.ToolResult(output=SPLIT[:30]), SPLIT[:30]),
        (s.ToolResult(output='{"columns":[],"rows":[]}'), '{"columns":[],"rows":[]}'),
        (s.ToolResult(output='{"columns":[],"data":5}'), '{"columns":[],"data":5}'),
        (s.ToolResult(output='{"columns":[' + "[" * 9_999), '{"columns":[' + "[" * 187 + "…"),
        (s.ToolResult(output="a: DataFrame, 3 rows × 2 columns\n" * 40), "40 lines"),
        (s.ToolResult(output="line\n" * 40), "40 lines"),
        (LONG, "3,000 lines"),
        (s.ToolResult.failure("KeyError: 'a'\nmore"), "KeyError: 'a'"),
        (s.ToolResult(output=""), ""),
    ],
)
def test_a_result_is_told_by_its_size(result: s.ToolResult, line: str) -> None:
    assert summarize_result(result) == line


def test_the_outcome_of_a_task_is_its_answer_not_what_it_showed() -> None:
    html = '<table border="1" class="dataframe"><tbody><tr><td>7</td></tr></tbody></table>'
    table = s.Display(data={"text/html": html, "text/plain": "7"})
    child = s.ChildRun(runs=("task",))
    result = s.ToolResult(output="all", for_model="Seven.", displays=(table,), child=child)
    assert summarize_result(result) == "Seven."


def test_both_stand_in_the_line_of_a_call() -> None:
    ran = execution("run_python", s.ToolResult(displays=(drawn(SMALL),)), code="df.head(3)")
    shown = transcribe_call(ran, CallContext())
    assert (shown.summary, shown.outcome) == ("looks at df: head", "3 rows × 2")


def changes(
    *names: str, change: str = "created", kind: str = "int"
) -> tuple[s.VariableChange, ...]:
    given = [{"name": name, "change": change, "type": kind} for name in names]
    return tuple(s.VariableChange.model_validate(each) for each in given)


def test_changes_of_a_kind_stand_together():
    touched = [
        *changes("df", change="changed", kind="DataFrame, 3 rows"),
        *changes("a", "b"),
        *changes("x", change="deleted", kind=""),
    ]
    assert variables_text(s.ToolResult(variables=tuple(touched))) == (
        "changed: df (DataFrame, 3 rows); created: a (int), b (int); deleted: x"
    )


def test_what_is_different_stands_in_place_of_the_type():
    line = "344 × 8 → 344 × 9 · + ratio (float64)"
    change = s.VariableChange(name="df", change="changed", type="DataFrame, 344 rows", summary=line)
    assert variables_text(s.ToolResult(variables=(change,))) == f"changed: df ({line})"
    marked = change.model_copy(update={"summary": "'a' → '\u202eb'"})
    assert "\u202e" not in variables_text(s.ToolResult(variables=(marked,)))


def test_many_are_counted():
    names = [f"v{number}" for number in range(TOUCHED + 2)]
    assert variables_text(s.ToolResult(variables=changes(*names))).endswith("v9 (int); … 2 more")


def test_a_run_as_text_and_its_mirror_tell_them():
    call = s.ToolCall(id="1", name="run_python", arguments={"code": "x = 1"})
    result = s.ToolResult(output="", variables=changes("x\u202e"))
    done = s.ToolExecution(call=call, status=s.ToolStatus.SUCCESS, result=result)
    run = s.Run(id="r", prompt="Go.", steps=(s.Step(number=1, executions=(done,)),))
    mirrored = saved_bundle(run)
    for text in (render(run), mirrored["text/html"]):
        assert "created: x" in text
        assert "\u202e" not in text


# Results


TABLE = {"text/html": "<table><tr><td>1204</td></tr></table>", "text/plain": "| 1204 |"}


ORDERS = [([0], "TF"), ([1], "FT"), ([0, 1], "TFT"), ([9], "FT"), ([], "F")]


def shown(before: list[int]) -> s.ToolResult:
    displays = tuple(s.Display(data=TABLE, images_before=each) for each in before)
    return s.ToolResult(output="x", images=(figure(),), displays=displays)


def media(result: s.ToolResult) -> tuple[Media, ...]:
    return transcribe_result(result, "run_python").media


def bundle_of(**changes: Any) -> dict[str, Any]:
    execution = done(call("c1", "run_python", {"code": "total = 1204"}), "", **changes)
    of = one_call(execution)
    return {**saved_bundle(of), "text/plain": render(of)}


@pytest.mark.parametrize(("before", "order"), ORDERS)
def test_figures_and_tables_stand_in_the_order_of_the_code(before: list[int], order: str):
    result = shown(before)
    assert "".join("T" if each.type == "display" else "F" for each in media(result)) == order
    text = bundle_of(result=result)["text/html"]
    places = [(i, "T") for i in range(len(text)) if text.startswith("<table", i)]
    places += [(i, "F") for i in range(len(text)) if text.startswith("<img", i)]
    assert "".join(sign for _, sign in sorted(places)) == order


def test_results_of_runs_that_were_saved_without_an_order_are_drawn_as_they_were():
    execution = done(call("c1", "run_python", {}), "", result=shown([1]))
    saved = one_call(execution).to_dict()
    result = saved["steps"][0]["executions"][0]["result"]
    del result["displays"][0]["images_before"], result["advice"]
    (read,) = s.Run.from_dict(saved).results
    assert [each.type for each in media(read)] == ["display", "image"]


@pytest.mark.parametrize("kind", ["text/html", "text/plain"])
def test_a_dry_run_shows_the_code_and_no_tick(kind: str):
    text = bundle_of(dry_run=True)[kind]
    assert "○" in text
    assert "✓" not in text
    assert "total = 1204" in text
    assert "✓" in bundle_of()[kind] or kind == "text/html"


def test_a_dry_run_is_unfolded_and_one_that_ran_is_not():
    assert " open><summary" in bundle_of(dry_run=True)["text/html"]
    assert " open><summary" not in bundle_of()["text/html"]


CODE = "df['ratio'] = 1"


RATIO = s.VariableChange(name="df", change="changed", type="DataFrame", summary="+ ratio (float64)")


KEPT = s.VariableChange(
    name="model", change="changed", type="Model", kept="changes inside a Model cannot be taken back"
)


NEW_FILE = "--- /dev/null\n+++ b/notes.md\n@@ -0,0 +1 @@\n+# Notes\n"


REHEARSAL = s.Rehearsal(
    outcome=s.RehearsalOutcome.CHANGES,
    variables=(RATIO, KEPT),
    files=(s.FileEffect(path="notes.md", change="created", diff=NEW_FILE),),
    texts=("tried to open a connection\u202e",),
    result=s.ToolResult(output="one\ntwo"),
)


def asked(**changes: Any) -> s.ToolExecution:
    given: dict[str, Any] = {"rehearsal": REHEARSAL, "status": "awaiting_approval", **changes}
    call = s.ToolCall(id="c1", name="run_python", arguments={"code": CODE})
    preview = s.Preview(kind="code", text=CODE, language="python")
    return s.ToolExecution(call=call, sensitive=True, preview=preview, **given)


def effects_of(execution: s.ToolExecution) -> Any:
    return transcribe_call(execution, CallContext(is_live=True)).effects


def facts_of(execution: s.ToolExecution) -> tuple[str, ...]:
    return transcribe_call(execution, CallContext(is_live=True)).facts


def test_the_question_lists_variables_files_and_the_rest():
    effects = effects_of(asked())
    assert [(line.change, line.text) for line in effects.lines] == [
        ("changed", "df + ratio (float64)"),
        (
            "changed",
            "model Model · ⚠ cannot be taken back: changes inside a Model cannot be taken back",
        ),
        ("created", "notes.md"),
        ("other", "⚠ cannot be taken back: what code itself does to files"),
        ("other", "tried to open a connection⟨U+202E⟩"),
    ]
    assert effects.lines[2].diff == NEW_FILE
    assert (effects.shown_title, effects.shown.output) == (
        "What it put out there: 2 lines", "one\ntwo",
    )  # fmt: skip


EDIT_OF_CELL = s.Preview(kind="diff", text="@@ -1 +1 @@\n-1\n+2\n", place="cell [3]")
NEW_CELL = s.Preview(kind="code", text="1", language="python", place="below cell [3]")


@pytest.mark.parametrize(
    ("tool", "arguments", "preview", "is_folded"),
    [
        ("edit_cell", {"cell": "0b1-id", "source": "2"}, EDIT_OF_CELL, True),
        ("run_cell", {"cell": "0b1-id"}, NEW_CELL, True),
        ("insert_cell", {"source": "1"}, NEW_CELL, False),
    ],
)
def test_a_question_names_a_cell_and_folds_its_id_into_what_is_sent(
    tool: str, arguments: dict[str, Any], preview: s.Preview, is_folded: bool
):
    waiting = s.ToolExecution(
        call=call("c1", tool, arguments),
        sensitive=True,
        preview=preview,
        status="awaiting_approval",
    )
    soup = BeautifulSoup(run_html(one_call(waiting)), "html.parser")
    exact = soup.select_one(".ia-exact")
    assert (exact is not None) == is_folded
    if exact:
        assert '"0b1-id"' in exact.extract().get_text()
    assert "0b1-id" not in soup.get_text()


def names_in(execution: s.ToolExecution) -> list[str]:
    soup = BeautifulSoup(run_html(one_call(execution)), "html.parser")
    return [tag.get_text() for tag in soup.select(".ia-name")]


def test_a_page_can_open_the_variables_that_are_there_by_their_names():
    kinds: tuple[Any, ...] = ("created", "changed", "deleted")
    changes = [s.VariableChange(name=each, change=each, type="int") for each in kinds]
    odd = s.VariableChange(name="odd\u202e", change="changed", type="int")
    variables = (*changes, odd)
    # What would be created is not there yet, what was deleted is not there any more.
    waiting = asked(rehearsal=REHEARSAL.model_copy(update={"variables": variables}))
    assert names_in(waiting) == ["changed", "deleted"]
    ran = done(waiting.call, "", result=s.ToolResult(variables=variables))
    assert names_in(ran) == ["created", "changed"]


def test_changed_cells_are_shown_before_the_decision_and_after_it():
    cells = "-qty[3]  4\n+qty[3]  99"
    change = RATIO.model_copy(update={"summary": "qty: 1 value changed", "cells": cells})
    waiting = asked(rehearsal=REHEARSAL.model_copy(update={"variables": (change,)}))
    ran = done(waiting.call, "", result=s.ToolResult(variables=(change,)))
    for each in (waiting, ran):
        removed = BeautifulSoup(run_html(one_call(each)), "html.parser").select(".ia-diff-removed")
        assert [tag.get_text().strip() for tag in removed][:1] == ["-qty[3]  4"]
    shown = approval_text(transcribe_call(waiting, CallContext(is_live=True)), color=False)
    assert "      -qty[3]  4\n      +qty[3]  99" in shown


def test_a_question_whose_effects_are_not_known_does_not_call_them_changes():
    effects = effects_of(
        asked(rehearsal=REHEARSAL.model_copy(update={"variables": (), "files": ()}))
    )
    assert effects.title == "Tried on a copy of the kernel, which cannot show all that it does:"
    assert [line.text for line in effects.lines] == ["tried to open a connection⟨U+202E⟩"]


def test_code_that_asks_to_be_kept_says_so_in_words():
    kept = call("c1", "run_python", {"code": CODE, "keep": True})
    drawn = transcribe_call(asked().model_copy(update={"call": kept}), CallContext(is_live=True))
    shown = {each.name: each.value for each in drawn.request.shown}
    assert shown == {"keep": "true · what it makes is to be kept in your kernel"}


def test_every_front_end_shows_them_before_the_decision():
    execution = asked()
    run = s.Run(id="r", status="running", steps=(s.Step(number=1, executions=(execution,)),))
    for text in (request_text(execution, color=False), run_html(run)):
        for part in ("ratio (float64)", "Notes", "tried to open", "two"):
            assert part in text


@pytest.mark.parametrize(
    ("status", "says"),
    [
        (s.ToolStatus.AWAITING_APPROVAL, "it would change:"),
        (s.ToolStatus.DENIED, "it would have changed:"),
    ],
)
def test_the_effects_of_a_denied_call_are_no_open_question(status: s.ToolStatus, says: str):
    assert effects_of(asked(status=status)).title == f"Tried on a copy of the kernel; {says}"


def test_code_that_could_not_be_tried_says_why():
    skipped = s.Rehearsal(outcome=s.RehearsalOutcome.SKIPPED, reason="it took longer than 2 s")
    effects = effects_of(asked(rehearsal=skipped))
    assert (effects.title, effects.lines) == ("Not tried on a copy: it took longer than 2 s", ())


def test_a_long_list_is_cut_and_counted():
    many = tuple(s.VariableChange(name=f"v{n}", change="created") for n in range(40))
    effects = effects_of(asked(rehearsal=REHEARSAL.model_copy(update={"variables": many})))
    assert sum(line.text.startswith("v") for line in effects.lines) == 30
    assert "… 10 more" in [line.text for line in effects.lines]


def test_a_call_that_differed_says_so_in_its_line_and_how_behind_it():
    compared = "not as rehearsed: also set PATH\u202e"
    rehearsal = REHEARSAL.model_copy(update={"compared": compared, "differs": True})
    result = s.ToolResult(output="done")
    execution = asked(status=s.ToolStatus.SUCCESS, result=result, rehearsal=rehearsal)
    assert facts_of(execution)[-1] == "not as rehearsed: also set PATH⟨U+202E⟩"
    run = s.Run(id="r", status="done", steps=(s.Step(number=1, executions=(execution,)),))
    [line, *_] = run_html(run).split('data-tool="run_python"')[1].split("</summary>")
    assert ">not as rehearsed</mark>" in line
    for text in (summarize(transcribe(run)), render(run)):
        assert "run_python [not as rehearsed]" in text
    assert effects_of(execution) is None


def test_a_look_is_not_compared():
    looked = s.Rehearsal(outcome=s.RehearsalOutcome.LOOKED)
    execution = asked(
        rehearsal=looked,
        status=s.ToolStatus.SUCCESS,
        result=s.ToolResult(output="1"),
        decided_by=s.DecidedBy.REHEARSAL,
    )
    assert facts_of(execution) == ()
    assert effects_of(execution) is None


ON = {"look_freely": True, "rehearse_seconds": 20.0}


TRIED = running("sum(numbers)", rehearsal=s.Rehearsal(outcome=s.RehearsalOutcome.TRYING))


# The process that runs the tests is what is forked: other tests would leave threads in it.
@pytest.mark.alone
@pytest.mark.usefixtures("needs_isolation")
@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("sum(numbers)", "looked · ran on a copy, nothing changed"),
        ("total = sum(numbers)", "looked · ran on a copy, its variables were taken over"),
        ("1 / 0", "looked · ran on a copy and failed, nothing changed"),
    ],
)
def test_a_look_says_that_it_is_one_and_is_never_drawn_as_a_question(
    tmp_path: Path, code: str, words: str
) -> None:
    states: list[Transcript] = []

    def draw(event: s.Event, state: s.RunState) -> None:
        states.append(transcribe(state.run, Live(approvals=state.decisions.pending)))

    lab = Lab(tmp_path, {"numbers": [1, 2, 3]})
    replies = [{"calls": [reply("run_python", code=code)]}, "Done."]
    finished = lab.run(replies, heard=Follower(draw), **ON)
    (shown,) = transcribe(finished).steps[0].calls
    assert (shown.verdict, shown.remarks) == ("looked", (words,))
    assert " looked " in render(finished)
    drawn = [each for state in states for each in state.steps[:1] for each in each.calls]
    assert drawn[0].verdict == "looking…"
    assert [*dict.fromkeys(each.verdict for each in drawn)] == ["looking…", "looked"]
    assert [each for each in drawn if each.approval or each.effects or each.is_open] == []
    assert {each.header.state for each in states} == {"running", "done"}


def test_a_look_that_goes_on_is_a_line_in_a_saved_run() -> None:
    step = s.Step(number=1, executions=(TRIED,))
    drawn = run((step,), status=s.RunStatus.RUNNING, stop_reason=None, duration=None)
    assert ">looking…</em>" in run_html(drawn)
    assert "… run_python works on numbers looking…" in render(drawn)


@pytest.mark.parametrize("color", [True, False])
def test_a_look_that_goes_on_is_a_line_that_its_result_overwrites(color: bool) -> None:
    result = {
        "status": s.ToolStatus.SUCCESS,
        "result": s.ToolResult(output="6"),
        "sensitive": False,
    }
    events = (*FIRST, ended("Sum."), s.ToolStarted(step=1, execution=TRIED))
    done = s.ToolFinished(step=1, execution=TRIED.model_copy(update=result))
    before, during = (written(*each, color=color) for each in (events[:-1], events))
    live, after = during.removeprefix(before), written(*events, done, color=color)
    if color:
        assert strip_escapes(live) == "  … run_python works on numbers looking…\n"
        assert after.removeprefix(during).startswith("\x1b[1A\r\x1b[J")
    else:
        assert (live, "looking" in after) == ("", False)


def test_a_question_that_waits_stands_once_and_one_that_is_answered_is_its_title() -> None:
    question = s.Question(text="Which region?", choices=("North", "South"))
    asks = call("c1", "ask_user", {})
    waits = done(asks, "", question=question, status="awaiting_approval", result=None)
    assert call_html(transcribe_call(waits, CallContext(is_live=True))).count("Which region?") == 1
    answered = waits.model_copy(update={"status": s.ToolStatus.SUCCESS})
    assert transcribe_call(answered, CallContext()).gist.title == "Which region?"


def test_effects_stand_above_what_the_call_has_read_and_its_code() -> None:
    tried = s.Rehearsal(
        outcome="changes", variables=(s.VariableChange(name="df", type="int", change="changed"),)
    )
    asks = done(
        call("c1", "run_python", {"code": "df = 1"}),
        "",
        result=None,
        status="awaiting_approval",
        rehearsal=tried,
        concern="it has read a.csv",
    )
    html = call_html(transcribe_call(asks, CallContext(is_live=True)))
    places = [html.index(each) for each in ("Tried on a copy", "it has read a.csv", "df = 1")]
    assert places == sorted(places)
