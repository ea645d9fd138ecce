"""Replies in Anthropic's format."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from ipyagent.json_arguments import well_formed
from ipyagent.json_types import JsonDict
from ipyagent.llm.direct.formats import Reader, count_of, object_of, objects_of, text_of
from ipyagent.llm.direct.history import dump
from ipyagent.llm.reply_parts import count_tokens, to_count
from ipyagent.llm.service_error import ServiceError
from ipyagent.schema import StreamChunk

FINISHES = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content_filter",
}
"""Reasons to end a reply, in OpenAI's words."""

_COUNTS = (
    "input_tokens",
    "output_tokens",
    "cache_read_input_tokens",
    "cache_creation_input_tokens",
)


class MessagesReader(Reader):
    """Reads one reply in Anthropic's format."""

    def __init__(self) -> None:
        super().__init__()
        self._counts: JsonDict = {}
        self._signed: set[int] = set()
        """Blocks whose signature has come."""

    def _read(self, event: JsonDict) -> Iterator[StreamChunk]:
        """Yield the chunks of an event."""
        kind, error = event.get("type"), event.get("error")
        if error or kind == "error":
            raise ServiceError.in_stream(error or event)
        match kind:
            case "content_block_delta":
                yield from self._read_delta(object_of(event.get("delta")), _index(event))
            case "content_block_start" | "content_block_stop":
                yield from self._read_block(object_of(event.get("content_block")), _index(event))
            case "message_start" | "message_stop":
                message = object_of(event.get("message"))
                content = message.get("content")
                blocks = [{"type": "text", "text": content}] if text_of(content) else content
                for index, block in enumerate(objects_of(blocks)):
                    yield from self._read_block(block, index)
                self._count(message.get("usage"))
                yield from self._finish(message.get("stop_reason"))
            case "message_delta":
                self._count(event.get("usage"))
                delta = object_of(event.get("delta"))
                yield from self._finish(delta.get("stop_reason") or event.get("stop_reason"))
        self.is_over = self.is_over or kind == "message_stop"

    def read_whole(self, body: JsonDict) -> Iterator[StreamChunk] | None:
        """Return the chunks of a reply that came in one piece."""
        if body.get("type") == "error":
            return self.read(body)
        is_reply = body.get("role") == "assistant" and isinstance(body.get("content"), (list, str))
        return self.read({"type": "message_stop", "message": body}) if is_reply else None

    def _read_block(self, block: JsonDict, index: int) -> Iterator[StreamChunk]:
        """Yield the chunks of a block, as far as they have not come in pieces."""
        match block.get("type"):
            case "text":
                text = self._join.rest(("content", index), text_of(block.get("text")))
                yield from self._text("content", text, index)
            case "thinking":
                text = self._join.rest(("thinking", index), text_of(block.get("thinking")))
                yield from self._text("thinking", text, index)
                yield from self._sign(text_of(block.get("signature")), index)
            case "redacted_thinking":
                yield from self._sign(text_of(block.get("data")), index, "encrypted")
            case "tool_use":
                given = block.get("input")
                text = text_of(given) or (dump(object_of(given)).decode() if given else "")
                known = self._join.has(("call", index))
                yield StreamChunk(
                    type="tool_call",
                    data="" if known else self._join(("call", index), text),
                    index=index,
                    id=well_formed(text_of(block.get("id"))),
                    name=well_formed(text_of(block.get("name"))),
                )

    def _sign(self, signature: str, index: int, name: str = "") -> Iterator[StreamChunk]:
        """Yield a signature that comes whole, once."""
        if signature and index not in self._signed:
            self._signed.add(index)
            yield StreamChunk(type="signature", data=signature, name=name, index=index)

    def _read_delta(self, delta: JsonDict, index: int) -> Iterator[StreamChunk]:
        match delta.get("type"):
            case "text_delta":
                yield from self._text("content", text_of(delta.get("text")), index)
            case "thinking_delta":
                yield from self._text("thinking", text_of(delta.get("thinking")), index)
            case "signature_delta":
                signature = text_of(delta.get("signature"))
                self._signed.add(index)
                yield StreamChunk(type="signature", data=signature, index=index)
            case "input_json_delta":
                given = delta.get("partial_json")
                text = dump(given).decode() if isinstance(given, dict) else text_of(given)
                text = self._join(("call", index), text)
                yield StreamChunk(type="tool_call", data=text, index=index)

    def _text(
        self, kind: Literal["content", "thinking"], text: str, index: int
    ) -> Iterator[StreamChunk]:
        if text:
            yield StreamChunk(type=kind, data=self._join((kind, index), text), index=index)

    def _finish(self, word: object) -> Iterator[StreamChunk]:
        if reason := text_of(word):
            self.is_finished = True
            yield StreamChunk(type="finish", data=FINISHES.get(reason, reason))

    def _count(self, usage: object) -> None:
        """Take in counts: those at the end say how many there are in all, or leave some out."""
        for name, value in object_of(usage).items():
            if name in _COUNTS and (count := to_count(value)):
                self._counts[name] = count
        if not self._counts:
            return
        cached = sum(self._counts.get(name, 0) for name in _COUNTS[2:])
        prompt = self._counts.get("input_tokens", 0) + cached
        self.usage = count_tokens(self._counts | {"prompt_tokens": prompt})


def _index(event: JsonDict) -> int:
    return count_of(event.get("index")) or 0
