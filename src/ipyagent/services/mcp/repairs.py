"""Repair small flaws in a server's messages: the SDK would refuse the whole message."""

from __future__ import annotations

import json
from typing import Any

from mcp_types.methods import validate_server_result
from pydantic import ValidationError

from ipyagent.json_types import JsonDict
from ipyagent.tools.json_schemas import clean

_TOP = ("type", "properties", "required")

VERSION = "2025-11-25"
"""The protocol version by which a single tool or block is validated."""


def repair_result(result: JsonDict) -> None:
    """Repair the result of a call in place: the call has already been carried out."""
    for key in [key for key, value in result.items() if value is None]:
        del result[key]
    if "content" not in result and "structuredContent" not in result:
        return
    content = result.get("content", [])
    blocks = content if isinstance(content, list) else [content]
    if not isinstance(result.get("structuredContent", {}), dict):
        blocks = blocks or [result["structuredContent"]]
        del result["structuredContent"]
    result["content"] = [_repair_block(each) for each in blocks]


def repair_tool(tool: object) -> Any:
    """Return a tool's description, the top of its schema as the protocol insists on it."""
    if not isinstance(tool, dict):
        return tool
    tool = _without_nulls(tool)
    schema = tool.get("inputSchema")
    if schema is True:
        schema = {"additionalProperties": True}
    if isinstance(schema, dict):
        top = {key: each for key, each in clean(schema).items() if key in _TOP}
        if "object" in top.get("type", ()):
            top["type"] = "object"
        others = {k: v for k, v in schema.items() if k not in _TOP and k != "$schema"}
        tool["inputSchema"] = {"type": "object", **_without_nulls(others), **top}
    return tool


def _repair_block(block: object) -> Any:
    """Return the block; one of an unknown type becomes text."""
    if isinstance(block, dict):
        block = _without_nulls(block)
        try:
            validate_server_result("tools/call", VERSION, {"content": [block]})
        except ValidationError:
            pass
        else:
            return block
    text = block if isinstance(block, str) else json.dumps(block, ensure_ascii=False)
    return {"type": "text", "text": text}


def _without_nulls(values: JsonDict) -> JsonDict:
    return {key: value for key, value in values.items() if value is not None}
