"""Tool definitions, results, and executions of calls."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from pydantic import ValidationError
from strategies import results, texts

from ipyagent.plaintext import strip_escapes
from ipyagent.schema import (
    STANDARD,
    Decision,
    ImageContent,
    TextContent,
    ToolCall,
    ToolDefinition,
    ToolExecution,
    ToolResult,
    ToolStatus,
    TruncatedOutput,
    TruncationConfig,
)

IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QUJD"}}


def execution(**data: Any) -> ToolExecution:
    return ToolExecution.from_dict(data)


# Definitions


@pytest.mark.spec("M20", "N11")
def test_a_tool_definition_is_emitted_for_every_provider() -> None:
    schema = {"type": "object", "properties": {"x": {"type": "string"}}, "required": ["x"]}
    tool = ToolDefinition(name="f", description="Does f.", input_schema=schema)
    anthropic = {"name": "f", "description": "Does f.", "input_schema": schema}
    function = {"name": "f", "description": "Does f.", "parameters": schema}
    openai = {"type": "function", "function": function}
    assert tool.to_schema() == tool.to_anthropic() == anthropic
    assert tool.to_openai() == openai
    for shape in (anthropic, openai, function, {"type": "function", **function}):
        assert ToolDefinition.from_dict(shape) == tool
    for wrong in ({"name": "", "input_schema": {}}, {"name": "f"}, {"input_schema": {}}):
        with pytest.raises(ValidationError):
            ToolDefinition.from_dict(wrong)


# Results


@pytest.mark.spec("M18", "A37", "A38")
def test_a_result_is_accepted_in_every_format() -> None:
    wanted = ToolResult(output="ok")
    for shape in (
        {"success": True, "output": "ok", "error": None},
        {"success": True, "content": "ok"},
        {"success": True, "content": ["ok"]},
        {"success": True, "content": [{"type": "text", "text": "ok"}]},
        {"success": True, "content": [TextContent(text="ok")]},
    ):
        assert ToolResult.from_dict(shape) == wanted
    assert ToolResult().output == ""
    result = ToolResult.from_dict({"content": ["a", IMAGE, "b"]})
    assert result.output == "a\nb"
    assert result.images == (ImageContent(data="QUJD"),)
    assert result.content == (TextContent(text="a\nb"), *result.images)
    for wrong in ({"content": 5}, {"content": None}, {"content": [{"type": "hologram"}]}):
        with pytest.raises(ValidationError):
            ToolResult.from_dict(wrong)


@pytest.mark.spec("A37", "A38", "M21")
def test_a_failure_has_a_text_and_an_error_and_a_success_has_no_error() -> None:
    for shape in (
        {"error": "boom"},
        {"error": "boom", "output": ""},
        {"content": "boom"},
        {"output": "boom", "error": None},
    ):
        failed = ToolResult.from_dict({"success": False, **shape})
        assert (failed.output, failed.error) == ("boom", "boom")
    both = ToolResult(success=False, output="It broke.", error="errno 5")
    assert (both.output, both.error) == ("It broke.", "errno 5")
    assert ToolResult(success=True).error is None
    for wrong in (
        {"success": False},
        {"success": False, "error": "", "output": ""},
        {"success": True, "error": "boom"},
        {"success": 1},
    ):
        with pytest.raises(ValidationError):
            ToolResult.from_dict(wrong)


@pytest.mark.spec("N06", "M21")
def test_the_model_sees_a_result_as_an_answer_to_its_call() -> None:
    seen = ToolResult(output="ok").to_content("c")
    assert (seen.tool_use_id, seen.text, seen.is_error) == ("c", "ok", False)
    assert ToolResult.failure("boom").to_content("c").is_error
    assert ToolResult().to_content("c").text == "(no output)"


@pytest.mark.spec("H17")
def test_a_result_holds_no_terminal_escapes() -> None:
    link = "\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\"
    evil = f"\x1b]0;evil\x07\x1b[31mred\x9b0m {link} \x1b(Bok"
    for shape in ({"output": evil}, {"content": evil}, {"content": [evil]}):
        assert ToolResult.from_dict(shape).output == "red link ok"
    failed = ToolResult(success=False, error=evil)
    assert (failed.output, failed.error) == ("red link ok",) * 2
    assert execution(tool_name="f", result=evil).result.output == "red link ok"
    assert execution(tool_name="f", error_message=evil).result.error == "red link ok"
    assert ToolResult.failure("\x1b[31m").output == ToolResult.failure("\x1b[31m").error != ""
    raw = {"raw": evil}
    assert ToolResult(output=evil, value=raw).value is raw


@pytest.mark.spec("H17")
@settings(max_examples=100, deadline=None)
@given(texts)
def test_every_terminal_escape_is_removed(text: str) -> None:
    output = ToolResult(output=text).output
    assert output == strip_escapes(text)
    assert not {"\x1b", "\x9b", "\x07"} & set(output)
    output.encode()


@given(results)
def test_live_objects_and_uncut_texts_are_not_serialized(result: ToolResult) -> None:
    assert not {"value", "full_output"} & result.to_dict().keys()
    assert result.full_output == result.output


# Executions


@pytest.mark.spec("A31")
def test_a_call_with_its_result_beside_it() -> None:
    came = {"success": True, "output": "ok", "error": None}
    shape = {"tool_name": "f", "args": {"a": 1}, "result": came, "timestamp": 1.5}
    done = execution(**shape, was_confirmed=True, was_dry_run=False)
    assert done.call == ToolCall(id="call_1", name="f", arguments={"a": 1})
    assert done.result == ToolResult(output="ok")
    assert done.status is ToolStatus.SUCCESS
    assert (done.decision, done.dry_run) == (Decision.APPROVED, False)
    assert done.started_at == datetime.fromtimestamp(1.5, UTC)
    assert execution(**shape, was_confirmed=False).decision is Decision.AUTO
    assert execution(**shape).decision is None
    assert execution(**shape, was_dry_run=True).dry_run is True
    failed = execution(tool_name="f", args={}, result=ToolResult.failure("boom"))
    assert failed.status is ToolStatus.FAILED
    with pytest.raises(ValidationError):
        execution(**shape, was_confirmed="yes")


@pytest.mark.spec("N12", "A31")
@pytest.mark.parametrize("result", ["ok", ["ok"], [{"type": "text", "text": "ok"}]])
def test_a_node_of_a_graph_with_its_result_as_blocks(result: Any) -> None:
    shape = {"type": "tool_execution", "tool_name": "Bash", "tool_use_id": "c", "result": result}
    done = execution(**shape, is_error=False)
    assert done.call == ToolCall(id="c", name="Bash")
    assert (done.status, done.result) == (ToolStatus.SUCCESS, ToolResult(output="ok"))
    failed = execution(**shape, is_error=True)
    assert (failed.status, failed.result.error) == (ToolStatus.FAILED, "ok")


@pytest.mark.spec("N12")
def test_a_node_of_a_graph_may_hold_images_or_nothing() -> None:
    result = execution(tool_name="f", tool_use_id="c", result=["a", IMAGE])
    assert result.result.images == (ImageContent(data="QUJD"),)
    assert execution(tool_name="f", tool_use_id="c", result=[]).status is ToolStatus.SUCCESS
    silent = execution(tool_name="f", tool_use_id="c", result=[], is_error=True)
    assert (silent.status, bool(silent.result.error)) == (ToolStatus.FAILED, True)


@pytest.mark.spec("H13", "A31")
def test_a_record_with_its_status() -> None:
    shape = {"tool_name": "f", "parameters": {"a": 1}}
    waiting = execution(**shape)
    assert (waiting.status, waiting.result, waiting.duration) == (ToolStatus.PENDING, None, None)
    for status in ("pending", "running", "success", "awaiting_approval", "denied", "cancelled"):
        assert execution(**shape, status=status).status == status
    done = execution(**shape, status="success", result="ok", execution_time=0.0)
    assert (done.result.output, done.duration) == ("ok", 0.0)
    failed = execution(**shape, status="failed", error_message="boom", result="half")
    assert (failed.result.output, failed.result.error) == ("half", "boom")
    denied = execution(**shape, status="denied", error_message="not today")
    assert denied.result == ToolResult.failure("not today")
    assert execution(**shape, status="cancelled", result="half").result.success is False
    for wrong in (-0.1, float("nan"), "1", True):
        with pytest.raises(ValidationError):
            execution(**shape, execution_time=wrong)
    for wrong in ({"status": "done"}, {"is_error": 1}, {"result": 5}, {"colour": "red"}):
        with pytest.raises(ValidationError):
            execution(**shape, **wrong)
    for wrong in ({}, {"tool_name": ""}, {"tool_name": "f", "args": [1]}):
        with pytest.raises(ValidationError):
            execution(**wrong)


@pytest.mark.spec("H16", "D1")
def test_a_failed_execution_needs_an_error() -> None:
    call = ToolCall(id="c", name="f")
    for wrong in (
        {"tool_name": "f", "status": "failed"},
        {"tool_name": "f", "status": "failed", "error_message": None},
        {"tool_name": "f", "status": "failed", "error_message": ""},
        {"tool_name": "f", "status": "failed", "result": "half"},
        {"call": call, "status": "failed"},
        {"call": call, "status": "failed", "result": ToolResult(output="ok")},
        {"call": call, "status": "success", "result": ToolResult.failure("boom")},
        {"tool_name": "f", "status": "success", "error_message": "boom"},
    ):
        with pytest.raises(ValidationError):
            execution(**wrong)
    for right in ({"error_message": "boom"}, {"result": {"success": False, "error": "boom"}}):
        assert execution(tool_name="f", status="failed", **right).result.error == "boom"
    assert execution(tool_name="f", error_message="boom").status is ToolStatus.FAILED


def test_our_executions_are_read_with_their_type_beside_them() -> None:
    done = execution(tool_name="f", result="ok")
    assert execution(type="tool_execution", **done.to_dict()) == done
    with pytest.raises(ValidationError):
        execution(type="hologram", **done.to_dict())


# Truncation


@pytest.mark.spec("N21")
def test_a_model_reads_30_000_characters_or_1_000_lines_at_once() -> None:
    assert TruncationConfig() == STANDARD
    assert STANDARD.to_dict() == {"max_chars": 30_000, "max_lines": 1_000, "enabled": True}
    assert TruncationConfig(max_chars=1, max_lines=1, enabled=False).enabled is False
    for wrong in ({"max_chars": 0}, {"max_lines": 0}, {"max_chars": "9"}, {"enabled": 1}):
        with pytest.raises(ValidationError):
            TruncationConfig.from_dict(wrong)


@pytest.mark.spec("N22")
def test_a_truncated_output_names_the_file_with_the_rest() -> None:
    shape = {"tool_name": "f", "original_chars": 0, "original_lines": 0, "created_at": 1.5}
    cut = TruncatedOutput.from_dict({**shape, "temp_file_path": "outputs/1.txt"})
    assert cut.path == "outputs/1.txt"
    assert cut.created_at == datetime.fromtimestamp(1.5, UTC)
    for wrong in ({"original_chars": -1}, {"original_lines": True}, {"tool_name": None}):
        with pytest.raises(ValidationError):
            TruncatedOutput.from_dict(shape | wrong)


@pytest.mark.spec("H13")
def test_the_statuses_of_a_call_include_approval_and_unknown() -> None:
    assert {"pending", "running", "success", "failed"} < set(ToolStatus)
    assert {"awaiting_approval", "denied", "cancelled", "unknown"} < set(ToolStatus)
    assert len(ToolStatus) == 8
