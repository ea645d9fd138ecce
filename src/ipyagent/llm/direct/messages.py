"""Anthropic's messages: the format of Claude, and of services that copied it.

Reference: https://docs.anthropic.com/en/api/messages.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, groupby

from ipyagent.json_arguments import well_formed
from ipyagent.json_types import JsonDict
from ipyagent.llm.client import ModelRequest
from ipyagent.llm.direct.formats import LENGTH, Target
from ipyagent.llm.direct.history import EncodedHistory, join_body
from ipyagent.llm.direct.messages_reader import MessagesReader
from ipyagent.llm.wire import describe_image, is_sent, legal_name
from ipyagent.schema import (
    Block,
    ImageContent,
    Message,
    Role,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultContent,
)

LONGEST = 32_000
"""Tokens of the longest reply where nothing is known: the format insists on a limit."""
SHORT = 4_096
"""The limit for a service that refuses another one."""

_CACHE: JsonDict = {"cache_control": {"type": "ephemeral"}}
_NO_ID = re.compile(r"[^a-zA-Z0-9_-]")


class MessagesFormat:
    """Anthropic's format for one model.

    The service is asked to cache tools and system prompt by a mark on the latter, and the
    conversation by one at the end of the request, where it changes nothing sent before.
    """

    path = "/v1/messages"
    headers: dict[str, str] = {"anthropic-version": "2023-06-01"}  # noqa: RUF012 - a protocol's

    def __init__(self, target: Target) -> None:
        self._target = target
        self._history = EncodedHistory(self._encode_messages, target)

    def encode(self, request: ModelRequest, *, stream: bool, omitted: frozenset[str]) -> bytes:
        """Return the body: first all that stays the same, the messages, then changing settings."""
        system, messages = _split_system(request.messages)
        head: JsonDict = {"model": self._target.name, "stream": stream}
        if request.tools:
            head["tools"] = [
                {"name": t.name, "description": t.description, "input_schema": t.input_schema}
                for t in request.tools
            ]
        if system:
            head["system"] = [{"type": "text", "text": system} | _CACHE]
        tail: JsonDict = {"max_tokens": self._longest(request, omitted)}
        if request.tools and not request.may_call:
            tail["tool_choice"] = {"type": "none"}
        tail |= _CACHE
        items = self._history.join(messages)
        return join_body(head, "messages", items, tail, omitted - {LENGTH})

    def reader(self) -> MessagesReader:
        """Return a reader for the reply."""
        return MessagesReader()

    def _longest(self, request: ModelRequest, omitted: frozenset[str]) -> int:
        if LENGTH in omitted:
            return SHORT
        longest = self._target.longest or LONGEST
        return min(request.max_tokens or longest, longest)

    def _encode_messages(self, messages: Sequence[Message]) -> Iterator[JsonDict]:
        spoken = filter(is_sent, messages)
        for is_answer, turn in groupby(spoken, key=lambda m: m.role is Role.ASSISTANT):
            if is_answer:
                for message in turn:
                    content = [*_answer(message.content, self._target.provider.signs_thinking)]
                    yield {"role": "assistant", "content": content}
            elif content := [*self._user(chain.from_iterable(m.content for m in turn))]:
                yield {"role": "user", "content": content}

    def _user(self, blocks: Iterable[Block]) -> Iterator[JsonDict]:
        """Yield tool results first, as the service demands."""
        blocks = [*blocks]
        vision = self._target.vision
        for block in blocks:
            if isinstance(block, ToolResultContent):
                content = [*_visible(block.content, vision)]
                result: JsonDict = {
                    "type": "tool_result",
                    "tool_use_id": _fit_id(block.tool_use_id),
                }
                result["content"] = content or [{"type": "text", "text": "(no output)"}]
                yield result | ({"is_error": True} if block.is_error else {})
        yield from _visible(blocks, vision)


def _split_system(messages: tuple[Message, ...]) -> tuple[str, tuple[Message, ...]]:
    """Return the text of the system messages at the beginning, and the other messages."""
    count = next((i for i, m in enumerate(messages) if m.role is not Role.SYSTEM), len(messages))
    system = "\n\n".join(well_formed(message.text) for message in messages[:count])
    return system, messages[count:]


def _visible(blocks: Iterable[Block], vision: bool) -> Iterator[JsonDict]:
    """Yield texts and images; the service refuses blank texts."""
    for block in blocks:
        match block:
            case TextContent(text=text) if text.strip():
                yield {"type": "text", "text": well_formed(text)}
            case ImageContent() if vision:
                yield block.to_anthropic()
            case ImageContent():
                yield {"type": "text", "text": describe_image(block, vision=False)}


def _answer(blocks: Iterable[Block], signs_thinking: bool) -> Iterator[JsonDict]:
    """Yield an answer's blocks, with the thinking that the service can verify."""
    for block in blocks:
        match block:
            case ThinkingContent(encrypted_content=data, id="") if data and signs_thinking:
                yield {"type": "redacted_thinking", "data": data}
            case ThinkingContent(thinking=text, signature=signature) if (
                signature and signs_thinking
            ):
                yield {"type": "thinking", "thinking": text, "signature": signature}
            case TextContent(text=text) if text.strip():
                yield {"type": "text", "text": well_formed(text)}
            case ToolCall():
                call = {
                    "id": _fit_id(block.id),
                    "name": legal_name(block.name),
                    "input": block.arguments,
                }
                yield {"type": "tool_use"} | call


def _fit_id(call_id: str) -> str:
    """Return a call's id in the letters that the service accepts, from whichever it came."""
    return _NO_ID.sub("_", call_id)[:64]
