"""Other formats of what is said, turned into ours before it is checked.

OpenAI's chat format, Anthropic's, and plain text as content. Each function takes whatever a class
was given and returns what its fields are checked against; what it doesn't know it leaves as it is,
so that the check says what is wrong with it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ipyagent.json_types import JsonDict
from ipyagent.schema.arguments import parse_arguments

_DATA_URL = re.compile(r"data:(image/[\w.+-]+);base64,(.*)", re.DOTALL)
_ARGUMENTS = ("arguments", "input", "args", "parameters")
_BESIDE_CONTENT = {"tool_calls", "tool_call_id", "name", "thinking", "thinking_blocks"}


def listed(value: object, what: str) -> list[Any]:
    """The value as a list, None as an empty one; raises ValueError for anything else."""
    if value is None:
        return []
    if not isinstance(value, (list, tuple)):
        raise ValueError(f"{what} must be a list, not a {type(value).__name__}")
    return list(value)


def blocks(value: object) -> Any:
    """Content as blocks: a text is one block, and so is each text in a list."""
    if value is None or value == "":
        return ()
    if isinstance(value, str):
        return ({"type": "text", "text": value},)
    if isinstance(value, (list, tuple)):
        return [{"type": "text", "text": b} if isinstance(b, str) else b for b in value]
    return value


def holds_image(block: Mapping[str, object]) -> bool:
    """Whether the block carries its image, rather than an address of it."""
    match block:
        case {"type": "image_url", "image_url": {"url": str(url)} | str(url)}:
            return _DATA_URL.fullmatch(url) is not None
        case {"type": "image", "source": source}:
            return isinstance(source, Mapping) and source.get("type") == "base64"
    return block.get("type") == "image"


def image(data: object) -> Any:
    """Anthropic's image source and OpenAI's data URL."""
    match data:
        case {"source": {"type": "base64", "media_type": media_type, "data": base64}, **rest}:
            return rest | {"media_type": media_type, "data": base64}
        case {"type": "image_url", "image_url": {"url": str(url)} | str(url), **rest}:
            if found := _DATA_URL.fullmatch(url):
                return rest | {"type": "image", "media_type": found[1], "data": found[2]}
    return data


def thinking(data: object) -> Any:
    """OpenAI's reasoning, and thinking that Anthropic shows to nobody."""
    match data:
        case {"type": "reasoning", **rest}:
            return rest | {"type": "thinking"}
        case {"type": "redacted_thinking", "data": hidden, **rest}:
            return rest | {"type": "thinking", "encrypted_content": hidden}
    return data


def call(data: object) -> Any:
    """A call as OpenAI nests it, as Anthropic names it, with arguments as JSON text."""
    if not isinstance(data, Mapping):
        return data
    data = dict(data)
    if data.get("type") in ("tool_use", "function"):
        data["type"] = "tool_call"
    if isinstance(data.get("function"), Mapping):
        data |= data.pop("function")
    for key in _ARGUMENTS:
        if key in data and data[key] is None:
            del data[key]
        elif isinstance(data.get(key), str):
            data[key], problem = parse_arguments(data[key])
            data["parse_error"] = data.get("parse_error") or problem
    return data


def message(data: object) -> Any:
    """A message whose content, thinking, calls and results are not yet blocks."""
    if not isinstance(data, Mapping):
        return data
    content, role = data.get("content"), data.get("role")
    if isinstance(content, str) and role == "user" and not data.get("synthetic"):
        content = content.strip()  # what a person typed
    content = blocks(content)
    data = dict(data) | {"content": content}
    if not _BESIDE_CONTENT & data.keys() and role != "tool":
        return data
    thought, calls = _thinking_beside(data), listed(data.pop("tool_calls", None), "tool_calls")
    if role == "tool":
        data.pop("name", None)
        result = {"tool_use_id": data.pop("tool_call_id", None), "content": content}
        data["role"], content = "user", [{"type": "tool_result", **result}]
    for key in ("tool_call_id", "name"):
        if data.get(key) is None:
            data.pop(key, None)
    called = (_called(each, f"call_{n}") for n, each in enumerate(calls, start=1))
    data["content"] = [*thought, *listed(content, "content"), *called]
    return data


def _thinking_beside(data: JsonDict) -> list[Any]:
    """Takes thinking that stands beside the content out of the message."""
    found = listed(data.pop("thinking_blocks", None), "thinking_blocks")
    if thought := data.pop("thinking", None):
        found.append({"type": "thinking", "thinking": thought})
    return found


def _called(each: object, otherwise: str) -> Any:
    """A call beside the content; of one that was carried out, what was asked for."""
    if not isinstance(each, Mapping):
        return getattr(each, "call", each)
    if isinstance(each.get("call"), Mapping):
        return {"type": "tool_call", **each["call"]}
    if "tool_name" not in each:
        return {"type": "tool_call", "id": otherwise, **each}
    return {
        "type": "tool_call",
        "id": each.get("tool_use_id") or each.get("id") or otherwise,
        "name": each["tool_name"],
        "arguments": each.get("parameters", each.get("args")),
    }


def response(data: object) -> Any:
    """A reply whose parts are not yet a message: OpenAI's and Anthropic's way."""
    if not isinstance(data, Mapping):
        return data
    data = dict(data)
    if data.get("usage", ...) is None:
        del data["usage"]
    if "message" in data:
        return data
    if data.get("type") == "message":
        del data["type"]
    if (role := data.pop("role", "assistant")) != "assistant":
        raise ValueError(f"a reply is the assistant's, not the {role}'s")
    parts = ("content", "thinking", "thinking_blocks", "tool_calls")
    said = {key: data.pop(key) for key in parts if key in data}
    if any(map(_says_something, said.values())):
        data["message"] = {"role": role, **said}
    return data


def _says_something(part: object) -> bool:
    if isinstance(part, str):
        return bool(part.strip())
    if not isinstance(part, (list, tuple)):
        return part is not None
    return any(text is None or text.strip() for text in map(text_of, part))


def text_of(block: object) -> str | None:
    """The text of a block of text in any shape; None for other blocks."""
    match block:
        case str():
            return block
        case {"type": "text", "text": str(text)}:
            return text
    return getattr(block, "text", None) if getattr(block, "type", None) == "text" else None


def definition(data: object) -> Any:
    """A tool as OpenAI is told of it."""
    match data:
        case {"type": "function", "function": {**function}, **rest}:
            return rest | function
        case {"type": "function", **rest}:
            return rest
    return data
