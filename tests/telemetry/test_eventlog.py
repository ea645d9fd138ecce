"""The event log: one line for each event."""

import json
import logging
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from harness import YES, Follower, Lab, at_once, call
from ipyagent.redaction import mask_arguments
from ipyagent.schema import (
    ImageContent,
    Outcome,
    Run,
    RunFinished,
    RunStarted,
    RunStatus,
    StepStarted,
    StopReason,
    ToolCall,
    ToolExecution,
    ToolFinished,
    ToolResult,
    ToolStarted,
    ToolStatus,
)
from ipyagent.telemetry.eventlog import EventLog
from ipyagent.tools.base import tool

Line = dict[str, Any]
BUSY = {"kind": "unavailable", "message": "busy"}


def lines(path: Path) -> list[Line]:
    """Return the log's lines, split as the strictest reader would."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def only(name: str, path: Path) -> Line:
    (line,) = [line for line in lines(path) if line["event"] == name]
    return line


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "logs" / "runs.jsonl"


@pytest.mark.spec("A15", "M29", "P08")
def test_every_event_is_one_line_with_the_run_it_belongs_to(lab: Lab, path: Path) -> None:
    began = datetime.now(UTC)
    script = [{"text": "Look.", "calls": [call("list_files")]}, "It is empty."]
    run = lab.run(script, "What is here?", heard=Follower(EventLog(path, mask=mask_arguments)))
    records = lines(path)
    names = [line["event"] for line in records if not line["event"].startswith("request.")]
    assert names == [name for name in lab.watcher.types() if name != "message_delta"]
    ids = {(line["trace_id"], line["run_id"], line["session_id"]) for line in records}
    assert ids == {(run.trace_id, run.id, run.session_id)}
    times = [datetime.fromisoformat(line["time"]) for line in records]
    assert times == sorted(times)
    assert times[0].utcoffset() == timedelta(0)
    assert began <= times[0]
    assert times[-1] <= datetime.now(UTC)


@pytest.mark.spec("A15", "M29")
def test_the_log_has_texts_and_calls(lab: Lab, path: Path) -> None:
    usage = {"prompt_tokens": 7, "completion_tokens": 3}
    calls = [call("write_file", path="a.txt", content="A")]
    lab.run(
        [{"text": "I make it.", "calls": calls, "usage": usage, "cost_usd": 0.5}, "Done."],
        "Make a.txt.",
        answer=YES,
        heard=Follower(EventLog(path, mask=mask_arguments)),
    )
    start, decision, tool_end = (
        only(name, path) for name in ("run_started", "approval_decided", "tool_finished")
    )
    assert (start["prompt"], start["model"]) == ("Make a.txt.", "scripted")
    assert only("tool_started", path)["arguments"] == {"path": "a.txt", "content": "A"}
    assert (decision["decision"], decision["by"]) == ("approved", "button")
    assert (tool_end["tool"], tool_end["status"], tool_end["call_id"]) == (
        ("write_file", "success", decision["call_id"])
    )
    assert tool_end["duration_ms"] >= 0
    reply = next(line for line in lines(path) if line["event"] == "message_finished")
    assert (reply["text"], reply["calls"]) == ("I make it.", [decision["call_id"]])
    assert (reply["usage"]["prompt_tokens"], reply["cost_usd"]) == (7, 0.5)
    # Whoever holds its id could approve.
    assert set(only("approval_requested", path)) & {"call_id", "approval_id"} == {"call_id"}


@pytest.mark.spec("P08")
def test_each_request_to_the_model_has_a_start_an_end_and_a_duration(lab: Lab, path: Path) -> None:
    retry = {"initial_delay": 0.0}
    run = lab.run(
        [{"error": BUSY}, {"calls": [call("list_files")]}, "Done."],
        settings={"llm": {"retry": retry}},
        heard=Follower(EventLog(path, mask=mask_arguments)),
    )
    requests = [line for line in lines(path) if line["event"].startswith("request.")]
    assert [(line["event"], line["step"]) for line in requests] == [
        ("request.start", 1),
        ("request.end", 1),
        ("request.start", 1),
        ("request.end", 1),
        ("request.start", 2),
        ("request.end", 2),
    ]
    ends = requests[1::2]
    assert "busy" in ends[0]["error"]
    assert [end.get("finish_reason") for end in ends[1:]] == ["tool_calls", "stop"]
    whole = only("run_finished", path)["duration_ms"]
    assert whole == pytest.approx((run.duration or 0.0) * 1000, abs=0.001)
    assert 0 < sum(end["duration_ms"] for end in ends) <= whole


@pytest.mark.spec("A15", "P08")
def test_a_failed_run_is_logged_and_ends_its_request(lab: Lab, path: Path) -> None:
    error = {"kind": "refused", "message": "no such model"}
    lab.run([{"error": error}], heard=Follower(EventLog(path, mask=mask_arguments)))
    end, last = lines(path)[-2:]
    assert (end["event"], last["event"]) == ("request.end", "run_finished")
    assert "no such model" in end["error"]
    assert (last["status"], last["stop_reason"]) == ("error", "error")
    assert "no such model" in last["error"]


@pytest.mark.spec("P08")
def test_a_request_that_is_interrupted_ends_too(path: Path) -> None:
    log = Follower(EventLog(path, mask=mask_arguments))
    status, reason = RunStatus.CANCELLED, StopReason.INTERRUPTED
    log(RunStarted(run=Run(id="r", trace_id="t")))
    log(StepStarted(step=1))
    log(RunFinished(status=status, stop_reason=reason, duration=0.5))
    start, end, finished = lines(path)[-3:]
    assert (start["event"], end["event"]) == ("request.start", "request.end")
    assert end["error"] == "interrupted"
    assert finished["duration_ms"] == 500


@pytest.mark.spec("H15", "A15")
def test_secrets_are_masked_wherever_their_name_reveals_them(lab: Lab, path: Path) -> None:
    @tool
    def log_in(user: str, password: str, more: dict[str, Any]) -> str:
        """Log in."""
        return "welcome"

    canary = "hunter2-canary"
    more = {"headers": [{"Authorization": canary}], "api_key": canary, "page": 3}
    script = [{"calls": [call("log_in", user="ada", password=canary, more=more)]}, "Done."]

    def logged(log: EventLog) -> None:
        lab.run(script, tools=[log_in], confirm_mode="yolo", heard=log)

    naive = path.with_name("naive.jsonl")
    logged(Follower(EventLog(naive, mask=dict)))
    assert canary in naive.read_text()
    logged(Follower(EventLog(path, mask=mask_arguments)))
    assert canary not in path.read_text()
    arguments = only("tool_started", path)["arguments"]
    assert (arguments["user"], arguments["more"]["page"]) == ("ada", 3)


@pytest.mark.spec("A15")
@pytest.mark.parametrize("text", ["Grüße, 世界 🎉", "a\nb\r\nc", "\x85 \u2028 \u2029 \x0b \x1c"])
def test_every_record_stays_on_one_line(path: Path, text: str) -> None:
    asked = ToolCall(id="1", name="read_file", arguments={"path": text})
    log = Follower(EventLog(path, mask=mask_arguments))
    log(RunStarted(run=Run(id="r")))
    log(StepStarted(step=1))
    log(ToolStarted(step=1, execution=ToolExecution(call=asked)))
    assert only("tool_started", path)["arguments"] == {"path": text}
    if text.isprintable():
        assert text in path.read_text("utf-8")


@pytest.mark.spec("A15", "M29")
def test_runs_of_several_kernels_share_a_file(tmp_path: Path, path: Path) -> None:
    lab = Lab(tmp_path)
    lab.run([{"text": "Long. " * 5_000, "calls": [call("list_files")]}, "Done."])
    events = lab.watcher.events

    def work() -> None:
        log = Follower(EventLog(path, mask=mask_arguments))
        for event in events * 3:
            log(event)

    at_once([work] * 6)
    names = [line["event"] for line in lines(path)]
    assert names.count("run_finished") == 18
    assert names.count("request.start") == names.count("request.end") == 36


def unwritable(path: Path, how: str) -> Path | None:
    """Make the log unwritable; return the file that a naive log would damage."""
    path.parent.mkdir()
    target = path.parent.parent / "outside.txt"
    target.write_text("mine\n")
    match how:
        case "link":
            path.symlink_to(target)
        case "pipe":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
        case "file as folder":
            path.parent.rmdir()
            path.parent.write_text("")
        case "device":
            path.symlink_to("/dev/full")
    return target


@pytest.mark.spec("A15")
@pytest.mark.parametrize("how", ["link", "pipe", "folder", "file as folder", "device"])
def test_a_log_that_cannot_be_written_costs_one_warning_and_no_run(
    lab: Lab, path: Path, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    target = unwritable(path, how)
    log = Follower(EventLog(path, mask=mask_arguments))
    with caplog.at_level(logging.WARNING, "ipyagent"):
        run = lab.run(["Hello."], heard=log)
        assert run.outcome is Outcome.SUCCESS
        (record,) = caplog.records
        assert "cannot be written" in record.getMessage()
        lab.run(["Hello again."], heard=log)
        assert len(caplog.records) == 2  # once for each run
    assert target is None or target.read_text() == "mine\n"


@pytest.mark.spec("A15")
def test_a_log_that_becomes_writable_is_written_from_the_next_run(lab: Lab, path: Path) -> None:
    path.mkdir(parents=True)
    log = Follower(EventLog(path, mask=mask_arguments))
    lab.run(["Hello."], heard=log)
    path.rmdir()
    lab.run(["Hello again."], heard=log)
    assert only("message_finished", path)["text"] == "Hello again."


def test_only_its_owner_can_read_the_log(lab: Lab, path: Path) -> None:
    lab.run(["Hello."], heard=Follower(EventLog(path, mask=mask_arguments)))
    assert path.stat().st_mode & 0o077 == 0


def test_images_are_not_logged(path: Path) -> None:
    result = ToolResult(output="a plot", images=(ImageContent(data="iVBORw0KGgo="),))
    execution = ToolExecution(
        call=ToolCall(id="1", name="plot"), status=ToolStatus.SUCCESS, result=result
    )
    log = Follower(EventLog(path, mask=mask_arguments))
    log(RunStarted(run=Run(id="r")))
    log(StepStarted(step=1))
    log(ToolFinished(step=1, execution=execution))
    assert only("tool_finished", path)["output"] == "a plot"
    assert "iVBOR" not in path.read_text()


@pytest.mark.spec("P31", "P08")
def test_a_plan_is_logged_before_it_runs_without_invented_requests(lab: Lab, path: Path) -> None:
    steps = [call("list_files"), call("list_variables")]
    run = lab.run(
        [{"calls": steps}],
        answer=YES,
        plan=True,
        heard=Follower(EventLog(path, mask=mask_arguments)),
    )
    assert run.outcome is Outcome.SUCCESS
    records = [line for line in lines(path) if line["run_id"] == run.id]
    assert records[0]["event"] == "plan_proposed"
    assert [each["tool"] for each in records[0]["plan"]] == ["list_files", "list_variables"]
    assert "approval_id" not in records[0]
    assert not [line for line in records if line["event"].startswith("request.")]
    assert [line["event"] for line in lines(path)].count("request.start") == 1
