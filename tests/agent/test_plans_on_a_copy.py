"""Plans are tried on a copy of the kernel, each step on top of those before it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from pathlib import Path

import pytest

from harness import NO, YES, Lab, call
from ipyagent.agent.approvals import Answer, Approval
from ipyagent.agent.prompts import MAY_LOOK
from ipyagent.schema import PlanRehearsed, RehearsalOutcome, Run, RunStatus
from ipyagent.schema.events import fold
from ipyagent.ui.plain_text import plan_effects_text
from ipyagent.ui.static_html import run_html
from ipyagent.ui.transcribe import transcribe
from ipyagent.ui.transcribe.step import transcribe_plan
from rehearsal_trial import ON, children

# The process that runs the tests is what is forked: other tests would leave threads in it.
pytestmark = [
    pytest.mark.alone,
    pytest.mark.spec("E16"),
    pytest.mark.usefixtures("needs_isolation"),
]


def python(code: str) -> dict[str, object]:
    return call("run_python", code=code)


def propose(
    lab: Lab,
    *calls: dict[str, object],
    answer: Answer = NO,
    earlier: Sequence[dict[str, object]] = (),
    **settings: object,
) -> Run:
    """Let the model plan some calls, after `earlier` ones; return the plan as it was shown."""
    drawn: list[Run] = []

    def decide(approval: Approval) -> Answer:
        run = reduce(fold, lab.watcher.events, None)
        assert run
        drawn.append(run)
        return answer

    replies = [{"calls": each} for each in (earlier, calls) if each]
    lab.run(replies, plan=True, answer=decide, **{**ON, **settings})
    return drawn[-1]


def outcomes(plan: Run) -> list[RehearsalOutcome | None]:
    return [each and each.outcome for each in plan.rehearsals]


def test_a_step_is_tried_on_top_of_those_before_it(tmp_path: Path) -> None:
    lab, before = Lab(tmp_path, {"numbers": [1, 2, 3]}), children()
    plan = propose(
        lab,
        python("total = sum(numbers)"),
        python("numbers.append(total)"),
        python("print(numbers, total)"),
    )
    first, second, third = plan.rehearsals
    assert first
    assert second
    assert third
    assert [(each.name, each.change) for each in first.variables] == [("total", "created")]
    assert [(each.name, each.change) for each in second.variables] == [("numbers", "changed")]
    assert third.outcome is RehearsalOutcome.LOOKED
    assert third.result
    assert third.result.output == "[1, 2, 3, 6] 6"
    assert lab.variables == {"numbers": [1, 2, 3]}
    assert children() == before


def test_a_step_finds_what_a_loop_of_an_earlier_one_has_bound(tmp_path: Path) -> None:
    lab = Lab(tmp_path, {"n": 0, "kept": []})
    plan = propose(lab, python("for n in [1, 2]: pass"), python("kept.append(n)\nprint(kept)"))
    assert plan.rehearsals[1].result.output.strip() == "[2]"


def test_files_of_earlier_steps_are_there_and_told_of_once(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    write = f"from pathlib import Path\nhere = Path({str(tmp_path)!r})\n"
    write += "_ = (here / '{}').write_text('{}')"
    plan = propose(
        lab,
        python(write.format("a.txt", "one")),
        python(write.format("b.txt", "two") + "\nprint((here / 'a.txt').read_text())"),
        python(write.format("a.txt", "three")),
    )
    assert [[file.path for file in each.files] for each in plan.rehearsals if each] == [
        ["a.txt"],
        ["b.txt"],
        ["a.txt"],
    ]
    assert [each.result and each.result.output for each in plan.rehearsals if each][1] == "one"
    assert list(tmp_path.glob("*.txt")) == []


def test_what_follows_a_failure_is_not_tried(tmp_path: Path) -> None:
    plan = propose(Lab(tmp_path), python("x = 1"), python("x / 0"), python("y = 2"))
    assert [each and (each.outcome, each.reason) for each in plan.rehearsals] == [
        (RehearsalOutcome.CHANGES, ""),
        (RehearsalOutcome.FAILED, ""),
        (RehearsalOutcome.SKIPPED, "a step before it failed there"),
    ]


def test_what_follows_a_tool_that_changes_something_is_not_tried(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one")
    plan = propose(
        Lab(tmp_path),
        call("read_file", path="a.txt"),
        python("x = 1"),
        call("write_file", path="b.txt", content="two"),
        python("y = 2"),
    )
    assert outcomes(plan) == [None, RehearsalOutcome.CHANGES, None, RehearsalOutcome.SKIPPED]
    assert plan.rehearsals[3]
    assert plan.rehearsals[3].reason == "step 3 comes first, and is no code that can be tried"


@pytest.mark.parametrize("off", [{"look_freely": False}, {"confirm_mode": "confirm-all"}])
def test_nothing_is_tried_where_looking_is_switched_off(
    tmp_path: Path, off: dict[str, object]
) -> None:
    assert propose(Lab(tmp_path), python("x = 1"), **off).rehearsals == ()


def test_an_approved_plan_runs_for_real_once(tmp_path: Path) -> None:
    lab = Lab(tmp_path, {"numbers": [1]})
    plan = propose(lab, python("numbers.append(2)"), python("x = len(numbers)"), answer=YES)
    assert outcomes(plan) == [RehearsalOutcome.CHANGES] * 2
    assert (lab.variables["numbers"], lab.variables["x"]) == ([1, 2], 2)


def test_the_effects_are_shown_while_the_plan_waits_and_kept_no_longer(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    plan = propose(lab, python("x = 1"), python("print(x)\nx / 0"))
    drawn = transcribe_plan(plan)
    assert drawn
    text = plan_effects_text(drawn)
    assert text.split("\n")[:6] == [
        "  1 run_python",
        "    Tried on a copy of the kernel; it would change:",
        "      created x int",
        "  2 run_python",
        "    Tried on a copy of the kernel; it failed, and would change nothing",
        "      What it put out there: 6 lines",
    ]
    assert "ZeroDivisionError: division by zero" in text
    assert "created</b> x int" in run_html(transcribe(plan))
    [event] = [each for each in lab.watcher.events if isinstance(each, PlanRehearsed)]
    assert event.rehearsals == plan.rehearsals
    finished = plan.model_copy(update={"status": RunStatus.CANCELLED})
    assert "created</b> x int" not in run_html(transcribe(finished))


def test_a_plan_that_nobody_can_decide_on_is_tried_all_the_same(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    lab.run([{"calls": [python("x = 1")]}], plan=True, **ON)
    assert "plan_rehearsed" in lab.watcher.types()
    assert lab.variables == {}


@pytest.mark.spec("E17")
def test_code_that_only_looks_gives_its_results_before_anything_is_proposed(
    tmp_path: Path,
) -> None:
    lab = Lab(tmp_path, {"numbers": [1, 2, 3]})
    looks = [python("print(len(numbers))"), python("max(numbers)")]
    plan = propose(lab, python("numbers.clear()"), earlier=looks)
    assert [step.call.arguments["code"] for step in plan.plan] == ["numbers.clear()"]
    assert lab.client
    request = lab.client.requests[1]
    results = [
        each.content[0].text for message in request.messages for each in message.tool_results
    ]
    assert results == ["3", "3"]
    assert any(MAY_LOOK in message.text for message in request.messages)


@pytest.mark.spec("E17")
def test_an_answer_that_needs_nothing_but_looks_is_no_plan(tmp_path: Path) -> None:
    lab = Lab(tmp_path, {"numbers": [1, 2, 3]})
    run = lab.run([{"calls": [python("sum(numbers)")]}, "It is 6."], plan=True, answer=NO, **ON)
    assert (run.status, run.output) == (RunStatus.DONE, "It is 6.")
    assert lab.watcher.asked == []


@pytest.mark.spec("E17")
@pytest.mark.parametrize(
    "calls",
    [
        [python("print(1)"), python("numbers.clear()")],
        [python("print(1)"), call("read_file", path="a.txt")],
        [python("print(1)"), python("1 / 0")],
    ],
)
def test_what_may_change_something_is_a_plan_as_a_whole(
    tmp_path: Path, calls: list[dict[str, object]]
) -> None:
    (tmp_path / "a.txt").write_text("one")
    plan = propose(Lab(tmp_path, {"numbers": [1]}), *calls)
    assert len(plan.plan) == 2


@pytest.mark.spec("E17")
def test_where_looking_is_off_all_code_is_planned(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    assert len(propose(lab, python("print(1)"), look_freely=False).plan) == 1
    assert lab.client
    texts = [message.text for message in lab.client.requests[0].messages]
    assert not any(MAY_LOOK in text for text in texts)
    assert any("<planning>" in text for text in texts)
