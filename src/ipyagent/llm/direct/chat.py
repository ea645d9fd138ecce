"""OpenAI's chat completions: the format of most services and of all local servers.

Reference: https://platform.openai.com/docs/api-reference/chat.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from ipyagent.json_types import JsonDict
from ipyagent.llm.client import ModelRequest
from ipyagent.llm.direct.chat_reader import ChatReader
from ipyagent.llm.direct.formats import LENGTH, Target, object_of
from ipyagent.llm.direct.gemini_tools import tools_to_gemini
from ipyagent.llm.direct.history import EncodedHistory, join_body
from ipyagent.llm.wire import is_sent, to_openai, tools_to_openai
from ipyagent.schema import Message, Role

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
