"""A run as text while it happens, and the prose in it."""

from __future__ import annotations

import html
import json
import sys
import unicodedata
from pathlib import Path
from typing import Any

import hostile
import pytest
from hypothesis import given, strategies as st
from inspection import controls
from sample import (
    BEGUN,
    call,
    done,
    figure,
    one_call,
    render,
    run,
    run_html,
    said,
    sample_run,
    text,
)
from test_details import written

from harness import Follower
from ipyagent import schema as s
from ipyagent.plaintext import reveal_prose, strip_escapes
from ipyagent.ui.plain_text import request_text
from ipyagent.ui.plain_view import PlainView, ProseFilter
from ipyagent.ui.reveal import reveal, reveal_diff

# What erases or overwrites earlier text cannot do so once that is written.
STREAMED = [p for p in hostile.TERMINAL if "\r" not in p and "\x1b[2K" not in p]


FIRST = (BEGUN, s.StepStarted(step=1), s.MessageStarted(step=1))


def delta(piece: str, kind: str = "text") -> s.MessageDelta:
    return s.MessageDelta.model_validate({"step": 1, "kind": kind, "text": piece})


def ended(words: str, **changes: object) -> s.MessageFinished:
    return s.MessageFinished.model_validate({"step": 1, "message": said(text(words)), **changes})


def running(code: str, **changes: object) -> s.ToolExecution:
    asked = call("c1", "run_python", {"code": code})
    preview = s.Preview(kind="code", text=code, language="python")
    return s.ToolExecution.model_validate(
        {"call": asked, "sensitive": True, "preview": preview} | changes
    )


def test_text_is_written_as_it_arrives():
    parts: list[str] = []
    view = Follower(PlainView(parts.append, color=False))
    for event in (*FIRST, delta("Rev"), delta("enue")):
        view(event)
    assert parts[-2:] == ["Rev", "enue"]
    view(ended("Revenue"))
    assert "".join(parts).endswith("\nRevenue\n")
    assert "".join(parts).count("Revenue") == 1


def test_a_reply_that_did_not_stream_is_written_whole():
    assert written(*FIRST, ended("Revenue")).endswith("\nRevenue\n")


@pytest.mark.spec("M13")
def test_thinking_streams_dimmed_in_colour_and_folds_to_a_line_without():
    events = (*FIRST, delta("hm, hm", "thinking"), delta("42"), ended("42"))
    assert written(*events).endswith("Thinking… (<1 s)\n42\n")
    assert "\x1b[2mhm, hm\x1b[0m\n42\n" in written(*events, color=True)


def test_a_retry_is_told_and_what_came_before_stands_apart():
    retry = s.RetryScheduled(step=1, attempt=1, of=2, delay=1, reason="Overloaded.")
    out = written(
        *FIRST, delta("Rev"), retry, s.MessageStarted(step=1), delta("Revenue"), ended("x")
    )
    assert out.endswith("Rev\nOverloaded. Retry 1/2 in 1.0 s.\nRevenue\n")


def test_a_call_is_one_line_where_that_says_it_all():
    look = done(call("c1", "inspect_variable", {"name": "sales"}), "18,204 rows", duration=0.0123)
    out = written(
        *FIRST, s.ToolStarted(step=1, execution=look), s.ToolFinished(step=1, execution=look)
    )
    assert out.endswith("\n✓ inspect_variable sales → 18,204 rows  0.01 s\n")


def test_the_whole_call_is_shown_before_the_question_and_the_decision_after():
    code = "\n".join(f"step_{n}()" for n in range(200))
    waiting = running(code)
    asked = s.ApprovalRequested(step=1, call_id="c1", approval_id="a1")
    out = written(*FIRST, s.ToolStarted(step=1, execution=waiting), asked)
    assert out.endswith("\n  │ step_199()\n")
    assert all(f"  │ step_{n}()\n" in out for n in range(200))
    approved = s.ApprovalDecided(
        step=1, call_id="c1", decision=s.Decision.APPROVED, by=s.DecidedBy.PROMPT
    )
    started = s.ToolStarted(step=1, execution=waiting)
    go = s.ToolRunning(step=1, call_id="c1")
    out = written(*FIRST, started, asked, approved, go)
    assert out.endswith("step_199()\n  approved by you\n")


def test_a_call_that_nobody_was_asked_about_is_shown_in_full_before_it_runs():
    auto = running("x = 1\ny = 2", decision=s.Decision.AUTO, decided_by=s.DecidedBy.POLICY)
    out = written(
        *FIRST, s.ToolStarted(step=1, execution=auto), s.ToolRunning(step=1, call_id="c1")
    )
    assert "▶ run_python runs, auto (confirm-sensitive):\n  │ x = 1\n  │ y = 2\n" in out


def test_a_look_does_not_say_that_it_runs():
    look = running("x", decision=s.Decision.AUTO, decided_by=s.DecidedBy.REHEARSAL, reason="looked")
    out = written(
        *FIRST, s.ToolStarted(step=1, execution=look), s.ToolRunning(step=1, call_id="c1")
    )
    assert "▶ run_python, looked:\n  │ x\n" in out


def test_code_and_diffs_are_coloured_and_never_changed():
    code = "\n\nx = '''a\nb'''  # \u202e\n\n"
    coloured = request_text(running(code), color=True)
    assert "\x1b[" in coloured
    assert "⟨U+202E⟩" in coloured
    assert strip_escapes(coloured) == request_text(running(code), color=False)
    diff = s.Preview(kind="diff", text="-old\n+new")
    edit = s.ToolExecution(call=call("c1", "edit_file", {}), preview=diff)
    assert "\x1b[" in request_text(edit, color=True)
    unknown = s.Preview(kind="code", text="x", language="klingon")
    assert request_text(edit.model_copy(update={"preview": unknown}), color=True).endswith("│ x")


def test_a_call_without_preview_shows_its_arguments():
    fetch = s.ToolExecution(call=call("c1", "fetch", {"url": "https://x.example", "n": 2}))
    shown = request_text(fetch, color=False)
    assert shown == "? fetch wants to run:\n  │ url: https://x.example\n  │ n: 2"
    alone = s.ToolExecution(call=call("c1", "delete_file", {"path": "a.txt"}))
    assert request_text(alone, color=False) == "? delete_file wants to run:\n  │ path: a.txt"


@pytest.mark.parametrize(
    ("output", "rest"),
    [
        ("\n".join(f"line {n}" for n in range(100)), "60 more lines"),
        ("x" * 7_000, "2,000 more characters"),
    ],
)
def test_long_output_is_cut_and_says_where_the_rest_is(output: str, rest: str):
    looks = [done(call(f"c{n}", "look", {}), f"{n}") for n in range(2)]
    long = done(call("c2", "read_file", {"path": "log"}), output)
    told = render(one_call(*looks, long))
    assert f"… {rest}; the full text is in ipyagent.last.results[2].output" in told
    assert len(told) < 6_000


def test_calls_that_end_in_any_order_name_their_own_results():
    long = "\n".join("x" * 60)
    calls = [call(f"c{n}", f"tool_{n}", {}) for n in range(2)]
    started = [s.ToolStarted(step=1, execution=s.ToolExecution(call=each)) for each in calls]
    ends = [s.ToolFinished(step=1, execution=done(each, long)) for each in calls]
    out = written(*FIRST, *started, ends[1], ends[0])
    assert out.index("results[1]") < out.index("results[0]")


def test_services_that_number_calls_anew_in_each_reply_confuse_nothing():
    first, second = running("one = 1"), running("two = 2" * 50)
    asked = s.ApprovalRequested(step=1, call_id="c1", approval_id="a1")
    result = s.ToolResult(output="line\n" * 200)
    ends = second.model_copy(update={"status": s.ToolStatus.SUCCESS, "result": result})
    out = written(
        *FIRST,
        s.ToolStarted(step=1, execution=first),
        asked,
        s.ToolFinished(step=1, execution=first.model_copy(update={"result": result})),
        s.StepStarted(step=2),
        s.MessageStarted(step=2),
        s.ToolStarted(step=2, execution=second),
        s.ToolRunning(step=2, call_id="c1"),
        s.ToolFinished(step=2, execution=ends),
    )
    assert "run_python runs" in out
    assert "results[0]" in out
    assert "results[1]" in out


def test_images_are_named_with_their_size():
    assert "  [image, 480×200 pixels]\n" in render(sample_run())


def test_an_image_that_its_output_names_is_named_once():
    result = s.ToolResult(output="a\n[image, 480×200 pixels]\nb", images=(figure(),))
    plotted = one_call(done(call("c1", "run_python", {"code": "plot()"}), "", result=result))
    assert render(plotted).count("[image, 480×200 pixels]") == 1


@pytest.mark.spec("A35")
def test_the_last_line_says_how_it_went():
    last = render(sample_run()).splitlines()[-1]
    assert last.startswith("done · 12.3 s · 4,400 tokens in, 634 out · $0.020")
    failed = s.RunFinished(
        status=s.RunStatus.ERROR,
        stop_reason=s.StopReason.ERROR,
        error="No key.\nSet one.",
        duration=2,
    )
    assert written(BEGUN, failed).endswith("failed · 2.00 s\nNo key.\nSet one.\n")


def test_a_finished_run_reads_as_it_did_live():
    looked = done(call("c1", "look", {"x": 1}), "a\nb")
    message = said(s.ThinkingContent(thinking="hm"), text("I look."), looked.call)
    step = s.Step(number=1, message=message, thinking_seconds=0.2, executions=(looked,))
    live = written(
        *FIRST,
        delta("hm", "thinking"),
        delta("I look."),
        s.MessageFinished(step=1, message=message, thinking_seconds=0.2),
        s.ToolStarted(step=1, execution=looked),
        s.ToolFinished(step=1, execution=looked),
        s.RunFinished(status=s.RunStatus.DONE, stop_reason=s.StopReason.FINISHED, duration=12.34),
    )
    assert live.replace("Thinking… (", "Thinking (") == render(run((step,))) + "\n"


def test_an_unfinished_run_can_be_told():
    unfinished = running("x", status=s.ToolStatus.AWAITING_APPROVAL)
    going = one_call(unfinished, status=s.RunStatus.RUNNING, stop_reason=None)
    assert "? run_python wants to run:\n  │ x" in render(going)


@pytest.mark.spec("D5", "H17")
def test_no_escape_gets_through_wherever_a_chunk_ends():
    naive = passed = 0
    for payload in hostile.TERMINAL:
        for cut in range(len(payload) + 1):
            pieces = (payload[:cut], payload[cut:])
            naive += bool(controls("".join(pieces)))
            out = written(*FIRST, *map(delta, pieces), ended(payload))
            assert not controls(out), (payload, cut)
            passed += 1
    assert naive == passed > 100


@pytest.mark.spec("H17")
@pytest.mark.parametrize("payload", STREAMED)
def test_a_sequence_in_pieces_goes_as_entirely_as_a_whole_one(payload: str):
    text = f"before {payload} after\nnext"
    careless = [strip_escapes(text[:n]) + strip_escapes(text[n:]) for n in range(len(text))]
    assert any(each != strip_escapes(text) for each in careless) or payload == "\x07\x08\x7f"
    for cut in range(len(text)):
        filtered = ProseFilter()
        assert filtered.feed(text[:cut]) + filtered.feed(text[cut:]) + filtered.flush() == (
            strip_escapes(text)
        )
    filtered = ProseFilter()
    assert "".join(map(filtered.feed, text)) + filtered.flush() == strip_escapes(text)


def test_a_sequence_that_never_ends_does_not_hold_back_the_rest():
    filtered = ProseFilter()
    out = filtered.feed("\x1b]0;") + "".join(filtered.feed("word ") for _ in range(2_000))
    assert len(out) > 3_000
    assert not controls(out)


@pytest.mark.spec("D5", "H17")
@pytest.mark.parametrize("color", [False, True])
def test_everything_else_is_free_of_escapes_too(color: bool, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "124")  # as wide as text without a terminal
    for payload in [*hostile.TERMINAL, *hostile.HIDDEN]:
        full = hostile.run_full_of(payload)
        assert not controls(render(full))
        execution = full.steps[0].executions[0]
        shown = strip_escapes(request_text(execution, color=color))
        assert shown == request_text(execution, color=False)
        out = written(
            s.RunStarted(run=full),
            s.RunFinished(
                status=s.RunStatus.ERROR, stop_reason=s.StopReason.ERROR, error=payload, duration=1
            ),
            color=color,
        )
        assert not controls(strip_escapes(out))
        own = {"\x1b"} if color else set()
        assert controls(out) <= own


def test_the_error_of_a_failed_call_and_its_output_are_both_told():
    error = s.ToolResult(success=False, error="broke", output="half")
    failed = done(call("c1", "look", {}), "", status=s.ToolStatus.FAILED, result=error)
    told = render(one_call(failed))
    assert "✗ look  0.50 s\n  broke\n  half\n" in told


@pytest.mark.parametrize("color", [True, False])
def test_the_last_lines_of_a_running_call_are_overwritten_where_that_can_be(color: bool):
    started = running("train()")
    events = (*FIRST, s.ToolStarted(step=1, execution=started), s.ToolRunning(step=1, call_id="c1"))
    outputs = [
        s.ToolOutput(step=1, call_id="c1", text=text) for text in ("one", "two\u202e\nthree")
    ]
    result = s.ToolFinished(
        step=1,
        execution=started.model_copy(
            update={"status": s.ToolStatus.SUCCESS, "result": s.ToolResult(output="all")}
        ),
    )
    before, during = written(*events, color=color), written(*events, *outputs, color=color)
    live = during.removeprefix(before)
    after = written(*events, *outputs, result, color=color).removeprefix(during)
    if color:
        assert (
            strip_escapes(live.replace("\x1b[1A\r\x1b[J", "^"))
            == "  one\n^  two⟨U+202E⟩\n  three\n"
        )
        assert after.startswith("\x1b[2A\r\x1b[J")
    else:
        assert (live, "\x1b" in after) == ("", False)


@pytest.mark.parametrize("color", [True, False])
def test_a_call_that_is_being_written_is_a_line_that_is_overwritten_where_that_can_be(color: bool):
    def piece(written_text: str, number: int = 0) -> s.MessageDelta:
        call_of = {
            "kind": "call",
            "call": number,
            "name": f"run{number}\u202e",
            "text": written_text,
        }
        return s.MessageDelta.model_validate({"step": 1} | call_of)

    begin = (*FIRST, delta("I look."))
    pieces = [piece("a = 1\nb"), piece(" = 2\nc = 3"), piece("x", 1)]
    before, during = written(*begin, color=color), written(*begin, *pieces, color=color)
    live = strip_escapes(during.removeprefix(before).replace("\x1b[1A\r\x1b[J", "^"))
    lines = [f"  ▸ run0⟨U+202E⟩ · writing… {n} lines\n" for n in (2, 3)]
    last = "  ▸ run1⟨U+202E⟩ · writing… 1 line\n"
    assert live == ("\n" + "^".join([*lines, lines[1] + last]) if color else "")
    whole = written(*begin, *pieces, ended("I look."), color=color)
    assert whole.count("I look.") == 1
    assert whole.removeprefix(during) == ("\x1b[2A\r\x1b[J" if color else "\n")


HIDING = {
    "an override": ("report\u202efdp.exe", "report⟨U+202E⟩fdp.exe"),
    "an embedding": ("a\u202bb\u202c", "a⟨U+202B⟩b⟨U+202C⟩"),
    "an isolate": ("a\u2066b\u2069", "a⟨U+2066⟩b⟨U+2069⟩"),
    "a zero-width space": ("pay\u200bpal", "pay⟨U+200B⟩pal"),
    "a joiner between Latin letters": ("pay\u200dpal", "pay⟨U+200D⟩pal"),
    "a selector after a letter": ("a\ufe0fb", "a⟨U+FE0F⟩b"),
    "a directional mark in Latin text": ("a\u200fb", "a⟨U+200F⟩b"),
    "a soft hyphen": ("a\u00adb", "a⟨U+00AD⟩b"),
    "a tag": ("a\U000e0041b", "a⟨U+E0041⟩b"),
    "words in tags behind a flag": ("🏴\U000e0068\U000e0069", "🏴⟨U+E0068⟩⟨U+E0069⟩"),
    "a filler": ("a\u3164b", "a⟨U+3164⟩b"),
    "an override beside Hebrew": ("שלום \u202eabc", "שלום ⟨U+202E⟩abc"),
}


HONEST = [
    "Größe ≥ 3, naïve café",
    "👩\u200d💻 ❤\ufe0f 1\ufe0f\u20e3 ⚠\ufe0f 🏳\ufe0f\u200d🌈 👨\u200d👩\u200d👧",
    "🤷🏽\u200d♀\ufe0f ©\ufe0f",
    "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",
    "می\u200cخواهم",
    "क्\u200dष and क्\u200cष",
    "שלום\u200f (abc)!",
    "مرحبا\u200e 12",
    "ไทย\u200bไทย",
    "葛\U000e0100城",
    "⠀⣀⣤⣶",
]


def views(words: str) -> dict[str, str]:
    """The words as an answer, in all views that are text, with its thinking."""
    message: s.Message = said(s.ThinkingContent(thinking=words), text(words))
    kept = run((s.Step(number=1, message=message, thinking_seconds=1.0),), verbose=1)
    return {
        "HTML": html.unescape(run_html(kept)),
        "text": render(kept),
    }


@pytest.mark.spec("D5", "H17")
@pytest.mark.parametrize(("words", "shown"), HIDING.values(), ids=HIDING)
def test_what_hides_is_spelt_out_in_answers_and_thinking(words: str, shown: str):
    assert reveal_prose(words) == shown
    for view, seen in views(words).items():
        assert seen.count(shown) == 2, view
        assert words not in seen, view


@pytest.mark.parametrize("words", HONEST)
def test_what_a_script_needs_stays(words: str):
    assert reveal_prose(words) == words
    for view, seen in views(words).items():
        assert seen.count(words) == 2, view


def test_an_entity_does_not_hide_either():
    seen = views("report&#8238;fdp.exe")
    assert seen["HTML"].count("report⟨U+202E⟩fdp.exe") == 2


@pytest.mark.parametrize("words", [*(words for words, _ in HIDING.values()), *HONEST])
def test_prose_in_pieces_reads_as_a_whole_one_does(words: str):
    for cut in range(len(words) + 1):
        prose = ProseFilter()
        seen = prose.feed(words[:cut]) + prose.feed(words[cut:]) + prose.flush()
        if "\U000e0067" not in words:  # the flag of a country in Britain: cut, it is spelt out
            assert seen == reveal_prose(words), cut


# Every character that hides


CASES = json.loads(Path(__file__).with_name("reveal_cases.json").read_text(encoding="utf-8"))


def text_of(case: dict[str, Any]) -> str:
    """The case's text; a pair in it is a string and how often it is repeated."""
    parts = case["text"]
    return "".join(part if isinstance(part, str) else part[0] * part[1] for part in parts)


@pytest.mark.spec("H17")
@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_text_is_drawn_as_the_table_says(case: dict[str, Any]):
    draw = reveal_diff if case.get("diff") else reveal
    assert draw(text_of(case)) == case["shown"]
    assert draw(case["shown"]) == case["shown"]


@pytest.mark.spec("H17")
@given(text=st.text(alphabet="a \n", max_size=120))
def test_a_text_with_nothing_hidden_is_drawn_as_if_there_was(text: str):
    plain, hidden = reveal(f"{text}\nend"), reveal(f"{text}\nend\u200b")
    assert f"{plain}⟨U+200B⟩" == hidden


@pytest.mark.spec("H17")
def test_every_character_that_hides_is_named_between_letters():
    kinds = {"Cc", "Cf", "Cs", "Zl", "Zp"}
    hidden = [c for c in map(chr, range(sys.maxunicode + 1)) if unicodedata.category(c) in kinds]
    missed = [c for c in hidden if c not in "\n\t" and reveal(f"a{c}b") != f"a⟨U+{ord(c):04X}⟩b"]
    assert len(hidden) > 2_000
    assert not missed
