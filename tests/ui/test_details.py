"""How much of a run is shown, and the words for its unusual turns, in every format."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone

import pytest
from bs4 import BeautifulSoup
from inspection import controls
from rich_run import saved_run
from sample import BEGUN, NOON, call, done, one_call, render, run, run_html, said, sample_run, text

from harness import Follower
from ipyagent import schema as s
from ipyagent.schema.events import Compacted
from ipyagent.ui import plain_text
from ipyagent.ui.plain_view import PlainView
from ipyagent.ui.static_html import saved_bundle
from ipyagent.ui.transcribe import transcribe
from ipyagent.ui.transcribe.step import usage_text
from ipyagent.ui.transcript import Call, Transcript

KINDS = ["text/html", "text/plain"]


def told(of: s.Run, kind: str) -> str:
    """The text of a format as a person reads it."""
    shown = render(of) if kind == "text/plain" else str(saved_bundle(of)[kind])
    return shown if kind == "text/plain" else BeautifulSoup(shown, "html.parser").get_text()


def detailed(verbose: int) -> s.Run:
    look = call("call-7", "look", {"path": "a.csv", "rows": 3})
    ran = {"decision": s.Decision.APPROVED, "decided_by": s.DecidedBy.BUTTON}
    step = s.Step(
        number=1,
        message=said(s.ThinkingContent(thinking="Which columns?"), text("I look."), look),
        finish_reason="tool_use",
        usage=s.TokenUsage(prompt_tokens=1_200, completion_tokens=30, cache_read_tokens=512),
        cost_usd=0.0031,
        thinking_seconds=2.6,
        executions=(done(look, "one\ntwo", started_at=NOON, duration=1.42, **ran),),
    )
    return run((step,), verbose=verbose, context="sales: DataFrame", trace_id="4bf92f35")


# The footer


@pytest.mark.spec("P08")
def test_the_trace_id_and_the_usage_stand_in_the_footer():
    facts = "1,200 tokens in (512 from cache), 30 out · $0.003"
    soup = BeautifulSoup(run_html(detailed(0)), "html.parser")
    footer = soup.select_one(".ia-footer")
    assert footer.summary.get_text() == "12.3 s · anthropic/claude-sonnet · details"
    assert facts in footer.get_text()
    assert footer.get_text().rstrip().endswith(" · trace 4bf92f35")
    assert facts not in footer.summary.get_text()
    assert soup.find("a") is None


@pytest.mark.parametrize(("window", "share"), [(0, ""), (8_200, " · context 15% full · ")])
def test_the_details_say_how_full_the_models_context_is(window: int, share: str):
    html = run_html(detailed(0).model_copy(update={"window": window}))
    footer = BeautifulSoup(html, "html.parser").select_one(".ia-footer").get_text()
    assert share in footer
    assert ("full" in footer) == bool(share)


def test_brief_thoughts_stand_behind_the_footer_once_the_run_is_over():
    thought = said(s.ThinkingContent(thinking="Which columns?"), text("I look."))
    steps = (s.Step(number=1, message=thought, thinking_seconds=0.4),)
    titles = {}
    for name, of in {
        "over": run(steps),
        "long": run((steps[0].model_copy(update={"thinking_seconds": 1.0}),)),
        "on": run(steps, status=s.RunStatus.RUNNING, stop_reason=None, duration=None),
        "-v": run(steps, verbose=1),
    }.items():
        soup = BeautifulSoup(run_html(of), "html.parser")
        assert "Which columns?" in soup.get_text()
        titles[name] = [each.get_text() for each in soup.select("summary")]
    footer = "12.3 s · anthropic/claude-sonnet · details"
    assert titles["over"] == [footer, "Thought for less than a second"]
    assert titles["long"] == ["Thinking (1 s)", footer]
    assert titles["on"] == ["Thinking (<1 s)", "details"]
    assert titles["-v"] == ["Thinking (<1 s)", footer]


@pytest.mark.spec("P08", "A16")
def test_a_terminal_tells_the_trace_id_from_v_on():
    assert "4bf92f35" not in render(detailed(0))
    assert render(detailed(1)).endswith("\ntrace 4bf92f35")


@pytest.mark.parametrize(
    ("usage", "words"),
    [
        ({}, ""),
        ({"prompt_tokens": 5, "completion_tokens": 1}, "5 tokens in, 1 out"),
        (
            {"prompt_tokens": 5_000, "cache_read_tokens": 1, "cache_creation_tokens": 2},
            "5,000 tokens in (1 from cache, 2 to cache), 0 out",
        ),
    ],
)
def test_tokens_are_told_with_what_the_cache_did(usage: dict[str, int], words: str):
    assert usage_text(s.TokenUsage(**usage)) == words


# Verbose


@pytest.mark.spec("A16")
@pytest.mark.parametrize(
    ("verbose", "opened"),
    [(0, []), (1, ["thinking", "tool"]), (2, ["thinking", "tool", None, None])],
)
def test_the_mirror_opens_cards_then_the_context(verbose: int, opened: list[str | None]):
    soup = BeautifulSoup(run_html(detailed(verbose)), "html.parser")
    folds = soup.select("details")
    assert [fold.get("data-ipyagent") for fold in folds] == ["thinking", "tool", None, None]
    assert [fold.get("data-ipyagent") for fold in folds if fold.has_attr("open")] == opened


@pytest.mark.spec("A16")
@pytest.mark.parametrize("kind", KINDS)
def test_each_level_tells_more_than_the_one_before(kind: str):
    stories = [told(detailed(verbose), kind) for verbose in range(5)]
    cost = "step 1 · 1,200 tokens in (512 from cache), 30 out · $0.003 · thinking 2.60 s"
    cost += " · tools 1.42 s"
    assert [cost in story for story in stories] == [False, False, True, True, True]
    for words in (
        "tools 1.42 s · finish reason tool_use",
        "call call-7 · approved by button · began 12:00:00 UTC",
    ):
        assert [words in story for story in stories] == [False, False, False, True, True]


@pytest.mark.spec("A16")
def test_a_terminal_shows_thinking_and_calls_in_full_then_the_context():
    stories = [render(detailed(verbose)) for verbose in range(3)]
    assert ["\n  Which columns?\n" in story for story in stories] == [False, True, True]
    calls = "\n  │ path: a.csv\n  │ rows: 3\n"
    assert [calls in story for story in stories] == [True] * 3  # approved: shown in any case
    auto = detailed(0).steps[0].executions[0].model_copy(update={"decision": s.Decision.AUTO})
    waved = [one_call(auto, verbose=n) for n in range(2)]
    assert [calls in render(each) for each in waved] == [False, True]
    assert ["\n  sales: DataFrame\n" in story for story in stories] == [False, False, True]


def test_times_are_told_in_utc_wherever_they_were_taken():
    tokyo = datetime(2026, 3, 1, 9, tzinfo=timezone(timedelta(hours=9)))
    began = done(call("c1", "look", {}), "x", started_at=tokyo)
    assert "began 00:00:00 UTC" in render(one_call(began, verbose=3))
    assert tokyo.astimezone(UTC).hour == 0


# Unusual turns


@pytest.mark.parametrize("kind", KINDS)
def test_a_call_with_an_unknown_outcome_says_so(kind: str):
    why = s.ToolResult.failure("The kernel ended while it ran.")
    changes = {"status": s.ToolStatus.UNKNOWN, "result": why, "duration": None}
    cut = done(call("c1", "run_shell", {"command": "make"}), "", **changes)
    story = told(one_call(cut), kind)
    assert re.search(r"! \W*runs? ?_?shell", story)
    assert "unknown outcome" in story
    assert "The kernel ended while it ran." in story
    if kind == "text/html":
        assert 'data-state="unknown"' in run_html(one_call(cut))


@pytest.mark.parametrize("kind", KINDS)
def test_a_closing_step_says_why_it_is_there(kind: str):
    steps = (s.Step(number=1, message=said(text("Looking."))),)
    closing = s.Step(number=2, closing=True, message=said(text("So far so good.")))
    budget = {"max_steps": 1, "stop_reason": s.StopReason.MAX_STEPS}
    assert "The budget is spent" not in told(run(steps, **budget), kind)
    story = told(run((*steps, closing), **budget), kind)
    assert story.index("The budget is spent") < story.index("So far so good.")
    assert "--max-steps" in story


@pytest.mark.parametrize("kind", KINDS)
def test_a_reply_that_was_cut_and_goes_on_says_so(kind: str):
    first = s.Step(number=1, message=said(text("One, two,")), finish_reason="length")
    story = told(run((first, s.Step(number=2, message=said(text("three."))))), kind)
    cut = story.index("The reply was cut: the model was asked to continue.")
    assert story.index("One, two,") < cut < story.index("three.")
    stopped = first.model_copy(update={"finish_reason": "stop"})
    assert "The reply was cut" not in told(run((stopped, first)), kind)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("reason", "finish", "words"),
    [
        (s.StopReason.TIMEOUT, None, "agent.step_seconds"),
        (s.StopReason.CONTEXT_OVERFLOW, None, "%agent session new"),
        (s.StopReason.MAX_TOKENS, "stop", "--max-tokens"),
        (s.StopReason.MAX_TOKENS, "length", "the model's own limit"),
    ],
)
def test_an_end_says_what_to_do(kind: str, reason: s.StopReason, finish: str | None, words: str):
    step = s.Step(number=1, message=said(text("Half an")), finish_reason=finish)
    assert words in told(run((step,), stop_reason=reason), kind)


@pytest.mark.spec("A52")
@pytest.mark.parametrize("kind", KINDS)
def test_a_run_of_a_kernel_that_was_restarted_is_a_failure_with_its_reason(kind: str):
    error = "The kernel was restarted while this run was on.\nAsk again to go on."
    cut = s.ToolExecution(call=call("c1", "run_python", {"code": "1"}), status=s.ToolStatus.UNKNOWN)
    failed = {"status": s.RunStatus.ERROR, "stop_reason": s.StopReason.ERROR, "error": error}
    story = told(one_call(cut, **failed), kind)
    for words in (
        "✗" if kind == "text/html" else "failed",
        "unknown outcome",
        "The kernel was restarted",
        "Ask again to go on.",
    ):
        assert words in story
    assert "Traceback" not in story


# As it happens


def written(*events: s.Event, color: bool = False) -> str:
    parts: list[str] = []
    view = Follower(PlainView(parts.append, color=color))
    for event in events:
        view(event)
    return "".join(parts)


def test_a_summarised_conversation_is_noted():
    summary = s.Message.of(s.Role.USER, "So far: …", synthetic=True)
    compacted = Compacted(step=1, summary=summary)
    assert written(BEGUN, s.StepStarted(step=1), compacted).endswith(
        "\nThe older part of the conversation was summarised to make room.\n"
    )


@pytest.mark.spec("H15")
def test_secrets_are_shown_in_a_terminal_only_where_a_person_decides():
    asked = call("c1", "fetch", {"url": "x", "api_key": "sk-1"})
    waved = s.ToolExecution(call=asked, sensitive=True, decision=s.Decision.AUTO)
    story = written(
        BEGUN,
        s.StepStarted(step=1),
        s.ToolStarted(step=1, execution=waved),
        s.ToolRunning(step=1, call_id="c1"),
        s.ToolFinished(step=1, execution=done(asked, "ok")),
    )
    assert "sk-1" not in story
    assert story.count("api_key") == 2


def test_a_retry_is_one_line():
    retry = s.RetryScheduled(step=1, attempt=1, of=2, delay=3, reason="Busy.")
    out = written(BEGUN, s.StepStarted(step=1), retry)
    assert out.endswith("\nBusy. Retry 1/2 in 3.0 s.\n")
    assert "\r" not in out


def test_the_sample_reads_the_same_with_every_level():
    for verbose in range(4):
        louder = sample_run().model_copy(update={"verbose": verbose})
        assert "Revenue fell in" in render(louder)
        assert not controls(render(louder))


MARKS = ("[stderr]", "[stdout and stderr]", "[widget, shown to the user]")


@pytest.mark.parametrize("mark", MARKS)
def test_the_last_lines_of_a_stopped_call_stay_in_sight_without_the_reason(mark: str) -> None:
    why, lines = "stopped by the user after 3 s", [f"epoch {n}" for n in range(30)]
    lines.insert(25, mark)
    output = "\n".join([f"{why}. Output so far:", *lines])
    stopped = s.ToolExecution(
        call=call("call-8", "look", {"path": "a.csv"}),
        status=s.ToolStatus.CANCELLED,
        result=s.ToolResult(success=False, output=output, error=why),
    )
    (drawn,) = transcribe(one_call(stopped)).steps[0].calls
    assert drawn.live.split("\n") == [*lines[20:25], *lines[26:]]
    assert (drawn.result.output.split("\n"), drawn.result.error) == (lines, why)


@pytest.mark.parametrize("arguments", [{"text": "x = 1", "path": "a.py"}, {"path": "a.py"}])
def test_a_path_is_told_first_in_whatever_order_it_was_sent(arguments: dict[str, object]) -> None:
    made = s.ToolExecution(call=call("call-9", "look", arguments), status=s.ToolStatus.SUCCESS)
    (drawn,) = transcribe(one_call(made)).steps[0].calls
    assert drawn.summary.startswith("a.py")


RUNS = {
    "a sample": sample_run().model_copy(update={"verbose": 3}),
    "a story": s.Run.from_dict(saved_run("run.json") | {"verbose": 3}),
    "a plan": s.Run.from_dict(saved_run("plan.json") | {"verbose": 3}),
}


BESIDE_TEXT = {"remarks", "badge", "answer"}


"""Text shows how it was decided above a call, and below it no more than came of it."""


def text_of(html: str) -> str:
    return flat(BeautifulSoup(html, "html.parser").get_text())


def flat(text: str) -> str:
    return " ".join(re.sub(r"[│┆]", " ", text.replace("`", "")).split())


VIEWS = {
    "HTML": lambda run: text_of(run_html(run)),
    "text": lambda run: flat(render(run)),
}


def words_of(transcript: Transcript) -> Iterator[tuple[str, str]]:
    """The words that were decided for a run, each with where they are from."""
    header, footer = transcript.header, transcript.footer
    yield from [("model", header.model), ("state", header.state_text)]
    yield from (("line", part) for part in (*header.facts, *plain_text.usage_parts(footer)))
    for note in transcript.notes:
        yield "note", note
    if transcript.ending:
        yield "ending", transcript.ending.title
    if plan := transcript.plan:
        yield from [("plan", plan.goal), ("plan", plan.title), ("plan", plan.hash)]
        yield from (("plan step", line) for step in plan.steps for line in step.notes)
    for todo in transcript.todos:
        yield "todo", f"{todo.glyph} {todo.text}"
    for step in transcript.steps:
        yield from [*(("note", note) for note in step.notes), ("facts", step.facts)]
        yield "thinking", step.thinking.title if step.thinking else ""
        for made in step.calls:
            yield from words_of_call(made)


def words_of_call(call: Call) -> Iterator[tuple[str, str]]:
    yield from [("name", call.name), ("summary", plain_text.summary_line(call))]
    yield from [("time", call.duration), ("badge", call.badge)]
    yield ("answer" if call.question else "verdict"), call.verdict
    yield from (("remarks", remark) for remark in call.remarks)
    yield from (("facts", fact) for fact in call.facts)
    if call.question is None:
        yield from (("argument", argument.value) for argument in call.request.shown)
    yield from (("result", text) for text in plain_text.texts_beside_line(call))
    yield "for model", call.result.for_model.title if call.result and call.result.for_model else ""


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("name", RUNS)
def test_every_view_says_all_that_was_decided(name: str, view: str) -> None:
    drawn = VIEWS[view](RUNS[name])
    said = [*words_of(transcribe(RUNS[name]))]
    assert len(said) > 15
    left_out = BESIDE_TEXT if view == "text" else {"state", "summary"}
    missing = [
        (kind, text) for kind, text in said if kind not in left_out and flat(text)[:60] not in drawn
    ]
    assert missing == []
