"""The rules for conversations that services check in every request, and refuse it for.

They are those of public error reports: what stands in quotes here is what a service answers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

Json = dict[str, Any]
NAMES = re.compile(r"[a-zA-Z_][a-zA-Z0-9_-]{0,63}")


def broken_rules(body: Json, service: str) -> list[str]:
    """Return what the service would refuse of a request."""
    json.dumps(body, ensure_ascii=False).encode()  # no lone surrogates
    if "input" in body:
        return [*_responses(body["input"])]
    if "max_tokens" in body and "system" in body:
        return [*_messages(body["messages"])]
    return [*_chat(body["messages"], service)]


def _messages(messages: list[Json]) -> Iterator[str]:
    if messages[0]["role"] != "user":
        yield "first message must use the user role"
    if messages[-1]["role"] != "user":
        yield "does not support assistant message prefill"
    seen: set[str] = set()
    open_: list[str] = []
    for message in messages:
        blocks = message["content"]
        kinds = [each["type"] for each in blocks]
        if not blocks:
            yield "all messages must have non-empty content"
        if any(not each["text"].strip() for each in blocks if each["type"] == "text"):
            yield "text content blocks must contain non-whitespace text"
        results = [each["tool_use_id"] for each in blocks if each["type"] == "tool_result"]
        if sorted(results) != sorted(open_):
            yield "`tool_use` ids were found without `tool_result` blocks immediately after"
        if results and "tool_result" in kinds[len(results) :]:
            yield "tool_result blocks must come first"
        open_ = [each["id"] for each in blocks if each["type"] == "tool_use"]
        for each in blocks:
            if each["type"] == "tool_use":
                yield from _call(each["id"], each["name"], each["input"], "[a-zA-Z0-9_-]{1,64}")
                if each["id"] in seen:
                    yield "`tool_use` ids must be unique"
                seen.add(each["id"])
            if each["type"] == "thinking" and not each["signature"]:
                yield "signature: Field required"


def _chat(messages: list[Json], service: str) -> Iterator[str]:
    ids = {"mistral": "[a-zA-Z0-9]{9}", "openai": ".{1,40}"}.get(service, ".+")
    waiting: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            if message["tool_call_id"] not in waiting:
                yield "messages with role 'tool' must be a response to a preceding message"
            else:
                waiting.remove(message["tool_call_id"])
            if not message["content"].strip():
                yield "an empty result"
            continue
        if waiting:
            yield "an assistant message with 'tool_calls' must be followed by tool messages"
        calls = message.get("tool_calls", [])
        waiting = [call["id"] for call in calls]
        for call in calls:
            function = call["function"]
            yield from _call(call["id"], function["name"], json.loads(function["arguments"]), ids)
        if len({*waiting}) < len(waiting):
            yield "Duplicate value for 'tool_call_id'"
        if not message.get("content") and not calls:
            yield "Assistant message must have either content or tool_calls, but not none"
        if "thinking_blocks" in message:
            yield "Extra inputs are not permitted: thinking_blocks"
    for before, after in pairwise(message["role"] for message in messages):
        if before == after == "user" or (service == "mistral" and (before, after) == TURNS):
            yield f"Unexpected role '{after}' after role '{before}'"
    if messages[-1]["role"] not in ("user", "tool"):
        yield "Expected last role User or Tool for serving but got assistant"


TURNS = ("tool", "user")


def _responses(items: list[Json]) -> Iterator[str]:
    waiting: list[str] = []
    for item, after in pairwise([*items, {}]):
        kind = item.get("type", "message")
        if kind == "function_call":
            yield from _call(
                item["call_id"], item["name"], json.loads(item["arguments"]), ".{1,64}"
            )
            waiting.append(item["call_id"])
        elif kind == "function_call_output":
            if item["call_id"] not in waiting:
                yield "No tool call found for function call output"
            else:
                waiting.remove(item["call_id"])
        elif kind == "reasoning":
            is_followed = after.get("role") == "assistant" or after.get("type") in FOLLOWS
            if not is_followed:
                yield "Item of type 'reasoning' was provided without its required following item"
        elif not item["content"]:
            yield "empty content"
    if waiting:
        yield "No tool output found for function call"


FOLLOWS = ("reasoning", "function_call")


def _call(id_: str, name: str, arguments: object, ids: str) -> Iterator[str]:
    if not re.fullmatch(ids, id_):
        yield f"Tool call id was {id_!r} but must match {ids}"
    if not NAMES.fullmatch(name):
        yield f"tool name {name!r} should match pattern"
    if not isinstance(arguments, dict):
        yield "arguments: Input should be a valid dictionary"
