"""Repair small flaws in a server's messages: the SDK would refuse the whole message."""

from __future__ import annotations

import json
from typing import Any

from mcp_types.methods import validate_server_result
from pydantic import ValidationError

from ipyagent.json_types import JsonDict

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
    """Return a tool's description with a schema of type object if it gives none."""
    if not isinstance(tool, dict):
        return tool
    tool = _without_nulls(tool)
    if isinstance(schema := tool.get("inputSchema"), dict):
        tool["inputSchema"] = {"type": "object", **_without_nulls(schema)}
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
