"""OpenAI's chat completions: the format of most services and of all local servers.

Reference: https://platform.openai.com/docs/api-reference/chat.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

from ipyagent.json_types import JsonDict
from ipyagent.llm.client import ModelRequest
from ipyagent.llm.direct.chat_reader import ChatReader
from ipyagent.llm.direct.formats import LENGTH, Target, object_of
from ipyagent.llm.direct.history import EncodedHistory, join_body
from ipyagent.llm.wire import is_sent, to_openai, tools_to_openai
from ipyagent.phrases import ellipsize
from ipyagent.schema import Message, Role, ToolDefinition

_NO_THOUGHT = " "
"""Stands for the thought of a call that had none, where services want one and not an empty one."""


_CHECKS_CALLS = re.compile(r"gemini-([3-9]|\d\d)")
_UNSIGNED = "skip_thought_signature_validator"
"""Stands for the signature of a call that another model made, where the first call of an answer
must have one. Source: https://ai.google.dev/gemini-api/docs/thought-signatures."""


class ChatFormat:
    """OpenAI's chat format for one model, with its provider's deviations."""

    path = "/chat/completions"
    headers: dict[str, str] = {}  # noqa: RUF012 - a protocol's attribute

    def __init__(self, target: Target) -> None:
        self._target = target
        self._history = EncodedHistory(self._encode_messages, target)

    def encode(self, request: ModelRequest, *, stream: bool, omitted: frozenset[str]) -> bytes:
        """Return the body: first all that stays the same, the messages, then changing settings."""
        provider = self._target.provider
        head: JsonDict = {"model": self._target.name, "stream": stream}
        if stream and provider.stream_options:
            head["stream_options"] = {"include_usage": True}
        if request.tools:
            is_gemini = "gemini" in self._target.name
            head["tools"] = (tools_to_gemini if is_gemini else tools_to_openai)(request.tools)
        tail: JsonDict = {}
        if request.tools and not request.may_call and provider.tool_choice:
            tail["tool_choice"] = "none"
        if request.max_tokens is not None and LENGTH not in omitted:
            tail[provider.length] = self._target.limit(request.max_tokens)
        items = self._history.join(request.messages)
        return join_body(head, "messages", items, tail, omitted)

    def reader(self) -> ChatReader:
        """Return a reader for the reply."""
        return ChatReader()

    def _encode_messages(self, messages: Sequence[Message]) -> list[JsonDict]:
        wired = to_openai(messages, vision=self._target.vision)
        thoughts = iter(_thoughts(messages))
        for message in wired:
            if message["role"] == "assistant":
                self._adapt_answer(message, next(thoughts))
            elif message["role"] == "tool":
                message["tool_call_id"] = self._target.fit_id(message["tool_call_id"])
        return wired

    def _adapt_answer(self, message: dict[str, Any], thought: str) -> None:
        """Bring an answer into the provider's form: foreign signatures would be refused."""
        provider = self._target.provider
        if not provider.signs_thinking:
            blocks = message.pop("thinking_blocks", ())
            if provider.details and (details := [*filter(None, map(_detail, blocks))]):
                message["reasoning_details"] = details
        wants_thinking = provider.wants_thinking and "tool_calls" in message
        if wants_thinking or self._target.all_thoughts:
            message["reasoning_content"] = thought or _NO_THOUGHT
        signatures = [
            call.pop("provider_specific_fields", None) for call in message.get("tool_calls", ())
        ]
        if signatures and not any(signatures) and _CHECKS_CALLS.match(self._target.name):
            signatures[0] = {"thought_signature": _UNSIGNED}
        for call, signed in zip(message.get("tool_calls", ()), signatures, strict=True):
            call["id"] = self._target.fit_id(call["id"])
            if signed and provider.signs_calls:
                call["extra_content"] = {"google": signed}


def _detail(block: JsonDict) -> JsonDict:
    """Return a part of `reasoning_details` as it came; {} for what is none."""
    try:
        detail = object_of(json.loads(block.get("signature") or block["data"]))
    except ValueError:
        return {}
    return detail | ({"text": block["thinking"]} if block.get("thinking") else {})


def _thoughts(messages: Sequence[Message]) -> list[str]:
    """Return the thinking of each answer that is sent."""
    return [
        message.thinking
        for message in messages
        if message.role is Role.ASSISTANT and is_sent(message)
    ]


_FORMATS = ("date-time", "enum")
_BELONGS = {"properties": "object", "required": "object", "items": "array"}
_LONGEST = 500


def tools_to_gemini(definitions: Iterable[ToolDefinition]) -> list[JsonDict]:
    """Return the tools in OpenAI's function format, their schemas in Gemini's.

    For one schema of another form Gemini refuses every request. What is left out stands in the
    description, and calls are checked by the whole schema. Reference:
    https://ai.google.dev/api/caching#Schema.
    """
    tools = tools_to_openai(definitions)
    for tool in tools:
        tool["function"]["parameters"] = _convert(tool["function"]["parameters"])
    return tools


def _convert(schema: JsonDict) -> JsonDict:
    """Return a schema of one type, with the keywords of that type; only texts are enumerated."""
    new = {key: _convert_inside(key, value) for key, value in schema.items()}
    given, values = new.pop("type", []), new.pop("enum", [])
    kinds = [each for each in ([given] if isinstance(given, str) else given) if each != "null"]
    texts = [each for each in values if isinstance(each, str) and each]
    if not given:
        kinds = [kind for key, kind in _BELONGS.items() if key in new][:1]
        kinds = kinds or ["string"] * bool(texts and len(texts) == len(values))
    kind = kinds[0] if len(kinds) == 1 else ""
    new = {key: value for key, value in new.items() if _BELONGS.get(key, kind) == kind}
    if len(kinds) > 1 and "anyOf" not in new:
        new["anyOf"] = [_convert({**schema, "type": each, "description": ""}) for each in kinds]
    elif kind or given:
        new["type"] = kind or "null"
    words = [new.pop("description", "")]
    if texts and kind == "string":
        new["enum"] = texts
    if values != new.get("enum", []):
        words.append(f"(one of: {ellipsize(json.dumps(values)[1:-1], _LONGEST)})")
    if kind == "string" and new.get("format", "enum") not in _FORMATS:
        words.append(f"(format: {new.pop('format')})")
    return new | ({"description": text} if (text := " ".join(filter(None, words))) else {})


def _convert_inside(key: str, value: Any) -> Any:
    if key == "properties" and isinstance(value, dict):
        return {name: _convert(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_convert(each) if isinstance(each, dict) else each for each in value]
    return _convert(value) if isinstance(value, dict) and key != "default" else value
