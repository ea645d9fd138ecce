"""What a call would change, as it is drawn above its buttons."""

from __future__ import annotations

from typing import Any

import pytest

from ipyagent.schema import (
    DecidedBy,
    FileEffect,
    Preview,
    Rehearsal,
    RehearsalOutcome,
    Run,
    Step,
    ToolCall,
    ToolExecution,
    ToolResult,
    ToolStatus,
    VariableChange,
)
from ipyagent.ui.plain_text import render, request_text, summarize
from ipyagent.ui.static_html import run_html
from ipyagent.ui.transcribe.call import CallContext, transcribe_call
from ipyagent.ui.transcribe.run import transcribe

CODE = "df['ratio'] = 1"
RATIO = VariableChange(name="df", change="changed", type="DataFrame", summary="+ ratio (float64)")
KEPT = VariableChange(
    name="model", change="changed", type="Model", kept="changes inside a Model cannot be taken back"
)
DIFF = "--- /dev/null\n+++ b/notes.md\n@@ -0,0 +1 @@\n+# Notes\n"
REHEARSAL = Rehearsal(
    outcome=RehearsalOutcome.CHANGES,
    variables=(RATIO, KEPT),
    files=(FileEffect(path="notes.md", change="created", diff=DIFF),),
    texts=("tried to open a connection\u202e",),
    result=ToolResult(output="one\ntwo"),
)


def asked(**changes: Any) -> ToolExecution:
    given: dict[str, Any] = {"rehearsal": REHEARSAL, "status": "awaiting_approval", **changes}
    call = ToolCall(id="c1", name="run_python", arguments={"code": CODE})
    preview = Preview(kind="code", text=CODE, language="python")
    return ToolExecution(call=call, sensitive=True, preview=preview, **given)


def effects_of(execution: ToolExecution) -> Any:
    return transcribe_call(execution, CallContext(is_live=True)).effects


def facts_of(execution: ToolExecution) -> tuple[str, ...]:
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
    assert effects.lines[2].diff == DIFF
    assert (effects.shown_title, effects.shown.output) == (
        "What it put out there: 2 lines", "one\ntwo",
    )  # fmt: skip


def test_a_question_whose_effects_are_not_known_does_not_call_them_changes():
    effects = effects_of(
        asked(rehearsal=REHEARSAL.model_copy(update={"variables": (), "files": ()}))
    )
    assert effects.title == "Tried on a copy of the kernel, which cannot show all that it does:"
    assert [line.text for line in effects.lines] == ["tried to open a connection⟨U+202E⟩"]


def test_code_that_asks_to_be_kept_says_so_in_words():
    call = ToolCall(id="c1", name="run_python", arguments={"code": CODE, "keep": True})
    drawn = transcribe_call(asked().model_copy(update={"call": call}), CallContext(is_live=True))
    shown = {each.name: each.value for each in drawn.request.shown}
    assert shown == {"keep": "true · what it makes is to be kept in your kernel"}


def test_every_front_end_shows_them_before_the_decision():
    execution = asked()
    run = Run(id="r", status="running", steps=(Step(number=1, executions=(execution,)),))
    drawn = transcribe(run)
    for text in (request_text(execution, color=False), run_html(drawn)):
        for part in ("ratio (float64)", "Notes", "tried to open", "two"):
            assert part in text


@pytest.mark.parametrize(
    ("status", "says"),
    [
        (ToolStatus.AWAITING_APPROVAL, "it would change:"),
        (ToolStatus.DENIED, "it would have changed:"),
    ],
)
def test_the_effects_of_a_denied_call_are_no_open_question(status: ToolStatus, says: str):
    assert effects_of(asked(status=status)).title == f"Tried on a copy of the kernel; {says}"


def test_code_that_could_not_be_tried_says_why():
    skipped = Rehearsal(outcome=RehearsalOutcome.SKIPPED, reason="it took longer than 2 s")
    effects = effects_of(asked(rehearsal=skipped))
    assert (effects.title, effects.lines) == ("Not tried on a copy: it took longer than 2 s", ())


def test_a_long_list_is_cut_and_counted():
    many = tuple(VariableChange(name=f"v{n}", change="created") for n in range(40))
    effects = effects_of(asked(rehearsal=REHEARSAL.model_copy(update={"variables": many})))
    assert sum(line.text.startswith("v") for line in effects.lines) == 30
    assert "… 10 more" in [line.text for line in effects.lines]


def test_a_call_that_differed_says_so_in_its_line_and_how_behind_it():
    compared = "not as rehearsed: also set PATH\u202e"
    rehearsal = REHEARSAL.model_copy(update={"compared": compared, "differs": True})
    result = ToolResult(output="done")
    execution = asked(status=ToolStatus.SUCCESS, result=result, rehearsal=rehearsal)
    assert facts_of(execution)[-1] == "not as rehearsed: also set PATH⟨U+202E⟩"
    run = Run(id="r", status="done", steps=(Step(number=1, executions=(execution,)),))
    drawn = transcribe(run)
    [line, *_] = run_html(drawn).split("<strong>run_python")[1].split("</summary>")
    assert "<mark>not as rehearsed</mark>" in line
    for text in (summarize(drawn), render(drawn)):
        assert "run_python [not as rehearsed]" in text
    assert effects_of(execution) is None


def test_a_look_is_not_compared():
    looked = Rehearsal(outcome=RehearsalOutcome.LOOKED)
    execution = asked(
        rehearsal=looked,
        status=ToolStatus.SUCCESS,
        result=ToolResult(output="1"),
        decided_by=DecidedBy.REHEARSAL,
    )
    assert facts_of(execution) == ()
    assert effects_of(execution) is None
