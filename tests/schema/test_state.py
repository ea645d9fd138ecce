"""The state of a run has the decisions that it waits for, and those that were made."""

from __future__ import annotations

from functools import reduce

from ipyagent.schema import (
    ApprovalDecided,
    ApprovalRequested,
    DecidedBy,
    Decision,
    Event,
    PlanProposed,
    PlanWaiting,
    Run,
    RunStarted,
    RunState,
    StepStarted,
    ToolCall,
    ToolExecution,
    ToolFinished,
    ToolStarted,
    advance,
)

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
