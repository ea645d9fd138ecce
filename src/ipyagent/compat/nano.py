"""nano-agent's data structures by their own names, converted to ipyagent's and back.

    from ipyagent.compat.nano import Message, Role, TextContent, from_ipyagent

    Message(Role.USER, "Hello").to_ipyagent()   # ipyagent.schema.Message
    from_ipyagent(run.steps[0].message)         # nano.Message, with blocks of this module

They are plain frozen dataclasses; values are checked on conversion. `Role`,
`TaskStatus`, `PendingEdit`, `TruncationConfig`, `TruncatedOutput` and `PythonScript` are
ipyagent's own. A block that nano-agent has no class for, such as an image, stays ipyagent's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, ClassVar, Self

from ipyagent import schema
from ipyagent.json_types import JsonDict
from ipyagent.schema import (
    PendingEdit as PendingEdit,
    PythonScript as PythonScript,
    Role as Role,
    TodoStatus as TodoStatus,
    TruncatedOutput as TruncatedOutput,
    TruncationConfig as TruncationConfig,
)
from ipyagent.schema.messages import Model

TaskStatus = TodoStatus


class _Record:
    """A dataclass that has a counterpart in ipyagent's schema."""

    counterpart: ClassVar[type[Model]]

    def to_dict(self) -> JsonDict:
        """Return the record as JSON types; optional fields that are None are left out."""
        values = {each.name: (each, getattr(self, each.name)) for each in fields(self)}  # type: ignore[arg-type]
        return {
            name: _to_json(value)
            for name, (each, value) in values.items()
            if value is not None or each.default is MISSING
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, object]) -> Self:
        """Return the record that `to_dict` described; unknown keys are left out."""
        known = {each.name for each in fields(cls) if each.init}  # type: ignore[arg-type]
        return cls(**{key: _from_json(key, value) for key, value in data.items() if key in known})

    def to_ipyagent(self) -> Any:
        """Return the counterpart in ipyagent's schema; raise pydantic.ValidationError if none."""
        return self.counterpart.from_dict(self.to_dict())


@dataclass(frozen=True)
class TextContent(_Record):
    """Plain text."""

    counterpart = schema.TextContent
    text: str
    type: str = field(default="text", init=False)


@dataclass(frozen=True)
class ThinkingContent(_Record):
    """A model's reasoning."""

    counterpart = schema.ThinkingContent
    thinking: str = ""
    signature: str = ""
    id: str = ""
    encrypted_content: str = ""
    summary: tuple[JsonDict, ...] = ()
    type: str = field(default="thinking", init=False)


@dataclass(frozen=True)
class ToolUseContent(_Record):
    """A model's call of a tool."""

    counterpart = schema.ToolCall
    id: str
    name: str
    input: JsonDict | None
    item_id: str | None = None
    type: str = field(default="tool_use", init=False)


@dataclass(frozen=True)
class ToolResultContent(_Record):
    """A call's result as the model gets it."""

    counterpart = schema.ToolResultContent
    tool_use_id: str
    content: list[Any]
    is_error: bool = False
    type: str = field(default="tool_result", init=False)


ContentBlock = TextContent | ThinkingContent | ToolUseContent | ToolResultContent


class _HasContent:
    """The common part of messages and responses: texts and calls among their blocks."""

    content: Any

    def get_text(self) -> str:
        """Return the text, joined."""
        if isinstance(self.content, str):
            return self.content
        return "".join(each.text for each in self.content if isinstance(each, TextContent))

    def get_tool_use(self) -> list[ToolUseContent]:
        """Return the calls, in order."""
        blocks = () if isinstance(self.content, str) else self.content
        return [each for each in blocks if isinstance(each, ToolUseContent)]

    def has_tool_use(self) -> bool:
        """Return whether there are calls."""
        return bool(self.get_tool_use())


@dataclass(frozen=True)
class Message(_HasContent, _Record):
    """One turn of a conversation."""

    counterpart = schema.Message
    role: Role
    content: str | Sequence[Any]


@dataclass(frozen=True)
class SystemPrompt(_Record):
    """Instructions to the model."""

    counterpart = schema.SystemPrompt
    content: str
    type: str = field(default="system_prompt", init=False)


@dataclass(frozen=True)
class ToolDefinition(_Record):
    """The definition of a tool for the model."""

    counterpart = schema.ToolDefinition
    name: str
    description: str
    input_schema: JsonDict


@dataclass(frozen=True)
class ToolDefinitions(_Record):
    """The available tools."""

    counterpart = schema.ToolDefinitions
    tools: list[ToolDefinition]
    type: str = field(default="tool_definitions", init=False)


@dataclass(frozen=True)
class ToolExecution(_Record):
    """An executed call."""

    counterpart = schema.ToolExecution
    tool_name: str
    tool_use_id: str
    result: list[Any]
    is_error: bool = False
    type: str = field(default="tool_execution", init=False)


@dataclass(frozen=True)
class StopReason(_Record):
    """The end of a conversation; ipyagent calls the node `Stop`."""

    counterpart = schema.Stop
    reason: str
    usage: dict[str, int] = field(default_factory=dict)
    type: str = field(default="stop_reason", init=False)


NodeData = Message | SystemPrompt | ToolDefinitions | ToolExecution | StopReason


@dataclass
class Usage(_Record):
    """Token counts; `input_tokens` exclude cached tokens."""

    counterpart = schema.TokenUsage
    input_tokens: int = 0
    output_tokens: int = 0
    cache_creation_input_tokens: int = 0
    cache_read_input_tokens: int = 0


@dataclass
class Response(_HasContent, _Record):
    """A model's whole reply."""

    counterpart = schema.LLMResponse
    id: str = ""
    model: str = ""
    role: Role = Role.ASSISTANT
    content: list[Any] = field(default_factory=list)
    stop_reason: str | None = None
    usage: Usage = field(default_factory=Usage)

    def __post_init__(self) -> None:
        if isinstance(self.usage, Mapping):
            self.usage = Usage.from_dict(self.usage)


@dataclass(frozen=True)
class TodoItem(_Record):
    """One task of a checklist; `active_form` describes it in progress: "Running tests"."""

    counterpart = schema.Todo
    content: str
    status: TaskStatus = TaskStatus.PENDING
    active_form: str = ""


Todo = TodoItem

_BLOCKS: dict[object, type[_Record]] = {
    "text": TextContent,
    "thinking": ThinkingContent,
    "tool_use": ToolUseContent,
    "tool_result": ToolResultContent,
}


def from_ipyagent(model: Model) -> Any:
    """Return nano-agent's counterpart of an object of ipyagent's schema; TypeError if none."""
    match model:
        case schema.ToolCall():
            return ToolUseContent(model.id, model.name, model.arguments, model.item_id)
        case schema.ThinkingContent():
            return ThinkingContent.from_dict(dict(model))
        case schema.ToolResultContent(tool_use_id=call_id, content=blocks, is_error=is_error):
            return ToolResultContent(call_id, _blocks(blocks), is_error)
        case schema.TextContent() | schema.SystemPrompt() | schema.ToolDefinition():
            return _SAME_FIELDS[type(model)].from_dict(model.to_dict())
        case schema.Todo(content=content, status=status, active_form=active_form):
            return TodoItem(content, status, active_form)
        case schema.ToolDefinitions(tools=tools):
            return ToolDefinitions([from_ipyagent(each) for each in tools])
        case schema.Message(role=role, content=blocks):
            return Message(role, _blocks(blocks))
        case schema.TokenUsage():
            return Usage.from_dict(model.to_anthropic())
        case schema.Stop(reason=reason, finish_reason=word, usage=usage):
            return StopReason(word or str(reason or "unknown"), usage.to_anthropic())
        case schema.ToolExecution(result=result, is_error=is_error):
            result_blocks = _blocks(result.content) if result else []
            return ToolExecution(model.tool_name, model.tool_use_id, result_blocks, is_error)
        case schema.LLMResponse(message=message, finish_reason=word, usage=usage):
            message_blocks = _blocks(message.content) if message else []
            counts = Usage.from_dict(usage.to_anthropic())
            return Response(
                model.id, model.model or "", Role.ASSISTANT, message_blocks, word, counts
            )
    raise TypeError(f"nano-agent has no counterpart of {type(model).__name__}")


_SAME_FIELDS: dict[type[Model], type[_Record]] = {
    each.counterpart: each for each in (TextContent, SystemPrompt, ToolDefinition)
}


def _blocks(blocks: Sequence[Model]) -> list[object]:
    """Convert the blocks; those without a counterpart stay as they are."""
    own = (schema.ImageContent, schema.OpaqueContent)
    return [each if isinstance(each, own) else from_ipyagent(each) for each in blocks]


def _to_json(value: object) -> object:
    match value:
        case _Record():
            return value.to_dict()
        case schema.ImageContent() | schema.OpaqueContent():
            return value.to_anthropic()
        case list() | tuple():
            return [_to_json(each) for each in value]
        case Role() | TodoStatus():
            return str(value)
    return value


def _from_json(key: str, value: object) -> object:
    """Return a field's value, converted from JSON types if necessary."""
    match key, value:
        case "role", str():
            return Role(value)
        case "status", str():
            return TaskStatus(value)
        case "summary", list():
            return tuple(value)
        case "tools", list() | tuple():
            return [
                ToolDefinition.from_dict(each) if isinstance(each, Mapping) else each
                for each in value
            ]
        case "content" | "result", list() | tuple():
            return [
                _BLOCKS[each["type"]].from_dict(each)
                if isinstance(each, Mapping) and each.get("type") in _BLOCKS
                else each
                for each in value
            ]
    return value
