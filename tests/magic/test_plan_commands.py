"""`%agent approve` and `deny` for plans, and the words that do the same."""

from __future__ import annotations

import threading
from functools import partial
from pathlib import Path

import pytest

from harness import NO, call
from ipyagent.agent.approvals import Answer, Approval
from ipyagent.agent.plan_runner import PlanRunner, resolve_plan
from ipyagent.agent.signs import find_decision, parse_yes_no
from ipyagent.config import Config
from ipyagent.errors import AgentError, BusyError, ConfigError, SessionError
from ipyagent.kernel.drivers import Cell, drive_sync
from ipyagent.kernel.shell import Frontend, Surface
from ipyagent.llm.scripted import Scripted
from ipyagent.magic.cells import check_background, decide_on_plan, in_its_cell
from ipyagent.schema import DecidedBy, Decision, Run, RunStatus
from ipyagent.wiring import RunFunction, runtime
from planning import PlanLab

APPROVE = Answer(Decision.APPROVED, DecidedBy.MAGIC)
PLAN = {"calls": [call("list_files"), call("write_file", path="x", content="y")]}


@pytest.fixture
def lab(tmp_path: Path) -> PlanLab:
    return PlanLab(tmp_path)


def engine(lab: PlanLab, answer: Answer, cell: Cell, reference: str = "") -> RunFunction:
    lab.cell, lab.client = cell, Scripted([])

    async def runner() -> PlanRunner:
        return lab._runner(Config(), None)

    return partial(resolve_plan, lab.session, answer, reference, runner)


def command(lab: PlanLab, reference: str, answer: Answer) -> str:
    prepare = partial(engine, lab, answer, reference=reference)
    return decide_on_plan(lab.environment.approvals, reference, answer, lab.session, prepare)


@pytest.mark.spec("P20", "P05")
@pytest.mark.parametrize("named", ["", "id", "plan_id", "part"])
def test_a_plan_that_waits_is_run_here_once(lab: PlanLab, tmp_path: Path, named: str) -> None:
    plan = lab.plan([PLAN])
    names = {"": "", "id": plan.id, "plan_id": str(plan.plan_id), "part": str(plan.plan_id)[:6]}
    assert command(lab, names[named], APPROVE) == ""
    assert (tmp_path / "x").read_text() == "y"
    assert lab.session.runs[-1].status is RunStatus.DONE
    (tmp_path / "x").unlink()
    with pytest.raises(AgentError, match="no pending plan"):
        command(lab, "", APPROVE)
    with pytest.raises(AgentError, match="already approved at"):
        command(lab, plan.id, APPROVE)
    assert not (tmp_path / "x").exists()


@pytest.mark.spec("P20", "P24")
def test_a_plan_has_one_name_wherever_it_is_spoken_of(lab: PlanLab) -> None:
    plan = lab.plan([PLAN])
    name = str(plan.plan_id)
    spoken = [*plan.notes]
    with pytest.raises(SessionError) as refused:
        lab.session.check_ready()
    spoken.append(str(refused.value))
    with pytest.raises(SessionError) as second:
        lab.session.journal.draft(plan.model_copy(update={"id": "another"}), lab.session.id)
    spoken.append(str(second.value))
    assert lab.session.waiting_plan_name == name
    assert command(lab, name, APPROVE) == ""
    with pytest.raises(SessionError) as late:
        command(lab, name, APPROVE)
    spoken.append(str(late.value))
    assert len(spoken) == 4
    for text in spoken:
        assert name in text
        assert plan.id not in text


@pytest.mark.spec("P20", "D20")
def test_a_plan_that_is_denied_is_put_off_for_good(lab: PlanLab, tmp_path: Path) -> None:
    plan = lab.plan([PLAN])
    assert command(lab, "", NO) == ""
    assert lab.types[-1][0] == "plan_proposed"
    assert lab.session.runs[-1].status is RunStatus.CANCELLED
    with pytest.raises(AgentError, match="already cancelled at"):
        command(lab, plan.id, APPROVE)
    assert not (tmp_path / "x").exists()


@pytest.mark.spec("P21", "P41")
@pytest.mark.parametrize("answer", [APPROVE, NO])
@pytest.mark.parametrize("reference", ["", "nobody"])
def test_with_no_plan_it_says_so(lab: PlanLab, answer: Answer, reference: str) -> None:
    with pytest.raises(AgentError, match="no pending plan"):
        command(lab, reference, answer)


@pytest.mark.spec("P22", "P26")
def test_while_an_agent_runs_nothing_is_approved(lab: PlanLab) -> None:
    lab.plan([PLAN])
    with runtime().run_lock.hold(), pytest.raises(BusyError, match="already running"):
        command(lab, "", APPROVE)
    one_of_the_session = runtime().run_lock.hold_session(lab.session.id)
    with one_of_the_session, pytest.raises(BusyError, match="already answering"):
        command(lab, "", APPROVE)
    assert lab.session.waiting_plan_id


@pytest.mark.spec("P25")
@pytest.mark.parametrize(
    ("frontend", "why"),
    [
        (Frontend(Surface.TERMINAL, can_input=True), "in a terminal"),
        (Frontend(Surface.TERMINAL, can_input=False), "in a terminal"),
        (Frontend(Surface.NOTEBOOK, can_input=False), "needs somebody at the notebook"),
    ],
)
def test_there_is_no_background_where_nobody_would_see_it(frontend: Frontend, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        check_background(frontend)


@pytest.mark.spec("P20", "P05")
@pytest.mark.parametrize("answer", [APPROVE, NO])
def test_where_a_cell_asks_the_command_answers_there(lab: PlanLab, answer: Answer) -> None:
    said: list[str] = []

    def elsewhere(approval: Approval) -> None:
        assert isinstance(approval.subject, Run)
        assert in_its_cell(lab.environment.approvals, "") is approval
        assert in_its_cell(lab.environment.approvals, approval.subject.id) is approval
        assert in_its_cell(lab.environment.approvals, "nobody") is None
        job = lambda: said.append(command(lab, str(approval.subject.plan_id), answer))  # type: ignore[union-attr] # noqa: E731
        thread = threading.Thread(target=job)
        thread.start()
        thread.join()

    done = lab.plan([PLAN], answer=elsewhere)
    assert said[0].endswith(f": {answer.decision}")
    assert done.status is (RunStatus.DONE if answer is APPROVE else RunStatus.CANCELLED)


def test_what_cannot_be_shown_is_not_left_queued(lab: PlanLab) -> None:
    lab.plan([PLAN])

    async def broken() -> PlanRunner:
        raise ConfigError("no view")

    with pytest.raises(ConfigError):
        drive_sync(Cell(), partial(resolve_plan, lab.session, APPROVE, "", broken))
    assert lab.run(["Fine."]).output == "Fine."


FORMAL = {
    "en": "confirm confirmed approve, approved run_it execute; cancel deny stop abort",
    "es": "confirmo Confirmar confirmado apruebo aprobado ejecuta ejecútalo;"
    " cancela cancelar cancelo detener detén para rechazar rechazo",
    "zh": "确认 批准 同意 执行。; 取消 停止 拒绝",
}
"""Words that can only be about a plan, those that approve before those that deny."""

PLAIN = {
    "en": "yes y OK okay; no n",
    "es": "sí si ¡Sí! de_acuerdo; no",
    "zh": "是 是的 好 好的。 可以; 不 不要 否 不同意",
}
"""Words that may answer the model."""


GO = {"en": "go Go. go_ahead proceed;", "es": "¡Dale! adelante;"}
"""Words that are prompts wherever nothing waits."""


def among(table: dict[str, str]) -> list[tuple[str, Decision]]:
    found = []
    for line in table.values():
        yes, no = line.replace(",", "").split(";")
        found += [(each.replace("_", " "), Decision.APPROVED) for each in yes.split()]
        found += [(each.replace("_", " "), Decision.DENIED) for each in no.split()]
    return found


@pytest.mark.spec("P20")
@pytest.mark.parametrize(("text", "decided"), [*among(FORMAL), *among(PLAIN), *among(GO)])
def test_a_word_decides_on_the_plan_that_waits(text: str, decided: Decision) -> None:
    assert parse_yes_no(text) is decided
    assert parse_yes_no(f" {text.upper()} ! ") is decided


@pytest.mark.spec("P20")
@pytest.mark.parametrize("text", ["Sí", "Ejecuta", "执行"])
def test_a_word_runs_the_plan_that_waits(lab: PlanLab, text: str) -> None:
    lab.plan([PLAN])
    answer = find_decision(lab.session, text)
    assert answer == Answer(Decision.APPROVED, DecidedBy.PROMPT)
    assert answer is not None
    cell = Cell()
    done = drive_sync(cell, engine(lab, answer, cell))
    assert done.status is RunStatus.DONE
    assert {e.decided_by for e in done.executions} == {DecidedBy.PROMPT}


@pytest.mark.spec("P21", "P41")
@pytest.mark.parametrize(("text", "decided"), [*among(FORMAL), *among(PLAIN)])
def test_with_nothing_pending_a_word_is_no_prompt(
    lab: PlanLab, text: str, decided: Decision
) -> None:
    with pytest.raises(SessionError, match="no pending plan"):
        find_decision(lab.session, text)
    lab.run(["All is done."])
    with pytest.raises(SessionError, match="no model was asked"):
        find_decision(lab.session, text)


@pytest.mark.spec("P21", "P41")
@pytest.mark.parametrize(
    "said", ["Shall I delete it?", "Two ways.\n\nA or B? Say so.", "要删除吗？"]
)
def test_yes_and_no_may_answer_the_model(lab: PlanLab, said: str) -> None:
    lab.run([said])
    for text, _ in among(PLAIN):
        assert find_decision(lab.session, text) is None
    for text, _ in among(FORMAL):
        with pytest.raises(SessionError, match="no pending plan"):
            find_decision(lab.session, text)
    lab.run(["Is it? It is.\n\nDone."])
    with pytest.raises(SessionError):
        find_decision(lab.session, "yes")


@pytest.mark.spec("P21", "P41")
def test_a_word_to_go_on_is_a_prompt_where_nothing_waits(lab: PlanLab) -> None:
    for text, _ in among(GO):
        assert find_decision(lab.session, text) is None


@pytest.mark.spec("P21")
def test_a_run_that_ended_early_can_be_told_to_go_on(lab: PlanLab) -> None:
    lab.run([{"calls": [call("list_files")]}, "Not done."], max_steps=1)
    for text in ("dale", "go ahead", "no"):
        assert find_decision(lab.session, text) is None


@pytest.mark.spec("P20", "D21", "P44")
@pytest.mark.parametrize(
    "text",
    [
        "no ejecuta nada todavía",
        "¿cómo se ejecuta python?",
        "yes, but only the first step",
        "ok?",
        "is it ok",
        "not now",
        "yesterday",
        "confirm the numbers",
        "cancel the second step",
        "nope",
        "",
    ],
)
def test_anything_else_is_no_decision(lab: PlanLab, text: str) -> None:
    lab.plan([PLAN])
    assert find_decision(lab.session, text) is None
    with pytest.raises(AgentError, match="a plan waits for you"):
        lab.session.check_ready()
