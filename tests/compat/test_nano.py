"""nano-agent's vocabulary is constructed, read and converted as in its reference."""

from typing import Any

import pytest

from ipyagent import schema
from ipyagent.compat import nano
from ipyagent.compat.nano import (
    Message,
    Response,
    Role,
    StopReason,
    SystemPrompt,
    TaskStatus,
    TextContent,
    ThinkingContent,
    TodoItem,
    ToolDefinition,
    ToolDefinitions,
    ToolExecution,
    ToolResultContent,
    ToolUseContent,
    Usage,
    from_ipyagent,
)

CALL = ToolUseContent("call_1", "Bash", {"command": "ls -la"})
RESULT = ToolResultContent("call_1", [TextContent("file1.txt")])
TOOL = ToolDefinition("calculator", "Evaluate", {"type": "object", "properties": {}})
USAGE = Usage(input_tokens=100, output_tokens=50, cache_read_input_tokens=20)
RESPONSE = Response(
    "msg_1", "claude", Role.ASSISTANT, [TextContent("Let me see."), CALL], "tool_use", USAGE
)
COUNTS = {
    "input_tokens": 150,
    "output_tokens": 50,
    "cache_creation_input_tokens": 0,
    "cache_read_input_tokens": 100,
}

RECORDS: list[Any] = [
    TextContent("Hello, world!"),
    ThinkingContent("Let me think.", signature="abc123"),
    CALL,
    RESULT,
    Message(Role.ASSISTANT, [ThinkingContent("Hm."), TextContent("Let me help."), CALL]),
    Message(Role.USER, [RESULT]),
    SystemPrompt("You are helpful."),
    TOOL,
    ToolDefinitions([TOOL]),
    ToolExecution("Bash", "call_1", [TextContent("file1.txt")]),
    ToolExecution("Bash", "call_1", [TextContent("Permission denied")], is_error=True),
    StopReason("end_turn", COUNTS),
    StopReason("pause_turn", COUNTS),
    USAGE,
    RESPONSE,
    TodoItem("Run tests", TaskStatus.IN_PROGRESS, "Running tests"),
]


@pytest.mark.spec("N27")
@pytest.mark.parametrize("record", RECORDS, ids=lambda each: type(each).__name__)
def test_each_class_is_converted_both_ways(record: Any) -> None:
    ours = record.to_ipyagent()
    assert isinstance(ours, record.counterpart)
    assert isinstance(ours, schema.Model)
    assert from_ipyagent(ours) == record
    assert type(record).from_dict(record.to_dict()) == record


@pytest.mark.spec("N27", "N01", "N07")
def test_access_methods_match_the_reference() -> None:
    assert (CALL.type, CALL.name, CALL.input) == ("tool_use", "Bash", {"command": "ls -la"})
    assert TextContent("Hello").to_dict() == {"type": "text", "text": "Hello"}
    assert TextContent.from_dict({"type": "text", "text": "Hello"}) == TextContent("Hello")
    hello = Message(Role.USER, "Hello")
    assert hello.to_dict() == {"role": "user", "content": "Hello"}
    assert hello.to_ipyagent().text == hello.get_text() == "Hello"
    assert StopReason(reason="end_turn").to_ipyagent().reason is schema.StopReason.FINISHED
    match RESULT:
        case ToolResultContent(content=[TextContent(text=text)]):
            assert text == "file1.txt"
    assert TaskStatus("in_progress") is TaskStatus.IN_PROGRESS
    with pytest.raises(AttributeError):
        hello.role = Role.ASSISTANT


@pytest.mark.spec("N27", "N09")
def test_a_response_returns_its_text_and_its_calls() -> None:
    assert RESPONSE.get_text() == "Let me see."
    assert RESPONSE.get_tool_use() == [CALL]
    assert RESPONSE.has_tool_use()
    assert RESPONSE.stop_reason == "tool_use"
    assert RESPONSE.usage.input_tokens == 100
    assert RESPONSE.to_ipyagent().usage.prompt_tokens == 120
    assert not Response().has_tool_use()


@pytest.mark.spec("N27")
def test_blocks_without_a_counterpart_are_not_lost() -> None:
    image = schema.ImageContent(data="aGk=")
    ours = schema.Message(role=Role.USER, content=(schema.TextContent(text="See"), image))
    theirs = from_ipyagent(ours)
    assert theirs.content == [TextContent("See"), image]
    assert theirs.to_ipyagent().content == ours.content
    with pytest.raises(TypeError, match="no counterpart of Note"):
        from_ipyagent(schema.Note(content="x"))


@pytest.mark.spec("N27")
def test_every_name_of_the_vocabulary_can_be_imported() -> None:
    vocabulary = """
        ContentBlock Message NodeData PendingEdit PythonScript Response Role StopReason SystemPrompt
        TaskStatus TextContent ThinkingContent Todo TodoItem TodoStatus ToolDefinition
        ToolDefinitions ToolExecution ToolResultContent ToolUseContent TruncatedOutput
        TruncationConfig Usage from_ipyagent
    """
    assert [name for name in vocabulary.split() if not hasattr(nano, name)] == []
    cut = nano.TruncatedOutput(
        tool_name="Bash", temp_file_path="out.txt", original_chars=9, original_lines=1
    )
    assert cut.temp_file_path == cut.path == "out.txt"
