"""Runs, plans and sessions: their statuses, and other formats of them."""

from __future__ import annotations

import json
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from pydantic import ValidationError
from strategies import runs

from ipyagent.schema import (
    ImageContent,
    Message,
    Outcome,
    PlanStep,
    Role,
    Run,
    RunStatus,
    Session,
    SessionState,
    Step,
    StopReason,
    ToolCall,
    ToolExecution,
    ToolResult,
    ToolStatus,
)
from ipyagent.schema.runs import MAX_ARGUMENT

S = RunStatus
WHOLE = {StopReason.FINISHED, StopReason.PLANNED}


def run(**data: Any) -> Run:
    return Run.from_dict({"id": "r", **data})


# States

LEGAL = {
    (S.DRAFT, S.QUEUED),
    (S.DRAFT, S.CANCELLED),
    (S.QUEUED, S.RUNNING),
    (S.QUEUED, S.CANCELLED),
    (S.QUEUED, S.ERROR),
    (S.RUNNING, S.DONE),
    (S.RUNNING, S.ERROR),
    (S.RUNNING, S.CANCELLED),
}


@pytest.mark.spec("P18", "A33", "A34")
@pytest.mark.parametrize("here", S)
@pytest.mark.parametrize("there", S)
def test_a_run_moves_only_forward(here: RunStatus, there: RunStatus) -> None:
    at = run(status=here)
    if (here, there) in LEGAL:
        assert at.move(there).status is there
        assert at.status is here
    else:
        with pytest.raises(ValueError, match=f"{here} cannot become {there}"):
            at.move(there)
    assert at.is_finished == (here in (S.DONE, S.ERROR, S.CANCELLED))


@pytest.mark.spec("P18")
def test_a_status_is_one_of_six_words() -> None:
    assert {str(each) for each in S} == {
        *["draft", "queued", "running", "done", "error", "cancelled"]
    }
    with pytest.raises(ValidationError):
        run(status="paused")


@pytest.mark.spec("A33")
@pytest.mark.parametrize("word", ["running", "success", "partial", "failed"])
def test_outcomes_are_accepted_as_statuses(word: str) -> None:
    assert run(status=word).outcome == word
    assert Run.from_dict(run(status=word).to_dict()).outcome == word


@pytest.mark.spec("A33")
@pytest.mark.parametrize(
    ("status", "reason", "outcome"),
    [
        (S.DRAFT, None, Outcome.RUNNING),
        (S.QUEUED, None, Outcome.RUNNING),
        (S.RUNNING, None, Outcome.RUNNING),
        (S.DONE, StopReason.FINISHED, Outcome.SUCCESS),
        (S.DONE, StopReason.PLANNED, Outcome.SUCCESS),
        *[(S.DONE, r, Outcome.PARTIAL) for r in sorted({*StopReason} - WHOLE)],
        (S.DONE, None, Outcome.PARTIAL),
        (S.CANCELLED, StopReason.INTERRUPTED, Outcome.PARTIAL),
        (S.ERROR, StopReason.ERROR, Outcome.FAILED),
    ],
)
def test_the_outcome_follows_from_status_and_reason(
    status: RunStatus, reason: StopReason | None, outcome: Outcome
) -> None:
    assert run(status=status, stop_reason=reason).outcome is outcome


@pytest.mark.spec("H02")
@pytest.mark.parametrize("here", SessionState)
@pytest.mark.parametrize("there", SessionState)
def test_a_session_moves_only_forward(here: SessionState, there: SessionState) -> None:
    order = list(SessionState)
    session = Session(state=here)
    if order.index(there) > order.index(here):
        assert session.move(there).state is there
        assert session.state is here
    else:
        with pytest.raises(ValueError, match="cannot become"):
            session.move(there)


# Runs in the shapes of others


def agent_state(**changes: Any) -> dict[str, Any]:
    reply = {
        "content": None,
        "tool_calls": [
            {"id": "a", "name": "read_file", "arguments": {"path": "x"}},
            {"id": "b", "name": "read_file", "arguments": {"path": "y"}},
        ],
        "finish_reason": "tool_calls",
        "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
    }
    made = [
        {
            "tool_name": "read_file",
            "args": {"path": path},
            "result": {"success": True, "output": path.upper(), "error": None},
            "was_confirmed": True,
            "was_dry_run": False,
            "timestamp": 101.0,
        }
        for path in "xy"
    ]
    answer = {"content": "Done.", "tool_calls": [], "finish_reason": "stop", "usage": None}
    steps = [
        {"step_number": 1, "llm_response": reply, "tool_calls_made": made, "timestamp": 100.5},
        {"step_number": 2, "llm_response": answer, "tool_calls_made": [], "timestamp": 102.5},
    ]
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Read x and y."},
        {"role": "assistant", "content": "Done."},
    ]
    return {
        "messages": messages,
        "steps": steps,
        "status": "success",
        "final_output": "Done.",
        "start_time": 100.0,
        "model": None,
        **changes,
    }


@pytest.mark.spec("A32", "A33", "A34")
def test_the_state_of_an_agent_is_a_run() -> None:
    state = Run.from_dict(agent_state())
    assert (state.outcome, state.output, state.prompt) == ("success", "Done.", "Read x and y.")
    assert (state.current_step, state.total_tool_calls, state.is_finished) == (2, 2, True)
    assert state.started_at == datetime.fromtimestamp(100, UTC)
    assert state.duration == 2.5  # to the last moment that is known
    assert state.usage.total_tokens == 15
    first = state.steps[0]
    assert (first.number, first.finish_reason) == (1, "tool_calls")
    assert first.message.timestamp == datetime.fromtimestamp(100.5, UTC)
    assert [e.call.id for e in first.executions] == ["a", "b"]
    assert [e.result.output for e in first.executions] == ["X", "Y"]
    assert Run.from_dict(json.loads(json.dumps(state.to_dict()))) == state
    assert state.id


@pytest.mark.spec("A33")
def test_an_answer_that_is_in_no_step_is_kept() -> None:
    state = Run.from_dict(agent_state(steps=[], final_output="I gave up.", status="failed"))
    assert (state.output, state.outcome) == ("I gave up.", "failed")
    assert state.steps[0].closing
    assert state.duration is None
    begun = Run.from_dict(agent_state(steps=[], final_output=None, status="running"))
    assert (begun.output, begun.outcome, begun.is_finished) == ("", "running", False)


@pytest.mark.spec("A32")
def test_a_step_of_another_agent() -> None:
    made = {"tool_name": "f", "args": {}, "result": {"success": True, "output": "x", "error": None}}
    reply = {"content": "hm", "tool_calls": [], "finish_reason": "stop", "usage": None}
    step = Step.from_dict(
        {"step_number": 3, "llm_response": reply, "tool_calls_made": [made, made]}
    )
    assert (step.number, step.message.text) == (3, "hm")
    assert [e.call.id for e in step.executions] == ["call_1", "call_2"]
    silent = {"content": None, "tool_calls": [], "finish_reason": "stop", "usage": None}
    assert Step.from_dict({"step_number": 1, "llm_response": silent}).message is None
    for wrong in ({"tool_calls_made": 5}, {"llm_response": 5}, {"step_number": -1}):
        with pytest.raises(ValidationError):
            Step.from_dict({"step_number": 1, "llm_response": reply} | wrong)


@pytest.mark.spec("P17", "P14")
@pytest.mark.parametrize("written", [True, False])
@pytest.mark.parametrize("bare", [True, False])
def test_a_row_of_plan_runs_is_a_run(written: bool, bare: bool) -> None:
    steps = [
        {"mcp_id": "shop", "method": "GET", "path": "/items", "query": {"n": 1}, "body": None},
        {"mcp_id": "shop", "method": "POST", "path": "/items", "body": {"name": "x"}},
    ]
    plan: Any = steps if bare else {"plan_id": "p", "goal": "Buy", "steps": steps}
    row = {
        "run_id": "r",
        "chat_id": "c",
        "plan_id": "p",
        "goal": "Buy",
        "status": "draft",
        "plan_json": json.dumps(plan) if written else plan,
        "current_step_path": "steps/0",
        "last_event": "step_ok",
        "error": None,
    }
    parsed = Run.from_dict(row)
    assert (parsed.id, parsed.session_id, parsed.plan_id, parsed.prompt) == ("r", "c", "p", "Buy")
    assert (parsed.status, parsed.current_step_path, parsed.last_event) == (
        "draft",
        "steps/0",
        "step_ok",
    )
    asked = {"method": "GET", "path": "/items", "query": {"n": 1}}
    arguments = {"method": "POST", "path": "/items", "body": {"name": "x"}}
    assert [step.call for step in parsed.plan] == [
        ToolCall(id="step_1", name="api_shop", arguments=asked),
        ToolCall(id="step_2", name="api_shop", arguments=arguments),
    ]
    assert Run.from_dict(json.loads(json.dumps(parsed.to_dict()))) == parsed


@pytest.mark.spec("P17")
def test_a_plan_that_cannot_be_read_is_refused() -> None:
    assert run(plan_json=None).plan == ()
    assert run(plan_json="[]").plan == ()
    for wrong in ("{bad", "5", '{"steps": 5}', [{"mcp_id": "x", "colour": "red"}], [5]):
        with pytest.raises(ValidationError):
            run(plan_json=wrong)
    step = PlanStep.from_dict({"mcp_id": "s", "method": "GET", "path": "/"})
    assert PlanStep.from_dict(step.to_dict()) == step


# The summary for scripts


@pytest.mark.spec("A35")
def test_the_summary_for_scripts() -> None:
    state = Run.from_dict(agent_state(model="m"))
    summary = state.to_output_dict()
    assert summary["status"] == "success"
    assert summary["stop_reason"] == "finished"
    assert summary["output"] == "Done."
    assert summary["steps"] == 2
    assert summary["tools_used"] == [
        {"name": "read_file", "args": {"path": path}, "success": True, "error": None}
        for path in "xy"
    ]
    assert summary["model"] == "m"
    assert {"duration_seconds", "error", "usage", "cost_usd", "trace_id"} <= summary.keys()


@pytest.mark.spec("A35")
def test_the_summary_has_shortened_arguments_and_errors() -> None:
    long, short = "x" * (MAX_ARGUMENT + 1), "x" * MAX_ARGUMENT
    call = ToolCall(id="c", name="f", arguments={"a": long, "b": short, "c": [long], "d": 1})
    failed = ToolExecution(call=call, status=ToolStatus.FAILED, result=ToolResult.failure("boom"))
    used = run(steps=(Step(number=1, executions=(failed,)),)).to_output_dict()["tools_used"][0]
    assert used["args"]["a"] == short + "…"
    assert used["args"]["b"] == short
    assert len(used["args"]["c"]) == MAX_ARGUMENT + 1
    assert used["args"]["d"] == 1
    assert (used["success"], used["error"]) == (False, "boom")


@pytest.mark.spec("A35")
@settings(max_examples=40, deadline=None)
@given(runs)
def test_the_summary_is_json_and_its_output_is_text(state: Run) -> None:
    summary = json.loads(json.dumps(state.to_output_dict()))
    assert isinstance(summary["output"], str)
    assert summary["status"] in {"running", "success", "partial", "failed"}


# Sessions


@pytest.mark.spec("H01", "H03", "H22")
def test_a_session_of_another_chat() -> None:
    number = uuid.uuid4()
    history = [
        {"role": "user", "content": "hi", "timestamp": 1.0},
        {
            "role": "assistant",
            "content": "ok",
            "timestamp": 2.0,
            "tool_calls": [{"tool_name": "f", "parameters": {}}],
            "tokens_used": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3},
        },
    ]
    chat = {
        "session_id": number,
        "agent_config": {"name": "analyst", "model": {"provider": "openai"}},
        "history": history,
        "started_at": "2024-01-01T00:00:00Z",
        "message_count": 2,
        "state": "active",
        "metadata": {"k": 1},
    }
    session = Session.from_dict(chat)
    assert (session.id, session.state) == (str(number), SessionState.ACTIVE)
    assert session.metadata == {"agent": "analyst", "k": 1}
    assert [m.text for m in session.messages] == ["hi", "ok"]
    assert session.messages[1].usage.total_tokens == 3
    assert session.message_count == 2
    assert Session.from_dict(json.loads(json.dumps(session.to_dict()))) == session
    assert Session.from_dict(chat | {"history": {"messages": history}}) == session
    for wrong in ({"model": "x"}, 5):
        with pytest.raises(ValidationError, match="agent_config"):
            Session.from_dict(chat | {"agent_config": wrong})


@pytest.mark.spec("H03")
def test_the_id_of_a_session_is_a_uuid() -> None:
    assert uuid.UUID(Session().id).version == 4
    assert Session().id != Session().id
    plain = "12345678-1234-5678-1234-567812345678"
    for shape in (plain, plain.upper(), plain.replace("-", ""), uuid.UUID(plain)):
        assert Session.from_dict({"session_id": shape}).id == plain
    for wrong in ("", "my session", plain[:-1], 5, None):
        with pytest.raises(ValidationError):
            Session.from_dict({"id": wrong})


@pytest.mark.spec("H04")
def test_the_message_count_must_match_the_messages() -> None:
    messages = [Message.of(Role.USER, "a"), Message.of(Role.USER, "context", synthetic=True)]
    assert Session(messages=messages).message_count == 1
    assert Session.from_dict({"messages": messages, "message_count": 1}).message_count == 1
    assert Session.from_dict({"message_count": 0}).message_count == 0
    assert Session.from_dict({"message_count": 7}).messages == ()  # the messages are elsewhere
    for wrong in (0, 2, -1, "1", True):
        with pytest.raises(ValidationError):
            Session.from_dict({"messages": messages, "message_count": wrong})
    for wrong in (-1, "1", True, 1.5):
        with pytest.raises(ValidationError):
            Session.from_dict({"message_count": wrong})


@pytest.mark.spec("H05", "D2")
def test_a_session_cannot_start_in_the_future(monkeypatch: pytest.MonkeyPatch) -> None:
    moment = datetime(2024, 1, 1, tzinfo=UTC)
    monkeypatch.setattr("ipyagent.schema.runs.now", lambda: moment)
    for late in (0, 5):
        assert Session(started_at=moment + timedelta(seconds=late))
    for late in (5.000001, 3600):
        with pytest.raises(ValidationError, match="future"):
            Session(started_at=moment + timedelta(seconds=late))
    with pytest.raises(ValidationError):  # and not a TypeError
        Session(started_at=datetime(2023, 1, 1))


@pytest.mark.spec("H06")
def test_a_session_keeps_its_metadata() -> None:
    assert Session().metadata == {}
    noted = {"a": [1, {"b": None}]}
    assert Session.from_dict(Session(metadata=noted).to_dict()).metadata == noted
    for wrong in (None, [], {"a": object()}):
        with pytest.raises(ValidationError):
            Session(metadata=wrong)


@pytest.mark.spec("P16")
def test_the_state_of_a_chat_is_part_of_its_session() -> None:
    state = {"last_run_id": "r", "last_run_status": "done", "last_run_ts": 5.0}
    session = Session.from_dict(state)
    assert session.last_run_at == datetime.fromtimestamp(5, UTC)
    assert session.last_run_status is S.DONE
    assert "pending_run_id" not in session.to_dict(exclude_none=True)


def test_a_run_has_figures_frames_and_cost() -> None:
    image = ImageContent(data="iVBORw0KGgo=")
    drawing = ImageContent(data="PHN2Zz4=", media_type="image/svg+xml")
    table, column = pd.DataFrame({"a": [1]}), pl.Series([1])

    class Sales(pd.DataFrame):
        pass

    values = [table, "text", None, column, {"a": table}, Sales(table)]
    results = [ToolResult(output="ok", value=value) for value in values]
    results.append(ToolResult(output="drawn", images=(image, drawing)))
    calls = (ToolCall(id=f"c{n}", name="look") for n in range(len(results)))
    done = tuple(
        ToolExecution(call=call, result=result, status=ToolStatus.SUCCESS)
        for call, result in zip(calls, results, strict=True)
    )
    run = Run(id="r1", steps=(Step(number=1, executions=done, cost_usd=0.25),))
    assert run.figures == (image, drawing)
    assert [set(each._repr_mimebundle_()) for each in run.figures] == [
        {"image/png", "text/plain"},
        {"text/plain"},
    ]
    first, second, third = run.frames
    assert (first is table, second is column, type(third)) == (True, True, Sales)
    assert run.cost == run.cost_usd == 0.25
    read = Run.from_dict(run.to_dict())
    with pytest.warns(UserWarning, match=r"3 of this run's tables are gone: .* run the code again"):
        assert read.frames == ()
    (one,) = read.steps[0].executions[:1]
    read = read.model_copy(update={"steps": (Step(number=1, executions=(one,)),)})
    with pytest.warns(UserWarning, match=r"1 of this run's tables is gone: "):
        assert read.frames == ()
    assert Run.from_dict(read.to_dict()) == read
    assert "tables" not in ToolResult(output="none").to_dict()


def test_a_table_that_was_displayed_and_returned_is_among_the_frames_once() -> None:
    first, second = pd.DataFrame({"a": [1]}), pl.DataFrame({"a": [1]})
    results = [
        ToolResult(output="ok", value=first, frames=(second, first)),
        ToolResult(output="again", value=second),
        ToolResult(output="in colours", value=first.style),
    ]
    done = tuple(
        ToolExecution(call=ToolCall(id=f"c{n}", name="look"), result=result)
        for n, result in enumerate(results)
    )
    run = Run(id="r1", steps=(Step(number=1, executions=done),))
    assert [id(each) for each in run.frames] == [id(second), id(first)]
    assert [result.tables for result in run.results] == [2, 1, 1]
