"""The wire format: messages to OpenAI's chat format, and streamed chunks back to a message.

Pure functions and one accumulator; nothing here knows who carries the bytes.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

from ipyagent.llm.client import StreamChunk
from ipyagent.schema import (
    Block,
    ImageContent,
    Message,
    Role,
    TextContent,
    ThinkingContent,
    TokenUsage,
    ToolCall,
    ToolDefinition,
    ToolResultContent,
)

CUT = "the reply was cut at the model's length limit"
MAX_DEPTH = 100  # of arguments: beyond it serializers give up


def well_formed(text: str) -> str:
    """The text with surrogate pairs joined and lone halves replaced, so that it can be encoded."""
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def to_openai(messages: Iterable[Message], *, vision: bool) -> list[dict[str, Any]]:
    """The conversation in OpenAI's chat format; equal messages give equal bytes."""
    return [wired for message in messages for wired in _message(message, vision)]


def tools_to_openai(definitions: Iterable[ToolDefinition]) -> list[dict[str, Any]]:
    """The tools in OpenAI's function format."""
    return [{"type": "function", "function": definition.to_dict()} for definition in definitions]


def _message(message: Message, vision: bool) -> Iterator[dict[str, Any]]:
    match message.role:
        case Role.SYSTEM:
            yield {"role": "system", "content": well_formed(message.text)}
        case Role.ASSISTANT:
            yield from _assistant(message)
        case Role.USER:
            yield from _user(message, vision)


def _assistant(message: Message) -> Iterator[dict[str, Any]]:
    text = well_formed(message.text)
    if not text and not message.tool_calls:
        return  # providers refuse an empty message
    wired: dict[str, Any] = {"role": "assistant", "content": text or None}
    # Unsigned thinking cannot be verified, and providers that sign refuse it.
    if signed := [b for b in message.content if isinstance(b, ThinkingContent) and b.signature]:
        wired["thinking_blocks"] = [
            {"type": "thinking", "thinking": b.thinking, "signature": b.signature} for b in signed
        ]
    if message.tool_calls:
        wired["tool_calls"] = [_call(call) for call in message.tool_calls]
    yield wired


def _call(call: ToolCall) -> dict[str, Any]:
    arguments = json.dumps(
        call.arguments, ensure_ascii=False, sort_keys=True, separators=(",", ":")
    )
    function = {"name": call.name, "arguments": well_formed(arguments)}
    return {"id": call.id, "type": "function", "function": function}


def _user(message: Message, vision: bool) -> Iterator[dict[str, Any]]:
    """Tool results first, each a message; then what else there is, and the results' images."""
    parts: list[dict[str, Any]] = []
    for block in message.content:
        match block:
            case ToolResultContent():
                yield {
                    "role": "tool",
                    "tool_call_id": block.tool_use_id,
                    "content": _result_text(block, vision),
                }
                if vision:
                    parts += [_image(b) for b in block.content if isinstance(b, ImageContent)]
            case TextContent(text=text):
                parts.append({"type": "text", "text": well_formed(text)})
            case ImageContent():
                note = {"type": "text", "text": _note(block, vision=False)}
                parts.append(_image(block) if vision else note)
    if all(part["type"] == "text" for part in parts):
        if content := "\n".join(part["text"] for part in parts):
            yield {"role": "user", "content": content}
    else:
        yield {"role": "user", "content": parts}


def _result_text(result: ToolResultContent, vision: bool) -> str:
    lines = (
        _note(block, vision) if isinstance(block, ImageContent) else well_formed(block.text)
        for block in result.content
    )
    text = "\n".join(lines) or "(no output)"
    return f"Error: {text}" if result.is_error and not text.startswith("Error") else text


def _image(image: ImageContent) -> dict[str, Any]:
    url = f"data:{image.media_type};base64,{image.data}"
    return {"type": "image_url", "image_url": {"url": url}}


def _note(image: ImageContent, vision: bool) -> str:
    size = f" {image.width}×{image.height}" if image.width and image.height else ""  # noqa: RUF001
    if vision:
        return f"[image{size}, shown below]"
    return f"[image{size} not shown: this model cannot see images]"


@dataclass
class _Call:
    id: str = ""
    name: str = ""
    arguments: str = ""


@dataclass
class _Thinking:
    text: str = ""
    signature: str = ""


class ReplyBuilder:
    """Folds chunks; `message()` may be asked at any time, so an interrupted reply can be kept.

    Calls keep the provider's ids where these are given and unique within the reply; other calls are
    named `{prefix}_1`, `{prefix}_2`, ….
    """

    def __init__(self, prefix: str = "call_1") -> None:
        self.finish_reason: str | None = None
        self.usage = TokenUsage()
        self.cost_usd: float | None = None
        self._prefix = prefix
        self._thinking: list[_Thinking] = []
        self._text: list[str] = []
        self._calls: list[_Call] = []
        self._at: dict[int, _Call] = {}

    def add(self, chunk: StreamChunk) -> None:
        """Take the next chunk."""
        match chunk.type:
            case "text":
                self._text.append(chunk.text)
            case "thinking":
                if not self._thinking or self._thinking[-1].signature:
                    self._thinking.append(_Thinking())  # a signature ends its block
                self._thinking[-1].text += chunk.text
            case "signature":
                if not self._thinking:
                    self._thinking.append(_Thinking())
                self._thinking[-1].signature += chunk.text
            case "tool_call":
                self._add_call(chunk)
            case "usage":
                self.usage = chunk.usage or self.usage
                self.cost_usd = chunk.cost_usd
            case "finish":
                self.finish_reason = chunk.text

    def message(self) -> Message:
        """The reply so far: thinking, then text, then calls."""
        blocks: list[Block] = [
            ThinkingContent(thinking=well_formed(block.text), signature=block.signature)
            for block in self._thinking
        ]
        if text := well_formed("".join(self._text)):
            blocks.append(TextContent(text=text))
        return Message(role=Role.ASSISTANT, content=(*blocks, *self._tool_calls()))

    def _add_call(self, chunk: StreamChunk) -> None:
        call = self._at.get(chunk.index)
        if call is None or _begins_another(chunk, call):
            call = self._at[chunk.index] = _Call()
            self._calls.append(call)
        call.id = call.id or chunk.id
        call.name = call.name or chunk.name
        call.arguments += chunk.text

    def _tool_calls(self) -> list[ToolCall]:
        calls: list[ToolCall] = []
        given = [call.id for call in self._calls]
        taken = set(given)
        for number, call in enumerate(self._calls, start=1):
            own = call.id if given.count(call.id) == 1 else ""
            arguments, problem = parse_arguments(call.arguments)
            if not call.name:
                problem = "the call does not name a tool"
            if self.finish_reason == "length":
                problem = CUT
            calls.append(
                ToolCall(
                    id=well_formed(own) or _free(f"{self._prefix}_{number}", taken),
                    name=well_formed(call.name) or "unknown",
                    arguments=arguments,
                    parse_error=problem,
                )
            )
        return calls


def _begins_another(chunk: StreamChunk, call: _Call) -> bool:
    """Whether the chunk starts a new call, though its index is taken: some servers count badly."""
    if not chunk.name or not call.name:
        return False
    return chunk.id != call.id if chunk.id and call.id else bool(call.arguments)


def _free(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    taken.add(name)
    return name


def parse_arguments(text: str) -> tuple[dict[str, Any], str | None]:
    """A call's arguments, or {} and what was wrong with them; nothing is ever repaired."""
    if not text:
        return {}, None
    try:
        value = json.loads(text, parse_constant=_not_json, parse_float=_finite)
    except json.JSONDecodeError as error:
        return {}, _problem(text, f"{error.msg} at character {error.pos}", error.pos)
    except (ValueError, RecursionError) as error:
        reason = str(error) if isinstance(error, ValueError) else "nested too deeply"
        return {}, _problem(text, reason, 0)
    if not isinstance(value, dict):
        return {}, f"the arguments are not a JSON object but {_excerpt(text, 0)}"
    try:
        return _clean(value), None
    except RecursionError:
        return {}, _problem(text, "nested too deeply", 0)


def _problem(text: str, reason: str, position: int) -> str:
    return f"the arguments are not valid JSON: {reason}, near {_excerpt(text, position)}"


def _excerpt(text: str, position: int) -> str:
    return ascii(text[max(0, position - 20) : position + 20])


def _not_json(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a JSON number")


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise ValueError(f"the number {digits[:20]} is too large")
    return number


def _clean(value: Any, depth: int = 0) -> Any:
    """The value with all its text well formed."""
    if depth > MAX_DEPTH:
        raise RecursionError
    match value:
        case str():
            return well_formed(value)
        case list():
            return [_clean(item, depth + 1) for item in value]
        case dict():
            return {well_formed(key): _clean(item, depth + 1) for key, item in value.items()}
    return value
