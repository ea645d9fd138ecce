"""OpenAI's Responses: the format that its newer models insist on when they get tools.

Reference: https://platform.openai.com/docs/api-reference/responses. Nothing is stored at the
service: the reasoning comes encrypted and is sent back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, groupby
from typing import Any

from ipyagent.json_arguments import well_formed
from ipyagent.json_types import JsonDict
from ipyagent.llm.client import ModelRequest
from ipyagent.llm.direct.formats import LENGTH, Target
from ipyagent.llm.direct.history import EncodedHistory, join_body
from ipyagent.llm.direct.responses_reader import ResponsesReader
from ipyagent.llm.wire import is_sent, legal_name, to_openai, tools_to_openai
from ipyagent.schema import (
    Block,
    Message,
    Role,
    TextContent,
    ThinkingContent,
    ToolCall,
)


class ResponsesFormat:
    """OpenAI's Responses format for one model."""

    path = "/responses"
    headers: dict[str, str] = {}  # noqa: RUF012 - a protocol's attribute

    def __init__(self, target: Target) -> None:
        self._target = target
        self._history = EncodedHistory(self._encode_messages, target)

    def encode(self, request: ModelRequest, *, stream: bool, omitted: frozenset[str]) -> bytes:
        """Return the body: first all that stays the same, the messages, then changing settings."""
        head: JsonDict = {"model": self._target.name, "stream": stream, "store": False}
        head["include"] = ["reasoning.encrypted_content"]
        if request.tools:
            functions = (tool["function"] for tool in tools_to_openai(request.tools))
            head["tools"] = [{"type": "function", "strict": False} | each for each in functions]
        tail: JsonDict = {}
        if request.tools and not request.may_call:
            tail["tool_choice"] = "none"
        if request.max_tokens is not None and LENGTH not in omitted:
            tail["max_output_tokens"] = self._target.limit(request.max_tokens)
        return join_body(head, "input", self._history.join(request.messages), tail, omitted)

    def reader(self) -> ResponsesReader:
        """Return a reader for the reply."""
        return ResponsesReader()

    def _encode_messages(self, messages: Sequence[Message]) -> Iterator[JsonDict]:
        spoken = filter(is_sent, messages)
        for is_answer, turn in groupby(spoken, key=lambda m: m.role is Role.ASSISTANT):
            if is_answer:
                blocks = chain.from_iterable(message.content for message in turn)
                yield from _answer(blocks, self._target)
            else:
                for message in to_openai(turn, vision=self._target.vision):
                    yield _input(message, self._target)


def _input(message: dict[str, Any], target: Target) -> JsonDict:
    """Return an input item for a system, user or tool message of the chat format."""
    if message["role"] == "tool":
        call_id = target.fit_id(message["tool_call_id"])
        output = {"call_id": call_id, "output": message["content"]}
        return {"type": "function_call_output"} | output
    content = message["content"]
    if not isinstance(content, str):
        content = [
            {"type": "input_text", "text": part["text"]}
            if part["type"] == "text"
            else {"type": "input_image", "image_url": part["image_url"]["url"]}
            for part in content
        ]
    return {"role": message["role"], "content": content}


def _answer(blocks: Iterable[Block], target: Target) -> Iterator[JsonDict]:
    """Yield an answer's items, with the reasoning that this service encrypted."""
    for block in blocks:
        match block:
            case ThinkingContent(encrypted_content=data, id=item) if data and item:
                yield {"type": "reasoning", "id": item, "summary": [], "encrypted_content": data}
            case TextContent(text=text) if text.strip():
                yield {"role": "assistant", "content": well_formed(text)}
            case ToolCall():
                wired = block.to_openai()["function"] | {"name": legal_name(block.name)}
                yield {"type": "function_call", "call_id": target.fit_id(block.id)} | wired
