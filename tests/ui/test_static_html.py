"""Runs and results as MIME bundles."""

from __future__ import annotations

import base64
import json
import re
from typing import Any

import hostile
import nbformat
import pytest
from bs4 import BeautifulSoup
from inspection import controls, dangers
from IPython.core.interactiveshell import InteractiveShell
from nbconvert import HTMLExporter, MarkdownExporter
from sample import call, done, figure, one_call, run, run_html, said, sample_run, text

from ipyagent import schema as s
from ipyagent.ui import blocks
from ipyagent.ui.plain_text import SUMMARY, render
from ipyagent.ui.static_html import RUN_MIME, saved_bundle, tool_result_bundle
from ipyagent.ui.transcribe import Live, state_of, transcribe
from ipyagent.ui.transcribe.call import GLYPHS


def page(of: s.Run) -> BeautifulSoup:
    return BeautifulSoup(run_html(of), "html.parser")


CLASSES = {
    name
    for each in (sample_run(), hostile.run_full_of("text"), hostile.run_full_of("<td>text"))
    for tag in page(each).select("[class]")
    for name in tag["class"]
}
"""The classes of runs in which nobody tries anything; none is a name of other code's."""

OURS = {
    "class": CLASSES,
    "title": {name for _, name in GLYPHS.values()} | {"would run", "looking"},
    "data-ipyagent": {
        *("run", "tool", "answer", "thinking", "plan", "plan-step", "todos", "effects"),
    },
    "data-state": {"failed", "success", "denied", "pending"},
}


def public(soup: BeautifulSoup, name: str) -> list[str]:
    return [str(tag["data-state"]) for tag in soup.select(f"[data-ipyagent={name}]")]


def told(of: s.Run) -> dict[str, str]:
    """The text of each format as a person reads it."""
    mirrored = saved_bundle(of)
    return {
        "html": BeautifulSoup(str(mirrored["text/html"]), "html.parser").get_text(),
        "plain": render(transcribe(of)),
    }


# The picture of a run


def test_the_bundle_has_a_format_for_every_front_end():
    mirrored = saved_bundle(sample_run())
    assert list(mirrored) == ["text/html", "text/plain", RUN_MIME]
    assert s.Run.from_dict(mirrored[RUN_MIME]).output == sample_run().output
    json.dumps(mirrored)


def test_where_nothing_is_drawn_calls_are_lines_above_the_answer():
    plain = str(saved_bundle(sample_run())["text/plain"])
    assert plain.startswith("ipyagent · anthropic/claude-sonnet · done")
    assert "Revenue fell in **Q3 because of " in plain
    assert "✓ inspect_variable sales → 18,204 rows" in plain
    assert "run_python plots by_region → 2 rows × 2" in plain
    assert len(plain.splitlines()) < 30
    long = run((s.Step(number=1, message=said(text("a" * SUMMARY + "bc"))),))
    assert str(saved_bundle(long)["text/plain"]).endswith("\n" + "a" * SUMMARY + "…")


def test_where_nothing_is_drawn_a_failure_is_read():
    failed = run(
        status=s.RunStatus.ERROR, stop_reason=s.StopReason.ERROR, error="No route to host."
    )
    assert "No route to host." in str(saved_bundle(failed)["text/plain"])


def test_a_notebook_says_a_long_answer_twice():
    """HTML for those who read it, the run for programs; a summary is short."""
    answer = " ".join(f"word{number}" for number in range(2_000))
    of = run((s.Step(number=1, message=said(text(answer))),))
    assert len(json.dumps(of.to_dict())) > len(answer)
    assert len(json.dumps(saved_bundle(of))) < 2.3 * len(answer) + 3_000


def test_a_notebook_holds_a_figure_once():
    figure = base64.b64encode(bytes(range(256)) * 400).decode()
    shown = s.Display(data={"image/png": figure, "text/plain": "<Figure>"})
    sizes = []
    for images, displays in (((), ()), ((s.ImageContent(data=figure),), ()), ((), (shown,))):
        result = s.ToolResult(output="", images=images, displays=displays)
        of = one_call(done(call("call-1", "run_python", {"code": "plot()"}), "", result=result))
        sizes.append(len(json.dumps(saved_bundle(of))))
    assert max(sizes) - sizes[0] < 140_000


@pytest.mark.parametrize("kind", ["html", "plain"])
def test_every_format_tells_the_run_in_the_order_in_which_it_happened(kind: str):
    story = told(sample_run())[kind]
    is_card = kind == "html"
    landmarks = [
        "Hi." if is_card else "ipyagent · anthropic/claude-sonnet",
        "Retry 1/2",
        "Thinking (3 s)",
        "I look at the data first.",
        "inspects variable sales"
        if is_card
        else "✓ inspect_variable sales → 18,204 rows × 9 columns",
        "by_region.plot.bar",
        "975",
        "edits file report.md +1 −1" if is_card else "edit_file",
        "Revenue fell by 49 % in the North.",
        "✗ get report" if is_card else "✗ get_report",
        "ConnectionError: intra.example does not answer",
        "Try again later.",
        "reads file log.txt" if is_card else "✓ read_file",
        "Revenue fell in",
    ]
    assert "approved by you" in story
    assert "denied by you: not the report" in story
    at = 0
    for landmark in landmarks:
        at = story.find(landmark, at)
        assert at >= 0, landmark


def test_a_finished_run_has_no_header_and_one_that_is_on_says_how_far_it_is():
    on = {"status": s.RunStatus.RUNNING, "stop_reason": None, "duration": None}
    assert page(sample_run()).select(".ia-header") == []
    footer = page(sample_run()).select_one(".ia-footer summary")
    assert footer.get_text() == "12.3 s · anthropic/claude-sonnet · details"
    (begun,) = page(run(sample_run().steps, **on)).select(".ia-header")
    assert begun.get_text() == (
        "anthropic/claude-sonnet · unfinished · step 3/20 · 5,034 tok · $0.020"
    )


@pytest.mark.parametrize("kind", ["html", "plain"])
def test_a_run_that_asked_nothing_wears_a_badge(kind: str):
    assert "yolo: runs unasked" in told(run(confirm_mode="yolo"))[kind]
    assert "yolo" not in told(run())[kind]


@pytest.mark.parametrize("kind", ["html", "plain"])
def test_the_data_explorer_says_that_it_is_no_language_model(kind: str):
    assert "not a language model" in told(run(model="offline/explorer"))[kind]


def test_what_the_page_carries_can_be_found():
    soup = page(sample_run())
    assert public(soup, "run") == ["done"]
    assert public(soup, "tool") == ["success", "success", "denied", "failed", "success"]
    tools = [tag["data-tool"] for tag in soup.select("[data-ipyagent=tool]")]
    assert tools[:2] == ["inspect_variable", "run_python"]
    (answer,) = soup.select("[data-ipyagent=answer]")
    assert answer.get_text().strip().startswith("Revenue fell in Q3 because of the North")
    (thinking,) = soup.select("[data-ipyagent=thinking]")
    assert thinking.summary.get_text() == "Thinking (3 s)"


@pytest.mark.spec("M13")
def test_thinking_is_folded_away_and_never_in_the_answer():
    thought = run((s.Step(number=1, message=said(s.ThinkingContent(thinking="hm"), text("42"))),))
    soup = page(thought)
    (thinking,) = soup.select("details[data-ipyagent=thinking]")
    assert not thinking.has_attr("open")
    (answer,) = soup.select("[data-ipyagent=answer]")
    assert answer.get_text().strip() == "42"
    assert "hm" not in told(thought)["plain"]


def test_the_answer_is_the_last_reply_without_calls_of_a_run_that_is_over():
    asking = said(text("Let me look."), call("c1", "look", {}))
    steps = (s.Step(number=1, message=asking), s.Step(number=2, message=said(text("It is 42."))))
    assert page(run(steps)).select_one("[data-ipyagent=answer]").get_text().strip() == "It is 42."
    assert page(run(steps[:1])).select("[data-ipyagent=answer]") == []
    unfinished = run(steps, status=s.RunStatus.RUNNING, stop_reason=None)
    assert page(unfinished).select("[data-ipyagent=answer]") == []


@pytest.mark.spec("A27")
def test_text_is_drawn_as_markdown():
    soup = page(sample_run())
    answer = soup.select_one("[data-ipyagent=answer]")
    assert answer.strong.get_text() == "Q3 because of the North"
    assert [cell.get_text() for cell in answer.select("td")][:2] == ["North", "1,204"]
    assert answer.pre.get_text().startswith("orders.query")


def test_figures_are_in_sight_without_unfolding_anything():
    (image,) = page(sample_run()).select("img")
    assert image["src"].startswith("data:image/png;base64,")
    assert image.find_parent("details") is None


def test_tables_of_user_code_are_drawn_and_their_text_is_not_repeated():
    soup = page(sample_run())
    table, _ = soup.select("table")
    assert [cell.get_text() for cell in table.select("td")] == ["1204", "980", "611", "975"]
    assert table.find_parent("details") is None
    assert soup.get_text().count("1204") == 1
    assert "grouping…" in soup.get_text()


def test_big_text_is_there_once():
    big = "\n".join(f"line {n} of a long output" for n in range(500))
    look = call("c1", "run_python", {"code": "f()"})
    shown = s.Display(data={"text/plain": big})
    said_once = one_call(done(look, "", result=s.ToolResult(output=big, displays=(shown,))))
    assert str(saved_bundle(said_once)["text/html"]).count("line 250 of") == 1


def test_figures_that_are_displays_and_images_are_drawn_once():
    display = s.Display(data={"image/png": figure().data, "text/plain": "<Figure>"})
    result = s.ToolResult(output="<Figure>", images=(figure(),), displays=(display,))
    assert len(page(one_call(done(call("c1", "plot", {}), "", result=result))).select("img")) == 1


def test_what_scripts_would_draw_is_told_as_text():
    scripted = {"text/html": "<div><script>draw()</script></div>", "text/plain": "Chart(42)"}
    result = s.ToolResult(output="Chart(42)", displays=(s.Display(data=scripted),))
    drawn = one_call(done(call("c1", "run_python", {"code": "chart"}), "", result=result))
    assert "Chart(42)" in page(drawn).select("pre")[-1].get_text()


def test_images_of_the_model_are_drawn():
    assert len(page(run((s.Step(number=1, message=said(figure())),))).select("img")) == 1


def test_all_that_a_call_was_given_is_shown_beside_its_preview():
    shell = call("c1", "run_shell", {"command": "ls", "timeout": 3})
    preview = s.Preview(kind="code", text="ls", language="bash")
    story = told(one_call(done(shell, "a\nb", preview=preview)))
    assert "timeout: 3" in story["html"]


@pytest.mark.spec("M21")
def test_one_renderer_shows_success_and_failure():
    failing = call("c1", "read_file", {"path": "x"})
    error = s.ToolResult(success=False, error="no such file\nsee list_files", output="partly read")
    story = told(one_call(done(failing, "", status=s.ToolStatus.FAILED, result=error)))
    assert "✗ reads file x" in story["html"]
    assert "✗ read_file x" in story["plain"]
    for words in ("no such file", "see list_files", "partly read"):
        assert all(words in each for each in story.values())


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({}, "auto (confirm-sensitive)"),
        ({"decision": s.Decision.APPROVED, "decided_by": s.DecidedBy.BUTTON}, "approved by you"),
        ({"decided_by": s.DecidedBy.SESSION}, "allowed for this session"),
        ({"decided_by": s.DecidedBy.FOLDER}, "allowed in this folder"),
        (
            {
                "decision": s.Decision.APPROVED,
                "decided_by": s.DecidedBy.BUTTON,
                "proposed": {"code": "2"},
            },
            "edited and approved by you",
        ),
        (
            {
                "decision": s.Decision.DENIED,
                "decided_by": s.DecidedBy.POLICY,
                "status": s.ToolStatus.DENIED,
                "reason": "nobody can be asked",
                "result": s.ToolResult.failure("denied"),
            },
            "denied: nobody can be asked",
        ),
        ({"decision": s.Decision.EXPIRED, "status": s.ToolStatus.DENIED}, "expired"),
        ({"dry_run": True}, "dry run: nothing was executed"),
    ],
)
def test_a_card_says_how_the_call_was_decided(changes: dict[str, object], sentence: str):
    decided = one_call(done(call("c1", "run_python", {"code": "1"}), "ok", **changes))
    assert sentence in told(decided)["html"]
    if sentence.startswith(("allowed", "edited")):
        assert sentence in transcribe(decided).steps[0].calls[0].verdict


@pytest.mark.parametrize(
    ("reason", "state", "words"),
    [
        (s.StopReason.MAX_STEPS, "partial", "--max-steps"),
        (s.StopReason.INTERRUPTED, "cancelled", "You stopped"),
        (s.StopReason.ERROR, "failed", "no key"),
    ],
)
def test_a_run_that_did_not_finish_says_why(reason: s.StopReason, state: str, words: str):
    status = {"cancelled": s.RunStatus.CANCELLED, "failed": s.RunStatus.ERROR}.get(state)
    error = "There is no key for this model.\nSet one." if state == "failed" else None
    ended = run(status=status or s.RunStatus.DONE, stop_reason=reason, error=error)
    assert state_of(ended) == state
    assert public(page(ended), "run") == [state]
    assert all(words in each for each in told(ended).values())


_CONTINUE, _AGAIN = "`%agent Continue` goes on from here", "To try again, run the cell again."
_ASKED, _ANSWERED = s.Step(number=2), s.Step(number=2, finish_reason="stop")
_LOOKED = one_call(done(call("c1", "list_files", {}), "a.csv")).steps[0]


@pytest.mark.parametrize(
    ("reason", "steps", "way"),
    [
        (s.StopReason.MAX_STEPS, (_LOOKED, _ANSWERED), _CONTINUE),
        (s.StopReason.MAX_SECONDS, (_LOOKED,), _CONTINUE),
        (s.StopReason.MAX_TOKENS, (_LOOKED,), _CONTINUE),
        (s.StopReason.MAX_USD, (_LOOKED,), ""),
        (s.StopReason.ERROR, (_ASKED,), _AGAIN),
        (s.StopReason.ERROR, (_LOOKED, _ASKED), _CONTINUE),
        (s.StopReason.ERROR, (_ANSWERED,), ""),
        (s.StopReason.ERROR, (), ""),
    ],
)
def test_what_to_type_to_go_on_does_nothing_twice(
    reason: s.StopReason, steps: tuple[s.Step, ...], way: str
):
    has_failed = reason is s.StopReason.ERROR
    status = s.RunStatus.ERROR if has_failed else s.RunStatus.DONE
    error = "a/b refused the request.\nCheck the key." if has_failed else None
    ended = run(steps, status=status, stop_reason=reason, error=error)
    for words in (render(transcribe(ended)), saved_bundle(ended)["text/plain"]):
        assert [each for each in (_CONTINUE, _AGAIN) if each in words] == [way] * bool(way)
    button = {_CONTINUE: "continue", _AGAIN: "try-again"}.get(way)
    assert offers_of(ended)["go_on"] == button


def offers_of(of: s.Run) -> Any:
    """What a page offers beside the run once it is saved."""
    saved = saved_bundle(of)[RUN_MIME]
    assert s.Run.from_dict(saved).id == of.id
    return saved["offers"]


def ran(name: str, code: str, language: str = "python", **changes: Any) -> s.ToolExecution:
    preview = s.Preview(kind="code", text=code, language=language)
    arguments = changes.pop("arguments", {})
    return done(call("c1", name, arguments), "", preview=preview, **changes)


@pytest.mark.parametrize(
    ("execution", "source"),
    [
        (ran("run_python", "x = 1\n"), "x = 1"),
        (ran("run_shell", "ls", "bash"), "%%bash\nls"),
        (ran("python_script", "x", arguments={"action": "run"}), "x"),
        (ran("python_script", "x", arguments={"action": "create"}), ""),
        (ran("run_python", "x", dry_run=True), ""),
        (ran("run_python", "select 1", "sql"), ""),
        (ran("write_file", "x"), ""),
        (ran("run_python", "x", result=s.ToolResult.failure("no"), status="failed"), ""),
    ],
)
def test_a_page_is_told_what_code_ran_as_a_cell(execution: s.ToolExecution, source: str):
    assert offers_of(one_call(execution))["sources"] == [source]


def test_a_page_offers_to_undo_what_has_changed_something_and_to_run_its_cells():
    nothing = {"sources": [""], "cells": [], "go_on": None, "undo": None}
    assert offers_of(one_call(done(call("c1", "list_files", {}), "a.csv"))) == nothing
    edited = done(call("c1", "edit_cell", {}), "", result=s.ToolResult(output="", cell="c7"))
    of = one_call(edited)
    assert offers_of(of) == nothing | {"cells": ["c7"], "undo": "undo"}
    undone = of.model_copy(update={"taken_back": ("c1",)})
    assert offers_of(undone) == nothing | {"undo": "redo"}
    live = {"status": s.RunStatus.RUNNING, "stop_reason": None}
    assert offers_of(of.model_copy(update=live)) == nothing


def test_code_in_our_own_words_is_drawn_as_code():
    title, error = "Run `%agent a`.", "Ask `b` <again>.\nOr `c`."
    ended = run(status=s.RunStatus.ERROR, stop_reason=s.StopReason.ERROR, error=error)
    soup = page(ended.model_copy(update={"notes": (title,)}))
    assert [code.get_text() for code in soup.select("code")] == ["%agent a", "b", "c"]
    assert "`" not in soup.get_text()
    assert "<again>" in soup.get_text()


def test_a_run_that_goes_on_says_what_it_waits_for():
    going = run(status=s.RunStatus.RUNNING, stop_reason=None, duration=None)
    assert state_of(going) == "running"
    assert state_of(going, is_asked=True) == "waiting"
    asked = done(
        call("c1", "run_python", {"code": "1"}),
        "",
        status=s.ToolStatus.AWAITING_APPROVAL,
        decision=None,
        decided_by=None,
        result=None,
    )
    step = s.Step(number=1, executions=(asked,))
    waiting = going.model_copy(update={"steps": (step,)})
    assert transcribe(waiting, Live(approvals={"c1": "a1"})).header.state_text == "waiting for you"
    assert transcribe(waiting).header.state_text == "unfinished"
    assert "still on when this was written" in page(waiting).text, "for who reopens the notebook"
    assert transcribe(waiting, Live()).ending is None
    verdicts = [transcribe(waiting, live).steps[0].calls[0].verdict for live in (None, Live())]
    assert verdicts == ["no decision recorded", ""]
    assert state_of(run()) == "done"


# Safety


@pytest.mark.slow
@pytest.mark.spec("D5", "H17", "A27")
def test_nothing_acts_whatever_field_it_comes_through():
    naive = "".join(f"<p>{payload}</p>" for payload in hostile.ALL)
    assert len(dangers(naive)) > 100
    for payload in hostile.ALL:
        mirrored = saved_bundle(hostile.run_full_of(payload))
        assert _dangers(mirrored) == [], payload


@pytest.mark.spec("D5")
def test_pieces_in_neighbouring_fields_do_not_make_a_whole():
    halves = [
        ("<img src=x ", "onerror=alert(1)>"),
        ("<!--", "--><script>alert(1)</script>"),
        ("```", "```\n<script>alert(1)</script>"),
        ("![x][r]", "[r]: https://evil.example/x"),
        ("!", "[x](https://evil.example/x.png)"),
        ("[x](java", "script:alert(1))"),
        ("<details><summary>", "</details></div><button>"),
        ("$$", "$$<script>alert(1)</script>"),
        ("`", "`<img src=x onerror=alert(1)>"),
        ("<a href='", "javascript:alert(1)'>x</a>"),
        ("\x1b]8;;", "https://evil.example\x1b\\"),
    ]
    assert any(dangers("".join(half)) for half in halves)
    for half in halves:
        assert _dangers(saved_bundle(hostile.run_full_of(*half))) == [], half
        assert _dangers(saved_bundle(hostile.run_full_of(*half, "x"))) == [], half


def test_nobody_else_can_draw_our_cards_or_buttons():
    card = (
        "<div class='ipyagent-card ia-chip' data-ipyagent='tool' data-state='success'>"
        "<button>Approve</button></div>"
    )
    assert len(BeautifulSoup(card, "html.parser").select(".ia-chip, button")) == 2
    soup, usual = (page(hostile.run_full_of(each)) for each in (card, "text"))
    for name in (each for each in CLASSES if each != "language-text"):
        assert len(soup.select(f".{name}")) == len(usual.select(f".{name}")), name
    assert soup.select("button") == []
    assert len(public(soup, "run")) == 1
    assert len(public(soup, "tool")) == 10


@pytest.mark.spec("D5")
@pytest.mark.parametrize("hidden", hostile.HIDDEN)
def test_what_hides_in_a_call_is_spelt_out(hidden: str):
    (char,) = {c for c in hidden if not c.isprintable() and c != "\u202c" and c != "\u2069"}
    asked = call("c1", hidden, {"command": hidden})
    preview = s.Preview(kind="code", text=hidden)
    naive = f"<pre>{hidden}</pre>"
    assert char in naive
    for story in told(one_call(done(asked, hidden, preview=preview))).values():
        assert char not in story
        assert story.count(f"⟨U+{ord(char):04X}⟩") >= 3


@pytest.mark.spec("H17")
def test_no_format_holds_a_terminal_escape():
    naive = "".join(hostile.TERMINAL)
    assert controls(naive)
    for payload in hostile.TERMINAL:
        mirrored = saved_bundle(hostile.run_full_of(payload))
        for mime in ("text/html", "text/plain"):
            assert not controls(str(mirrored[mime])), (mime, payload)


@pytest.mark.spec("H15")
def test_secret_arguments_are_not_kept_in_the_notebook():
    secrets = {
        "api_key": "sk-1",
        "headers": {"Authorization": "sk-2"},
        "accessToken": "sk-3",
        "passwords": "sk-5",
        "password": ["sk-4"],
        "max_tokens": 100,
        "keyword": "visible-2",
    }
    asked = call("c1", "fetch", secrets)
    preview = s.Preview(kind="arguments", text=str(secrets))
    execution = done(asked, "ok", preview=preview)
    leaking = run((s.Step(number=1, message=said(text("x"), asked), executions=(execution,)),))
    assert json.dumps(leaking.to_dict()).count("sk-") == 15
    kept = json.dumps(saved_bundle(leaking))
    assert "sk-" not in kept
    assert "visible-2" in kept


def test_a_failure_is_told_by_its_reason_not_by_how_its_traceback_begins():
    error = "ZeroDivisionError: division by zero"
    result = s.ToolResult(
        success=False, output=f"Traceback (most recent call last):\n{error}", error=error
    )
    failed = {"status": s.ToolStatus.FAILED, "result": result}
    mirrored = page(one_call(done(call("c1", "run_python", {"code": "1/0"}), "", **failed)))
    summary = mirrored.select_one("[data-ipyagent=tool] summary").get_text()
    assert error in summary
    assert "Traceback" not in summary


def test_only_bitmaps_are_drawn():
    svg = s.ImageContent(media_type="image/svg+xml", data="PHN2Zy8+")
    broken = s.ImageContent(data='AAAA" onload="alert(1)')
    result = s.ToolResult(output="x", images=(svg, broken))
    mirrored = one_call(done(call("c1", "draw", {}), "", result=result))
    assert page(mirrored).select("img") == []
    assert "[image not shown: image/svg+xml]" in told(mirrored)["html"]


def test_dollars_stay_dollars_and_mathjax_keeps_out():
    root = page(sample_run()).div
    assert {"tex2jax_ignore", "mathjax_ignore"} <= {*root["class"]}
    assert "from $1,204 to $611" in told(sample_run())["html"]


def _dangers(mirrored: dict[str, object]) -> list[str]:
    html = str(mirrored["text/html"])
    names = {
        str(tag["data-tool"])
        for tag in BeautifulSoup(html, "html.parser").select("details[data-tool]")
    }
    json.dumps(mirrored)
    html.encode()
    return dangers(without_style(html), {**OURS, "data-tool": names})


def without_style(html: str) -> str:
    """Return the HTML of a run without the style that it begins with, which is none but ours."""
    _, _, rest = html.partition("</style>\n")
    assert html == f"<style>{blocks.needed_style(rest)}</style>\n{rest}"
    return rest


# In a notebook


def notebook(of: s.Run, *without: str) -> nbformat.NotebookNode:
    data = {mime: each for mime, each in saved_bundle(of).items() if mime not in without}
    output = nbformat.v4.new_output("display_data", data=data)
    cell = nbformat.v4.new_code_cell("%%agent\nWhy?", outputs=[output], execution_count=1)
    return nbformat.v4.new_notebook(cells=[cell])


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_an_export_to_html_shows_the_run_and_no_more():
    nbformat.validate(notebook(sample_run()))
    exported, _ = HTMLExporter().from_notebook_node(notebook(sample_run()))
    (output,) = BeautifulSoup(exported, "html.parser").select(".jp-OutputArea-output")
    assert "Revenue fell in" in output.get_text()
    assert "18,204 rows" in output.get_text()
    assert len(output.select("img")) == 1
    assert output.select("script, button, iframe") == []
    assert len(output.select("style")) == 1


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("without", [(), ("text/html",)])
def test_an_export_to_html_of_a_hostile_run_stays_dead(without: tuple[str, ...]):
    everything = hostile.run_full_of(*hostile.ALL)
    exported, _ = HTMLExporter().from_notebook_node(notebook(everything, *without))
    (output,) = BeautifulSoup(exported, "html.parser").select(".jp-OutputArea-output")
    assert output.select("script, button, iframe, svg, math, form, input") == []
    styles = [each.extract().string for each in output.select("style")]
    assert styles == ([] if without else [blocks.needed_style(str(output))])
    assert not re.search(r"<[^>]*\son\w+\s*=", re.sub(r'="[^"]*"', '=""', str(output)))
    assert {img["src"][:11] for img in output.select("img")} <= {"data:image/"}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_an_export_without_html_tells_the_run():
    exported, _ = MarkdownExporter().from_notebook_node(notebook(sample_run(), "text/html"))
    assert "Revenue fell in **Q3 because of the North**" in exported
    assert "✓ inspect_variable sales" in exported


OF_A_RESULT = {"class": CLASSES}


TABLE = s.Display(data={"text/html": "<table><tr><td>1</td></tr></table>", "text/plain": "1"})


def drawn(result: s.ToolResult) -> BeautifulSoup:
    return BeautifulSoup(tool_result_bundle(result)["text/html"], "html.parser")


def test_a_result_shows_its_text_tables_and_images():
    soup = drawn(s.ToolResult(output="two lines\nof text", displays=(TABLE,), images=(figure(),)))
    assert soup.pre.get_text() == "two lines\nof text"
    assert soup.td.get_text() == "1"
    assert soup.img["src"].startswith("data:image/png")


@pytest.mark.spec("M21")
def test_a_failed_result_says_so_and_why():
    failed = tool_result_bundle(s.ToolResult.failure("no such file"))
    assert "✗ failed" in failed["text/html"]
    assert "no such file" in failed["text/html"]
    assert failed["text/plain"] == "✗ no such file"


def test_the_text_of_a_result_is_concise():
    cut = s.TruncatedOutput(
        tool_name="read_file", original_chars=9_000, original_lines=100, path="outputs/1.txt"
    )
    long = s.ToolResult(output="line\n" * 100, images=(figure(),), displays=(TABLE,), truncated=cut)
    shown = tool_result_bundle(long)["text/plain"]
    cut_text = "Cut from 100 lines, 9,000 characters. All of it: outputs/1.txt"
    assert shown.startswith(f"✓ · 1 image · 1 display · {cut_text}\nline\n")
    assert shown.endswith("… 60 more lines; the full text is in its .output")
    assert tool_result_bundle(s.ToolResult())["text/plain"] == "✓"


def test_ipython_shows_results_and_runs_in_our_way(shell: InteractiveShell):
    data, _ = shell.display_formatter.format(s.ToolResult(output="<b>"))
    assert "<pre><code>&lt;b&gt;</code></pre>" in data["text/html"]
    assert data["text/plain"] == "✓ <b>"
    data, _ = shell.display_formatter.format(sample_run())
    assert data == saved_bundle(sample_run())
    assert s.Run.from_dict(data[RUN_MIME]).prompt == sample_run().prompt


def test_results_in_a_tuple_are_concise_too(shell: InteractiveShell):
    data, _ = shell.display_formatter.format(
        (s.ToolResult(output="ok"), s.ToolResult.failure("no"))
    )
    assert data["text/plain"] == "(✓ ok, ✗ no)"


def test_the_classes_bring_no_html_of_their_own():
    for shown in (s.ToolResult(output="<b>"), run()):
        assert not hasattr(shown, "_repr_html_")
        assert not hasattr(shown, "_repr_mimebundle_")


@pytest.mark.spec("D5", "H17")
def test_no_result_acts_whatever_it_holds():
    assert len([p for p in hostile.ALL if dangers(p)]) > 100
    for payload in hostile.ALL:
        for result in hostile.run_full_of(payload).results:
            shown = tool_result_bundle(result)
            assert dangers(shown["text/html"], OF_A_RESULT) == []
            assert not controls(shown["text/html"] + shown["text/plain"])
