"""Whatever a tool returns or raises becomes a `ToolResult`."""

from __future__ import annotations

from ipyagent.errors import AgentError
from ipyagent.kernel.namespace import describe
from ipyagent.schema import ToolResult


def as_result(value: object) -> ToolResult:
    """A tool's return value as a result; objects are described, and kept in `value`."""
    match value:
        case ToolResult():
            return value
        case None:
            return ToolResult(output="Done.")
        case str():
            return ToolResult(output=value, value=value)
        case bool() | int() | float():
            return ToolResult(output=str(value), value=value)
    return ToolResult(output=describe("result", value, detail=True), value=value)


def failed(error: BaseException) -> ToolResult:
    """A raised exception as a result; our own errors already speak to the reader."""
    text = str(error)
    if not isinstance(error, AgentError):
        text = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return ToolResult.failure(text)
