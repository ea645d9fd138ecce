"""Other libraries' names of classes here."""

import pytest

from ipyagent import compat, config, errors, schema

NAMES = {
    "AgentState": schema.Run,
    "ChatSession": schema.Session,
    "MCP": config.MCPServerConfig,
    "MCPEndpoint": schema.Endpoint,
    "MessageRole": schema.Role,
    "NoTTYError": errors.NoFrontendError,
    "PlanRun": schema.Run,
    "Response": schema.LLMResponse,
    "StepResult": schema.Step,
    "TaskStatus": schema.TodoStatus,
    "TodoItem": schema.Todo,
    "ToolCallResult": schema.ToolExecution,
    "ToolUseContent": schema.ToolCall,
    "Usage": schema.TokenUsage,
    "ValidationError": errors.PathValidationError,
}


@pytest.mark.parametrize("name", NAMES)
def test_a_name_of_another_library_is_the_class_used_here(name: str) -> None:
    assert getattr(compat, name) is NAMES[name]


def test_every_such_name_is_listed_and_others_are_unknown() -> None:
    assert dir(compat) == sorted(NAMES)
    with pytest.raises(AttributeError, match="no attribute 'Robot'"):
        getattr(compat, "Robot")  # noqa: B009
