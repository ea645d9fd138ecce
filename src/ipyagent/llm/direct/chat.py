"""OpenAI's chat completions: the format of most services and of all local servers.

Reference: https://platform.openai.com/docs/api-reference/chat.

Replies are read with all that servers really send. That includes thinking which a model writes into
its answer, between tags such as <think> and </think>: servers that do not know a model's template
pass it on as text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal

from ipyagent.compat import ARGUMENTS
from ipyagent.json_types import JsonDict, object_of, parse_json, well_formed
from ipyagent.llm.client import ModelRequest
from ipyagent.llm.direct import (
    LENGTH,
    NO_THOUGHT,
    Demand,
    Format,
    Reader,
    count_of,
    join_body,
    objects_of,
    text_of,
)
from ipyagent.llm.service_client import read_cost, update_tokens
from ipyagent.llm.service_error import ServiceError
from ipyagent.llm.wire import is_sent, to_openai, tools_to_openai
from ipyagent.plaintext import ellipsize
from ipyagent.schema import Message, Role, StreamChunk, ToolDefinition

_READ = "(results read)"
"""Stands for the answer to results, where services want one before the user's words."""


_CHECKS_CALLS = re.compile(r"gemini-([3-9]|\d\d)")
_SIGNATURE = "thought_signature"
_SIGNED = ("extra_content", "provider_specific_fields", _SIGNATURE)
"""Fields of a call that may hold its signature."""
_UNSIGNED = "skip_thought_signature_validator"
"""Stands for the signature of a call that another model made, where the first call of an answer
must have one. Source: https://ai.google.dev/gemini-api/docs/thought-signatures."""


class ChatFormat(Format):
    """OpenAI's chat format for one model, with its provider's deviations."""

    path = "/chat/completions"

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
        if request.must_call and provider.tool_choice:
            tail["tool_choice"] = {"type": "function", "function": {"name": request.must_call}}
        if request.answer:
            wanted = request.answer.to_openai()
            tail["response_format"] = {"type": "json_schema", "json_schema": wanted}
        if request.tools and Demand.NO_EFFORT in self._target.demands:
            tail["reasoning_effort"] = "none"
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
        if Demand.ANSWERED_RESULTS in self._target.demands:
            for at in range(len(wired) - 1, 0, -1):
                if (wired[at - 1]["role"], wired[at]["role"]) == ("tool", "user"):
                    wired.insert(at, {"role": "assistant", "content": _READ})
        return wired

    def _adapt_answer(self, message: dict[str, Any], thought: str) -> None:
        """Bring an answer into the provider's form, and what it signed into that of its reply."""
        calls, demands = message.get("tool_calls", []), self._target.demands
        if details := [*filter(None, map(_detail, message.get("thinking_blocks", ())))]:
            message["reasoning_details"] = details
            del message["thinking_blocks"]
        wants_thinking = self._target.provider.wants_thinking and calls
        if wants_thinking or Demand.ALL_THOUGHTS in demands:
            message["reasoning_content"] = thought or NO_THOUGHT
        checks_calls = Demand.SIGNED_CALLS in demands or _CHECKS_CALLS.match(self._target.name)
        for number, call in enumerate(calls):
            call["id"] = self._target.fit_id(call["id"])
            fields = call.pop("provider_specific_fields", {})
            signature = fields.get(_SIGNATURE) or (_UNSIGNED if checks_calls and not number else "")
            if signature:
                google = {"extra_content": {"google": {_SIGNATURE: signature}}}
                call |= object_of(parse_json(signature)) or google


def _detail(block: JsonDict) -> JsonDict:
    """Return a part of `reasoning_details` as it came; {} for what is none."""
    detail = object_of(parse_json(block.get("signature") or block["data"]))
    return detail and detail | ({"text": block["thinking"]} if block.get("thinking") else {})


def _thoughts(messages: Sequence[Message]) -> list[str]:
    """Return the thinking of each answer that is sent."""
    return [
        message.thinking
        for message in messages
        if message.role is Role.ASSISTANT and is_sent(message)
    ]


_FORMATS = ("date-time", "enum")
_BELONGS = {"properties": "object", "required": "object", "items": "array"}
_LONGEST = 500


def tools_to_gemini(definitions: Iterable[ToolDefinition]) -> list[JsonDict]:
    """Return the tools in OpenAI's function format, their schemas in Gemini's.

    For one schema of another form Gemini refuses every request. What is left out stands in the
    description, and calls are checked by the whole schema. Reference:
    https://ai.google.dev/api/caching#Schema.
    """
    tools = tools_to_openai(definitions)
    for tool in tools:
        tool["function"]["parameters"] = _convert(tool["function"]["parameters"])
    return tools


def _convert(schema: JsonDict) -> JsonDict:
    """Return a schema of one type, with the keywords of that type; only texts are enumerated."""
    new = {key: _convert_inside(key, value) for key, value in schema.items()}
    given, values = new.pop("type", []), new.pop("enum", [])
    kinds = [each for each in ([given] if isinstance(given, str) else given) if each != "null"]
    texts = [each for each in values if isinstance(each, str) and each]
    if not given:
        kinds = [kind for key, kind in _BELONGS.items() if key in new][:1]
        kinds = kinds or ["string"] * bool(texts and len(texts) == len(values))
    kind = kinds[0] if len(kinds) == 1 else ""
    new = {key: value for key, value in new.items() if _BELONGS.get(key, kind) == kind}
    if len(kinds) > 1 and "anyOf" not in new:
        new["anyOf"] = [_convert({**schema, "type": each, "description": ""}) for each in kinds]
    elif kind or given:
        new["type"] = kind or "null"
    words = [new.pop("description", "")]
    if texts and kind == "string":
        new["enum"] = texts
    if values != new.get("enum", []):
        words.append(f"(one of: {ellipsize(json.dumps(values)[1:-1], _LONGEST)})")
    if kind == "string" and new.get("format", "enum") not in _FORMATS:
        words.append(f"(format: {new.pop('format')})")
    return new | ({"description": text} if (text := " ".join(filter(None, words))) else {})


def _convert_inside(key: str, value: Any) -> Any:
    if key == "properties" and isinstance(value, dict):
        return {name: _convert(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_convert(each) if isinstance(each, dict) else each for each in value]
    return _convert(value) if isinstance(value, dict) and key != "default" else value


Kind = Literal["content", "thinking"]
Piece = tuple[Kind, str]

_NAMES = (
    *("think", "thinking", "thought", "reasoning"),
    *("seed:think", "mm:think", "longcat_think"),
)
_TAGS = {
    **{f"<{name}>": f"</{name}>" for name in _NAMES},
    "[THINK]": "[/THINK]",  # Mistral
    "◁think▷": "◁/think▷",  # Kimi
    **dict.fromkeys(  # GPT
        ("<|channel|>analysis<|message|>", "<|start|>assistant<|channel|>analysis<|message|>"),
        "<|end|><|start|>assistant<|channel|>final<|message|>",
    ),
    "<|channel>thought": "<channel|>",  # Gemma
    "<|START_THINKING|>": "<|END_THINKING|>",  # Cohere
}
_MOST_BLANKS = 4_096
"""Blanks that are held back for a tag: a reply of blanks that never ends has to be seen as one."""


class ThinkTags:
    """Tells thinking at the beginning of an answer from the answer.

    Tags count only before any other text: later, the model writes about them.
    """

    def __init__(self) -> None:
        self.is_done = False
        """True if the rest of the answer is text as it comes."""
        self._state: Literal["start", "thinking", "after"] = "start"
        self._held = self._end = ""
        self._dropped = 0
        """Blanks left out between the thinking and the answer."""

    def feed(self, text: str) -> Iterator[Piece]:
        """Yield the complete parts after `text`; part of a tag is held back."""
        self._held += text
        if self._state == "start":
            self._look_for_begin()
        if self._state == "thinking":
            yield from self._think()
        if self._state == "after":
            answer = self._held.lstrip()
            self._dropped += len(self._held) - len(answer)
            self._held = answer
            self.is_done = bool(answer) or self._dropped > _MOST_BLANKS
        if self.is_done:
            yield from self.end()

    def end(self) -> Iterator[Piece]:
        """Yield the text held back."""
        held, self._held = self._held, ""
        if held:
            yield "thinking" if self._state == "thinking" else "content", held

    def _look_for_begin(self) -> None:
        start = self._held.lstrip()
        if begin := next(filter(start.startswith, _TAGS), ""):
            self._state, self._end = "thinking", _TAGS[begin]
            self._held = start.removeprefix(begin).lstrip("\n")
        elif not any(tag.startswith(start) for tag in _TAGS) or len(self._held) > _MOST_BLANKS:
            self.is_done = True

    def _think(self) -> Iterator[Piece]:
        thought, tag, rest = self._held.partition(self._end)
        held = 0 if tag else _count_held(thought, self._end)
        if shown := thought[: len(thought) - held]:
            yield "thinking", shown
        self._held = rest if tag else thought[len(thought) - held :]
        if tag:
            self._state = "after"


def _count_held(text: str, tag: str) -> int:
    """Return how many characters at the end may be the beginning of the closing tag."""
    return next((size for size in range(len(tag) - 1, 0, -1) if text.endswith(tag[:size])), 0)


_THOUGHTS = ("reasoning_content", "reasoning", "reasoning_text", "thinking")
"""DeepSeek and most servers; OpenRouter, Groq and newer vLLM; Copilot; Ollama's own."""

_MALFORMED = re.compile(r"(?i)malformed_function_call|unexpected_tool_call")
_NUMBERED = {0: "", 1: "stop", 2: "length", 3: "safety", 4: "recitation"}
_OFFSET = 1_000
"""Numbers of calls between those of one choice and the next."""


class ChatReader(Reader):
    """Reads one reply in OpenAI's chat format; all its choices are one reply."""

    def __init__(self) -> None:
        super().__init__()
        self._tags = ThinkTags()
        self._calling: set[int] = set()
        """The choices that hold calls."""
        self._inputs: dict[int, str] = {}
        """The texts so far of calls with a text in the place of arguments, by number."""

    def _read(self, event: JsonDict) -> Iterator[StreamChunk]:
        """Yield the chunks of an event."""
        choices = objects_of(event.get("choices")) or _native_choice(event)
        deltas = [object_of(each.get("delta")) for each in choices]
        faults = [*filter(None, (each.get("error") for each in (event, *choices, *deltas)))]
        if faults or "error" in (event.get("object"), event.get("type")):
            raise ServiceError.in_stream(faults[0] if faults else event)
        usages = [each.get("usage") for each in (event, *choices, *deltas)]
        usage = next(filter(None, usages), None) or _other_usage(event)
        self._count(usage)
        # Only a reply that is complete is counted in an event of its own.
        self.may_end = bool(usage) and not choices and self.has_words
        for at, choice in enumerate(choices):
            offset = (count_of(choice.get("index")) or at) * _OFFSET
            if delta := object_of(choice.get("delta")):
                yield from self._read_delta(delta, offset)
            yield from self._read_text(text_of(choice.get("text")), offset)  # older completions
            if message := object_of(choice.get("message")):
                yield from self._read_delta(self._rest_of(message, offset), offset)
            if word := _reason(choice):
                yield from self._finish(word)

    def read_whole(self, body: JsonDict) -> Iterator[StreamChunk] | None:
        """Return the chunks of a reply that came in one piece."""
        choices = objects_of(body.get("choices")) or _native_choice(body)
        is_reply = any({"message", "delta", "text"} & each.keys() for each in choices) or body.get(
            "error"
        )
        return self.read(body) if is_reply else None

    def end(self) -> Iterator[StreamChunk]:
        """Yield the chunks held back."""
        for kind, text in self._tags.end():
            yield StreamChunk(type=kind, data=text)
        for index, text in self._inputs.items():
            data = text if text.startswith("{") else json.dumps({"input": text})
            yield StreamChunk(type="tool_call", data=data, index=index)
        self._inputs.clear()

    def _count(self, usage: object) -> None:
        if isinstance(usage, dict) and usage:
            self.usage = update_tokens(self.usage, usage)
            self.cost_usd = read_cost(usage.get("cost"), self.cost_usd)

    def _finish(self, word: str) -> Iterator[StreamChunk]:
        if _MALFORMED.search(word):  # Gemini
            raise ServiceError.in_stream({"message": f"the reply ended as {word}", "code": word})
        if finish := [*self._finish_by(word)]:
            yield from self.end()
            yield from finish

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
        if offset in self._calling:
            rest |= {"tool_calls": None, "function_call": None}
        return rest

    def _read_delta(self, delta: JsonDict, offset: int) -> Iterator[StreamChunk]:
        yield from self._read_thinking(delta)
        content = delta.get("content")
        if isinstance(content, str):
            yield from self._read_text(content, offset)
        else:
            for part in _parts(content):  # Mistral
                yield from self._thought("".join(_texts(part.get("thinking"))))
                yield from self._read_text(text_of(part.get("text")), offset)
        if refusal := text_of(delta.get("refusal")):
            self.is_refusal = True
            yield from self._read_text(refusal, offset)
        calls = objects_of(delta.get("tool_calls"))
        calls += [part for part in _parts(content) if part.get("type") == "tool_use"]
        if not calls and (old := object_of(delta.get("function_call"))):
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
        function = _function_of(call) or call
        index = count_of(call.get("index"))
        index = offset + (number if index is None else index)
        self._calling.add(offset)
        arguments = _arguments_of(function, call)
        if custom := object_of(call.get("custom")):
            self._inputs[index] = self._inputs.get(index, "") + text_of(custom.get("input"))
            arguments = None
        # Some servers send the object itself instead of its text.
        is_text = arguments is None or isinstance(arguments, str)
        text = text_of(arguments) if is_text else json.dumps(arguments)
        yield StreamChunk(
            type="tool_call",
            data=self._join(("call", index), text),
            index=index,
            id=well_formed(text_of(call.get("id"))),
            name=well_formed(text_of(function.get("name"))),
        )
        if signature := _signature_of(call):
            yield StreamChunk(type="signature", data=signature, index=index, name="call")


def _function_of(call: JsonDict) -> JsonDict:
    """Return the function of a call, or what takes a text in the place of arguments."""
    return object_of(call.get("function")) or object_of(call.get("custom"))


def _signature_of(call: JsonDict) -> str:
    """Return the signature of a call: Google's alone, others with the fields that hold them."""
    google = object_of(object_of(call.get("extra_content")).get("google"))
    held = {name: value for name in _SIGNED if (value := call.get(name))}
    held = {name: value for name, value in held.items() if _SIGNATURE in json.dumps({name: value})}
    return text_of(google.get(_SIGNATURE)) or (json.dumps(held) if held else "")


def _arguments_of(*places: JsonDict) -> object:
    """Return a call's arguments by any name: without them it would run as if it had none."""
    given = (each.get(name) for each in places for name in ARGUMENTS)
    return next((each for each in given if each not in (None, "")), None)


def _reason(choice: JsonDict) -> str:
    """Return a choice's reason to end; Gemini's gateways send its number, some another name."""
    word = choice.get("finish_reason")
    if word is None:
        return text_of(choice.get("finishReason", choice.get("stop_reason")))
    return _NUMBERED.get(word, str(word)) if type(word) is int else text_of(word)


def _parts(content: object) -> list[JsonDict]:
    """Return the parts of a content; a part may be a plain text."""
    each_of = content if isinstance(content, list) else [content]
    return objects_of([{"text": each} if isinstance(each, str) else each for each in each_of])


def _texts(content: object) -> list[str]:
    return [text_of(part.get("text")) for part in _parts(content)]


def _details(delta: JsonDict) -> str:
    """Return the readable part of OpenRouter's `reasoning_details`."""
    details = objects_of(delta.get("reasoning_details"))
    return "".join(text_of(d.get("text")) or text_of(d.get("summary")) for d in details)


def _native_choice(event: JsonDict) -> list[JsonDict]:
    """Return what Ollama's own format says as a choice; it comes in pieces."""
    if "done" not in event or not isinstance(event.get("message"), dict):
        return []
    word = event.get("done_reason") or ("stop" if event["done"] else None)
    return [{"delta": event["message"], "finish_reason": word}]


def _other_usage(event: JsonDict) -> object:
    """Return the counts of Groq, of Gemini's gateways, or of Ollama's own format."""
    if "done" in event:
        return event
    return event.get("usageMetadata") or object_of(event.get("x_groq")).get("usage")
