"""Replies in OpenAI's chat format, with all that servers really send."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from ipyagent.json_arguments import well_formed
from ipyagent.json_types import JsonDict
from ipyagent.llm.direct.formats import Reader, count_of, object_of, objects_of, text_of
from ipyagent.llm.direct.think_tags import ThinkTags
from ipyagent.llm.reply_parts import update_tokens
from ipyagent.llm.service_error import ServiceError
from ipyagent.schema import StreamChunk

FINISHES = {
    "max_tokens": "length",
    "model_length": "length",  # Mistral
    "refusal": "content_filter",
    "function_call": "tool_calls",
}
"""Other words for OpenAI's reasons to end a reply."""

_THOUGHTS = ("reasoning_content", "reasoning", "reasoning_text")
"""DeepSeek and most servers; OpenRouter, Groq and newer vLLM; Copilot."""

_MALFORMED = re.compile(r"(?i)malformed_function_call|unexpected_tool_call")
_OFFSET = 1_000
"""Numbers of calls between those of one choice and the next."""


class ChatReader(Reader):
    """Reads one reply in OpenAI's chat format; all its choices are one reply."""

    def __init__(self) -> None:
        super().__init__()
        self._tags = ThinkTags()
        self._indices: dict[str, int] = {}
        """The number of each call with an id."""
        self._last_by_choice: dict[int, int] = {}
        """The number of the last call of each choice."""

    def _read(self, event: JsonDict) -> Iterator[StreamChunk]:
        """Yield the chunks of an event."""
        choices = objects_of(event.get("choices"))
        faults = [each.get("error") for each in (event, *choices) if each.get("error")]
        if faults or "error" in (event.get("object"), event.get("type")):
            raise ServiceError.in_stream(faults[0] if faults else event)
        usages = [each.get("usage") for each in (event, *choices)]
        self._count(next(filter(None, usages), None) or _groq_usage(event))
        for at, choice in enumerate(choices):
            offset = (count_of(choice.get("index")) or at) * _OFFSET
            if delta := object_of(choice.get("delta")):
                yield from self._read_delta(delta, offset)
            if message := object_of(choice.get("message")):
                yield from self._read_delta(self._rest_of(message, offset), offset)
            if word := text_of(choice.get("finish_reason")):
                yield from self._finish(word)

    def read_whole(self, body: JsonDict) -> Iterator[StreamChunk] | None:
        """Return the chunks of a reply that came in one piece."""
        choices = objects_of(body.get("choices"))
        is_reply = any(object_of(choice.get("message")) for choice in choices) or body.get("error")
        return self.read(body) if is_reply else None

    def end(self) -> Iterator[StreamChunk]:
        """Yield the chunks held back."""
        for kind, text in self._tags.end():
            yield StreamChunk(type=kind, data=text)

    def _count(self, usage: object) -> None:
        if isinstance(usage, dict) and usage:
            self.usage = update_tokens(self.usage, usage)

    def _finish(self, word: str) -> Iterator[StreamChunk]:
        if word == "error":
            raise ServiceError.in_stream(self.reason or "the service ended the reply with an error")
        if _MALFORMED.search(word):  # Gemini
            raise ServiceError.in_stream({"message": f"the reply ended as {word}", "code": word})
        yield from self.end()
        self.is_finished = True
        yield StreamChunk(type="finish", data=FINISHES.get(word, word))

    def _rest_of(self, message: JsonDict, offset: int) -> JsonDict:
        """Return what has not come in pieces of a message that comes whole, maybe at the end."""
        rest, content = dict(message), message.get("content")
        if isinstance(content, str):
            rest["content"] = self._join.rest(("content", offset), content)
        elif self._join.has(("content", offset)):
            rest["content"] = None
        for name in _THOUGHTS:
            rest[name] = self._join.rest(("thinking",), text_of(message.get(name)))
        if self._join.has(("thinking",)):
            rest |= {"thinking_blocks": None, "reasoning_details": None}
        if self._last_by_choice.get(offset) is not None:
            rest |= {"tool_calls": None, "function_call": None}
        return rest

    def _read_delta(self, delta: JsonDict, offset: int) -> Iterator[StreamChunk]:
        yield from self._read_thinking(delta)
        content = delta.get("content")
        if isinstance(content, str):
            yield from self._read_text(content, offset)
        else:
            for part in objects_of(content):  # Mistral
                yield from self._thought("".join(_texts(part.get("thinking"))))
                yield from self._read_text(text_of(part.get("text")), offset)
        yield from self._read_text(text_of(delta.get("refusal")), offset)
        calls = objects_of(delta.get("tool_calls"))
        if old := object_of(delta.get("function_call")):
            calls.append({"function": old})
        for number, call in enumerate(calls):
            yield from self._read_call(call, number, offset)

    def _read_text(self, text: str, offset: int) -> Iterator[StreamChunk]:
        if not text:
            return
        text = self._join(("content", offset), text)
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
            yield from self._seal(objects_of(delta.get("reasoning_details")))
        for block in blocks:
            yield from self._thought(text_of(block.get("thinking")))
            if signature := text_of(block.get("signature")):
                yield StreamChunk(type="signature", data=signature)
            if encrypted := text_of(block.get("data")):
                yield StreamChunk(type="signature", data=encrypted, name="encrypted")

    def _seal(self, details: list[JsonDict]) -> Iterator[StreamChunk]:
        """Yield what is signed or encrypted of OpenRouter's `reasoning_details`, whole."""
        for detail in details:
            if detail.get("signature") or detail.get("data"):
                sealed = {key: value for key, value in detail.items() if key != "text"}
                name = "encrypted" if detail.get("data") else ""
                yield StreamChunk(type="signature", data=json.dumps(sealed), name=name)

    def _thought(self, text: str) -> Iterator[StreamChunk]:
        if text:
            yield StreamChunk(type="thinking", data=self._join(("thinking",), text))

    def _read_call(self, call: JsonDict, number: int, offset: int) -> Iterator[StreamChunk]:
        function, id_ = object_of(call.get("function")), well_formed(text_of(call.get("id")))
        index = self._index_of(call, id_, number + offset, offset)
        arguments = function.get("arguments")
        # Some servers send the object itself instead of its text.
        text = json.dumps(arguments) if isinstance(arguments, dict) else text_of(arguments)
        yield StreamChunk(
            type="tool_call",
            data=self._join(("call", index), text),
            index=index,
            id=id_,
            name=well_formed(text_of(function.get("name"))),
        )
        google = object_of(object_of(call.get("extra_content")).get("google"))
        fields = google or object_of(call.get("provider_specific_fields"))
        if signature := text_of(fields.get("thought_signature")):
            yield StreamChunk(type="signature", data=signature, index=index, name="call")

    def _index_of(self, call: JsonDict, id_: str, number: int, offset: int) -> int:
        """Return a call's number; where there is none, pieces belong to their id or the last."""
        index = count_of(call.get("index"))
        if index is not None:
            index += offset
        elif id_ or object_of(call.get("function")).get("name") or number > offset:
            index = self._indices.get(id_, number)
        else:
            index = self._last_by_choice.get(offset, number)
        if id_:
            self._indices.setdefault(id_, index)
        self._last_by_choice[offset] = index
        return index


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
