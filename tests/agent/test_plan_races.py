"""Whoever decides on a plan, and however often: it runs once, or not at all."""

from __future__ import annotations

import random
from functools import partial
from pathlib import Path

import pytest

from harness import NO, YES, at_once, call, new_session
from ipyagent.agent.approvals import Answer, Approval
from ipyagent.agent.plan_runner import carry_out, decide_plan, find_plan
from ipyagent.agent.session.session import Session
from ipyagent.agent.session.sessions import Sessions
from ipyagent.config import Config
from ipyagent.errors import AgentError
from ipyagent.kernel.drivers import drive_sync
from ipyagent.llm.scripted import Scripted
from ipyagent.schema import Decision, PlanStep, Run, RunStatus, ToolCall
from ipyagent.store.journal import Journal
from ipyagent.store.runs import plan_digest
from planning import Doing, PlanLab
from stories import ended, tell

STEPS = (PlanStep(call=ToolCall(id="p1", name="act", arguments={"what": "x"})),)


def draft(run_id: str) -> Run:
    return Run(id=run_id, status=RunStatus.DRAFT, plan=STEPS, plan_id=plan_digest(STEPS)[:12])


class Schedule:
    """Answers to one plan, from several kernels at once, as the record has them."""

    def __init__(self, sessions: list[Session], shown: Run) -> None:
        self.sessions, self.shown = sessions, shown
        self.ran: list[str] = []
        self.denied: list[str] = []
        self.refused: list[str] = []

    def answer(self, session: Session, answer: Answer) -> None:
        try:
            run = decide_plan(session, answer, self.shown)
        except AgentError as error:
            self.refused.append(str(error))
            return
        (self.ran if answer.decision is Decision.APPROVED else self.denied).append(run.id)


@pytest.mark.slow
@pytest.mark.spec("P05", "P23", "P43", "D20")
def test_a_thousand_schedules_of_answers_lead_to_one_run_or_none() -> None:
    """Double clicks, approve against deny, approve after cancel, in one kernel."""
    session, chance = new_session(), random.Random(4)
    outcomes = {"ran": 0, "denied": 0}
    for number in range(1_000):
        plan = draft(f"r{number}")
        session.journal.draft(plan, session.id)
        schedule = Schedule([session], plan)
        answers = [YES, chance.choice([YES, NO]), *chance.choices([YES, NO], k=number % 3)]
        chance.shuffle(answers)
        if number % 10 == 0:  # in turns instead: a late click
            for each in answers:
                schedule.answer(session, each)
        else:
            at_once([partial(schedule.answer, session, each) for each in answers])
        # A cancel may still reach what was approved but has not begun: then it never begins.
        assert len(schedule.ran) <= 1
        assert len(schedule.denied) <= 1
        status = session.journal.run(plan.id).status
        assert status is (RunStatus.CANCELLED if schedule.denied else RunStatus.QUEUED)
        assert len(schedule.refused) == len(answers) - len(schedule.ran) - len(schedule.denied)
        outcomes["denied" if schedule.denied else "ran"] += 1
        if not schedule.denied:
            tell(session.journal, session, plan.id, [ended(RunStatus.ERROR)])
    assert min(outcomes.values()) > 100


# -- with everything around it


@pytest.mark.spec("P05", "P20", "P23")
@pytest.mark.parametrize("number", range(12))
def test_a_waiting_cell_hears_many_answers_and_follows_the_first(lab: PlanLab, number: int) -> None:
    doing = Doing()
    taken: list[tuple[Answer, bool]] = []

    def answer(approval: Approval) -> None:
        def click(each: Answer) -> None:
            taken.append((each, lab.environment.approvals.decide(approval.id, each)))

        answers = [YES, NO, YES, NO][number % 3 :] + [YES] * (number % 2)
        at_once([lambda each=each: click(each) for each in answers])

    plan = {"calls": [call("act", what="x"), call("act", what="y")]}
    run = lab.plan([plan], tools=doing.tools, answer=answer)
    (first,) = [each for each, first in taken if first]
    approved = first.decision is Decision.APPROVED
    assert doing.done == (["act x", "act y"] if approved else [])
    assert run.status is (RunStatus.DONE if approved else RunStatus.CANCELLED)
    with pytest.raises(AgentError, match=r"already (approved|cancelled) at"):
        lab.decide(YES, reference=run.id)
    assert doing.done == (["act x", "act y"] if approved else [])


@pytest.mark.spec("P06", "P22", "P25", "D29")
@pytest.mark.parametrize("answer", [YES, NO])
def test_a_plan_waits_over_a_restart_and_is_decided_on_once(
    lab: PlanLab, tmp_path: Path, answer: Answer
) -> None:
    path, doing = tmp_path / "state.db", Doing()
    sessions = Sessions(Journal.open(path))
    lab.session = sessions.begin("one")
    plan = lab.plan([{"calls": [call("act", what="x")]}], tools=doing.tools)
    sessions.close()
    lab.session.journal.close()

    again = Sessions(Journal.open(path)).resume("one")
    assert f"`%agent approve {plan.plan_id}`" in again.notices[0]
    lab.session, lab.tools = again.session, doing.tools
    assert lab.session.runs[-1].plan == plan.plan
    with pytest.raises(AgentError, match="a plan waits"):
        lab.session.check_ready()
    run = lab.decide(answer, reference=plan.plan_id or "")
    assert doing.done == (["act x"] if answer is YES else [])
    assert run.plan == plan.plan
    assert [each.id for each in lab.session.runs] == [plan.parent_id, plan.id]
    with pytest.raises(AgentError, match="no pending plan"):
        lab.decide(YES)
    lab.run(["Fine."])
    said = "\n".join(m.text for m in lab.client.requests[0].messages)
    assert ("1 of 1 step done." if answer is YES else "I do not want this plan") in said


@pytest.mark.spec("P20")
def test_a_session_that_has_ended_runs_no_plan(lab: PlanLab) -> None:
    lab.plan([{"calls": [call("list_files")]}])
    lab.session.end()
    with pytest.raises(AgentError, match="has ended"):
        lab.decide(YES)


@pytest.mark.spec("P05", "D20")
def test_what_is_put_off_between_approval_and_its_first_step_does_not_run(lab: PlanLab) -> None:
    doing = Doing()
    lab.plan([{"calls": [call("act", what="x")]}], tools=doing.tools)
    lab.tools = doing.tools
    plan = decide_plan(lab.session, YES, find_plan(lab.session))
    decide_plan(lab.session, NO, plan)
    lab.client, lab.views = Scripted([]), []
    runner = lab._runner(Config(), None)
    run = drive_sync(lab.cell, lambda: carry_out(runner, plan, YES))
    assert doing.done == []
    assert "already cancelled at" in (run.error or "") or "already approved at" in (run.error or "")
    assert lab.run(["Fine."]).output == "Fine."
