"""Events folded into a run."""

from __future__ import annotations

import json
from functools import reduce

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from strategies import amounts, counts, names, replies, results, usages

from ipyagent.schema import (
    ApprovalDecided,
    ApprovalRequested,
    Compacted,
    DecidedBy,
    Decision,
    Event,
    Message,
    MessageDelta,
    MessageFinished,
    MessageStarted,
    Notice,
    PlanProposed,
    PlanStep,
    PlanWaiting,
    RetryScheduled,
    Role,
    Run,
    RunFinished,
    RunStarted,
    RunState,
    RunStatus,
    StepFinished,
    StepStarted,
    StopReason,
    ToolCall,
    ToolExecution,
    ToolFinished,
    ToolResult,
    ToolRunning,
    ToolStarted,
    ToolStatus,
    advance,
    fold,
)


def after(events: list[Event]) -> Run:
    run: Run | None = None
    for event in events:
        run = fold(run, event)
    assert run is not None
    return run


@st.composite
def tool_events(draw: st.DrawFn, step: int, call_id: str) -> list[Event]:
    """Return the events of one call."""
    call = ToolCall(id=call_id, name=draw(names))
    begun = ToolExecution(call=call, sensitive=draw(st.booleans()))
    events: list[Event] = [ToolStarted(step=step, execution=begun)]
    denied = False
    if draw(st.booleans()):
        decision = draw(st.sampled_from(Decision))
        denied = decision in (Decision.DENIED, Decision.EXPIRED)
        events += [
            ApprovalRequested(step=step, call_id=call_id, approval_id="a"),
            ApprovalDecided(step=step, call_id=call_id, decision=decision, by=DecidedBy.BUTTON),
        ]
    result = ToolResult.failure("no") if denied else draw(results)
    status = ToolStatus.SUCCESS if result.success else ToolStatus.FAILED
    if denied:
        status = ToolStatus.DENIED
    else:
        events.append(ToolRunning(step=step, call_id=call_id))
    done = begun.model_copy(update={"status": status, "result": result})
    return [*events, ToolFinished(step=step, execution=ToolExecution.from_dict(dict(done)))]


@st.composite
def step_events(draw: st.DrawFn, number: int) -> list[Event]:
    """Return the events of one step."""
    events: list[Event] = [StepStarted(step=number, closing=draw(st.booleans()))]
    if draw(st.booleans()):
        events.append(
            Compacted(step=number, summary=Message.of(Role.USER, "so far", synthetic=True))
        )
    for attempt in range(draw(st.integers(0, 2))):
        events += [
            RetryScheduled(step=number, attempt=attempt + 1, of=2, delay=0.5, reason="busy."),
            MessageStarted(step=number),
            MessageDelta(step=number, kind="text", text=draw(names)),
        ]
    events.append(
        MessageFinished(
            step=number,
            message=draw(st.none() | replies),
            usage=draw(usages),
            cost_usd=draw(st.none() | amounts),
        )
    )
    for call in range(draw(st.integers(0, 2))):
        events += draw(tool_events(number, f"call_{number}_{call}"))
    return [*events, StepFinished(step=number)]


@st.composite
def run_events(draw: st.DrawFn) -> list[Event]:
    """Return the events of a whole run."""
    events: list[Event] = [RunStarted(run=Run(id="r", max_steps=draw(counts)))]
    for number in range(1, draw(st.integers(1, 3)) + 1):
        events += draw(step_events(number))
        if draw(st.booleans()):
            events.append(Notice(text=draw(names)))
    status = draw(st.sampled_from([RunStatus.DONE, RunStatus.ERROR, RunStatus.CANCELLED]))
    reason = draw(st.sampled_from(StopReason))
    return [*events, RunFinished(status=status, stop_reason=reason, duration=draw(amounts))]


@pytest.mark.spec("A33", "A34", "N18")
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(run_events(), st.data())
def test_events_fold_into_a_run_at_every_moment(events: list[Event], data: st.DataObject) -> None:
    so_far = after(events[: data.draw(st.integers(1, len(events)))])
    assert Run.from_dict(json.loads(json.dumps(so_far.to_dict()))) == so_far
    run = after(events)
    assert Run.from_dict(json.loads(json.dumps(run.to_dict()))) == run
    assert run.is_finished
    assert run.current_step == sum(isinstance(event, StepStarted) for event in events)
    assert run.total_tool_calls == sum(isinstance(event, ToolStarted) for event in events)
    assert [step.number for step in run.steps] == list(range(1, len(run.steps) + 1))
    finished = [event for event in events if isinstance(event, MessageFinished)]
    assert [step.message for step in run.steps] == [event.message for event in finished]
    assert run.usage.total_tokens == sum(event.usage.total_tokens for event in finished)
    assert all(each.result is not None for each in run.executions)


@pytest.mark.spec("A33")
@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(run_events())
def test_steps_only_grow_and_runs_before_are_untouched(events: list[Event]) -> None:
    run: Run | None = None
    for event in events:
        before, copy = run, run.to_dict() if run else None
        run = fold(run, event)
        if before is not None:
            assert before.to_dict() == copy
            assert run.steps[: len(before.steps) - 1] == before.steps[:-1]
            assert len(run.steps) in (len(before.steps), len(before.steps) + 1)


def test_nothing_comes_before_a_run_has_started() -> None:
    with pytest.raises(ValueError, match="before run_started"):
        fold(None, Notice(text="x"))


def test_a_call_passes_through_its_statuses() -> None:
    call = ToolCall(id="c", name="f")
    begun = ToolExecution(call=call)
    result = ToolResult(output="ok")
    events: list[Event] = [
        RunStarted(run=Run(id="r")),
        StepStarted(step=1),
        ToolStarted(step=1, execution=begun),
        ApprovalRequested(step=1, call_id="c", approval_id="a"),
        ApprovalDecided(step=1, call_id="c", decision=Decision.APPROVED, by=DecidedBy.BUTTON),
        ToolRunning(step=1, call_id="c"),
        ToolFinished(
            step=1, execution=ToolExecution(call=call, status=ToolStatus.SUCCESS, result=result)
        ),
    ]
    states = [after(events[:n]).executions[0].status for n in range(3, len(events) + 1)]
    assert states == ["pending", "awaiting_approval", "pending", "running", "success"]
    assert after(events[:5]).executions[0].decision is Decision.APPROVED
    assert after(events).results == (result,)


@pytest.mark.spec("P28", "P31")
def test_a_proposed_plan_replaces_the_one_before_it() -> None:
    def draft(run_id: str) -> Run:
        plan = (PlanStep(call=ToolCall(id=f"{run_id}_1", name="f")),)
        return Run(id=run_id, status=RunStatus.DRAFT, plan=plan)

    begun = draft("b").model_copy(update={"status": RunStatus.RUNNING})
    events: list[Event] = [
        PlanProposed(run=draft("a"), approval_id="a1"),
        Notice(text="changed"),
        PlanProposed(run=draft("b"), approval_id="a2"),
        RunStarted(run=begun),
    ]
    assert [after(events[:n]).id for n in range(1, 5)] == ["a", "a", "b", "b"]
    assert after(events[:2]).notes == ("changed",)
    assert after(events[:3]).status is RunStatus.DRAFT
    assert after(events) == begun


# What waits for a decision


RUN = Run(id="r", prompt="Tidy.", model="m")


def asked(call_id: str) -> list[Event]:
    """The events of a call up to its question."""
    execution = ToolExecution(call=ToolCall(id=call_id, name="run_python", arguments={}))
    request = ApprovalRequested(step=1, call_id=call_id, approval_id=f"a-{call_id}")
    return [ToolStarted(step=1, execution=execution), request]


def state_after(*events: Event) -> RunState:
    state = reduce(advance, events, None)
    assert state is not None
    return state


def test_calls_are_pending_until_they_are_decided_on_or_end() -> None:
    events = [RunStarted(run=RUN), StepStarted(step=1), *asked("one"), *asked("two")]
    assert state_after(*events).decisions.pending == {"one": "a-one", "two": "a-two"}
    by = DecidedBy.BUTTON
    events.append(ApprovalDecided(step=1, call_id="one", decision=Decision.APPROVED, by=by))
    events.append(ToolFinished(step=1, execution=state_after(*events).run.executions[1]))
    decisions = state_after(*events).decisions
    assert (decisions.pending, decisions.settled) == ({}, {"one": True, "two": False})
    assert state_after(*events, StepStarted(step=2)).decisions.asked == {}


def test_a_plan_is_pending_until_its_cell_stops_asking() -> None:
    events = [PlanProposed(run=RUN, approval_id="a1"), PlanProposed(run=RUN, approval_id="a2")]
    decisions = state_after(*events).decisions
    assert (decisions.plan, decisions.plans) == ("a2", ("a1", "a2"))
    assert state_after(*events, PlanWaiting()).decisions.plan is None
