"""Other names and forms of what ipyagent has: other libraries' names, converters, nano-agent.

    from ipyagent.compat import ChatSession, ToolUseContent   # schema.Session, schema.ToolCall

Importing this does nothing else: `schema` imports the converters, so names are resolved at first
use.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOMES = {
    "AgentState": "schema.Run",
    "ChatSession": "schema.Session",
    "MCP": "config.MCPServerConfig",
    "MCPEndpoint": "schema.Endpoint",
    "MessageRole": "schema.Role",
    "NoTTYError": "errors.NoFrontendError",
    "PlanRun": "schema.Run",
    "Response": "schema.LLMResponse",
    "StepResult": "schema.Step",
    "TaskStatus": "schema.TodoStatus",
    "TodoItem": "schema.Todo",
    "ToolCallResult": "schema.ToolExecution",
    "ToolUseContent": "schema.ToolCall",
    "Usage": "schema.TokenUsage",
    "ValidationError": "errors.PathValidationError",
}
"""Names in other libraries, with the class here."""


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'ipyagent.compat' has no attribute {name!r}")
    module, ours = _HOMES[name].split(".")
    return getattr(import_module(f"ipyagent.{module}"), ours)


def __dir__() -> list[str]:
    return [*_HOMES]
