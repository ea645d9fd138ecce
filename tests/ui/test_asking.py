"""Answers that are typed: to calls, to questions and to plans."""

from __future__ import annotations

import io
from collections.abc import Callable

import pytest
from sample import call

from ipyagent.agent.approvals import Answer, Approval, Approvals
from ipyagent.errors import NoFrontendError
from ipyagent.kernel.drivers import Cell, drive_sync
from ipyagent.schema import Decision, PlanStep, Question, Run, Scope, ToolExecution
from ipyagent.ui.plain_text import request_text
from ipyagent.ui.questions import InputAsker, NoAsker, parse_answer, parse_reply

BOTH = (Scope.SESSION, Scope.FOLDER)
READ = ToolExecution(call=call("c1", "fetch", {"url": "https://x.example"}))
REGION = Question(text="Which region?", choices=("North", "South"))
ASK = ToolExecution(call=call("c1", "ask_user", {}), question=REGION)
PLAN = (
    PlanStep(call=call("p1", "read_file", {"path": "a.csv"}), note="first\n⚠ asked why"),
    PlanStep(call=call("p2", "run_python", {"code": "1"})),
)
DRAFT = Run(id="plan", prompt="Look.", plan=PLAN, plan_id="abc", status="draft")


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
    about: ToolExecution | Run, monkeypatch: pytest.MonkeyPatch, *lines: str
) -> tuple[Answer, list[str]]:
    """The answer that is typed at the prompt, and what the prompt showed."""
    ask, seen = typing(*lines)
    monkeypatch.setattr("builtins.input", ask)
    cell, approvals = Cell(), Approvals()
    approval = (
        approvals.open_plan(about, "digest")
        if isinstance(about, Run)
        else approvals.open_call(about)
    )
    prompt = InputAsker(
        cell.main, approvals, lambda each: seen.append(request_text(each.subject, color=False))
    )
    drive_sync(cell, lambda: prompt.ask(approval))
    return approval.answer.result(), seen


ONCE = (Decision.APPROVED, Scope.ONCE, None)
TYPED: dict[str, tuple[Decision, Scope, str | None] | None] = {
    **dict.fromkeys(("y", "Y", " yes ", "ok", "approve", "yes."), ONCE),
    **dict.fromkeys(("a", "always"), (Decision.APPROVED, Scope.SESSION, None)),
    "F": (Decision.APPROVED, Scope.FOLDER, None),
    **dict.fromkeys(("n", "no"), (Decision.DENIED, Scope.ONCE, None)),
    "NO, wrong file": (Decision.DENIED, Scope.ONCE, "wrong file"),
    "n  too broad ": (Decision.DENIED, Scope.ONCE, "too broad"),
    **dict.fromkeys(("", " ", "maybe", "yess", "yolo", "1", "not now", "aye")),
}


@pytest.mark.parametrize("text", TYPED)
def test_what_is_typed_is_an_answer_or_is_asked_again(text: str) -> None:
    answer = parse_answer(text, BOTH)
    assert (answer and (answer.decision, answer.scope, answer.reason)) == TYPED[text]
    if answer and answer.scope is not Scope.ONCE:
        assert parse_answer(text, [each for each in BOTH if each is not answer.scope]) is None


@pytest.mark.parametrize(
    ("scopes", "offered"),
    [
        ((), "[y]es, [n]o, or"),
        ((Scope.SESSION,), "[y]es, [a]lways for this session, [n]o, or"),
        (BOTH, "[y]es, [a]lways for this session, [f] always in this folder, [n]o, or"),
    ],
)
def test_the_prompt_offers_what_the_call_allows(
    scopes: tuple[Scope, ...], offered: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    about = READ.model_copy(update={"scopes": scopes, "concern": "it has read a.csv"})
    answer, seen = asked(about, monkeypatch, "what?", "f" if Scope.FOLDER in scopes else "y")
    assert offered in seen[1]
    assert seen[0].endswith("│ url: https://x.example\n  ⚠ it has read a.csv")
    assert answer.scope is (Scope.FOLDER if Scope.FOLDER in scopes else Scope.ONCE)


@pytest.mark.parametrize(
    ("text", "said"),
    [("2", "South"), (" 1 ", "North"), ("3", "3"), ("0", "0"), ("both", "both"), ("²", "²")],
)
def test_a_question_is_answered_by_number_or_in_words(text: str, said: str) -> None:
    answer = parse_reply(text, REGION)
    assert (answer.decision, answer.text) == (Decision.APPROVED, said)
    assert parse_reply("  ", REGION).decision is Decision.DENIED


def test_a_question_is_put_with_its_choices(monkeypatch: pytest.MonkeyPatch) -> None:
    answer, seen = asked(ASK, monkeypatch, "2")
    assert seen == [
        "? Which region?\n  1  North\n  2  South",
        "Your answer, or Enter to decline: ",
    ]
    assert answer.text == "South"


@pytest.mark.parametrize("about", [READ, ASK])
def test_the_end_of_the_input_declines(
    about: ToolExecution, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer, _ = asked(about, monkeypatch)
    assert answer.decision is Decision.DENIED
    assert answer.reason == "nobody answered (end of input)"


def test_the_end_of_the_input_decides_on_no_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NoFrontendError, match="nobody answered"):
        asked(DRAFT, monkeypatch)


@pytest.mark.parametrize("about", [READ, ASK, DRAFT])
def test_what_nobody_can_see_is_not_asked(
    about: ToolExecution | Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout", io.StringIO())  # as %%capture does
    with pytest.raises(NoFrontendError, match="without %%capture"):
        asked(about, monkeypatch, "y")


@pytest.mark.spec("P28")
def test_a_plan_is_shown_whole_and_approved_or_denied(monkeypatch: pytest.MonkeyPatch) -> None:
    answer, seen = asked(DRAFT, monkeypatch, "always", "f", "y")
    assert (answer.decision, answer.scope) == (Decision.APPROVED, Scope.ONCE)
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
    assert (answer.decision, answer.reason) == (Decision.DENIED, "too much")


async def declined(about: ToolExecution | Run) -> str:
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
