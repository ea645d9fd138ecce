"""The wire format: messages to OpenAI's chat format, and streamed chunks back to a message.

Pure functions and one accumulator; nothing here knows who carries the bytes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import accumulate, chain, groupby
from typing import TypeVar

from pydantic_core import from_json

from ipyagent import schema
from ipyagent.errors import ModelRefusedError
from ipyagent.json_types import JsonDict, parse_arguments, well_formed
from ipyagent.plaintext import ellipsize

_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_-]")
_BAD_START = re.compile(r"^(?=[^a-zA-Z_])")  # Gemini
_LONGEST_NAME = 64
MAX_NAME = 100
"""Characters of a tool's name that are kept; providers take 64."""
MAX_BLOCKS = 10_000
"""Parts of a reply: some services begin one with each piece of a call."""

_BEGIN_OF_THOUGHT = re.compile(r"\s*(<(seed:)?think(ing)?>|\[THINK\]|◁think▷)")
_END_OF_THOUGHT = re.compile(
    r"(?:</(?:seed:)?think(?:ing)?>|\[/THINK\]|◁/think▷)(?=\s*\n|\s*$|[^\s.,:;!?`'\")\]|])\s*"
)
"""The end of a thought; text about the tag goes on in its line."""

_BEGIN_OF_ANSWER = re.compile(
    r"\A\s*(?:(?:<\|start\|>assistant)?<\|channel\|>final<\|message\|>|<\|START_RESPONSE\|>)"
)
_ENDS_OF_TURN = re.compile(
    r"(?:(?:<\|(?:im_end|eot_id|eom_id|endoftext|end_of_text|return|end|END_RESPONSE)\|>"
    r"|<end_of_turn>|<[|\uff5c]end▁of▁sentence[|\uff5c]>|(?<![^\s.!?])</s>)\s*)+\Z"
)
"""Marks of templates around an answer, which servers that do not know a template pass on."""
_TAIL = 1_000
"""Characters at the end of an answer among which such marks are looked for."""

_DECODER = json.JSONDecoder()
_EMPTY: tuple[object, ...] = ({}, None, "")

CUT = "the reply was cut at the model's length limit"


def to_openai(messages: Iterable[schema.Message], *, vision: bool) -> list[JsonDict]:
    """Return the conversation in OpenAI's chat format; equal messages give equal bytes.

    Consecutive user messages become one: many chat templates insist on taking turns. Blocks of
    unknown types are left out, and so is what the format has no place for: ids and summaries of
    thinking, `item_id` of calls.
    """
    spoken = filter(is_sent, messages)
    wired: list[JsonDict] = []
    for role, turn in groupby(spoken, key=lambda message: message.role):
        if role is schema.Role.USER:
            wired += _user(chain.from_iterable(message.content for message in turn), vision)
        elif role is schema.Role.ASSISTANT:
            wired += map(_assistant, turn)
        else:
            wired += ({"role": "system", "content": well_formed(m.text)} for m in turn)
    return wired


def is_sent(message: schema.Message) -> bool:
    """Return whether a model is sent the message: an answer without words or calls is left out."""
    return bool(
        message.role is not schema.Role.ASSISTANT or message.text.strip() or message.tool_calls
    )


def own_thoughts(messages: Iterable[schema.Message], maker: str) -> Iterator[schema.Message]:
    """Yield the messages without what others than `maker` signed or encrypted.

    Services refuse it. The thoughts that can be read stay.
    """
    for message in messages:
        if message.role is not schema.Role.ASSISTANT or message.maker == maker:
            yield message
        else:
            blocks = tuple(map(_without_signatures, message.content))
            yield message.model_copy(update={"content": blocks})


def _without_signatures(block: schema.Block) -> schema.Block:
    match block:
        case schema.ThinkingContent():
            return schema.ThinkingContent(thinking=block.thinking)
        case schema.ToolCall(thought_signature=str()):
            return block.model_copy(update={"thought_signature": None})
    return block


def tools_to_openai(definitions: Iterable[schema.ToolDefinition]) -> list[JsonDict]:
    """Return the tools in OpenAI's function format."""
    return [definition.to_openai() for definition in definitions]


def _assistant(message: schema.Message) -> JsonDict:
    text = well_formed(message.text) if message.text.strip() else None
    wired: JsonDict = {"role": "assistant", "content": text}
    thoughts = [block for block in message.content if isinstance(block, schema.ThinkingContent)]
    if verifiable := [each.to_anthropic() for each in thoughts if _is_verifiable(each)]:
        wired["thinking_blocks"] = verifiable
    if message.tool_calls:
        wired["tool_calls"] = [_call(call) for call in message.tool_calls]
    return wired


def legal_name(name: str) -> str:
    """Return a tool's name as every service takes it.

    Models call tools that are not there, and a name that is refused would be refused for ever.
    """
    return _BAD_START.sub("_", _NOT_IN_NAMES.sub("_", name))[:_LONGEST_NAME]


def _is_verifiable(thought: schema.ThinkingContent) -> bool:
    """Return whether its provider can verify it; those that sign refuse unsigned thinking."""
    return bool(thought.signature or (thought.encrypted_content and not thought.id))


def _call(call: schema.ToolCall) -> JsonDict:
    arguments = json.dumps(
        call.arguments, ensure_ascii=False, sort_keys=True, separators=(",", ":")
    )
    function = {"name": legal_name(call.name), "arguments": well_formed(arguments)}
    wired = {"id": call.id, "type": "function", "function": function}
    if call.thought_signature:
        wired["provider_specific_fields"] = {"thought_signature": call.thought_signature}
    return wired


def _user(blocks: Iterable[schema.Block], vision: bool) -> Iterator[JsonDict]:
    """Yield tool results first, each a message; then the rest, and the results' images."""
    parts: list[JsonDict] = []
    for block in blocks:
        match block:
            case schema.ToolResultContent():
                yield {
                    "role": "tool",
                    "tool_call_id": block.tool_use_id,
                    "content": _result_text(block, vision),
                }
                if vision:
                    parts += [
                        b.to_openai() for b in block.content if isinstance(b, schema.ImageContent)
                    ]
            case schema.TextContent(text=text):
                parts.append({"type": "text", "text": well_formed(text)})
            case schema.ImageContent():
                note = {"type": "text", "text": describe_image(block, vision=False)}
                parts.append(block.to_openai() if vision else note)
    if all(part["type"] == "text" for part in parts):
        if content := "\n".join(part["text"] for part in parts):
            yield {"role": "user", "content": content}
    else:
        yield {"role": "user", "content": parts}


def _result_text(result: schema.ToolResultContent, vision: bool) -> str:
    lines = (
        describe_image(block, vision)
        if isinstance(block, schema.ImageContent)
        else well_formed(block.text)
        for block in result.content
        if not isinstance(block, schema.OpaqueContent)
    )
    text = "\n".join(lines)
    text = text if text.strip() else "(no output)"
    return f"Error: {text}" if result.is_error and not text.startswith("Error") else text


def describe_image(image: schema.ImageContent, vision: bool) -> str:
    """Return the words that stand for an image where none can be."""
    size = f" {image.width}×{image.height}" if image.width and image.height else ""  # noqa: RUF001
    if vision:
        return f"[image{size}, shown below]"
    return f"[image{size} not shown: this model cannot see images]"


@dataclass
class _Text:
    pieces: list[str] = field(default_factory=list)


@dataclass
class _Call:
    index: int
    id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list)
    signature: str = ""


@dataclass
class _Thinking:
    text: list[str] = field(default_factory=list)
    signature: str = ""
    encrypted: str = ""
    id: str = ""
    index: int = 0


_AnyBlock = TypeVar("_AnyBlock", _Text, _Thinking, _Call)


class ReplyBuilder:
    """Folds chunks; `message()` works at any time, so an interrupted reply can be kept.

    Blocks stay in the order in which they began: services that sign thoughts refuse another one.
    A signature named `call` belongs to the call of its index, one named `encrypted` is a thought
    that only the provider can read; any other ends the thought before it. Calls keep the provider's
    ids, the first one where several have the same; others are named `{prefix}_1`, `{prefix}_2`, ….
    A call that came whole before, with the same id, is left out.
    """

    def __init__(self, prefix: str = "call_1") -> None:
        self.finish_reason: str | None = None
        self.usage = schema.NO_TOKENS
        self.cost_usd: float | None = None
        self.maker: str | None = None
        self._prefix = prefix
        self._blocks: list[_Text | _Thinking | _Call] = []
        self._thinking: _Thinking | None = None
        """The last thought."""
        self._at: dict[int | str, _Call] = {}
        """Calls by id, and the last one of each index."""
        self._written: _Call | None = None
        """The call to which the last piece belongs."""

    def add(self, chunk: schema.StreamChunk) -> None:
        """Add the next chunk."""
        match chunk.type:
            case "content":
                self._add_text(chunk.data)
            case "signature" if chunk.name == "call":
                call = self._at.get(chunk.index)
                if call and not call.signature.endswith(chunk.data):  # some send it with each piece
                    call.signature += chunk.data
            case "thinking" | "signature":
                self._add_thinking(chunk)
            case "tool_call":
                self._add_call(chunk)
            case "usage":
                self.usage = chunk.usage or self.usage
                self.cost_usd = chunk.cost_usd
            case "finish":
                self.finish_reason = well_formed(chunk.data)

    def written_call(self) -> tuple[int, str, JsonDict]:
        """Return the call that is being written: its place, its tool, and its arguments so far."""
        call = self._written
        if call is None:
            return 0, "", {}
        try:
            found = from_json("".join(call.arguments), allow_partial="trailing-strings")
        except ValueError:
            found = {}
        place = sum(isinstance(each, _Call) for each in self._blocks)
        return place, well_formed(call.name), found if isinstance(found, dict) else {}

    def message(self) -> schema.Message | None:
        """Return the reply so far, its blocks in their order; None if it is empty."""
        joined = self._join_calls()
        calls = self._tool_calls([each for each in joined if isinstance(each, _Call)])
        blocks: list[schema.Block] = []
        for each in joined:
            match each:
                case _Text() if text := well_formed("".join(each.pieces)):
                    blocks += _split_thought(text)
                case _Thinking():
                    blocks.append(_thought(each))
                case _Call() if call := next(calls):
                    blocks.append(call)
        content = tuple(blocks)
        if not any(not isinstance(b, schema.TextContent) or b.text.strip() for b in content):
            return None
        return schema.Message(role=schema.Role.ASSISTANT, content=content, maker=self.maker)

    def _begin(self, block: _AnyBlock) -> _AnyBlock:
        """Add a block; raises ModelRefusedError for one more than a reply may have."""
        if len(self._blocks) == MAX_BLOCKS:
            raise ModelRefusedError(f"The reply was ended at {MAX_BLOCKS:,} calls and thoughts.")
        self._blocks.append(block)
        return block

    def _add_text(self, text: str) -> None:
        last = self._blocks[-1] if self._blocks else None
        if not isinstance(last, _Text):
            last = self._begin(_Text())
        last.pieces.append(text)

    def _add_thinking(self, chunk: schema.StreamChunk) -> None:
        """Add thinking: a signature ends its block, encrypted thinking is a block of its own."""
        encrypted, last = chunk.name == "encrypted", self._thinking
        if (
            last is None
            or encrypted
            or last.encrypted
            or last.index != chunk.index
            or (last.signature and chunk.type == "thinking")
        ):
            self._thinking = last = self._begin(_Thinking(index=chunk.index))
        if encrypted:
            last.encrypted, last.id = chunk.data, chunk.id
        elif chunk.type == "signature":
            last.signature += chunk.data
        else:
            last.text.append(chunk.data)

    def _add_call(self, chunk: schema.StreamChunk) -> None:
        """Add a piece of a call: that of its id, or the last of its index."""
        call = self._at.get(chunk.id or chunk.index) or self._at.get(chunk.index)
        if not (chunk.id or chunk.name):
            if not chunk.data:
                return
            if call is None or _read_arguments(call.arguments):
                call = self._unfinished_call() or call
        if call is None or _begins_another(chunk, call):
            call = self._begin(_Call(chunk.index))
        call.id = call.id or chunk.id
        if not (call.name and any(call.arguments)):
            call.name = chunk.name if chunk.name.startswith(call.name) else call.name + chunk.name
        call.arguments.append(chunk.data)
        self._written = call
        self._at[chunk.index] = self._at[chunk.id or chunk.index] = call

    def _unfinished_call(self) -> _Call | None:
        """Return the last call if its arguments are not whole: some servers number these anew."""
        last = self._blocks[-1] if self._blocks else None
        return last if isinstance(last, _Call) and not _read_arguments(last.arguments) else None

    def _join_calls(self) -> list[_Text | _Thinking | _Call]:
        """Return the blocks, with each call that turned out to go on with the last one joined."""
        joined: list[_Text | _Thinking | _Call] = []
        for each in self._blocks:
            last = joined[-1] if joined else None
            if not isinstance(each, _Call):
                joined.append(each)
            elif isinstance(last, _Call) and _goes_on(last, each):
                last.arguments += each.arguments
                last.signature = last.signature or each.signature
            else:
                joined.append(replace(each, arguments=[*each.arguments]))
        return joined

    def _tool_calls(self, made: list[_Call]) -> Iterator[schema.ToolCall | None]:
        """Yield the calls; None for one that came before, with the same id."""
        used_ids, seen = {call.id for call in made}, set[str]()
        for number, call in enumerate(made, start=1):
            arguments, problem = parse_arguments(_last_object(call.arguments))
            mark = json.dumps([call.id, call.name, arguments, problem])
            if call.id and mark in seen:
                yield None
                continue
            own = "" if call.id in seen else call.id
            seen |= {call.id, mark}
            name = well_formed(call.name) or "unknown"
            if not call.name:
                problem = "the call does not name a tool"
            if len(name) > MAX_NAME:
                problem = f"no tool has a name of {len(name):,} characters"
                name = ellipsize(name, MAX_NAME)
            if self.finish_reason == "length":
                problem = CUT
            yield schema.ToolCall(
                id=well_formed(own) or _free(f"{self._prefix}_{number}", used_ids),
                name=name,
                arguments=arguments,
                parse_error=problem,
                thought_signature=well_formed(call.signature) or None,
            )


def _thought(block: _Thinking) -> schema.ThinkingContent:
    return schema.ThinkingContent(
        thinking=well_formed("".join(block.text)),
        signature=well_formed(block.signature),
        encrypted_content=well_formed(block.encrypted),
        id=well_formed(block.id),
    )


def _begins_another(chunk: schema.StreamChunk, call: _Call) -> bool:
    """Return whether the chunk starts a new call with a used index: some servers count badly.

    A name alone does so only after whole arguments: others send it in pieces, or with each piece.
    """
    if not chunk.name or not call.name:
        return False
    if chunk.id and call.id:
        is_new = (chunk.name, chunk.index) != (call.name, call.index)
        return chunk.id != call.id or (is_new and _read_arguments(call.arguments) is not None)
    if chunk.name != call.name:
        return any(call.arguments)
    return bool(_read_arguments(call.arguments)) and chunk.data != "".join(call.arguments)


def _goes_on(call: _Call, other: _Call) -> bool:
    """Return whether the other call is the rest of this one: some servers send ids with each piece.

    That is certain only at the end, when no more pieces can have made either whole.
    """
    is_like = (call.index, call.name) == (other.index, other.name) and any(other.arguments)
    is_whole = any(call.arguments) and _read_arguments(other.arguments) is not None
    return is_like and not is_whole and _read_arguments(call.arguments) is None


def _read_arguments(pieces: list[str]) -> JsonDict | None:
    """Return the object that a call's arguments are; None until they are whole."""
    last = next((piece for piece in reversed(pieces) if piece.strip()), "")
    if not last.rstrip().endswith("}"):
        return None
    arguments, problem = parse_arguments("".join(pieces))
    return None if problem else arguments


def _last_object(pieces: list[str]) -> str:
    """Return a call's arguments, also of those that begin again after empty ones.

    An object that only repeats the one before it is the same one, and so is one that grows with
    each piece, that begins again in its last piece, or that came as a text within a text.
    """
    text, filled = "".join(pieces), [piece for piece in pieces if piece.strip()]
    if len(filled) > 2 and text[0] == "{" and all(map(str.startswith, filled[1:], filled)):
        return filled[-1]
    before = "".join(filled[:-1])
    if before and filled[-1].startswith(before) and _read_arguments(filled[-1:]):
        return filled[-1]
    try:
        value, end = _DECODER.raw_decode(text)
    except (ValueError, RecursionError):
        return text
    first, rest = text[:end], text[end:].strip()
    if isinstance(value, str) and value.startswith("{") and not rest:
        return value
    if rest == "{}" and value:
        return first
    if not rest.startswith("{"):
        return text
    if rest == first or (value and parse_arguments(rest)[0] == value):
        start = len(text) - len(text[end:].lstrip())
        return rest if start in accumulate(map(len, pieces)) else text
    return rest if value in _EMPTY else text


def _split_thought(text: str) -> Iterator[schema.Block]:
    """Yield a text, without the thought that ends in a tag which never began.

    The opening tag of such a thought is in the prompt of many models.
    """
    if end := _END_OF_THOUGHT.search(text):
        thought = text[: end.start()]
        if begin := _BEGIN_OF_THOUGHT.match(thought):
            thought = thought[begin.end() :]
        if not _BEGIN_OF_THOUGHT.search(thought) and thought.count("`") % 2 == 0:
            if thought.strip():
                yield schema.ThinkingContent(thinking=thought.strip())
            text = text[end.end() :]
    text = _BEGIN_OF_ANSWER.sub("", text)
    if text := text[:-_TAIL] + _ENDS_OF_TURN.sub("", text[-_TAIL:]):
        yield schema.TextContent(text=text)


def _free(name: str, used_ids: set[str]) -> str:
    while name in used_ids:
        name += "_"
    used_ids.add(name)
    return name
