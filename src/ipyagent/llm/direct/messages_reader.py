"""Replies in Anthropic's format."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from ipyagent.json_arguments import well_formed
from ipyagent.json_types import JsonDict
from ipyagent.llm.direct.formats import object_of, objects_of, text_of
from ipyagent.llm.direct.history import dump
from ipyagent.llm.service_error import ServiceError
from ipyagent.llm.surrogates import Joiner
from ipyagent.llm.tokens import count_tokens
from ipyagent.schema import StreamChunk, TokenUsage

FINISHES = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content_filter",
}
"""Reasons to end a reply, in OpenAI's words."""

_STATUSES = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "overloaded_error": 529,
}
"""The status that an error in the midst of a stream would have had as an answer."""

_COUNTS = (
    "input_tokens",
    "output_tokens",
    "cache_read_input_tokens",
    "cache_creation_input_tokens",
)


class MessagesReader:
    """Reads one reply in Anthropic's format."""

    def __init__(self) -> None:
        self.usage: TokenUsage | None = None
        self.is_finished = False
        self.is_over = False
        self._counts: dict[str, int] = {}
        self._join = Joiner()

    def read(self, event: JsonDict) -> Iterator[StreamChunk]:
        """Yield the chunks of an event."""
        match event.get("type"):
            case "content_block_delta":
                yield from self._read_delta(object_of(event.get("delta")), _index(event))
            case "content_block_start":
                yield from self._read_block(object_of(event.get("content_block")), _index(event))
            case "message_start":
                self._count(object_of(event.get("message")).get("usage"))
            case "message_delta":
                self._count(event.get("usage"))
                yield from self._finish(object_of(event.get("delta")).get("stop_reason"))
            case "message_stop":
                self.is_over = True
            case "error":
                fault = object_of(event.get("error"))
                status = _STATUSES.get(text_of(fault.get("type")), 0)
                raise ServiceError.in_stream(fault or "an error without words", status)
            case _ if error := event.get("error"):
                raise ServiceError.in_stream(error)

    def read_whole(self, body: JsonDict) -> Iterator[StreamChunk] | None:
        """Return the chunks of a reply that came in one piece."""
        if body.get("type") == "error":
            return self.read(body)
        is_reply = body.get("role") == "assistant" and isinstance(body.get("content"), list)
        return self._read_message(body) if is_reply else None

    def end(self) -> Iterator[StreamChunk]:
        """Yield nothing: this format holds nothing back."""
        yield from ()

    def _read_message(self, body: JsonDict) -> Iterator[StreamChunk]:
        for index, block in enumerate(objects_of(body.get("content"))):
            yield from self._read_block(block, index)
            if signature := text_of(block.get("signature")):
                yield StreamChunk(type="signature", data=signature, index=index)
        self._count(body.get("usage"))
        yield from self._finish(body.get("stop_reason"))

    def _read_block(self, block: JsonDict, index: int) -> Iterator[StreamChunk]:
        """Yield the chunks of a block, as far as it came with its beginning."""
        match block.get("type"):
            case "text":
                yield from self._text("content", text_of(block.get("text")), index)
            case "thinking":
                yield from self._text("thinking", text_of(block.get("thinking")), index)
            case "redacted_thinking":
                data = text_of(block.get("data"))
                yield StreamChunk(type="signature", data=data, name="encrypted", index=index)
            case "tool_use":
                given = object_of(block.get("input"))
                yield StreamChunk(
                    type="tool_call",
                    data=dump(given).decode() if given else "",
                    index=index,
                    id=well_formed(text_of(block.get("id"))),
                    name=well_formed(text_of(block.get("name"))),
                )

    def _read_delta(self, delta: JsonDict, index: int) -> Iterator[StreamChunk]:
        match delta.get("type"):
            case "text_delta":
                yield from self._text("content", text_of(delta.get("text")), index)
            case "thinking_delta":
                yield from self._text("thinking", text_of(delta.get("thinking")), index)
            case "signature_delta":
                signature = text_of(delta.get("signature"))
                yield StreamChunk(type="signature", data=signature, index=index)
            case "input_json_delta":
                text = self._join(("call", index), text_of(delta.get("partial_json")))
                yield StreamChunk(type="tool_call", data=text, index=index)

    def _text(
        self, kind: Literal["content", "thinking"], text: str, index: int
    ) -> Iterator[StreamChunk]:
        if text:
            yield StreamChunk(type=kind, data=self._join(kind, text), index=index)

    def _finish(self, word: object) -> Iterator[StreamChunk]:
        if reason := text_of(word):
            self.is_finished = True
            yield StreamChunk(type="finish", data=FINISHES.get(reason, reason))

    def _count(self, usage: object) -> None:
        """Take in counts: those at the end say how many there are in all, or leave some out."""
        counts = object_of(usage)
        valid = {k: n for k in _COUNTS if isinstance(n := counts.get(k), int) and n >= 0}
        if not valid:
            return
        self._counts |= valid
        cached = sum(self._counts.get(name, 0) for name in _COUNTS[2:])
        prompt = self._counts.get("input_tokens", 0) + cached
        self.usage = count_tokens(self._counts | {"prompt_tokens": prompt})


def _index(event: JsonDict) -> int:
    value = event.get("index")
    return value if isinstance(value, int) and value >= 0 else 0
