"""Nodes in the layout of nano-agent's files, and back.

What its loader reads is there under its names; what it has no place for stands beside it, and what
has another shape there is added whole, under OWN. Its loader skips both.
"""

from __future__ import annotations

from typing import Any

from pydantic import TypeAdapter

from ipyagent.schema import (
    MAX_TYPED,
    Message,
    Node,
    NodeData,
    OpaqueData,
    Role,
    Stop,
    ToolExecution,
)
from ipyagent.schema.accept import blocks, text_of
from ipyagent.schema.arguments import as_json
from ipyagent.store.lenient import lenient

OWN = "ipyagent"
"""Key of our own record of a node's data."""

AS_LOADED = "ipyagent:as_loaded"
"""Key in a node's metadata: the node as it was in the file, where not all of it is known here."""

EMPTY = "empty_message"
"""The type of data in which a message that says nothing is kept."""

_NODE = TypeAdapter(Node)


def shape_of(node: Node) -> dict[str, Any]:
    """The node as JSON types."""
    as_loaded = node.metadata.get(AS_LOADED)
    if isinstance(as_loaded, dict):
        return as_loaded
    return {
        "id": node.id,
        "parent_ids": list(node.parent_ids),
        "data": _shape(node.data),
        "timestamp": node.timestamp.timestamp(),
        "metadata": node.metadata,
    }


def node_of(shape: dict[str, Any]) -> tuple[Node, list[str]]:
    """The node, and the keys in it that are unknown; raises ValueError.

    Those are kept in its metadata, for the next time that it is saved.
    """
    data = shape.get("data")
    read = {**shape, "data": _data(data, shape)} if isinstance(data, dict) else shape
    node, unknown = lenient(_NODE, read)
    if unknown:
        metadata = {**node.metadata, AS_LOADED: as_json(shape)}
        node = node.model_copy(update={"metadata": metadata})
    return node, unknown


def _shape(data: NodeData) -> dict[str, Any]:
    match data:
        case Message(role=Role.SYSTEM):
            return {"type": "system_prompt", "content": data.text, OWN: data.to_dict()}
        case Message():
            said = data.to_dict()
            return said | {"content": [_block_shape(block) for block in said["content"]]}
        case OpaqueData():
            kept = data.to_dict()
            message = kept.get("message") if kept.get("type") == EMPTY else None
            return message if isinstance(message, dict) else kept
        case ToolExecution():
            return _execution_shape(data)
        case Stop():
            reason = data.finish_reason or data.reason or "unknown"
            usage = data.usage.to_anthropic()
            return {
                "type": "stop_reason",
                "reason": str(reason),
                "usage": usage,
                OWN: data.to_dict(),
            }
    return data.to_dict()


def _block_shape(block: dict[str, Any]) -> dict[str, Any]:
    match block:
        case {"type": "tool_call", "arguments": arguments, **rest}:
            return rest | {"type": "tool_use", "input": arguments}
        case {"type": "image", "media_type": media_type, "data": data, **rest}:
            source = {"type": "base64", "media_type": media_type, "data": data}
            return rest | {"type": "image", "source": source}
        case {"type": "tool_result", "content": content, **rest}:
            return rest | {"type": "tool_result", "content": [_block_shape(b) for b in content]}
    return block


def _execution_shape(execution: ToolExecution) -> dict[str, Any]:
    """The execution; text and images of its result stand outside of our record, and only once."""
    own = execution.to_dict()
    result = own["result"] or {}
    text, images = result.pop("output", ""), result.pop("images", [])
    shown = [{"type": "text", "text": text}] if text else []
    return {
        "type": "tool_execution",
        "tool_name": execution.call.name,
        "tool_use_id": execution.call.id,
        "result": [*shown, *map(_block_shape, images)],
        "is_error": execution.result is not None and not execution.result.success,
        OWN: own,
    }


def _data(data: dict[str, Any], shape: dict[str, Any]) -> dict[str, Any]:
    """The data in a shape that the schema reads."""
    own = data.get(OWN)
    if isinstance(own, dict):
        return _own(own, data)
    if "role" in data and "type" not in data:
        return _message(data, shape)
    return data


def _own(own: dict[str, Any], data: dict[str, Any]) -> dict[str, Any]:
    result = own.get("result")
    if not isinstance(result, dict):
        return own
    said = data.get("result")
    said = said if isinstance(said, list) else []
    images = [block for block in said if text_of(block) is None]
    output = "".join(text_of(block) or "" for block in said)
    return own | {"result": result | {"output": output, "images": images}}


def _message(data: dict[str, Any], shape: dict[str, Any]) -> dict[str, Any]:
    """A message: what nobody could type or say here is kept all the same."""
    content = blocks(data.get("content"))
    texts = [text_of(block) for block in content] if isinstance(content, (list, tuple)) else [None]
    if all(text is not None and not text.strip() for text in texts):
        return {"type": EMPTY, "message": data}
    if "timestamp" in shape:
        data = {"timestamp": shape["timestamp"]} | data
    if sum(len(text or "") for text in texts) > MAX_TYPED and data["role"] == Role.USER:
        data = {"synthetic": True} | data
    return data
