"""Runs that nobody watches: what needed an approval was not done, and the run says so."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness import NO, Lab, call
from ipyagent.agent.approvals import Approval
from ipyagent.errors import NoFrontendError
from ipyagent.explorer import ExplorerClient
from ipyagent.schema import Event, Outcome, Run, RunStatus, StopReason
from ipyagent.ui.questions import NoAsker

CODE = {"calls": [call("run_python", code="done = True")]}
WRITE = {"calls": [call("write_file", path="reports/may 1.md", content="May.")]}


@pytest.mark.spec("A47", "D27")
@pytest.mark.parametrize(
    "rest", [["I could not."], [{"calls": [call("list_files")]}, "Another way."]]
)
def test_a_run_whose_needed_call_nobody_could_approve_is_partial(lab: Lab, rest: list[Any]) -> None:
    run = lab.run([CODE, *rest])
    assert (run.status, run.outcome) == (RunStatus.DONE, Outcome.PARTIAL)
    assert run.stop_reason is StopReason.UNATTENDED
    assert run.error == "run_python was not run: nobody is here"
    assert run.to_output_dict()["status"] == "partial"
    assert Run.model_validate(run.to_dict()).outcome is Outcome.PARTIAL
    assert lab.session.journal.runs(lab.session.id)[-1].outcome is Outcome.PARTIAL


def test_what_a_person_denied_or_a_rule_forbids_is_their_decision_and_no_partial_run(
    lab: Lab,
) -> None:
    assert lab.run([CODE, "I see."], answer=NO).outcome is Outcome.SUCCESS
    rules = {"policy": {"rules": [{"effect": "deny", "tool": "run_python"}]}}
    assert lab.run([CODE, "I see."], settings=rules).outcome is Outcome.SUCCESS


def test_a_budget_that_ends_the_run_is_what_is_told(lab: Lab) -> None:
    run = lab.run([CODE, CODE, "Enough."], max_steps=1)
    assert (run.outcome, run.stop_reason) == (Outcome.PARTIAL, StopReason.MAX_STEPS)


@pytest.mark.parametrize("reply", [CODE, WRITE])
def test_the_rule_in_the_advice_is_the_one_that_lets_this_call_run(lab: Lab, reply: Any) -> None:
    said: list[str] = []

    def declining(approval: Approval) -> None:
        coroutine = NoAsker().ask(approval)
        try:
            coroutine.send(None)
        except NoFrontendError as error:
            said.append(str(error))
            raise

    run = lab.run([reply, "I could not."], answer=declining)
    assert run.outcome is Outcome.PARTIAL
    assert "run the cell again" not in said[0].lower()
    rules = yaml.safe_load(re.findall(r"IPYAGENT_POLICY__RULES='(.*?)'\)", said[0])[0])
    again = lab.run([reply, "Done."], answer=declining, settings={"policy": {"rules": rules}})
    assert again.outcome is Outcome.SUCCESS
    assert again.results[0].success
    assert len(said) == 1


@pytest.mark.parametrize("allowed", [True, False])
async def test_the_explorer_does_not_call_a_failure_a_success(
    lab: Lab, tmp_path: Path, allowed: bool
) -> None:
    (tmp_path / "sales.csv").write_text("region,price\nNorth,1\n")

    def break_pandas(event: Event) -> None:
        (tmp_path / "sales.csv").unlink(missing_ok=True)

    run = lab.run(
        [],
        "Load sales.csv",
        model=ExplorerClient(),
        confirm_mode="yolo" if allowed else "confirm-sensitive",
        heard=lambda event: break_pandas(event) if event.type == "tool_started" else None,
    )
    assert run.outcome is Outcome.PARTIAL
    assert run.stop_reason is (StopReason.ERROR if allowed else StopReason.UNATTENDED)
