"""Nodes in the layout of nano-agent's files, and back.

Everything that its loader reads has its names. Extra content stands beside it, and content of
another shape is added whole, under OWN. Its loader skips both.
"""

from __future__ import annotations

from typing import Any

from pydantic import TypeAdapter

from ipyagent.compat.messages import block_text, convert_blocks
from ipyagent.json_types import as_json
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
from ipyagent.store.tolerant_loading import load_tolerant

OWN = "ipyagent"
"""The key of our own record of a node's data."""

AS_LOADED = "ipyagent:as_loaded"
"""Key in a node's metadata: the original node of the file, if not all of it is known here."""

EMPTY = "empty_message"
"""The type of data of an empty message."""

_NODE = TypeAdapter(Node)


def shape_of(node: Node) -> dict[str, Any]:
    """Return the node as JSON types."""
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
    """Return the node, and its unknown keys; raises ValueError.

    They are kept in its metadata, for the next time that it is saved.
    """
    data = shape.get("data")
    read = {**shape, "data": _data(data, shape)} if isinstance(data, dict) else shape
    node, unknown = load_tolerant(_NODE, read)
    if unknown:
        metadata = {**node.metadata, AS_LOADED: as_json(shape)}
        node = node.model_copy(update={"metadata": metadata})
    return node, unknown


def _shape(data: NodeData) -> dict[str, Any]:
    match data:
        case Message(role=Role.SYSTEM):
            return {"type": "system_prompt", "content": data.text, OWN: data.to_dict()}
        case Message():
            shape = data.to_dict()
            return shape | {"content": [_block_shape(block) for block in shape["content"]]}
        case OpaqueData():
            content = data.to_dict()
            message = content.get("message") if content.get("type") == EMPTY else None
            return message if isinstance(message, dict) else content
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
    """Return the execution; text and images of its result stand outside of our record, once."""
    own = execution.to_dict()
    result = own["result"] or {}
    text, images = result.pop("output", ""), result.pop("images", [])
    blocks = [{"type": "text", "text": text}] if text else []
    return {
        "type": "tool_execution",
        "tool_name": execution.call.name,
        "tool_use_id": execution.call.id,
        "result": [*blocks, *map(_block_shape, images)],
        "is_error": execution.result is not None and not execution.result.success,
        OWN: own,
    }


def _data(data: dict[str, Any], shape: dict[str, Any]) -> dict[str, Any]:
    """Return the data in the form that the schema reads."""
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
    blocks = data.get("result")
    blocks = blocks if isinstance(blocks, list) else []
    images = [block for block in blocks if block_text(block) is None]
    output = "".join(block_text(block) or "" for block in blocks)
    return own | {"result": result | {"output": output, "images": images}}


def _message(data: dict[str, Any], shape: dict[str, Any]) -> dict[str, Any]:
    """Return a message, kept even if it would not be valid as new input here."""
    content = convert_blocks(data.get("content"))
    texts = (
        [block_text(block) for block in content] if isinstance(content, (list, tuple)) else [None]
    )
    if all(text is not None and not text.strip() for text in texts):
        return {"type": EMPTY, "message": data}
    if "timestamp" in shape:
        data = {"timestamp": shape["timestamp"]} | data
    if sum(len(text or "") for text in texts) > MAX_TYPED and data["role"] == Role.USER:
        data = {"synthetic": True} | data
    return data
