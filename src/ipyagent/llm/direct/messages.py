"""Anthropic's messages: the format of Claude, and of services that copied it.

Reference: https://docs.anthropic.com/en/api/messages.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, groupby
from typing import ClassVar, Literal

from ipyagent import schema
from ipyagent.json_types import JsonDict, object_of, well_formed
from ipyagent.llm import direct
from ipyagent.llm.client import ModelRequest
from ipyagent.llm.service_client import count_tokens, to_count
from ipyagent.llm.service_error import ServiceError
from ipyagent.llm.wire import describe_image, is_sent, legal_name

LONGEST = 32_000
"""Tokens of the longest reply where nothing is known: the format insists on a limit."""
SHORT = 4_096
"""The limit for a service that refuses another one."""

_CACHE: JsonDict = {"cache_control": {"type": "ephemeral"}}


class MessagesFormat(direct.Format):
    """Anthropic's format for one model.

    The service is asked to cache tools and system prompt by a mark on the latter, and the
    conversation by one at the end of the request, where it changes nothing sent before.
    """

    path = "/v1/messages"
    headers: ClassVar[dict[str, str]] = {"anthropic-version": "2023-06-01"}

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
        if request.must_call:
            tail["tool_choice"] = {"type": "tool", "name": request.must_call}
        if request.answer:
            wanted = {"type": "json_schema", "schema": request.answer.schema}
            tail["output_config"] = {"format": wanted}
        tail |= _CACHE
        items = self._history.join(messages)
        return direct.join_body(head, "messages", items, tail, omitted - {direct.LENGTH})

    def reader(self) -> MessagesReader:
        """Return a reader for the reply."""
        return MessagesReader()

    def _longest(self, request: ModelRequest, omitted: frozenset[str]) -> int:
        if direct.LENGTH in omitted:
            return SHORT
        longest = self._target.longest or LONGEST
        return min(request.max_tokens or longest, longest)

    def _encode_messages(self, messages: Sequence[schema.Message]) -> Iterator[JsonDict]:
        spoken = filter(is_sent, messages)
        for is_answer, turn in groupby(spoken, key=lambda m: m.role is schema.Role.ASSISTANT):
            if is_answer:
                for message in turn:
                    content = [*_answer(message.content, self._target)]
                    yield {"role": "assistant", "content": content}
            elif content := [*self._user(chain.from_iterable(m.content for m in turn))]:
                yield {"role": "user", "content": content}

    def _user(self, blocks: Iterable[schema.Block]) -> Iterator[JsonDict]:
        """Yield tool results first, as the service demands."""
        blocks = [*blocks]
        vision = self._target.vision
        for block in blocks:
            if isinstance(block, schema.ToolResultContent):
                content = [*_visible(block.content, vision)]
                result: JsonDict = {
                    "type": "tool_result",
                    "tool_use_id": self._target.fit_id(block.tool_use_id),
                }
                result["content"] = content or [{"type": "text", "text": "(no output)"}]
                yield result | ({"is_error": True} if block.is_error else {})
        yield from _visible(blocks, vision)


def _split_system(messages: tuple[schema.Message, ...]) -> tuple[str, tuple[schema.Message, ...]]:
    """Return the text of the system messages at the beginning, and the other messages."""
    count = next(
        (i for i, m in enumerate(messages) if m.role is not schema.Role.SYSTEM), len(messages)
    )
    system = "\n\n".join(well_formed(message.text) for message in messages[:count])
    return system, messages[count:]


def _visible(blocks: Iterable[schema.Block], vision: bool) -> Iterator[JsonDict]:
    """Yield texts and images; the service refuses blank texts."""
    for block in blocks:
        match block:
            case schema.TextContent(text=text) if text.strip():
                yield {"type": "text", "text": well_formed(text)}
            case schema.ImageContent() if vision:
                yield block.to_anthropic()
            case schema.ImageContent():
                yield {"type": "text", "text": describe_image(block, vision=False)}


def _answer(blocks: Sequence[schema.Block], target: direct.Target) -> Iterator[JsonDict]:
    """Yield an answer's blocks, with the thinking that the service signed or demands."""
    wants_all = direct.Demand.ALL_THOUGHTS in target.demands
    if wants_all and not any(isinstance(each, schema.ThinkingContent) for each in blocks):
        yield {"type": "thinking", "thinking": direct.NO_THOUGHT, "signature": ""}
    for block in blocks:
        match block:
            case schema.ThinkingContent(encrypted_content=data, id="") if data:
                yield {"type": "redacted_thinking", "data": data}
            case schema.ThinkingContent(thinking=text, signature=signature) if (
                signature or wants_all
            ):
                text = text if text or signature else direct.NO_THOUGHT
                yield {"type": "thinking", "thinking": text, "signature": signature}
            case schema.TextContent(text=text) if text.strip():
                yield {"type": "text", "text": well_formed(text)}
            case schema.ToolCall():
                call = {
                    "id": target.fit_id(block.id),
                    "name": legal_name(block.name),
                    "input": block.arguments,
                }
                yield {"type": "tool_use"} | call


_COUNTS = (
    "input_tokens",
    "output_tokens",
    "cache_read_input_tokens",
    "cache_creation_input_tokens",
)


class MessagesReader(direct.Reader):
    """Reads one reply in Anthropic's format."""

    def __init__(self) -> None:
        super().__init__()
        self._counts: JsonDict = {}
        self._signed: set[int] = set()
        """Blocks whose signature has come."""
        self._foreign: set[int] = set()
        """Blocks of the service's own tools, whose calls it runs itself."""
        self._calls: dict[int, str] = {}
        """The id of the newest call of an index: some services number every block alike."""

    def _read(self, event: JsonDict) -> Iterator[schema.StreamChunk]:
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
                blocks = [{"type": "text", "text": content}] if direct.text_of(content) else content
                for index, block in enumerate(direct.objects_of(blocks)):
                    yield from self._read_block(block, index)
                self._count(message.get("usage"))
                yield from self._finish(message.get("stop_reason"))
            case "message_delta":
                self._count(event.get("usage"))
                delta = object_of(event.get("delta"))
                yield from self._finish(delta.get("stop_reason") or event.get("stop_reason"))
        self.is_over = self.is_over or kind == "message_stop"
        if kind == "message_stop" and self.has_words and not self.is_finished:
            yield from self._finish("end_turn")

    def read_whole(self, body: JsonDict) -> Iterator[schema.StreamChunk] | None:
        """Return the chunks of a reply that came in one piece."""
        if body.get("type") == "error":
            return self.read(body)
        is_reply = body.get("role") == "assistant" and isinstance(body.get("content"), (list, str))
        return self.read({"type": "message_stop", "message": body}) if is_reply else None

    def _read_block(self, block: JsonDict, index: int) -> Iterator[schema.StreamChunk]:
        """Yield the chunks of a block, as far as they have not come in pieces."""
        match block.get("type"):
            case "text":
                text = self._join.rest(("content", index), direct.text_of(block.get("text")))
                yield from self._text("content", text, index)
            case "thinking":
                text = self._join.rest(("thinking", index), direct.text_of(block.get("thinking")))
                yield from self._text("thinking", text, index)
                yield from self._sign(direct.text_of(block.get("signature")), index)
            case "redacted_thinking":
                yield from self._sign(direct.text_of(block.get("data")), index, "encrypted")
            case "tool_use":
                self._foreign.discard(index)
                given = block.get("input")
                text = direct.text_of(given) or (
                    direct.dump(object_of(given)).decode() if given else ""
                )
                self._calls[index] = direct.text_of(block.get("id"))
                place = ("call", index, self._calls[index])
                yield schema.StreamChunk(
                    type="tool_call",
                    data="" if self._join.has(place) else self._join(place, text),
                    index=index,
                    id=well_formed(direct.text_of(block.get("id"))),
                    name=well_formed(direct.text_of(block.get("name"))),
                )
            case str():
                self._foreign.add(index)

    def _sign(self, signature: str, index: int, name: str = "") -> Iterator[schema.StreamChunk]:
        """Yield a signature that comes whole, once."""
        if signature and index not in self._signed:
            self._signed.add(index)
            yield schema.StreamChunk(type="signature", data=signature, name=name, index=index)

    def _read_delta(self, delta: JsonDict, index: int) -> Iterator[schema.StreamChunk]:
        match delta.get("type"):
            case "text_delta":
                yield from self._text("content", direct.text_of(delta.get("text")), index)
            case "thinking_delta":
                yield from self._text("thinking", direct.text_of(delta.get("thinking")), index)
            case "signature_delta":
                signature = direct.text_of(delta.get("signature"))
                self._signed.add(index)
                yield schema.StreamChunk(type="signature", data=signature, index=index)
            case "input_json_delta" if index not in self._foreign:
                given = delta.get("partial_json")
                text = (
                    direct.dump(given).decode()
                    if isinstance(given, dict)
                    else direct.text_of(given)
                )
                text = self._join(("call", index, self._calls.get(index)), text)
                yield schema.StreamChunk(type="tool_call", data=text, index=index)

    def _text(
        self, kind: Literal["content", "thinking"], text: str, index: int
    ) -> Iterator[schema.StreamChunk]:
        if text:
            yield schema.StreamChunk(type=kind, data=self._join((kind, index), text), index=index)

    def _finish(self, word: object) -> Iterator[schema.StreamChunk]:
        if reason := direct.text_of(word):
            is_end = reason in ("end_turn", "stop_sequence")
            yield from self._finish_by("stop" if is_end else reason)

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
    return direct.count_of(event.get("index")) or 0
