"""What goes back to Anthropic's format is what came: every block, in its order."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from asking import EVENTS, ask, client_of

from ipyagent.llm.client import ModelRequest
from ipyagent.schema import Message, Role, ToolResultContent
from servers.model_server import ModelServer, Reply, anthropic_answer, sse

THOUGHT: dict[str, Any] = {"type": "thinking", "thinking": "Hm, {}.", "signature": "SIG{}"}
SILENT: dict[str, Any] = {"type": "thinking", "thinking": "", "signature": "SIG{}"}
HIDDEN: dict[str, Any] = {"type": "redacted_thinking", "data": "DATA{}"}
TEXT: dict[str, Any] = {"type": "text", "text": "Text {}."}
USE: dict[str, Any] = {"type": "tool_use", "id": "call{}", "name": "list_files", "input": {}}
KINDS = (THOUGHT, SILENT, HIDDEN, TEXT, USE)

STARTS = {"thinking": {"thinking": "", "signature": ""}, "text": {"text": ""}}


def number(block: dict[str, Any], index: int) -> dict[str, Any]:
    """The block with its number in each of its texts."""
    return {
        name: value.format(index) if isinstance(value, str) else value
        for name, value in block.items()
    }


def stream(blocks: list[dict[str, Any]]) -> Reply:
    """The reply of these blocks as it streams: each begins empty and comes in pieces."""
    events: list[dict[str, Any]] = [{"type": "message_start", "message": {"usage": {}}}]
    for index, block in enumerate(blocks):
        at = {"index": index}
        begun = block | STARTS.get(block["type"], {})
        events.append({"type": "content_block_start", "content_block": begun} | at)
        for name in ("thinking", "text", "signature"):
            for piece in split(block.get(name, "")):
                delta = {"type": f"{name}_delta", name: piece}
                events.append({"type": "content_block_delta", "delta": delta} | at)
        events.append({"type": "content_block_stop"} | at)
    events.append({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {}})
    return Reply((*map(sse, events), sse({"type": "message_stop"})), headers=EVENTS)


def split(text: str) -> list[str]:
    return [text[:3], text[3:]] if len(text) > 3 else [text] if text else []


def whole(blocks: list[dict[str, Any]]) -> Reply:
    body = {"role": "assistant", "content": blocks, "stop_reason": "end_turn", "usage": {}}
    return Reply((json.dumps(body).encode(),), headers={"Content-Type": "application/json"})


async def send_back(blocks: list[dict[str, Any]], request: ModelRequest, *, streams: bool) -> Any:
    """What the service is sent of its own reply in the next request."""
    with ModelServer([(stream if streams else whole)(blocks), anthropic_answer("ok")]) as server:
        client = client_of(server, "anthropic/claude-sonnet-4-5", stream=streams)
        message = (await ask(client, request)).message()
        results = tuple(
            ToolResultContent(tool_use_id=call.id, content=()) for call in message.tool_calls
        )
        then = Message(role=Role.USER, content=results) if results else Message.of(Role.USER, "?")
        await ask(client, replace(request, messages=(*request.messages, message, then)))
        (said,) = [m for m in server.requests[1].body["messages"] if m["role"] == "assistant"][-1:]
        return said["content"]


@pytest.mark.parametrize("streams", [True, False])
async def test_any_blocks_come_back_as_they_were(streams: bool, request_: ModelRequest) -> None:
    request = replace(request_, messages=request_.messages[:2])
    wrong = []
    for kinds in [*product(KINDS, repeat=2), (THOUGHT, TEXT, THOUGHT, USE), (USE, HIDDEN) * 3]:
        blocks = [number(block, index) for index, block in enumerate(kinds)]
        if all(block["type"] in ("thinking", "redacted_thinking") for block in blocks):
            continue  # an answer of thoughts alone is not sent
        back = await send_back(blocks, request, streams=streams)
        expected = [*merge_texts(blocks)]
        if back != expected:
            wrong.append((blocks, back))
    assert wrong == []


def merge_texts(blocks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The blocks, with texts that follow each other as one."""
    merged: list[dict[str, Any]] = []
    for block in blocks:
        if merged and block["type"] == merged[-1]["type"] == "text":
            merged[-1] = merged[-1] | {"text": merged[-1]["text"] + block["text"]}
        else:
            merged.append(block)
    return merged
