"""Plans: proposed as a whole, decided on once, run as they were shown."""

from __future__ import annotations

import asyncio
import sqlite3
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from harness import NO, YES, Clock, call
from ipyagent.agent.approvals import Answer, Approval
from ipyagent.agent.loop import NOTHING_PENDING
from ipyagent.agent.plans import OTHER_CODE, PLANNED_OUTPUT
from ipyagent.agent.prompts import CALL_NOW, PLANNING
from ipyagent.errors import AgentError
from ipyagent.llm.wire import to_openai
from ipyagent.schema import (
    DecidedBy,
    Decision,
    Outcome,
    PlanProposed,
    PlanStep,
    Run,
    RunStatus,
    StepStarted,
    StopReason,
    ToolCall,
    ToolStatus,
)
from ipyagent.store.runs import digest_plan_text, plan_digest
from ipyagent.tools.base import tool
from ipyagent.ui.plain_text import plan_text
from ipyagent.ui.transcribe.step import transcribe_plan
from open_notebooks import MemoryPage, cell as a_cell, desktop
from planning import Doing, PlanLab


def steps(*calls: dict[str, Any], text: str = "") -> dict[str, Any]:
    return {"text": text, "calls": list(calls)}


PLAN = steps(call("look", what="a"), call("act", what="b"), call("act", what="c"))


def assert_roles_alternate(lab: PlanLab) -> None:
    """In what was asked last; several results of tools may follow each other."""
    wired = to_openai(lab.client.requests[-1].messages, vision=True)
    roles = [message["role"] for message in wired]
    assert all(a != b or a == "tool" for a, b in pairwise(roles)), roles


# -- the planning run


@pytest.mark.spec("P01", "P02", "P03", "P07", "P28", "A12")
@pytest.mark.parametrize("mode", ["confirm-sensitive", "confirm-all", "yolo"])
def test_nothing_runs_while_it_is_planned_not_even_what_only_reads(lab: PlanLab, mode: str) -> None:
    doing, seen = Doing(), []

    def answer(approval: Approval) -> Answer:
        seen.append((list(doing.done), approval.subject))
        return YES

    run = lab.plan([PLAN, "never asked"], tools=doing.tools, answer=answer, confirm_mode=mode)
    ((done, shown),) = seen
    assert done == []
    assert isinstance(shown, Run)
    assert [(s.call.name, s.call.arguments) for s in shown.plan] == [
        ("look", {"what": "a"}),
        ("act", {"what": "b"}),
        ("act", {"what": "c"}),
    ]
    assert doing.done == ["look a", "act b", "act c"]
    assert (run.status, run.outcome) == (RunStatus.DONE, Outcome.SUCCESS)


@pytest.mark.spec("P07", "P28", "P30", "P31")
def test_the_planning_run_ends_and_the_plan_is_a_run_of_its_own(lab: PlanLab) -> None:
    run = lab.plan([PLAN, "never asked"], tools=Doing().tools, answer=YES)
    assert len(lab.client.requests) == 1
    planning, plan = lab.session.runs
    assert plan == run
    assert (run.output, run.steps[-1].closing) == ("3 of 3 steps done.", True)
    assert (planning.status, planning.stop_reason) == (RunStatus.DONE, StopReason.PLANNED)
    assert all(e.dry_run and e.status is ToolStatus.SUCCESS for e in planning.executions)
    assert {result.output for result in planning.results} == {PLANNED_OUTPUT}
    assert (plan.parent_id, plan.prompt, plan.trace_id) == (planning.id, "Tidy up.", "t" * 32)
    assert (plan.max_steps, plan.plan_id) == (3, plan_digest(plan.plan)[:12])
    assert lab.types[0][-2:] == ["step_finished", "run_finished"]
    step = ["step_started", "message_finished", "tool_started", "tool_running", "tool_finished"]
    closing = ["step_started", "message_finished", "step_finished", "run_finished"]
    assert lab.types[1] == [
        "plan_proposed",
        "run_started",
        *[*step, "step_finished"] * 3,
        *closing,
    ]


@pytest.mark.spec("P27")
def test_the_model_is_told_that_it_plans_and_the_instructions_stay_the_same(lab: PlanLab) -> None:
    lab.run(["Hello."])
    before = [m.text for m in lab.client.requests[0].messages]
    lab.plan([PLAN], tools=Doing().tools, answer=NO)
    (request,) = lab.client.requests
    assert [m.text for m in request.messages][: len(before)] == before
    assert PLANNING.format(looking="") in request.messages[-1].text
    assert "<context>\nHello.\n</context>" in request.messages[-1].text
    lab.run(["Fine."])
    assert ["<planning>" in m.text for m in lab.client.requests[0].messages].count(True) == 1


def test_a_reply_without_calls_is_an_ordinary_answer(lab: PlanLab) -> None:
    run = lab.plan(["There is nothing to tidy up."], answer=YES)
    assert (run.output, run.stop_reason) == ("There is nothing to tidy up.", StopReason.FINISHED)
    assert len(lab.views) == 1
    lab.session.check_ready()


@pytest.mark.spec("P29")
def test_a_plan_in_words_is_asked_for_as_calls_once(lab: PlanLab) -> None:
    words = "# Plan\n1. look\n2. act"
    run = lab.plan([words, PLAN], tools=Doing().tools, answer=YES)
    nudges = [e.nudge for e in lab.views[0].events if isinstance(e, StepStarted) and e.nudge]
    assert nudges == [CALL_NOW]
    assert run.outcome is Outcome.SUCCESS
    run = lab.plan([words, words, "never asked"], answer=YES)
    assert (run.output, run.notes) == (words, (NOTHING_PENDING,))


@pytest.mark.spec("P02")
@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (call("fly"), "no tool is named 'fly'"),
        (call("act", what="b", colour="red"), "colour"),
        (call("act"), "what"),
        ({"name": "act", "arguments": '{"what": '}, "act was not run"),
        (call("ask_user", question="Which?"), "before you plan"),
    ],
)
def test_a_plan_with_an_invalid_call_goes_back_to_the_model(
    lab: PlanLab, wrong: dict[str, Any], told: str
) -> None:
    doing = Doing()
    run = lab.plan([steps(call("look", what="a"), wrong), PLAN], tools=doing.tools, answer=YES)
    bad = lab.session.runs[0].steps[0].executions[1]
    assert bad.status in (ToolStatus.FAILED, ToolStatus.DENIED)
    assert told in bad.result.output
    assert len(run.plan) == 3
    assert doing.done == ["look a", "act b", "act c"]


def test_without_a_valid_plan_the_run_ends_at_its_budget(lab: PlanLab) -> None:
    wrong = steps(call("fly"))
    run = lab.plan([wrong, wrong, "I cannot."], answer=YES, max_steps=2)
    assert (run.stop_reason, run.output) == (StopReason.MAX_STEPS, "I cannot.")
    assert len(lab.views) == 1


def test_a_step_may_be_about_what_an_earlier_one_makes(lab: PlanLab, tmp_path: Path) -> None:
    plan = steps(
        call("write_file", path="x.txt", content="one\n"),
        call("edit_file", path="x.txt", old_string="one", new_string="two"),
    )
    run = lab.plan([plan], answer=YES)
    assert run.outcome is Outcome.SUCCESS, run.error
    assert (tmp_path / "x.txt").read_text() == "two\n"


def test_the_list_beside_the_calls_says_why(lab: PlanLab) -> None:
    why = "I suggest:\n1. See what is there\n2. Begin\n3. End"
    run = lab.plan([{**PLAN, "text": why}], tools=Doing().tools, answer=NO)
    assert [step.note for step in run.plan] == ["See what is there", "Begin", "End"]
    run = lab.plan([{**PLAN, "text": "1. Only one"}], tools=Doing().tools, answer=NO)
    assert [step.note for step in run.plan] == ["", "", ""]


# -- shown before, run after


@pytest.mark.spec("P24", "P28", "P43")
def test_the_plan_is_stored_before_it_is_shown_and_what_runs_was_shown(lab: PlanLab) -> None:
    stored = []

    def heard(event: object) -> None:
        if isinstance(event, PlanProposed):
            found = lab.session.journal.run(event.run.id)
            stored.append((found.status, found.plan == event.run.plan, lab.session.waiting_plan_id))

    run = lab.plan([PLAN], tools=Doing().tools, answer=YES, heard=heard)
    assert stored == [(RunStatus.DRAFT, True, run.id)]
    assert [e.call for e in run.executions] == [s.call for s in run.plan]
    assert all(e.decision is Decision.APPROVED for e in run.executions)
    assert {e.decided_by for e in run.executions} == {DecidedBy.BUTTON}


def tamper(lab: PlanLab, run_id: str, *, digest: bool) -> None:
    """Somebody changes the record while the person looks at the card."""

    def change(db: sqlite3.Connection) -> None:
        plan = db.execute("SELECT plan_json FROM runs WHERE id = ?", (run_id,)).fetchone()[0]
        plan = plan.replace('"what": "b"', '"what": "everything"')
        db.execute("UPDATE runs SET plan_json = ? WHERE id = ?", (plan, run_id))
        if digest:
            db.execute(
                "UPDATE runs SET plan_digest = ? WHERE id = ?", (digest_plan_text(plan), run_id)
            )

    lab.session.journal._writer.change(change)


@pytest.mark.spec("P24")
@pytest.mark.parametrize("digest", [False, True])
@pytest.mark.parametrize("later", [False, True])
def test_a_plan_that_is_not_the_one_that_was_shown_does_not_run(
    lab: PlanLab, digest: bool, later: bool
) -> None:
    doing = Doing()

    def answer(approval: Approval) -> Answer:
        assert isinstance(approval.subject, Run)
        tamper(lab, approval.subject.id, digest=digest)
        return YES

    if later:
        waiting = lab.plan([PLAN], tools=doing.tools)
        tamper(lab, waiting.id, digest=digest)
    with pytest.raises(AgentError, match="not the one that was shown"):
        lab.decide(YES) if later else lab.plan([PLAN], tools=doing.tools, answer=answer)
    assert doing.done == []


# -- the answer


@pytest.mark.spec("P20", "P28", "D20")
def test_a_denied_plan_never_runs_and_the_model_knows(lab: PlanLab) -> None:
    doing = Doing()
    run = lab.plan([PLAN], tools=doing.tools, answer=NO)
    assert (run.status, run.stop_reason) == (RunStatus.CANCELLED, StopReason.DENIED)
    assert doing.done == []
    assert lab.session.waiting_plan_id is None
    assert lab.session.journal.run(run.id).status is RunStatus.CANCELLED
    lab.run(["I see."], "Well?")
    assert_roles_alternate(lab)
    said = "\n".join(m.text for m in lab.client.requests[0].messages)
    assert "I do not want this plan; nothing of it was run. My reason: not today" in said
    with pytest.raises(AgentError, match="no pending plan"):
        lab.decide(YES)
    assert doing.done == []


def changed(*calls: tuple[str, dict[str, Any]]) -> Answer:
    """Save changes."""
    plan = tuple(
        PlanStep(call=ToolCall(id=f"p{n}", name=name, arguments=arguments), note="Mine.")
        for n, (name, arguments) in enumerate(calls)
    )
    return Answer(Decision.APPROVED, DecidedBy.BUTTON, plan=plan)


@pytest.mark.spec("P28", "P24")
def test_a_changed_plan_is_stored_and_shown_anew_before_it_runs(lab: PlanLab) -> None:
    doing = Doing()
    answers = iter([changed(("act", {"what": "z"})), YES])
    run = lab.plan([PLAN], tools=doing.tools, answer=lambda _: next(answers))
    proposed = [e for e in lab.views[1].events if isinstance(e, PlanProposed)]
    assert [len(e.run.plan) for e in proposed] == [3, 1]
    old, new = proposed
    assert old.run.id != new.run.id == run.id
    assert old.approval_id != new.approval_id
    assert old.run.plan_id != new.run.plan_id
    assert (old.run.parent_id, new.run.parent_id) == (lab.session.runs[0].id,) * 2
    assert lab.session.journal.run(old.run.id).status is RunStatus.CANCELLED
    assert doing.done == ["act z"]
    assert [r.status for r in lab.session.runs] == ["done", "cancelled", "done"]
    stored = lab.session.journal.runs(lab.session.id)
    assert [(r.id, r.status) for r in stored] == [(r.id, r.status) for r in lab.session.runs]
    lab.run(["Yes."])
    assert any("after they changed it" in m.text for m in lab.client.requests[0].messages)


@pytest.mark.spec("P02")
@pytest.mark.parametrize(
    ("calls", "told"),
    [
        ([("fly", {})], "no tool is named 'fly'"),
        ([("act", {"what": "a"}), ("act", {"times": 3})], "what"),
        ([("ask_user", {"question": "Which?"})], "before you plan"),
        ([], "at least one step"),
    ],
)
def test_a_changed_plan_that_cannot_run_leaves_the_old_one(
    lab: PlanLab, calls: list[tuple[str, dict[str, Any]]], told: str
) -> None:
    doing = Doing()
    answers = iter([changed(*calls), YES])
    lab.plan([PLAN], tools=doing.tools, answer=lambda _: next(answers))
    old, new = [e.run for e in lab.views[1].events if isinstance(e, PlanProposed)]
    assert (old.id, old.plan) == (new.id, new.plan)
    assert told in new.notes[0]
    assert doing.done == ["look a", "act b", "act c"]


@pytest.mark.spec("P28", "P44", "P25")
def test_where_nobody_is_there_the_plan_waits_and_says_how(lab: PlanLab) -> None:
    doing = Doing()
    run = lab.plan([PLAN], tools=doing.tools)
    assert run.status is RunStatus.DRAFT
    assert f"`%agent approve {run.plan_id}`" in run.notes[-1]
    assert ["plan_waiting" in types for types in lab.types] == [False, True]
    with pytest.raises(AgentError, match="a plan waits for you"):
        lab.run(["never asked"])
    with pytest.raises(AgentError, match="a plan waits for you"):
        lab.plan(["never asked"])
    with pytest.raises(AgentError, match="no pending plan is called 'nobody'"):
        lab.decide(YES, reference="nobody")
    lab.tools = doing.tools
    done = lab.decide(Answer(Decision.APPROVED, DecidedBy.MAGIC))
    assert doing.done == ["look a", "act b", "act c"]
    assert (done.id, done.status) == (run.id, RunStatus.DONE)
    assert {e.decided_by for e in done.executions} == {DecidedBy.MAGIC}
    assert [r.id for r in lab.session.runs] == [done.parent_id, done.id]
    lab.run(["Fine."])


def test_an_interrupted_question_leaves_the_plan_waiting(lab: PlanLab) -> None:
    doing = Doing()

    def stop(event: object) -> None:
        if isinstance(event, PlanProposed):
            lab.cell.stop()

    with pytest.raises(KeyboardInterrupt):
        lab.plan([PLAN], tools=doing.tools, answer=lambda _: None, heard=stop)
    assert lab.session.waiting_plan_id is not None
    assert lab.environment.approvals.pending() == []
    lab.tools = doing.tools
    lab.decide(NO)
    assert lab.session.waiting_plan_id is None
    assert doing.done == []
    lab.run(["Fine."])


# -- what runs


@pytest.mark.spec("P31", "P34")
def test_the_first_step_that_fails_is_the_last(lab: PlanLab) -> None:
    doing = Doing()
    plan = steps(call("look", what="a"), call("act", what="badly"), call("act", what="c"))
    run = lab.plan([plan, "never asked"], tools=doing.tools, answer=YES)
    assert doing.done == ["look a", "act badly"]
    assert (run.status, run.stop_reason) == (RunStatus.ERROR, StopReason.ERROR)
    assert run.error == "step 2 (act) failed: ValueError: it broke."
    assert run.output == (
        "1 of 3 steps done. Step 2 (act) failed: ValueError: it broke. Not run: step 3 (act)."
    )


@pytest.mark.spec("P31")
def test_a_stopped_plan_says_what_was_not_run(lab: PlanLab) -> None:
    doing = Doing()

    def stop(event: Any) -> None:
        if event.type == "tool_finished" and doing.done:
            lab.cell.stop()

    with pytest.raises(KeyboardInterrupt):
        lab.plan([PLAN], tools=doing.tools, answer=YES, heard=stop)
    run = lab.session.runs[-1]
    assert (run.status, run.stop_reason) == (RunStatus.CANCELLED, StopReason.INTERRUPTED)
    assert doing.done == ["look a"]
    assert run.output == "1 of 3 steps done. Not run: step 2 (act), step 3 (act)."
    assert lab.types[1][-1] == "run_finished"
    lab.run(["Fine."])


def test_a_plan_has_its_time_and_a_step_too(lab: PlanLab, clock: Clock) -> None:
    @tool(sensitive=True)
    async def sleep() -> str:
        """Sleep."""
        clock.advance(601)
        await asyncio.sleep(3_600)
        return "rested"

    plan = steps(call("sleep"), call("list_files"))
    run = lab.plan([plan], tools=[sleep], answer=YES, max_seconds=600)
    assert (run.status, run.stop_reason) == (RunStatus.DONE, StopReason.MAX_SECONDS)
    assert run.output == (
        "0 of 2 steps done. Step 1 (sleep) did not end. Not run: step 2 (list_files)."
    )
    run = lab.plan([plan], tools=[sleep], answer=YES, step_seconds=600)
    assert (run.status, run.stop_reason) == (RunStatus.DONE, StopReason.TIMEOUT)
    assert run.executions[0].status is ToolStatus.CANCELLED


@pytest.mark.spec("P27", "P28")
def test_the_next_prompt_knows_what_was_planned_and_done(lab: PlanLab) -> None:
    lab.plan([PLAN], tools=Doing().tools, answer=YES)
    lab.run(["Fine."], "And now?")
    assert_roles_alternate(lab)
    messages = lab.client.requests[0].messages
    ids = [c.id for m in messages for c in m.tool_calls]
    assert len(ids) == len(set(ids)) == 6
    answered = [r.tool_use_id for m in messages for r in m.tool_results]
    assert answered == ids
    said = [m.text for m in messages if m.text]
    assert sum(text == "Tidy up." for text in said) == 1
    assert any("approved the plan" in text for text in said)
    assert "3 of 3 steps done." in said


@pytest.mark.spec("P24")
def test_arguments_keep_the_order_in_which_they_were_shown(lab: PlanLab) -> None:
    step = call("write_file", path="z.txt", mode="overwrite", content="a")
    done = lab.plan([{"calls": [step]}], answer=YES)
    for run in (done, lab.session.journal.run(done.id)):
        assert list(run.plan[0].call.arguments) == ["path", "mode", "content"]


@pytest.mark.spec("A56", "P03")
def test_a_dry_run_of_a_plan_checks_the_calls_and_asks_nothing(lab: PlanLab) -> None:
    run = lab.run([PLAN, "That is what I would do."], plan=True, dry_run=True)
    assert run.output == "That is what I would do."
    assert {each.dry_run for each in run.executions} == {True}
    assert lab.watcher.asked == []
    assert lab.session.waiting_plan_id is None


# -- cells, which a plan names


@pytest.mark.parametrize("changed", [None, "b = 2"])
def test_a_planned_cell_runs_as_the_plan_showed_it(
    lab: PlanLab, tmp_path: Path, changed: str | None
) -> None:
    page = MemoryPage({None: [a_cell("agent", "%%agent"), a_cell("c", "a = 1")]})
    lab.environment.toolset.open_notebooks = lambda: desktop(page, folder=tmp_path)
    asked = list[Approval]()

    def answer(approval: Approval) -> Answer:
        asked.append(approval)
        if isinstance(approval.subject, Run):
            page.books[None][1]["source"] = changed or "a = 1"
            return YES
        return NO

    replies = [steps(call("act", what="b"), call("run_cell", cell="c"))]
    run = lab.run(replies, plan=True, tools=Doing().tools, answer=answer)
    (shown, *more) = [each.subject for each in asked]
    assert isinstance(shown, Run)
    assert "its code: a = 1" in plan_text(transcribe_plan(shown, is_whole=True))
    assert (lab.variables.get("a"), lab.variables.get("b")) == (None if changed else 1, None)
    assert [each.concern for each in more] == [OTHER_CODE] * bool(changed)
    assert run.executions[1].status is (ToolStatus.DENIED if changed else ToolStatus.SUCCESS)


def test_a_planned_cell_runs_as_the_plan_edits_it(lab: PlanLab, tmp_path: Path) -> None:
    page = MemoryPage({None: [a_cell("agent", "%%agent"), a_cell("c", "a = 1")]})
    lab.environment.toolset.open_notebooks = lambda: desktop(page, folder=tmp_path)
    replies = [steps(call("edit_cell", cell="c", source="a = 2"), call("run_cell", cell="c"))]
    run = lab.run(replies, plan=True, tools=Doing().tools, answer=YES)
    assert [each.code for each in run.plan] == ["", "a = 2"]
    assert (run.outcome, lab.variables["a"]) == (Outcome.SUCCESS, 2)


def test_a_planned_script_runs_as_the_plan_showed_it(lab: PlanLab) -> None:
    made = lab.run(
        [steps(call("python_script", action="create", content="print(1)")), "Made."], answer=YES
    )
    name = made.executions[0].result.value.file_id

    def answer(approval: Approval) -> Answer:
        if isinstance(approval.subject, Run):
            script = lab.environment.workspace.root / f".ipyagent/scripts/{name}.py"
            script.write_text("print(2)")
            return YES
        return NO

    planned = steps(call("python_script", action="run", file_id=name))
    run = lab.run([planned], plan=True, answer=answer)
    assert run.plan[0].code == "print(1)"
    assert run.executions[0].status is ToolStatus.DENIED
