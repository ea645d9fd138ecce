"""Hard budgets, their graceful end, and the time that a person takes."""

import asyncio
from typing import Any

import pytest

from harness import YES, Clock, Lab, call
from ipyagent.agent import budgets
from ipyagent.agent.approvals import Answer, Approval
from ipyagent.agent.budgets import TimeLimits, length_warning
from ipyagent.errors import StepTimeoutError
from ipyagent.llm.client import ModelRequest
from ipyagent.schema import Event, Outcome, RunStatus, StopReason, ToolStatus
from ipyagent.tools.base import Tool, tool
from virtual_time import run_in_virtual_time

LOOK = {"calls": [call("list_files")]}
PRICED = LOOK | {"usage": {"prompt_tokens": 90, "completion_tokens": 20}, "cost_usd": 0.5}


def nap_tool(clock: Clock, seconds: float) -> Tool:
    """A tool that would take an hour, and lets so much time pass once it has begun."""

    @tool
    async def nap() -> None:
        """Sleep."""
        clock.advance(seconds)
        await asyncio.sleep(3_600)

    return nap


@pytest.mark.spec("A13", "A53")
def test_after_the_last_step_the_model_is_asked_once_for_a_last_word(lab: Lab) -> None:
    run = lab.run([LOOK, LOOK, "As far as I came."], max_steps=2)
    assert (run.outcome, run.stop_reason) == (Outcome.PARTIAL, StopReason.MAX_STEPS)
    assert run.status is RunStatus.DONE
    assert run.output == "As far as I came."
    assert [step.closing for step in run.steps] == [False, False, True]
    assert [request.may_call for request in lab.client.requests] == [True, True, False]
    assert all(r.tools == lab.client.requests[0].tools for r in lab.client.requests)
    nudge = lab.client.requests[-1].messages[-1]
    assert nudge.synthetic
    assert "number of steps" in nudge.text
    assert lab.run(["And on."], "continue").outcome is Outcome.SUCCESS


@pytest.mark.spec("A13")
def test_an_answer_in_the_last_step_is_a_success(lab: Lab) -> None:
    run = lab.run([LOOK, "Done."], max_steps=2)
    assert (run.outcome, len(run.steps)) == (Outcome.SUCCESS, 2)


@pytest.mark.spec("A53", "M14")
def test_calls_in_the_last_word_are_not_executed_and_have_results(lab: Lab) -> None:
    last = {"text": "More!", "calls": [call("write_file", path="x", content="y")]}
    run = lab.run([LOOK, last], max_steps=1, confirm_mode="yolo")
    assert (run.stop_reason, run.output) == (StopReason.MAX_STEPS, "More!")
    assert run.executions[-1].status is ToolStatus.CANCELLED
    assert not (lab.environment.workspace.root / "x").exists()
    assert [b.tool_use_id for b in lab.session.conversation.messages[-2].tool_results] == [
        "call_2_1"
    ]


@pytest.mark.spec("A53")
def test_without_a_last_word_the_run_is_partial_all_the_same(lab: Lab) -> None:
    run = lab.run([LOOK, {"error": {"kind": "refused", "message": "Gone."}}], max_steps=1)
    assert (run.outcome, run.stop_reason) == (Outcome.PARTIAL, StopReason.MAX_STEPS)
    assert "Gone." in run.notes[-1]


@pytest.mark.spec("A53")
def test_a_last_word_that_takes_too_long_is_cut_and_kept(lab: Lab, clock: Clock) -> None:
    assert budgets.CLOSING_SECONDS == 30

    def hear(event: Event) -> None:
        if event.type == "message_delta":
            clock.advance(10)

    run = lab.run([LOOK, {"text": "well " * 500, "delay": 0.01}], heard=hear, max_steps=1)
    assert run.stop_reason is StopReason.MAX_STEPS
    assert run.output.startswith("well")
    assert run.output.count("well") < 500


@pytest.mark.spec("A53")
def test_max_seconds_ends_a_run_that_calls_tools_with_a_last_word(lab: Lab, clock: Clock) -> None:
    run = lab.run(
        [{"calls": [call("nap")]}, "No time."], tools=[nap_tool(clock, 601)], max_seconds=600
    )
    assert (run.outcome, run.stop_reason) == (Outcome.PARTIAL, StopReason.MAX_SECONDS)
    assert run.duration is not None
    assert run.duration > 600
    assert run.output == "No time."
    assert run.executions[0].status is ToolStatus.CANCELLED


def test_max_seconds_keeps_what_the_model_was_saying(lab: Lab, clock: Clock) -> None:
    def hear(event: Event) -> None:
        if event.type == "message_delta":
            clock.advance(200)

    run = lab.run(
        [{"text": "slow " * 50, "delay": 0.01}, "Never asked."], heard=hear, max_seconds=600
    )
    assert (run.outcome, run.stop_reason) == (Outcome.PARTIAL, StopReason.MAX_SECONDS)
    assert run.output.startswith("slow")


@pytest.mark.spec("A53")
@pytest.mark.parametrize(
    ("budget", "reason"),
    [({"max_tokens": 220}, StopReason.MAX_TOKENS), ({"max_usd": 1.0}, StopReason.MAX_USD)],
)
def test_used_up_tokens_or_money_end_the_run_without_another_request(
    lab: Lab, budget: dict[str, Any], reason: StopReason
) -> None:
    run = lab.run([PRICED] * 3, **budget)
    assert (run.outcome, run.stop_reason) == (Outcome.PARTIAL, reason)
    assert len(lab.client.requests) == 2
    assert run.usage.total_tokens == 220
    assert lab.run(["And on."]).outcome is Outcome.SUCCESS


def test_a_budget_that_is_not_quite_used_up_lets_the_run_go_on(lab: Lab) -> None:
    assert lab.run([PRICED, PRICED, "Done."], max_tokens=221, max_usd=1.01).output == "Done."


@pytest.mark.spec("A51")
@pytest.mark.parametrize("slow", ["model", "tool"])
def test_a_step_that_takes_too_long_ends_the_run_as_partial(
    lab: Lab, clock: Clock, slow: str
) -> None:
    def think(request: ModelRequest) -> dict[str, Any]:
        clock.advance(601)
        return {"text": "slow", "delay": 3_600}

    reply = think if slow == "model" else {"calls": [call("nap")]}
    run = lab.run([reply, "Never asked."], tools=[nap_tool(clock, 601)], step_seconds=600)
    assert (run.outcome, run.stop_reason) == (Outcome.PARTIAL, StopReason.TIMEOUT)
    assert run.error == "one step took more than 600 s"
    assert len(lab.client.requests) == 1
    assert lab.run(["Back."]).output == "Back."


@pytest.mark.spec("A51")
def test_each_step_has_its_own_time(lab: Lab, clock: Clock) -> None:
    @tool
    async def work() -> None:
        """Work for long."""
        clock.advance(400)

    run = lab.run([{"calls": [call("work")]}] * 3 + ["Done."], tools=[work], step_seconds=600)
    assert (run.output, run.outcome) == ("Done.", Outcome.SUCCESS)


@pytest.mark.spec("A51")
def test_a_step_timeout_is_a_timeout_error_with_its_seconds() -> None:
    error = StepTimeoutError(2.5)
    assert isinstance(error, TimeoutError)
    assert error.seconds == 2.5


@pytest.mark.spec("A51")
@pytest.mark.parametrize("limit", ["max_seconds", "step_seconds"])
def test_the_time_that_a_user_takes_does_not_count(lab: Lab, clock: Clock, limit: str) -> None:
    def think(approval: Approval) -> Answer:
        clock.advance(601)
        return YES

    run = lab.run(
        [{"calls": [call("write_file", path="x", content="y")]}, "Done."],
        answer=think,
        **{limit: 600},
    )
    assert (run.outcome, run.output) == (Outcome.SUCCESS, "Done.")
    assert run.duration is not None
    assert run.duration < 600


@pytest.mark.spec("A51")
def test_time_that_is_left_is_left_after_a_pause() -> None:
    time_limits = TimeLimits()

    async def wait() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(10):  # what a plain limit would do
                await asyncio.sleep(20)
        async with time_limits.limit(10, lambda: StepTimeoutError(10)):
            with time_limits.pause():
                await asyncio.sleep(20)
        async with (
            time_limits.limit(60, lambda: StepTimeoutError(60)),
            time_limits.limit(10, lambda: StepTimeoutError(10)),
        ):
            with time_limits.pause():
                await asyncio.sleep(20)
            await asyncio.sleep(20)

    with pytest.raises(StepTimeoutError):
        run_in_virtual_time(wait())
    assert not time_limits.is_expired


@pytest.mark.spec("H21")
@pytest.mark.parametrize(
    ("count", "words"),
    [(39, None), (40, "nears 50"), (49, "nears 50"), (50, "session compact"), (80, "session new")],
)
def test_many_messages_are_warned_about_with_what_follows_from_it(
    count: int, words: str | None
) -> None:
    warning = length_warning(count, 50)
    assert warning is None if words is None else words in str(warning)
    assert warning is None or "slower and dearer" in warning


@pytest.mark.spec("H21")
def test_a_warning_about_many_messages_is_the_same_at_the_next_prompt() -> None:
    assert len({length_warning(count, 50) for count in range(1, 120)}) == 3


@pytest.mark.spec("H21")
def test_the_calls_between_a_prompt_and_its_answer_are_no_messages(lab: Lab) -> None:
    work: list[Any] = [{"text": "Looking.", "calls": [call("list_files")]} for _ in range(4)]
    few = {"chat": {"max_messages": 5}}
    notes = [lab.run([*work, "Done."], f"Number {n}.", settings=few).notes for n in range(3)]
    assert [len(each) for each in notes] == [0, 0, 1]


@pytest.mark.spec("H21")
def test_a_session_with_too_many_messages_says_so_and_drops_none(lab: Lab) -> None:
    few = {"chat": {"max_messages": 5}}
    notes = [lab.run(["Yes."], f"Number {n}.", settings=few).notes for n in range(4)]
    # A prompt and an answer each; what the context tells is nobody's message.
    assert [len(each) for each in notes] == [0, 0, 1, 1]
    assert "session compact" in notes[2][0]
    sent = [m.text for m in lab.client.requests[0].messages]
    assert all(f"Number {n}." in sent for n in range(4))
