import itertools
import json

import pytest

from harness import NO, YES, Lab, call
from ipyagent.errors import AgentInterrupted
from ipyagent.llm.wire import to_openai, tools_to_openai
from ipyagent.schema import Message, Outcome, Role, RunStatus, StopReason, ToolStatus
from ipyagent.tools.base import tool


def assert_every_call_has_exactly_one_result(messages: list[Message]) -> None:
    for i, message in enumerate(messages):
        wanted = [c.id for c in message.tool_calls]
        if wanted:
            answers = [b.tool_use_id for b in messages[i + 1].content]
            assert answers == wanted


@pytest.mark.spec("A27", "A33", "M17")
def test_a_reply_without_calls_is_the_answer(lab: Lab) -> None:
    run = lab.run(["Forty-two."])
    assert (run.output, run.outcome, run.stop_reason) == (
        "Forty-two.",
        Outcome.SUCCESS,
        StopReason.FINISHED,
    )


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
    assert_every_call_has_exactly_one_result(lab.place.session.messages)


@pytest.mark.spec("A48")
def test_an_unknown_tool_goes_back_as_a_failed_result_that_lists_the_known(lab: Lab) -> None:
    run = lab.run([{"calls": [call("fly")]}, "Sorry."])
    assert not run.results[0].success
    assert "read_file" in run.results[0].output
    assert run.outcome is Outcome.SUCCESS


@pytest.mark.spec("D13", "P14")
@pytest.mark.parametrize(
    "arguments", ['{"path": "x"', "[1, 2]", "null", '"x"', "{'path': 1}", "{} {}"]
)
def test_malformed_arguments_are_never_executed(lab: Lab, arguments: str) -> None:
    ran = []

    @tool
    def probe(path: str = "default") -> str:
        """Probe."""
        ran.append(path)
        return "ran"

    run = lab.run([{"calls": [{"name": "probe", "arguments": arguments}]}, "Oh."], tools=[probe])
    assert ran == []
    assert run.executions[0].status is ToolStatus.FAILED
    assert_every_call_has_exactly_one_result(lab.place.session.messages)


@pytest.mark.spec("A39", "P13", "D10")
def test_invented_arguments_go_back_naming_the_field(lab: Lab) -> None:
    run = lab.run([{"calls": [call("read_file", path="x", colour="red")]}, "Oh."])
    assert "colour" in run.results[0].output
    assert not run.results[0].success


@pytest.mark.spec("A36", "D10")
@pytest.mark.parametrize(
    "error",
    [ValueError("bad"), SystemExit(3), KeyboardInterrupt(), StopIteration(), RecursionError()],
)
@pytest.mark.parametrize("where", ["main", "thread"])
def test_whatever_a_tool_raises_is_its_failed_result(
    lab: Lab, error: BaseException, where: str
) -> None:
    @tool(where=where)
    def burst() -> None:
        """Burst."""
        raise error

    run = lab.run([{"calls": [call("burst")]}, "Still here."], tools=[burst])
    assert type(error).__name__ in (run.results[0].error or "")
    assert run.output == "Still here."


@pytest.mark.spec("M19")
def test_an_async_tool_runs_in_the_loop_and_its_own_cancellation_is_its_failure(lab: Lab) -> None:
    import asyncio

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
    import threading

    meeting = threading.Barrier(8, timeout=30)

    @tool(where="thread")
    def meet(n: int) -> str:
        """Wait for the others."""
        meeting.wait()
        return f"met {n}"

    run = lab.run([{"calls": [call("meet", n=n) for n in range(8)]}, "Ok."], tools=[meet])
    assert [r.output for r in run.results] == [f"met {n}" for n in range(8)]


@pytest.mark.spec("A13")
def test_max_steps_ends_the_run_gracefully_as_partial(lab: Lab) -> None:
    run = lab.run([{"calls": [call("list_files")]}] * 5, max_steps=3)
    assert (run.outcome, run.stop_reason, len(run.steps)) == (
        Outcome.PARTIAL,
        StopReason.MAX_STEPS,
        3,
    )
    assert run.status is RunStatus.DONE
    assert_every_call_has_exactly_one_result(lab.place.session.messages)
    assert lab.run(["And on."], "continue").outcome is Outcome.SUCCESS


def test_max_seconds_ends_the_run_gracefully_as_partial(lab: Lab) -> None:
    run = lab.run([{"text": "slow " * 50, "delay": 0.05}], max_seconds=0.3)
    assert (run.outcome, run.stop_reason) == (Outcome.PARTIAL, StopReason.MAX_SECONDS)
    assert run.output.startswith("slow")


@pytest.mark.parametrize(("budget", "reason"), [("max_tokens", StopReason.MAX_TOKENS)])
def test_a_token_budget_ends_the_run(lab: Lab, budget: str, reason: StopReason) -> None:
    step = {"calls": [call("list_files")], "usage": {"prompt_tokens": 90, "completion_tokens": 20}}
    run = lab.run([step, step, "Never said."], **{budget: 100})
    assert (run.stop_reason, len(run.steps)) == (reason, 1)


@pytest.mark.spec("A29")
def test_calls_in_a_reply_cut_by_its_length_are_not_executed(lab: Lab) -> None:
    reply = {"calls": [call("write_file", path="x", content="half")], "finish_reason": "length"}
    run = lab.run([reply, "Ok."], confirm_mode="yolo")
    assert not run.results[0].success
    assert not (lab.place.workspace.root / "x").exists()


def test_an_empty_reply_is_partial(lab: Lab) -> None:
    run = lab.run([{"text": ""}])
    assert (run.outcome, run.stop_reason) == (Outcome.PARTIAL, StopReason.EMPTY)


@pytest.mark.spec("A08", "M01")
def test_a_transient_failure_is_tried_again_and_what_streamed_before_is_void(lab: Lab) -> None:
    quick = {"llm": {"retry": {"initial_delay": 0.01}}}
    failing = {"text": "Half a", "error": {"kind": "unavailable", "message": "Overloaded."}}
    run = lab.run([failing, "Whole."], settings=quick)
    assert run.output == "Whole."
    assert "Overloaded." in run.steps[0].notes[0]
    assert [m.text for m in lab.place.session.messages if m.role is Role.ASSISTANT] == ["Whole."]


@pytest.mark.spec("A52", "H26")
def test_a_final_failure_ends_the_run_with_its_reason_and_the_next_prompt_works(lab: Lab) -> None:
    run = lab.run([{"error": {"kind": "refused", "message": "The key is wrong."}}])
    assert (run.outcome, run.error) == (Outcome.FAILED, "The key is wrong.")
    assert lab.run(["Fine."]).outcome is Outcome.SUCCESS


@pytest.mark.spec("M26", "D18", "M14")
@pytest.mark.parametrize("moment", ["message_delta", "tool_running", "approval_requested"])
def test_a_stop_leaves_a_valid_session_and_the_next_prompt_works(lab: Lab, moment: str) -> None:
    import asyncio

    @tool(sensitive=moment == "approval_requested")
    async def dawdle() -> str:
        """Take long."""
        await asyncio.sleep(60)
        return "never"

    def stop(event: object) -> None:
        if event.type == moment:  # type: ignore[attr-defined]
            lab.cell.stop()

    replies = [{"text": "On it.", "calls": [call("dawdle"), call("list_files")]}, "Never."]
    with pytest.raises(AgentInterrupted):
        lab.run(replies, tools=[dawdle], answer=lambda _approval: None, heard=stop)
    stopped = lab.place.session.runs[-1]
    assert (stopped.status, stopped.outcome) == (RunStatus.CANCELLED, Outcome.PARTIAL)
    assert_every_call_has_exactly_one_result(lab.place.session.messages)
    assert lab.run(["Back."]).output == "Back."
    roles = [m.role for m in lab.client.requests[-1].messages]  # type: ignore[union-attr]
    assert all(a is not b for a, b in itertools.pairwise(roles))


def test_each_request_extends_the_last_one(lab: Lab) -> None:
    lab.run([{"calls": [call("list_files")]}, {"calls": [call("fly")]}, "Done."])
    first = lab.client
    assert first is not None
    lab.run(["Again."], "And again.")
    requests = [*first.requests, *lab.client.requests]  # type: ignore[union-attr]
    sent = [to_openai(request.messages, vision=False) for request in requests]
    assert len(sent) == 4
    for one, next_one in itertools.pairwise(sent):
        assert json.dumps(next_one[: len(one)]) == json.dumps(one)
    assert len({json.dumps(tools_to_openai(request.tools)) for request in requests}) == 1


@pytest.mark.spec("A56", "D8")
def test_a_dry_run_checks_every_call_runs_none_and_asks_nothing(lab: Lab) -> None:
    calls = [call("write_file", path="x", content="y"), call("read_file", pth="x")]
    run = lab.run([{"calls": calls}, "Planned."], dry_run=True)
    assert [r.success for r in run.results] == [True, False]
    assert not (lab.place.workspace.root / "x").exists()
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
    assert [a.shown.call.name for a in lab.watcher.asked] == asked
    assert (lab.place.workspace.root / "x").read_text() == "y"


@pytest.mark.spec("A47", "D27")
def test_without_anybody_to_ask_a_sensitive_call_is_denied_with_the_way_out(lab: Lab) -> None:
    run = lab.run([{"calls": [call("write_file", path="x", content="y")]}, "I could not."])
    assert run.executions[0].status is ToolStatus.DENIED
    assert not (lab.place.workspace.root / "x").exists()
    assert run.outcome is Outcome.SUCCESS


def test_a_denial_goes_back_with_its_reason(lab: Lab) -> None:
    run = lab.run([{"calls": [call("write_file", path="x", content="y")]}, "Ok."], answer=NO)
    assert "not today" in run.results[0].output
    assert run.executions[0].reason == "not today"
    assert not (lab.place.workspace.root / "x").exists()


def test_long_outputs_and_errors_are_cut_and_the_whole_output_is_kept(lab: Lab) -> None:
    @tool
    def talk() -> str:
        """Talk."""
        return "word " * 20_000

    @tool
    def wail() -> str:
        """Wail."""
        raise ValueError("woe " * 20_000)

    run = lab.run([{"calls": [call("talk"), call("wail")]}, "Ok."], tools=[talk, wail])
    talked, wailed = run.results
    assert len(talked.output) <= 30_000
    assert talked.truncated is not None
    assert (lab.place.workspace.root / str(talked.truncated.path)).read_text() == "word " * 20_000
    assert len(wailed.error or "") <= 2_000
