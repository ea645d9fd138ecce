"""Replies in OpenAI's chat format, with all that servers really send."""

from __future__ import annotations

import json
from collections.abc import Iterator

from ipyagent.json_arguments import well_formed
from ipyagent.json_types import JsonDict
from ipyagent.llm.direct.formats import object_of, objects_of, text_of
from ipyagent.llm.direct.think_tags import ThinkTags
from ipyagent.llm.service_error import ServiceError
from ipyagent.llm.surrogates import Joiner
from ipyagent.llm.tokens import count_tokens
from ipyagent.schema import StreamChunk, TokenUsage

FINISHES = {
    "max_tokens": "length",
    "model_length": "length",  # Mistral
    "refusal": "content_filter",
    "function_call": "tool_calls",
}
"""Other words for OpenAI's reasons to end a reply."""

_THOUGHTS = ("reasoning_content", "reasoning", "reasoning_text")
"""DeepSeek and most servers; OpenRouter, Groq and newer vLLM; Copilot."""


class ChatReader:
    """Reads one reply in OpenAI's chat format."""

    def __init__(self) -> None:
        self.usage: TokenUsage | None = None
        self.is_finished = False
        self.is_over = False
        self._join = Joiner()
        self._tags = ThinkTags()

    def read(self, event: JsonDict) -> Iterator[StreamChunk]:
        """Yield the chunks of an event."""
        if error := event.get("error"):
            raise ServiceError.in_stream(error)
        choice = next(iter(objects_of(event.get("choices"))), {})
        self._count(event.get("usage") or choice.get("usage") or _groq_usage(event))
        if delta := object_of(choice.get("delta")) or object_of(choice.get("message")):
            yield from self._read_delta(delta)
        if word := text_of(choice.get("finish_reason")):
            yield from self._finish(word)

    def read_whole(self, body: JsonDict) -> Iterator[StreamChunk] | None:
        """Return the chunks of a reply that came in one piece."""
        choice = next(iter(objects_of(body.get("choices"))), {})
        is_reply = object_of(choice.get("message")) or body.get("error")
        return self.read(body) if is_reply else None

    def end(self) -> Iterator[StreamChunk]:
        """Yield the chunks held back."""
        for kind, text in self._tags.end():
            yield StreamChunk(type=kind, data=text)

    def _count(self, usage: object) -> None:
        if isinstance(usage, dict) and usage:
            self.usage = count_tokens(usage)

    def _finish(self, word: str) -> Iterator[StreamChunk]:
        if word == "error":
            raise ServiceError.in_stream("the service ended the reply with an error")
        yield from self.end()
        self.is_finished = True
        yield StreamChunk(type="finish", data=FINISHES.get(word, word))

    def _read_delta(self, delta: JsonDict) -> Iterator[StreamChunk]:
        yield from self._read_thinking(delta)
        content = delta.get("content")
        if isinstance(content, str):
            yield from self._read_text(content)
        else:
            for part in objects_of(content):  # Mistral
                yield from self._thought("".join(_texts(part.get("thinking"))))
                yield from self._read_text(text_of(part.get("text")))
        yield from self._read_text(text_of(delta.get("refusal")))
        calls = objects_of(delta.get("tool_calls"))
        if old := object_of(delta.get("function_call")):
            calls.append({"function": old})
        for number, call in enumerate(calls):
            yield from self._read_call(call, number)

    def _read_text(self, text: str) -> Iterator[StreamChunk]:
        if not text:
            return
        text = self._join("content", text)
        if self._tags.is_done:
            yield StreamChunk(data=text)
            return
        for kind, piece in self._tags.feed(text):
            yield StreamChunk(type=kind, data=piece)

    def _read_thinking(self, delta: JsonDict) -> Iterator[StreamChunk]:
        """Yield thinking once: many services send the same thought under several names."""
        blocks = objects_of(delta.get("thinking_blocks"))  # LiteLLM's proxy
        if not any(block.get("thinking") for block in blocks):
            thought = next((text for name in _THOUGHTS if (text := text_of(delta.get(name)))), "")
            yield from self._thought(thought or _details(delta))
        for block in blocks:
            yield from self._thought(text_of(block.get("thinking")))
            if signature := text_of(block.get("signature")):
                yield StreamChunk(type="signature", data=signature)
            if encrypted := text_of(block.get("data")):
                yield StreamChunk(type="signature", data=encrypted, name="encrypted")

    def _thought(self, text: str) -> Iterator[StreamChunk]:
        if text:
            yield StreamChunk(type="thinking", data=self._join("thinking", text))

    def _read_call(self, call: JsonDict, number: int) -> Iterator[StreamChunk]:
        index = _index(call.get("index"), number)
        function = object_of(call.get("function"))
        arguments = function.get("arguments")
        # Some servers send the object itself instead of its text.
        text = json.dumps(arguments) if isinstance(arguments, dict) else text_of(arguments)
        yield StreamChunk(
            type="tool_call",
            data=self._join(("call", index), text),
            index=index,
            id=well_formed(text_of(call.get("id"))),
            name=well_formed(text_of(function.get("name"))),
        )
        google = object_of(object_of(call.get("extra_content")).get("google"))
        fields = google or object_of(call.get("provider_specific_fields"))
        if signature := text_of(fields.get("thought_signature")):
            yield StreamChunk(type="signature", data=signature, index=index, name="call")


def _index(value: object, number: int) -> int:
    """Return a call's index; some servers send none, or a text."""
    text = str(value) if isinstance(value, (int, str)) else ""
    return int(text) if text.isascii() and text.isdigit() else number


def _texts(parts: object) -> list[str]:
    if isinstance(parts, str):
        return [parts]
    return [text_of(part.get("text")) for part in objects_of(parts)]


def _details(delta: JsonDict) -> str:
    """Return the readable part of OpenRouter's `reasoning_details`."""
    details = objects_of(delta.get("reasoning_details"))
    return "".join(text_of(d.get("text")) or text_of(d.get("summary")) for d in details)


def _groq_usage(event: JsonDict) -> object:
    return object_of(event.get("x_groq")).get("usage")
