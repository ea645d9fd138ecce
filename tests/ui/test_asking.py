"""Answers that are typed, and what is shown before them."""

from __future__ import annotations

import asyncio
import io
import re
from collections.abc import Callable

import pytest
from hostile import CONTROLS, EVIL, HARMLESS, deceptions
from inspection import read
from sample import call, done, one_call, render, run_html

from ipyagent import schema as s
from ipyagent.agent.approvals import Answer, Approval, Approvals
from ipyagent.errors import NoFrontendError
from ipyagent.kernel.drivers import Cell, drive_sync
from ipyagent.plaintext import strip_escapes, visible
from ipyagent.ui.plain_text import request_text
from ipyagent.ui.questions import InputAsker, NoAsker, parse_answer, parse_reply

BOTH = (s.Scope.SESSION, s.Scope.FOLDER)


READ = s.ToolExecution(call=call("c1", "fetch", {"url": "https://x.example"}))


REGION = s.Question(text="Which region?", choices=("North", "South"))


ASK = s.ToolExecution(call=call("c1", "ask_user", {}), question=REGION)


PLAN = (
    s.PlanStep(call=call("p1", "read_file", {"path": "a.csv"}), note="first\n⚠ asked why"),
    s.PlanStep(call=call("p2", "run_python", {"code": "1"})),
)


DRAFT = s.Run(id="plan", prompt="Look.", plan=PLAN, plan_id="abc", status="draft")


def typing(*lines: str) -> tuple[Callable[[str], str], list[str]]:
    """An `input` that types these lines, and what it is shown."""
    left, seen = list(lines), list[str]()

    def ask(shown: str) -> str:
        seen.append(shown)
        if not left:
            raise EOFError
        return left.pop(0)

    return ask, seen


def asked(
    about: s.ToolExecution | s.Run, monkeypatch: pytest.MonkeyPatch, *lines: str
) -> tuple[Answer, list[str]]:
    """The answer that is typed at the prompt, and what the prompt showed."""
    ask, seen = typing(*lines)
    monkeypatch.setattr("builtins.input", ask)
    cell, approvals = Cell(), Approvals()
    approval = (
        approvals.open_plan(about, "digest")
        if isinstance(about, s.Run)
        else approvals.open_call(about)
    )
    prompt = InputAsker(
        cell.main, approvals, lambda each: seen.append(request_text(each.subject, color=False))
    )
    drive_sync(cell, lambda: prompt.ask(approval))
    return approval.answer.result(), seen


ONCE = (s.Decision.APPROVED, s.Scope.ONCE, None)


TYPED: dict[str, tuple[s.Decision, s.Scope, str | None] | None] = {
    **dict.fromkeys(("y", "Y", " yes ", "ok", "approve", "yes."), ONCE),
    **dict.fromkeys(("a", "always"), (s.Decision.APPROVED, s.Scope.SESSION, None)),
    "F": (s.Decision.APPROVED, s.Scope.FOLDER, None),
    **dict.fromkeys(("n", "no"), (s.Decision.DENIED, s.Scope.ONCE, None)),
    "NO, wrong file": (s.Decision.DENIED, s.Scope.ONCE, "wrong file"),
    "n  too broad ": (s.Decision.DENIED, s.Scope.ONCE, "too broad"),
    **dict.fromkeys(("", " ", "maybe", "yess", "yolo", "1", "not now", "aye")),
}


@pytest.mark.parametrize("text", TYPED)
def test_what_is_typed_is_an_answer_or_is_asked_again(text: str) -> None:
    answer = parse_answer(text, BOTH)
    assert (answer and (answer.decision, answer.scope, answer.reason)) == TYPED[text]
    if answer and answer.scope is not s.Scope.ONCE:
        assert parse_answer(text, [each for each in BOTH if each is not answer.scope]) is None


@pytest.mark.parametrize(
    ("scopes", "offered"),
    [
        ((), "[y]es, [n]o, or"),
        ((s.Scope.SESSION,), "[y]es, [a]lways for this session, [n]o, or"),
        (BOTH, "[y]es, [a]lways for this session, [f] always in this folder, [n]o, or"),
    ],
)
def test_the_prompt_offers_what_the_call_allows(
    scopes: tuple[s.Scope, ...], offered: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    about = READ.model_copy(update={"scopes": scopes, "concern": "it has read a.csv"})
    answer, seen = asked(about, monkeypatch, "what?", "f" if s.Scope.FOLDER in scopes else "y")
    assert offered in seen[1]
    assert seen[0].endswith("│ url: https://x.example\n  ⚠ it has read a.csv")
    assert answer.scope is (s.Scope.FOLDER if s.Scope.FOLDER in scopes else s.Scope.ONCE)


@pytest.mark.parametrize(
    ("text", "said"),
    [("2", "South"), (" 1 ", "North"), ("3", "3"), ("0", "0"), ("both", "both"), ("²", "²")],
)
def test_a_question_is_answered_by_number_or_in_words(text: str, said: str) -> None:
    answer = parse_reply(text, REGION)
    assert (answer.decision, answer.text) == (s.Decision.APPROVED, said)
    assert parse_reply("  ", REGION).decision is s.Decision.DENIED


def test_a_question_is_put_with_its_choices(monkeypatch: pytest.MonkeyPatch) -> None:
    answer, seen = asked(ASK, monkeypatch, "2")
    assert seen == [
        "? Which region?\n  1  North\n  2  South",
        "Your answer, or Enter to decline: ",
    ]
    assert answer.text == "South"


@pytest.mark.parametrize("about", [READ, ASK])
def test_the_end_of_the_input_declines(
    about: s.ToolExecution, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer, _ = asked(about, monkeypatch)
    assert answer.decision is s.Decision.DENIED
    assert answer.reason == "nobody answered (end of input)"


def test_the_end_of_the_input_decides_on_no_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NoFrontendError, match="nobody answered"):
        asked(DRAFT, monkeypatch)


@pytest.mark.parametrize("about", [READ, ASK, DRAFT])
def test_what_nobody_can_see_is_not_asked(
    about: s.ToolExecution | s.Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout", io.StringIO())  # as %%capture does
    with pytest.raises(NoFrontendError, match="without %%capture"):
        asked(about, monkeypatch, "y")


@pytest.mark.spec("P28")
def test_a_plan_is_shown_whole_and_approved_or_denied(monkeypatch: pytest.MonkeyPatch) -> None:
    answer, seen = asked(DRAFT, monkeypatch, "always", "f", "y")
    assert (answer.decision, answer.scope) == (s.Decision.APPROVED, s.Scope.ONCE)
    assert seen[0].split("\n") == [
        "Plan · 2 steps · hash abc: Look.",
        "  1 read_file · first",
        "    ⚠ asked why",
        "    │ path: a.csv",
        "  2 run_python",
        "    │ code: 1",
    ]
    assert len(seen) == 4
    answer, _ = asked(DRAFT, monkeypatch, "n too much")
    assert (answer.decision, answer.reason) == (s.Decision.DENIED, "too much")


async def declined(about: s.ToolExecution | s.Run) -> str:
    with pytest.raises(NoFrontendError) as raised:
        await NoAsker().ask(Approval("a1", about, "digest"))
    return str(raised.value)


async def test_where_nobody_is_there_only_ways_out_that_work_are_named() -> None:
    usual = await declined(READ)
    assert "JupyterLab" in usual
    assert "--confirm yolo" in usual
    always = await declined(READ.model_copy(update={"concern": "not sandboxed"}))
    assert "JupyterLab" in always
    assert "yolo" not in always
    assert "IPYAGENT_POLICY__RULES" not in usual + always
    tainted = READ.model_copy(update={"concern": "it has read a.csv", "scopes": BOTH})
    assert "--confirm yolo" in await declined(tainted)


async def test_a_question_and_a_plan_say_that_nobody_is_there() -> None:
    assert await declined(ASK) == "nobody can be asked here"
    assert "nobody can be asked here" in await declined(DRAFT)


TEXTS = deceptions()


TURNED = re.compile(r"\n *┆ ")


def code_call(text: str) -> s.ToolExecution:
    """A call whose preview is its code."""
    return s.ToolExecution(
        call=call("c1", "run_python", {"code": text}),
        sensitive=True,
        preview=s.Preview(kind="code", text=text, language="python"),
    )


def plain_call(text: str) -> s.ToolExecution:
    """A call that is shown by its arguments."""
    return s.ToolExecution(call=call("c1", "send", {"to": "me", "body": text}), sensitive=True)


def nested_call(text: str) -> s.ToolExecution:
    """A call with the text deep in an argument, and as the name of one."""
    return s.ToolExecution(call=call("c1", "send", {"a": [{"b": text}], text: 1}), sensitive=True)


def diff_call(text: str) -> s.ToolExecution:
    """A call that is shown as a diff."""
    diff = "--- /dev/null\n+++ b/a.py\n" + "".join(f"+{line}\n" for line in text.split("\n"))
    return s.ToolExecution(
        call=call("c1", "write_file", {"path": "a.py", "content": text}),
        sensitive=True,
        preview=s.Preview(kind="diff", text=diff, language="diff"),
    )


def question(text: str) -> s.ToolExecution:
    """A question with the text in it and in a choice."""
    asked = s.Question(text=text, choices=(text, "No"))
    return s.ToolExecution(call=call("c1", "ask_user", {"question": text}), question=asked)


CALLS = [code_call, plain_call, nested_call, diff_call, question]


def recorded(execution: s.ToolExecution) -> s.Run:
    """The run that is kept of the call."""
    ran = done(execution.call, "fine", sensitive=True, preview=execution.preview)
    return one_call(ran, verbose=1)


def planned(of: s.ToolCall) -> s.Run:
    return s.Run(id="p", prompt="Look.", status="draft", plan_id="abc", plan=(s.PlanStep(call=of),))


def unpainted(execution: s.ToolExecution) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", request_text(execution, color=True))


VIEWS: dict[str, Callable[[s.ToolExecution], str]] = {
    "approval": lambda each: request_text(each, color=False),
    "coloured approval": unpainted,
    "plan": lambda each: request_text(planned(each.call), color=False),
    "plan in HTML": lambda each: read(run_html(planned(each.call))),
    "text of a run": lambda each: render(recorded(each)),
    "HTML of a run": lambda each: read(run_html(recorded(each))),
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
def test_all_that_will_run_is_in_what_is_shown(view: str, make: Callable[[str], s.ToolExecution]):
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
    sent = s.ToolExecution(call=call("c1", "pay", {"note": "hi\namount: 5", "amount": 500}))
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
    preview = s.Preview(kind="diff", text="--- a/a.md\n+++ b/a.md\n-old words\n+new words\n")
    edit = s.ToolExecution(
        call=call("c1", "edit_file", {**arguments, "replace_all": True}),
        preview=preview,
        sensitive=True,
    )
    for view in ("approval", "coloured approval"):
        seen = VIEWS[view](edit)
        assert seen.count("old words") == seen.count("new words") == 1, view
    for view in ("text of a run", "HTML of a run"):
        seen = re.sub("</?b>", "", VIEWS[view](edit))
        assert "_string: " not in seen, view
        assert seen.count("+new words") == 1, view
        assert "path: a.md" in seen
        assert "replace_all: true" in seen


def test_questions_at_once_are_typed_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    ask, seen = typing("y", "n")
    monkeypatch.setattr("builtins.input", ask)
    cell, approvals = Cell(), Approvals()
    prompt = InputAsker(cell.main, approvals, lambda each: seen.append(each.id))
    both = [approvals.open_call(READ), approvals.open_call(READ)]

    async def at_once() -> None:
        await asyncio.gather(*map(prompt.ask, both))

    drive_sync(cell, at_once)
    assert [each.answer.result().decision for each in both] == ["approved", "denied"]
    assert [each.split()[0] for each in seen] == ["a1", "Run", "a2", "Run"]
