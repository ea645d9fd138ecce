"""Small flaws in what a server says, for which the SDK would refuse the whole of it."""

from __future__ import annotations

import json
from typing import Any

from mcp_types.methods import validate_server_result
from pydantic import ValidationError

from ipyagent.json_types import JsonDict

VERSION = "2025-11-25"
"""By whose rules a single tool or block is judged."""


def mend_result(result: JsonDict) -> None:
    """Give the result of a call the form that it should have: the call has been done."""
    for key in [key for key, value in result.items() if value is None]:
        del result[key]
    if "content" not in result and "structuredContent" not in result:
        return
    content = result.get("content", [])
    blocks = content if isinstance(content, list) else [content]
    if not isinstance(result.get("structuredContent", {}), dict):
        blocks = blocks or [result["structuredContent"]]
        del result["structuredContent"]
    result["content"] = [_mended_block(each) for each in blocks]


def mended_tool(tool: object) -> Any:
    """A tool as a server describes it, whose schema is one of an object if it says nothing else."""
    if not isinstance(tool, dict):
        return tool
    tool = _without_nulls(tool)
    if isinstance(schema := tool.get("inputSchema"), dict):
        tool["inputSchema"] = {"type": "object", **_without_nulls(schema)}
    return tool


def _mended_block(block: object) -> Any:
    """The block; one of no known kind becomes text."""
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


def _without_nulls(given: JsonDict) -> JsonDict:
    return {key: value for key, value in given.items() if value is not None}
