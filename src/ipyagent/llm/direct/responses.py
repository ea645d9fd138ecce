"""OpenAI's Responses: the format that its newer models insist on when they get tools.

Reference: https://platform.openai.com/docs/api-reference/responses. Nothing is stored at the
service: the reasoning comes encrypted and is sent back.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, groupby
from typing import Any, Literal

from ipyagent import schema
from ipyagent.json_types import JsonDict, object_of, well_formed
from ipyagent.llm.client import ModelRequest
from ipyagent.llm.direct import (
    LENGTH,
    Format,
    Reader,
    Target,
    count_of,
    join_body,
    objects_of,
    text_of,
)
from ipyagent.llm.service_client import update_tokens
from ipyagent.llm.service_error import ServiceError
from ipyagent.llm.wire import is_sent, legal_name, to_openai, tools_to_openai


class ResponsesFormat(Format):
    """OpenAI's Responses format for one model."""

    path = "/responses"

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
        if request.must_call:
            tail["tool_choice"] = {"type": "function", "name": request.must_call}
        if request.answer:
            tail["text"] = {"format": {"type": "json_schema"} | request.answer.to_openai()}
        if request.max_tokens is not None and LENGTH not in omitted:
            tail["max_output_tokens"] = self._target.limit(request.max_tokens)
        return join_body(head, "input", self._history.join(request.messages), tail, omitted)

    def reader(self) -> ResponsesReader:
        """Return a reader for the reply."""
        return ResponsesReader()

    def _encode_messages(self, messages: Sequence[schema.Message]) -> Iterator[JsonDict]:
        spoken = filter(is_sent, messages)
        for is_answer, turn in groupby(spoken, key=lambda m: m.role is schema.Role.ASSISTANT):
            if is_answer:
                blocks = chain.from_iterable(message.content for message in turn)
                items = [*_answer(blocks, self._target)]
                while items[-1].get("type") == "reasoning":  # refused where nothing follows
                    items.pop()
                yield from items
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


def _answer(blocks: Iterable[schema.Block], target: Target) -> Iterator[JsonDict]:
    """Yield an answer's items, with the reasoning that this service encrypted."""
    for block in blocks:
        match block:
            case schema.ThinkingContent(encrypted_content=data, id=item) if data and item:
                yield {"type": "reasoning", "id": item, "summary": [], "encrypted_content": data}
            case schema.TextContent(text=text) if text.strip():
                yield {"role": "assistant", "content": well_formed(text)}
            case schema.ToolCall():
                wired = block.to_openai()["function"] | {"name": legal_name(block.name)}
                yield {"type": "function_call", "call_id": target.fit_id(block.id)} | wired


_REASONS = {"max_output_tokens": "length", "content_filter": "content_filter"}
_PIECES = {
    "response.output_text": ("content", "text"),
    "response.refusal": ("content", "refusal"),
    "response.reasoning_summary_text": ("summary", "text"),
    "response.reasoning_text": ("thinking", "text"),
}
"""Texts that come in pieces, and the field in which they come whole at their end."""
_ENDS = {"response.completed", "response.incomplete", "response.done"}
_FAILURES = {"response.failed", "response.cancelled"}


_OPEN = {"in_progress", "queued"}
"""Statuses of a reply, or of the last item of one that has none, that is not complete."""


def _is_call(item: JsonDict) -> bool:
    """Return whether an item wants an answer: also calls of what was not offered, as of a shell."""
    kind = text_of(item.get("type"))
    return kind == "function_call" or (kind.endswith("_call") and bool(item.get("call_id")))


def _call_id(item: JsonDict) -> str:
    return text_of(item.get("call_id")) or text_of(item.get("id"))


class ResponsesReader(Reader):
    """Reads one reply in OpenAI's Responses format.

    All that comes in pieces comes again at the end of its part, of its item and of the reply; some
    services send only one of these.
    """

    def __init__(self) -> None:
        super().__init__()
        self._indices: dict[str, int] = {}
        """The number of each item by its id, where no number was sent."""
        self._signed: set[str] = set()
        self._calls: dict[str, int] = {}
        """The number of each call by its id."""
        self._inputs: dict[int, str] = {}
        """The texts of calls that are no JSON, by number."""
        self._spoken: int | None = None
        """The number of the message whose text came last."""
        self._ended: int | None = None
        """Its number once it ended, until the next one begins."""

    def _read(self, event: JsonDict) -> Iterator[schema.StreamChunk]:
        """Yield the chunks of an event."""
        kind, error = text_of(event.get("type")), event.get("error")
        if error or kind == "error":
            raise ServiceError.in_stream(error or event)
        stem, _, stage = kind.rpartition(".")
        item, index = object_of(event.get("item")), self._index(event)
        if stem in _PIECES and stage in ("delta", "done"):
            name, field = _PIECES[stem]
            part = event.get("summary_index" if name == "summary" else "content_index")
            place = (name, index, count_of(part) or 0)
            text = text_of(event.get("delta"))
            self.is_refusal |= field == "refusal"
            if stage == "done":
                text = self._join.rest(place, text_of(event.get(field)))
            yield from self._text(place, text)
        elif stem == "response.function_call_arguments":
            yield from self._arguments(index, event.get("delta"), event.get("arguments"))
        elif stem == "response.custom_tool_call_input":
            known = self._inputs.get(index, "") + text_of(event.get("delta"))
            self._inputs[index] = text_of(event.get("input")) or known
        elif kind == "response.content_part.done":
            part = object_of(event.get("part"))
            yield from self._parts([part], "content", index, count_of(event.get("content_index")))
        elif kind == "response.output_item.added":
            yield from self._begin_call(item, index)
        elif kind == "response.output_item.done":
            yield from self._end_item(item, index)
        elif kind in _ENDS | _FAILURES:
            response = object_of(event.get("response"))
            if response.get("error") or kind in _FAILURES:
                raise ServiceError.in_stream(
                    response.get("error") or "the service gave up the reply"
                )
            is_cut = kind == "response.incomplete" or response.get("status") == "incomplete"
            yield from self._finish(response, "length" if is_cut else "stop")

    def read_whole(self, body: JsonDict) -> Iterator[schema.StreamChunk] | None:
        """Return the chunks of a reply that came in one piece."""
        has_parts = isinstance(body.get("output"), list) or bool(text_of(body.get("output_text")))
        is_reply = has_parts and not body.get("choices")
        return self.read({"type": "response.completed", "response": body}) if is_reply else None

    def _index(self, event: JsonDict) -> int:
        """Return the number of the event's item; without one, of the item of that id."""
        index, item = count_of(event.get("output_index")), object_of(event.get("item"))
        ids = (event.get("item_id"), item.get("id"), item.get("call_id"))
        id_ = next(filter(None, map(text_of, ids)), "")
        if id_:
            return self._indices.setdefault(id_, len(self._indices) if index is None else index)
        if index is not None or "arguments" not in text_of(event.get("type")):
            return index or 0
        # Whole arguments belong to the first call that lacks them, pieces to the last one.
        begun = [*self._calls.values()][0 if "arguments" in event else -1 :] or [0]
        return next((n for n in begun if not self._join.has(("call", n))), begun[-1])

    def _text(self, place: tuple[str, int, int], text: str) -> Iterator[schema.StreamChunk]:
        if text:
            kind: Literal["content", "thinking"] = (
                "content" if place[0] == "content" else "thinking"
            )
            data = self._join(place, text)
            if kind == "content":
                if self._ended not in (None, place[1]):
                    self._ended, data = None, f"\n\n{data}"  # a paragraph of its own
                self._spoken = place[1]
            yield schema.StreamChunk(type=kind, data=data)

    def _parts(
        self, parts: object, name: str, index: int, first: int | None = None
    ) -> Iterator[schema.StreamChunk]:
        """Yield what has not come in pieces of the texts of an item."""
        parts = [{"text": parts}] if text_of(parts) else parts
        for number, part in enumerate(objects_of(parts), start=first or 0):
            place = (name, index, number)
            self.is_refusal |= bool(text_of(part.get("refusal")))
            text = text_of(part.get("text")) or text_of(part.get("refusal"))
            yield from self._text(place, self._join.rest(place, text))

    def _begin_call(self, item: JsonDict, index: int) -> Iterator[schema.StreamChunk]:
        if _is_call(item):
            id_ = _call_id(item)
            self._calls.setdefault(id_, index)
            name = well_formed(text_of(item.get("name")) or text_of(item.get("type")))
            yield schema.StreamChunk(type="tool_call", index=index, id=well_formed(id_), name=name)

    def _arguments(self, index: int, piece: object, whole: object) -> Iterator[schema.StreamChunk]:
        """Yield a piece of a call's arguments, or what is left of them at their end."""
        place = ("call", index)
        if isinstance(whole, dict):
            whole = "" if self._join.has(place) else json.dumps(whole)
        text = text_of(piece) or self._join.rest(place, text_of(whole))
        yield schema.StreamChunk(type="tool_call", data=self._join(place, text), index=index)

    def _end_item(self, item: JsonDict, index: int) -> Iterator[schema.StreamChunk]:
        """Yield what has not come of an item."""
        match item.get("type"):
            case "message":
                yield from self._parts(item.get("content"), "content", index)
                self._ended = self._spoken
            case "reasoning":
                yield from self._parts(item.get("summary"), "summary", index)
                yield from self._parts(item.get("content"), "thinking", index)
                data, id_ = text_of(item.get("encrypted_content")), text_of(item.get("id"))
                if data and data not in self._signed:
                    self._signed.add(data)
                    yield schema.StreamChunk(type="signature", data=data, name="encrypted", id=id_)
            case _ if _is_call(item):
                index = self._calls.get(_call_id(item), index)
                yield from self._begin_call(item, index)
                yield from self._arguments(index, None, self._find_arguments(item, index))

    def _find_arguments(self, item: JsonDict, index: int) -> object:
        """Return the arguments of a call; those of a tool that takes a text have one name."""
        if text := text_of(item.get("input")) or self._inputs.get(index, ""):
            return {"input": text}
        return item.get("arguments") or item.get("action") or item.get("operation")

    def _finish(self, response: JsonDict, word: str) -> Iterator[schema.StreamChunk]:
        for number, item in enumerate(objects_of(response.get("output"))):
            yield from self._end_item(item, self._indices.get(text_of(item.get("id")), number))
        for index, text in self._inputs.items():  # where no item came at its end
            yield from self._arguments(index, None, {"input": text})
        if not self.has_words:  # some gateways send nothing but the text
            yield from self._parts(response.get("output_text"), "content", 0)
        if usage := object_of(response.get("usage")):
            self.usage = update_tokens(self.usage, usage)
        last = objects_of(response.get("output"))[-1:]
        statuses = (text_of(each.get("status")) for each in (response, *last))
        if next(filter(None, statuses), "") in _OPEN:
            if self._calls or not self.has_words:
                message = "the service ended the reply while it was in progress"
                raise ServiceError.in_stream({"message": message, "type": "server_error"})
            word = schema.PAUSED
        self.is_finished = self.is_over = True
        reason = text_of(object_of(response.get("incomplete_details")).get("reason"))
        if word == "stop" and self._calls:
            word = "tool_calls"
        word = "content_filter" if self.is_refusal else _REASONS.get(reason, reason) or word
        yield schema.StreamChunk(type="finish", data=word)
