"""What is approved is what is shown, in every view that is text."""

from __future__ import annotations

import html
import re
from collections.abc import Callable

import pytest
from deceptions import CONTROLS, EVIL, HARMLESS, deceptions
from pictures import render, run_html
from sample import call, done, run

from ipyagent.plaintext import strip_escapes, visible
from ipyagent.schema import (
    PlanStep,
    Preview,
    Question,
    Run,
    Step,
    ToolCall,
    ToolExecution,
)
from ipyagent.ui.plain_text import request_text

TEXTS = deceptions()
TURNED = re.compile(r"\n *┆ ")


def code_call(text: str) -> ToolExecution:
    """A call whose preview is its code."""
    return ToolExecution(
        call=call("c1", "run_python", {"code": text}),
        sensitive=True,
        preview=Preview(kind="code", text=text, language="python"),
    )


def plain_call(text: str) -> ToolExecution:
    """A call that is shown by its arguments."""
    return ToolExecution(call=call("c1", "send", {"to": "me", "body": text}), sensitive=True)


def nested_call(text: str) -> ToolExecution:
    """A call with the text deep in an argument, and as the name of one."""
    return ToolExecution(call=call("c1", "send", {"a": [{"b": text}], text: 1}), sensitive=True)


def diff_call(text: str) -> ToolExecution:
    """A call that is shown as a diff."""
    diff = "--- /dev/null\n+++ b/a.py\n" + "".join(f"+{line}\n" for line in text.split("\n"))
    return ToolExecution(
        call=call("c1", "write_file", {"path": "a.py", "content": text}),
        sensitive=True,
        preview=Preview(kind="diff", text=diff, language="diff"),
    )


def question(text: str) -> ToolExecution:
    """A question with the text in it and in a choice."""
    asked = Question(text=text, choices=(text, "No"))
    return ToolExecution(call=call("c1", "ask_user", {"question": text}), question=asked)


CALLS = [code_call, plain_call, nested_call, diff_call, question]


def recorded(execution: ToolExecution) -> Run:
    """The run that is kept of the call."""
    ran = done(execution.call, "fine", sensitive=True, preview=execution.preview)
    return run((Step(number=1, executions=(ran,)),), verbose=1)


def planned(of: ToolCall) -> Run:
    return Run(id="p", prompt="Look.", status="draft", plan_id="abc", plan=(PlanStep(call=of),))


def unpainted(execution: ToolExecution) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", request_text(execution, color=True))


VIEWS: dict[str, Callable[[ToolExecution], str]] = {
    "approval": lambda each: request_text(each, color=False),
    "coloured approval": unpainted,
    "plan": lambda each: request_text(planned(each.call), color=False),
    "plan in HTML": lambda each: html.unescape(run_html(planned(each.call))),
    "text of a run": lambda each: render(recorded(each)),
    "HTML of a run": lambda each: html.unescape(run_html(recorded(each))),
}


def missing(text: str, seen: str) -> list[str]:
    """What of the text is not in what is seen: its words in order, the names of its controls."""
    at = 0
    lost = [f"U+{ord(c):04X}" for c in {*text} & {*CONTROLS} if f"U+{ord(c):04X}" not in seen]
    for word in re.findall(r"[!-~]+", visible(text).replace("⟨", " ").replace("⟩", " ")):
        if word.startswith("U+"):
            continue
        at = seen.find(word, at)
        if at < 0:
            return [*lost, word]
        at += len(word)
    return lost


@pytest.mark.spec("P35", "H17")
@pytest.mark.parametrize("make", CALLS, ids=[each.__name__ for each in CALLS])
@pytest.mark.parametrize("view", VIEWS)
def test_all_that_will_run_is_in_what_is_shown(view: str, make: Callable[[str], ToolExecution]):
    if make is question and "run" in view:
        pytest.skip("a question runs nothing")
    lost = {}
    for name, text in TEXTS.items():
        seen = TURNED.sub("", VIEWS[view](make(text)))
        assert not set(seen) & set(CONTROLS), name
        if make is nested_call:  # in JSON most controls are escapes already
            gone = [part for part in ("os.remove('a.csv')", "nothing") if part not in seen]
        else:
            gone = missing(text, seen)
        if gone:
            lost[name] = gone
    assert not lost


def test_a_terminals_reading_would_hide_what_runs():
    played = {name for name, text in TEXTS.items() if missing(text, strip_escapes(text))}
    assert len(played) > 100
    assert {"U+000D within", "OSC ended by BEL", "C1 APC ended by C1 ST", "erase line"} <= played


@pytest.mark.parametrize("color", [False, True])
def test_no_line_of_a_call_begins_where_our_own_words_do(color: bool):
    for text in TEXTS.values():
        for make in (code_call, plain_call, nested_call, diff_call):
            _, *rows = request_text(make(text), color=color).split("\n")
            assert all(row.startswith(("  │ ", "  ┆ ")) for row in rows)
            assert all(len(re.sub(r"\x1b\[[0-9;]*m", "", row)) <= 125 for row in rows)


def test_a_value_of_several_lines_cannot_pass_for_another_argument():
    sent = ToolExecution(call=call("c1", "pay", {"note": "hi\namount: 5", "amount": 500}))
    assert request_text(sent, color=False).split("\n")[1:] == [
        "  │ note:",
        "  │     hi",
        "  │     amount: 5",
        "  │ amount: 500",
    ]


def test_a_long_call_says_in_its_heading_how_long_it_is():
    text = "\n".join(f"x{n} = {n}" for n in range(100))
    assert request_text(code_call(text), color=False).startswith(
        "? run_python wants to run (100 lines):\n"
    )


@pytest.mark.parametrize("flood", ["\n" * 3_000, " " * 4_000, "\u200b" * 3_000, "\u3164" * 4_000])
def test_a_flood_takes_one_row(flood: str):
    shown = request_text(code_call(f"{HARMLESS}{flood}{EVIL}"), color=False)
    assert shown.count("\n") <= 4
    assert EVIL in shown


def test_an_edit_is_shown_once():
    arguments = {"path": "a.md", "old_string": "old words", "new_string": "new words"}
    preview = Preview(kind="diff", text="--- a/a.md\n+++ b/a.md\n-old words\n+new words\n")
    edit = ToolExecution(
        call=call("c1", "edit_file", {**arguments, "replace_all": True}),
        preview=preview,
        sensitive=True,
    )
    for view in ("approval", "coloured approval"):
        seen = VIEWS[view](edit)
        assert seen.count("old words") == seen.count("new words") == 1, view
    for view in ("text of a run", "HTML of a run"):
        seen = VIEWS[view](edit)
        assert "_string: " not in seen, view
        assert seen.count("+new words") == 1, view
        assert "path: a.md" in seen
        assert "replace_all: true" in seen
