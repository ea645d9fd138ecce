"""Delegated tasks: their rights, their part of the budget, and their end with their parent."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness import ALWAYS, NO, YES, Clock, Lab, Watcher, call, new_session
from ipyagent.agent.approvals import Answer, Approval
from ipyagent.agent.budgets import TimeLimits, share
from ipyagent.agent.session.sessions import Sessions
from ipyagent.config import AgentConfig, Config
from ipyagent.errors import AgentError, AgentInterrupted
from ipyagent.kernel.shell import Frontend, Surface
from ipyagent.llm.client import Client, ModelRequest
from ipyagent.llm.scripted import Scripted
from ipyagent.schema import (
    Event,
    ImageContent,
    Outcome,
    Run,
    RunState,
    RunStatus,
    StopReason,
    ToolOutput,
    ToolResult,
    ToolStatus,
)
from ipyagent.schema.events import Totals
from ipyagent.schema.run_states import RUN_MIME
from ipyagent.store.journal import Journal
from ipyagent.tools.base import tool
from ipyagent.ui.blocks import run_html
from ipyagent.ui.feed import Feed
from ipyagent.ui.plain_view import TerminalView
from ipyagent.ui.static_html import saved_bundle
from ipyagent.ui.transcribe import count_tokens_and_cost, transcribe
from ipyagent.ui.transcript import Transcript
from ipyagent.wiring.freezing import freeze_runs
from ipyagent.wiring.undo import find_undo, undo_of_run
from patience import PATIENCE
from servers.openapi_server import SHOP, APIServer, json_answer


@pytest.fixture(autouse=True)
def own_folder(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("own")))


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


class Cast:
    """Plays several agents by the prompts that they were given: each has replies of its own."""

    def __init__(self, **parts: list[Any]) -> None:
        self.parts = {name.replace("_", " "): [*replies] for name, replies in parts.items()}
        self.requests: dict[str, list[ModelRequest]] = {name: [] for name in self.parts}

    def play(self, request: ModelRequest) -> Any:
        texts = [each.text for each in request.messages if each.is_from_user]
        part = next(name for name in self.parts if any(name in text for text in texts))
        self.requests[part].append(request)
        replies = self.parts[part]
        said = replies.pop(0) if len(replies) > 1 else replies[0]
        return said(request) if callable(said) else said

    @property
    def model(self) -> Scripted:
        return Scripted([self.play] * 200)


def delegate(*tasks: str, **arguments: Any) -> dict[str, Any]:
    return {"calls": [call("delegate", task=task, **arguments) for task in tasks]}


PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk"
    "+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
ALLOWED = {"tools": {"offer": "all"}}


def run_cast(lab: Lab, cast: Cast, prompt: str = "The boss", **options: Any) -> Run:
    settings = {**ALLOWED, **options.pop("settings", {})}
    return lab.run(cast.model, prompt, settings=settings, **options)


@pytest.mark.spec("P26")
def test_the_answer_of_a_child_is_the_result_of_the_call(lab: Lab) -> None:
    lab.variables["sales"] = [1, 2, 3]
    cast = Cast(
        The_boss=[delegate("Count the sales"), "There are three."],
        Count_the_sales=[{"calls": [call("inspect_variable", name="sales")]}, "Three sales."],
    )
    run = run_cast(lab, cast)
    assert run.outcome is Outcome.SUCCESS, run.error
    (execution,) = run.executions
    assert execution.result.text_for_model == "Three sales."
    assert "inspect_variable sales" in execution.result.output
    assert "inspect_variable sales" in run_html(transcribe(run))
    child = execution.result.value
    assert child.parent_id == run.id
    assert child.session_id != run.session_id
    assert lab.session.journal.run(child.id).output == "Three sales."
    assert "There are three" not in json.dumps([str(r) for r in cast.requests["Count the sales"]])


def test_tasks_of_one_reply_are_done_beside_each_other(lab: Lab) -> None:
    gate = asyncio.Barrier(5)

    async def meet(request: ModelRequest) -> str:
        await asyncio.wait_for(gate.wait(), PATIENCE)
        return "Met."

    names = [f"Task {letter}" for letter in "ABCDE"]
    cast = Cast(The_boss=[delegate(*names), "All met."])
    for name in names:
        cast.parts[name], cast.requests[name] = [meet], []
    run = run_cast(lab, cast)
    assert [each.result.text_for_model for each in run.executions] == ["Met."] * 5
    assert len({each.result.value.session_id for each in run.executions}) == 5


def test_what_a_child_spends_its_parent_has_spent(lab: Lab) -> None:
    usage = {"usage": {"prompt_tokens": 10, "completion_tokens": 5}, "cost_usd": 0.5}
    cast = Cast(
        The_boss=[delegate("Task A", "Task B") | usage, {"text": "Done.", **usage}],
        Task_A=[{"text": "A.", **usage}],
        Task_B=[{"text": "B.", **usage}],
    )
    run = run_cast(lab, cast)
    assert run.usage.total_tokens == 60
    assert run.cost_usd == 2.0
    assert count_tokens_and_cost(Totals.of(run)) == ["60 tok", "$2.00"]


@pytest.mark.spec("A59")
@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        ({"max_tokens": 90_000}, StopReason.MAX_TOKENS),
        ({"max_usd": 9.0}, StopReason.MAX_USD),
    ],
)
def test_a_child_that_never_ends_gets_its_part_and_no_more(
    lab: Lab, limits: dict[str, Any], reason: StopReason
) -> None:
    usage = {"usage": {"prompt_tokens": 9_000, "completion_tokens": 1_000}, "cost_usd": 1.0}
    again = {"calls": [call("list_variables")], **usage}
    cast = Cast(
        The_boss=[delegate("Task A", "Task B"), "I go on."],
        Task_A=[again],
        Task_B=["B."],
    )
    run = run_cast(lab, cast, **limits)
    first, second = run.executions
    assert first.result.value.stop_reason is reason
    assert "ended early" in first.result.error
    assert second.result.text_for_model == "B."
    assert run.output == "I go on."
    assert len(first.result.value.steps) <= 5  # and a last word
    if "max_usd" in limits:
        assert run.cost_usd < 9.0 / 3 + 2


def test_each_task_has_as_many_steps_as_its_run(lab: Lab) -> None:
    again = {"calls": [call("list_variables")]}
    cast = Cast(
        The_boss=[delegate("Task A", "Task B"), again, again, "Done."],
        Task_A=[again, again, again, "A."],
        Task_B=[again],
    )
    run = run_cast(lab, cast, max_steps=4)
    first, second = (each.result for each in run.executions[:2])
    assert first.text_for_model == "A."
    assert second.value.stop_reason is StopReason.MAX_STEPS
    assert run.output == "Done."


def test_agents_that_only_delegate_come_to_an_end(lab: Lab) -> None:
    cast = Cast(The_boss=[delegate("Task A", "Task A")], Task_A=[delegate("Task B")], Task_B=["B."])
    run = run_cast(lab, cast, max_steps=6)
    assert run.stop_reason is StopReason.MAX_STEPS
    assert len(cast.requests["Task B"]) <= 6
    children = [each.result.value for each in run.executions if each.result.child]
    calls = [each.result for child in (run, *children) for each in child.executions]
    begun = [each for each in calls if each.child]
    assert any("as many as agent.max_steps allows" in (each.error or "") for each in calls)
    assert len(begun) == 6


def test_nothing_is_delegated_with_nothing_left(lab: Lab) -> None:
    cast = Cast(The_boss=[delegate("Task A"), "I did it myself."], Task_A=["A."])
    cast.parts["The boss"][0] |= {"usage": {"prompt_tokens": 90, "completion_tokens": 10}}
    run = run_cast(lab, cast, max_tokens=101)
    assert "agent.max_tokens" in run.executions[0].result.error
    assert not cast.requests["Task A"]


def test_parts_are_equal_for_tasks_that_are_called_by_another_tool(lab: Lab) -> None:
    usage = {"usage": {"prompt_tokens": 90, "completion_tokens": 10}, "cost_usd": 1.0}
    given = [{"name": "delegate", "arguments": {"task": f"Task {each}"}} for each in "ABCD"]
    again = {"calls": [call("list_variables")], **usage}
    cast = Cast(
        The_boss=[{"calls": [call("call_tool", **each) for each in given]}, "Done."],
        **{f"Task_{each}": [again] for each in "ABCD"},
    )
    with APIServer({"GET /openapi.json": json_answer(SHOP)}) as at:
        lab.environment.services_for_run(Config()).openapi.register("shop", at.url)
        run = lab.run(cast.model, "The boss", max_usd=10.0)
    assert run.cost_usd == 8.0
    assert run.output == "Done."


@pytest.mark.spec("A59")
def test_tasks_beside_each_other_send_nothing_that_is_beyond_their_parts(lab: Lab) -> None:
    def spend(request: ModelRequest) -> dict[str, Any]:
        sent = sum(len(each.text) for each in request.messages) // 4
        usage = {"prompt_tokens": sent, "completion_tokens": 10}
        return {"calls": [call("list_variables")], "usage": usage}

    names = [f"Task {number:02}" for number in range(20)]
    cast = Cast(The_boss=[delegate(*names), "Done."])
    for name in names:
        cast.parts[name], cast.requests[name] = [spend], []
    run = run_cast(lab, cast, max_tokens=3_000)
    assert run.usage.total_tokens < 3_000
    assert run.output == "Done."


def test_time_that_a_child_has_is_half_of_what_is_left() -> None:
    agent = share(Run(id="r"), AgentConfig(), 2, 60.0)
    assert (agent.max_seconds, agent.max_steps, agent.max_usd) == (30.0, 20, None)


def test_a_child_may_delegate_and_its_child_may_not(lab: Lab) -> None:
    cast = Cast(
        The_boss=[delegate("Task A"), "Done."],
        Task_A=[delegate("Task B"), "A."],
        Task_B=[delegate("Task C"), "B."],
        Task_C=["C."],
    )
    run = run_cast(lab, cast)
    middle = run.executions[0].result.value
    lowest = middle.executions[0].result.value
    assert "no tool is named 'delegate'" in lowest.executions[0].result.error
    assert not cast.requests["Task C"]
    assert run.executions[0].result.child.runs == (middle.id, lowest.id)


@pytest.mark.spec("A59")
def test_a_child_gets_no_tool_that_its_parent_lacks(lab: Lab) -> None:
    cast = Cast(
        The_boss=[
            delegate("Task A", tools=["run_python"]),
            delegate("Task A", tools=["list_variables"]),
            delegate("Task A", tools=[]),
            delegate("Task A"),
            "Done.",
        ],
        Task_A=[{"calls": [call("run_python", code="x = 1")]}, "A."],
    )
    allowed = ["delegate", "list_variables", "inspect_variable"]
    run = run_cast(lab, cast, allowed_tools=allowed, confirm_mode="yolo")
    refused, narrow, empty, whole = (each.result for each in run.executions)
    assert "no tool is named 'run_python'" in refused.error
    assert "at least one tool" in empty.error
    assert "no tool is named 'run_python'" in narrow.value.executions[0].result.error
    offered = [{tool.name for tool in each.tools} for each in cast.requests["Task A"]]
    assert offered[0] == {"list_variables"}
    assert offered[-1] == {*allowed}
    assert whole.success
    assert "x" not in lab.variables


def test_what_a_rule_denies_is_denied_to_a_child(lab: Lab) -> None:
    cast = Cast(
        The_boss=[delegate("Task A"), "Done."],
        Task_A=[{"calls": [call("write_file", path="a.txt", content="x")]}, "I could not."],
    )
    rules = {"policy": {"rules": [{"effect": "deny", "tool": "write_file"}]}}
    run = run_cast(lab, cast, settings=rules, confirm_mode="yolo")
    (denied,) = run.executions[0].result.value.executions
    assert denied.status is ToolStatus.DENIED
    assert not (lab.environment.workspace.root / "a.txt").exists()


def test_a_skill_that_limits_a_run_limits_its_children(lab: Lab) -> None:
    folder = lab.environment.workspace.root / ".ipyagent" / "skills" / "careful"
    folder.mkdir(parents=True)
    head = "name: careful\ndescription: Look.\nallowed-tools: [delegate, list_variables]"
    (folder / "SKILL.md").write_text(f"---\n{head}\n---\n\nOnly look.\n")
    cast = Cast(
        The_boss=[{"calls": [call("get_skill", name="careful")]}, delegate("Task A"), "Done."],
        Task_A=[{"calls": [call("run_python", code="x = 1")]}, "A."],
    )
    run = run_cast(lab, cast, confirm_mode="yolo")
    (refused,) = run.executions[1].result.value.executions
    assert refused.status is ToolStatus.DENIED
    assert "the skill 'careful'" in refused.result.error


def test_what_checks_the_prompts_of_a_session_checks_its_tasks(lab: Lab) -> None:
    def refuse(prompt: str) -> None:
        if "Task A" in prompt:
            raise AgentError("not Task A")

    lab.session.validators.append(refuse)
    cast = Cast(The_boss=[delegate("Task A"), "Done."], Task_A=["A."])
    run = run_cast(lab, cast)
    assert run.executions[0].result.error == "not Task A"
    assert not cast.requests["Task A"]


def test_each_question_of_a_child_names_its_task(lab: Lab) -> None:
    write = {"calls": [call("write_file", path="a.txt", content="x")]}
    cast = Cast(
        The_boss=[delegate("Task A", "Task B"), "Done."],
        Task_A=[write, "Written."],
        Task_B=[write, "Not written."],
    )

    def decide(approval: Approval) -> Answer:
        return YES if "Task A" in approval.subject.concern else NO

    run = run_cast(lab, cast, answer=decide)
    names = sorted(each.subject.concern for each in lab.watcher.asked)
    assert names == [f"for the delegated task “Task {letter}”" for letter in "AB"]
    first, second = (each.result for each in run.executions)
    assert [each.path for each in first.files] == ["a.txt"]
    assert second.files == ()
    assert second.value.executions[0].status is ToolStatus.DENIED


def test_what_is_always_allowed_for_a_child_is_for_its_parents_session(lab: Lab) -> None:
    write = {"calls": [call("write_file", path="a.txt", content="x")]}
    cast = Cast(The_boss=[delegate("Task A"), write, "Done."], Task_A=[write, "Written."])
    run_cast(lab, cast, answer=ALWAYS)
    assert len(lab.watcher.asked) == 1


def test_nobody_to_ask_is_a_denial_for_the_child(lab: Lab) -> None:
    cast = Cast(
        The_boss=[delegate("Task A"), "It could not."],
        Task_A=[{"calls": [call("write_file", path="a.txt", content="x")]}, "I could not."],
    )
    run = run_cast(lab, cast)
    assert run.stop_reason is StopReason.UNATTENDED
    assert "ended early" in run.executions[0].result.error
    assert "I could not." in run.executions[0].result.text_for_model


def test_a_child_that_fails_fails_alone(lab: Lab) -> None:
    def fail(request: ModelRequest) -> dict[str, Any]:
        return {"error": {"kind": "refused", "message": "No such model."}}

    cast = Cast(The_boss=[delegate("Task A", "Task B"), "Done."], Task_A=[fail], Task_B=["B."])
    run = run_cast(lab, cast)
    first, second = (each.result for each in run.executions)
    assert not first.success
    assert second.text_for_model == "B."
    assert run.output == "Done."


@pytest.mark.spec("A59")
def test_stop_ends_the_tree_and_keeps_what_was_done(lab: Lab) -> None:
    async def stop(request: ModelRequest) -> str:
        lab.cell.stop()
        await asyncio.Event().wait()
        return "Never."

    write = {"calls": [call("run_python", code="x = 1")]}
    cast = Cast(
        The_boss=[delegate("Task A"), "Never."],
        Task_A=[write, delegate("Task B"), "Never."],
        Task_B=[stop],
    )
    with pytest.raises(AgentInterrupted):
        run_cast(lab, cast, confirm_mode="yolo")
    run = lab.session.runs[-1]
    child = run.executions[0].result.value
    assert run.status is child.status is RunStatus.CANCELLED
    assert lab.session.journal.run(child.id).status is RunStatus.CANCELLED
    assert [each.name for each in run.variables] == ["x"]


def test_stop_ends_the_code_of_a_child(lab: Lab) -> None:
    lab.variables["stop"] = lambda: lab.cell.stop()
    code = {"calls": [call("run_python", code="stop()\nwhile True: pass")]}
    cast = Cast(The_boss=[delegate("Task A", "Task B"), "Never."], Task_A=[code], Task_B=[code])
    with pytest.raises(AgentInterrupted):
        run_cast(lab, cast, confirm_mode="yolo")
    run = lab.session.runs[-1]
    assert run.status is RunStatus.CANCELLED
    assert [each.result.value.status for each in run.executions] == [RunStatus.CANCELLED] * 2


def test_what_the_user_adds_is_for_the_parent(lab: Lab) -> None:
    def say(request: ModelRequest) -> str:
        lab.environment.approvals.steering.say("Hurry up.")
        return "A."

    cast = Cast(The_boss=[delegate("Task A"), "Done."], Task_A=[say])
    run_cast(lab, cast)
    assert "Hurry up." in str(cast.requests["The boss"][-1].messages)


def test_what_children_changed_goes_back_with_the_parents_run(lab: Lab) -> None:
    write = {"calls": [call("write_file", path="a.txt", content="x")]}
    cast = Cast(
        The_boss=[{"calls": [call("run_python", code="x = 1")]}, delegate("Task A", "Task B"), "."],
        Task_A=[{"calls": [call("run_python", code="x = 2")]}, write, "A."],
        Task_B=[{"calls": [call("run_python", code="y = x")]}, "B."],
    )
    run = run_cast(lab, cast, confirm_mode="yolo")
    assert lab.variables["x"] == 2
    report = undo_of_run(lab.environment, run).run()
    assert not report.changed
    assert not {"x", "y"} & {*lab.variables}
    assert not (lab.environment.workspace.root / "a.txt").exists()
    child = run.executions[1].result.value
    assert undo_of_run(lab.environment, child).is_done


def test_a_file_that_children_changed_in_turn_goes_back(lab: Lab) -> None:
    is_first, is_second = asyncio.Event(), asyncio.Event()

    def write(content: str) -> dict[str, Any]:
        return {"calls": [call("write_file", path="a.txt", content=content)]}

    async def write_second(request: ModelRequest) -> dict[str, Any]:
        await asyncio.wait_for(is_first.wait(), PATIENCE)
        return write("2")

    def say_second(request: ModelRequest) -> str:
        is_second.set()
        return "B."

    async def write_third(request: ModelRequest) -> dict[str, Any]:
        is_first.set()
        await asyncio.wait_for(is_second.wait(), PATIENCE)
        return write("3")

    path = lab.environment.workspace.root / "a.txt"
    path.write_text("0")
    cast = Cast(
        The_boss=[delegate("Task A", "Task B"), "Done."],
        Task_A=[write("1"), write_third, "A."],
        Task_B=[write_second, say_second],
    )
    run = run_cast(lab, cast, confirm_mode="yolo")
    assert path.read_text() == "3"
    report = undo_of_run(lab.environment, run).run()
    assert (path.read_text(), report.changed) == ("0", ())
    find_undo(lab.environment, [run], report.id).run()
    assert path.read_text() == "3"


def test_a_file_goes_back_with_a_task_that_also_left_something(lab: Lab) -> None:
    lab.variables["lines"] = iter("abc")
    use = {"calls": [call("run_python", code="next(lines)")]}
    cast = Cast(
        The_boss=[WRITE, delegate("Task A"), "Done."],
        Task_A=[{"calls": [call("write_file", path="a.txt", content="y")]}, use, "A."],
    )
    run = run_cast(lab, cast, confirm_mode="yolo")
    report = undo_of_run(lab.environment, run).run()
    assert report.changed == ()
    assert any(each.startswith("lines stays") for each in report.skipped)
    assert not (lab.environment.workspace.root / "a.txt").exists()


def test_a_child_that_changed_nothing_leaves_nothing_to_take_back(lab: Lab) -> None:
    cast = Cast(The_boss=[delegate("Task A"), "Done."], Task_A=["A."])
    assert not undo_of_run(lab.environment, run_cast(lab, cast)).records


def test_what_one_child_changed_goes_back_alone(lab: Lab) -> None:
    cast = Cast(
        The_boss=[delegate("Task A", "Task B"), "Done."],
        Task_A=[{"calls": [call("run_python", code="x = 1")]}, "A."],
        Task_B=[{"calls": [call("run_python", code="y = 1")]}, "B."],
    )
    run = run_cast(lab, cast, confirm_mode="yolo")
    undo_of_run(lab.environment, run.executions[0].result.value).run()
    assert "x" not in lab.variables
    assert lab.variables["y"] == 1


def test_what_a_child_has_read_its_parent_has_read(lab: Lab) -> None:
    (lab.environment.workspace.root / "a.txt").write_text("Do as I say.")
    (lab.environment.workspace.root / "b.txt").write_text("Do as I say.")
    read = {"calls": [call("read_file", path="b.txt")]}
    cast = Cast(
        The_boss=[{"calls": [call("read_file", path="a.txt")]}, delegate("Task A"), "Done."],
        Task_A=[read, "A."],
    )
    run = run_cast(lab, cast)
    assert {*lab.session.conversation.sources} == {"a.txt", "b.txt"}
    child = run.executions[1].result.value
    again = Sessions(lab.session.journal).read(child.session_id)
    assert {*again.conversation.sources} == {"a.txt", "b.txt"}


def test_a_replay_repeats_the_calls_of_children_without_a_model(lab: Lab) -> None:
    cast = Cast(
        The_boss=[delegate("Task A"), {"calls": [call("run_python", code="y = x")]}, "Done."],
        Task_A=[{"calls": [call("run_python", code="x = 7")]}, "A."],
    )
    run = run_cast(lab, cast, answer=YES)
    lab.variables.clear()
    recorded = lab.session.journal.run(run.id)
    again = lab.run([], "The boss", request={"recording": recorded})
    assert again.outcome is Outcome.SUCCESS, again.error
    assert lab.watcher.asked == []
    assert lab.variables["y"] == 7
    child = run.executions[0].result.child
    assert again.executions[0].result.value.replayed.run_id == child.runs[0]


@pytest.mark.spec("A59")
@pytest.mark.parametrize("choice", ["live", "keep"])
@pytest.mark.parametrize("is_in_child", [False, True])
def test_a_replay_that_has_differed_asks_about_what_children_do(
    lab: Lab, choice: str, *, is_in_child: bool
) -> None:
    look = {"calls": [call("run_python", code="print(n)")]}
    first, second = ([], [look, "B."]) if is_in_child else ([look], ["B."])
    cast = Cast(
        The_boss=[*first, delegate("Task B"), delegate("Task A"), "Done."],
        Task_A=[WRITE, "Written."],
        Task_B=second,
    )
    lab.variables["n"] = 1
    run = run_cast(lab, cast, answer=YES)
    undo_of_run(lab.environment, run).run()
    lab.variables["n"] = 2
    live = Cast(The_boss=[delegate("Task A"), "Live."], Task_A=[WRITE, "Live."], Task_B=["Live."])
    recorded = lab.session.journal.run(run.id)
    options: dict[str, Any] = {"settings": ALLOWED, "on_difference": choice}
    again = lab.run(live.model, "The boss", request={"recording": recorded}, answer=NO, **options)
    assert [each.subject.call.name for each in lab.watcher.asked] == ["write_file"]
    assert not (lab.environment.workspace.root / "a.txt").exists()
    assert again.output == ("Live." if choice == "live" else "Done.")


def test_a_replay_spends_nothing_for_a_task_that_it_does_not_repeat(lab: Lab) -> None:
    spent = {"usage": {"prompt_tokens": 90, "completion_tokens": 10}, "cost_usd": 1.0}
    refused = {"error": {"kind": "refused", "message": "No such model."}}
    look = {"calls": [call("list_variables")], **spent}
    cast = Cast(The_boss=[delegate("Task A"), "Done."], Task_A=[look, refused])
    run = run_cast(lab, cast)
    assert run.cost_usd == 1.0
    recorded = lab.session.journal.run(run.id)
    again = lab.run([], "The boss", request={"recording": recorded})
    assert (again.outcome, again.cost_usd) == (Outcome.SUCCESS, None)
    assert again.usage.total_tokens == 0


def test_a_replay_stops_where_the_run_of_a_child_is_not_known(lab: Lab) -> None:
    cast = Cast(The_boss=[delegate("Task A"), "Done."], Task_A=["A."])
    run = run_cast(lab, cast)
    stranger = Lab(lab.environment.workspace.root)
    stranger.session = new_session(Journal.open(None))
    again = stranger.run([], "The boss", request={"recording": run})
    assert again.stop_reason is StopReason.DIFFERS
    assert "recorded in another folder" in again.executions[0].result.error


def test_a_replay_takes_no_run_of_another_parent_for_a_childs(lab: Lab) -> None:
    cast = Cast(The_boss=[delegate("Task A"), "Done."], Task_A=["A."])
    run = run_cast(lab, cast)
    forged = lab.session.journal.run(run.id).model_copy(update={"id": "another"})
    again = lab.run([], "The boss", request={"recording": forged})
    assert again.stop_reason is StopReason.DIFFERS
    assert "recorded in another folder" in again.executions[0].result.error


def save(run: Run) -> dict[str, Any]:
    """Return a run as a notebook's file holds it."""
    return json.loads(json.dumps(saved_bundle(run)[RUN_MIME]))


def start_elsewhere(root: Path) -> Lab:
    """Return a lab with a journal of its own."""
    root.mkdir(exist_ok=True)
    lab = Lab(root)
    lab.session = new_session(Journal.open(None))
    return lab


def no_model() -> Client:
    raise AgentError("no key is set")


def replay(lab: Lab, data: dict[str, Any], **options: Any) -> Run:
    request = {"recording": Run.from_dict(data)}
    return lab.run([], "The boss", model=no_model, request=request, settings=ALLOWED, **options)


def record_family(lab: Lab) -> dict[str, Any]:
    """Record a task within a task; each changes a variable, and was approved."""
    change = {"calls": [call("run_python", code="x = [7]", keep=True)]}
    below = {"calls": [call("run_python", code="x.append(8)", keep=True)]}
    cast = Cast(
        The_boss=[{"calls": [call("list_variables")]}, delegate("Task A"), "Done."],
        Task_A=[change, delegate("Task B"), "A."],
        Task_B=[below, "B."],
    )
    run = run_cast(lab, cast, answer=YES)
    assert run.outcome is Outcome.SUCCESS, run.error
    assert lab.variables["x"] == [7, 8]
    return save(run)


def test_a_saved_run_has_what_a_replay_needs_of_its_children(lab: Lab) -> None:
    data = record_family(lab)
    (child,) = data["children"]
    assert [each["prompt"] for each in child["children"]] == ["Task B"]
    for _ in range(2):
        stranger = start_elsewhere(lab.environment.workspace.root)
        again = replay(stranger, data)
        assert again.outcome is Outcome.SUCCESS, again.error
        assert stranger.watcher.asked == []
        assert stranger.variables["x"] == [7, 8]
        data = save(again)


def test_a_childs_calls_are_asked_about_in_another_folder(lab: Lab, tmp_path: Path) -> None:
    data = record_family(lab)
    stranger = start_elsewhere(tmp_path / "other")
    again = replay(stranger, data, answer=YES)
    assert again.outcome is Outcome.SUCCESS, again.error
    (asked,) = stranger.watcher.asked
    names = ["list_variables", "delegate", "run_python", "delegate", "run_python"]
    assert [each.call.name for each in asked.subject.plan] == names
    assert stranger.variables["x"] == [7, 8]


def test_a_childs_calls_do_not_run_where_nobody_can_be_asked(lab: Lab, tmp_path: Path) -> None:
    stranger = start_elsewhere(tmp_path / "other")
    again = replay(stranger, record_family(lab))
    assert again.stop_reason is StopReason.UNATTENDED
    assert "x" not in stranger.variables


def child_call(data: dict[str, Any]) -> dict[str, Any]:
    (found,) = data["children"][0]["steps"][0]["executions"]
    return found


FORGED: dict[str, Callable[[dict[str, Any]], object]] = {
    "another call": lambda data: child_call(data)["call"].update(arguments={"code": "x = 1"}),
    "no signature": lambda data: child_call(data).pop("signature"),
    "another task": lambda data: data["children"][0].update(prompt="Task C"),
    "another session": lambda data: data["children"][0].update(session_id="0" * 12),
    "a parent that had done less": lambda data: data["steps"].pop(0),
    "a parent of another session": lambda data: data.update(session_id="0" * 12),
    "another parent": lambda data: (
        data.update(id="another"),
        data["children"][0].update(parent_id="another"),
    ),
    "a grandchild in its place": lambda data: data["children"].append(
        data["children"].pop()["children"][0]
        | {"id": data["steps"][1]["executions"][0]["result"]["child"]["runs"][0]}
        | {"parent_id": data["id"]}
    ),
}


@pytest.mark.parametrize("change", FORGED.values(), ids=FORGED)
def test_a_changed_recording_of_a_child_runs_no_call_of_it(
    lab: Lab, change: Callable[[dict[str, Any]], object]
) -> None:
    data = record_family(lab)
    change(data)
    stranger = start_elsewhere(lab.environment.workspace.root)
    again = replay(stranger, data)
    assert again.outcome is not Outcome.SUCCESS
    assert "x" not in stranger.variables


def test_a_secret_in_a_childs_call_is_not_saved(lab: Lab) -> None:
    @tool
    def sign_in(password: str) -> str:
        """Sign in."""
        return "ok"

    secret = "correct horse battery"
    cast = Cast(
        The_boss=[delegate("Task A"), "Done."],
        Task_A=[{"calls": [call("sign_in", password=secret)]}, "A."],
    )
    run = run_cast(lab, cast, tools=[sign_in], confirm_mode="yolo")
    assert run.executions[0].result.value.executions[0].call.arguments == {"password": secret}
    assert save(run)["children"]
    assert secret not in json.dumps(saved_bundle(run))


def test_a_number_that_a_child_made_up_is_in_no_result(lab: Lab) -> None:
    cast = Cast(
        The_boss=[delegate("Task A"), "They are 823177 and 5041."],
        Task_A=[{"calls": [call("query", sql="SELECT 71 * 71 AS n")]}, "823177, and 5041."],
    )
    run = run_cast(lab, cast, confirm_mode="yolo")
    traces = [(each.text, each.trace) for each in run.numbers]
    assert traces == [("823177", "not found"), ("5041", "found")]


def test_a_number_made_up_in_a_task_is_in_no_result_of_it_either(lab: Lab) -> None:
    """5041 was read, 823177 and 9119 were not; the child believes its task."""
    told = call("delegate", task="Task A: is 5041 less than 823177?")
    noted = [
        call("todo_write", todos=[{"content": "Explain 9119"}]),
        call("record_note", content="It is 9119."),
    ]
    cast = Cast(
        The_boss=[
            {"calls": [call("query", sql="SELECT 71 * 71 AS n"), *noted]},
            {"calls": [told]},
            "5041 is less than 823177 and 9119.",
            "Again: 5041, 823177, 9119.",
        ],
        Task_A=[delegate("Task B: 823177?"), "5041 is, by 818136, less than 823177."],
        Task_B=["It is 823177."],
    )
    for _ in range(2):
        run = run_cast(lab, cast, confirm_mode="yolo")
        traces = [(each.text, each.trace) for each in run.numbers]
        assert traces == [
            (n, "found" if n == "5041" else "not found") for n in ("5041", "823177", "9119")
        ]
        if run.results:
            child = run.results[-1].value
            traces = [(each.text, each.trace) for each in child.numbers]
            assert traces == [("5041", "found"), ("818136", "not found"), ("823177", "not found")]


def test_a_frozen_run_has_the_code_of_its_children(lab: Lab) -> None:
    cast = Cast(
        The_boss=[delegate("Task A"), {"calls": [call("run_python", code="y = x + 1")]}, "Done."],
        Task_A=[{"calls": [call("run_python", code="x = 7")]}, "A."],
    )
    run = run_cast(lab, cast, confirm_mode="yolo")
    frozen = freeze_runs(lab.environment, [run])
    code = "\n".join(each.source for each in frozen.cells)
    assert code.index("x = 7") < code.index("y = x + 1")
    assert "delegate" not in code


def test_a_frozen_run_has_what_its_answer_cites_of_a_child(lab: Lab) -> None:
    cast = Cast(
        The_boss=[delegate("Task A"), "It is 5041."],
        Task_A=[{"calls": [call("query", sql="SELECT 71 * 71 AS n")]}, "The square is 5041."],
    )
    run = run_cast(lab, cast, confirm_mode="yolo")
    code = [each.source for each in freeze_runs(lab.environment, [run]).cells]
    assert 'duckdb.sql("SELECT 71 * 71 AS n").df()' in "\n".join(code)


def test_a_frozen_run_says_what_it_lacks_of_children(lab: Lab) -> None:
    cast = Cast(
        The_boss=[delegate("Task A"), "Done."],
        Task_A=[{"calls": [call("run_python", code="x = 7")]}, "A."],
    )
    run = run_cast(lab, cast, confirm_mode="yolo")
    later = lab.session.journal.run(run.id)
    code = "\n".join(each.source for each in freeze_runs(lab.environment, [later]).cells)
    assert "# delegate(task='Task A') was called here: it is not plain Python." in code
    undo_of_run(lab.environment, run).run()
    gone = lab.session.runs[-1]
    code = "\n".join(each.source for each in freeze_runs(lab.environment, [gone]).cells)
    assert "x = 7" not in code


@pytest.mark.parametrize(
    ("settings", "is_offered"),
    [({}, True), ({"offer": "small"}, False), ({"offer": "all"}, True)],
)
def test_every_model_but_a_small_one_is_offered_it(
    settings: dict[str, object], is_offered: bool, lab: Lab
) -> None:
    lab.run(["Ok."], "Sum the sales.", settings={"tools": settings})
    assert ("delegate" in [each.name for each in lab.client.requests[-1].tools]) is is_offered


def test_a_search_over_tools_finds_it_for_runs_and_tasks(lab: Lab) -> None:
    look = {"calls": [call("find_tools", query="list items")]}
    found = {"calls": [call("find_tools", query="delegate to a subagent")]}
    cast = Cast(
        The_boss=[
            found,
            {"calls": [call("call_tool", name="delegate", arguments={"task": "Task A"})]},
            "Done.",
        ],
        Task_A=[look, found, "A."],
    )
    with APIServer({"GET /openapi.json": json_answer(SHOP)}) as at:
        lab.environment.services_for_run(Config()).openapi.register("shop", at.url)
        run = lab.run(cast.model, "The boss", settings={"tools": {"offer": "small"}})
    search, delegated = run.executions
    assert search.result.output.startswith("delegate: ")
    assert '"task": {"type": "string"}' in search.result.output
    assert (delegated.call.name, delegated.result.text_for_model) == ("delegate", "A.")
    assert "delegate" not in [each.name for each in cast.requests["The boss"][0].tools]
    items, again = delegated.result.value.executions
    assert "listItems" in items.result.output
    assert again.result.output == search.result.output


def test_a_plan_delegates_nothing(lab: Lab) -> None:
    plan = {"calls": [call("delegate", task="Task A")]}
    run = lab.run([plan, "Then not."], "Delegate it.", plan=True, settings=ALLOWED)
    assert "no tool is named 'delegate'" in run.executions[0].result.error


def test_a_tool_of_the_users_with_its_name_takes_its_place(lab: Lab) -> None:
    @tool
    def delegate(task: str) -> str:
        """Mine."""
        return "Mine."

    calls = {"calls": [call("delegate", task="A")]}
    run = lab.run([calls, "Ok."], tools=[delegate])
    assert run.executions[0].result.output == "Mine."


WRITE = {"calls": [call("write_file", path="a.txt", content="x")]}


class OnPage:
    """Runs on a page, whose user approves what it shows."""

    def __init__(self, lab: Lab) -> None:
        self.shown: list[Transcript] = []
        self.feed = feed = Feed(lab.environment.approvals, lambda: None)

        class Card(Watcher):
            def __call__(self, event: Event, state: RunState) -> None:
                super().__call__(event, state)
                feed(event, state)

            def show_child(self, event: Event, state: RunState) -> None:
                feed.show_child(event, state)

        lab.view_class = Card

    def approve(self, approval: Approval) -> None:
        shown = self.feed.transcript
        self.shown.append(shown)
        calls = shown.steps[-1].calls if shown.steps else ()
        asked = [each.approval for each in (*calls, shown.plan) if each]
        assert approval.id in [each.id for each in asked if each]
        click = {"type": "decide", "approval_id": approval.id, "answer": {"decision": "approve"}}
        self.feed.on_message(click, lambda reply: None)


def test_a_page_shows_the_questions_of_children_below_the_call(lab: Lab) -> None:
    page = OnPage(lab)
    cast = Cast(
        The_boss=[delegate("Task A"), "Done."],
        Task_A=[delegate("Task B"), "Written."],
        Task_B=[WRITE, "Written."],
    )
    run = run_cast(lab, cast, answer=page.approve)
    (asked,) = page.shown
    assert asked.header.state == "waiting"
    own, of_child = asked.steps[-1].calls
    assert own.name == "delegate"
    assert "Task B" in of_child.concern
    assert run.executions[0].result.success
    assert (lab.environment.workspace.root / "a.txt").exists()


@pytest.mark.spec("A59")
def test_a_replay_asks_about_the_calls_of_a_task_that_nobody_approved(lab: Lab) -> None:
    cast = Cast(The_boss=[delegate("Task A"), "Done."], Task_A=[WRITE, "Written."])
    run = run_cast(lab, cast, confirm_mode="yolo")
    undo_of_run(lab.environment, run).run()
    page, recorded = OnPage(lab), lab.session.journal.run(run.id)
    again = lab.run([], "The boss", request={"recording": recorded}, answer=page.approve)
    assert again.outcome is Outcome.SUCCESS, again.error
    assert [each.name for each in page.shown[0].plan.steps] == ["delegate", "write_file"]
    undo_of_run(lab.environment, again).run()
    alone = lab.run([], "The boss", request={"recording": recorded})
    assert alone.outcome is not Outcome.SUCCESS
    assert not (lab.environment.workspace.root / "a.txt").exists()


def test_the_line_of_a_child_says_how_far_it_is(lab: Lab) -> None:
    heard = asyncio.Event()
    lines: list[str] = []

    def hear(event: Event) -> None:
        if isinstance(event, ToolOutput):
            lines.append(event.text)
            heard.set()

    async def wait(request: ModelRequest) -> str:
        await asyncio.wait_for(heard.wait(), PATIENCE)
        return "A."

    cast = Cast(The_boss=[delegate("Task A"), "Done."], Task_A=[wait])
    run_cast(lab, cast, heard=hear)
    assert lines[0] == "step 1/20"


async def test_time_does_not_pass_while_any_question_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch, asyncio.get_running_loop())
    parent, child = TimeLimits(), TimeLimits()
    child.outer = parent
    async with parent.limit(1_000, ValueError), child.limit(500, ValueError):
        first, second = child.pause(), child.pause()
        first.__enter__()
        second.__enter__()
        clock.advance(10_000)
        first.__exit__(None, None, None)
        clock.advance(10_000)
        assert 999 < parent.seconds_left <= 1_000
        second.__exit__(None, None, None)
        assert 999 < parent.seconds_left <= 1_000
        assert 499 < child.seconds_left <= 500
        clock.advance(100)
        assert 899 < parent.seconds_left <= 900


def test_a_child_whose_time_is_up_leaves_its_parent_time(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def take_long(request: ModelRequest) -> str:
        Clock(monkeypatch, asyncio.get_running_loop()).advance(600)
        await asyncio.Event().wait()
        return "Never."

    look = {"calls": [call("list_variables")]}
    cast = Cast(The_boss=[delegate("Task A"), "Done."], Task_A=[look, take_long, "My last word."])
    run = run_cast(lab, cast, max_seconds=1_000)
    child = run.executions[0].result
    assert child.value.stop_reason is StopReason.MAX_SECONDS
    assert "My last word." in child.text_for_model
    assert (run.stop_reason, run.output) == (StopReason.FINISHED, "Done.")


def test_a_terminal_shows_what_a_child_asks_one_after_the_other(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def answer(words: str) -> str:
        print(f"{words}y")
        return "y"

    monkeypatch.setattr("builtins.input", answer)
    frontend = Frontend(Surface.TERMINAL, can_input=True)
    lab.view_class = lambda environment, reply, heard: TerminalView(
        lab.cell, environment.approvals, frontend
    )
    cast = Cast(
        The_boss=[delegate("Task A", "Task B"), "Done."],
        Task_A=[{"calls": [call("write_file", path="a.txt", content="x")]}, "A."],
        Task_B=[{"calls": [call("write_file", path="b.txt", content="x")]}, "B."],
    )
    run_cast(lab, cast)
    shown = capsys.readouterr().out
    *questions, _rest = shown.split("Run write_file")
    named = [re.findall(r"delegated task “(Task [AB])”", each)[-1] for each in questions]
    assert sorted(named) == ["Task A", "Task B"]


def test_a_terminal_shows_what_a_child_asks_if_its_parent_called_the_same(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("builtins.input", lambda words: print(words) or "y")
    frontend = Frontend(Surface.TERMINAL, can_input=True)
    lab.view_class = lambda environment, reply, heard: TerminalView(
        lab.cell, environment.approvals, frontend
    )
    same = {"calls": [{"id": "call_0", **call("write_file", path="a.txt", content="x")}]}
    cast = Cast(The_boss=[same, delegate("Task A"), "Done."], Task_A=[same, "A."])
    run_cast(lab, cast)
    _first, second, _rest = capsys.readouterr().out.split("Run write_file")
    assert "delegated task “Task A”" in second


def test_figures_of_a_child_are_shown_and_not_sent(lab: Lab) -> None:
    @tool
    def draw() -> ToolResult:
        """Draw."""
        return ToolResult(output="Drawn.", images=(ImageContent(data=PIXEL),))

    cast = Cast(The_boss=[delegate("Task A"), "Done."], Task_A=[{"calls": [call("draw")]}, "A."])
    run = run_cast(lab, cast, tools=[draw])
    result = run.executions[0].result
    assert result.images == ()
    assert PIXEL in run_html(transcribe(run))
