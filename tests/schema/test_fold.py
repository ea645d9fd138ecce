"""Events folded into a run."""

from __future__ import annotations

import json
from functools import reduce

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from strategies import ended_calls, made, names, replies, some, usages

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
    Role,
    Run,
    RunStarted,
    RunState,
    RunStatus,
    Step,
    StepStarted,
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
from replayed import events_from_run


def after(events: list[Event]) -> Run:
    run: Run | None = None
    for event in events:
        run = fold(run, event)
    assert run is not None
    return run


@st.composite
def run_events(draw: st.DrawFn) -> list[Event]:
    """Return the events of a whole run, with pieces and summaries that a run does not keep."""
    steps = []
    for number in range(1, draw(st.integers(1, 3)) + 1):
        ids = (st.just(f"call_{number}_{n}") for n in range(draw(st.integers(0, 2))))
        done = tuple(draw(ended_calls(call=made(ToolCall, id=each))) for each in ids)
        notes = draw(some(st.sampled_from(["busy. Retry 1/2 in 0.5 s.", "Noted."])))
        message, usage = draw(st.none() | replies), draw(usages)
        steps.append(
            Step(number=number, message=message, usage=usage, executions=done, notes=notes)
        )
    status = draw(st.sampled_from([RunStatus.DONE, RunStatus.ERROR, RunStatus.CANCELLED]))
    events: list[Event] = []
    for event in events_from_run(Run(id="r", steps=tuple(steps), status=status)):
        events.append(event)
        if isinstance(event, StepStarted) and draw(st.booleans()):
            summary = Message.of(Role.USER, "so far", synthetic=True)
            events.append(Compacted(step=event.step, summary=summary))
        if isinstance(event, MessageStarted) and draw(st.booleans()):
            events.append(MessageDelta(step=event.step, kind="text", text=draw(names)))
    return events


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
    children = [each.result.child for each in run.executions if each.result.child]
    spent = sum(each.usage.total_tokens for each in (*finished, *children))
    assert run.usage.total_tokens == spent
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
