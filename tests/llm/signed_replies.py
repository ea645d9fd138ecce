"""Replies that hold what their maker signed or encrypted, and replies of words."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from asking import EVENTS

from servers.model_server import Reply, delta, sse, stream

USAGE = {"input_tokens": 5, "output_tokens": 5}


def signed_answer(signature: str) -> Reply:
    """A reply in Anthropic's format: a signed thought, a hidden one, and a call."""
    blocks: list[dict[str, Any]] = [
        {"type": "thinking", "thinking": "hm", "signature": signature},
        {"type": "redacted_thinking", "data": signature},
        {"type": "tool_use", "id": f"toolu_{signature}", "name": "list_files", "input": {}},
    ]
    body = {"role": "assistant", "content": blocks, "stop_reason": "tool_use", "usage": USAGE}
    return Reply((json.dumps(body).encode(),), headers={"Content-Type": "application/json"})


def spoken_answer(text: str) -> Reply:
    """A reply of words in Anthropic's format."""
    body = {
        "role": "assistant",
        "content": [{"type": "text", "text": text}],
        "stop_reason": "end_turn",
        "usage": USAGE,
    }
    return Reply((json.dumps(body).encode(),), headers={"Content-Type": "application/json"})


def encrypted_answer(secret: str) -> Reply:
    """A reply in the format of OpenAI's Responses: an encrypted thought and a call."""
    thought = {"type": "reasoning", "id": f"rs_{secret}", "encrypted_content": secret}
    call = {"type": "function_call", "call_id": f"call_{secret}", "name": "list_files"}
    events: list[dict[str, Any]] = [
        {"type": "response.output_item.done", "output_index": 0, "item": thought},
        {"type": "response.output_item.added", "output_index": 1, "item": call},
        {
            "type": "response.output_item.done",
            "output_index": 1,
            "item": call | {"arguments": "{}"},
        },
        {"type": "response.completed", "response": {"status": "completed", "usage": USAGE}},
    ]
    return Reply(tuple(map(sse, events)), headers=EVENTS)


def worded_answer(text: str) -> Reply:
    """A reply of words in the format of OpenAI's Responses."""
    events = [
        {"type": "response.output_text.delta", "output_index": 0, "delta": text},
        {"type": "response.completed", "response": {"status": "completed", "usage": USAGE}},
    ]
    return Reply(tuple(map(sse, events)), headers=EVENTS)


def google_form(signature: str) -> dict[str, Any]:
    """The field of a call that holds Google's signature."""
    return {"extra_content": {"google": {"thought_signature": signature}}}


def signed_call(signature: str, form: Callable[[str], dict[str, Any]] = google_form) -> Reply:
    """A reply in Gemini's form of the chat format: a call with a signature."""
    call = {
        "index": 0,
        "id": f"call_{signature}",
        "type": "function",
        "function": {"name": "list_files", "arguments": "{}"},
        **form(signature),
    }
    return stream(delta(tool_calls=[call]), delta(finish_reason="tool_calls"), "[DONE]")
