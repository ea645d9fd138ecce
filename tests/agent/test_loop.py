import asyncio
import itertools
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from harness import NO, YES, Lab, call
from ipyagent.errors import AgentInterrupted
from ipyagent.llm.wire import to_openai
from ipyagent.schema import (
    Event,
    Message,
    Outcome,
    Role,
    RunStatus,
    StopReason,
    ToolFinished,
    ToolStarted,
    ToolStatus,
)
from ipyagent.tools.base import tool
from ipyagent.wiring import runtime
from patience import PATIENCE


def stop_at(lab: Lab, moment: str) -> Callable[[Event], None]:
    """Whoever hears of an event of that type stops the run."""

    def heard(event: Event) -> None:
        if event.type == moment:
            lab.cell.stop()

    return heard


def assert_roles_alternate(lab: Lab) -> None:
    """In what was asked last; several results of tools may follow each other."""
    wired = to_openai(lab.client.requests[-1].messages, vision=True)
    roles = [message["role"] for message in wired]
    assert all(a != b or a == "tool" for a, b in itertools.pairwise(roles))
    assert roles[-1] == "user"


def assert_every_call_has_exactly_one_result(messages: list[Message]) -> None:
    for i, message in enumerate(messages):
        wanted = [c.id for c in message.tool_calls]
        if wanted:
            answers = [b.tool_use_id for b in messages[i + 1].content]
            assert answers == wanted


def test_events_nest_in_pairs(lab: Lab) -> None:
    lab.run([{"thinking": "Hm.", "text": "Look.", "calls": [call("list_files")]}, "Done."])
    assert lab.watcher.types() == [
        "run_started",
        "step_started",
        "message_started",
        "message_delta",
        "message_finished",
        "tool_started",
        "tool_running",
        "tool_finished",
        "step_finished",
        "step_started",
        "message_started",
        "message_delta",
        "message_finished",
        "step_finished",
        "run_finished",
    ]


@pytest.mark.spec("A28", "M14")
def test_calls_decide_even_if_the_finish_reason_says_stop(lab: Lab) -> None:
    run = lab.run([{"calls": [call("list_variables")], "finish_reason": "stop"}, "None."])
    assert [e.call.name for e in run.executions] == ["list_variables"]
    assert_every_call_has_exactly_one_result(lab.session.conversation.messages)


@pytest.mark.spec("M21", "H24", "A39", "P13", "D10", "D11")
def test_whatever_becomes_of_a_call_is_told_in_one_form(lab: Lab) -> None:
    @tool
    def burst() -> None:
        """Burst."""
        raise ValueError("bad")

    calls = [
        call("list_variables"),
        call("fly"),
        call("burst"),
        call("read_file", colour="red"),
        call("write_file", path="x", content="y"),
        {"name": "list_files", "arguments": "{bad"},
    ]
    run = lab.run([{"calls": calls}, "Oh."], tools=[burst], answer=NO)
    done = [e.execution for e in lab.watcher.events if isinstance(e, ToolFinished)]
    assert [each.status for each in done] == [
        ToolStatus.SUCCESS,
        ToolStatus.FAILED,
        ToolStatus.FAILED,
        ToolStatus.FAILED,
        ToolStatus.DENIED,
        ToolStatus.FAILED,
    ]
    for each in done:
        assert each.result.success is (each.result.error is None)
        assert each.result.output
    assert "colour" in done[3].result.output
    assert run.executions == tuple(done)
    begun = [e.execution.call for e in lab.watcher.events if isinstance(e, ToolStarted)]
    assert begun == [each.call for each in done]
    ran = [each.started_at is not None for each in done]
    assert ran == [True, False, True, False, False, False]
    assert done[0].duration is not None


@pytest.mark.spec("A55")
def test_calls_that_are_asked_about_run_one_after_the_other(lab: Lab) -> None:
    at_work: list[int] = []

    @tool(where="thread", sensitive=True)
    def act() -> int:
        """Act."""
        at_work.append(1)
        most = len(at_work)
        time.sleep(0.02)
        at_work.pop()
        return most

    run = lab.run([{"calls": [call("act")] * 4}, "Done."], tools=[act], answer=YES)
    assert [result.value for result in run.results] == [1] * 4
    order = [e.type for e in lab.watcher.events if "tool_" in e.type or "approval" in e.type]
    assert (
        order
        == [
            "tool_started",
            "approval_requested",
            "approval_decided",
            "tool_running",
            "tool_finished",
        ]
        * 4
    )


@pytest.mark.spec("M19")
def test_an_async_tool_runs_in_the_loop_and_its_own_cancellation_is_its_failure(lab: Lab) -> None:
    @tool
    async def fine() -> str:
        """Work."""
        await asyncio.sleep(0)
        return "fine"

    @tool
    async def cancels() -> str:
        """Give up."""
        raise asyncio.CancelledError

    run = lab.run([{"calls": [call("fine"), call("cancels")]}, "Ok."], tools=[fine, cancels])
    assert [r.success for r in run.results] == [True, False]
    assert run.outcome is Outcome.SUCCESS


@pytest.mark.spec("A55", "N25")
def test_read_only_calls_run_beside_each_other_and_results_keep_their_order(lab: Lab) -> None:
    meeting = threading.Barrier(8, timeout=PATIENCE)

    @tool(where="thread")
    def meet(n: int) -> str:
        """Wait for the others."""
        meeting.wait()
        return f"met {n}"

    run = lab.run([{"calls": [call("meet", n=n) for n in range(8)]}, "Ok."], tools=[meet])
    assert [r.output for r in run.results] == [f"met {n}" for n in range(8)]


@pytest.mark.spec("A29")
def test_calls_in_a_reply_cut_by_its_length_are_not_executed(lab: Lab) -> None:
    reply = {"calls": [call("write_file", path="x", content="half")], "finish_reason": "length"}
    run = lab.run([reply, "Ok."], confirm_mode="yolo")
    assert not run.results[0].success
    assert not (lab.environment.workspace.root / "x").exists()


@pytest.mark.spec("A27", "A29", "A33", "M17")
@pytest.mark.parametrize(
    ("reply", "reason", "output"),
    [
        ({"text": "All."}, StopReason.FINISHED, "All."),
        ({"text": ""}, StopReason.EMPTY, ""),
        ({"text": " \n"}, StopReason.EMPTY, ""),
        ({"thinking": "Hm."}, StopReason.EMPTY, ""),
        ({"text": "So", "finish_reason": "content_filter"}, StopReason.CONTENT_FILTER, "So"),
        ({"text": "", "finish_reason": "content_filter"}, StopReason.CONTENT_FILTER, ""),
        ({"text": "Odd.", "finish_reason": "made_up"}, StopReason.FINISHED, "Odd."),
    ],
)
def test_every_reply_without_calls_has_a_defined_end(
    lab: Lab, reply: dict[str, str], reason: StopReason, output: str
) -> None:
    run = lab.run([reply])
    assert (run.status, run.stop_reason, run.output) == (RunStatus.DONE, reason, output)
    success = Outcome.SUCCESS if reason is StopReason.FINISHED else Outcome.PARTIAL
    assert run.outcome is success
    assert lab.run(["And on."]).output == "And on."
    assert_roles_alternate(lab)


@pytest.mark.spec("A29")
def test_a_reply_that_was_cut_is_continued_once(lab: Lab) -> None:
    run = lab.run([{"text": "One, two, th", "finish_reason": "length"}, "ree."])
    assert (run.output, run.outcome) == ("One, two, three.", Outcome.SUCCESS)
    *_, said, nudge = lab.client.requests[1].messages
    assert said.text == "One, two, th"
    assert nudge.synthetic
    assert run.notes == ()


@pytest.mark.spec("A29")
def test_a_reply_that_is_cut_again_is_partial_and_says_so(lab: Lab) -> None:
    cut = {"text": "more ", "finish_reason": "length"}
    run = lab.run([cut, cut, "Never asked."])
    assert (run.outcome, run.stop_reason) == (Outcome.PARTIAL, StopReason.MAX_TOKENS)
    assert run.output == "more more "
    assert "incomplete" in run.notes[0]


@pytest.mark.spec("A29")
def test_a_reply_whose_thinking_was_cut_is_continued_too(lab: Lab) -> None:
    run = lab.run([{"thinking": "Long…", "finish_reason": "length"}, "Short."])
    assert run.output == "Short."
    assert_roles_alternate(lab)


def test_the_continuation_of_a_reply_counts_as_a_step(lab: Lab) -> None:
    run = lab.run([{"text": "Cut", "finish_reason": "length"}, "Never asked."], max_steps=1)
    assert (run.stop_reason, len(run.steps)) == (StopReason.MAX_TOKENS, 1)


QUICK = {"llm": {"retry": {"initial_delay": 0.01, "max_retries": 2}}}


@pytest.mark.spec("A08", "M01", "N26")
def test_a_transient_failure_is_tried_again_and_what_streamed_before_is_void(lab: Lab) -> None:
    failing = {"text": "Half a", "error": {"kind": "unavailable", "message": "Overloaded."}}
    run = lab.run([failing, "Whole."], settings=QUICK)
    assert run.output == "Whole."
    assert "Overloaded. Retry 1/2 in" in run.steps[0].notes[0]
    said = [m.text for m in lab.session.conversation.messages if m.role is Role.ASSISTANT]
    assert said == ["Whole."]


@pytest.mark.spec("A08", "M01")
def test_after_the_last_retry_the_run_fails_and_keeps_what_was_said(lab: Lab) -> None:
    failing = {"text": "Half a", "error": {"kind": "unavailable", "message": "Overloaded."}}
    run = lab.run([failing] * 4, settings=QUICK)
    assert (run.outcome, run.output) == (Outcome.FAILED, "Half a")
    assert run.error == "Overloaded. It was tried 3 times."
    assert len(lab.client.requests) == 3
    assert lab.run(["Back."]).output == "Back."
    assert_roles_alternate(lab)


@pytest.mark.spec("M01")
def test_retries_can_be_switched_off(lab: Lab) -> None:
    failing = {"error": {"kind": "unavailable", "message": "Overloaded."}}
    run = lab.run([failing, "Never asked."], settings={"llm": {"retry": {"enabled": False}}})
    assert (run.outcome, run.error) == (Outcome.FAILED, "Overloaded.")


@pytest.mark.spec("A08", "N26")
def test_a_retry_does_not_repeat_tools_that_ran(lab: Lab) -> None:
    ran = []

    @tool
    def count() -> str:
        """Count."""
        ran.append(1)
        return "counted"

    failing = {"text": "So", "error": {"kind": "unavailable"}}
    run = lab.run([{"calls": [call("count")]}, failing, "Done."], tools=[count], settings=QUICK)
    assert (run.output, len(ran), len(run.steps)) == ("Done.", 1, 2)


@pytest.mark.spec("M01", "H25")
def test_a_retry_that_waits_can_be_stopped(lab: Lab) -> None:
    slow = {"llm": {"retry": {"initial_delay": 50}}}
    stop = stop_at(lab, "retry_scheduled")
    with pytest.raises(AgentInterrupted):
        lab.run([{"error": {"kind": "unavailable"}}, "Never."], settings=slow, heard=stop)
    assert lab.session.runs[-1].stop_reason is StopReason.INTERRUPTED
    assert lab.run(["Back."]).output == "Back."


@pytest.mark.spec("A52", "H26", "D17", "N26")
def test_a_final_failure_ends_the_run_with_its_reason_and_the_next_prompt_works(lab: Lab) -> None:
    run = lab.run([{"error": {"kind": "refused", "message": "The key is wrong."}}, "Never asked."])
    assert (run.outcome, run.error) == (Outcome.FAILED, "The key is wrong.")
    assert len(lab.client.requests) == 1
    assert lab.run(["Fine."]).outcome is Outcome.SUCCESS


MOMENTS = ["run_started", "notice", "step_started", "message_delta"]
MOMENTS += ["tool_started", "tool_running", "approval_requested"]


@pytest.mark.spec("M26", "D18", "M14", "D9", "H25")
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_stop_leaves_a_valid_session_and_the_next_prompt_works(lab: Lab, moment: str) -> None:
    @tool(sensitive=moment == "approval_requested")
    async def dawdle() -> str:
        """Take long."""
        await asyncio.sleep(60)
        return "never"

    stop = stop_at(lab, moment)
    replies = [{"text": "On it.", "calls": [call("dawdle"), call("list_files")]}, "Never."]
    with pytest.raises(AgentInterrupted):
        lab.run(
            replies,
            tools=[dawdle],
            answer=lambda _approval: None,
            heard=stop,
            settings={"chat": {"max_messages": 1}},
        )
    stopped = lab.session.runs[-1]
    assert (stopped.status, stopped.stop_reason) == (RunStatus.CANCELLED, StopReason.INTERRUPTED)
    assert stopped.outcome is Outcome.PARTIAL
    assert lab.watcher.types()[-1] == "run_finished"
    assert all(each.decision == "expired" for each in lab.watcher.asked)
    assert_every_call_has_exactly_one_result(lab.session.conversation.messages)
    assert lab.run(["Back."]).output == "Back."
    assert_roles_alternate(lab)


@pytest.mark.spec("D18", "M26")
def test_a_stop_at_the_first_step_of_a_turn_loses_neither_the_last_answer_nor_the_question(
    lab: Lab,
) -> None:
    lab.run(["First answer."], "First question.")
    with pytest.raises(AgentInterrupted):
        lab.run(["Never."], "Second question.", heard=stop_at(lab, "message_started"))
    said = [m.text for m in lab.session.conversation.messages if not m.synthetic]
    assert said == ["First question.", "First answer.", "Second question."]


@pytest.mark.spec("P07", "A33")
def test_every_step_that_started_is_finished_however_it_ends(lab: Lab) -> None:
    endings: list[Any] = [
        [{"calls": [call("list_files")]}, {"error": {"kind": "refused"}}],
        [{"text": "Half", "error": {"kind": "refused"}}],
        [{"calls": [call("nap")]}],
        [{"text": "slow " * 50, "delay": 0.05}],
        [lambda request: 1 / 0],
    ]

    @tool
    async def nap() -> None:
        """Sleep."""
        await asyncio.sleep(60)

    for replies in endings:
        lab.run(replies, tools=[nap], max_seconds=0.2)
        types = [event.type for event in lab.watcher.events]
        assert types.count("step_started") == types.count("step_finished")
        assert types.count("tool_started") == types.count("tool_finished")
        assert types[-1] == "run_finished"
        assert_every_call_has_exactly_one_result(lab.session.conversation.messages)


@pytest.mark.spec("P26")
def test_a_run_from_within_a_tool_is_refused_and_that_is_the_tools_result(lab: Lab) -> None:
    @tool
    def ask_again() -> None:
        """Start an agent in an agent."""
        with runtime().run_lock.hold():
            raise AssertionError("two at once")

    with runtime().run_lock.hold():
        run = lab.run([{"calls": [call("ask_again")]}, "I see."], tools=[ask_again])
    assert "already running" in run.results[0].output
    assert run.output == "I see."


@pytest.mark.spec("A56", "D8")
def test_a_dry_run_checks_every_call_runs_none_and_asks_nothing(lab: Lab) -> None:
    calls = [call("write_file", path="x", content="y"), call("read_file", pth="x")]
    run = lab.run([{"calls": calls}, "Planned."], dry_run=True)
    assert [r.success for r in run.results] == [True, False]
    assert not (lab.environment.workspace.root / "x").exists()
    assert lab.watcher.asked == []


@pytest.mark.spec("A12", "P03")
@pytest.mark.parametrize(
    ("mode", "asked"),
    [
        ("confirm-sensitive", ["write_file"]),
        ("confirm-all", ["list_files", "write_file"]),
        ("yolo", []),
    ],
)
def test_the_mode_decides_what_is_asked(lab: Lab, mode: str, asked: list[str]) -> None:
    calls = [call("list_files"), call("write_file", path="x", content="y")]
    lab.run([{"calls": calls}, "Done."], answer=YES, confirm_mode=mode)
    assert [a.subject.call.name for a in lab.watcher.asked] == asked
    assert (lab.environment.workspace.root / "x").read_text() == "y"


@pytest.mark.spec("M14")
def test_an_id_that_a_model_uses_again_is_another_one_in_the_conversation(lab: Lab) -> None:
    again = {"calls": [{"name": "list_files", "arguments": {}, "id": "call_0"}]}
    other = {"name": "list_files", "arguments": {"pattern": "*"}, "id": "call_1"}
    run = lab.run([again, {"calls": [*again["calls"], other]}, "Done."])
    first, second, third = (execution.call.id for execution in run.executions)
    assert (first, third) == ("call_0", "call_1")
    assert second not in (first, third)
    said = lab.client.requests[-1].messages
    asked = [call.id for message in said for call in message.tool_calls]
    answered = [each.tool_use_id for message in said for each in message.tool_results]
    assert asked == answered == [first, second, third]
