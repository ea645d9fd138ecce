"""Replies in OpenAI's Responses format."""

from __future__ import annotations

from collections.abc import Iterator

from ipyagent.json_arguments import well_formed
from ipyagent.json_types import JsonDict
from ipyagent.llm.direct.formats import object_of, objects_of, text_of
from ipyagent.llm.service_error import ServiceError
from ipyagent.llm.surrogates import Joiner
from ipyagent.llm.tokens import count_tokens
from ipyagent.schema import StreamChunk, TokenUsage

_REASONS = {"max_output_tokens": "length", "content_filter": "content_filter"}
_TEXTS = {
    "response.output_text.delta": "content",
    "response.refusal.delta": "content",
    "response.reasoning_summary_text.delta": "thinking",
    "response.reasoning_text.delta": "thinking",
}


class ResponsesReader:
    """Reads one reply in OpenAI's Responses format."""

    def __init__(self) -> None:
        self.usage: TokenUsage | None = None
        self.is_finished = False
        self.is_over = False
        self._join = Joiner()
        self._has_calls = False
        self._streamed: set[int] = set()
        """Output items of which pieces came."""

    def read(self, event: JsonDict) -> Iterator[StreamChunk]:
        """Yield the chunks of an event."""
        kind = text_of(event.get("type"))
        if kind in _TEXTS:
            yield from self._text(_TEXTS[kind], event)
        match kind:
            case "response.output_item.added":
                yield from self._begin_call(object_of(event.get("item")), _index(event))
            case "response.function_call_arguments.delta":
                index = _index(event)
                self._streamed.add(index)
                text = self._join(("call", index), text_of(event.get("delta")))
                yield StreamChunk(type="tool_call", data=text, index=index)
            case "response.output_item.done":
                yield from self._end_item(object_of(event.get("item")), _index(event))
            case "response.completed" | "response.incomplete":
                yield from self._finish(object_of(event.get("response")))
            case "response.failed":
                error = object_of(event.get("response")).get("error")
                raise ServiceError.in_stream(error or "the service gave up the reply")
            case "error":
                raise ServiceError.in_stream(event.get("error") or event)
            case "" if error := event.get("error"):
                raise ServiceError.in_stream(error)

    def read_whole(self, body: JsonDict) -> Iterator[StreamChunk] | None:
        """Return the chunks of a reply that came in one piece."""
        is_reply = body.get("object") == "response" and isinstance(body.get("output"), list)
        return self._read_response(body) if is_reply else None

    def end(self) -> Iterator[StreamChunk]:
        """Yield nothing: this format holds nothing back."""
        yield from ()

    def _read_response(self, body: JsonDict) -> Iterator[StreamChunk]:
        if error := body.get("error"):
            raise ServiceError.in_stream(error)
        for index, item in enumerate(objects_of(body.get("output"))):
            for part in objects_of(item.get("summary")):
                yield from self._text("thinking", {"delta": part.get("text")})
            for part in objects_of(item.get("content")):
                text = part.get("text") or part.get("refusal")
                yield from self._text("content", {"delta": text})
            yield from self._begin_call(item, index)
            yield from self._end_item(item, index)
        yield from self._finish(body)

    def _text(self, kind: str, event: JsonDict) -> Iterator[StreamChunk]:
        if text := text_of(event.get("delta")):
            joined = self._join(kind, text)
            yield StreamChunk(type="thinking" if kind == "thinking" else "content", data=joined)

    def _begin_call(self, item: JsonDict, index: int) -> Iterator[StreamChunk]:
        if item.get("type") == "function_call":
            self._has_calls = True
            yield StreamChunk(
                type="tool_call",
                index=index,
                id=well_formed(text_of(item.get("call_id"))),
                name=well_formed(text_of(item.get("name"))),
            )

    def _end_item(self, item: JsonDict, index: int) -> Iterator[StreamChunk]:
        match item.get("type"):
            case "function_call" if index not in self._streamed:
                arguments = text_of(item.get("arguments"))
                yield StreamChunk(type="tool_call", data=arguments, index=index)
            case "reasoning":
                if data := text_of(item.get("encrypted_content")):
                    id_ = text_of(item.get("id"))
                    yield StreamChunk(type="signature", data=data, name="encrypted", id=id_)

    def _finish(self, response: JsonDict) -> Iterator[StreamChunk]:
        if usage := object_of(response.get("usage")):
            self.usage = count_tokens(usage)
        self.is_finished = self.is_over = True
        reason = text_of(object_of(response.get("incomplete_details")).get("reason"))
        word = _REASONS.get(reason, reason) or ("tool_calls" if self._has_calls else "stop")
        yield StreamChunk(type="finish", data=word)


def _index(event: JsonDict) -> int:
    value = event.get("output_index")
    return value if isinstance(value, int) and value >= 0 else 0
