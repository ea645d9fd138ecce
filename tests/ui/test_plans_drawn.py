"""Plans, questions, concerns and checklists where there is no page: mirror, terminal."""

from __future__ import annotations

from typing import Any

import pytest
from sample import call, done, one_call, render, run, said, text
from test_details import written
from test_static_html import page, public, told

from harness import Follower
from ipyagent import schema as s
from ipyagent.schema.runs import plan_index
from ipyagent.ui.plain_view import PlainView
from replayed import events_from_run

LONG = "\n".join(f"line_{n}()" for n in range(200))
PLAN = (
    s.PlanStep(call=call("p1", "read_file", {"path": "a.csv"}), note="look first"),
    s.PlanStep(call=call("p2", "run_python", {"code": LONG})),
    s.PlanStep(call=call("p3", "write_file", {"path": "q3.md", "content": "# Q3"})),
)
APPROVED: dict[str, Any] = {
    "decision": s.Decision.APPROVED,
    "decided_by": s.DecidedBy.BUTTON,
    "sensitive": True,
}
BEGUN = {"status": s.RunStatus.RUNNING, "stop_reason": None, "duration": None}
QUESTION = "Which of the many regions that are in this table do you mean by the North?"
KINDS = ["html", "plain"]


def planned(*executions: s.ToolExecution, **changes: object) -> s.Run:
    """A plan with these calls carried out, one in each step."""
    steps = [
        s.Step(number=n, message=said(each.call), executions=(each,))
        for n, each in enumerate(executions, 1)
    ]
    fields = {"id": "plan", "plan": PLAN, "plan_id": "0a1b2c", "max_steps": 3} | changes
    return run(tuple(steps), **fields)


def failed(of: Any, **changes: object) -> s.ToolExecution:
    result = s.ToolResult.failure("KeyError: 'quarter'")
    return done(of, "", status=s.ToolStatus.FAILED, result=result, **APPROVED)


DRAFT = planned(status=s.RunStatus.DRAFT, stop_reason=None, duration=None)
FIRST = done(PLAN[0].call, "region,quarter", **APPROVED)
BROKEN = failed(PLAN[1].call)
AGAIN = done(call("p2.2", "run_python", {"code": LONG}), "ok", **APPROVED)
LAST = done(PLAN[2].call, "q3.md: 1 line", **APPROVED)


# Plans


@pytest.mark.spec("P28")
@pytest.mark.parametrize("kind", KINDS)
def test_a_plan_that_waits_shows_all_of_it_and_how_it_is_decided_on(kind: str):
    story = told(DRAFT)[kind]
    assert "Why did revenue drop in Q3?" in story
    assert "Plan · 3 steps · hash 0a1b2c" in story
    assert "look first" in story
    assert all(f"line_{n}()" in story for n in range(200))
    assert "q3.md" in story
    assert "%agent approve 0a1b2c" in story
    assert "waiting for you" in story or kind == "plain"


@pytest.mark.parametrize("kind", KINDS)
def test_a_step_whose_arguments_cannot_be_read_says_why(kind: str):
    broken = PLAN[0].call.model_copy(update={"parse_error": "the arguments are no object"})
    draft = DRAFT.model_copy(update={"plan": (s.PlanStep(call=broken), *PLAN[1:])})
    assert "the arguments are no object" in told(draft)[kind]


def test_a_step_without_a_note_has_a_title_like_a_call():
    codes = ("# Load\nx = 1", "sales = pd.read_csv('a.csv')")
    calls = [call(f"p{n}", "run_python", {"code": code}) for n, code in enumerate(codes)]
    soup = page(planned(plan=(*(s.PlanStep(call=each) for each in calls), *PLAN)))
    titles = [each.get_text() for each in soup.select("ol .ia-summary")]
    assert titles[:3] == ["Load", "reads a.csv → sales", "look first"]
    assert titles[-1] == "writes file q3.md"


@pytest.mark.spec("P41")
def test_a_saved_plan_says_in_its_attributes_that_it_waits_and_has_no_buttons():
    soup = page(DRAFT)
    assert public(soup, "run") == public(soup, "plan") == ["waiting"]
    assert public(soup, "plan-step") == ["pending"] * 3
    assert all(each.has_attr("open") for each in soup.select("ol details"))
    assert not soup.select("button, input, form, textarea")


@pytest.mark.spec("P31")
def test_a_plan_that_ran_says_how_each_step_went():
    soup = page(planned(FIRST, BROKEN, AGAIN, LAST))
    assert public(soup, "plan-step") == ["success"] * 3
    assert public(soup, "tool") == ["success", "failed", "success", "success"]
    assert not any(each.has_attr("open") for each in soup.select("ol details"))
    assert "%agent approve" not in soup.get_text()


@pytest.mark.spec("P31")
def test_what_was_not_run_is_said_to_be():
    broken = planned(FIRST, BROKEN, status=s.RunStatus.ERROR, stop_reason="error", error="step 2")
    story = told(broken)["html"]
    assert story.count("not run") == 1
    assert "not run" not in told(planned(FIRST, **BEGUN))["html"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_denied_plan_says_that_nothing_was_run(kind: str):
    denied = planned(status=s.RunStatus.CANCELLED, stop_reason=s.StopReason.DENIED)
    assert "You denied this plan: nothing was run." in told(denied)[kind]


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_said_twice(kind: str):
    last = (s.Step(number=1, closing=True, message=said(text("The plan was denied."))),)
    denied = planned(status=s.RunStatus.CANCELLED, stop_reason=s.StopReason.DENIED)
    denied = denied.model_copy(update={"steps": last})
    assert "You denied" not in told(denied)[kind]
    noted = DRAFT.model_copy(update={"notes": ("Run it by `%agent approve 0a1b2c`.",)})
    assert told(noted)[kind].count("%agent approve") == 1


@pytest.mark.parametrize("kind", KINDS)
def test_a_plan_has_told_the_model_nothing_until_it_runs(kind: str):
    words = "The user approved the plan."
    waiting = DRAFT.model_copy(update={"context": words})
    denied = planned(status=s.RunStatus.CANCELLED, stop_reason=s.StopReason.DENIED, context=words)
    ran = planned(FIRST, context=words)
    told_by = [told(each)[kind].lower() for each in (waiting, denied, ran)]
    assert ["told to the model" in story for story in told_by] == [False, False, True]


@pytest.mark.parametrize("kind", KINDS)
def test_the_last_word_of_a_plan_is_not_laid_to_a_spent_budget(kind: str):
    ran = planned(FIRST, BROKEN, AGAIN, LAST)
    closing = s.Step(number=5, closing=True, message=said(text("3 of 3 steps done.")))
    story = told(ran.model_copy(update={"steps": (*ran.steps, closing)}))[kind]
    assert "3 of 3 steps done." in story
    assert "budget" not in story
    assert "closing" not in story


def test_a_call_is_of_the_step_whose_id_it_has_or_continues():
    ids = ("a", "a.2", "b.x")
    steps = tuple(s.PlanStep(call=call(id_, "look", {})) for id_ in ids)
    of = planned(plan=steps)
    tries = {"a": 0, "a.2": 1, "a.3": 0, "b.x": 2, "b.x.2": 2, "b": None, "b.x.y": None, "": None}
    assert {id_: plan_index(of, id_) for id_ in tries} == tries


@pytest.mark.spec("P31")
def test_the_terminal_tells_the_plan_once_and_then_each_start_and_end():
    going = DRAFT.model_copy(update={"status": s.RunStatus.RUNNING})
    pending = {"status": s.ToolStatus.PENDING, "result": None, "duration": None}
    story: list[s.Event] = [s.PlanProposed(run=DRAFT, approval_id="a1"), s.RunStarted(run=going)]
    for number, each in enumerate((FIRST, BROKEN, AGAIN), 1):
        story += [
            s.StepStarted(step=number),
            s.ToolStarted(step=number, execution=each.model_copy(update=pending)),
            s.ToolRunning(step=number, call_id=each.call.id),
            s.ToolFinished(step=number, execution=each),
            s.StepFinished(step=number),
        ]
    out = written(*story)
    assert out.count("hash 0a1b2c") == 1
    assert out.count("line_198()") == 1
    landmarks = ["hash 0a1b2c", "▶ step 1/3 read_file", "✓ read_file", "▶ step 2/3 run_python"]
    landmarks += ["✗ run_python", "▶ step 2/3 run_python", "✓ run_python"]
    at = 0
    for landmark in landmarks:
        at = out.find(landmark, at)
        assert at >= 0, landmark
        at += len(landmark)


def test_an_edited_plan_is_told_anew_under_the_same_heading():
    other = DRAFT.model_copy(update={"id": "plan-2", "plan": PLAN[:1], "plan_id": "ffff"})
    out = written(s.PlanProposed(run=DRAFT), s.PlanProposed(run=other))
    assert "Plan · 3 steps · hash 0a1b2c" in out
    assert "Plan · 1 step · hash ffff" in out


def test_a_plan_that_is_left_waiting_says_so_in_the_terminal():
    parts: list[str] = []
    view = Follower(PlainView(parts.append, color=False))
    view(s.PlanProposed(run=DRAFT))
    view(s.PlanWaiting())
    assert parts[-2].startswith("This plan waits for `%agent approve 0a1b2c`")
    assert render(DRAFT) + "\n" == "".join(parts)


@pytest.mark.parametrize("kind", KINDS)
def test_calls_of_a_planning_run_are_planned_and_stand_only_in_the_plans_card(kind: str):
    dry = done(PLAN[0].call, "Planned.", dry_run=True)
    step = s.Step(number=1, message=said(dry.call), executions=(dry,))
    story = told(run((step,), stop_reason=s.StopReason.PLANNED))[kind]
    assert ("[planned]" in story) == (kind == "plain")
    assert "Planned: nothing was run for it." in story
    assert "dry run" not in story
    assert "dry run" in told(run((step,)))[kind] or kind == "plain"


# Questions and concerns


def asked(**changes: object) -> s.ToolExecution:
    question = s.Question(text=QUESTION, choices=("Q2", "Q3"))
    arguments = {"question": QUESTION, "choices": ["Q2", "Q3"]}
    of = call("c1", "ask_user", arguments)
    return done(of, "Q3", question=question, decision="approved", decided_by="button", **changes)


@pytest.mark.parametrize("kind", KINDS)
def test_a_question_stays_with_its_choices_and_its_answer(kind: str):
    story = told(one_call(asked()))[kind]
    assert QUESTION in story
    assert "2  Q3" in story
    assert "→ Q3" in story or kind == "html"
    assert "answered by you" in story or kind == "plain"
    assert "choices=" not in story


def test_a_question_is_asked_and_answered_in_the_terminal():
    open_ = asked().model_copy(
        update={"status": s.ToolStatus.PENDING, "result": None, "decision": None, "duration": None}
    )
    begun = s.RunStarted(run=run(**BEGUN))
    out = written(
        begun,
        s.StepStarted(step=1),
        s.ToolStarted(step=1, execution=open_),
        s.ApprovalRequested(step=1, call_id="c1", approval_id="a1"),
        s.ApprovalDecided(
            step=1, call_id="c1", decision=s.Decision.APPROVED, by=s.DecidedBy.PROMPT, reason=None
        ),
        s.ToolFinished(step=1, execution=asked(duration=None)),
    )
    shortened = QUESTION[:59] + "…"
    assert out.endswith(f"? {QUESTION}\n  1  Q2\n  2  Q3\n✓ ask_user {shortened} → Q3\n")


def test_a_question_that_was_not_answered_says_so():
    declined = {"status": s.ToolStatus.DENIED, "decision": s.Decision.DENIED}
    no = asked().model_copy(update={**declined, "result": s.ToolResult.failure("no")})
    assert "declined by you" in told(one_call(no))["html"]
    left = asked().model_copy(update={"status": s.ToolStatus.AWAITING_APPROVAL, "result": None})
    assert "no answer recorded" in told(one_call(left, **BEGUN))["html"]


@pytest.mark.parametrize("kind", KINDS)
def test_why_a_person_was_asked_is_kept(kind: str):
    concern = "not sandboxed: bubblewrap is missing"
    ran = done(call("c1", "run_shell", {"command": "ls"}), "a", concern=concern, **APPROVED)
    assert f"⚠ {concern}" in told(one_call(ran))[kind]


def test_a_standing_permission_names_its_scope():
    changes = {"decision": s.Decision.APPROVED, "decided_by": s.DecidedBy.FOLDER}
    ran = done(call("c1", "run_python", {"code": "1"}), "1", **changes)
    story = told(one_call(ran))["html"]
    assert "approved in this folder" in story


# Checklists


def listed(*todos: dict[str, str], id_: str = "t1") -> s.ToolExecution:
    return done(call(id_, "todo_write", {"todos": list(todos)}), "Noted.\nCarry on.")


LOOK = {"content": "Look at it", "status": "completed"}
PLOT = {"content": "Plot it", "status": "in_progress", "activeForm": "Plotting it"}
TELL = {"content": "Write it down"}


@pytest.mark.spec("N16")
@pytest.mark.parametrize("kind", KINDS)
def test_the_checklist_is_told_as_one_and_the_call_in_a_line(kind: str):
    story = told(one_call(listed(LOOK, PLOT, TELL)))[kind]
    for line in ("☑ Look at it", "▶ Plotting it", "☐ Write it down", "1 of 3 done"):
        assert line in story, line
    assert "→ Noted." not in story


def test_the_checklist_stands_above_the_answer_and_is_the_newest():
    steps = (
        s.Step(number=1, executions=(listed(TELL), listed(LOOK, id_="t2"))),
        s.Step(number=2, message=said(text("So it is."))),
    )
    soup = page(run(steps))
    (todos,) = soup.select("[data-ipyagent=todos]")
    assert todos.get_text() == "☑ Look at it"
    assert todos.find_next(attrs={"data-ipyagent": "answer"}) is not None
    assert not page(run(steps[1:])).select("[data-ipyagent=todos]")


def test_the_terminal_tells_the_checklist_when_it_changes():
    step = s.Step(number=1, executions=(listed(LOOK, TELL), listed(LOOK, TELL), listed(LOOK, LOOK)))
    out = written(*events_from_run(run((step,))))
    assert out.count("☐ Write it down") == 1
    assert out.count("☑ Look at it") == 3
    assert render(run((step,))).count("☑ Look at it") == 2


def test_a_call_whose_list_is_none_is_drawn_as_any_other():
    of = call("t1", "todo_write", {"todos": "all of it"})
    result = s.ToolResult.failure("todos: not a list")
    broken = done(of, "", status=s.ToolStatus.FAILED, result=result)
    out = render(one_call(broken))
    assert "✗ todo_write all of it → todos: not a list" in out


def test_a_plan_is_ended_in_the_terminal_as_it_was_decided():
    no = s.RunFinished(status=s.RunStatus.CANCELLED, stop_reason=s.StopReason.DENIED, duration=2)
    out = written(s.PlanProposed(run=DRAFT, approval_id="a1"), no)
    assert out.endswith("cancelled · 2.00 s\nYou denied this plan: nothing was run.\n")
